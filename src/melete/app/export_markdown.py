"""A session as Markdown that reads well as text and on a page; nothing that stands in it can break it. Composition root, pure."""

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

from melete.app.export_text import Fields, arguments, cut, main_argument, one_line, result, when
from melete.app.export_turns import Call, Mark, Page, Turn, Words
from melete.app.figures import duration
from melete.core.message import Image

LONGEST = 1_500
"""Characters of one text of a call or a result, where not everything is wanted."""
LINE = 300
"""Characters of short values up to which they stand on a line of their own."""
OUTCOMES = {"ok": "✓", "open": "…", "denied": "⊘", "cancelled": "⊘", "not_run": "⊘"}
FAILED = "✗"
LEVELS = {"info": "·", "warning": "⚠", "error": "✗"}
PARSED = 200_000
"""Characters up to which a model's Markdown is taken as such."""
END = "THE END OF IT"

_SPECIAL = re.compile(r"[\\`*\[\]<|]|(?<!\w)_|_(?!\w)|~(?=~)|&(?=#?\w+;)")
_BEGINNING = re.compile(r"^(\d*)([-+=#>.)])")
_FENCE = re.compile(r"`{3,}|~{3,}")
_TAG = re.compile(r"<(?=[a-zA-Z/!?])(?!https?://[^\s<>]*>|mailto:[^\s<>]*>)")
_REMOTE = re.compile(r"!(?=\[[^\]]*\]\()")


def markdown(page: Page, *, full: bool = False) -> str:
    """The whole page; texts of calls and results are cut where they are long, with what is missing told, unless `full`."""
    return "\n".join(_page(page, None if full else LONGEST)) + "\n"


def _page(page: Page, limit: int | None) -> Iterator[str]:
    yield f"# {_plain(page.title)}"
    yield ""
    yield "| | |"
    yield "|---|---|"
    for name, value in page.about:
        yield f"| {_plain(name)} | {_plain(value)} |"
    for entry in page.entries:
        yield ""
        match entry:
            case Words():
                yield from _words(entry)
            case Turn():
                yield from _turn(entry, limit)
            case Mark():
                yield f"*{LEVELS[entry.level]} {_plain(entry.text)}*"


def _words(words: Words) -> Iterator[str]:
    yield f"## {_plain(words.who)} — {when(words.at)}"
    yield ""
    yield from _quoted(words.text)
    for image in words.images:
        yield f"> *{_picture(image)}*"
    for other in words.others:
        yield f"> *{_plain(other)}*"


def _turn(turn: Turn, limit: int | None) -> Iterator[str]:
    yield f"### Step {turn.number} — {_plain(turn.model)}"
    if turn.thinking:
        yield ""
        yield "Thoughts:"
        yield ""
        yield from _fenced(turn.thinking, limit)
    if turn.text:
        yield ""
        yield from _whole(turn.text)
    if turn.note:
        yield ""
        yield f"*({_plain(turn.note)})*"
    for call in turn.calls:
        yield ""
        yield from _call(call, limit)


def _call(call: Call, limit: int | None) -> Iterator[str]:
    mark = OUTCOMES.get(call.outcome, FAILED)
    end = [call.outcome.replace("_", " ")] if call.outcome != "ok" else []
    end += [duration(call.seconds)] if call.seconds else []
    tail = f" ({', '.join(end)})" if end else ""
    main = main_argument(call.arguments)
    shown = f" {_code(main)}" if main else ""
    yield f"{mark} **{_plain(one_line(call.name))}**{shown}{tail}"
    yield from _fields("with", arguments(call.arguments), limit)
    if call.content:
        yield from _fields("result", result(call.content), limit)
    for image in call.images:
        yield ""
        yield f"*{_picture(image)}*"
    if call.spilled:
        yield ""
        yield f"*All of it: {_code(one_line(call.spilled))}*"


def _fields(what: str, found: Fields, limit: int | None) -> Iterator[str]:
    if found.short and len(found.short) <= LINE:
        yield ""
        yield f"{what} {_code(found.short)}"
    texts = [(what, found.plain)] if found.plain else []
    texts += [(what, found.short)] if len(found.short) > LINE else []
    texts += [(f"{what}: {field.name}", field.text) for field in found.long]
    for name, text in texts:
        yield ""
        yield _plain(name)
        yield ""
        yield from _fenced(text, limit)


def _fenced(text: str, limit: int | None) -> Iterator[str]:
    part = cut(text, limit)
    longest = max((len(found[0]) for found in _FENCE.finditer(text)), default=2)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}text"
    yield part.head.rstrip("\n")
    if part.missing:
        yield f"[… {part.missing:,} of {len(text):,} characters left out …]"
        yield part.tail.rstrip("\n")
    yield fence


def _quoted(text: str) -> Iterator[str]:
    """What a person wrote, word for word: Markdown in it is no Markdown of the page."""
    lines = text.split("\n")
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        bare = line.lstrip()
        indent = "&nbsp;" * (len(line.expandtabs(4)) - len(bare.expandtabs(4))) if bare else ""
        words = _BEGINNING.sub(r"\1\\\2", _plain(bare))
        wraps = "\\" if bare and after.strip() else ""
        yield f"> {indent}{words}{wraps}".rstrip()


def _whole(text: str) -> Iterator[str]:
    """The model's Markdown, headings below ours and HTML as text.

    A fenced text where it would not end where it ends, fetch a picture, or lead to a script.
    """
    lines, fence = _tamed(text)
    candidates = ["\n".join(lines), "\n".join([*lines, fence])] if len(text) <= PARSED else []
    for candidate in candidates:
        if _is_harmless(candidate):
            yield candidate
            return
    yield from _fenced(text, None)


def _is_harmless(text: str) -> bool:
    """Whether what follows the text would stand by itself, and nothing in it is fetched or run."""
    tokens = _parser.parse(f"{text}\n\n# {END}\n")
    ends = len(tokens) > 1 and tokens[-2].content == END and tokens[-3].type == "heading_open" and not tokens[-3].level
    return ends and not any(_acts(inner) for token in tokens for inner in token.children or ())


def _acts(token: Token) -> bool:
    """Whether it is a picture from elsewhere, or a link that no browser should follow."""
    leads = str(token.attrGet("href") or "") if token.type == "link_open" else ""
    return token.type == "image" or not _sound.validateLink(leads)


class _Parser(MarkdownIt):
    """Everything that any reader of Markdown might take for a link."""

    def validateLink(self, url: str) -> bool:  # noqa: ARG002 - the name and the form are the library's
        """Yes."""
        return True


def _tamed(text: str) -> tuple[list[str], str]:
    """The lines of a text, those outside of code without tags, and the fence that is open at their end."""
    fence, lines = "", list[str]()
    for line in text.split("\n"):
        bare = line.lstrip(" ")
        found = re.match(r"(`{3,}|~{3,})([^`]*)$", bare)
        lines.append(line if fence or found else _prose(line))
        if found and not fence:
            fence = found[1]
        elif found and found[1][0] == fence[0] and len(found[1]) >= len(fence) and not found[2].strip():
            fence = ""
    return lines, fence


def _prose(line: str) -> str:
    line = re.sub(r"^( {0,3})(#{1,6})(?=\s|$)", lambda found: f"{found[1]}{(found[2] + '###')[:6]}", line)
    return _REMOTE.sub("", _TAG.sub("&lt;", line))


def _picture(image: Image) -> str:
    size = f", {len(image.data) * 3 // 4:,} bytes" if image.data else ""
    return f"A picture ({_plain(one_line(image.media_type))}{size})" + (
        f": {_plain(one_line(image.url))}" if image.url else ""
    )


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


def _code(text: str) -> str:
    """The text as code inside a line, whatever backticks it holds."""
    longest = max((len(found) for found in re.findall(r"`+", text)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


_parser = _Parser("commonmark", {"html": True})
_sound = MarkdownIt("commonmark")
