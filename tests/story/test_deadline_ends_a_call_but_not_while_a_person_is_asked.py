"""Each call has a deadline; it stands still while a question of that call, or of a call that it makes, is open."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest

from melete.app.reaching import inbox_message, send
from melete.core.event import Asked, Question, ToolEnded
from melete.core.policy import Verdict
from melete.core.tool import Tool, ToolContext, tool
from melete.testing import Call, Say, ScriptedModel
from tests.talking import Talk, content, is_question, talk, until

DEADLINE = 0.5
LONGER = 0.8


@tool(deadline=DEADLINE)
async def slow(ctx: ToolContext) -> dict[str, Any]:
    """Never ends."""
    await asyncio.Event().wait()
    return {}


@tool(deadline=5)
async def own(ctx: ToolContext) -> dict[str, Any]:
    """Has a shorter patience of its own."""
    async with asyncio.timeout(0.01):
        await asyncio.Event().wait()
    return {}


@tool(deadline=DEADLINE)
async def asks(ctx: ToolContext) -> dict[str, Any]:
    """Asks the person."""
    answer = await ctx.ask(Question(id="q1", kind="clarify", text="Which?"))
    return {"answer": answer}


@tool(deadline=DEADLINE)
async def asks_then_hangs(ctx: ToolContext) -> dict[str, Any]:
    """Asks the person, then never ends."""
    await ctx.ask(Question(id="q1", kind="clarify", text="Which?"))
    await asyncio.Event().wait()
    return {}


@tool(deadline=DEADLINE)
async def asks_inside(ctx: ToolContext) -> Mapping[str, Any]:
    """Makes a call that asks."""
    return await ctx.call("asks", {})


@tool(judge=lambda *_: Verdict(verdict="ask", rule="r", reason="is risky"))
async def risky(ctx: ToolContext) -> dict[str, Any]:
    """Needs approval."""
    return {"answer": "approved"}


@tool(deadline=DEADLINE)
async def risks_inside(ctx: ToolContext) -> Mapping[str, Any]:
    """Makes a call that needs approval."""
    return await ctx.call("risky", {})


def outcome(
    tmp_path: Path, name: str, tools: list[Tool], beside: Callable[[Talk], Coroutine[Any, Any, None]] | None
) -> ToolEnded:
    async def main() -> ToolEnded:
        async with talk(model, tmp_path / "work", tools=tools, attended=True) as here:
            task = here.app.group.create_task(beside(here)) if beside else None
            await asyncio.sleep(0)
            assert (await here.say("Go.")).stop == "done"
            if task:
                await task
            return (await here.facts(ToolEnded))[-1]

    with ScriptedModel([Call(name), Say("Done.")]) as model:
        return asyncio.run(main())


async def answer_late(here: Talk) -> None:
    asked = await until(here.conversation, is_question)
    assert isinstance(asked, Asked)
    await asyncio.sleep(LONGER)
    message = inbox_message(here.app, "answer", text="yes", question=asked.question.id)
    assert (await send(here.app, here.conversation.ref, message)).status == "accepted"


def test_a_call_without_an_end_is_stopped_and_says_so(tmp_path: Path) -> None:
    ended = outcome(tmp_path, "slow", [slow], None)
    assert ended.outcome == "timeout"
    assert content(ended)["error"] == f"slow was stopped after {DEADLINE:g} s without an end."


def test_a_time_out_of_the_tools_own_is_not_called_its_deadline(tmp_path: Path) -> None:
    ended = outcome(tmp_path, "own", [own], None)
    assert ended.outcome == "error"
    assert content(ended)["error"].startswith("TimeoutError")


@pytest.mark.parametrize("name", ["asks", "asks_inside", "risks_inside"])
def test_the_deadline_stands_still_while_a_question_is_open(tmp_path: Path, name: str) -> None:
    ended = outcome(tmp_path, name, [asks, asks_inside, risky, risks_inside], answer_late)
    assert ended.outcome == "ok"
    assert content(ended)["answer"] in ("yes", "approved")


def test_after_the_answer_it_goes_on(tmp_path: Path) -> None:
    ended = outcome(tmp_path, "asks_then_hangs", [asks_then_hangs], answer_late)
    assert ended.outcome == "timeout"
