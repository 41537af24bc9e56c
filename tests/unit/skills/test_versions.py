"""The history of skills: kept contents, facts in the ledger, edits that are noticed by their digest."""

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest

from melete.core.errors import StorageError
from melete.core.skill import Skill, Version
from melete.core.tool import ToolError
from melete.skills.versions import Blobs, Versions, digest, tree_of, version_of
from melete.store.ledger import FileLedger
from melete.testing.clock import ManualClock


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    return open_versions(tmp_path)


def open_versions(state: Path) -> Versions:
    return Versions(FileLedger(state, clock=ManualClock()), Blobs(state / "blobs"))


def tree(text: str, **more: bytes) -> dict[str, bytes]:
    return {"SKILL.md": text.encode(), **more}


def run(work: Any) -> Any:
    return asyncio.run(work)


def test_a_version_stands_for_its_files_whatever_their_order() -> None:
    files = {"SKILL.md": digest(b"x"), "references/a.md": digest(b"y")}
    assert version_of(files) == version_of(dict(reversed(files.items())))
    assert version_of(files) != version_of(files | {"references/a.md": digest(b"z")})
    assert len(version_of(files)) == 16


def test_every_version_is_kept_and_another_process_reads_it(tmp_path: Path, versions: Versions) -> None:
    first = run(
        versions.record(Version(skill="demo", author="agent", owner="agent", trust=2, state="trial"), tree("one\n"))
    )
    second = run(
        versions.record(Version(skill="demo", author="user", turns=(3, 4)), tree("two\n", **{"scripts/a": b"\xff"}))
    )
    other = open_versions(tmp_path)
    assert [one.version for one in other.history("demo")] == [first.version, second.version]
    head = other.head("demo")
    assert head is not None
    assert head == second
    assert head.parent == first.version
    assert (head.author, head.turns) == ("user", (3, 4))
    assert other.tree(head) == tree("two\n", **{"scripts/a": b"\xff"})
    assert other.head("another") is None
    run(other.record(Version(skill="demo"), tree("three\n")))
    assert len(versions.history("demo")) == 3, "what another process adds is seen"


def test_contents_are_kept_once_and_for_their_owner_alone(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    name = blobs.put(b"text")
    assert blobs.put(b"text") == name
    (path,) = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
    assert path.name == name
    assert path.parent.name == name[:2]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(b"other")
    with pytest.raises(StorageError, match="damaged"):
        blobs.get(name)
    path.unlink()
    with pytest.raises(StorageError, match="cannot be read"):
        blobs.get(name)


def test_versions_are_compared_and_found_by_their_beginning(versions: Versions) -> None:
    with pytest.raises(ToolError, match="no versions yet"):
        versions.diff("demo")
    first = run(versions.record(Version(skill="demo"), tree("one\ntwo\n", **{"assets/p.png": b"\xff\xd8"})))
    run(versions.record(Version(skill="demo"), tree("one\n2\n", **{"assets/p.png": b"\xff"})))
    last = run(versions.record(Version(skill="demo"), tree("one\n2\nthree\n")))
    assert versions.diff("demo") == (
        "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -1,2 +1,3 @@\n one\n 2\n+three\n"
        "--- a/assets/p.png\n+++ /dev/null\n(not a text: 1 → 0 bytes)"
    )
    assert "-two\n+2\n+three" in versions.diff("demo", old=first.version[:6], new=last.version)
    assert "+one" in versions.diff("demo", new=first.version)
    with pytest.raises(ToolError, match="has no version 'zz'"):
        versions.find("demo", "zz")


def test_an_edit_on_the_disk_becomes_a_version_of_the_person(versions: Versions, tmp_path: Path) -> None:
    skill = Skill(name="demo", description="d", owner="agent", trust=2, state="trial", folder=str(tmp_path / "demo"))
    made = run(
        versions.record(Version(skill="demo", author="agent", owner="agent", trust=2, state="trial"), tree("one\n"))
    )
    assert run(versions.notice(skill, tree("one\n"))) == made
    edited = run(versions.notice(skill, tree("two\n")))
    assert (edited.author, edited.owner, edited.trust, edited.state) == ("user", "agent", 2, "trial")
    assert edited.parent == made.version
    assert run(versions.notice(skill, tree("two\n"))) == edited
    assert len(versions.history("demo")) == 2


def test_what_is_only_read_here_gets_no_history(versions: Versions) -> None:
    skill = Skill(name="demo", description="d", root="external", owner="external", trust=3)
    assert run(versions.notice(skill, tree("one\n"))).version == version_of({"SKILL.md": digest(b"one\n")})
    assert versions.history("demo") == ()


def test_a_skills_files_are_read_without_links_and_hidden_ones(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    (folder / "references").mkdir(parents=True)
    (folder / "skill.md").write_text("text")
    (folder / "references" / "a.md").write_text("a")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("x")
    (folder / "link").symlink_to("/etc/hosts")
    (folder / "out").symlink_to("/etc")
    assert tree_of(folder) == {"SKILL.md": b"text", "references/a.md": b"a"}
    with (folder / "huge").open("wb") as huge:
        huge.truncate(20_000_000)
    with pytest.raises(ToolError, match="too much for a skill"):
        tree_of(folder)
