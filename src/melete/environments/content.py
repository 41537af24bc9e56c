"""The bytes of open files, and what `files` says of them in the words of the ports. Large ones are moved in a thread."""

import asyncio
import os
from typing import Any, cast

from melete.core.environment import Entry, FileStat
from melete.environments.files import Described

SMALL = 1 << 20


async def read_from(descriptor: int, size: int, *, offset: int, limit: int) -> bytes:
    """`limit` bytes from `offset` on, all of them when it is negative."""
    wanted = max(size - offset, SMALL // 16) if limit < 0 else limit
    if wanted <= SMALL:
        return _read(descriptor, offset, limit)
    return await asyncio.to_thread(_read, descriptor, offset, limit)


async def write_to(descriptor: int, data: bytes) -> None:
    """All of `data`."""
    if len(data) <= SMALL:
        _write(descriptor, data)
    else:
        await asyncio.to_thread(_write, descriptor, data)


def file_stat(found: Described) -> FileStat:
    """What `files.described` found."""
    kind, size, mtime, mode = found
    return FileStat(kind=cast("Any", kind), size=size, mtime=mtime, mode=mode)


def entry(name: str, kind: str, size: int) -> Entry:
    """One row of `files.listed`."""
    return Entry(name=name, kind=cast("Any", kind), size=size)


def _read(descriptor: int, offset: int, limit: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    pieces: list[bytes] = []
    left = limit
    while left != 0:
        piece = os.read(descriptor, SMALL if left < 0 else min(left, SMALL))
        if not piece:
            break
        pieces.append(piece)
        left = left - len(piece) if left > 0 else left
    return b"".join(pieces)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
