"""What checks of the suites are written with. Part `testing`."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE = 20.0
PAUSE = 0.05


def same(got: object, wanted: object, what: str) -> None:
    """Raise AssertionError that shows both when they differ."""
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, wanted {wanted!r}")


async def raises(kind: type[BaseException] | tuple[type[BaseException], ...], doing: Awaitable[Any], what: str) -> None:
    """Raise AssertionError unless awaiting raises an error of this kind."""
    try:
        got = await doing
    except kind:
        return
    kinds = kind if isinstance(kind, tuple) else (kind,)
    raise AssertionError(f"{what}: got {got!r}, wanted {' or '.join(one.__name__ for one in kinds)}")


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until `holds` says so; raise AssertionError when it does not within a long while."""
    end = time.monotonic() + PATIENCE
    while not await holds():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {PATIENCE:.0f} seconds")
        await asyncio.sleep(PAUSE)
