"""What came of skills and memory that a session had before it: told once, from its log, and amended by what a person says later."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from melete.app.fork import fork
from melete.app.learn_outcomes import judge, settle
from melete.core.errors import UsageError
from melete.core.event import Notice
from melete.core.message import Usage
from melete.learn.facts import Outcome, Task, facts_of
from melete.testing import Call, Say, ScriptedModel
from tests.playing import play
from tests.served import served
from tests.story.cli import Terminal, lines, melete
from tests.talking import Talk, sent_prefix, talk
from tests.unit.skills.kept import text

NAME = "tally"
FREE = Usage(input=1)
"""What a request took, so that the tokens weigh nothing here."""
VIEW = Call("skill_view", {"name": NAME}, usage=FREE)
COUNT = Call("terminal", {"command": "seq --separator=, 3"}, usage=FREE)
THREE = Say("1,2,3", usage=FREE)
KEEP = Call("memory", {"action": "add", "target": "memory", "content": "To count, run `seq --separator=, 3`."})


def skill() -> None:
    path = Path.home() / ".melete" / "skills" / "user" / NAME / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(text(NAME, "Run `seq --separator=, 3`.\n", description="Counts to three. Use it to count."))


async def settled(here: Talk) -> Sequence[Outcome]:
    """Tell what came of the conversation so far."""
    return await settle(here.app, here.conversation.ref.id, await here.log())


async def told(here: Talk) -> tuple[list[Outcome], list[Task]]:
    """All that the ledger holds."""
    rows = here.app.ledger.read()
    return list(facts_of(Outcome, rows)), list(facts_of(Task, rows))


def test_a_skill_that_was_loaded_and_followed_has_one_outcome_however_often_it_is_asked_for(tmp_path: Path) -> None:
    skill()

    async def main() -> None:
        async with talk(model, tmp_path) as here:
            await here.say("Count to three.")
            session = here.conversation.ref.id
            both = await asyncio.gather(settled(here), settled(here))
            assert sorted(len(one) for one in both) == [0, 1]
            (one,), (task,) = await told(here)
            assert (one.name, one.how, one.followed, one.credited, one.reward) == (NAME, "loaded", 1.0, True, 1.0)
            assert (one.task, one.calls, one.model, one.session) == ("seq", 2, "scripted", session)
            assert len(one.version) > 10
            assert (task.task, task.work, task.done) == ("seq", 1, True)
            assert task.listed

    with ScriptedModel([VIEW, COUNT, THREE]) as model:
        asyncio.run(main())


def test_a_correction_that_comes_tomorrow_amends_what_was_told(tmp_path: Path) -> None:
    skill()

    async def main() -> None:
        async with talk(model, tmp_path) as here:
            await here.say("Count to three.")
            await settled(here)
            await here.say("No, that is wrong. It has to be from zero.")
            await settled(here)
            found, tasks = await told(here)
            assert [(one.reward, one.before, one.corrected) for one in found] == [(1.0, None, False), (0.5, 1.0, True)]
            assert [(one.turn == tasks[0].turn, one.corrected) for one in tasks] == [
                (True, False), (True, True), (False, False),
            ]  # fmt: skip

    with ScriptedModel([VIEW, COUNT, THREE, "Sorry."]) as model:
        asyncio.run(main())


def test_an_entry_of_memory_that_was_shown_and_used_has_an_outcome(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path) as here:
            await here.say("Remember how to count.")
            first = here.conversation.ref.id
            assert await settled(here) == []
        async with talk(model, tmp_path) as here:
            await here.say("Count to three.")
            (row,) = here.app.ledger.read(kind="memory.exposure")
            assert row["session"] == here.conversation.ref.id != first
            (one,) = await settled(here)
            assert (one.target, one.how, one.followed, one.credited) == ("memory", "shown", 1.0, True)
            assert [one.name, one.version] == row["entries"][0][:2]
            _, tasks = await told(here)
            assert tasks[-1].shown == row["list"]

    with ScriptedModel([KEEP, "Kept.", COUNT, THREE]) as model:
        asyncio.run(main())


def test_a_verdict_counts_and_changes_nothing_that_the_model_is_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path) as here:
            with pytest.raises(UsageError, match="nothing was answered"):
                await judge(here.app, here.conversation.ref, "good")
            await here.say("Count to three.")
            await judge(here.app, here.conversation.ref, "bad", why="it began at one")
            await settled(here)
            _, (task,) = await told(here)
            assert (task.corrected, task.reward) == (True, 0.5)
            await here.say("Thanks.")
            first, second = (sent_prefix(request.body) for request in model.requests[-2:])
            assert second.startswith(first)
            assert b"it began at one" not in second

    with ScriptedModel([COUNT, THREE, "Good bye."]) as model:
        asyncio.run(main())


def test_a_fork_does_not_tell_again_what_it_has_copied(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path) as here:
            await here.say("Count to three.")
            await settled(here)
            made = await fork(here.app, here.conversation.ref)
            assert await settle(here.app, made.ref.id, await here.app.store.facts(made.ref)) == []
            assert len((await told(here))[1]) == 1

    with ScriptedModel([COUNT, THREE]) as model:
        asyncio.run(main())


def test_good_and_bad_are_said_in_a_chat(tmp_path: Path) -> None:
    with (
        ScriptedModel([Say("Hello."), Say("Hello again.")]) as model,
        Terminal(["chat"], model=model, cwd=tmp_path) as chat,
    ):
        chat.read_until("> ")
        for typed, wanted in (
            ("/good", "nothing was answered in this session yet"),
            ("hi", "Hello."),
            ("/good", "the last answer was good"),
            ("/bad too short", "the last answer was bad"),
            ("/undo", "Taken back"),
        ):
            chat.type(f"{typed}\r")
            chat.read_until(wanted)
            chat.read_until("> ")
        chat.type("\x04")
        assert chat.end() == 0

    async def main() -> list[tuple[str, str]]:
        async with talk(model, tmp_path, latest=True) as here:
            rows = await here.app.store.list()
            found = [fact for row in rows for fact in await here.app.store.facts(await here.app.store.find(row.id))]
            return [(fact.about, fact.text) for fact in found if isinstance(fact, Notice) and "feedback" in fact.about]

    assert asyncio.run(main()) == [
        ("feedback:good", "good"),
        ("feedback:bad", "too short"),
        ("feedback:undone", "its last turn was taken back"),
    ]


def test_the_work_after_a_one_shot_run_tells_what_came_of_it(tmp_path: Path) -> None:
    skill()
    on: dict[str, Any] = {"MELETE_LEARNING": "true", "MELETE_LEARNING_DETACH": "false"}
    with ScriptedModel([VIEW, COUNT, THREE]) as model:
        for words in (("run", "Count to three."), ("learn", "work"), ("learn", "work")):
            assert melete(*words, model=model, cwd=tmp_path, **on).returncode == 0
    (found,) = lines(melete("learn", "report", "--json").stdout)
    assert (found["sessions"], found["outcomes"], found["followed"]) == (1, 1, 1)


def test_a_run_is_judged_over_http(tmp_path: Path) -> None:
    def code(answer: httpx2.Response) -> str:
        return answer.json()["error"]["code"]

    with ScriptedModel(play) as model, served(tmp_path / "person", model) as server:
        first = server.run("say One.")
        server.ended(first["id"])
        said = server.client.post(f"/v1/runs/{first['id']}/feedback", json={"verdict": "bad", "why": "too short"})
        assert (said.status_code, said.json()["status"]) == (200, "accepted")
        assert said.json()["seq"] > server.status(first["id"])["seq"]
        assert (
            code(server.client.post(f"/v1/runs/{first['id']}/feedback", json={"verdict": "so so"})) == "invalid_request"
        )
        second = server.run("say Two.", session=first["session"])
        server.ended(second["id"])
        late = server.client.post(f"/v1/runs/{first['id']}/feedback", json={"verdict": "good"})
        assert (late.status_code, code(late)) == (409, "not_the_last_run")
        assert server.events(f"/v1/runs/{first['id']}/events")[-1].event == "run.ended"


SETTLE = """
import asyncio, os, sys
from melete import load
from melete.app.learn_outcomes import settle
from melete.app.wire import open_melete

async def main() -> None:
    async with open_melete(load(environ=os.environ)) as app:
        ref = await app.store.find(sys.argv[1])
        print(len(await settle(app, ref.id, await app.store.facts(ref))))

asyncio.run(main())
"""


def test_two_processes_tell_it_once(tmp_path: Path) -> None:
    skill()

    async def main() -> tuple[list[str], int]:
        async with talk(model, tmp_path) as here:
            await here.say("Count to three.")
            words = (sys.executable, "-c", SETTLE, here.conversation.ref.id)
            both = [await asyncio.create_subprocess_exec(*words, stdout=PIPE) for _ in range(2)]
            said = [(await one.communicate())[0].decode().strip() for one in both]
            return sorted(said), len((await told(here))[0])

    with ScriptedModel([VIEW, COUNT, THREE]) as model:
        assert asyncio.run(main()) == (["0", "1"], 1)
