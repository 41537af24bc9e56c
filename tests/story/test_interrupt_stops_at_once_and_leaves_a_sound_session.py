"""A cancelled run stops at once wherever it is: every call has a result, the run its end, and the session goes on."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from melete.app.clock import SystemClock
from melete.app.opening import exit_code
from melete.app.reaching import inbox_message
from melete.core.event import (
    CancelAsked,
    Event,
    Framed,
    RunEnded,
    RunStarted,
    Said,
    TextDelta,
    Titled,
    ToolEnded,
    ToolStarted,
)
from melete.core.tool import ToolContext, tool
from melete.store import open_store
from melete.testing import Call, Calls, Fault, Say, ScriptedModel
from melete.testing.replies import Reply
from tests.talking import Talk, content, is_question, talk, until


@tool(parallel=True)
async def hangs(ctx: ToolContext) -> dict[str, Any]:
    """Never ends."""
    await asyncio.Event().wait()
    return {}


@tool(parallel=True)
async def quick(ctx: ToolContext) -> dict[str, Any]:
    """Ends at once."""
    return {"success": True}


async def by_hand(here: Talk) -> None:
    here.conversation.cancel()
    here.conversation.cancel()


async def from_elsewhere(here: Talk) -> None:
    store = open_store(here.app.loaded.home.state, clock=SystemClock())
    receipt = await store.send(here.conversation.ref, inbox_message(here.app, "cancel"))
    assert receipt.status == "accepted"
    await store.aclose()


async def cancelled(here: Talk, wanted: Callable[[Event], bool], how: Callable[[Talk], Any]) -> RunEnded:
    async def wait() -> None:
        await until(here.conversation, wanted)
        await how(here)

    waiting = here.app.group.create_task(wait())
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        ended = await here.say("Go.")
    await waiting
    return ended


@pytest.mark.parametrize("how", [by_hand, from_elsewhere])
def test_while_tools_run(tmp_path: Path, how: Callable[[Talk], Any]) -> None:
    calls = [Call("quick"), Call("hangs"), Call("terminal", {"command": "sleep 600"}), Call("quick")]

    async def main() -> None:
        async with talk(model, tmp_path / "work", tools=[hangs, quick]) as here:
            ended = await cancelled(here, lambda e: isinstance(e, ToolEnded), how)
            results = await here.facts(ToolEnded)
            asked = await here.facts(CancelAsked)
            assert (ended.stop, ended.text, ended.error) == ("cancelled", "Here I go.", None)
            assert exit_code(ended) == 130
            assert [fact.outcome for fact in results] == ["ok", "cancelled", "not_run", "not_run"]
            assert content(results[1])["error"] == "Stopped by the user."
            assert [fact.status for fact in asked] == ([] if how is by_hand else ["accepted"])
            again = await here.go_on()
        assert (again.stop, again.text) == ("done", "Gone on.")
        assert [message["role"] for message in here.messages()] == ["system", "user", "assistant", *["tool"] * 4]

    with ScriptedModel([Calls(calls, text="Here I go."), Say("Gone on.")]) as model:
        asyncio.run(main())


def test_a_command_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    command = "sleep 600 & echo $! > child; wait"

    async def main() -> None:
        folder = tmp_path / "work"

        async def when_it_runs(here: Talk) -> None:
            while not (folder / "child").is_file() or not (folder / "child").read_text():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            here.conversation.cancel()

        async with talk(model, folder) as here:
            ended = await cancelled(here, lambda e: isinstance(e, ToolStarted), when_it_runs)
            (result,) = await here.facts(ToolEnded)
        assert (ended.stop, result.outcome) == ("cancelled", "cancelled")
        child = Path("/proc", (folder / "child").read_text().strip(), "stat")
        assert not child.exists() or child.read_text().split()[2] == "Z"

    with ScriptedModel([Call("terminal", {"command": command})]) as model:
        asyncio.run(main())


@pytest.mark.parametrize("how", [by_hand, from_elsewhere])
def test_while_the_model_answers(tmp_path: Path, how: Callable[[Talk], Any]) -> None:
    script: list[Reply] = [Fault("stall", after=3, seconds=30, reply=Say("A long answer. " * 20)), Say("Gone on.")]

    async def main() -> None:
        async with talk(model, tmp_path / "work") as here:
            ended = await cancelled(here, lambda e: isinstance(e, TextDelta), how)
            assert (ended.stop, ended.text, ended.steps) == ("cancelled", "", 0)
            again = await here.go_on()
        assert (again.stop, again.text) == ("done", "Gone on.")
        assert [message["role"] for message in here.messages()] == ["system", "user"]

    with ScriptedModel(script) as model:
        asyncio.run(main())


def test_while_a_question_is_open(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work", attended=True) as here:
            ended = await cancelled(here, is_question, by_hand)
            (result,) = await here.facts(ToolEnded)
            state = await here.conversation.transcript()
        assert (ended.stop, result.outcome) == ("cancelled", "cancelled")
        assert not state.questions

    with ScriptedModel([Call("clarify", {"question": "Which?"})]) as model:
        asyncio.run(main())


def test_by_whoever_waits_for_the_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work", tools=[hangs]) as here:
            begun = asyncio.create_task(until(here.conversation, lambda e: isinstance(e, ToolStarted)))
            run = asyncio.create_task(here.say("Go."))
            await begun
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            state = await here.conversation.transcript()
            assert state.ended is not None
            assert (state.ended.stop, state.open_calls) == ("cancelled", ())
            again = await here.go_on()
        assert (again.stop, again.text) == ("done", "Gone on.")

    with ScriptedModel([Calls([Call("hangs"), Call("todo")]), Say("Gone on.")]) as model:
        asyncio.run(main())


@pytest.mark.parametrize("kind", [RunStarted, Framed, Said, Titled])
def test_before_the_first_request(tmp_path: Path, kind: type[Event]) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work") as here:
            ended = await cancelled(here, lambda e: isinstance(e, kind), by_hand)
        assert (ended.stop, ended.text) == ("cancelled", "")
        assert not model.requests

    with ScriptedModel(["Too late."]) as model:
        asyncio.run(main())
