"""What checkpoints keep and how git is told of it, as values and settings. Part: environments."""

import math
import re
from typing import Final

from msgspec import Struct

from melete.core.environment import SEALED

EXCLUDED: Final = (
    "node_modules/", ".venv/", "venv/", "__pycache__/", ".tox/", ".nox/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/",
    ".gradle/", ".terraform/", "*.pyc", "*.swp", "*.sock", SEALED,
)  # fmt: skip
"""What is made anew from something else, also where no `.gitignore` says so."""
SETTINGS: Final = {
    "core.hooksPath": "/dev/null", "core.fsmonitor": "false", "core.attributesFile": "/dev/null", "core.autocrlf": "false",
    "core.excludesFile": "/dev/null", "core.quotePath": "false", "core.compression": "1", "core.fsync": "none", "gc.auto": "0",
    "core.protectNTFS": "false", "core.symlinks": "true", "core.untrackedCache": "false", "core.bare": "false",
    "core.checkStat": "default", "index.threads": "true", "core.precomposeUnicode": "false", "diff.ignoreSubmodules": "all",
    "diff.external": "", "maintenance.auto": "false", "core.logAllRefUpdates": "false", "advice.graftFileDeprecated": "false",
}  # fmt: skip
ATTRIBUTES: Final = "* -text -ident -filter !eol !working-tree-encoding !diff !merge\n"
"""Over all that the folder's own files say: nothing is converted, and no program is run."""
SPECIAL = re.compile(r"[\\*?\[\]!# ]")
"""What a line of git's list of exclusions takes for something else."""


class Keeping(Struct, frozen=True, kw_only=True):
    """How much is kept, of one working folder."""

    most: int = 20
    megabytes: int = 500
    file_megabytes: int = 10
    days: int = 7
    files: int = 50_000
    seconds: float = 30.0


class About(Struct, frozen=True, kw_only=True):
    """What a commit says of its checkpoint."""

    turn: str
    session: str
    label: str = ""
    kind: str = "turn"
    at: float = 0.0
    left_out: int = 0


NOBODY: Final = About(turn="", session="")


class Kept(Struct, frozen=True, kw_only=True):
    """One checkpoint in the store; `after` is empty for a change whose end nobody noted."""

    number: int
    before: str
    about: About
    after: str = ""
    ended: float = math.inf

    def holds(self, other: "Kept") -> bool:
        """Whether another change began while this one went on, and was noted."""
        return other.number > self.number and other.about.at <= self.ended and bool(other.after)


def covers(without: set[bytes], path: bytes) -> bool:
    """Whether a path, or a folder that it lies in, is among what is not kept."""
    pieces = path.split(b"/")
    starts = [b"/".join(pieces[:length]) for length in range(1, len(pieces) + 1)]
    return any(start in without or start + b"/" in without for start in starts)
