"""What is made of runs that an end of the process cut off, at whatever point, and whatever was stored of them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from tests.playing import play
from tests.unit.app.running import Place, place, until

from melete import user
from melete.app.answers import AnswerSchema
from melete.app.opening import Options, asked_for
from melete.app.recovery import CUT, MOST, Recovered, recover
from melete.app.runs import known
from melete.core.event import (
    Answered,
    Asked,
    CancelAsked,
    Fact,
    Opened,
    Question,
    Reply,
    RunEnded,
    RunStarted,
    Said,
    ToolEnded,
    ToolStarted,
)
from melete.core.message import Message, Text, ToolCall
from melete.core.session import InboxMessage, SessionRef
from melete.testing import ScriptedModel

CALL = ToolCall(id="c1", name="terminal", arguments='{"command": "true"}')
CALLED = Reply(message=Message(role="assistant", parts=(CALL,)), stop="tool_calls")
SAID = Said(message=user("say Hello."))
OLD = "0123456789abcdef"


def started(surface: str = "api", **about: str) -> RunStarted:
    return RunStarted(surface=surface, model="scripted", about=about)


async def cut(here: Place, *facts: Fact) -> SessionRef:
    """A session whose last run has come as far as these facts."""
    ref = await here.app.store.create(Opened(source="api"))
    async with here.app.store.claim(ref) as session:
        session.begin(OLD)
        await session.record(*facts, durable=True)
    return ref


def recovered(
    *facts: Fact, resume: bool = True, before: Callable[[Place, SessionRef], Awaitable[object]] | None = None
) -> tuple[Sequence[Recovered], Sequence[Fact]]:
    """What becomes of a session that was cut off there: what was found, and all its facts once nothing goes on."""

    async def main() -> tuple[Sequence[Recovered], Sequence[Fact]]:
        with ScriptedModel(play) as model:
            async with place(model) as here:
                ref = await cut(here, *facts)
                if before:
                    await before(here, ref)
                here.runs.settled = False
                found = await recover(here.runs, resume=resume)
                assert here.runs.settled
                await until(lambda: not here.runs.going)
                assert not await recover(here.runs, resume=resume), "it is done once"
                return found, await here.app.store.facts(ref)

    return asyncio.run(main())


def of(facts: Sequence[Fact], kind: type[Fact], run: str = OLD) -> list[Any]:
    return [fact for fact in facts if isinstance(fact, kind) and fact.run == run]


@pytest.mark.parametrize(
    "facts",
    [
        (started(), SAID),
        (started(), SAID, CALLED),
        (started(), SAID, CALLED, ToolStarted(call=CALL)),
        (started(),),
    ],
    ids=["prompt", "reply", "call", "beginning"],
)
def test_it_is_closed_and_goes_on_wherever_it_was_cut(facts: tuple[Fact, ...]) -> None:
    found, stored = recovered(*facts)
    (end,) = of(stored, RunEnded)
    assert (end.stop, end.error) == ("failed", CUT)
    (one,) = found
    assert [end.stop for end in of(stored, RunEnded, one.goes_on_as)] == ["done"]
    begun = of(stored, RunStarted, one.goes_on_as)[0]
    assert (begun.about["resumes"], begun.about["attempt"]) == (OLD, "1")
    assert [ended.outcome for ended in of(stored, ToolEnded)] == (
        [] if CALLED not in facts else ["unknown" if len(facts) == 4 else "not_run"]
    )


def test_an_answer_that_was_stored_is_not_asked_for_again() -> None:
    found, stored = recovered(started(), SAID, Reply(message=Message(role="assistant", parts=(Text(text="Done."),))))
    (end,) = of(stored, RunEnded, found[0].goes_on_as)
    assert (end.stop, end.text, end.steps) == ("done", "Done.", 0)


def test_what_somebody_had_cancelled_is_not_taken_up_again() -> None:
    found, stored = recovered(started(), SAID, CancelAsked())
    assert [end.stop for end in of(stored, RunEnded)] == ["cancelled"]
    assert [one.goes_on_as for one in found] == [""]

    async def ask(here: Place, ref: SessionRef) -> None:
        """A cancel that the dead process has not read; its sender died with it."""
        message = InboxMessage(id="m1", kind="cancel", at=here.app.clock.now())
        async with here.app.store.claim(ref):
            receipt = await here.app.store.send(ref, message, wait=0.0)
        assert receipt.status == "queued"

    found, stored = recovered(started(), SAID, before=ask)
    assert [end.stop for end in of(stored, RunEnded)] == ["cancelled"]
    assert [asked.inbox for asked in of(stored, CancelAsked)] == ["m1"]
    assert [one.goes_on_as for one in found] == [""]


def test_an_open_question_expires() -> None:
    _, stored = recovered(started(), SAID, Asked(question=Question(id="q", kind="clarify", text="?")), resume=False)
    assert [(fact.question, fact.status) for fact in of(stored, Answered)] == [("q", "expired")]


def test_what_others_began_or_own_is_left_alone() -> None:
    assert not recovered(started("cli"), SAID)[0]
    assert not recovered(started(), SAID, RunEnded(stop="done"))[0]

    async def main() -> None:
        with ScriptedModel(play) as model:
            async with place(model) as here:
                ref = await cut(here, started(), SAID)
                async with here.app.store.claim(ref):
                    assert not await recover(here.runs, resume=True)
                assert not of(await here.app.store.facts(ref), RunEnded)

    asyncio.run(main())


def test_a_run_of_a_job_is_closed_and_not_taken_up() -> None:
    found, stored = recovered(started("cron"), SAID)
    assert [one.goes_on_as for one in found] == [""]
    assert [end.stop for end in of(stored, RunEnded)] == ["failed"]


def test_it_is_not_taken_up_for_ever() -> None:
    found, stored = recovered(started(attempt=str(MOST)), SAID)
    assert [one.goes_on_as for one in found] == [""]
    assert [end.stop for end in of(stored, RunEnded)] == ["failed"]


@pytest.mark.parametrize(
    "about",
    [
        {"model": "anthropic/claude-sonnet-4-5"},
        {"toolsets": "no-such"},
    ],
)
def test_what_cannot_go_on_is_closed_all_the_same(about: dict[str, str]) -> None:
    found, stored = recovered(started(**about), SAID)
    assert [one.goes_on_as for one in found] == [""]
    assert [end.stop for end in of(stored, RunEnded)] == ["failed"]


def test_what_is_stored_and_makes_no_sense_counts_as_nothing() -> None:
    nonsense = {
        "budget_usd": "much",
        "max_steps": "1.5",
        "attempt": "x",
        "answer": "{",
        "temperature": "",
        "effort": "",
    }
    found, stored = recovered(started(**nonsense), SAID)
    assert [end.stop for end in of(stored, RunEnded, found[0].goes_on_as)] == ["done"]


def test_the_way_in_which_a_run_was_asked_for_is_read_back_as_it_was() -> None:
    options = Options(
        session="s-1",
        owner="key:ann",
        surface="api",
        attended=True,
        shares=True,
        model="a/b",
        toolsets=("file", "terminal"),
        max_steps=3,
        temperature=0.0,
        max_output=77,
        effort="low",
        budget_usd=0.25,
        extra="Be brief.",
        answer=AnswerSchema({"type": "object"}),
    )
    begun = RunStarted(surface="api", about=known(options, {"other": "x"}))
    again = asked_for(begun, SessionRef(id="s-1", owner="key:ann"))
    assert again.answer is not None
    assert options.answer is not None
    assert bytes(again.answer.schema) == bytes(options.answer.schema)
    fields = {name for name in Options.__struct_fields__ if name != "answer"}
    assert {name: getattr(again, name) for name in fields} == {name: getattr(options, name) for name in fields}
    assert asked_for(RunStarted(surface="api"), SessionRef(id="s")) == Options(
        session="s", surface="api", attended=True, shares=True
    )
