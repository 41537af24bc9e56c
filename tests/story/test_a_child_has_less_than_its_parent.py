"""What a child gets and does not get: prompt, tools, memory, approvals, money."""

import asyncio
from pathlib import Path
from typing import Any

from melete.app.reaching import inbox_message, send
from melete.core.delegation import DELEGATE
from melete.core.event import Answered, Asked, RunEnded, Said, ToolEnded
from melete.core.message import Usage
from melete.core.session import Which
from melete.core.transcript import Transcript
from melete.testing import Call, Say, ScriptedModel
from tests.delegating import PARENT, Family, delegate, text_of
from tests.talking import Talk, content, is_question, talk, until

QUIET: dict[str, Any] = {"skills.enabled": False}


async def child_facts(here: Talk) -> list[Any]:
    """The facts of the one child."""
    rows = await here.app.store.list(which=Which(sources=("subagent",)))
    assert len(rows) == 1
    ref = await here.app.store.find(rows[0].id)
    assert rows[0].parent == here.conversation.ref.id
    return [*await here.app.store.facts(ref)]


def test_its_prompt_has_the_goal_twice_and_neither_files_nor_memory_nor_history(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").write_text("ALWAYS-SAY-MOO")
    these = Family({PARENT: [delegate("count the frogs", context="in /pond"), "all told"], "count the frogs": ["nine"]})

    async def main() -> list[Any]:
        with ScriptedModel(these) as model:
            async with talk(model, work, settings=QUIET) as here:
                await here.say(PARENT)
                assert Transcript(await child_facts(here)).opened is not None
            return [request.json for request in model.requests]

    first, child, _ = asyncio.run(main())
    system = text_of(child["messages"][0])
    assert "ALWAYS-SAY-MOO" in text_of(first["messages"][0])
    assert "ALWAYS-SAY-MOO" not in system
    assert "What you remember" not in system
    assert "Your goal: count the frogs" in system
    assert "in /pond" in system
    assert str(work) in system
    assert [text_of(m) for m in child["messages"][1:]] == ["count the frogs"]
    assert PARENT not in system
    names = {tool["function"]["name"] for tool in child["tools"]}
    assert not names & {DELEGATE, "clarify", "memory", "execute_code"}
    assert {"terminal", "read_file", "patch"} <= names


def test_its_toolsets_are_those_asked_for_as_far_as_the_parent_has_them(tmp_path: Path) -> None:
    these = Family({PARENT: [delegate("g", toolsets=["file", "memory", "nonesuch"]), "all told"], "g": ["ok"]})

    async def main() -> tuple[set[str], str]:
        with ScriptedModel(these) as model:
            async with talk(model, tmp_path / "work", settings=QUIET) as here:
                await here.say(PARENT)
                (row,) = content((await here.facts(ToolEnded))[-1])["results"]
            return {tool["function"]["name"] for tool in model.requests[1].json["tools"]}, row["note"]

    tools, note = asyncio.run(main())
    assert tools == {"read_file", "write_file", "patch", "search_files"}
    assert note == "toolsets that no child has here: memory, nonesuch"


RISKY = Call("terminal", {"command": "chmod -R 777 build"})


def risky(tmp_path: Path, settings: dict[str, Any], *, answer: str = "", **options: Any) -> dict[str, Any]:
    (tmp_path / "work" / "build").mkdir(parents=True, exist_ok=True)
    these = Family({PARENT: [delegate("clean"), "all told"], "clean": [RISKY, "as told"]})

    async def main() -> dict[str, Any]:
        with ScriptedModel(these) as model:
            async with talk(model, tmp_path / "work", settings={**QUIET, **settings}, **options) as here:
                asking = asyncio.create_task(until(here.conversation, is_question)) if answer else None
                going = asyncio.create_task(here.say(PARENT))
                if asking:
                    asked = await asyncio.wait_for(asking, 20)
                    assert isinstance(asked, Asked)
                    assert "child (clean)" in asked.question.text
                    message = inbox_message(here.app, "answer", text=answer, question=asked.question.id)
                    await send(here.app, here.conversation.ref, message)
                await going
                facts = await child_facts(here)
                ended = next(fact for fact in facts if isinstance(fact, ToolEnded))
                return {"ended": ended, "answers": [f for f in facts if isinstance(f, Answered)]}

    return asyncio.run(main())


def test_risky_calls_are_refused_on_record(tmp_path: Path) -> None:
    ended = risky(tmp_path, {}, attended=True)["ended"]
    assert ended.outcome == "denied"
    assert ended.decision.by == "nobody"


def test_or_asked_about_where_the_parent_is_talked_to(tmp_path: Path) -> None:
    found = risky(tmp_path, {"delegation.approvals": "ask"}, answer="once", attended=True)
    assert found["ended"].outcome == "ok"
    assert [answer.value for answer in found["answers"]] == ["once"]
    assert (tmp_path / "work" / "build").stat().st_mode & 0o777 == 0o777


def test_or_allowed_each_once_where_the_settings_say_so(tmp_path: Path) -> None:
    found = risky(tmp_path, {"delegation.subagent_auto_approve": True})
    assert found["ended"].outcome == "ok"
    assert [answer.by.who for answer in found["answers"]] == ["delegation"]


def test_an_orchestrator_delegates_and_its_children_do_not(tmp_path: Path) -> None:
    these = Family(
        {
            PARENT: [delegate("lead", role="orchestrator"), "all told"],
            "lead": [delegate("work", role="orchestrator"), "led"],
            "work": ["worked"],
        }
    )

    async def main() -> tuple[list[set[str]], RunEnded]:
        with ScriptedModel(these) as model:
            async with talk(model, tmp_path / "work", settings={**QUIET, "delegation.max_spawn_depth": 2}) as here:
                ended = await here.say(PARENT)
            return [{tool["function"]["name"] for tool in r.json["tools"]} for r in model.requests], ended

    names, ended = asyncio.run(main())
    assert ended.text == "all told"
    assert DELEGATE in names[1]
    assert DELEGATE not in names[2]


def test_money_and_tokens_of_a_child_are_a_share_of_the_parents(tmp_path: Path) -> None:
    big = Usage(input=9_000, output=50)
    these = Family(
        {
            PARENT: [delegate("spend"), "all told"],
            "spend": [Call("todo", usage=big), Call("todo", usage=big), Say("never")],
        }
    )

    async def main() -> dict[str, Any]:
        with ScriptedModel(these) as model:
            async with talk(model, tmp_path / "work", settings={**QUIET, "budget.run.tokens": "40000"}) as here:
                await here.say(PARENT)
                results = [content(fact) for fact in await here.facts(ToolEnded)]
                assert any(isinstance(fact, Said) for fact in await child_facts(here))
                return results[0]["results"][0]

    row = asyncio.run(main())
    assert row["status"] == "failed"
    assert row["exit_reason"] == "out_of_budget"
    assert "this child's share" in row["error"]
