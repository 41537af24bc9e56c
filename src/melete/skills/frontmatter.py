"""The front matter of a SKILL.md: a few lines of YAML between `---` and `---`, from somebody whom nobody knows.

What is read is bounded before anything is built: bytes, events and depth; aliases and tags are refused. So no text takes long,
makes objects, or ends in anything but a `Front` or a FrontMatterError.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from msgspec import Struct

from melete.core.errors import MeleteError
from melete.core.plugin import Lazy
from melete.security.paths import wrong_id

_parse: Lazy[Any] = Lazy("yaml:parse")
_compose: Lazy[Any] = Lazy("yaml:load")
_loader: Lazy[Any] = Lazy("yaml:CSafeLoader")
_yaml_error: Lazy[type[Exception]] = Lazy("yaml:YAMLError")

LONGEST_FILE: Final = 100_000
LONGEST: Final = 16_384
MOST: Final = 2_000
DEEPEST: Final = 8
BIGGEST: Final = 2**63
LIMITS: Final = {"description": 1_024, "license": 500, "compatibility": 500, "allowed-tools": 4_096}
"""Fields that are text, and how many characters each may have."""
MARK = re.compile(r"\A---[ \t]*\n(.*?)(?:^|\n)---[ \t]*(?:\n|\Z)", re.DOTALL)
BARE = re.compile(r"^([A-Za-z][\w-]*): +([^\s\"'|>&*!%@`\[{#-].*: .*)$", re.MULTILINE)
"""A line whose text holds a colon and should have been quoted: many are written so."""
UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)


class FrontMatterError(MeleteError):
    """The head of a skill cannot be used; the message says why."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the skill's front matter cannot be used: {why}", kept="nothing was read", next="correct SKILL.md"
        )


class Front(Struct, frozen=True, kw_only=True):
    """What a skill says about itself, checked: `fields` is all of it, `body` the text below."""

    name: str
    description: str
    fields: Mapping[str, Any]
    body: str


def read_front(data: bytes | str) -> Front:
    """The front matter of a SKILL.md and its text; raises FrontMatterError, whatever the bytes are."""
    text = _text(data)
    found = MARK.match(text)
    if not found:
        raise FrontMatterError("it does not begin with a block between --- and ---")
    fields = _fields(found[1])
    return Front(name=_name(fields), description=_description(fields), fields=fields, body=text[found.end() :])


def _text(data: bytes | str) -> str:
    if len(data) > LONGEST_FILE:
        raise FrontMatterError(f"the file is longer than {LONGEST_FILE:,} bytes")
    try:
        text = data.decode() if isinstance(data, bytes) else data
        text.encode()
    except UnicodeError as error:
        raise FrontMatterError("the file is not UTF-8") from error
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _fields(block: str) -> Mapping[str, Any]:
    if len(block) > LONGEST:
        raise FrontMatterError(f"it is longer than {LONGEST:,} characters")
    try:
        return _loaded(block)
    except FrontMatterError as error:
        quoted = BARE.sub(lambda line: line[1] + ": '" + line[2].replace("'", "''") + "'", block)
        if quoted == block:
            raise
        try:
            return _loaded(quoted)
        except FrontMatterError:
            raise error from None


def _loaded(block: str) -> Mapping[str, Any]:
    try:
        for _ in _bounded(_parse.load()(block, Loader=_loader.load())):
            pass
        value = _compose.load()(block, Loader=_loader.load())
    except FrontMatterError:
        raise
    except (
        _yaml_error.load(),
        ValueError,
        OverflowError,
        RecursionError,
        TypeError,
        KeyError,
        AttributeError,
    ) as error:
        raise FrontMatterError(f"it is not YAML: {str(error)[:200]}") from error
    if not isinstance(value, dict):
        raise FrontMatterError("it is not a list of names and values")
    _check(value)
    return cast("Mapping[str, Any]", value)


def _bounded(events: Iterator[Any]) -> Iterator[None]:
    """Look at each event before anything is built of it."""
    depth = 0
    keys: list[set[str] | None] = []
    waits: list[bool] = []
    for number, event in enumerate(events):
        kind = type(event).__name__
        if number > MOST:
            raise FrontMatterError("it has too many values")
        if kind == "AliasEvent" or getattr(event, "anchor", None):
            raise FrontMatterError("it uses anchors or aliases")
        if getattr(event, "tag", None):
            raise FrontMatterError(f"it uses the tag {str(event.tag)[:80]}")
        if kind in ("MappingEndEvent", "SequenceEndEvent"):
            depth -= 1
            keys.pop()
            waits.pop()
        elif kind in ("MappingStartEvent", "SequenceStartEvent", "ScalarEvent"):
            _key(event, kind, keys, waits)
        if kind in ("MappingStartEvent", "SequenceStartEvent"):
            depth += 1
            keys.append(set() if kind == "MappingStartEvent" else None)
            waits.append(True)
        if depth > DEEPEST:
            raise FrontMatterError(f"it is nested more than {DEEPEST} deep")
        yield


def _key(event: Any, kind: str, keys: list[set[str] | None], waits: list[bool]) -> None:
    """Note a key of the mapping that is open; raise for one that is there twice, or is no text."""
    if not keys or keys[-1] is None:
        return
    if waits[-1]:
        if kind != "ScalarEvent":
            raise FrontMatterError("a name in it is a list or a mapping")
        if event.value in keys[-1]:
            raise FrontMatterError(f"it says {str(event.value)[:80]!r} twice")
        keys[-1].add(event.value)
    waits[-1] = not waits[-1]


def _check(value: Any) -> None:
    """Raise for what the parts behind would stumble over: huge numbers, keys that are no text, control characters."""
    if isinstance(value, dict):
        for key, one in cast("dict[Any, Any]", value).items():
            if not isinstance(key, str):
                raise FrontMatterError(f"the name {str(key)[:80]!r} is not text")
            _check(key)
            _check(one)
    elif isinstance(value, list):
        for one in cast("list[Any]", value):
            _check(one)
    elif isinstance(value, int) and abs(value) >= BIGGEST:
        raise FrontMatterError("a number in it is too big")
    elif isinstance(value, str) and UNSEEN.search(value):
        raise FrontMatterError("it holds characters that cannot be seen")


def _name(fields: Mapping[str, Any]) -> str:
    name = fields.get("name")
    if not isinstance(name, str):
        raise FrontMatterError("it has no name" if name is None else "its name is not text")
    if why := wrong_id(name):
        raise FrontMatterError(f"its name {name[:80]!r} cannot be used: {why}")
    return name


def _description(fields: Mapping[str, Any]) -> str:
    for name, most in LIMITS.items():
        value = fields.get(name)
        if value is not None and name != "allowed-tools" and not isinstance(value, str):
            raise FrontMatterError(f"its {name} is not text")
        if isinstance(value, str) and len(value) > most:
            raise FrontMatterError(f"its {name} is longer than {most:,} characters")
    description = fields.get("description")
    if not isinstance(description, str) or not description.strip():
        raise FrontMatterError("it has no description")
    if "metadata" in fields and not isinstance(fields["metadata"], dict):
        raise FrontMatterError("its metadata is not a mapping")
    return description.strip()
