"""`delegate_task`: several children at once, results in order, and what failed or ran out of time is told as such."""

import asyncio
from pathlib import Path
from typing import Any

from melete.core.delegation import DELEGATE
from melete.core.event import Delegated, RunEnded, ToolEnded
from melete.testing import Call, Fault, ScriptedModel
from tests.delegating import PARENT, Family, Line, delegate, several
from tests.talking import Talk, content, talk


def run(tmp_path: Path, family: Family, settings: dict[str, object] | None = None) -> dict[str, Any]:
    """One run of the family: what the parent was told, the facts, and the end."""

    async def main() -> dict[str, Any]:
        with ScriptedModel(family) as model:
            async with talk(model, tmp_path / "work", settings={"skills.enabled": False, **(settings or {})}) as here:
                ended = await here.say(PARENT)
                results = [content(fact) for fact in await here.facts(ToolEnded) if fact.result.name == DELEGATE]
                facts = await here.facts(Delegated)
                return {"ended": ended, "results": results, "facts": facts, "requests": model.requests, "here": here}

    return asyncio.run(main())


def family(*goals: str, parent: Line | None = None, **lines: list[Line]) -> Family:
    told = {goal: lines.get(goal, [f"{goal} is done"]) for goal in goals}
    return Family({PARENT: [parent or delegate(*goals), "all told"], **told})


def test_three_at_once_in_the_order_of_the_tasks(tmp_path: Path) -> None:
    these = Family(
        {
            PARENT: [delegate("one", "two", "three"), "all told"],
            **{g: [f"{g} is done"] for g in ("one", "two", "three")},
        },
        slow={"one": 0.3, "two": 0.2, "three": 0.1},
    )
    found = run(tmp_path, these)
    ended: RunEnded = found["ended"]
    rows = found["results"][0]["results"]
    assert (ended.stop, ended.text) == ("done", "all told")
    assert [(row["task_index"], row["status"], row["summary"]) for row in rows] == [
        (0, "completed", "one is done"),
        (1, "completed", "two is done"),
        (2, "completed", "three is done"),
    ]
    assert all(row["api_calls"] == 1 and row["tokens"]["output"] > 0 and row["exit_reason"] == "done" for row in rows)
    first = {who: at for who, turn, at in these.asked if who != PARENT and turn == 0}
    assert max(first.values()) - min(first.values()) < 0.1, "they wait for one another"
    assert [fact.status for fact in found["facts"]].count("running") == 3


def test_a_single_goal_gives_a_list_too(tmp_path: Path) -> None:
    found = run(tmp_path, family("alone"))
    assert [row["summary"] for row in found["results"][0]["results"]] == ["alone is done"]


def test_one_that_fails_and_one_that_runs_out_of_steps(tmp_path: Path) -> None:
    these = family(
        "well", "badly", "long",
        badly=[Fault("bad_request")],
        long=[Call("todo"), Call("todo"), Call("todo"), "I got half of it"],
    )  # fmt: skip
    found = run(tmp_path, these, {"delegation.max_iterations": 2})
    well, badly, long = found["results"][0]["results"]
    assert well["status"] == "completed"
    assert (badly["status"], badly["summary"]) == ("failed", None)
    assert "error" in badly
    assert badly["session"]
    assert (long["status"], long["exit_reason"]) == ("failed", "out_of_steps")
    assert "delegation.max_iterations" in long["error"]
    assert [one["tool"] for one in long["tool_trace"]] == ["todo", "todo", "todo"][: len(long["tool_trace"])]
    assert "resume" in long["next"]


def test_one_that_takes_too_long_gives_what_it_has(tmp_path: Path) -> None:
    """The shortest time that the settings allow is 30 s; the rules of a conversation may be shorter."""
    makes, sleeps = (Call("terminal", {"command": command}) for command in ("echo here > made.txt", "sleep 60"))
    these = family("quick", "slow", slow=[makes, sleeps])

    async def main() -> dict[str, Any]:
        with ScriptedModel(these) as model:
            async with talk(model, tmp_path / "work", settings={"skills.enabled": False}) as here:
                shorten(here, 2.0)
                await here.say(PARENT)
                return content((await here.facts(ToolEnded))[-1])

    quick, slow = asyncio.run(main())["results"]
    assert quick["status"] == "completed"
    assert (slow["status"], slow["exit_reason"]) == ("timeout", "timeout")
    assert [(one["tool"], one["status"]) for one in slow["tool_trace"]] == [
        ("terminal", "ok"),
        ("terminal", "cancelled"),
    ]
    assert slow["finished"] == ["terminal echo here > made.txt: ok", "terminal sleep 60: cancelled"]
    assert "finished" not in quick
    assert (tmp_path / "work" / "made.txt").exists()


def test_none_begins_when_the_time_of_its_parent_is_over(tmp_path: Path) -> None:
    these = Family({PARENT: [delegate("late"), "all told"], "late": ["never"]}, slow={PARENT: 1.2})
    found = run(tmp_path, these, {"budget.run.seconds": 1})
    (late,) = found["results"][0]["results"]
    assert (late["status"], late["api_calls"]) == ("timeout", 0)
    assert "budget.run.seconds" in late["error"]
    assert [who for who, _, _ in these.asked].count("late") == 0


def shorten(here: Talk, seconds: float) -> None:
    """Give the children of a conversation less time than the settings can."""
    children = here.conversation.children
    assert children
    children._rules = type(children._rules)(timeout=seconds)


def test_too_many_tasks_are_refused_with_both_numbers(tmp_path: Path) -> None:
    these = Family({PARENT: [delegate("a", "b", "c", "d"), "all told"]})
    found = run(tmp_path, these)
    error = found["results"][0]["error"]
    assert "4 tasks" in error
    assert "3 may be (delegation.max_concurrent_children)" in error
    assert not found["facts"]


def test_calls_beyond_the_limit_are_cut_and_others_kept(tmp_path: Path) -> None:
    calls = [delegate(g) for g in ("a", "b", "c", "d", "e")]
    these = Family({PARENT: [several(*calls, Call("todo")), "all told"], **{g: [f"{g} is done"] for g in "abcde"}})

    async def main() -> list[ToolEnded]:
        with ScriptedModel(these) as model:
            async with talk(model, tmp_path / "work", settings={"skills.enabled": False}) as here:
                await here.say(PARENT)
                return await here.facts(ToolEnded)

    ended = asyncio.run(main())
    assert [fact.outcome for fact in ended].count("not_run") == 2
    assert sum(fact.outcome == "ok" and fact.result.name == DELEGATE for fact in ended) == 3
    assert [fact.outcome for fact in ended if fact.result.name == "todo"] == ["ok"]
    cut = next(content(fact) for fact in ended if fact.outcome == "not_run")
    assert "3 times" in cut["error"]


def test_a_child_goes_on_where_it_stopped(tmp_path: Path) -> None:
    sessions: list[str] = []

    def again(body: dict[str, Any]) -> Call:
        text = next(m["content"] for m in body["messages"] if m["role"] == "tool")
        sessions.append(text.split('"session":"')[1].split('"')[0])
        return Call(DELEGATE, {"resume": sessions[0], "goal": "now the rest"})

    these = Family({PARENT: [delegate("begin"), again, "all told"], "begin": ["half", "whole"]})
    found = run(tmp_path, these)
    first, second = (result["results"][0] for result in found["results"])
    assert (first["summary"], second["summary"]) == ("half", "whole")
    assert first["session"] == second["session"]


def test_the_files_that_it_changed_are_named_however_it_changed_them(tmp_path: Path) -> None:
    several = "*** Begin Patch\n*** Add File: new/b.txt\n+b\n*** Add File: c.txt\n+c\n*** End Patch"
    writes = Call("write_file", {"path": "a.txt", "content": "a\n"})
    refused = Call("patch", {"mode": "replace", "path": "none.txt", "old_string": "x", "new_string": "y"})
    these = family("write", write=[writes, Call("patch", {"mode": "patch", "patch": several}), refused, "written"])
    (row,) = run(tmp_path, these)["results"][0]["results"]
    assert row["files_changed"] == ["a.txt", "new/b.txt", "c.txt"]


def test_one_that_goes_on_has_the_role_and_the_tools_that_it_had(tmp_path: Path) -> None:
    def again(body: dict[str, Any]) -> Call:
        text = next(m["content"] for m in body["messages"] if m["role"] == "tool")
        return Call(DELEGATE, {"resume": text.split('"session":"')[1].split('"')[0], "goal": "now the rest"})

    first = delegate("begin", role="orchestrator", toolsets=["todo"])
    these = Family({PARENT: [first, again, "all told"], "begin": ["half", "whole"]})
    found = run(tmp_path, these, {"delegation.max_spawn_depth": 2})
    asked = [request.json for request in found["requests"] if "You are a subagent" in str(request.json["messages"][0])]
    assert [[tool["function"]["name"] for tool in body["tools"]] for body in asked] == [["todo", DELEGATE]] * 2
    assert asked[0]["messages"] == asked[1]["messages"][: len(asked[0]["messages"])]


def test_what_cannot_be_begun_is_an_error_that_says_why(tmp_path: Path) -> None:
    for call, words in (
        (Call(DELEGATE, {}), "neither a goal nor tasks"),
        (Call(DELEGATE, {"tasks": [{"goal": "x"}], "resume": "x"}), "resume without tasks"),
        (Call(DELEGATE, {"goal": "x", "toolsets": ["nonesuch"]}), "There are: "),
        (Call(DELEGATE, {"goal": "x", "resume": "nonesuch"}), "no session"),
    ):
        found = run(tmp_path, Family({PARENT: [call, "all told"], "x": ["never"]}))
        result = found["results"][0]
        error = result.get("error") or result["results"][0]["error"]
        assert words in error
