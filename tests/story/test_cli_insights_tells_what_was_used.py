"""`melete insights`: what the facts add up to, as text, JSON, a page and a picture; nothing secret, nothing made up."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from melete.app.clock import SystemClock
from melete.core.event import Fact, Reply, Retried, RunEnded, Spent, ToolEnded
from melete.core.message import Usage
from melete.core.transcript import Transcript
from melete.store import open_store
from melete.testing import Call, Fault, Say, ScriptedModel
from tests.story.cli import Terminal, lines, melete
from tests.story.homes import keys
from tests.talking import backoff, talk

FIRST = Usage(input=1_000, output=100)
SECOND = Usage(input=500, output=50, cache_read=4_500, reasoning=20)
CANARY = "sk-canary-0123456789"


async def work(folder: Path) -> None:
    """Two sessions of known price: one with calls of which one fails, and one whose first answer is thrown away."""
    script = [
        Call("terminal", {"command": "true"}, usage=FIRST),
        Call("read_file", {"path": "nowhere"}, usage=SECOND),
        Say("Done.", usage=SECOND),
        Say("Again.", usage=SECOND),
    ]
    with ScriptedModel(script) as model:
        async with talk(model, folder, prices=(2.0, 10.0)) as here:
            await here.say("mend the fence")
            await here.say("and the gate")
    with ScriptedModel([Say("", usage=FIRST), Fault("overloaded"), Say("Yes.", usage=SECOND)]) as model:
        async with talk(model, folder, prices=(2.0, 10.0)) as here:
            backoff(here.conversation.model, base=0.001)
            await here.say("is it mended?")


async def logs(state: Path) -> Sequence[Sequence[Fact]]:
    """The facts of every session of a home."""
    store = open_store(state, clock=SystemClock())
    found = [await store.facts(await store.find(row.id)) for row in await store.list()]
    await store.aclose()
    return found


def told(*words: str) -> dict[str, Any]:
    """The insights as JSON."""
    done = melete("insights", "--json", *words)
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = lines(done.stdout)
    return found


def test_figures_are_those_of_the_facts(tmp_path: Path, own_home: Path) -> None:
    asyncio.run(work(tmp_path))
    with ScriptedModel([Say("No price.", usage=FIRST)]) as model:
        assert melete("run", "what does it cost?", model=model, cwd=tmp_path).returncode == 0
    found = told()
    every = asyncio.run(logs(own_home / ".melete" / "state"))
    states = [Transcript(facts) for facts in every]
    flat = [fact for facts in every for fact in facts]

    def count(kind: type[Fact]) -> int:
        return sum(isinstance(fact, kind) for fact in flat)

    usage = sum((state.usage for state in states), Usage())
    assert found["tokens"] == {**msgspec.structs.asdict(usage), "total": usage.total}
    assert found["cost_usd"] == pytest.approx(sum(state.usd or 0 for state in states))
    assert (found["cost_status"], found["unpriced_requests"]) == ("partial", 1)
    assert found["cache_share"] == pytest.approx(usage.cache_read / (usage.input + usage.cache_read))
    assert (found["sessions"], found["runs"], found["stops"]) == (3, count(RunEnded), {"done": count(RunEnded)})
    assert (found["requests"], found["steps"]) == (count(Spent), count(Reply))
    assert (found["prompts"], found["messages"]) == (4, sum(len(state.messages) for state in states))
    assert (found["tool_calls"], found["tool_errors"]) == (count(ToolEnded), 1)
    assert {(tool["name"], tool["calls"], tool["errors"]) for tool in found["tools"]} == {
        ("terminal", 1, 0), ("read_file", 1, 1),
    }  # fmt: skip
    assert found["retries"] == count(Retried) == 2
    assert (found["discarded"]["requests"], found["discarded"]["tokens"]["total"]) == (1, FIRST.total)
    assert [trouble["kind"] for trouble in found["errors"] if trouble["where"] == "request"]
    assert len(found["dearest"]) == 3
    assert [remark["about"] for remark in found["remarks"]] == ["prices"]


def test_a_home_that_was_never_used_is_told_kindly() -> None:
    done = melete("insights")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Nothing happened here, ")
    assert "There is nothing to tell yet" in melete("insights", "--all").stdout
    found = told()
    assert (found["sessions"], found["cost_usd"], found["cost_status"], found["days"]) == (0, None, "none", [])


def test_a_price_that_nobody_knows_is_not_nothing(tmp_path: Path) -> None:
    with ScriptedModel([Say("Hello.", usage=FIRST)]) as model:
        melete("run", "hi", model=model, cwd=tmp_path)
    text = melete("insights").stdout
    assert "Cost      unknown: no price is known for any of 1 request" in text
    assert "$" not in text
    assert told()["cost_usd"] is None


def test_filters_choose_the_time_the_source_the_model_and_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with ScriptedModel([Say("A.", usage=FIRST), Say("B.", usage=SECOND)]) as model:
        melete("run", "a", model=model, cwd=tmp_path / "a", MELETE_CLOCK="2026-01-05T10:00:00Z")
        melete("run", "b", model=model, cwd=tmp_path / "b", MELETE_CLOCK="2026-02-05T10:00:00Z")
    assert told("--all")["sessions"] == 2
    assert told("--since", "2026-02-01", "--until", "2026-03-01")["tokens"]["total"] == SECOND.total
    assert told("--all", "--cwd", str(tmp_path / "a"))["tokens"]["total"] == FIRST.total
    assert told("--all", "--model", "scripted")["sessions"] == 2
    assert told("--all", "--source", "cron")["sessions"] == 0
    days = melete("insights", "--days", "10", MELETE_CLOCK="2026-02-07T10:00:00Z").stdout
    assert days.startswith("29 Jan to 7 Feb 2026, 10 days\n")
    assert "Sessions  1 with 1 prompt and 2 messages\n" in days
    for words in (["--days", "3", "--all"], ["--since", "3d", "--days", "2"], ["--since", "1d", "--until", "2d"]):
        refused = melete("insights", *words)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)


def test_a_page_and_a_picture_are_written_and_hold_no_secret(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel([Say("Done.", usage=FIRST)]) as model:
        melete("run", f"use {CANARY} <b>now</b>", model=model, cwd=tmp_path)
    keys(own_home, SOME_API_KEY=CANARY)
    page = tmp_path / "insights.html"
    done = melete("insights", "--html", str(page))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"{page} was written.\n")
    text = page.read_text()
    assert "[redacted:SOME_API_KEY] &lt;b&gt;now" in text
    assert "<script" not in text
    assert "http" not in text.replace("http-equiv", "")
    for words in ([], ["--json"]):
        shown = melete("insights", *words)
        assert (shown.returncode, CANARY in shown.stdout) == (0, False)
    refused = melete("insights", "--html", str(tmp_path / "none" / "x.html"))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "cannot be written" in refused.stderr
    page.write_text("mine")
    refused = melete("insights", "--html", str(page))
    assert (refused.returncode, page.read_text()) == (2, "mine")
    assert "--force" in refused.stderr
    assert melete("insights", "--html", str(page), "--force").returncode == 0
    assert page.read_text() == text


@pytest.mark.needs_package("matplotlib")
def test_a_picture_is_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "insights.png"
    done = melete("insights", "--png", str(picture))
    assert (done.returncode, done.stderr) == (0, f"{picture} was written.\n")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_missing_package_is_named_with_what_installs_it(tmp_path: Path) -> None:
    hidden = tmp_path / "matplotlib"
    hidden.mkdir()
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError('hidden', name='matplotlib')\n")
    done = melete("insights", "--png", str(tmp_path / "x.png"), PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "'matplotlib', which is not installed; pip install \"melete[plot]\"\n" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_narrow_terminal_shows_it_all(tmp_path: Path) -> None:
    with ScriptedModel([Call("terminal", {"command": "true"}, usage=FIRST), Say("Done.", usage=SECOND)]) as model:
        melete("run", "a title that is rather long and has 宽 characters in it", model=model, cwd=tmp_path)
    with Terminal(["insights"], columns=20, more={"NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 0
        assert "\x1b" not in terminal.raw
        assert "Hours of the week" in terminal.rest()
