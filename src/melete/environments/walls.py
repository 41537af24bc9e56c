"""What a sandbox shows, hides and lets be written: the arguments for bubblewrap."""

import os
import shutil
import sys
from pathlib import Path

from melete.core.environment import Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import SandboxOptions

TEMP = "/tmp"  # noqa: S108 - a file system of the sandbox's own
CODE = "/run/melete"
HERE = Path(__file__).parent


def program(path: str) -> str:
    """Where bubblewrap is; raises EnvironmentFailure."""
    found = shutil.which("bwrap", path=path or None)
    if found is None:
        raise EnvironmentFailure("there is no bwrap here", next="install bubblewrap, or use --env local")
    return found


class Walls:
    """The walls of one sandbox."""

    def __init__(self, place: Place, options: SandboxOptions, *, cwd: str) -> None:
        self._place = place
        self._options = options
        self._cwd = cwd

    def argv(self, program: str) -> list[str]:
        """The command that builds them; the program to run inside follows."""
        argv = [program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        if self._options.network == "on":
            argv.append("--share-net")
        argv += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        argv += ["--size", str(self._options.temp_mb << 20), "--tmpfs", TEMP, "--tmpfs", "/run"]
        for folder in ("/home", "/root", *self._place.hidden):
            if Path(folder).is_dir():
                argv += ["--tmpfs", folder]
        for folder in (sys.base_prefix, sys.prefix):
            argv += ["--ro-bind", os.path.realpath(folder), os.path.realpath(folder)]
        argv += ["--ro-bind", str(HERE / "inner.py"), f"{CODE}/inner.py"]
        for name in ("files.py", "tree.py"):  # all that inner.py needs of this package, under the names that it knows
            argv += ["--ro-bind", str(HERE / name), f"{CODE}/melete/environments/{name}"]
        return [*argv, "--bind", self._cwd, self._cwd, "--chdir", "/"]
