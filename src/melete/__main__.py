"""The command `melete`. Answers `--version` before anything else is imported."""

import contextlib
import os
import sys
from collections.abc import Callable

from melete import __version__
from melete.core.plugin import Lazy

STDOUT = 1
INTERRUPTED = 130
_main: Lazy[Callable[[list[str]], int]] = Lazy("melete.surfaces.cli.main:main")


def main() -> None:
    """Run the command line and leave with its exit status."""
    _occupy_closed_streams()
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        with contextlib.suppress(OSError):  # a closed pipe: nobody wants to know any more
            os.write(STDOUT, f"melete {__version__}\n".encode())
        sys.exit(0)
    try:
        status = _main.load()(arguments)
    except KeyboardInterrupt:  # while the rest was being imported
        status = INTERRUPTED
    sys.exit(status)


def _occupy_closed_streams() -> None:
    """Put nothing where the parent closed a standard stream, so that no file of ours gets its number and its output."""
    for number in (0, STDOUT, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


if __name__ == "__main__":
    main()
