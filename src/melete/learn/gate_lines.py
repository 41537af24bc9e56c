"""The lines of a lesson and what they name: commands, options, paths, addresses, words, and places left open. Pure."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from melete.core.skill import MAIN
from melete.learn.gate_evidence import Ran, clauses, cue, orders, runs_of
from melete.security.words import UNKNOWN

FILLED: Final = "PLACEHOLDER"
CLOSE: Final = 12
"""Characters between a word that forbids and what it is about."""
_FENCE: Final = re.compile(r"^ {0,3}(?:```+|~~~+)\s*(\w*)")
_SHELL: Final = ("", "sh", "bash", "shell", "console", "zsh", "shellsession")
_HEADING: Final = re.compile(r"^ {0,3}#{1,6}\s+(.*)|^\*\*([^*]+)\*\*:?\s*$")
_LABEL: Final = re.compile(r"^[\s*+>\d.)-]*([^:`]{2,30}):")
_STEP: Final = re.compile(r"^\s*(?:[-*+]|\d+[.)])?\s*$")
_INDENTED: Final = re.compile(r"(?: {4}|\t)\s*(?![-*+>]\s|\d+[.)]\s)[\w$./~]")
SPAN: Final = re.compile(r"`+([^`]+)`+")
_PROMPT: Final = re.compile(r"^\s*(?:[$>%]\s+)?")
HOLE: Final = re.compile(
    r"\$\{?\w+\}?|<(?![^>]*(?<!\w)-)[\w .|/-]+>|\{\{?[\w .]+\}?\}|\[(?![^]]*(?<!\w)-)[\w .=-]+\]|\.\.\.|…"
)
_PLACE: Final = re.compile(
    rf"(?:{FILLED}(?!=)|(?<![^\W_])(?=(?:[0-9_-]*[A-Z]){{3}})[A-Z][A-Z0-9]*(?:[_-][A-Z0-9]+)*(?![^\W_]|=))+"
)
"""What stands within a word for what differs from task to task; a name that is set by a `=` is none."""
_AUTHORITY: Final = re.compile(
    r"(?:[a-z][\w+.-]*:)?//[^/?#]*?(?=:\w*(?:[/?#]|$)|[/?#]|$)|[^/\s]*@[^/\s]*|[^/\s:]+(?=:)", re.IGNORECASE
)
_VALUE: Final = re.compile(rf"[A-Z][A-Z0-9_-]*(?:\.\w{{1,4}})?|{FILLED}(?:\.\w{{1,4}})?|\$\{{?\w+\}}?|-*")
_PART: Final = rf"(?!-)[\w.+{UNKNOWN}-]+"
_URL: Final = re.compile(r"(?<![\w+.-])[a-z][a-z0-9+.-]{0,20}://[^\s`'\"<>)\]]+", re.IGNORECASE)
_HOST: Final = re.compile(
    r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b|\b(?:localhost|(?<![\w.-])[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}):\d{2,5}\b"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b"
)
_PATH: Final = re.compile(
    r"(?<![\w:/.~<-])(?:(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]*)*|[\w.@+-]+(?:/[\w.@+-]+)*"
    r"\.(?:py|toml|ya?ml|json|sh|md|cfg|ini|conf|env|js|ts|lock|sql|csv|txt|xml|rs|go|java|rb|service))(?![\w/])"
)
_FLAG: Final = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
_NAMED: Final = re.compile(
    r"(?<![\w/.-])(?:(?=\w{0,99}_)\w{0,99}[a-z]\w*_\w+|[A-Z][A-Z0-9]*_[A-Z0-9_]+|(?=\w{0,99}\d)(?=\w{0,99}[A-Za-z])\w{3,}|\d+(?:\.\d+)+|\d{2,}"
    r"|(?!\w+-(?:to|by|of|the|and|in|a|as|for|or|on)-)[a-z]\w*(?:-\w+){2,})(?![\w/-])"
)
_COMMAND: Final = re.compile(
    r"((?:(?:~|\.{1,2})?/)?[a-z][\w./-]*(?:\s+(?!(?:to|for|in|on|when|and|then|before|after|with|or|if|the|a|an|it|is)\b)[\w./=@:-]+){1,5}(?:\s+-[\w./=@:-]+)*)"
)


class Line(Struct, frozen=True, kw_only=True):
    """A line that is new. `head` says that it names or describes, `warns` that it stands among pitfalls, `code` is the fence's
    language, None outside of one."""

    text: str
    path: str
    head: bool = False
    warns: bool = False
    code: str | None = None


class Named(Struct, frozen=True, kw_only=True):
    """What a line names: `denied` where it warns of it, `ordered` where it says to do it, `forbidden` where it says not to."""

    kind: str
    text: str
    denied: bool = False
    ordered: bool = False
    forbidden: bool = False


def added_lines(before: Mapping[str, str], after: Mapping[str, str]) -> list[Line]:
    """The lines that were not there; one that was moved out of the pitfalls is new as well."""
    found: list[Line] = []
    for path, text in after.items():
        old = Counter((line.text.strip(), line.warns, line.code) for line in walk(path, before.get(path, "")))
        for line in walk(path, text):
            key = (line.text.strip(), line.warns, line.code)
            if old[key]:
                old[key] -= 1
            elif key[0]:
                found.append(line)
    return found


def walk(path: str, text: str) -> Iterator[Line]:
    """Every line of a text, with what it stands in."""
    front, fence, warns, gap = False, None, False, True
    for number, line in enumerate(text.replace("\\\n", " ").splitlines()):
        if line.strip() == "---" and path.endswith(MAIN) and (front or not number):
            front = not front
        elif not front and (edge := _FENCE.match(line)):
            fence = edge[1].lower() if fence is None else None
        elif fence is None and not front and (heading := _HEADING.match(line)):
            warns = cue("warns").search(heading[1] or heading[2]) is not None
            yield Line(text=line, path=path, head=True, warns=warns)
        else:
            label = _LABEL.match(line)
            own = fence is None and label is not None and cue("warns").search(label[1]) is not None
            block = "" if gap and _INDENTED.match(line) and not front else fence
            yield Line(text=line, path=path, head=front, warns=warns or own, code=block)
        gap = not line.strip() or (gap and _INDENTED.match(line) is not None)


def named_in(line: Line) -> list[Named]:
    """What a line names, in code and outside of it."""
    if line.code is not None:
        text = _PROMPT.sub("", line.text).strip()
        kind = "command" if line.code in _SHELL else "code"
        return [Named(kind=kind, text=text, denied=line.warns, ordered=True)] * (text[:1] not in ("", "#", "/"))
    found: list[Named] = []
    for clause, denied in clauses(line.text, warns=line.warns):
        told = [one.end() for one in orders(clause)]
        taboo = [one.end() for one in cue("forbids").finditer(clause)]
        for span in SPAN.finditer(clause):
            ordered = bool(_STEP.match(clause[: span.start()])) or any(one <= span.start() for one in told)
            text = span[1].strip()
            never = any(0 <= span.start() - one <= CLOSE for one in taboo) and not cue("condition").search(line.text)
            found.append(Named(kind=kind_of(text), text=text, denied=denied, ordered=ordered, forbidden=never))
        found += (Named(kind=kind, text=text, denied=denied) for kind, text in plain(SPAN.sub(" ", clause)))
    return found


def programs_of(one: Named) -> tuple[Ran, ...]:
    """The programs that something named would run."""
    return runs_of(filled(one.text)) if one.kind in ("command", "spoken") else ()


def kind_of(span: str) -> str:
    """What kind of thing a piece of code names."""
    if is_address(span):
        return "address"
    if _PATH.fullmatch(span) or "/" in span.split(" ", 1)[0][1:]:
        return "command" if " " in span else "path"
    return "flag" if re.match(r"--?[A-Za-z]", span) else "command" if " " in span else "word"


def is_address(text: str) -> bool:
    """Whether a text is an address, or a host with its port."""
    return _URL.fullmatch(text) is not None or _HOST.fullmatch(text) is not None


def plain(text: str) -> Iterator[tuple[str, str]]:
    """What is claimed outside of code."""
    yield from (
        ("spoken", match[1])
        for one in cue("spoken").finditer(text)
        if (match := _COMMAND.match(text[one.end() :].lstrip()))
    )
    for kind, pattern in (("address", _URL), ("address", _HOST), ("path", _PATH), ("flag", _FLAG)):
        for match in pattern.finditer(text):
            yield kind, match[0].rstrip(".,;:")
        text = pattern.sub("_", text)
    yield from (("word", match[0]) for match in _NAMED.finditer(text))


@lru_cache(maxsize=1024)
def like(text: str) -> str:
    """The pattern of a word, or of an option with its value, of which parts are left open; empty where all of it or none is.

    What is left open is a part between slashes, never an option, the beginning of an address or what a colon follows.
    """
    name, _, value = text.partition(" ") if text.startswith("-") else ("", "", text)
    host = _AUTHORITY.match(value)
    first, *rest = _PLACE.split(value)
    telling = re.search(r"\w", re.sub(r"\.\w+$", "", "".join((first, *rest))))
    if value.startswith("-") or not rest or (host and _PLACE.search(host[0])) or not telling:
        return ""
    begins = rf"(?<![\w./:@-])[\w+{UNKNOWN}-]+" if rest[0].startswith("/") else _PART
    pattern = re.escape(first) + (_PART if first else begins) + _PART.join(map(re.escape, rest))
    return f"{re.escape(name)} {pattern}" if name else pattern


def generic(word: str) -> bool:
    """Whether a word only stands for another one."""
    return _VALUE.fullmatch(word) is not None or cue("sample").fullmatch(word) is not None


def places_of(one: Named) -> list[str]:
    """What stands for something else in a command or a path."""
    words = one.text.split()[one.kind == "command" :] if one.kind in ("command", "path", "flag") else []
    return [place for word in words if not word.startswith("-") for place in _PLACE.findall(word)]


def filled(text: str) -> str:
    """A text in which one word stands for every hole."""
    return HOLE.sub(FILLED, text).replace(UNKNOWN, "")


def holds(pool: str, text: str, kind: str) -> bool:
    """Whether a text holds another as a whole word, whole path or whole address; code as it stands."""
    if not text:
        return False
    if kind in ("code", "command"):
        return flat(text) in flat(pool)
    name, _, value = text.partition(" ")
    bare = text.rstrip("/").removeprefix("./")
    pattern = (
        rf"{re.escape(name)}[ =]+['\"]?{like(value) or re.escape(value)}"
        if value and kind == "flag"
        else like(bare) or re.escape(bare)
    )
    before, behind = (r"(?<![\w-])", r"(?![\w-])") if kind != "path" else (r"(?<![\w.-])(?:\./)?", r"(?![\w-])")
    if kind == "path" and text.startswith("~"):
        pattern, before = re.escape(text[1:].rstrip("/")), ""
    return re.search(before + pattern + behind, pool, re.IGNORECASE if kind == "word" else 0) is not None


def flat(text: str) -> str:
    """A text with single spaces."""
    return " ".join(text.split())
