"""Two copies of a folder: what changed on one side goes to the other, nothing is lost, and nothing foreign is trusted.

The other place is this machine in another folder: a real shell with the real find, stat, dd and tar.
"""

import asyncio
import os
import subprocess
import sys
import tarfile
from collections.abc import Awaitable, Callable
from io import BytesIO
from pathlib import Path

import pytest

from melete.core.environment import Place
from melete.core.errors import EnvironmentFailure
from melete.environments import far_copy
from melete.environments.local import LocalEnvironment
from melete.environments.sync import Sync

MEGABYTE = 1_000_000
LONG_AGO = 1_700_000_000


class Both:
    """The two folders and what keeps them alike."""

    def __init__(self, folder: Path, path: str = os.environ["PATH"], cap_mb: int = 100) -> None:
        self.here, self.there = folder / "here", folder / "there"
        self.here.mkdir()
        self.env = LocalEnvironment(Place(cwd="/", variables={"PATH": path}))
        self.sync = Sync(self.env, self.here, str(self.there), cap_mb=cap_mb)


def both(folder: Path, test: Callable[[Both], Awaitable[None]], **given: object) -> None:
    async def main() -> None:
        two = Both(folder, **given)  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(120):
                await test(two)
        finally:
            await two.env.aclose()

    asyncio.run(main())


def tree(folder: Path) -> dict[str, str]:
    """What a folder holds: a file's content, `-> target` for a link, `/` for a folder."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.startswith(".melete-sync"):
            continue
        link = path.is_symlink()
        found[name] = f"-> {path.readlink()}" if link else "/" if path.is_dir() else path.read_text()
    return found


def fill(folder: Path) -> None:
    (folder / "src/deep").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "src/a.py").write_text("a")
    (folder / "src/deep/ü 'quoted'\n\"line\".txt").write_text("odd")
    (folder / "-rf").write_text("dash")
    (folder / "run.sh").write_text("#!/bin/sh")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("src/a.py")
    (folder / ".git/objects").mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: refs/heads/main")
    (folder / "node_modules/x").mkdir(parents=True)
    (folder / "node_modules/x/y.js").write_text("made again")


def test_everything_goes_there_and_what_changed_comes_back(tmp_path: Path) -> None:
    async def test(two: Both) -> None:
        fill(two.here)
        report = await two.sync.push()
        wanted = {name: what for name, what in tree(two.here).items() if "node_modules" not in name}
        assert tree(two.there) == wanted
        sealed = two.there / f".sealed-{'0' * 16}-x.py"
        sealed.write_text("a copy that runs just now")
        assert (two.there / "run.sh").stat().st_mode & 0o777 == 0o755
        assert (report.files, report.notes) == (6, ())
        (two.there / "src/a.py").write_text("changed there")
        (two.there / "new/inner").mkdir(parents=True)
        (two.there / "new/inner/made").write_text("made there")
        (two.there / "-rf").unlink()
        (two.there / "empty").rmdir()
        (two.there / "run.sh").chmod(0o644)
        report = await two.sync.pull()
        sealed.unlink()
        assert tree(two.there) == {name: what for name, what in tree(two.here).items() if "node_modules" not in name}
        assert (two.here / "node_modules/x/y.js").exists()
        assert (two.here / "run.sh").stat().st_mode & 0o777 == 0o644
        assert (report.removed, report.notes) == (2, ())
        again = await two.sync.pull()
        assert (again.files, again.removed, (await two.sync.push()).files) == (0, 0, 0)
        await two.sync.finish()
        assert not (two.there / ".melete-sync").exists()

    both(tmp_path, test)


def test_what_changes_here_later_goes_there(tmp_path: Path) -> None:
    async def test(two: Both) -> None:
        fill(two.here)
        await two.sync.push()
        (two.here / "src/a.py").write_text("newer here")
        (two.here / "link").unlink()
        (two.here / "src/deep").rename(two.here / "moved")
        await two.sync.pull()
        await two.sync.push()
        assert tree(two.there) == {name: what for name, what in tree(two.here).items() if "node_modules" not in name}
        assert "moved" in tree(two.there)

    both(tmp_path, test)


def test_a_file_changed_on_both_sides_is_kept_twice(tmp_path: Path) -> None:
    async def test(two: Both) -> None:
        for name in ("a", "b", "gone-here", "gone-there", "same"):
            (two.here / name).write_text("first")
        await two.sync.push()
        (two.here / "a").write_text("ours")
        (two.there / "a").write_text("theirs")
        (two.here / "same").write_text("alike")
        (two.there / "same").write_text("alike")
        (two.here / "gone-here").unlink()
        (two.there / "gone-here").write_text("theirs")
        (two.there / "gone-there").unlink()
        (two.here / "gone-there").write_text("ours")
        notes = (await two.sync.pull()).notes
        wanted = {
            "a": "ours", "a.remote": "theirs", "b": "first", "gone-here": "theirs", "gone-there": "ours", "same": "alike",
        }  # fmt: skip
        assert tree(two.here) == wanted
        assert sorted(note.split()[0] for note in notes) == ["a", "gone-here", "gone-there"]
        await two.sync.push()
        assert tree(two.there) == wanted
        (two.here / "a").write_text("ours again")
        (two.there / "a").write_text("theirs again")
        await two.sync.pull()
        assert tree(two.here)["a.remote-2"] == "theirs again"

    both(tmp_path, test)


def test_a_folder_that_exists_there_is_joined_and_nothing_in_it_is_lost(tmp_path: Path) -> None:
    async def test(two: Both) -> None:
        two.there.mkdir()
        (two.there / "only-there").write_text("there")
        (two.there / "both").write_text("other")
        (two.there / "equal").write_text("equal")
        (two.here / "both").write_text("ours")
        (two.here / "equal").write_text("equal")
        await two.sync.pull()
        await two.sync.push()
        assert tree(two.here) == tree(two.there)
        assert tree(two.here) == {"both": "ours", "both.remote": "other", "equal": "equal", "only-there": "there"}

    both(tmp_path, test)


def test_large_files_go_in_pieces_and_a_changing_one_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = os.urandom(20 * MEGABYTE)

    async def test(two: Both) -> None:
        (two.here / "in").mkdir()
        (two.here / "in/big").write_bytes(data)
        await two.sync.push()
        assert (two.there / "in/big").read_bytes() == data
        (two.there / "in/other").write_bytes(data[::-1])
        report = await two.sync.pull()
        assert (two.here / "in/other").read_bytes() == data[::-1]
        assert report.bytes == len(data)
        (two.here / "in/big").write_bytes(b"small now")
        await two.sync.push()
        assert (two.there / "in/big").read_bytes() == b"small now"

    both(tmp_path, test)


def test_two_sessions_with_one_folder_there_do_not_meet_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("melete.environments.sync.PIECE", 100_000)

    async def test(two: Both) -> None:
        here = tmp_path / "second"
        here.mkdir()
        other = Sync(two.env, here, str(two.there))
        first, second = (letter * MEGABYTE for letter in "ab")
        (two.here / "first").write_text(first)
        (here / "second").write_text(second)
        await asyncio.gather(two.sync.push(), other.push())
        assert ((two.there / "first").read_text(), (two.there / "second").read_text()) == (first, second)
        await other.finish()
        (two.there / "first").unlink()
        assert (await two.sync.pull()).removed == 1  # it is still marked as its copy
        await two.sync.finish()
        assert list(two.there.glob(".melete-sync*")) == []
        left = two.there / ".melete-sync-of-one-that-was-killed"
        left.mkdir()
        os.utime(left, (LONG_AGO, LONG_AGO))
        await two.sync.push()
        assert not left.exists()

    both(tmp_path, test)


def test_what_is_more_than_the_cap_is_not_copied_and_told(tmp_path: Path) -> None:
    async def test(two: Both) -> None:
        (two.here / "large").write_bytes(b"x" * 3 * MEGABYTE)
        with pytest.raises(EnvironmentFailure, match="more than is allowed"):
            await two.sync.push()
        assert tree(two.there) == {}
        (two.here / "large").unlink()
        (two.here / "small").write_text("goes")
        await two.sync.push()
        (two.there / "a").write_text("first")
        (two.there / "b").write_bytes(b"x" * 3 * MEGABYTE)
        notes = (await two.sync.pull()).notes
        assert tree(two.here) == {"a": "first", "small": "goes"}
        assert notes[0].startswith("b and what comes after it was left there")

    both(tmp_path, test, cap_mb=2)


def test_the_other_folder_gone_removes_nothing_here(tmp_path: Path) -> None:
    async def test(two: Both) -> None:
        fill(two.here)
        before = tree(two.here)
        await two.sync.push()
        two.there.rename(tmp_path / "away")
        assert (await two.sync.pull()).notes == (f"{two.there} is not there",)
        two.there.mkdir()
        await two.sync.pull()
        assert tree(two.here) == before
        await two.sync.push()
        assert "src/a.py" in tree(two.there)
        (two.there / "src").chmod(0)
        await two.sync.pull()
        (two.there / "src").chmod(0o755)
        assert tree(two.here) == before

    both(tmp_path, test)


def test_what_git_would_run_here_is_not_taken(tmp_path: Path) -> None:
    async def test(two: Both) -> None:
        fill(two.here)
        (two.here / ".git/config").write_text("[core]")
        await two.sync.push()
        (two.there / ".git/config").write_text("[core]\nfsmonitor = evil")
        (two.there / ".git/hooks").mkdir()
        (two.there / ".git/hooks/pre-commit").write_text("evil")
        (two.there / "sub").mkdir()
        (two.there / "sub/.GIT").write_text("gitdir: ../evil")
        (two.there / ".git/refs/heads").mkdir(parents=True)
        (two.there / ".git/refs/heads/hooks").write_text("a branch")
        notes = (await two.sync.pull()).notes
        assert (two.here / ".git/config").read_text() == "[core]"
        assert not (two.here / ".git/hooks/pre-commit").exists()
        assert not (two.here / "sub/.GIT").exists()
        assert (two.here / ".git/refs/heads/hooks").read_text() == "a branch"
        assert [note.partition(":")[0] for note in notes] == [".git/config", ".git/hooks/pre-commit", "sub/.GIT"]
        assert (await two.sync.pull()).notes == ()

    both(tmp_path, test)


def test_no_link_leads_out_of_the_folder(tmp_path: Path) -> None:
    async def test(two: Both) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (two.here / "out").symlink_to(outside)
        (two.here / "src").mkdir()
        await two.sync.push()
        for name, to in {"up": "../outside", "far": "/etc/passwd", "src/two": "../../outside", "ok": "src"}.items():
            (two.there / name).symlink_to(to)
        (two.there / "out").unlink()
        (two.there / "out").mkdir()
        (two.there / "out/evil").write_text("evil")
        notes = (await two.sync.pull()).notes
        assert list(outside.iterdir()) == []
        assert (two.here / "ok").is_symlink()
        assert not any(os.path.lexists(two.here / name) for name in ("up", "far", "src/two"))
        assert any("leads out" in note for note in notes)

    both(tmp_path, test)


EVIL = """#!{python}
import sys
if "-cf" in sys.argv:
    sys.stdout.buffer.write(open({archive!r}, "rb").read())
else:
    import os
    os.execv("/usr/bin/tar", ["tar", *sys.argv[1:]])
"""


def hostile_archive(wanted: str) -> bytes:
    made = BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:

        def add(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", data: bytes = b"evil") -> None:
            about = tarfile.TarInfo(name)
            about.type, about.linkname, about.mode = kind, link, 0o6777
            about.size = len(data) if kind == tarfile.REGTYPE else 0
            tar.addfile(about, BytesIO(data))

        add("/etc/evil")
        add("../evil")
        add("./asked/../../evil")
        add("not-asked")
        add("dev", tarfile.CHRTYPE)
        add("hard", tarfile.LNKTYPE, "/etc/passwd")
        add("./fifo", tarfile.FIFOTYPE)
        add(f"./{wanted}", data=b"fine")
        add(f"./{wanted}", data=b"twice")
    return made.getvalue() + b"broken off" * 30


def test_an_archive_that_lies_puts_nothing_where_it_was_not_asked_for(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tmp_path / "archive").write_bytes(hostile_archive("asked"))
    (tools / "tar").write_text(EVIL.format(python=sys.executable, archive=str(tmp_path / "archive")))
    (tools / "tar").chmod(0o755)

    async def test(two: Both) -> None:
        two.there.mkdir()
        for name in ("asked", "dev", "hard"):
            (two.there / name).write_text("real")
        os.mkfifo(two.there / "fifo")
        before = {path.name for path in tmp_path.iterdir()}
        notes = (await two.sync.pull()).notes
        assert tree(two.here) == {"asked": "fine"}
        assert (two.here / "asked").stat().st_mode & 0o7000 == 0
        assert {path.name for path in tmp_path.iterdir()} == before
        assert any("was not asked for" in note for note in notes)

    both(tmp_path, test, path=f"{tools}:{os.environ['PATH']}")


def test_a_place_that_fails_halfway_leaves_both_copies_whole(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "tar").write_text('#!/bin/sh\nhead -c 1500 | /usr/bin/tar "$@"\nexit 1\n')
    (tools / "tar").chmod(0o755)

    async def test(two: Both) -> None:
        two.there.mkdir()
        (two.there / "kept").write_text("there")
        os.utime(two.there / "kept", (LONG_AGO, LONG_AGO))
        (two.here / "kept").write_text("there")
        (two.here / "new").write_text("x" * 5_000)
        with pytest.raises(EnvironmentFailure, match="could not be written there") as failure:
            await two.sync.push()
        assert failure.value.next
        assert tree(two.there) == {"kept": "there"}

    both(tmp_path, test, path=f"{tools}:{os.environ['PATH']}")


def test_what_is_missing_there_is_told(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "mkdir", "rm", "date"):
        (tools / name).symlink_to(f"/bin/{name}")

    async def test(two: Both) -> None:
        (two.here / "a").write_text("a")
        with pytest.raises(EnvironmentFailure, match="could not be listed") as failure:
            await two.sync.push()
        assert "tar" in failure.value.next

    both(tmp_path, test, path=str(tools))


def test_files_of_busybox_are_read_as_well(tmp_path: Path) -> None:
    if not Path("/usr/bin/busybox").exists():
        pytest.skip("no busybox")
    tools = tmp_path / "tools"
    tools.mkdir()
    names = subprocess.run(["/usr/bin/busybox", "--list"], capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        (tools / name).symlink_to("/usr/bin/busybox")

    async def test(two: Both) -> None:
        fill(two.here)
        (two.here / "big").write_bytes(b"0123456789" * MEGABYTE)
        await two.sync.push()
        (two.there / "src/a.py").write_text("there")
        (two.there / "big2").write_bytes(b"9876543210" * MEGABYTE)
        await two.sync.pull()
        assert tree(two.there) == {name: what for name, what in tree(two.here).items() if "node_modules" not in name}
        assert (await two.sync.pull()).files == 0

    both(tmp_path, test, path=str(tools))


def test_groups_fit_into_a_command() -> None:
    paths = [f"{n}-{'x' * 1000}" for n in range(2000)]
    made = far_copy.batches(paths)
    assert [path for batch in made for path in batch] == paths
    assert all(sum(len(path) + 4 for path in batch) <= far_copy.NAMES for batch in made)


def test_a_file_that_becomes_a_folder_does_so_on_the_other_side(tmp_path: Path) -> None:
    async def test(two: Both) -> None:
        two.here.joinpath("file").write_text("f")
        two.here.joinpath("folder").mkdir()
        two.here.joinpath("folder/inside").write_text("i")
        for path in (two.here / "file", two.here / "folder/inside"):
            os.utime(path, (LONG_AGO, LONG_AGO))
        await two.sync.push()
        for side in (two.there, two.here):
            before, after = ("file", "folder") if side == two.there else ("folder", "file")
            side.joinpath(before).unlink()
            side.joinpath(before).mkdir()
            side.joinpath(before, "new").write_text(f"new in {side.name}")
            inside = next(side.joinpath(after).iterdir())
            inside.unlink()
            inside.parent.rmdir()
            inside.parent.write_text(f"no folder in {side.name}")
            await two.sync.round()
            assert tree(two.here) == tree(two.there) == tree(side)
            assert tree(side) == {
                before: "/",
                f"{before}/new": f"new in {side.name}",
                after: f"no folder in {side.name}",
            }

    both(tmp_path, test)


def test_a_folder_there_never_takes_the_place_of_a_file_changed_here(tmp_path: Path) -> None:
    async def test(two: Both) -> None:
        two.here.joinpath("a").write_text("before")
        await two.sync.push()
        two.here.joinpath("a").write_text("mine, changed")
        two.there.joinpath("a").unlink()
        two.there.joinpath("a").mkdir()
        two.there.joinpath("a/theirs").write_text("theirs")
        pulled, _ = await two.sync.round()
        assert "a: could not be written here: it is a folder there and a file here" in pulled.notes
        assert two.here.joinpath("a").read_text() == "mine, changed"
        assert two.there.joinpath("a/theirs").read_text() == "theirs"

    both(tmp_path, test)


def test_what_is_left_out_from_now_on_is_not_taken_for_removed(tmp_path: Path) -> None:
    async def test(two: Both) -> None:
        two.here.joinpath("data").mkdir()
        two.here.joinpath("data/precious").write_text("p")
        two.here.joinpath("x.log").write_text("l")
        await two.sync.push()
        two.sync.remember(tmp_path / "memory")  # and the agent is killed: the mark stays
        later = Sync(two.env, two.here, str(two.there), skip=("data", "*.log"))
        later.recall(tmp_path / "memory")
        two.here.joinpath("y.log").write_text("l")
        pulled, pushed = await later.round()
        assert (pulled.removed, pushed.removed, pushed.files) == (0, 0, 0)
        assert tree(two.here) == {"data": "/", "data/precious": "p", "x.log": "l", "y.log": "l"}

    both(tmp_path, test)
