"""The command `melete`. Answers `--version` before anything else is imported."""

import contextlib
import os
import sys
from collections.abc import Callable

from melete import __version__
from melete.core.plugin import Lazy

STDOUT = 1
_main: Lazy[Callable[[list[str]], int]] = Lazy("melete.surfaces.cli.main:main")


def main() -> None:
    """Run the command line and leave with its exit status."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        with contextlib.suppress(OSError):  # a closed pipe: nobody wants to know any more
            os.write(STDOUT, f"melete {__version__}\n".encode())
        sys.exit(0)
    sys.exit(_main.load()(arguments))


if __name__ == "__main__":
    main()
