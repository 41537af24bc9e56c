"""What a program runs in turn, as a value. Pure."""

from typing import Final, Literal

from msgspec import Struct

MOST = 60


class Inner(Struct, frozen=True, kw_only=True):
    """What a program runs in turn: another program (`argv`, with `text` as its input, `writes` as the files that it opens), a shell
    text, code in a language, or something that cannot be told (`text` is the reason)."""

    kind: Literal["argv", "text", "code", "opaque"]
    text: str = ""
    argv: tuple[str, ...] = ()
    language: str = ""
    writes: tuple[str, ...] = ()


TOO_MANY: Final = Inner(kind="opaque", text="commands are nested too deeply or are too many")


def at_most(found: list[Inner], most: int = MOST) -> list[Inner]:
    """The first ones, and that there were more."""
    return found if len(found) <= most else [*found[:most], TOO_MANY]
