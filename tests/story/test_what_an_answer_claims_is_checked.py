"""`verify.claims`: what an answer says was done is bound to a call of its run, or is marked; a child's report likewise."""

import asyncio
from pathlib import Path
from typing import Any

from melete.core.event import Notice, RunEnded, ToolEnded
from melete.testing import Call, Say, ScriptedModel
from tests.delegating import PARENT, Family, delegate
from tests.talking import Talk, content, talk

QUIET: dict[str, Any] = {"skills.enabled": False}


def play(folder: Path, script: Any, **settings: Any) -> tuple[RunEnded, list[str], list[Any]]:
    async def main() -> tuple[RunEnded, list[str], list[Any]]:
        with ScriptedModel(script) as model:
            async with talk(model, folder / "work", settings={**QUIET, **settings}) as here:
                ended = await here.say(PARENT)
                return ended, await marked(here), model.requests

    return asyncio.run(main())


async def marked(here: Talk) -> list[str]:
    return [fact.text for fact in await here.facts(Notice) if fact.about == "claims"]


def test_what_no_call_bears_out_is_marked(tmp_path: Path) -> None:
    ended, lines, _ = play(tmp_path, [Say("I wrote `a.txt`, and all tests pass.")])
    assert ended.text == "I wrote `a.txt`, and all tests pass."
    assert lines == [
        "not true: “a.txt”: it is not there",
        "not verified: “I wrote `a.txt`, and all tests pass.”: no call of this run ran tests",
    ]


def test_what_was_done_is_not(tmp_path: Path) -> None:
    script = [Call("write_file", {"path": "a.txt", "content": "x"}), Say("I wrote `a.txt`. Nothing else.")]
    assert play(tmp_path, script)[1] == []


def test_tests_that_failed_do_not_pass(tmp_path: Path) -> None:
    _, lines, _ = play(
        tmp_path, [Call("terminal", {"command": "pytest() { return 3; }; pytest"}), Say("All tests pass.")]
    )
    assert lines == ["not true: “All tests pass.”: the last call that ran tests ended with exit status 3"]


def test_the_model_is_asked_once_more(tmp_path: Path) -> None:
    script = [
        Say("I wrote `a.txt`."),
        Call("write_file", {"path": "a.txt", "content": "x"}),
        Say("Now I wrote `a.txt`."),
    ]
    ended, lines, requests = play(tmp_path, script, **{"verify.claims": "check"})
    assert (ended.text, lines) == ("Now I wrote `a.txt`.", [])
    assert "it is not there" in requests[1].json["messages"][-1]["content"]
    ended, lines, requests = play(tmp_path / "b", ["I sent it.", "I have sent it."], **{"verify.claims": "check"})
    assert (ended.stop, len(lines), len(requests)) == ("done", 1, 2)


def test_nothing_is_said_where_nobody_wants_it(tmp_path: Path) -> None:
    assert play(tmp_path, [Say("I wrote `a.txt`.")], **{"verify.claims": "off"})[1] == []


def test_a_childs_report_is_checked_and_what_it_did_bears_its_parent_out(tmp_path: Path) -> None:
    these = Family(
        {
            PARENT: [delegate("write"), "I wrote `made.txt`, and `nothing.txt` has been saved."],
            "write": [
                Call("write_file", {"path": "made.txt", "content": "x"}),
                "I wrote `made.txt` and `nothing.txt`. See https://example.com/unseen.",
            ],
        }
    )

    async def main() -> tuple[list[Any], list[str]]:
        with ScriptedModel(these) as model:
            async with talk(model, tmp_path / "work", settings=QUIET) as here:
                await here.say(PARENT)
                rows = [content(fact) for fact in await here.facts(ToolEnded)]
                return rows[0]["results"][0]["checked"], await marked(here)

    checked, lines = asyncio.run(main())
    assert [(row["claim"], row["verdict"]) for row in checked] == [
        ("made.txt", "verified"),
        ("nothing.txt", "false"),
        ("https://example.com/unseen", "unverifiable"),
    ]
    assert lines == ["not true: “nothing.txt”: it is not there"]
