"""What `melete config` does: read one key, set one, check the file, open it, print its schema. Part of the composition root.

A change touches the characters of one value and nothing else, is read back before it counts, and replaces the file at once.
"""

import fcntl
import os
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec

from melete.app.config_file import ConfigFile, Mapped, Node, Scalar, Span, parse_config, read_config
from melete.app.config_file import Sequence as ListNode
from melete.app.home import Home
from melete.app.keys import Key, unknown_key
from melete.app.sections import Settings
from melete.app.settings import keys
from melete.app.text_file import read_text, replacing
from melete.core.errors import ConfigError, UsageError
from melete.core.event import Event
from melete.core.plugin import Lazy

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_/.@+-]*(:[A-Za-z0-9_/.@+-]+)*")
_NOT_TEXT = {"true", "false", "yes", "no", "on", "off", "null", "y", "n", "~"}
_INDENT = "  "
_document: Lazy[Callable[..., dict[str, Any]]] = Lazy("melete.surfaces.api.openapi:document")
_routes: Lazy[Sequence[Any]] = Lazy("melete.surfaces.api.routes:ROUTES")


def set_value(home: Home, key: str, text: str) -> Any:
    """Set a dotted key in config.yaml and return its new value; comments, order and all other values stay.

    `text` is read as the key's type wants it: lists as `a,b`, no limit as `null`. Raises ConfigError, with the file as it was.
    """
    table = keys()
    if key not in table:
        raise unknown_key(key, table, where="config set")
    value = table[key].value(text, where="config set")
    shown = home.display(home.config)
    with _locked(home):
        old_text = read_text(home.config, shown=shown) or ""
        old = _valid(old_text, table, shown)
        new_text = _changed(old_text, old.root, key.split("."), written(value, table[key]))
        _must_hold(new_text, {**{k: s.value for k, s in old.settings.items()}, key: value}, shown=shown, key=key)
        try:
            with (
                replacing(home.config) as descriptor,
                os.fdopen(descriptor, "w", encoding="utf-8", closefd=False) as file,
            ):
                file.write(new_text)
        except OSError as error:
            raise home.unusable(home.config, error) from error
    return value


def check(home: Home) -> Sequence[ConfigError]:
    """Every problem in config.yaml, in the order of the file; empty when there is none."""
    return read_config(home.config, keys(), shown=home.display(home.config)).problems


def edit(home: Home, editor: str, run: Callable[[Sequence[str]], int]) -> Sequence[ConfigError]:
    """Open config.yaml in `editor` (a command line) through `run`, and return the problems in what was saved.

    A file that does not exist begins with a commented list of all keys. Raises UsageError when there is no editor or it fails.
    """
    home.folder(home.root)
    if editor and not home.config.exists():
        with replacing(home.config) as descriptor:
            os.write(descriptor, template().encode())
    open_in(editor, home.config, run, shown=home.display(home.config))
    return check(home)


def open_in(editor: str, path: Path, run: Callable[[Sequence[str]], int], *, shown: str) -> None:
    """Open a file in `editor` (a command line) through `run`; raises UsageError when there is no editor or it fails."""
    words = editor.split()
    if not words:
        raise UsageError("no editor is set", next=f"set EDITOR, or open {shown} yourself")
    try:
        code = run([*words, str(path)])
    except OSError as error:
        raise UsageError(f"{words[0]} cannot be started: {error.strerror}", next="set EDITOR to an editor") from error
    if code:
        raise UsageError(f"{words[0]} ended with status {code}", kept="the file is as it left it")


def template() -> str:
    """A config.yaml in which every key stands as a comment with its default: it changes nothing."""
    lines = ["# Settings of Melete. Take the # away from a key and from the sections above it."]
    here: list[str] = []
    for name, key in keys().items():
        *path, leaf = name.split(".")
        for depth, part in enumerate(path):
            if path[: depth + 1] != here[: depth + 1]:
                lines += ["" if depth == 0 else "#", f"# {_INDENT * depth}{part}:"]
                here = path[: depth + 1]
        here = path
        lines.append(f"# {_INDENT * len(path)}{leaf}: {written(key.default, key)}  # {key.about}")
    return "\n".join(line for line in lines if line != "#") + "\n"


def schema(what: str = "settings") -> dict[str, Any]:
    """The JSON Schema of `settings` or of `events`, or the `openapi` document of the API; raises UsageError for anything else."""
    if what == "settings":
        return msgspec.json.schema(Settings)
    if what == "events":
        return msgspec.json.schema(Event)
    if what == "openapi":
        return _document.load()(_routes.load(), server="http://127.0.0.1:8642")
    raise UsageError(f"there is no schema of {what!r}", next="use settings, events or openapi")


def written(value: Any, key: Key) -> str:
    """A value as YAML on one line, which reads back as the same value here and in any other reader of YAML."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, tuple):
        items = cast(tuple[Any, ...], value)
        return f"[{', '.join(_text(item) if isinstance(item, str) else _json(item) for item in items)}]"
    if isinstance(value, dict):
        return _json(value)
    if isinstance(value, str) and key.is_text:
        return _text(value)
    # YAML 1.1 reads an exponent only behind a point.
    return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))


def _json(value: Any) -> str:
    # JSON is YAML in flow style, as long as a space follows each colon and comma.
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    return msgspec.json.encode(text).decode()


@contextmanager
def _locked(home: Home) -> Generator[None, None, None]:
    # Two `config set` at once must not lose one another's change; the folder is the lock, so that none is left behind.
    folder = os.open(home.folder(home.root), os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _valid(text: str, table: Mapping[str, Key], shown: str) -> ConfigFile:
    found = parse_config(text, table, shown=shown)
    if found.problems:
        first = found.problems[0]
        raise ConfigError(first.what, kept="nothing was changed", next=first.next)
    return found


def _must_hold(text: str, wanted: Mapping[str, Any], *, shown: str, key: str) -> None:
    unsafe = ConfigError(
        f"{shown} is written in a way that {key} cannot be changed in safely",
        kept="nothing was changed",
        next="`melete config edit` opens the file",
    )
    try:
        found = parse_config(text, keys(), shown=shown)
    except ConfigError as error:
        raise unsafe from error
    if found.problems or {k: s.value for k, s in found.settings.items()} != dict(wanted):
        raise unsafe


# ---- the edit itself -------------------------------------------------------------------------------------------------


def _changed(text: str, root: Mapped | None, path: Sequence[str], value: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.replace("\r\n", "\n").split("\n")
    section: Mapped | None = root
    name: Scalar | None = None
    for depth, part in enumerate(path):
        found = None if section is None else next((e for e in section.entries if e[0].text == part), None)
        if found is None:
            _insert(lines, section, name, path=path[depth:], value=value)
            break
        name, node = found
        if depth == len(path) - 1:
            _replace(lines, name, node, value)
        section = node if isinstance(node, Mapped) else None
    return newline.join(lines)


def _insert(lines: list[str], section: Mapped | None, name: Scalar | None, *, path: Sequence[str], value: str) -> None:
    """Put a new entry at the end of `section`; without one, below `name`, which has nothing behind it, or below everything."""
    if section is not None and section.flow:
        inner = value
        for part in reversed(path[1:]):
            inner = f"{{{part}: {inner}}}"
        span = section.span
        comma = ", " if section.entries else ""
        _splice(lines, span.end_line, span.end_column - 1, f"{comma}{path[0]}: {inner}")
        return
    column, after = 0, _last_line_with_text(lines)
    if section is not None:
        column, after = section.entries[0][0].span.column, _last_line(section)
    elif name is not None:
        column, after = name.span.column + len(_INDENT), name.span.line
    new = [f"{' ' * column}{_INDENT * depth}{part}:" for depth, part in enumerate(path)]
    new[-1] += f" {value}"
    if section is None and name is None and not "".join(lines).strip():
        lines[:] = [*new, ""]
        return
    lines[after + 1 : after + 1] = new
    if after + 1 + len(new) == len(lines):
        lines.append("")


def _replace(lines: list[str], name: Scalar, node: Node, value: str) -> None:
    span = node.span
    block = isinstance(node, ListNode | Mapped) and not node.flow
    if isinstance(node, Scalar) and node.plain and not node.text:
        colon = lines[name.span.line].index(":", name.span.end_column)
        _splice(lines, name.span.line, colon + 1, f" {value}")
    elif block:
        del lines[span.line : _last_line(node) + 1]
        colon = lines[name.span.line].index(":", name.span.end_column)
        _splice(lines, name.span.line, colon + 1, f" {value}")
    else:
        end = _content_end(span)
        while end > span.line and not lines[end].strip():
            end -= 1
        tail = lines[end][span.end_column :] if end == span.end_line else ""
        lines[span.line : end + 1] = [f"{lines[span.line][: span.column]}{value}{tail}"]


def _splice(lines: list[str], line: int, column: int, text: str) -> None:
    lines[line] = f"{lines[line][:column]}{text}{lines[line][column:]}"


def _last_line(node: Node) -> int:
    if isinstance(node, Mapped) and not node.flow and node.entries:
        name, value = node.entries[-1]
        return max(name.span.line, _last_line(value))
    if isinstance(node, ListNode) and not node.flow and node.items:
        return _last_line(node.items[-1])
    return _content_end(node.span)


def _content_end(span: Span) -> int:
    # A text in block style ends where the next line begins.
    return span.end_line - 1 if span.end_column == 0 and span.end_line > span.line else span.end_line


def _last_line_with_text(lines: Sequence[str]) -> int:
    return max((number for number, line in enumerate(lines) if line.strip()), default=-1)
