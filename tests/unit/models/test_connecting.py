"""Opening a connection: what is left when it is cancelled on the way."""

import asyncio
import gc
import sys
from typing import Any

import pytest

from melete.models.address import address
from melete.models.connection import connect


def test_an_attempt_that_is_cancelled_at_any_moment_leaves_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[Any] = []

    async def main() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        to = address(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", what="the base URL")
        async with server, asyncio.TaskGroup() as group:
            for turns in range(60):
                attempt = group.create_task(connect(to, proxy=None, trust=None))
                for _ in range(turns % 15):
                    await asyncio.sleep(0)
                attempt.cancel()
                await asyncio.wait([attempt])
                if not attempt.cancelled():
                    attempt.result().abort()

    gc.collect()
    monkeypatch.setattr(sys, "unraisablehook", left.append)
    asyncio.run(main())
    gc.collect()
    assert not left


@pytest.mark.parametrize(
    ("url", "numeric"),
    [
        ("http://127.0.0.1:1/", True),
        ("http://[::1]/", True),
        ("http://localhost/", False),
        ("http://1.example.com/", False),
    ],
)
def test_what_needs_no_looking_up(url: str, numeric: bool) -> None:
    assert address(url, what="the base URL").numeric is numeric
