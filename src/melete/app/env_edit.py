"""Writing one variable into the home's `.env`: everything else in it stays, and it is read back before it counts."""

import fcntl
import os
import re

from melete.app.dotenv import parse_env
from melete.app.home import Home
from melete.app.text_file import read_text, replacing
from melete.core.errors import ConfigError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def set_variable(home: Home, name: str, value: str) -> None:
    """Set a variable in `.env`, in place of the line that had it; raises ConfigError with the file as it was."""
    shown = home.display(home.env)
    if not _NAME.fullmatch(name) or "\0" in value:
        raise ConfigError(f"{name[:80]!r} cannot be set in {shown}", kept="nothing was changed")
    folder = os.open(home.folder(home.root), os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # two at once must not lose one another's line
        old = read_text(home.env, shown=shown) or ""
        found = parse_env(old, shown=shown)
        lines = old.rstrip("\n").split("\n") if old.strip() else []
        line = f"{name}={_quoted(value)}"
        if name in found.lines:
            lines[found.lines[name] - 1] = line
        else:
            lines.append(line)
        text = "\n".join([*lines, ""])
        if parse_env(text, shown=shown).values != {**found.values, name: value}:
            raise ConfigError(f"{shown} cannot be changed safely", kept="nothing was changed", next="open it yourself")
        try:
            with replacing(home.env) as descriptor:
                os.write(descriptor, text.encode())
        except OSError as error:
            raise home.unusable(home.env, error) from error
    finally:
        os.close(folder)


def _quoted(value: str) -> str:
    """The value in double quotes, as `.env` reads it."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'
