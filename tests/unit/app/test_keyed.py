"""Keyed requests: each key leads to one id for 24 hours, whoever asks at the same time, and whatever the ledger holds."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from melete.app.keyed import KIND, Began, Keyed, KeyInUseError, KeyReusedError, Requests, Work
from melete.store import open_ledger
from melete.testing import ManualClock

HOUR = 3_600.0


def keyed(key: str = "k", body: bytes = b"body", owner: str = "") -> Keyed:
    return Keyed(owner=owner, key=key, body=body)


async def there(_: str) -> bool:
    return True


async def nowhere(_: str) -> bool:
    return False


async def sent(requests: Requests, one: Keyed, *, began: Began = there) -> Work:
    """What a request leads to whose work begins."""
    async with requests.once(one, began=began) as work:
        return work


def within(tmp_path: Path, test: Callable[[Callable[[], Requests], ManualClock], Awaitable[None]]) -> None:
    """Run a test with a maker of processes that share one ledger."""
    clock = ManualClock()
    asyncio.run(test(lambda: Requests(open_ledger(tmp_path, clock=clock), clock), clock))  # pyright: ignore[reportArgumentType]


def test_a_key_leads_to_one_id_also_in_a_later_process(tmp_path: Path) -> None:
    async def test(process: Callable[[], Requests], _: ManualClock) -> None:
        requests = process()
        first = await sent(requests, keyed())
        again = await sent(requests, keyed())
        later = await sent(process(), keyed())
        assert (first.first, again.first, later.first) == (True, False, False)
        assert first.id == again.id == later.id
        assert (again.done, later.done) == (True, False)
        others = [await sent(requests, one) for one in (keyed("k2"), keyed(owner="key:ann"))]
        assert len({first.id, *(one.id for one in others)}) == 3

    within(tmp_path, test)


def test_neither_the_key_nor_the_body_stands_in_the_ledger(tmp_path: Path) -> None:
    async def test(process: Callable[[], Requests], _: ManualClock) -> None:
        await sent(process(), keyed("the-name-of-it", b"what was said"))

    within(tmp_path, test)
    stored = (tmp_path / "ledger.log").read_bytes()
    assert KIND.encode() in stored
    assert b"the-name-of-it" not in stored
    assert b"what was said" not in stored


def test_another_body_is_refused_unless_the_work_never_began(tmp_path: Path) -> None:
    async def test(process: Callable[[], Requests], _: ManualClock) -> None:
        requests = process()
        first = await sent(requests, keyed())
        for one in (requests, process()):
            with pytest.raises(KeyReusedError):
                await sent(one, keyed(body=b"other"))
        fresh = await sent(requests, keyed(body=b"other"), began=nowhere)
        assert (fresh.first, fresh.id != first.id) == (True, True)
        assert (await sent(process(), keyed(body=b"other"))).id == fresh.id

    within(tmp_path, test)


def test_a_key_is_forgotten_after_a_day(tmp_path: Path) -> None:
    async def test(process: Callable[[], Requests], clock: ManualClock) -> None:
        requests = process()
        first = await sent(requests, keyed())
        clock.advance(23 * HOUR)
        assert (await sent(requests, keyed())).id == first.id
        assert (await sent(process(), keyed())).id == first.id
        clock.advance(2 * HOUR)
        fresh = await sent(process(), keyed(body=b"other"))
        assert fresh.first
        assert (await sent(requests, keyed(body=b"other"))).id == fresh.id

    within(tmp_path, test)


def test_servers_of_one_home_know_of_one_anothers_keys(tmp_path: Path) -> None:
    async def test(process: Callable[[], Requests], clock: ManualClock) -> None:
        one, other = process(), process()
        for requests in (one, other):  # both have read the ledger by now
            await sent(requests, keyed(f"of {id(requests)}"))
        first = await sent(one, keyed())
        again = await sent(other, keyed())
        assert (again.id, again.first) == (first.id, False)
        begun = await sent(one, keyed("k2"), began=nowhere)
        for _ in range(2):
            with pytest.raises(KeyInUseError):  # it may be about to begin there
                await sent(other, keyed("k2"), began=nowhere)
        clock.advance(60)
        assert (await sent(other, keyed("k2"), began=nowhere)).id == begun.id
        await sent(one, keyed("k3"))
        with pytest.raises(KeyReusedError):
            await sent(other, keyed("k3", body=b"other"))

    within(tmp_path, test)


def test_while_one_begins_others_wait_or_are_told(tmp_path: Path) -> None:
    async def test(process: Callable[[], Requests], _clock: ManualClock) -> None:
        requests = process()
        waiting: list[Work] = []

        async def wait() -> None:
            async with requests.once(keyed(), began=there, wait=True) as work:
                waiting.append(work)

        async with asyncio.TaskGroup() as group, requests.once(keyed(), began=there) as first:
            for _ in range(3):
                group.create_task(wait())
            await asyncio.sleep(0.01)
            with pytest.raises(KeyInUseError):
                await sent(requests, keyed())
            assert (await sent(requests, keyed("other"))).first
            assert not waiting
        assert [(work.id, work.first) for work in waiting] == [(first.id, False)] * 3

    within(tmp_path, test)


def test_work_that_could_not_begin_may_begin_the_next_time(tmp_path: Path) -> None:
    async def test(process: Callable[[], Requests], _: ManualClock) -> None:
        requests = process()
        ids: list[str] = []
        with pytest.raises(RuntimeError):
            async with requests.once(keyed(), began=there) as first:
                ids.append(first.id)
                raise RuntimeError("it could not begin")
        again = await sent(requests, keyed())
        assert ([again.id], again.done) == (ids, False)

    within(tmp_path, test)


def test_rows_that_make_no_sense_are_passed_over(tmp_path: Path) -> None:
    async def test(process: Callable[[], Requests], clock: ManualClock) -> None:
        first = await sent(process(), keyed())
        ledger = open_ledger(tmp_path, clock=clock)
        await ledger.append(KIND, {"key": "x"})
        await ledger.append(KIND, {"key": 7, "body": [], "run": None, "owner": {}})
        await ledger.append("other", {"key": "k"})
        assert (await sent(process(), keyed())).id == first.id

    within(tmp_path, test)
