"""`melete learn report`: what learning has cost and brought, as text, JSON and a page, from the facts of a real home."""

import asyncio
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from melete.app.learn_outcomes import settle
from melete.core.message import Usage
from melete.learn.facts import Debt, Proposed, Review, fields_of
from melete.learn.gates import Verdict
from melete.testing import Call, Say, ScriptedModel
from tests.story.cli import lines, melete
from tests.talking import talk
from tests.unit.skills.kept import text

NAME = "tally"
FREE = Usage(input=1)
VIEW = Call("skill_view", {"name": NAME}, usage=FREE)
COUNT = Call("terminal", {"command": "seq --separator=, 3"}, usage=FREE)
WRONG = Call("terminal", {"command": "seq --separate=, 3"}, usage=FREE)
DONE = Say("1,2,3", usage=FREE)
CANARY = "<script>alert('x')</script>"


class Page(HTMLParser):
    """What a page holds: its tags, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action")]
        if tag not in ("meta", "br", "rect", "line"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("rect", "line"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


async def work(folder: Path) -> None:
    """The hard way in one session, the skill in three others; a review with two proposals; a debt."""
    path = Path.home() / ".melete" / "skills" / "user" / NAME / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(text(NAME, "Run `seq --separator=, 3`.\n", description="Counts to three. Use it to count."))
    hard, easy = [WRONG, WRONG, WRONG, COUNT, DONE], [VIEW, COUNT, DONE]
    with ScriptedModel([*hard, *easy, *easy, *easy]) as model:
        for _ in range(4):
            async with talk(model, folder) as here:
                await here.say("Count to three.")
                await settle(here.app, here.conversation.ref.id, await here.log())
        async with talk(model, folder) as here:
            wrong = Verdict(gate="grounding", ok=False, reason="no such call")
            common: dict[str, Any] = {"target": "skill", "name": CANARY, "did": "created", "review": "r1"}
            for fact in (
                Debt(session="s1", turn=2, signal="fixed", weight=3, what=f"`seq` failed 3 times {CANARY}", verb="seq"),
                Review(
                    id="r1", session="s1", after=0, upto=0, why="`seq` failed", status="ended", usage=Usage(input=1_200)
                ),
                Proposed(id="p1", status="refused", verdicts=(wrong,), **common),
                Proposed(id="p2", status="trial", version="v1", **common),
            ):
                await here.app.ledger.append(fact.kind, fields_of(fact))


@pytest.fixture
def home(tmp_path: Path, own_home: Path) -> Path:
    asyncio.run(work(tmp_path))
    return own_home


def test_a_home_in_which_nothing_was_learned_says_so(own_home: Path) -> None:
    done = melete("learn", "report")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Nothing was learned or measured yet" in done.stdout


@pytest.mark.usefixtures("home")
def test_it_tells_the_course_the_lessons_the_gates_the_price_and_the_debts() -> None:
    done = melete("learn", "report")
    assert (done.returncode, done.stderr) == (0, "")
    said = re.sub(" +", " ", done.stdout)
    for wanted in (
        "Measured 4 tasks in 4 sessions",
        "first 1 4.0 4.0 100% 0% 4.0 (1)",
        "second 1 2.0 1.0 100% 0% 1.0 (1)",
        "1 took fewer calls later",
        "tally 4 0 3 3 3 uses, 3 followed: too few to say (8 are needed)",
        "1 in use as a trial, 1 refused by a gate",
        "Stopped by grounding 1",
        "ended 1.2k unknown 2 s1 `seq` failed",
        "+3 s1 fixed seq `seq` failed 3 times",
        "No use was withheld",
    ):
        assert wanted in said, f"{wanted!r} is not in\n{said}"


@pytest.mark.usefixtures("home")
def test_json_holds_the_same_with_names_that_stay() -> None:
    (found,) = lines(melete("learn", "report", "--json").stdout)
    assert (found["melete_learning"], found["sessions"], found["followed"]) == (1, 4, 3)
    effect = found["effects"][0]
    assert {one["judged"] for one in found["effects"][1:]} == {"not_used"}
    assert (effect["name"], effect["loaded"], effect["judged"], effect["followed"]["number"]) == (NAME, 3, "too_few", 3)
    assert effect["models"][0]["model"] == "scripted"
    assert [one["work"] for one in found["trend"]["meetings"]] == [4.0, 1.0, 1.0, 0.0]
    assert found["proposals"]["stopped_by"] == {"grounding": 1}
    assert found["reviews"]["rows"][0]["proposals"] == 2
    assert found["debts"] == [
        {
            "session": "s1",
            "weight": 3,
            "signals": [
                {"signal": "fixed", "weight": 3, "turn": 2, "verb": "seq", "what": f"`seq` failed 3 times {CANARY}"}
            ],
        }
    ]


@pytest.mark.usefixtures("home")
def test_the_page_is_one_file_that_needs_no_network_and_says_what_is_not_measured(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    done = melete("learn", "report", "--html", str(file))
    assert (done.returncode, done.stdout) == (0, "")
    whole = file.read_text()
    page = Page(whole)
    assert page.open == []
    assert page.links == []
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert "default-src 'none'" in whole
    assert page.tags.count("svg") > 3
    for wanted in (
        "What is measured",
        "What is not measured",
        "too few to say",
        "first (1 tasks)",
        "sign test",
        CANARY,
    ):
        assert wanted in page.text, wanted
    again = melete("learn", "report", "--html", str(file))
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    assert melete("learn", "report", "--html", str(file), "--force").returncode == 0
