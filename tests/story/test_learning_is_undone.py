"""What was learned is taken back by one command: all that came from a session, one lesson, and the undo itself."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from melete import load
from melete.app.learn_undo import Undone, meant, undo
from melete.app.skills import library
from melete.app.wire import Melete, open_melete
from melete.learn.facts import Proposed, Undo, fields_of
from melete.learn.inbox import inbox
from melete.testing import Call, Reply, Say, ScriptedModel
from tests.story.cli import lines, melete
from tests.talking import environ
from tests.unit.skills.kept import text

NAME = "net-debug"
FIRST = text(NAME, "1. Inspect the network.\n2. Compare the subnets.\n3. Restart nothing.\n")
CREATE = Call("skill_manage", {"action": "create", "name": NAME, "content": FIRST})
VIEW = Call("skill_view", {"name": NAME})


def patch(old: str, new: str) -> Call:
    return Call("skill_manage", {"action": "patch", "name": NAME, "old_string": old, "new_string": new})


def remember(content: str, **more: Any) -> Call:
    return Call("memory", {"target": "memory", "content": content, **more})


def path() -> Path:
    return Path.home() / ".melete/skills/user" / NAME / "SKILL.md"


def notes() -> str:
    file = Path.home() / ".melete/memories/MEMORY.md"
    return file.read_text() if file.exists() else ""


def session(folder: Path, *script: Reply | str) -> str:
    """Run the calls in a session of their own and return its id."""
    with ScriptedModel([*script, Say("Done.")]) as model:
        done = melete("run", "--json", "Go.", model=model, cwd=folder)
    assert done.returncode == 0, done.stderr
    return str(lines(done.stdout)[0]["session"])


def learn(*words: str) -> dict[str, Any]:
    done = melete("learn", *words, "--json")
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout)


async def _ledger(work: Any) -> Any:
    with ScriptedModel([]) as model:
        async with open_melete(load(environ=environ(model))) as app:
            return await work(app)


def with_app(work: Any) -> Any:
    return asyncio.run(_ledger(work))


def test_all_that_came_from_a_session_goes_with_what_was_made_of_it(tmp_path: Path) -> None:
    session(tmp_path, CREATE)
    taught = session(
        tmp_path, VIEW, patch("2. Compare the subnets.", "2. Compare the subnets.\n2b. Look at the firewall."),
        remember("The gateway is 10.0.0.1."), CREATE_OTHER,
    )  # fmt: skip
    session(tmp_path, VIEW, patch("2b. Look at the firewall.", "2b. Look at the firewall, twice."))
    assert "twice" in path().read_text()
    dry = learn("undo", "--session", taught, "--dry-run")
    assert [(one["name"], one["did"], len(one["taken"])) for one in dry["effects"]] == [
        (NAME, "back", 2), ("other", "archived", 1), ("MEMORY.md", "changed", 1),
    ]  # fmt: skip
    assert ("twice" in path().read_text(), "10.0.0.1" in notes()) == (True, True), "a dry run changes nothing"
    done = melete("learn", "undo", "--session", taught)
    assert (done.returncode, path().read_text(), notes()) == (0, FIRST, ""), done.stderr
    assert not (Path.home() / ".melete/skills/user/other").exists()
    number = done.stderr.split("melete learn undo ")[1].strip()
    again = melete("learn", "undo", "--session", taught)
    assert (again.returncode, "was taken back before" in again.stderr) == (0, True)

    assert melete("learn", "undo", number).returncode == 0
    assert ("twice" in path().read_text(), "10.0.0.1" in notes()) == (True, True), "an undo is undone"
    assert (Path.home() / ".melete/skills/user/other/SKILL.md").exists()
    assert melete("learn", "undo", "--session", taught).returncode == 0
    assert (path().read_text(), notes()) == (FIRST, ""), "and once more"
    assert not (Path.home() / ".melete/skills/user/other").exists()


CREATE_OTHER = Call("skill_manage", {"action": "create", "name": "other", "content": text("other")})


def test_what_a_person_edited_since_is_kept(tmp_path: Path) -> None:
    session(tmp_path, CREATE, remember("The printer is on floor 3."))
    taught = session(
        tmp_path, VIEW, patch("3. Restart nothing.", "3. Restart the switch."),
        remember("The printer is on floor 4.", action="replace", old_text="printer"), remember("Lunch is at noon."),
    )  # fmt: skip
    path().write_text(path().read_text().replace("1. Inspect the network.", "1. Inspect the network, I say."))
    done = learn("undo", "--session", taught)
    assert path().read_text() == FIRST.replace("network.\n2", "network, I say.\n2")
    assert notes() == "The printer is on floor 3.\n", "what it replaced comes back"
    assert [one["did"] for one in done["effects"]] == ["merged", "changed"]
    learn("undo", str(done["number"]))
    assert "Restart the switch." in path().read_text()
    assert "I say" in path().read_text()
    assert "floor 4" in notes()


def test_a_conflict_waits_in_the_inbox_and_nothing_is_lost(tmp_path: Path) -> None:
    session(tmp_path, CREATE)
    taught = session(
        tmp_path, VIEW, patch("3. Restart nothing.", "3. Restart the switch."), remember("Lunch is at noon.")
    )

    async def lesson(app: Melete) -> int:
        (version,) = [row for row in app.ledger.read(kind="skill.version") if row["session"] == taught]
        made = Proposed(
            id="aaa",
            status="trial",
            target="skill",
            name=NAME,
            did="patched",
            session=taught,
            version=version["version"],
        )
        return await app.ledger.append(made.kind, fields_of(made))

    number = with_app(lesson)
    mine = path().read_text().replace("the switch", "the small switch")
    path().write_text(mine)
    (Path.home() / ".melete/memories/MEMORY.md").write_text("Lunch is at noon sharp.\n")
    done = melete("learn", "undo", "--session", taught)
    assert (done.returncode, path().read_text(), notes()) == (0, mine, "Lunch is at noon sharp.\n"), done.stderr
    assert "stays as it is. SKILL.md has changed in the same place: what you edited" in done.stdout
    assert "Nothing was taken back." in done.stderr

    async def waiting(app: Melete) -> list[Any]:
        return [one for one in inbox(app.ledger.read()) if one.state == "waiting"]

    skill, entry = with_app(waiting)
    assert "in use" in melete("learn", "show", str(number)).stdout, "it is not undone yet"
    assert f"melete learn show {skill.number}" in done.stdout
    assert "+3. Restart nothing." in skill.proposal.diff
    assert (entry.proposal.target, entry.proposal.change["operations"][0]["action"]) == ("memory", "remove")
    assert melete("learn", "accept", str(skill.number)).returncode == 0
    assert path().read_text() == FIRST
    assert melete("learn", "accept", str(entry.number)).returncode == 0
    assert notes() == ""


def test_a_lesson_is_taken_back_by_its_number_and_others_stay(tmp_path: Path) -> None:
    session(tmp_path, CREATE)
    taught = session(
        tmp_path, VIEW, patch("3. Restart nothing.", "3. Restart the switch."), remember("Lunch is at noon.")
    )

    async def propose(app: Melete) -> list[int]:
        (version,) = [row for row in app.ledger.read(kind="skill.version") if row["session"] == taught]
        (change,) = app.ledger.read(kind="memory.change")
        common: dict[str, Any] = {"session": taught, "did": "patched"}
        made = [
            Proposed(id="aaa", status="trial", target="skill", name=NAME, version=version["version"], **common),
            Proposed(
                id="bbb", status="trial", target="memory", name="MEMORY.md", version=str(change["number"]), **common
            ),
            Proposed(id="ccc", status="inbox", target="skill", name="later", **common),
        ]
        return [await app.ledger.append(one.kind, fields_of(one)) for one in made]

    skill, entry, waits = with_app(propose)
    learn("undo", str(skill))
    assert (path().read_text(), notes()) == (FIRST, "Lunch is at noon.\n")
    back = learn("undo", str(entry))
    assert notes() == ""
    refused = melete("learn", "undo", str(waits))
    assert (refused.returncode, "nothing of lesson" in refused.stderr) == (2, True)

    async def states(app: Melete) -> dict[str, str]:
        return {one.proposal.id: one.state for one in inbox(app.ledger.read())}

    assert with_app(states) == {"aaa": "undone", "bbb": "undone", "ccc": "waiting"}
    learn("undo", str(back["number"]))
    assert notes() == "Lunch is at noon.\n"
    assert with_app(states)["bbb"] == "accepted"
    done = learn("undo", "--session", taught)
    assert done["closed"] == [waits]
    assert with_app(states) == {"aaa": "undone", "bbb": "undone", "ccc": "undone"}


def test_a_skill_that_the_agent_put_away_comes_back(tmp_path: Path) -> None:
    session(tmp_path, CREATE)
    taught = session(tmp_path, VIEW, Call("skill_manage", {"action": "delete", "name": NAME}))
    assert not path().exists()
    learn("undo", "--session", taught)
    assert path().read_text() == FIRST


@pytest.mark.parametrize(
    "words", [("undo",), ("undo", "1", "--session", "x"), ("undo", "999"), ("undo", "--session", "x")]
)
def test_what_is_not_there_is_said_in_one_line(words: tuple[str, ...]) -> None:
    done = melete("learn", *words)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr


def test_an_undo_that_was_cut_off_is_finished_by_the_next(tmp_path: Path) -> None:
    taught = session(tmp_path, CREATE, remember("Lunch is at noon."))

    async def half(app: Melete) -> Undone:
        what = await meant(app, session=taught)
        record = Undo(id="cut0ff", session=taught, took=tuple(what.numbers))
        await app.ledger.append(record.kind, fields_of(record))
        keeper = library(app)
        made = structs.replace(
            keeper.versions.history(NAME)[-1], author="user", session="", reason=f"{record.tag}of it"
        )
        await keeper.become(made, {}, base=made.version)
        return await undo(app, await meant(app, session=taught))

    done = with_app(half)
    assert (path().exists(), notes()) == (False, "")
    learn("undo", str(done.number))
    assert (path().exists(), notes()) == (True, "Lunch is at noon.\n")


async def lesson(app: Melete) -> int:
    """A lesson that became the only version of the skill."""
    (version,) = app.ledger.read(kind="skill.version")
    made = Proposed(
        id="aaa", status="trial", target="skill", name=NAME, did="created", version=version["version"], session="x"
    )
    return await app.ledger.append(made.kind, fields_of(made))


async def states(app: Melete) -> list[str]:
    return [one.state for one in inbox(app.ledger.read())]


def test_what_a_cut_off_undo_did_and_did_not_tell_is_told_by_the_next(tmp_path: Path) -> None:
    session(tmp_path, CREATE)
    number = with_app(lesson)

    async def half(app: Melete) -> None:
        what = await meant(app, name=str(number))
        record = Undo(id="cut0ff", took=tuple(what.numbers), proposals=("aaa",))
        await app.ledger.append(record.kind, fields_of(record))
        keeper = library(app)
        made = keeper.versions.history(NAME)[-1]
        made = structs.replace(made, author="user", session="", reason=f"{record.tag}of it")
        await keeper.become(made, {}, base=made.version)

    with_app(half)
    assert with_app(states) == ["trial"]
    again = learn("undo", str(number))
    assert (path().exists(), with_app(states)) == (False, ["undone"])
    assert again["number"] and not learn("undo", str(number))["number"]


def test_an_undo_is_taken_back_again_and_again(tmp_path: Path) -> None:
    session(tmp_path, CREATE)
    number = with_app(lesson)
    for state in ("undone", "accepted", "undone", "accepted"):
        number = learn("undo", str(number))["number"]
        assert (path().exists(), with_app(states)) == (state == "accepted", [state])
