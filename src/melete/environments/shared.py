"""What environments have in common whose files are files of this machine: which these are, and what tools may do to them."""

import os
import pwd

from melete.core.environment import Place
from melete.core.policy import Verdict
from melete.security.denied import Whose, judge_file
from melete.security.paths import within

CODE = os.path.realpath(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120 - as all paths here
"""Where the program itself lies."""


class SharedFiles:
    """`Shared` for an environment that shows files of this machine under the paths that they have outside."""

    def share(self, place: Place, cwd: str) -> None:
        """Remember whose files they are; to be called before the first question."""
        homes = [home for home in (place.variables.get("HOME", ""), own_home()) if home.startswith("/")]
        here = os.path.realpath(cwd)
        code = () if within(here, CODE) or within(CODE, here) else (CODE,)  # who works on it may change it
        real = [os.path.realpath(home) for home in homes]
        self._whose = Whose(
            homes=tuple(dict.fromkeys([*homes, *real])),
            own=tuple(dict.fromkeys([*(os.path.realpath(path) for path in place.hidden), *code])),
            cwd=here,
        )

    def on_host(self, path: str) -> str:
        """The path that this machine has for one of the environment's, links not followed; empty where there is none."""
        return path

    def judge_file(self, path: str, *, write: bool) -> Verdict:
        """Whether a tool may read or change the file; both what it is called and what that leads to are judged."""
        outside = self.on_host(path)
        if not outside:
            return Verdict()
        named = os.path.normpath(outside)
        try:
            real = os.path.realpath(outside)
        except (OSError, ValueError):  # nothing can be opened there either
            return Verdict()
        first = judge_file(named, self._whose, write=write)
        return first if first.verdict != "allow" or real == named else judge_file(real, self._whose, write=write)

    def judge_place(self, path: str, *, write: bool) -> Verdict:
        """The same of a path of this machine that has no links in it."""
        return judge_file(path, self._whose, write=write)


def own_home() -> str:
    """The home that the list of users names for whoever runs this; empty where they are not in it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""
