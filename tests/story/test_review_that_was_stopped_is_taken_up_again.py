"""A review that is stopped in the middle keeps what it proposed, and goes on from there; it never begins anew."""

import asyncio
from pathlib import Path

from msgspec import structs

from melete.app.reviewing import Job, review
from melete.app.skills import library
from melete.core.session import SessionRef
from melete.core.transcript import Transcript
from melete.learn.briefs import OPENING
from melete.learn.facts import Review, facts_of
from melete.testing import Fault, Say, ScriptedModel
from tests.reviewing import HARD, NAME, create, keep, names, proposals, reviewed, session
from tests.talking import Talk, sent_prefix, talk


def ended(here: Talk) -> list[str]:
    return [one.status for one in facts_of(Review, here.app.ledger.read(kind=Review.kind))]


def test_a_review_is_cancelled_and_taken_up_again(tmp_path: Path) -> None:
    job: list[Job] = []
    logs: list[str] = []

    async def begun(log: str) -> None:
        logs.append(log)

    async def check(here: Talk) -> None:
        last = (await here.log())[-1].seq
        job.append(Job(id="r1", session=here.conversation.ref.id, after=0, upto=last))
        thinking, loop = asyncio.Event(), asyncio.get_running_loop()

        def think(*_: object) -> Fault:
            """The first lesson is kept, the second takes its time."""
            loop.call_soon_threadsafe(thinking.set)
            return Fault("stall", seconds=30)

        here.model.play(think)
        task = asyncio.create_task(review(here.app, job[0], on_begun=begun))
        await thinking.wait()
        task.cancel()
        stopped = (await asyncio.gather(task, return_exceptions=True))[0]
        assert isinstance(stopped, asyncio.CancelledError)
        assert ended(here) == ["cancelled"]
        assert names(here) == {NAME}
        (made,) = proposals(here)
        assert made.status == "trial"
        assert made.tokens > 0
        state = Transcript(await here.app.store.facts(SessionRef(id=logs[0])))
        assert (state.running, state.open_calls) == (False, ()), "its log is sound"

    model = session([*HARD, create()], tmp_path / "work", check)
    before = model.requests[-1].body

    async def later() -> None:
        async with talk(again, tmp_path / "work") as here:
            over = await review(here.app, structs.replace(job[0], log=logs[0]), on_begun=begun)
            assert (over.status, over.steps, over.log) == ("ended", 3, logs[0])
            assert [one.target for one in proposals(here)] == ["skill", "memory"]
            assert {one.tokens for one in proposals(here)} == {over.usage.total // 2}
            assert len(library(here.app).versions.history(NAME)) == 1, "nothing was made twice"
            assert ended(here) == ["cancelled", "ended"]
            once_more = await review(here.app, structs.replace(job[0], log=logs[0]))
            assert (once_more.status, once_more.steps) == ("ended", 3), "one that is over has nothing left to ask"

    with ScriptedModel([keep("In this folder ./w ship wants --fast."), Say("Kept both.")]) as again:
        asyncio.run(later())
    assert len(again.requests) == 2
    assert sent_prefix(again.requests[0].body) == sent_prefix(before), "the request that was cut off is made again"
    assert again.requests[0].body.count(OPENING.encode()) == 1


def test_a_conversation_that_does_not_fit_after_all_is_shown_in_windows(tmp_path: Path) -> None:
    async def check(here: Talk) -> None:
        over = await reviewed(here)
        assert over.status == "ended"
        assert names(here) == {NAME}

    script = [*HARD, *[Fault("overflow")] * 3, create(), Say("Kept.")]
    model = session(script, tmp_path / "work", check)
    assert len(model.requests[-1].body) < len(model.requests[3].body)
