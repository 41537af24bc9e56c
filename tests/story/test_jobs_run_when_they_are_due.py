"""A job runs when it is due, in a session of its own each time; what became of it is in its history and in a file."""

import asyncio
from pathlib import Path

from melete.core.event import Answered, Asked, Opened, RunStarted, Said, ToolEnded
from melete.core.session import SessionRef
from melete.testing import Call, Say, ScriptedModel
from tests.story.jobs_at_work import at_work


def test_each_time_in_a_session_of_its_own(own_home: Path) -> None:
    asyncio.run(each_time())


async def each_time() -> None:
    with ScriptedModel(["First.", "Second."]) as model:
        async with at_work(model) as works:
            job = await works.job(owner=works.key("ci"), schedule="every 1h", prompt="Count the tests.")
            works.clock.advance(3600)
            (first,) = await works.ended(job)
            works.clock.advance(3600)
            rows = await works.ended(job, 2)
            assert [row.status for row in rows] == ["ran", "ran"]
            assert [works.output(row).splitlines()[-1] for row in rows] == ["First.", "Second."]
            assert len({row.session for row in rows}) == 2
            assert not (first.silent or first.why)
            facts = await works.app.store.facts(SessionRef(id=first.session, owner="key:ci"))
            (opened,) = [fact for fact in facts if isinstance(fact, Opened)]
            (started,) = [fact for fact in facts if isinstance(fact, RunStarted)]
            (said,) = [fact for fact in facts if isinstance(fact, Said)]
            assert (opened.owner, opened.source) == ("key:ci", "cron")
            assert Path(opened.cwd) == works.app.loaded.home.workspace
            assert (started.run, started.surface) == (first.run, "cron")
            assert (started.about["job"], started.about["occurrence"]) == (job.id, first.id)
            assert said.message.text == "Count the tests."
            assert said.message.by is not None
            assert (said.message.by.kind, said.message.by.who) == ("schedule", job.id)
            stands = await works.jobs.store.get(job.id)
            assert (stands.state, stands.last_status, stands.repeat.completed) == ("scheduled", "ran", 2)
            assert [run.run for run in stands.runs] == [row.run for row in reversed(rows)]
    system = model.requests[0].json["messages"][0]["content"]
    assert "[SILENT]" in system


def test_a_question_is_refused_because_nobody_is_there(own_home: Path) -> None:
    asyncio.run(refused())


async def refused() -> None:
    script = [
        Call("terminal", {"command": "find build -delete"}),
        Call("clarify", {"question": "Which?"}),
        Say("I did without."),
    ]
    with ScriptedModel(script) as model:
        async with at_work(model) as works:
            job = await works.job("30m")
            works.clock.advance(1800)
            (row,) = await works.ended(job)
            assert row.status == "ran"
            facts = await works.app.store.facts(SessionRef(id=row.session))
            outcomes = [fact.outcome for fact in facts if isinstance(fact, ToolEnded)]
            assert outcomes[0] == "denied"
            assert all(fact.status != "accepted" for fact in facts if isinstance(fact, Answered))
            assert len([fact for fact in facts if isinstance(fact, Asked)]) <= 2
            assert (await works.jobs.store.get(job.id)).state == "finished"


def test_an_answer_that_nobody_needs_is_marked(own_home: Path) -> None:
    asyncio.run(silent())


async def silent() -> None:
    answers = ["[SILENT]", "[SILENT]\nNothing new.", "Nothing new.\n\n[SILENT]\n", "Say [SILENT] when idle.", "Loud."]
    with ScriptedModel(answers) as model:
        async with at_work(model) as works:
            job = await works.job()
            for count in range(1, len(answers) + 1):
                works.clock.advance(3600)
                await works.ended(job, count)
            assert [row.silent for row in await works.rows(job)] == [True, True, True, False, False]


def test_a_job_can_be_run_at_once_whatever_its_schedule_says(own_home: Path) -> None:
    asyncio.run(at_once())


async def at_once() -> None:
    with ScriptedModel(["Now.", "Then."]) as model:
        async with at_work(model) as works:
            job = await works.job(enabled=False)
            begun = await works.jobs.run_now(job.id)
            assert begun.session
            (row,) = await works.ended(job)
            assert (row.status, row.how, row.run) == ("ran", "now", begun.run)
            stands = await works.jobs.store.get(job.id)
            assert (stands.state, stands.repeat.completed, stands.last_status) == ("paused", 0, "ran")
            await works.jobs.store.resume(job.id)
            works.clock.advance(3600)
            assert [row.how for row in await works.ended(job, 2)] == ["now", "schedule"]
