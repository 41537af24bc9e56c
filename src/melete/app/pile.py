"""Lines sorted by what they belong to, however many there are: in memory up to a bound, then in files without names.

Part of the composition root. The files vanish with the process, whatever ends it.
"""

import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Self

HELD = 64 << 20
"""Bytes that are kept in memory before they are laid aside."""
FILES = 64
EACH = 80
"""What one line takes in memory beside its own bytes, about."""


class Pile:
    """Lines by name; those of a name come back together and in their order. `name_of` finds a line's name again."""

    def __init__(self, folder: Path, name_of: Callable[[bytes], str], *, held: int | None = None) -> None:
        self._folder = folder
        self._name_of = name_of
        self._bound = HELD if held is None else held
        self._held: dict[str, list[bytes]] = {}
        self._size = 0
        self._files: list[IO[bytes]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def add(self, name: str, line: bytes) -> None:
        """Put a line, which holds no line break, on the pile; raises OSError when it cannot be laid aside."""
        self._held.setdefault(name, []).append(line)
        self._size += len(line) + EACH
        if self._size > self._bound:
            self._lay_aside()

    def groups(self) -> Iterator[tuple[str, list[bytes]]]:
        """Each name with its lines; the pile is empty afterwards. Raises OSError."""
        if not self._files:
            while self._held:
                name = next(iter(self._held))
                yield name, self._held.pop(name)
            return
        self._lay_aside()
        for file in self._files:
            file.seek(0)
            found: dict[str, list[bytes]] = {}
            for line in file:
                found.setdefault(self._name_of(line), []).append(line)
            file.close()
            while found:
                name = next(iter(found))
                yield name, found.pop(name)
        self._files = []

    def _lay_aside(self) -> None:
        if not self._files:
            for _ in range(FILES):
                file = TemporaryFile(dir=self._folder)  # noqa: SIM115 - the stack closes it
                self._files.append(self._stack.enter_context(file))
        for name, lines in self._held.items():
            file = self._files[zlib.crc32(name.encode("utf-8", "replace")) % FILES]
            file.writelines(line + b"\n" for line in lines)
        self._held = {}
        self._size = 0
