"""What comes out of a sandbox is data from a stranger: whatever it says, the agent goes on and keeps nothing of it."""

import asyncio
import json
import os
import resource
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.core.errors import EnvironmentFailure
from melete.environments.child import Spec
from melete.environments.spawner import UNASKED, Inside


class Stranger:
    """The other end of the connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def say(self, message: object, descriptors: Sequence[int] = ()) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        socket.send_fds(self.connection, [data], list(descriptors))


def talk(test: Callable[[Inside, Stranger], Awaitable[None]]) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs.setblocking(False)
        before = open_descriptors()
        inside = Inside(ours)
        try:
            async with asyncio.timeout(30):
                await test(inside, Stranger(theirs))
        finally:
            inside.close()
            theirs.close()
        assert open_descriptors() <= before

    asyncio.run(main())


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


NONSENSE: list[Any] = [
    b"\xff\xfe", b"[", b"null", b"7", b'"text"', b"[]", {"n": "one"}, {"n": 1, "rows": 5}, {"pid": [1]}, {"long": 1}, {"ended": {}},
    b"[" * 50_000, {"n": 1, "size": 1e999},
]  # fmt: skip


@pytest.mark.parametrize("message", NONSENSE)
def test_a_message_that_cannot_be_read_ends_the_connection_with_a_reason(message: Any) -> None:
    async def test(inside: Inside, stranger: Stranger) -> None:
        asking = asyncio.ensure_future(inside.ask("describe", path="/"))
        await settle()
        stranger.say(message, [0, 1])
        with pytest.raises(EnvironmentFailure, match="ended"):
            await asking

    talk(test)


@given(st.binary(min_size=1, max_size=200))
def test_no_bytes_do_more_than_that(data: bytes) -> None:
    async def test(inside: Inside, stranger: Stranger) -> None:
        stranger.say(data, [0])
        await settle()

    talk(test)


def test_descriptors_that_nobody_asked_for_are_closed(tmp_path: Path) -> None:
    async def test(inside: Inside, stranger: Stranger) -> None:
        for message in ({"ready": 1}, {"n": 77}, {"ended": 5, "code": 0}, {"ended": 1}, {}):
            stranger.say(message, [0, 1, 2])
        await settle()
        assert not inside.gone

    talk(test)


def test_a_flood_is_no_longer_listened_to() -> None:
    async def test(inside: Inside, stranger: Stranger) -> None:
        asking = asyncio.ensure_future(inside.ask("describe", path="/"))
        sent = 0
        while not inside.gone:
            try:
                stranger.say({"n": 10_000 + sent})
                sent += 1
            except BlockingIOError:
                await asyncio.sleep(0)
            except OSError:
                break
        with pytest.raises(EnvironmentFailure):
            await asking
        assert sent <= UNASKED + 1000

    talk(test)


@pytest.mark.parametrize("kind", ["fifo", "huge", "folder", "none"])
def test_a_long_message_is_read_from_a_plain_file_of_bearable_size(tmp_path: Path, kind: str) -> None:
    async def test(inside: Inside, stranger: Stranger) -> None:
        descriptors: list[int] = []
        if kind == "fifo":
            descriptors = list(os.pipe())
        elif kind == "huge":
            descriptors = [os.open(tmp_path / "huge", os.O_RDWR | os.O_CREAT)]
            os.truncate(descriptors[0], 1 << 40)
        elif kind == "folder":
            descriptors = [os.open(tmp_path, os.O_RDONLY)]
        asking = asyncio.ensure_future(inside.ask("list", path="/"))
        await settle()
        stranger.say({"long": 1}, descriptors)
        with pytest.raises(EnvironmentFailure):
            await asking
        for descriptor in descriptors:
            os.close(descriptor)

    talk(test)


@pytest.mark.parametrize("count", [0, 2, 4])
def test_an_answer_with_other_descriptors_than_were_asked_for_is_a_failure_of_that_request(count: int) -> None:
    async def test(inside: Inside, stranger: Stranger) -> None:
        asking = asyncio.ensure_future(inside.descriptor("open", path="/x"))
        await settle()
        stranger.say({"n": 1, "size": 3}, [0, 1, 2, 0][:count])
        with pytest.raises(OSError, match="no answer"):
            await asking
        assert not inside.gone

    talk(test)


def test_what_is_given_as_a_terminal_must_be_one() -> None:
    async def test(inside: Inside, stranger: Stranger) -> None:
        starting = asyncio.ensure_future(inside.start(Spec(argv=["sh"], cwd="/", stdin=None, pty=True)))
        await settle()
        mine, its = os.pipe()
        stranger.say({"n": 1, "pid": 3}, [mine])
        with pytest.raises(OSError, match="terminal"):
            await starting
        os.close(mine)
        os.close(its)

    talk(test)


def test_the_end_of_a_command_that_was_never_started_means_nothing() -> None:
    async def test(inside: Inside, stranger: Stranger) -> None:
        for number in (0, -1, 1, 99):
            stranger.say({"ended": number, "code": 0})
        stranger.say({"n": 99, "pid": 1})
        await settle()
        asking = asyncio.ensure_future(inside.ask("describe", path="/"))
        await settle()
        stranger.say({"n": 1, "found": None})
        assert (await asking)[0].found is None

    talk(test)


def test_a_stranger_that_does_not_read_makes_requests_wait_and_loses_none() -> None:
    async def test(inside: Inside, stranger: Stranger) -> None:
        count = 400
        asking = [asyncio.ensure_future(inside.ask("describe", path="x" * 20_000)) for _ in range(count)]
        await settle()
        assert not inside.gone
        seen = 0
        while seen < count:
            try:
                assert stranger.connection.recv(1 << 17)
                seen += 1
                stranger.say({"n": seen})
            except BlockingIOError:
                await asyncio.sleep(0.001)
        await asyncio.gather(*asking)

    talk(test)


def test_an_answer_to_a_request_that_was_given_up_is_undone() -> None:
    async def test(inside: Inside, stranger: Stranger) -> None:
        starting = asyncio.ensure_future(inside.start(Spec(argv=["sh"], cwd="/")))
        await settle()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        stranger.connection.recv(1 << 17)
        stranger.say({"n": 1, "pid": 41})
        await settle()
        assert b"end" in stranger.connection.recv(1 << 17)

    talk(test)


def test_memory_stays_bounded_while_a_stranger_floods() -> None:
    async def test(inside: Inside, stranger: Stranger) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        while not inside.gone:
            try:
                stranger.say({"n": 5, "rows": [["x" * 1000, "file", 1]] * 50})
            except BlockingIOError:
                await asyncio.sleep(0)
            except OSError:
                break
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000

    talk(test)
