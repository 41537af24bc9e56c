"""config.yaml: read with the line of every key, checked against the table of keys, and changed without losing a comment.

YAML's events are read rather than its values: a value's type comes from its key (`name: 4.1` is a text, `no` is a text where
a text belongs), nothing is ever constructed from a tag, and no nesting or alias can grow.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from melete.app.keys import Key, sections, unknown_key, untyped
from melete.app.text_file import read_text
from melete.core.errors import ConfigError
from melete.core.plugin import Lazy

DEEPEST = 20
_FIX = "`melete config edit` opens the file"

_parse: Lazy[Callable[..., Iterator[Any]]] = Lazy("yaml:parse")
_loader: Lazy[Any] = Lazy("yaml:CSafeLoader")
_yaml_error: Lazy[type[Exception]] = Lazy("yaml:YAMLError")


class Span(Struct, frozen=True, kw_only=True):
    """Where something stands: lines and columns from 0, the end behind its last character."""

    line: int
    column: int
    end_line: int
    end_column: int


class Scalar(Struct, frozen=True, kw_only=True):
    """One value as it was written; `plain` without quotes."""

    text: str
    plain: bool
    span: Span


class Sequence(Struct, frozen=True, kw_only=True):
    """A list; `flow` in brackets."""

    items: tuple["Node", ...]
    flow: bool
    span: Span


class Mapped(Struct, frozen=True, kw_only=True):
    """Names and what stands behind each; `flow` in braces."""

    entries: tuple[tuple[Scalar, "Node"], ...]
    flow: bool
    span: Span


Node = Scalar | Sequence | Mapped


class Setting(Struct, frozen=True, kw_only=True):
    """A value from the file and the line that it stands in, from 1."""

    value: Any
    line: int


class ConfigFile(Struct, frozen=True, kw_only=True):
    """What config.yaml says: `settings` by dotted key, and every problem found, in order; `root` is None when it is empty."""

    settings: dict[str, Setting]
    problems: tuple[ConfigError, ...] = ()
    root: Mapped | None = None


def read_config(path: Path, keys: Mapping[str, Key], *, shown: str) -> ConfigFile:
    """Read `path`, called `shown` in messages; a missing file is empty. Never raises for what the file says."""
    try:
        text = read_text(path, shown=shown)
        return ConfigFile(settings={}) if text is None else parse_config(text, keys, shown=shown)
    except ConfigError as error:
        return ConfigFile(settings={}, problems=(error,))


def parse_config(text: str, keys: Mapping[str, Key], *, shown: str) -> ConfigFile:
    """Read and check the text of a config file; raises ConfigError with line and column where it is not YAML."""
    root = parse_yaml(text, shown=shown)
    if root is None:
        return ConfigFile(settings={})
    if not isinstance(root, Mapped):
        raise ConfigError(
            f"{shown}:{root.span.line + 1}: the file is not a list of keys", next="write `key: value` lines"
        )
    reading = _Reading(keys, shown)
    reading.section(root, "")
    return ConfigFile(settings=reading.settings, problems=tuple(reading.problems), root=root)


class _Reading:
    """One pass over the file, collecting settings and problems."""

    def __init__(self, keys: Mapping[str, Key], shown: str) -> None:
        self.keys = keys
        self.sections = sections(keys)
        self.shown = shown
        self.settings: dict[str, Setting] = {}
        self.problems: list[ConfigError] = []

    def section(self, node: Mapped, prefix: str) -> None:
        """Take in the keys of one section."""
        lines: dict[str, int] = {}
        for name_node, value in node.entries:
            name, line = f"{prefix}{name_node.text}", name_node.span.line + 1
            where = f"{self.shown}:{line}"
            if name in lines:
                self.problems.append(
                    ConfigError(f"{where}: {name} stands in line {lines[name]} as well", next="keep one of them")
                )
                continue
            lines[name] = line
            try:
                self.entry(name, value, where)
            except ConfigError as error:
                self.problems.append(error)

    def entry(self, name: str, value: Node, where: str) -> None:
        """Take in one key, or the section behind it."""
        if name in self.sections:
            if isinstance(value, Mapped):
                self.section(value, f"{name}.")
            elif not _is_empty(value):
                raise ConfigError(
                    f"{where}: {name} is a section of keys, not a value", next="write its keys below it, indented"
                )
            return
        key = self.keys.get(name)
        if key is None:
            raise unknown_key(name, self.keys, where=where)
        if not _is_empty(value):
            self.settings[name] = Setting(value=_typed(key, value, where), line=value.span.line + 1)


def _is_empty(node: Node) -> bool:
    return isinstance(node, Scalar) and node.plain and node.text == ""


def _typed(key: Key, node: Node, where: str) -> Any:
    match node:
        case Scalar(text=text, plain=plain):
            if key.is_list or key.is_map or not (plain or key.is_text):
                raise ConfigError(f"{where}: {key.name} must be {key.expects}, not the text {text[:80]!r}", next=_FIX)
            if not plain and text.lower() in ("null", "~"):
                return text
            return key.value(text, where=where)
        case Sequence(items=items) if key.is_list and not any(isinstance(item, Sequence) for item in items):
            return key.value([_words(item) for item in items], where=where)
        case Mapped() if key.is_map:
            return key.value(_free(node), where=where)
        case _:
            kind = "a list" if isinstance(node, Sequence) else "a section"
            raise ConfigError(f"{where}: {key.name} must be {key.expects}, not {kind}", next=_FIX)


def _words(node: Node) -> Any:
    """A list's item as texts; what each means is up to the key."""
    if isinstance(node, Mapped):
        return {name.text: _words(value) for name, value in node.entries}
    return node.text if isinstance(node, Scalar) else [_words(item) for item in node.items]


def _free(node: Node) -> Any:
    """A value whose type no key knows, read as YAML's core schema does."""
    match node:
        case Mapped(entries=entries):
            return {name.text: _free(value) for name, value in entries}
        case Sequence(items=items):
            return [_free(item) for item in items]
        case Scalar(text=text, plain=plain):
            return untyped(text) if plain else text


# ---- YAML ------------------------------------------------------------------------------------------------------------


def parse_yaml(text: str, *, shown: str) -> Node | None:
    """The tree of a YAML text of one document, None when it is empty; raises ConfigError with line and column."""
    error_type = _yaml_error.load()
    try:
        events = _parse.load()(text, Loader=_loader.load())
        root: Node | None = None
        for event in events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent" and root is not None:
                raise ConfigError(f"{shown}:{event.start_mark.line + 1}: a second document begins", next="keep one")
            if kind.startswith(("Stream", "Document")):
                continue
            root = _node(event, events, shown=shown)
    except error_type as error:
        raise _syntax_error(error, text, shown) from error
    return None if root is not None and _is_empty(root) else root


def _node(event: Any, events: Iterator[Any], *, shown: str, depth: int = 0) -> Node:
    kind = type(event).__name__
    _refuse(event, kind, depth=depth, where=f"{shown}:{event.start_mark.line + 1}")
    if kind == "ScalarEvent":
        return Scalar(text=event.value, plain=event.implicit[0], span=_span(event, event))
    children: list[Node] = []
    end = "MappingEndEvent" if kind == "MappingStartEvent" else "SequenceEndEvent"
    last = event
    for inner in events:
        last = inner
        if type(inner).__name__ == end:
            break
        children.append(_node(inner, events, shown=shown, depth=depth + 1))
    span = _span(event, last)
    flow = bool(event.flow_style)
    if end == "SequenceEndEvent":
        return Sequence(items=tuple(children), flow=flow, span=span)
    names = children[::2]
    for name in names:
        if not isinstance(name, Scalar):
            raise ConfigError(f"{shown}:{name.span.line + 1}: a key is not a plain name", next=_FIX)
    entries = [(name, value) for name, value in zip(names, children[1::2], strict=True) if isinstance(name, Scalar)]
    return Mapped(entries=tuple(entries), flow=flow, span=span)


def _refuse(event: Any, kind: str, *, depth: int, where: str) -> None:
    if kind == "AliasEvent" or getattr(event, "anchor", None):
        raise ConfigError(
            f"{where}: anchors and aliases (& and *) are not read here", next="write the value out, or quote it"
        )
    if getattr(event, "tag", None):
        raise ConfigError(f"{where}: tags (!) are not read here", next="leave the tag out, or quote the value")
    if depth > DEEPEST:
        raise ConfigError(f"{where}: nested more than {DEEPEST} deep", next=_FIX)


def _span(first: Any, last: Any) -> Span:
    start, end = first.start_mark, last.end_mark
    return Span(line=start.line, column=start.column, end_line=end.line, end_column=end.column)


def _syntax_error(error: Exception, text: str, shown: str) -> ConfigError:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        problem = " ".join(p for p in (getattr(error, "context", ""), getattr(error, "problem", "")) if p)
        return ConfigError(f"{shown}:{mark.line + 1}:{mark.column + 1}: not YAML: {problem}", next=_FIX)
    position = getattr(error, "position", 0)
    line, column = text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
    return ConfigError(f"{shown}:{line}:{column}: not YAML: {getattr(error, 'reason', error)}", next=_FIX)
