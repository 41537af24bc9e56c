"""Conversations that are kept: taken by one at a time, closed by whoever opened them, and never in each other's way."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.playing import play, waits
from tests.unit.app.running import OPTIONS, Place, place

from melete.app import warm as room
from melete.app.opening import Options
from melete.core.errors import ConfigError, SessionBusyError, SessionNotFoundError
from melete.testing import ScriptedModel


def within(test: Callable[[Place], Awaitable[None]], **how: Any) -> None:
    """Run a test in an application of its own."""

    async def main() -> None:
        with ScriptedModel(play) as model:
            async with place(model, **how) as here:
                await test(here)

    asyncio.run(main())


def options(session: str = "", **more: Any) -> Options:
    return Options(session=session, **OPTIONS, **more)


def test_a_conversation_is_used_again_by_the_next_run_of_its_session() -> None:
    async def test(here: Place) -> None:
        first = await here.said("say a")
        kept = await here.warm.take(options(first.ref.id))
        assert kept.conversation.hub is first.hub
        here.warm.release(kept)
        assert len(here.warm) == 1

    within(test)


def test_of_two_that_want_a_session_one_gets_it() -> None:
    async def test(here: Place) -> None:
        first = await here.said("say a")
        taken = await asyncio.gather(*[here.warm.take(options(first.ref.id)) for _ in range(8)], return_exceptions=True)
        (kept,) = [one for one in taken if isinstance(one, room.Kept)]
        assert [type(one) for one in taken].count(SessionBusyError) == 7
        here.warm.release(kept)
        here.warm.release(await here.warm.take(options(first.ref.id)))

    within(test)


def test_a_session_that_is_being_put_away_is_opened_again_only_behind_that() -> None:
    async def test(here: Place) -> None:
        first = await here.said("say a")
        await here.said("say b")  # only one is kept: the first is being closed
        again = await here.start("say c", session=first.ref.id)
        events = [event async for event in again.events() if event]
        assert events[-1].run == again.run
        assert again.hub is not first.hub
        assert here.app.hubs[first.ref.id] is again.hub

    within(test, kept=1)


def test_the_longest_unused_go_first_and_no_hub_is_left_behind() -> None:
    async def test(here: Place) -> None:
        sessions = [(await here.said(f"say {number}")).ref.id for number in range(6)]
        await here.said("say again", session=sessions[3])
        await here.said("say new")
        await asyncio.sleep(0.05)
        assert len(here.warm) == 3
        assert {sessions[3], sessions[5]} <= set(here.app.hubs)
        assert len(here.app.hubs) == 3

    within(test, kept=3)


def test_other_tools_open_it_anew_and_a_model_that_is_not_there_leaves_it_as_it_was() -> None:
    async def test(here: Place) -> None:
        first = await here.said("say a")
        with pytest.raises(ConfigError):
            await here.warm.take(options(first.ref.id, toolsets=("no-such",)))
        kept = await here.warm.take(options(first.ref.id))
        model = kept.conversation.model
        here.warm.release(kept)
        for _ in range(2):  # the second try must not be answered by the old model either
            with pytest.raises(ConfigError):
                await here.warm.take(options(first.ref.id, model="anthropic/claude-sonnet-4-5"))
        again = await here.warm.take(options(first.ref.id))
        assert again.conversation.model is model
        assert not again.leave.is_set()
        here.warm.release(again)

    within(test)


def test_a_caller_that_leaves_while_it_is_opened_leaves_nothing_taken() -> None:
    async def test(here: Place) -> None:
        first = await here.said("say a")
        await here.warm.drop(first.ref.id)
        for pauses in range(12):  # at any point of the opening
            task = asyncio.create_task(here.warm.take(options(first.ref.id)))
            for _ in range(pauses):
                await asyncio.sleep(0)
            task.cancel()
            done, _ = await asyncio.wait([task])
            if not task.cancelled():
                here.warm.release(done.pop().result())
            here.warm.release(await here.warm.take(options(first.ref.id)))
            await here.warm.drop(first.ref.id)
        assert len(here.warm) == 0

    within(test)


def test_one_that_goes_is_closed_and_one_that_runs_is_not(tmp_path: Path) -> None:
    async def test(here: Place) -> None:
        going = await here.start("wait dropped", cwd=str(tmp_path))
        with pytest.raises(SessionBusyError):
            await here.warm.drop(going.ref.id)
        waits(tmp_path)("dropped")
        await going.ended()
        await here.warm.drop(going.ref.id)
        await here.app.store.delete(going.ref)
        with pytest.raises(SessionNotFoundError):
            await here.warm.take(options(going.ref.id))
        assert not here.app.hubs

    within(test)


def test_closing_all_closes_also_what_is_just_being_opened() -> None:
    async def test(here: Place) -> None:
        first = await here.said("say a")
        opening = asyncio.create_task(here.warm.take(options()))
        await asyncio.sleep(0)
        await here.warm.aclose()
        kept = await opening
        await kept.gone.wait()
        here.warm.release(kept)
        assert len(here.warm) == 0
        assert first.ref.id not in here.app.hubs

    within(test)
