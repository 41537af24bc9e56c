"""Runs of a process: counted, cancelled at any time, read to their end whatever that is, and forgotten in time."""

import asyncio
from pathlib import Path

import pytest
from tests.playing import waits
from tests.unit.app.running import Place, read, until
from tests.unit.app.test_warm import within

from melete.app import runs as room
from melete.app.events import START
from melete.app.events import place as where
from melete.app.runs import StoppingError, TooManyRunsError, Wanted
from melete.core.errors import SessionBusyError, SessionNotFoundError, StorageError
from melete.core.event import RunEnded, RunStarted, TextDelta, ToolStarted
from melete.core.session import WhichRuns


def test_a_run_is_found_and_read_while_it_goes_on_and_afterwards(tmp_path: Path) -> None:
    async def test(here: Place) -> None:
        going = await here.start("wait found", Wanted(watched=True), cwd=str(tmp_path))
        state = await here.runs.state(going.run, owner="")
        assert (state.status, state.ref.id, here.runs.find(going.run)) == ("running", going.ref.id, going)
        waits(tmp_path)("found")
        live = await read(going.events())
        late = await read(here.runs.events(going.run, going.ref))
        assert [where(event) for event in live] == [where(event) for event in late]
        assert any(isinstance(event, TextDelta) for event in late)
        assert (await here.runs.state(going.run, owner="")).status == "done"
        with pytest.raises(SessionNotFoundError):
            await here.runs.state(going.run, owner="key:other")

    within(test)


def test_deltas_of_runs_that_are_over_are_kept_for_a_few_and_facts_of_all() -> None:
    async def test(here: Place) -> None:
        first = await here.said("say One two three.")
        assert first.hub.holds(first.run)
        for number in range(room.LATELY):
            await here.said(f"say {number}")
        assert not first.hub.holds(first.run)
        events = await read(here.runs.events(first.run, first.ref))
        assert isinstance(events[-1], RunEnded)
        assert not any(isinstance(event, TextDelta) for event in events)

    within(test, kept=200)


def test_as_many_go_on_as_may_and_all_of_them(tmp_path: Path) -> None:
    async def test(here: Place) -> None:
        begun = await asyncio.gather(
            *[here.start("wait many", cwd=str(tmp_path)) for _ in range(7)], return_exceptions=True
        )
        refused = [one for one in begun if isinstance(one, TooManyRunsError)]
        assert len(refused) == 2
        waits(tmp_path)("many")
        for one in begun:
            if not isinstance(one, BaseException):
                assert (await one.ended()).stop == "done"
        await here.said("say There is room again.")

    within(test, most=5)


def test_a_run_is_cancelled_before_it_has_begun() -> None:
    async def test(here: Place) -> None:
        first = await here.said("say a")
        starting = asyncio.create_task(here.start("stall", session=first.ref.id))
        await until(lambda: here.runs.going)
        (going,) = here.runs.going
        going.cancel()
        assert await starting is going
        assert (await going.ended()).stop == "cancelled"
        going.cancel()  # it is over: the next run of the conversation is not meant
        assert (await (await here.said("say b", session=first.ref.id)).ended()).stop == "done"

    within(test)


def test_a_run_goes_on_when_its_caller_leaves_while_it_begins() -> None:
    async def test(here: Place) -> None:
        first = await here.said("say a")
        starting = asyncio.create_task(here.start("say Still here.", session=first.ref.id))
        await until(lambda: here.runs.going)
        (going,) = here.runs.going
        starting.cancel()
        assert (await going.ended()).text == "Still here."

    within(test)


def test_of_two_runs_in_one_session_one_begins() -> None:
    async def test(here: Place) -> None:
        first = await here.said("say a")
        both = await asyncio.gather(
            *[here.start("say b", session=first.ref.id) for _ in range(2)], return_exceptions=True
        )
        (going,) = [one for one in both if not isinstance(one, BaseException)]
        assert [type(one) for one in both if isinstance(one, BaseException)] == [SessionBusyError]
        await going.ended()

    within(test)


def test_whoever_has_read_the_end_begins_the_next_run_at_once() -> None:
    async def test(here: Place) -> None:
        going = await here.start("say 0", Wanted(watched=True))
        for number in range(1, 20):
            await read(going.events())
            going = await here.start(f"say {number}", Wanted(watched=True), session=going.ref.id)
        await read(going.events())
        assert len(await here.app.store.runs(WhichRuns(session=going.ref.id))) == 20

    within(test)


def test_a_reader_ends_with_a_run_that_could_not_store_its_end(tmp_path: Path) -> None:
    async def test(here: Place) -> None:
        going = await here.start("wait lost", Wanted(watched=True), cwd=str(tmp_path))
        reading = asyncio.create_task(read(going.events()))
        second = asyncio.create_task(read(here.runs.events(going.run, going.ref)))
        whole = asyncio.create_task(anext(here.runs.session_events(going.ref)))
        log = here.app.loaded.home.state / "sessions" / f"{going.ref.id}.log"
        events = here.runs.events(going.run, going.ref)
        while not isinstance(await anext(events), ToolStarted):
            pass
        await events.aclose()
        log.unlink()  # what comes now cannot be stored
        waits(tmp_path)("lost")
        with pytest.raises(StorageError):
            await going.ended()
        for events in (await reading, await second):
            assert isinstance(events[0], RunStarted)
            assert not isinstance(events[-1], RunEnded)
        assert await whole
        assert not here.runs.going

    within(test)


def test_a_server_that_stops_begins_nothing_and_cancels_what_is_late(tmp_path: Path) -> None:
    async def test(here: Place) -> None:
        going = await here.start("wait never", cwd=str(tmp_path))
        opening = asyncio.create_task(here.start("stall"))
        await until(lambda: len(here.runs.going) == 2)
        assert await here.runs.drain(0.01) == 2
        assert [(await one.ended()).stop for one in (going, await opening)] == ["cancelled"] * 2
        with pytest.raises(StoppingError):
            await here.start("say no")
        assert not here.runs.going

    within(test)


def test_nothing_is_left_behind_by_runs_that_came_and_went() -> None:
    async def test(here: Place) -> None:
        await here.said("say warm")
        await asyncio.sleep(0.05)
        tasks = len(asyncio.all_tasks())
        for number in range(60):
            going = await here.start(f"say {number}", Wanted(watched=number % 2 == 0))
            if number % 3 == 0:
                await anext(going.events())  # a reader that leaves after one event
            if number % 5 == 0:
                await anext(here.runs.session_events(going.ref))
            await going.ended()
        await until(lambda: not here.runs.going)
        await asyncio.sleep(0.1)
        assert len(here.app.hubs) == len(here.warm) == 4
        assert len(asyncio.all_tasks()) <= tasks + 4
        assert all(where_of == START or where_of > START for where_of in (hub.place for hub in here.app.hubs.values()))

    within(test, kept=4)
