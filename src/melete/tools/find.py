"""`tool_search`: the way to tools whose schemas no request carries. The composition root makes it for the tools of a session."""

import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import structs

from melete.core.tool import Result, Tool, ToolContext, ToolError, tool

NAME = "tool_search"
ROOM = 4_000
"""Bytes that the description may take, the list of tools included."""
LINE = 120
"""Characters of a tool's line in that list."""
SHOWN = 5
"""Matches whose schemas a search shows at most."""
SHARE = 0.6
"""Of the result's limit, what schemas may fill."""
NEAR = 3
DAY = 86_400.0

HOW = (
    "More tools, whose parameters are not shown here. query: find tools by words, with their parameters. "
    "name and arguments (an object, {} for none): run one."
)


def searching(tools: Sequence[Tool], *, room: int = ROOM, limit: int = 100_000) -> Tool:
    """`tool_search` over these tools; its description takes at most `room` bytes.

    What it runs keeps its own deadline, guards and limit; `limit` is at least the longest of these.
    """
    found = {one.name: one for one in tools}

    @tool(deadline=DAY, limit=limit)
    async def tool_search(
        ctx: ToolContext, *, query: str = "", name: str = "", arguments: dict[str, Any] | None = None
    ) -> Result:
        if name and arguments is not None:
            return await _run(ctx, found, name, arguments)
        schemas = int(SHARE * limit)
        return _described([_known(found, name)], room=schemas) if name else _matches(found, query, room=schemas)

    return structs.replace(tool_search, about=_about(tools, room))


async def _run(ctx: ToolContext, found: Mapping[str, Tool], name: str, arguments: Mapping[str, Any]) -> Result:
    if name == NAME:
        raise ToolError(f"{NAME} does not run itself; give the name of another tool")
    if name not in found and name not in _shown(ctx):
        _known(found, name)
    return await ctx.call(name, arguments)


def _shown(ctx: ToolContext) -> set[str]:
    """The tools that the session's frame shows: they may be run from here as well."""
    frame = ctx.session.transcript.frame
    return {schema.name for schema in frame.tools} if frame else set()


def _known(found: Mapping[str, Tool], name: str) -> Tool:
    if name in found:
        return found[name]
    near = difflib.get_close_matches(name, found, NEAR) or [one.name for one in ranked(found.values(), name)[:NEAR]]
    hint = f" Nearest: {', '.join(near)}." if near else f" Search with {NAME}(query=…)."
    raise ToolError(f"There is no tool {name!r}.{hint}", nearest=near)


def _matches(found: Mapping[str, Tool], query: str, *, room: int) -> dict[str, Any]:
    if not query.strip():
        return {"success": True, "names": sorted(found), "next": "give query, or name and arguments"}
    best = ranked(found.values(), query)
    if not best:
        near = difflib.get_close_matches(query, found, NEAR)
        return {"success": True, "tools": [], "next": "nothing matches; try other words", "nearest": near}
    return _described(best, room=room)


def _described(best: Sequence[Tool], *, room: int) -> dict[str, Any]:
    """The first tools with their schemas as far as there is room, the others by name."""
    tools: list[dict[str, Any]] = []
    for one in best[:SHOWN]:
        room -= len(one.about) + len(bytes(one.schema))
        if tools and room < 0:
            break
        tools.append({"name": one.name, "description": one.about, "parameters": one.schema})
    more = {"others": [one.name for one in best[len(tools) :][: 4 * SHOWN]]} if len(best) > len(tools) else {}
    return {"success": True, "tools": tools, **more, "next": f"run one: {NAME}(name, arguments)"}


# ---- ranking ---------------------------------------------------------------------------------------------------------

SATURATION, LENGTH = 1.2, 0.75
"""The usual constants of BM25: how fast repetition stops to count, and how much long texts are held back."""
IN_NAME, IN_PARAMETERS = 4, 2
"""How much more a word in a name, or in a parameter's, counts than one in a description."""
PREFIX = 4
"""Letters that two words share to count as forms of one."""
COMMON = frozenset({
    "a", "an", "and", "by", "do", "for", "from", "how", "i", "in", "is", "it", "me", "my", "of", "on", "or", "that", "the", "this",
    "to", "what", "which", "with", "you",
})  # fmt: skip
"""Words of a query that say nothing about a tool."""
FORM = 0.5
"""What another form of a word counts."""


def ranked(tools: Iterable[Tool], query: str) -> list[Tool]:
    """The tools that share a word with the query, the best first; the order is the same for the same tools."""
    documents = [(one, _words_of(one)) for one in tools]
    if not documents:
        return []
    mean = sum(words.total() for _, words in documents) / len(documents)
    asked = [(word, _rarity(word, documents)) for word in dict.fromkeys(words(query)) if word not in COMMON]
    scored = [
        (sum(rarity * _weight(_count(word, found), found.total(), mean) for word, rarity in asked), one)
        for one, found in documents
    ]
    best = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: (-pair[0], pair[1].name))
    exact = query.strip().lower()
    return sorted((one for _, one in best), key=lambda one: one.name.lower() != exact)


def words(text: str) -> list[str]:
    """The words of a text, those of names like `readFile` and `read_file` apart, a plural as its singular."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    found = re.findall(r"[^\W_]+", apart.lower())
    return [
        word[:-1] if len(word) > PREFIX - 1 and word.endswith("s") and not word.endswith("ss") else word
        for word in found
    ]


def _words_of(one: Tool) -> Counter[str]:
    counted = Counter(words(one.about))
    for word in words(one.name):
        counted[word] += IN_NAME
    for name, hint in _parameters(one):
        counted.update(words(hint))
        for word in words(name):
            counted[word] += IN_PARAMETERS
    return counted


def _parameters(one: Tool) -> Iterator[tuple[str, str]]:
    """A tool's parameters and what is said of each."""
    schema: Any = msgspec.json.decode(one.schema)
    properties: Any = cast("dict[str, Any]", schema).get("properties") if isinstance(schema, dict) else None
    fields = cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
    for name, field in fields.items():
        yield name, str(cast("dict[str, Any]", field).get("description", "")) if isinstance(field, dict) else ""


def _count(word: str, found: Counter[str]) -> float:
    """How often a word is there, other forms of it counted in part."""
    if exact := found.get(word, 0):
        return exact
    forms = (n for other, n in found.items() if _related(word, other))
    return FORM * max(forms, default=0)


def _related(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    if len(shorter) >= PREFIX and longer.startswith(shorter):
        return True
    return len(shorter) > PREFIX and one[: len(shorter) - 1] == other[: len(shorter) - 1]


def _rarity(word: str, documents: Sequence[tuple[Tool, Counter[str]]]) -> float:
    having = sum(_count(word, found) > 0 for _, found in documents)
    return math.log(1 + (len(documents) - having + 0.5) / (having + 0.5))


def _weight(count: float, length: int, mean: float) -> float:
    return count * (SATURATION + 1) / (count + SATURATION * (1 - LENGTH + LENGTH * length / mean)) if count else 0.0


# ---- the description -------------------------------------------------------------------------------------------------


def _about(tools: Sequence[Tool], room: int) -> str:
    """How to use it and what there is: a line each, or, where these are too long, names as far as they fit and a count."""
    if not tools:
        return HOW
    lines = "\n".join((HOW, *(_line(one) for one in tools)))
    if len(lines.encode()) <= room:
        return lines
    head = f"{HOW} {len(tools)} tools, among them: "
    left = room - len(head.encode()) - len(f" and {len(tools)} more")
    names: list[str] = []
    for one in tools:
        left -= len(one.name.encode()) + 2
        if left < 0:
            break
        names.append(one.name)
    missing = len(tools) - len(names)
    if not missing:
        return f"{HOW} The tools: {', '.join(names)}"
    return f"{head}{', '.join(names)} and {missing} more" if names else f"{HOW} There are {len(tools)}."


def _line(one: Tool) -> str:
    """A tool's name and its first sentence."""
    text = " ".join(one.about.split())
    sentence = re.match(r".{10,}?[.;:](?= |$)", text)
    short = sentence[0].rstrip(".;:") if sentence else text
    line = f"- {one.name}: {short}" if short else f"- {one.name}"
    return line if len(line) <= LINE else f"{line[: LINE - 1].rsplit(' ', 1)[0]}…"
