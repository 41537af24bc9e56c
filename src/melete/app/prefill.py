"""Messages that stand before the conversation of every request and are never stored. Part of the composition root."""

from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from melete.core.errors import ConfigError
from melete.core.message import Message, Text

LARGEST = 1_000_000


class Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message of the file."""

    role: Literal["user", "assistant"]
    content: str


def read_prefill(path: str, *, where: str, home: Path) -> tuple[Message, ...]:
    """The messages of a JSON file `[{"role", "content"}, …]`; a relative path is looked for in the home.

    Raises ConfigError, beginning with `where`, for a file that cannot be used.
    """
    if not path:
        return ()
    file = home / Path(path).expanduser()
    try:
        with file.open("rb") as opened:
            lines = msgspec.json.decode(opened.read(LARGEST), type=list[Line])
    except OSError as error:
        raise ConfigError(f"{where}: the prefill file {path} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{where}: the prefill file {path} is not a list of messages: {error}",
            next='write [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]',
        ) from error
    return tuple(Message(role=line.role, parts=(Text(text=line.content),)) for line in lines if line.content)
