"""A session that sees what was known at an earlier time: skills and memory as they were then, only read."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from melete.app.as_of import time_as_of
from melete.core.errors import UsageError
from melete.testing import Call, Reply, Say, ScriptedModel
from tests.story.cli import lines, melete
from tests.unit.skills.kept import text

NAME = "net-debug"
FIRST = text(NAME, "1. Inspect the network.\n", description="Finds the fault in a network.")
CREATE = Call("skill_manage", {"action": "create", "name": NAME, "content": FIRST, "category": "ops"})
VIEW = Call("skill_view", {"name": NAME})
PATCH = Call(
    "skill_manage", {"action": "patch", "name": NAME, "old_string": "the network.", "new_string": "the network, twice."}
)
BEFORE, FIRST_DAY, SECOND_DAY = "2026-03-01T12:00:00Z", "2026-03-02T12:00:00Z", "2026-03-04T12:00:00Z"
NOW = "2026-03-06T12:00:00Z"


def remember(content: str, **more: str) -> Call:
    return Call("memory", {"target": "memory", "content": content, **more})


def session(folder: Path, day: str, *script: Reply | str, words: tuple[str, ...] = ()) -> tuple[Any, list[Any]]:
    """A one-shot session on a day; the command and the requests that it sent."""
    with ScriptedModel([*script, Say("Done.")]) as model:
        done = melete("run", "--json", *words, "Go.", model=model, cwd=folder, MELETE_CLOCK=day)
    return done, [request.json for request in model.requests]


def system(body: dict[str, Any]) -> str:
    return str(body["messages"][0]["content"])


def results(done: Any) -> list[str]:
    return [row["result"]["content"] for row in lines(done.stdout) if row["type"] == "tool.ended"]


@pytest.fixture
def learned(tmp_path: Path) -> Path:
    """A home in which a lesson was made on one day, and changed on another."""
    session(tmp_path, FIRST_DAY, CREATE, remember("The gateway is 10.0.0.1."))
    new = Call("skill_manage", {"action": "create", "name": "later", "content": text("later")})
    session(
        tmp_path,
        SECOND_DAY,
        VIEW,
        PATCH,
        new,
        remember("The gateway is 10.0.0.9.", action="replace", old_text="gateway"),
    )
    return tmp_path


def stored(home: Path) -> dict[str, bytes]:
    """What is kept of skills and memory."""
    there = [*(home / "skills/user").rglob("*"), *(home / "memories").rglob("*")]
    return {str(path): path.read_bytes() for path in there if path.is_file()}


def test_a_session_sees_what_was_known_then_and_changes_nothing(learned: Path) -> None:
    home = Path.home() / ".melete"
    before = stored(home)
    tries = [VIEW, PATCH, remember("Lunch is at noon."), Call("terminal", {"command": "true"})]
    done, bodies = session(learned, NOW, *tries, words=("--as-of", "2026-03-03"))
    assert done.returncode == 0, done.stderr
    prompt = system(bodies[0])
    assert "as they are" not in prompt
    for wanted in ("as they were on 2026-03-03", f"- {NAME}: Finds the fault", "The gateway is 10.0.0.1."):
        assert wanted in prompt
    assert "- later:" not in prompt
    assert "10.0.0.9" not in prompt
    viewed, patched, noted, _ = results(done)
    assert "1. Inspect the network.\\n" in viewed
    assert "error" in patched
    assert '"success":false' in noted.replace(" ", "")
    assert stored(home) == before
    kinds = [row["kind"] for row in lines_of_ledger() if row["at"].startswith("2026-03-06")]
    assert not [kind for kind in kinds if kind.startswith(("skill.", "memory.", "learn."))], "its use counts nowhere"
    now, bodies = session(learned, NOW, VIEW)
    assert "network, twice." in results(now)[0]
    assert "10.0.0.9" in system(bodies[0])


def lines_of_ledger() -> list[dict[str, Any]]:
    data = (Path.home() / ".melete/state/ledger.log").read_text()
    return [lines(line.partition(" ")[2])[0] for line in data.splitlines()]


def test_before_anything_was_learned_there_is_nothing(learned: Path) -> None:
    done, bodies = session(learned, NOW, Say("Hi."), words=("--as-of", BEFORE))
    assert done.returncode == 0, done.stderr
    assert NAME not in system(bodies[0])
    assert "gateway" not in system(bodies[0])
    assert "- git-recover:" in system(bodies[0]), "what comes with Melete was there"


def test_a_skill_that_was_put_away_is_there_again(learned: Path) -> None:
    assert melete("skills", "archive", NAME, MELETE_CLOCK=NOW).returncode == 0
    done, _ = session(learned, NOW, VIEW, words=("--as-of", "yesterday"))
    assert "network, twice." in results(done)[0]


def test_a_session_keeps_the_time_that_it_sees(learned: Path) -> None:
    session(learned, NOW, Say("Hi."), words=("--as-of", "2026-03-03"))
    wrong, _ = session(learned, NOW, Say("Hi."), words=("-c",))
    assert (wrong.returncode, "go on in it with --as-of 2026-03-03T" in wrong.stderr) == (2, True), wrong.stderr
    at = wrong.stderr.split("--as-of ")[1].strip()
    right, bodies = session(learned, NOW, VIEW, words=("-c", "--as-of", at))
    assert right.returncode == 0, right.stderr
    assert "The gateway is 10.0.0.1." in system(bodies[0])
    assert "network.\\n" in results(right)[0]


@pytest.mark.parametrize("text_", ["2027-01-01", "some time", "2026-13-01"])
def test_a_time_that_is_none_is_refused_in_one_line(text_: str) -> None:
    done = melete("run", "--as-of", text_, "Go.", MELETE_CLOCK=NOW)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert text_ in done.stderr


def test_times_are_understood_as_people_write_them() -> None:
    now = datetime(2026, 3, 6, 12, tzinfo=UTC)
    assert time_as_of("", now) is None
    assert time_as_of("3 days ago", now) == datetime(2026, 3, 3, 12, tzinfo=UTC)
    assert time_as_of("yesterday", now) == datetime(2026, 3, 5, 12, tzinfo=UTC)
    assert time_as_of("2h", now) == datetime(2026, 3, 6, 10, tzinfo=UTC)
    whole = time_as_of("2026-03-03", now)
    assert whole
    local = whole.astimezone()
    assert (local.day, local.hour, local.minute) == (3, 23, 59), "a day counts to its end"
    with pytest.raises(UsageError, match="still to come"):
        time_as_of("2026-03-07", now)


def test_files_of_a_person_that_were_never_told_count_by_their_age(tmp_path: Path, own_home: Path) -> None:
    for name, content in (("mine", text("mine")), ("fresh", text("fresh"))):
        path = own_home / ".melete/skills/user" / name / "SKILL.md"
        path.parent.mkdir(parents=True)
        path.write_text(content)
    old = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    os.utime(own_home / ".melete/skills/user/mine/SKILL.md", (old, old))
    _, bodies = session(tmp_path, NOW, Say("Hi."), words=("--as-of", "2026-03-01"))
    assert "- mine:" in system(bodies[0])
    assert "- fresh:" not in system(bodies[0])
