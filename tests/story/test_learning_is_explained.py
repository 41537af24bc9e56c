"""Where what is known came from: the story of a lesson, each line with its source, the list of all, and what broke a skill."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from melete import load
from melete.app.wire import open_melete
from melete.core.message import Usage
from melete.learn.facts import Debt, Decision, Kept, Outcome, Proposed, Review, fields_of
from melete.learn.gates import Verdict
from melete.testing import Call, Reply, Say, ScriptedModel
from tests.story.cli import Terminal, lines, melete
from tests.talking import environ
from tests.unit.skills.kept import text

NAME = "shop-net-debug"
STEPS = "1. `echo network inspect shop`\n2. `echo network connect shop db`\n"
CREATE = Call("skill_manage", {"action": "create", "name": NAME, "content": text(NAME, STEPS)})
VIEW = Call("skill_view", {"name": NAME})
BROKEN = "2. `echo network disconnect shop db`"


def shell(command: str) -> Call:
    return Call("terminal", {"command": command})


def patch(old: str, new: str) -> Call:
    return Call("skill_manage", {"action": "patch", "name": NAME, "old_string": old, "new_string": new})


def session(folder: Path, prompt: str, *script: Reply | str) -> str:
    """Run the calls in a session of their own and return its id."""
    with ScriptedModel([*script, Say("Done.")]) as model:
        done = melete("run", "--json", prompt, model=model, cwd=folder)
    assert done.returncode == 0, done.stderr
    return str(lines(done.stdout)[0]["session"])


def told(*facts: Kept) -> list[int]:
    """Put facts of learning into the ledger of the home, as a review does."""

    async def work() -> list[int]:
        with ScriptedModel([]) as model:
            async with open_melete(load(environ=environ(model))) as app:
                return [await app.ledger.append(one.kind, fields_of(one)) for one in facts]

    return asyncio.run(work())


def learn(*words: str) -> str:
    done = melete("learn", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def versions() -> list[dict[str, Any]]:
    return lines(melete("skills", "history", NAME, "--json").stdout)[::-1]


def path() -> Path:
    return Path.home() / ".melete/skills/user" / NAME / "SKILL.md"


def made(folder: Path) -> list[str]:
    """A skill that the agent wrote, mended and used, in a session each, and the person's own edit behind it."""
    sessions = [
        session(folder, "Why can web not reach db?", shell("ls /nowhere"), shell("echo network connect shop db"), CREATE),
        session(folder, "Look at the firewall first.", VIEW, shell("echo ufw status"),
                patch("1. `echo network", "0. `echo ufw status`\n1. `echo network")),
        session(folder, "And now?", VIEW),
    ]  # fmt: skip
    path().write_text(path().read_text().replace("2. `", "2. As root: `"))
    return sessions


def in_order(text_: str, *wanted: str) -> None:
    """Fail unless these stand in the text, one behind the other."""
    at = -1
    for one in wanted:
        found = text_.find(one, at + 1)
        assert found > at, f"{one!r} is not behind {text_[:at]!r} in {text_!r}"
        at = found


def test_the_story_of_a_skill_is_told_in_order(tmp_path: Path) -> None:
    first, second, third = made(tmp_path)
    story = learn("why", NAME)
    in_order(
        story, f"{NAME} · patched", f"in session {second}", "Look at the firewall first.", "echo ufw status",
        "by the agent, in its work, with scripted", "+0. `echo ufw status`", "loaded 1 time, in 1 session", third,
        "since then", "by you: found on the disk", "melete learn undo",
    )  # fmt: skip
    oldest = versions()[0]
    in_order(
        learn("why", str(oldest["number"])), "created", first, "Why can web not reach db?", "✗", "ls /nowhere", "✓",
        "echo network connect", "+1. `echo network inspect shop`", second,
    )  # fmt: skip
    whole = msgspec.json.decode(learn("why", NAME, "--json"))
    assert (whole["step"]["session"], whole["lesson"], len(whole["uses"])) == (second, 0, 1)


def test_the_story_of_a_lesson_has_its_review_its_gates_and_its_effect(tmp_path: Path) -> None:
    first, second, third = made(tmp_path)
    head = versions()[1]
    (number, *_) = told(
        Debt(session=second, turn=2, signal="corrected", weight=5, what="the person says that it was wrong"),
        Review(id="r1", session=second, after=0, upto=20, why="a debt of 8", status="ended", log="log-1", usage=Usage(input=900)),
        Proposed(
            id="p1", status="trial", target="skill", name=NAME, did="patched", class_="pitfall", session=second, turns=(2,),
            review="r1", diff="+0. `echo ufw status`", version=head["version"], tokens=900, model="scripted",
            verdicts=(Verdict(gate="form"), Verdict(gate="grounding", reason="both commands ran")),
        ),
        Outcome(session=third, turn=2, target="skill", name=NAME, version=head["version"], reward=0.8, calls=2, median=9.0,
                credited=True, followed=1.0, model="scripted"),
        Decision(proposal="p1", did="accepted", reason="it is right", version=head["version"]),
    )[2:]  # fmt: skip
    in_order(
        learn("why", str(number)), f"{NAME} · patched · accepted", f"lesson {number}", second, "noticed", "+5 the person says",
        "so it was looked at: a debt of 8", "900 tokens", "log-1", "by a review", "+0.", "gates", "✓ form", "✓ grounding",
        "both commands ran", "accepted by you: it is right", "used since", third, "reward +0.80 over 1 use", "before 9.0",
    )  # fmt: skip
    assert learn("why", NAME, "--json") == learn("why", str(number), "--json"), "the name stands for its last lesson"
    assert "+0. `echo ufw status`" in learn("diff", str(number))
    shown = [(row["number"], row["did"]) for row in lines(learn("log", "--json"))]
    assert shown == [(number, "patched"), (versions()[0]["number"], "created")]
    assert [row["session"] for row in lines(learn("log", "--session", first, "--json"))] == [first]
    assert [row["author"] for row in lines(learn("log", NAME, "--json"))] == ["review", "user", "agent"]


def test_each_line_is_blamed_on_the_words_or_the_call_that_it_came_from(tmp_path: Path) -> None:
    first, second, _ = made(tmp_path)
    rows = {row["text"]: row for row in lines(learn("blame", NAME, "--json"))}
    ufw = rows["0. `echo ufw status`"]
    assert (ufw["author"], ufw["session"], ufw["source"].startswith("terminal")) == ("agent", second, True)
    assert "echo ufw status" in ufw["source"]
    assert rows["1. `echo network inspect shop`"]["session"] == first
    assert rows["2. As root: `echo network connect shop db`"]["author"] == "user"
    learn("undo", "--session", second)
    learn("undo", next(str(row["number"]) for row in lines(learn("log", "--json")) if row["did"] == "undone"))
    rows = {row["text"]: row for row in lines(learn("blame", NAME, "--json"))}
    assert rows["0. `echo ufw status`"]["session"] == second, "what came back is as old as it was"
    with Terminal(["learn", "blame", NAME], columns=60, cwd=tmp_path) as terminal:
        assert terminal.end() == 0
        assert "← terminal" in terminal.rest()


def test_memory_is_explained_as_skills_are(tmp_path: Path) -> None:
    wish = Call("memory", {"target": "user", "content": "Wants the firewall looked at first."})
    taught = session(tmp_path, "Always look at the firewall first!", wish)
    session(tmp_path, "Hello?")
    in_order(
        learn("why", "user"), "USER.md · added", taught, "Always look at the firewall first!", "+Wants the firewall",
        "shown in the prompt 1 time",
    )  # fmt: skip
    (line,) = lines(learn("blame", "user", "--json"))
    assert (line["session"], line["source"]) == (taught, "“Always look at the firewall first!”")
    entry = lines(melete("memory", "show", "--json").stdout)[0]["id"]
    assert learn("why", entry, "--json") == learn("why", "user", "--json")
    assert learn("blame", "memory") == ""


def test_the_version_that_broke_a_skill_is_found(tmp_path: Path) -> None:
    session(tmp_path, "Go.", CREATE)
    for number in range(3):
        session(tmp_path, "Go.", VIEW, patch("1. `", f"{number}. Wait.\n1. `"))
    bad = session(tmp_path, "Go.", VIEW, patch("2. `echo network connect shop db`", BROKEN))
    session(tmp_path, "Go.", VIEW, patch("1. `", "9. Wait.\n1. `"))
    found = melete("learn", "bisect", NAME, "--check", "! grep -q disconnect SKILL.md", "--json")
    assert found.returncode == 0, found.stderr
    broken = msgspec.json.decode(found.stdout)
    assert (broken["bad"]["session"], broken["tried"] <= 5) == (bad, True)
    assert f"+{BROKEN}" in broken["diff"]
    with Terminal(["learn", "bisect", NAME], cwd=tmp_path) as terminal:
        for answer in ("bad", "good"):
            terminal.read_until("good, bad or skip?")
            terminal.type(f"{answer}\r")
        while True:
            shown = terminal.read_until("in question)")
            terminal.read_until("good, bad or skip?")
            folder = shown.split("lies in ")[1].split()[0]
            is_bad = "disconnect" in Path(folder, "SKILL.md").read_text()
            terminal.type("bad\r" if is_bad else "good\r")
            if " (1 in" in shown or " (2 in" in shown:
                break
        assert terminal.end() == 0
        assert broken["bad"]["version"][:10] in terminal.rest()
    good = melete("learn", "revert", NAME, broken["good"]["version"])
    assert good.returncode == 0, good.stderr
    assert "disconnect" not in path().read_text()


@pytest.mark.parametrize(
    ("check", "what"),
    [("true", "is good"), ("false", "is bad"), ("exit 127", "could not be run"), ("", "nobody can be asked")],
)
def test_a_check_that_cannot_tell_is_said_so(tmp_path: Path, check: str, what: str) -> None:
    session(tmp_path, "Go.", CREATE)
    session(tmp_path, "Go.", VIEW, patch("1. `", "0. Wait.\n1. `"))
    done = melete("learn", "bisect", NAME, *(("--check", check) if check else ()))
    assert done.returncode == 2
    assert what in done.stderr.splitlines()[-1]


def test_what_nothing_was_learned_of_is_said_in_one_line() -> None:
    for words in (
        ("why", "git-recover"),
        ("why", "none"),
        ("diff", "77"),
        ("revert", "none"),
        ("revert", "7"),
        ("blame", "none"),
    ):
        done = melete("learn", *words)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "Nothing was learned yet." in melete("learn", "log").stderr
