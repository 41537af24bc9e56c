"""What a person adds while a run goes on lands between two steps, a queued message when the model would stop."""

import asyncio
from pathlib import Path
from typing import Any

from melete.app.clock import SystemClock
from melete.app.reaching import Kind, inbox_message
from melete.core.event import Answered, CancelAsked, Said, Steered
from melete.core.session import Receipt
from melete.core.tool import Tool, ToolContext, tool
from melete.store import open_store
from melete.store.inbox import put
from melete.testing import Call, Say, ScriptedModel
from tests.talking import Talk, talk


async def from_elsewhere(here: Talk, kind: Kind, text: str) -> Receipt:
    """Send through a store of its own, as another process does."""
    store = open_store(here.app.loaded.home.state, clock=SystemClock())
    try:
        return await store.send(here.conversation.ref, inbox_message(here.app, kind, text=text))
    finally:
        await store.aclose()


def pausing(began: asyncio.Event, go_on: asyncio.Event) -> Tool:
    @tool(effect="write")
    async def work(ctx: ToolContext) -> dict[str, Any]:
        """Takes a while."""
        began.set()
        await go_on.wait()
        return {"success": True}

    return work


def roles(messages: list[dict[str, Any]]) -> list[str]:
    return [message["role"] for message in messages]


def test_steering_and_queueing_from_another_process(tmp_path: Path) -> None:
    async def main() -> None:
        began, go_on = asyncio.Event(), asyncio.Event()
        async with talk(model, tmp_path / "work", tools=[pausing(began, go_on)]) as here:
            run = asyncio.ensure_future(here.say("Work."))
            await began.wait()
            queued = asyncio.ensure_future(from_elsewhere(here, "queue", "And then this."))
            steered = asyncio.ensure_future(from_elsewhere(here, "steer", "More to the left."))
            await asyncio.sleep(0.1)
            assert len(model.requests) == 1
            go_on.set()
            ended = await run
            receipts = await asyncio.gather(queued, steered)
            steers, said = await here.facts(Steered), await here.facts(Said)
        assert (ended.stop, ended.text, ended.steps) == ("done", "This as well.", 3)
        assert [receipt.status for receipt in receipts] == ["accepted", "accepted"]
        assert [receipt.seq for receipt in receipts] == [said[1].seq, steers[0].seq]
        assert [fact.message.text for fact in steers] == ["More to the left."]
        assert [fact.message.text for fact in said] == ["Work.", "And then this."]
        assert roles(here.messages(1)) == ["system", "user", "assistant", "tool", "user"]
        assert here.messages(1)[-1]["content"] == "More to the left."
        assert roles(here.messages(2))[-2:] == ["assistant", "user"]
        assert here.messages(2)[-1]["content"] == "And then this."

    with ScriptedModel([Call("work"), Say("To the left."), Say("This as well.")]) as model:
        asyncio.run(main())


def test_messages_to_a_session_at_rest_wait_for_its_next_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work") as here:
            await here.say("First.")
            assert (await from_elsewhere(here, "queue", "Q1")).status == "queued"
            assert (await from_elsewhere(here, "queue", "Q2")).status == "queued"
            assert (await from_elsewhere(here, "cancel", "")).status == "expired"
            ended = await here.go_on()
        assert (ended.stop, ended.text, ended.steps) == ("done", "A2", 2)
        assert [message["content"] for message in here.messages()[1:]] == ["First.", "A0", "Q1", "A1", "Q2"]

    with ScriptedModel(["A0", "A1", "A2"]) as model:
        asyncio.run(main())


def test_a_message_that_was_taken_in_before_a_crash_is_not_taken_in_twice(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work") as here:
            log = here.app.loaded.home.state / "sessions" / f"{here.conversation.ref.id}.log"
            message = inbox_message(here.app, "queue", text="Once.")
            put(log, message)
            assert (await here.go_on()).text == "A0"
            file = put(log, message)  # as if the process had died before it removed the file
            assert (await here.go_on()).steps == 0
            assert not file.exists()
            assert [fact.message.text for fact in await here.facts(Said)] == ["Once."]

    with ScriptedModel(["A0", "A1"]) as model:
        asyncio.run(main())


def test_answers_and_cancels_that_nobody_took_expire_with_the_next_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work") as here:
            log = here.app.loaded.home.state / "sessions" / f"{here.conversation.ref.id}.log"
            files = [put(log, inbox_message(here.app, kind, question="q")) for kind in ("answer", "cancel")]
            assert (await here.say("Go.")).stop == "done"
            assert [fact.status for fact in await here.facts(Answered)] == ["expired"]
            assert [fact.status for fact in await here.facts(CancelAsked)] == ["expired"]
            assert not [file for file in files if file.exists()]

    with ScriptedModel(["A0"]) as model:
        asyncio.run(main())
