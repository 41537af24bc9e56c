"""Lines from standard input, as they come, for commands that answer each one before the next."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator

from melete.core.errors import UsageError

PIECE = 1 << 16
LONGEST = 10_000_000
MARK = b"\xef\xbb\xbf"


async def stdin_lines() -> AsyncGenerator[bytes]:
    """The lines without their ends; a signal ends the waiting for one.

    Raises UsageError when there is no standard input, or for a line of more than 10 MB.
    """
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError("there is no standard input to read from", next="send lines through a pipe") from error
    rest = b""
    first = True
    while piece := await next_piece(descriptor):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield (line.removeprefix(MARK) if first else line).removesuffix(b"\r")
            first = False
        if len(rest) > LONGEST:
            raise UsageError(f"a line is longer than {LONGEST // 1_000_000} MB", next="send one JSON object a line")
    if rest:
        yield rest.removeprefix(MARK) if first else rest


async def next_piece(descriptor: int) -> bytes:
    """The next bytes of an open file or pipe, none at its end; waiting for them can be cancelled."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not ready.done():
            ready.set_result(None)

    try:
        loop.add_reader(descriptor, settle)
    except PermissionError:  # a file never lets one wait
        return os.read(descriptor, PIECE)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, PIECE)
