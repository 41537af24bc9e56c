"""What the scan has said of versions of skills, so that each is scanned once for all processes."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import MsgspecError, msgpack

from melete.core.skill import Owner
from melete.skills.catalogue import write
from melete.skills.versions import Tree, whole

MOST: Final = 5_000
Judge = Callable[[Tree, Owner, Tree], str]
"""Why files of this owner may not be kept or loaded, judged against what they were before; empty where they may."""


class Scans:
    """What the scan said of versions, kept in a file that can be dropped; `path` None keeps it for this process alone.

    `mark` stands for the rules of the scan.
    """

    def __init__(self, path: Path | None, *, judge: Judge, mark: str) -> None:
        self._path = path
        self._judge = judge
        self._mark = mark
        self._found: dict[str, str] | None = None

    def why(self, tree: Tree, owner: Owner, *, before: Tree) -> str:
        """Why these files of this owner may not be loaded; empty where they may."""
        if self._found is None:
            self._found = self._read()
        key = f"{self._mark} {owner} {whole(tree)} {whole(before) if before else ''}"
        if key not in self._found:
            self._found[key] = self._judge(tree, owner, before)
            if self._path is not None:
                write(self._path, msgpack.encode(dict(list(self._found.items())[-MOST:])))
        return self._found[key]

    def _read(self) -> dict[str, str]:
        with suppress(OSError, MsgspecError):  # what cannot be read is scanned anew
            if self._path is not None:
                return msgpack.decode(self._path.read_bytes(), type=dict[str, str])
        return {}
