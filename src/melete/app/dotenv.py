"""The `.env` file of the home: KEY=VALUE lines that hold what must not stand in config.yaml. Read strictly, never guessed at."""

import re
from pathlib import Path

from msgspec import Struct

from melete.app.text_file import read_text
from melete.core.errors import ConfigError

_LINE = re.compile(r"(?:export[ \t]+)?(?P<name>[^=]*?)[ \t]*=[ \t]*(?P<value>.*)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DOUBLE = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"(?P<rest>.*)')
_SINGLE = re.compile(r"'(?P<text>[^']*)'(?P<rest>.*)")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_COMMENT = re.compile(r"[ \t]+#")


class EnvFile(Struct, frozen=True, kw_only=True):
    """What a `.env` file says: `values` by name, the line of each, and `warnings` about lines that may be meant otherwise."""

    values: dict[str, str]
    lines: dict[str, int]
    warnings: tuple[str, ...] = ()


def read_env_file(path: Path, *, shown: str) -> EnvFile:
    """Read `path`, called `shown` in messages; a missing file is empty. Raises ConfigError with file and line."""
    text = read_text(path, shown=shown)
    return EnvFile(values={}, lines={}) if text is None else parse_env(text, shown=shown)


def parse_env(text: str, *, shown: str) -> EnvFile:
    """Read the lines of a `.env` file: `KEY=VALUE`, `export`, single and double quotes, comments on lines of their own.

    In double quotes \\n, \\t, \\r, \\" and \\\\ are escapes; nothing else is expanded. Raises ConfigError with file and line.
    """
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    warnings: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        where = f"{shown}:{number}"
        name, raw = _split(stripped, where=where)
        value, warning = _value(name, raw, where=where)
        if warning:
            warnings.append(warning)
        if name in values:
            warnings.append(f"{where}: {name} stands in line {lines[name]} as well; this later line counts")
        values[name], lines[name] = value, number
    return EnvFile(values=values, lines=lines, warnings=tuple(warnings))


def _split(line: str, *, where: str) -> tuple[str, str]:
    # A message never shows the line: it may hold a key.
    found = _LINE.fullmatch(line)
    if found is None:
        raise ConfigError(f"{where}: no = in the line", next="write KEY=VALUE; a comment begins with #")
    name = found["name"]
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{where}: what stands before the = is not a name of letters, digits and _",
            next="write KEY=VALUE, one a line",
        )
    if "\0" in found["value"]:
        raise ConfigError(f"{where}: the value of {name} holds a NUL character", next="write the line anew")
    return name, found["value"]


def _value(name: str, raw: str, *, where: str) -> tuple[str, str]:
    if raw[:1] in ('"', "'"):
        found = (_DOUBLE if raw[0] == '"' else _SINGLE).fullmatch(raw)
        if found is None:
            raise ConfigError(
                f"{where}: the quote of {name} is not closed in its line",
                next="close it; write a line break inside double quotes as \\n",
            )
        if (rest := found["rest"].strip()) and not rest.startswith("#"):
            raise ConfigError(f"{where}: text after the closing quote of {name}", next="quote the whole value")
        text = found["text"]
        return (_ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[1]), text) if raw[0] == '"' else text), ""
    comment = _COMMENT.search(f" {raw}")
    if comment is None:
        return raw, ""
    return raw[: comment.start()].rstrip() if comment.start() else "", (
        f"{where}: the text after # is left out of {name}; put comments on lines of their own, "
        "or quote the value if the # belongs to it"
    )
