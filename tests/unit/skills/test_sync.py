"""The bundled skills in a home: copied, updated, and left alone where somebody has edited or removed them."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from melete.core.errors import StorageError
from melete.core.tool import ToolError
from melete.skills.place import NEW, OLD, held, mend, put_tree
from melete.skills.sync import MANIFEST, SOURCE, Bundled, Synced
from melete.skills.versions import Blobs, Versions, tree_of, version_of_tree
from tests.unit.skills.kept import keeper, text

NAMES = ("alpha", "beta", "gamma")
CODE = (
    "import sys; from pathlib import Path; from melete.skills.sync import Bundled; home = Path(sys.argv[1], 'home');"
    "package = Path(sys.argv[1], 'package');"
    "done = Bundled(home / 'skills', lock=home / 'state' / 'lock', version='1', source=package).sync();"
    "print(*(done.new if done else ()))"
)
SYNC = (sys.executable, "-B", "-c", CODE)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name in NAMES:
        packaged(tmp_path, name, "one")
    return tmp_path / "package"


def packaged(tmp_path: Path, name: str, body: str, place: str = "tools") -> Path:
    folder = tmp_path / "package" / place / name
    (folder / "scripts").mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(text(name, f"{body}\n"))
    (folder / "scripts" / "run.sh").write_text(f"#!/bin/sh\necho {body}\n")
    return folder


def bundled(tmp_path: Path, **given: bool) -> Bundled:
    home = tmp_path / "home"
    return Bundled(home / "skills", lock=home / "state" / "lock", version="1", source=tmp_path / "package", **given)


def copy(tmp_path: Path, name: str) -> Path:
    return tmp_path / "home" / "skills" / "bundled" / "tools" / name


def test_what_is_new_is_copied_and_then_nothing_is_left_to_do(tmp_path: Path, package: Path) -> None:
    assert bundled(tmp_path).sync() == Synced(new=NAMES)
    assert tree_of(copy(tmp_path, "alpha")) == tree_of(package / "tools" / "alpha")
    assert os.access(copy(tmp_path, "alpha") / "scripts" / "run.sh", os.X_OK)
    assert bundled(tmp_path).sync() is None
    assert bundled(tmp_path).origin("alpha") == version_of_tree(tree_of(package / "tools" / "alpha"))


def test_untouched_is_updated_edited_kept_deleted_stays_deleted_and_removed_is_dropped(
    tmp_path: Path, package: Path
) -> None:
    packaged(tmp_path, "delta", "one")
    packaged(tmp_path, "moved", "one")
    bundled(tmp_path).sync()
    for path in sorted(copy(tmp_path, "gamma").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    copy(tmp_path, "gamma").rmdir()
    (copy(tmp_path, "beta") / "SKILL.md").write_text(text("beta", "mine\n"))
    mine = tmp_path / "home" / "skills" / "bundled" / "own" / "moved"
    mine.parent.mkdir()
    copy(tmp_path, "moved").rename(mine)
    for name in ("alpha", "beta", "gamma", "moved"):
        packaged(tmp_path, name, "two")
    packaged(tmp_path, "delta", "one").rename(tmp_path / "withdrawn")
    packaged(tmp_path, "fresh", "one")

    done = bundled(tmp_path).sync()

    assert done == Synced(
        new=("fresh",), updated=("alpha", "moved"), kept=("beta",), gone=("gamma",), dropped=("delta",)
    )
    assert "two" in (copy(tmp_path, "alpha") / "SKILL.md").read_text()
    assert "two" in (mine / "SKILL.md").read_text()
    assert "mine" in (copy(tmp_path, "beta") / "SKILL.md").read_text()
    assert not copy(tmp_path, "gamma").exists()
    assert copy(tmp_path, "delta").exists()
    assert "delta" not in (tmp_path / "home" / "skills" / MANIFEST).read_text()
    assert bundled(tmp_path).modified() == ["beta"]
    assert bundled(tmp_path).deleted() == ["gamma"]
    assert "-two\n+mine" in bundled(tmp_path).diff("beta")


def test_a_home_without_its_manifest_takes_what_is_the_same_and_keeps_the_rest(tmp_path: Path, package: Path) -> None:
    bundled(tmp_path).sync()
    (copy(tmp_path, "beta") / "SKILL.md").write_text(text("beta", "mine\n"))
    (tmp_path / "home" / "skills" / MANIFEST).unlink()
    assert bundled(tmp_path).sync() == Synced(kept=("beta",))
    assert bundled(tmp_path).modified() == ["beta"]


def test_a_copy_that_has_become_too_large_for_a_skill_counts_as_edited(tmp_path: Path, package: Path) -> None:
    bundled(tmp_path).sync()
    for number in range(600):
        (copy(tmp_path, "beta") / f"{number}.txt").write_text("")
    packaged(tmp_path, "beta", "two")
    assert bundled(tmp_path).sync() == Synced(kept=("beta",))


def test_nobody_gets_any_who_wants_none(tmp_path: Path, package: Path) -> None:
    assert bundled(tmp_path, off=True).sync() is None
    bundled(tmp_path).opt(out=True)
    assert bundled(tmp_path).sync() is None
    assert not copy(tmp_path, "alpha").exists()
    bundled(tmp_path).opt(out=False)
    assert bundled(tmp_path).sync() == Synced(new=NAMES)


def test_reset_brings_back_what_is_packaged_and_the_edit_stays_in_the_history(tmp_path: Path, package: Path) -> None:
    bundled(tmp_path).sync()
    library = keeper(tmp_path / "home")
    (copy(tmp_path, "beta") / "SKILL.md").write_text(text("beta", "mine\n"))
    version = asyncio.run(bundled(tmp_path).reset("beta", library))
    assert bundled(tmp_path).modified() == []
    assert library.get("beta").owner == "bundled"
    assert library.get("beta").trust == 4
    history = library.versions.history("beta")
    assert [one.author for one in history][-1] == "bundled"
    assert history[-1].version == version
    assert b"mine" in library.versions.tree(history[0])["SKILL.md"]

    copy(tmp_path, "gamma").rename(tmp_path / "away")
    asyncio.run(bundled(tmp_path).reset("gamma", library))
    assert "gamma" in library
    with pytest.raises(ToolError, match="not among"):
        asyncio.run(bundled(tmp_path).reset("nothing", library))


def test_an_update_is_known_as_ours_and_an_edit_as_the_persons(tmp_path: Path, package: Path) -> None:
    bundled(tmp_path).sync()
    library = keeper(tmp_path / "home")
    ledger = library.versions._ledger
    versions = Versions(ledger, Blobs(tmp_path / "home" / "state" / "blobs"), origin=bundled(tmp_path).origin)

    def author() -> str:
        library.refresh()
        return asyncio.run(versions.notice(library.get("alpha"), tree_of(copy(tmp_path, "alpha")))).author

    assert author() == "bundled"
    packaged(tmp_path, "alpha", "two")
    bundled(tmp_path).sync()
    assert author() == "bundled"
    (copy(tmp_path, "alpha") / "SKILL.md").write_text(text("alpha", "mine\n"))
    assert author() == "user"


def test_a_crash_in_the_middle_leaves_the_old_or_the_new(tmp_path: Path, package: Path) -> None:
    """Every state that a killed process can leave behind, put back by the next sync."""
    bundled(tmp_path).sync()
    shelf = tmp_path / "home" / "skills" / "bundled"
    copy(tmp_path, "alpha").rename(copy(tmp_path, f".alpha{OLD}"))  # the old one is aside, the new one not there
    put_tree(copy(tmp_path, f".beta{NEW}"), {"SKILL.md": b"half"})
    put_tree(copy(tmp_path, f".gamma{OLD}"), {"SKILL.md": b"old"})  # the new one is there, the old one not gone
    packaged(tmp_path, "alpha", "two")
    assert bundled(tmp_path).sync() == Synced(updated=("alpha",))
    assert sorted(path.name for path in (shelf / "tools").iterdir()) == [*NAMES]
    copy(tmp_path, "beta").rename(copy(tmp_path, f".beta{OLD}"))
    mend(tmp_path / "home" / "skills", tmp_path / "lock")
    assert sorted(path.name for path in (shelf / "tools").iterdir()) == [*NAMES]


@pytest.mark.needs("strace")
@pytest.mark.parametrize("phase", ["new", "update"])
def test_a_sync_that_is_killed_anywhere_is_finished_by_the_next(tmp_path: Path, package: Path, phase: str) -> None:
    number, calls, expected = 0, "?rename,?renameat,?renameat2,?unlink,?unlinkat,?rmdir", tmp_path / "package" / "tools"
    for number in range(1, 100):
        shutil.rmtree(tmp_path / "home", ignore_errors=True)
        if phase == "update":
            [packaged(tmp_path, name, "one") for name in NAMES]
            bundled(tmp_path).sync()
            [packaged(tmp_path, name, "two") for name in NAMES]
        traced = ("strace", "-f", "-qqq", "-e", "signal=none", "-o", os.devnull, "-e", f"trace={calls}")
        kill = ("-e", f"inject={calls}:signal=SIGKILL:when={number}")
        done = subprocess.run([*traced, *kill, *SYNC, str(tmp_path)], capture_output=True, timeout=60, check=False)
        bundled(tmp_path).sync()
        for name in NAMES:
            assert tree_of(copy(tmp_path, name)) == tree_of(expected / name)
        assert sorted(path.name for path in copy(tmp_path, "alpha").parent.iterdir()) == [*NAMES]
        if done.returncode == 0:
            break
    assert number > 3


def test_a_tree_that_cannot_be_put_leaves_what_was_there(tmp_path: Path) -> None:
    put_tree(tmp_path / "it", {"SKILL.md": b"old"})
    with pytest.raises(FileExistsError):
        put_tree(tmp_path / "it", {"a": b"file", "a/b": b"below it"})
    assert tree_of(tmp_path / "it") == {"SKILL.md": b"old"}
    assert not list(tmp_path.glob(".it*"))


def test_processes_that_start_at_once_share_the_work(tmp_path: Path, package: Path) -> None:
    started = [subprocess.Popen([*SYNC, str(tmp_path)], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = sorted(process.communicate(timeout=60)[0].split() for process in started)
    assert said == [[], [], [], [*NAMES]]


def test_a_lock_that_stays_is_told(tmp_path: Path) -> None:
    with (
        held(tmp_path / "lock", seconds=1),
        pytest.raises(StorageError, match="stayed locked"),
        held(tmp_path / "lock", seconds=0.02),
    ):
        pass


def test_a_home_that_cannot_be_written_is_told(tmp_path: Path, package: Path) -> None:
    (tmp_path / "home" / "skills").mkdir(parents=True)
    (tmp_path / "home" / "skills" / "bundled").write_text("a file")
    with pytest.raises(StorageError, match="bundled"):
        bundled(tmp_path).sync()


def test_the_real_ones_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the disk on the way."""
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    real: Callable[[], Bundled] = lambda: Bundled(tmp_path, lock=tmp_path / "lock", version="1", source=SOURCE)  # noqa: E731
    done = real().sync()
    assert done is not None
    assert "making-a-skill" in done.new
    assert real().sync() is None
    assert waited == []
