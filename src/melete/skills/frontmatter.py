"""The front matter of a SKILL.md: a few lines of YAML between `---` and `---`, from somebody whom nobody knows.

What is read is bounded before anything is built: bytes, events and depth; aliases and tags are refused. So no text takes long,
makes objects, or ends in anything but a `Front` or a FrontMatterError. What many people write wrongly is mended, and a warning
says so: text that should have been quoted, a name with capitals and spaces.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from melete.core.errors import MeleteError
from melete.core.plugin import Lazy
from melete.security.paths import wrong_id

_parse: Lazy[Any] = Lazy("yaml:parse")
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
LINE = re.compile(
    r"([A-Za-z][\w-]*):[ ]+"
    r"""(?:"([^"\\\n]*)"|'([^'\n]*)'|(\{"[^\n]*\})|"""
    r"""([^\W\d_](?:(?!:[ ]|[ ]\#)[^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff])*+(?<!:)))[ ]*"""
)
"""A line that YAML reads as a name and a text, or as JSON, without any doubt."""
WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null"})
"""Words that are not text to YAML."""
EASY: Final = 4_000
HARD = re.compile(r"(?:^|[\s\[\]{},:?-])[&*!]|[\[{](?:[^\[{]*[\[{]){30}|(?:[-?:][ \t]+){8}|^[ \t]{60}", re.MULTILINE)
"""What anchors, aliases, tags and deep nesting need: a short block without it holds none of them."""
SCALARS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("bool", "float", "int", "null"))
FIELD = re.compile(r"^(?=[A-Za-z_][\w-]*:(?:[ \t]|$))", re.MULTILINE)
MOST_FIELDS: Final = 200
LOOSE = re.compile(r"[\s_.&+(),'’!@#–—-]+")
"""What stands between the words of a name that was meant for people."""
_UNSEEN = (
    r"\u00ad\u034f\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\u2800\u3164\ufeff\uffa0\ufff9-\ufffb"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e01ef"
)
INVISIBLE = re.compile(f"[{_UNSEEN}]")
"""Characters that cannot be seen and mean nothing, which come with text that was copied; others change what a terminal does."""
UNSEEN = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_UNSEEN}]")


class FrontMatterError(MeleteError):
    """The head of a skill cannot be used; the message says why."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the skill's front matter cannot be used: {why}", kept="nothing was read", next="correct SKILL.md"
        )


class _NoYamlError(FrontMatterError):
    """It cannot be parsed, which may be mended; whatever else is wrong may not."""


class Front(Struct, frozen=True, kw_only=True):
    """What a skill says about itself, checked: `fields` is all of it, `body` the text below, `warnings` what was mended."""

    name: str
    description: str
    fields: Mapping[str, Any]
    body: str
    warnings: tuple[str, ...] = ()


def read_front(data: bytes | str, *, folder: str = "") -> Front:
    """The front matter of a SKILL.md and its text; raises FrontMatterError, whatever the bytes are.

    `folder` is the name of the folder that it lies in, which a skill takes whose own name cannot be used.
    """
    text = _text(data)
    found = MARK.match(text)
    if not found:
        raise FrontMatterError("it does not begin with a block between --- and ---")
    warnings: list[str] = []
    head, unseen = INVISIBLE.subn("", found[1])
    if unseen:
        if any(INVISIBLE.search(line) for line in found[1].split("\n") if line.startswith("name:")):
            raise FrontMatterError("its name holds characters that cannot be seen")
        warnings.append(f"{unseen} characters that cannot be seen were left out")
    fields = _fields(head, warnings)
    name = _name(fields, folder, warnings)
    return Front(
        name=name, description=_description(fields), fields=fields, body=text[found.end() :], warnings=tuple(warnings)
    )


def _text(data: bytes | str) -> str:
    try:
        text = data[: 4 * LONGEST_FILE + 1].decode() if isinstance(data, bytes) else data
        text.encode()
    except UnicodeError as error:
        raise FrontMatterError("the file is not UTF-8") from error
    if len(text) > LONGEST_FILE:
        raise FrontMatterError(f"the file is longer than {LONGEST_FILE:,} characters")
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _fields(block: str, warnings: list[str]) -> Mapping[str, Any]:
    if len(block) > LONGEST:
        raise FrontMatterError(f"it is longer than {LONGEST:,} characters")
    if (simple := _simple(block)) is not None:
        return simple
    try:
        return _loaded(block)
    except _NoYamlError as error:
        return _mended(block, error, warnings)


def _simple(block: str) -> Mapping[str, Any] | None:
    """What most skills say, one text or JSON object a line, thirty times faster than YAML reads it; None for any other block."""
    if UNSEEN.search(block):
        return None
    fields: dict[str, Any] = {}
    for line in block.split("\n"):
        if not line.strip(" "):
            continue
        found = LINE.fullmatch(line)
        if not found or found[1] in fields:
            return None
        name, double, single, json, plain = found.groups()
        if plain is not None:
            plain = plain.rstrip(" ")
            if plain.lower() in WORDS:
                return None
        fields[name] = double or single or plain or ""
        if json is not None:
            try:
                fields[name] = msgspec.json.decode(json)
            except (msgspec.DecodeError, RecursionError):
                return None
            _check(fields[name], 1)
    return fields or None


def _mended(block: str, error: FrontMatterError, warnings: list[str]) -> Mapping[str, Any]:
    """Each field read alone, what is not YAML as plain text; raises the first error where that does not help either."""
    pieces = FIELD.split(block)
    if len(pieces) > MOST_FIELDS:
        raise error
    fields: dict[str, Any] = {}
    for piece in pieces:
        name, colon, rest = piece.partition(":")
        try:
            if piece.strip():
                found = _loaded(piece)
                if found.keys() & fields.keys():
                    raise FrontMatterError(f"it says {name[:80]!r} twice")
                fields.update(found)
        except _NoYamlError:
            text = " ".join(rest.split())
            if not colon or not text or text[0] in "!&|>" or name in fields:
                warnings.append(f"{name.strip()[:40]!r} is not YAML and was left out")
                continue
            fields[name] = text.strip("\"'")
            warnings.append(f"{name!r} is not YAML and was read as plain text: put it between quotes")
    if not fields:
        raise error
    _check(fields)
    return fields


def _loaded(block: str) -> Mapping[str, Any]:
    try:
        if len(block) > EASY or HARD.search(block):
            _bounded(_parse.load()(block, Loader=_loader.load()))
        loader = _loader.load()(block)
        node = loader.get_single_node()
        value = None if node is None else _built(loader, node, 0)
    except _yaml_error.load() as error:
        raise _NoYamlError(f"it is not YAML: {str(error)[:200]}") from error
    except (ValueError, OverflowError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise FrontMatterError(f"it is not YAML: {str(error)[:200]}") from error
    if not isinstance(value, dict):
        raise FrontMatterError("it is not a list of names and values")
    return cast("Mapping[str, Any]", value)


def _bounded(events: Iterator[Any]) -> None:
    """Look at each event before anything is built of it."""
    depth = 0
    for number, event in enumerate(events):
        kind = type(event).__name__
        if number > MOST:
            raise FrontMatterError("it has too many values")
        if kind == "AliasEvent" or getattr(event, "anchor", None):
            raise FrontMatterError("it uses anchors or aliases")
        if getattr(event, "tag", None):
            raise FrontMatterError(f"it uses the tag {str(event.tag)[:80]}")
        depth += kind in ("MappingStartEvent", "SequenceStartEvent")
        depth -= kind in ("MappingEndEvent", "SequenceEndEvent")
        if depth > DEEPEST:
            raise FrontMatterError(f"it is nested more than {DEEPEST} deep")


def _built(loader: Any, node: Any, depth: int) -> Any:
    """The value of a node; raise for a name that is there twice, or is no text. Dates stay text."""
    if depth > DEEPEST:
        raise FrontMatterError(f"it is nested more than {DEEPEST} deep")
    if node.id == "scalar":
        value = loader.construct_object(node) if node.tag in SCALARS else node.value
        _check(value)
        return value
    if node.id == "sequence":
        return [_built(loader, one, depth + 1) for one in node.value]
    found: dict[str, Any] = {}
    for key, value in node.value:
        if key.id != "scalar":
            raise FrontMatterError("a name in it is a list or a mapping")
        if key.tag in SCALARS:
            raise FrontMatterError(f"the name {key.value[:80]!r} is not text")
        _check(key.value)
        if key.value in found:
            raise FrontMatterError(f"it says {key.value[:80]!r} twice")
        found[key.value] = _built(loader, value, depth + 1)
    return found


def _check(value: Any, depth: int = 0) -> None:
    """Raise for what the parts behind would stumble over: huge numbers, keys that are no text, control characters."""
    if isinstance(value, str):
        if UNSEEN.search(value):
            raise FrontMatterError("it holds characters that cannot be seen")
        return
    if depth > DEEPEST:
        raise FrontMatterError(f"it is nested more than {DEEPEST} deep")
    if isinstance(value, dict):
        for key, one in cast("dict[Any, Any]", value).items():
            if not isinstance(key, str):
                raise FrontMatterError(f"the name {str(key)[:80]!r} is not text")
            _check(key)
            _check(one, depth + 1)
    elif isinstance(value, list):
        for one in cast("list[Any]", value):
            _check(one, depth + 1)
    elif isinstance(value, int | float) and abs(value) >= BIGGEST:
        raise FrontMatterError("a number in it is too big")


def _name(fields: Mapping[str, Any], folder: str, warnings: list[str]) -> str:
    """The name, or what is made of one that was meant for people; never of one that looks like a path or a command."""
    name = fields.get("name")
    if not isinstance(name, str):
        raise FrontMatterError("it has no name" if name is None else "its name is not text")
    why = wrong_id(name)
    if not why:
        return name
    plain = name.isprintable() and ".." not in name and name[:1] not in (*"-./\\~$", "")
    for made in (LOOSE.sub("-", name.lower()).strip("-"), folder) if plain else ():
        if not wrong_id(made):
            warnings.append(f"the name {name[:80]!r} was read as {made!r}: {why}")
            return made
    raise FrontMatterError(f"its name {name[:80]!r} cannot be used: {why}")


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
