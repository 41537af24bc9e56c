"""The library: what is found, whose it is, which of two counts, and that nothing on the disk goes unseen."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from melete.core.skill import Here
from melete.core.tool import ToolError
from melete.skills.folders import Shelf
from melete.skills.library import Library
from melete.testing import ManualClock, MemoryLedger


def put(folder: Path, name: str, about: str = "does a thing", head: str = "", body: str = "Text.") -> Path:
    """Write a skill whose folder has its name."""
    file = folder / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\nname: {name}\ndescription: {about}\n{head}---\n{body}\n", encoding="utf-8")
    return file


class Home:
    """A home with shelves of several kinds and a ledger in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ledger = MemoryLedger(clock=ManualClock())

    def shelf(self, kind: Any) -> Path:
        return self.path / kind

    def library(self, *kinds: Any, **more: Any) -> Library:
        shelves = [
            Shelf(kind=kind, path=str(self.shelf(kind))) for kind in kinds or ("user", "bundled", "hub", "project")
        ]
        return Library(shelves, state=self.path / "state", ledger=self.ledger, **more)

    def say(self, kind: str, **fields: Any) -> None:
        asyncio.run(self.ledger.append(kind, fields))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def names(library: Library) -> list[str]:
    return [skill.name for skill in library.all()]


def reasons(library: Library) -> str:
    return " | ".join(f"{one.path}: {one.reason}" for one in library.problems())


def test_skills_of_all_shelves_are_one_library(home: Home) -> None:
    put(home.shelf("bundled") / "devops" / "docker", "compose-up")
    put(home.shelf("user"), "mine", head="category: notes\n")
    put(home.shelf("project"), "release")
    library = home.library()
    assert names(library) == ["release", "compose-up", "mine"]
    found = library.get("compose-up")
    assert (found.category, found.root, found.owner, found.trust) == ("devops/docker", "bundled", "bundled", 4)
    assert found.folder == str(home.shelf("bundled") / "devops/docker/compose-up")
    assert (library.get("mine").category, library.get("release").trust) == ("notes", 1)


def test_what_cannot_be_used_is_told_with_its_reason(home: Home, tmp_path: Path) -> None:
    shelf = home.shelf("user")
    put(shelf, "good")
    (shelf / "bad").mkdir()
    (shelf / "bad" / "SKILL.md").write_text("no head")
    (shelf / "binary").mkdir()
    (shelf / "binary" / "SKILL.md").write_bytes(b"\xff\xfe\x00")
    put(tmp_path / "elsewhere", "outside")
    (shelf / "linked").symlink_to(tmp_path / "elsewhere" / "outside")
    (shelf / "half").mkdir()
    (shelf / "half" / "SKILL.md").symlink_to(tmp_path / "elsewhere" / "outside" / "SKILL.md")
    (shelf / "pipe").mkdir()
    os.mkfifo(shelf / "pipe" / "SKILL.md")
    put(shelf / ".hidden", "hidden")
    put(shelf / "a/b/c/d/e/f/g", "deep")
    library = home.library("user")
    assert names(library) == ["good"]
    said = reasons(library)
    for part in (
        "bad/SKILL.md",
        "between ---",
        "binary/SKILL.md",
        "UTF-8",
        "linked: it is a link",
        "half",
        "deep are not",
    ):
        assert part in said


@pytest.mark.parametrize(("kind", "wins"), [("bundled", "user"), ("hub", "user"), ("project", "user")])
def test_a_lower_trust_never_shadows_a_higher_one(home: Home, kind: Any, wins: str) -> None:
    put(home.shelf(kind), "same", "the other one")
    put(home.shelf("user"), "same", "the person's")
    library = home.library(kind, "user")
    assert library.get("same").root == wins
    assert "shadowed by" in reasons(library)


def test_owner_trust_and_state_come_from_the_ledger_alone(home: Home) -> None:
    put(home.shelf("user"), "learned", head="owner: user\ntrust: 4\n")
    put(home.shelf("project"), "learned", "from the project")
    home.say("skill.version", skill="learned", version="v1", author="agent", owner="agent", trust=2, state="trial")
    library = home.library()
    found = library.get("learned")
    assert (found.owner, found.trust, found.state, found.root) == ("agent", 2, "trial", "user")
    home.say("skill.state", skill="learned", state="active", trust=3, pinned=True)
    assert library.refresh()
    assert (library.get("learned").trust, library.get("learned").pinned) == (3, True)
    home.say("skill.state", skill="learned", state="quarantined", owner="agent", trust=0)
    library.refresh()
    assert library.get("learned").root == "project"
    assert "in quarantine" in reasons(library)


def test_what_is_recorded_of_a_name_does_not_lift_a_project_s_skill(home: Home) -> None:
    put(home.shelf("project"), "tool")
    home.say("skill.state", skill="tool", trust=4, owner="project")
    assert home.library().get("tool").trust == 1


def test_the_most_useful_come_first(home: Home) -> None:
    for name in ("a-rest", "b-rest", "loaded", "pinned"):
        put(home.shelf("bundled"), name)
    put(home.shelf("user"), "fresh")
    home.say("skill.version", skill="fresh", version="v", owner="agent", trust=2, state="trial")
    home.say("skill.state", skill="pinned", pinned=True)
    home.say("skill.exposure", session="s", turn=1, how="loaded", skills=[["loaded", "", 0, 10]])
    home.say("skill.exposure", session="s", turn=1, how="index", skills=[["b-rest", "", 0, 10]])
    library = home.library()
    wanted = ["pinned", "loaded", "fresh", "a-rest", "b-rest"]
    assert [skill.name for skill in library.index(Here())] == wanted
    assert [skill.name for skill in home.library().index(Here())] == wanted


def outcome(home: Home, name: str, reward: float, **more: object) -> None:
    fields = {"target": "skill", "credited": True, "session": "s", "turn": 1, **more}
    home.say("learn.outcome", name=name, reward=reward, **fields)


def test_what_did_good_comes_before_what_was_used_and_what_did_harm_last(home: Home) -> None:
    for name in ("good", "harmful", "judged-anew", "loaded", "lucky", "pinned", "unknown", "uncredited"):
        put(home.shelf("user"), name)
    home.say("skill.state", skill="pinned", pinned=True)
    for name in ("harmful", "harmful", "loaded", "pinned"):
        home.say("skill.exposure", session="s", turn=1, how="loaded", skills=[[name, "", 0, 10]])
    for _ in range(4):
        outcome(home, "good", 0.8)
        outcome(home, "harmful", -0.5)
    outcome(home, "lucky", 1.0)
    outcome(home, "pinned", -1.0)
    outcome(home, "judged-anew", 1.0)
    outcome(home, "judged-anew", 0.5, before=1.0)
    outcome(home, "uncredited", 1.0, credited=False)
    outcome(home, "unknown", 1.0, target="memory")
    wanted = ["pinned", "good", "lucky", "judged-anew", "loaded", "uncredited", "unknown", "harmful"]
    library = home.library()
    assert [skill.name for skill in library.index(Here())] == wanted
    assert (library.reward("good"), library.reward("lucky"), library.reward("judged-anew")) == (0.4, 0.2, 0.1)
    assert [skill.name for skill in home.library().index(Here())] == wanted


def test_of_two_that_match_as_well_the_better_one_comes_first_then_the_more_used(home: Home) -> None:
    for name in ("knots-1", "knots-2", "knots-3", "knots-4"):
        put(home.shelf("user"), name, about="ties knots")
    home.say("skill.exposure", session="s", turn=1, how="loaded", skills=[["knots-2", "", 0, 10]])
    outcome(home, "knots-3", 0.5)
    outcome(home, "knots-1", -0.5)
    found = [skill.name for skill, _ in home.library().rank("tie knots")]
    assert found == ["knots-3", "knots-2", "knots-4", "knots-1"]


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ("platforms: [macos]", False),
        ("platforms: [linux, macos]", True),
        ("metadata: {hermes: {requires_tools: [terminal]}}", True),
        ("metadata: {hermes: {requires_tools: [terminal, browser]}}", False),
        ("metadata: {hermes: {requires_toolsets: [web]}}", False),
        ("metadata: {hermes: {fallback_for_tools: [terminal]}}", False),
        ("metadata: {hermes: {fallback_for_toolsets: [web]}}", True),
    ],
)
def test_conditions_decide_where_a_skill_is_shown(home: Home, condition: str, shown: bool) -> None:
    put(home.shelf("user"), "some", "merge pages", head=condition + "\n")
    library = home.library("user")
    here = Here(tools=frozenset({"terminal"}), toolsets=frozenset({"file"}))
    assert [skill.name for skill in library.index(here)] == ["some"] * shown
    assert len(library.rank("merge pages", here=here)) == shown
    assert library.get("some").name == "some"


def test_a_change_on_the_disk_is_seen_without_a_restart(home: Home) -> None:
    file = put(home.shelf("user") / "cat", "one", "first words")
    library = home.library("user")
    assert library.get("one").description == "first words"
    assert not [one for one in (library.refresh(), library.refresh()) if one][1:]
    put(home.shelf("user") / "cat", "one", "other words")
    assert library.refresh()
    assert library.get("one").description == "other words"
    put(home.shelf("user") / "new" / "deeper", "two")
    assert library.refresh()
    assert names(library) == ["one", "two"]
    before = file.stat()
    file.write_text(file.read_text().replace("other", "third"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert library.refresh()
    assert library.get("one").description == "third words"
    file.unlink()
    assert library.refresh()
    assert names(library) == ["two"]


def test_another_process_reads_no_file_again(home: Home) -> None:
    put(home.shelf("user"), "one", "does a thing")
    time.sleep(0.06)  # what was written just now is read once more, for it may change within the same tick
    home.library("user").refresh()
    snapshot = home.path / "state" / "skills.snapshot"
    assert snapshot.stat().st_mode & 0o777 == 0o600
    snapshot.write_bytes(snapshot.read_bytes().replace(b"does a thing", b"is in memory"))
    assert home.library("user").get("one").description == "is in memory"


@pytest.mark.parametrize("damage", [b"", b"\xc1" * 50, b"garbage"])
def test_what_is_derived_is_remade_when_it_is_damaged(home: Home, damage: bytes) -> None:
    put(home.shelf("user"), "one", "merge pages")
    library = home.library("user")
    library.rank("merge")
    library.close()
    for name in ("skills.snapshot", "skills.standing", "skills.db"):
        (home.path / "state" / name).write_bytes(damage)
    again = home.library("user")
    assert [skill.name for skill, _ in again.rank("merge pages")] == ["one"]
    again.close()


def test_a_home_that_cannot_be_written_still_has_its_skills(home: Home) -> None:
    put(home.shelf("user"), "one", "merge pages")
    (home.path / "state").write_text("a file in the way")
    library = home.library("user")
    assert [skill.name for skill, _ in library.rank("merge pages")] == ["one"]
    library.close()


def test_a_name_may_be_said_in_several_ways(home: Home) -> None:
    put(home.shelf("user") / "docs", "pdf-forms")
    library = home.library("user")
    assert {library.get(name).name for name in ("pdf-forms", "docs/pdf-forms", "pdf_forms", "PDF Forms")} == {
        "pdf-forms"
    }
    with pytest.raises(ToolError, match="nearest are pdf-forms"):
        library.get("pdf-form")
    with pytest.raises(ToolError, match="there is no skill"):
        library.get("other/pdf-forms")


def test_files_stay_inside_their_skill(home: Home) -> None:
    file = put(home.shelf("user"), "one", body="The body.")
    (file.parent / "references").mkdir()
    (file.parent / "references" / "more.md").write_text("more")
    (file.parent / "picture.bin").write_bytes(b"\xff\x00")
    (file.parent / "out").symlink_to("/etc/hostname")
    library = home.library("user")
    assert library.files("one") == ["SKILL.md", "picture.bin", "references/more.md"]
    assert library.text("one").endswith("The body.\n")
    assert library.text("one", "references/more.md") == "more"
    for part in ("../../state", "/etc/passwd", "out", "picture.bin", "references", "nothing.md"):
        with pytest.raises(ToolError):
            library.text("one", part)


def test_a_disabled_skill_is_nowhere(home: Home) -> None:
    put(home.shelf("user"), "one", "merge pages")
    library = home.library("user", disabled=["one"])
    assert not names(library)
    assert not library.rank("merge pages")
    assert "disabled" in reasons(library)


def test_the_more_trusted_counts_where_shelves_overlap(home: Home) -> None:
    put(home.shelf("user"), "one")
    shelves = [Shelf(kind="user", path=str(home.shelf("user"))), Shelf(kind="project", path=str(home.path))]
    library = Library(shelves, state=home.path / "state")
    assert library.get("one").root == "user"
    assert not library.problems()


def test_a_project_s_skills_do_not_lie_elsewhere(home: Home, tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", "outside")
    home.shelf("project").symlink_to(tmp_path / "elsewhere")
    assert not names(home.library("project"))
    put(tmp_path / "other" / "a" / "b", "deep")
    put(tmp_path / "other", "shallow")
    shelf = Shelf(kind="project", path=str(tmp_path / "other"))
    library = Library([shelf], state=tmp_path / "state2")
    assert names(library) == ["shallow"]
    assert not library.problems()


def test_another_ledger_is_folded_from_its_beginning(home: Home) -> None:
    put(home.shelf("user"), "one")
    for _ in range(70):
        home.say("skill.state", skill="one", pinned=True)
    assert home.library().get("one").pinned
    assert (home.path / "state" / "skills.standing").exists()
    assert home.library().get("one").pinned
    home.ledger = MemoryLedger(clock=ManualClock())
    assert not home.library().get("one").pinned
