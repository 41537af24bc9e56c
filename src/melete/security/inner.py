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


TOO_LONG: Final = "it is too long to be judged"
TOO_DEEP: Final = "commands are nested too deeply or are too many"
TOO_WORDY: Final = "it has too many words to be judged"
TOO_OFTEN: Final = "a loop has too many rounds to be judged"
TOO_FULL: Final = "a program has too many arguments to be judged"
FAILED: Final = "the judge failed at it"
CUTS: Final = frozenset((TOO_LONG, TOO_DEEP, TOO_WORDY, TOO_OFTEN, TOO_FULL, FAILED))
"""Why a part of a text was not looked at: what is forbidden may stand there."""
TOO_MANY: Final = Inner(kind="opaque", text=TOO_DEEP)


def at_most(found: list[Inner], most: int = MOST) -> list[Inner]:
    """The first ones, and that there were more."""
    return found if len(found) <= most else [*found[:most], TOO_MANY]
