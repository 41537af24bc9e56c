"""Checkpoints: a turn is taken back, a person's edits stay, and the person's own git is neither read nor touched."""

import asyncio
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from melete.core.environment import Checkpoint, Restored
from melete.core.errors import EnvironmentFailure
from melete.environments.checkpoints import GitCheckpoints, Keeping, program, store_of

pytestmark = pytest.mark.needs("git")
PATH = os.environ["PATH"]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def kept(
    work: Path, *, own: str = "", keeping: Keeping | None = None, now: Callable[[], float] | None = None
) -> GitCheckpoints:
    git = program(PATH, cwd=str(work))
    more = {"now": now} if now else {}
    return GitCheckpoints(
        str(work), store_of(work.parent / "state", str(work)), git=git, own=own, keeping=keeping, **more
    )


def turn(work: Path, name: str, change: Callable[[], object], *, noted: bool = True) -> Checkpoint | None:
    async def all_of_it() -> Checkpoint | None:
        checkpoints = kept(work)
        made = await checkpoints.before(name, session="s", label=f"do {name}")
        assert await checkpoints.before(name, session="s") is None
        change()
        if noted:
            await checkpoints.after(name)
        return made

    return asyncio.run(all_of_it())


def back(work: Path, number: int = 1, *, force: bool = False) -> Restored:
    async def all_of_it() -> Restored:
        checkpoints = kept(work)
        return await checkpoints.restore((await checkpoints.list(session="s"))[number - 1].id, force=force)

    return asyncio.run(all_of_it())


def files(work: Path) -> dict[str, str]:
    return {
        path.relative_to(work).as_posix(): str(path.readlink()) if path.is_symlink() else path.read_text()
        for path in sorted(work.rglob("*"))
        if (path.is_file() or path.is_symlink()) and ".git" not in path.parts
    }


def test_several_turns_are_taken_back_at_once_and_every_kind_of_change(work: Path) -> None:
    (work / "changed").write_bytes(b"a\r\n\xff")
    (work / "gone").write_text("g")
    (work / "private").write_text("p")
    (work / "private").chmod(0o600)
    (work / "link").symlink_to("changed")
    before = {path.name: path.read_bytes() for path in work.iterdir()}

    def first() -> None:
        (work / "changed").write_text("b")
        (work / "gone").unlink()
        (work / "private").write_text("q")

    def second() -> None:
        (work / "changed").write_text("c")
        (work / "link").unlink()
        (work / "deep/er").mkdir(parents=True)
        (work / "deep/er/new").write_text("n")

    turn(work, "one", first)
    turn(work, "two", second)
    done = back(work, 2)
    assert set(done.changed) == {"changed", "gone", "link", "private"}
    assert (done.removed, done.kept, done.failed) == (("deep/er/new",), (), ())
    assert {path.name: path.read_bytes() for path in work.iterdir()} == before
    assert (work / "link").is_symlink()
    assert stat.S_IMODE((work / "private").stat().st_mode) == 0o600
    back(work)  # the rollback itself
    assert (work / "changed").read_text() == "c"
    assert (work / "deep/er/new").read_text() == "n"


def test_what_the_person_changed_since_stays_and_is_named(work: Path) -> None:
    for name in ("ours", "theirs", "both", "between"):
        (work / name).write_text("0")
    turn(work, "one", lambda: [(work / name).write_text("1") for name in ("ours", "both", "between")])
    (work / "between").write_text("person")
    turn(work, "two", lambda: [(work / name).write_text("2") for name in ("ours", "between")])
    (work / "theirs").write_text("person")
    (work / "both").write_text("person")
    (work / "fresh").write_text("person")
    done = back(work, 2)
    assert (done.changed, done.kept) == (("ours",), ("between", "both"))
    assert files(work) == {"ours": "0", "theirs": "person", "both": "person", "between": "2", "fresh": "person"}
    assert back(work, 3, force=True).kept == ()
    assert files(work) == {"ours": "0", "theirs": "person", "both": "0", "between": "0", "fresh": "person"}


def test_what_the_person_changed_between_two_calls_of_a_turn_stays(work: Path) -> None:
    for name in ("a", "b", "mine", "both"):
        (work / name).write_text("0")

    async def all_of_it(checkpoints: GitCheckpoints) -> None:
        for name in ("a", "b"):
            again = kept(work) if name == "b" else checkpoints  # the turn goes on in another process
            for one in (checkpoints, again):
                await one.before("one", session="s")
                (work / name).write_text("1")
                (work / "both").write_text("1")
                await one.after("one")
            for other in ("mine", "both"):
                (work / other).write_text("person")
        assert len(await checkpoints.list()) == 1

    asyncio.run(all_of_it(kept(work)))
    done = back(work)
    assert (done.changed, done.kept) == (("a", "b"), ("both",))
    assert files(work) == {"a": "0", "b": "0", "mine": "person", "both": "person"}


def test_a_turn_is_kept_whole_however_often_somebody_else_writes_between(work: Path) -> None:
    (work / "a").write_text("good")

    async def all_of_it() -> list[str]:
        for name in ("zero", "one", "two"):
            checkpoints = kept(work, keeping=Keeping(most=2))
            for number in range(5):
                await checkpoints.before(name, session="s")
                (work / "a").write_text(f"{name} {number}")
                await checkpoints.after(name)
                (work / "log").write_text(f"{name} {number}")
        return [one.turn for one in await checkpoints.list()]

    assert asyncio.run(all_of_it()) == ["two", "one"]
    back(work)
    assert files(work) == {"a": "one 4", "log": "two 4"}


@pytest.mark.parametrize("force", [False, True])
def test_what_no_checkpoint_holds_is_neither_removed_nor_written(work: Path, *, force: bool) -> None:
    for folder in ("data", "nested", "own", "mixed/deep", "became"):
        (work / folder).mkdir(parents=True)
    for repository in ("nested", "mixed/deep"):
        subprocess.run(["git", "init", "-q", str(work / repository)], check=True)
    for name in ("secret.env", "data/d.csv", "nested/n", "mixed/deep/n", "own/o", "grows", "swapped", "plain"):
        (work / name).write_text("0")
    (work / ".gitignore").write_text("*.env\n*.csv\n")
    (work / "big").write_bytes(b"0" * (11 << 20))

    def change() -> None:
        (work / ".gitignore").write_text("swapped\n")
        (work / "swapped").unlink()
        (work / "swapped").write_text("1")  # ignored now, and still part of the checkpoint
        shutil.rmtree(work / "nested/.git")
        shutil.rmtree(work / "mixed/deep/.git")
        subprocess.run(["git", "init", "-q", str(work / "own")], check=True)
        (work / "own/o").write_text("1")
        (work / "big").write_text("1")
        (work / "grows").write_bytes(b"1" * (11 << 20))
        (work / "plain").write_text("1")
        (work / "data/new").write_text("1")

    turn(work, "one", change)
    done = back(work, force=force)
    assert set(done.untold) == {"secret.env", "data/d.csv", "nested/n", "mixed/deep/n", "grows", "big"}
    assert (set(done.changed), done.removed) == ({".gitignore", "plain", "own/o", "swapped"}, ("data/new",))
    assert {name: text[:1] for name, text in files(work).items() if name != ".gitignore"} == {
        "secret.env": "0", "data/d.csv": "0", "nested/n": "0", "mixed/deep/n": "0", "own/o": "0", "big": "1", "grows": "1",
        "swapped": "0", "plain": "0",
    }  # fmt: skip


def test_what_another_session_wrote_meanwhile_is_its_own(work: Path) -> None:
    async def all_of_it() -> Restored:
        ours, theirs = kept(work), kept(work)
        await ours.before("one", session="s")
        (work / "ours").write_text("1")
        for number in range(2):
            await theirs.before("two", session="t")
            (work / f"theirs{number}").write_text("1")
            await theirs.after("two")
            if not number:
                await ours.after("one")
        return await ours.restore((await ours.list(session="s"))[0].id)

    done = asyncio.run(all_of_it())
    assert (done.removed, done.kept) == (("ours",), ("theirs0",))
    assert set(files(work)) == {"theirs0", "theirs1"}


def test_the_persons_own_git_is_not_touched_and_runs_nothing(work: Path) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=b"]
        return subprocess.run(["git", *who, *words], cwd=work, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    ran = work.parent / "ran"
    program_text = f"#!/bin/sh\ntouch {ran}\ncat\n"
    script = work.parent / "script"
    script.write_text(program_text)
    script.chmod(0o755)
    (work / "a").write_text("1\r\n")
    (work / ".gitignore").write_text("ignored\n")
    (work / "ignored").write_text("i")
    git("add", "-A")
    git("commit", "-qm", "first")
    (work / ".gitattributes").write_text("* text=auto eol=lf filter=evil diff=evil ident\n")
    for key in (
        "core.fsmonitor",
        "core.hooksPath",
        "filter.evil.clean",
        "filter.evil.smudge",
        "diff.evil.textconv",
        "diff.external",
    ):
        git("config", key, str(script))
    for hook in ("pre-commit", "post-checkout", "post-index-change", "reference-transaction"):
        (work / ".git/hooks" / hook).write_text(program_text)
        (work / ".git/hooks" / hook).chmod(0o755)
    state = {path: path.read_bytes() for path in (work / ".git").rglob("*") if path.is_file()}
    turn(work, "one", lambda: [(work / name).write_text("2") for name in ("a", "ignored")])
    asyncio.run(kept(work).diff(asyncio.run(kept(work).list())[0].id))
    assert back(work).changed == ("a",)
    assert (work / "a").read_bytes() == b"1\r\n"
    assert (work / "ignored").read_text() == "2"
    assert {path: path.read_bytes() for path in (work / ".git").rglob("*") if path.is_file()} == state
    assert not ran.exists()


def test_a_folder_that_became_a_link_leads_nowhere(work: Path) -> None:
    outside = work.parent / "outside"
    outside.mkdir()
    (outside / "a").write_text("safe")
    (outside / "new").write_text("safe")
    (work / "d").mkdir()
    (work / "d/a").write_text("0")

    def change() -> None:
        (work / "d/a").write_text("1")
        (work / "d/new").write_text("1")

    turn(work, "one", change)
    for path in (work / "d").iterdir():
        path.unlink()
    (work / "d").rmdir()
    (work / "d").symlink_to(outside)
    back(work, force=True)
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"a": "safe", "new": "safe"}


def test_what_is_too_big_or_no_file_is_left_out(work: Path) -> None:
    with (work / "big").open("wb") as file:
        file.truncate(11 << 20)
    os.mkfifo(work / "fifo")
    (work / "node_modules").mkdir()
    (work / "node_modules/x").write_text("x")
    (work / "repo/.git").mkdir(parents=True)
    (work / "odd\nname\udcff").write_text("o")
    made = turn(work, "one", lambda: (work / "odd\nname\udcff").write_text("p"))
    assert made is not None
    assert made.left_out == 1
    assert back(work).changed == ("odd\nname\udcff",)
    assert (work / "odd\nname\udcff").read_text() == "o"


def test_melete_s_own_home_inside_the_folder_is_left_alone(work: Path) -> None:
    own = work / "[home]"

    def checkpoints() -> GitCheckpoints:
        return GitCheckpoints(
            str(work), store_of(own / "state", str(work)), git=program(PATH, cwd=str(work)), own=str(own)
        )

    async def all_of_it() -> Restored:
        await checkpoints().before("one", session="s")
        made = checkpoints()
        await made.before("two", session="s")
        (own / "config.yaml").write_text("mine")
        (work / ".gitignore").write_text("!*\n")
        await made.after("two")
        return await checkpoints().restore((await made.list())[0].id)

    assert asyncio.run(all_of_it()).removed == (".gitignore",)
    assert (own / "config.yaml").read_text() == "mine"


def test_old_ones_go(work: Path) -> None:
    time = [1_000_000.0]

    async def all_of_it() -> list[str]:
        checkpoints = kept(work, keeping=Keeping(most=3, days=7), now=lambda: time[0])
        for number in range(12):
            (work / "a").write_text(str(number))
            time[0] += 3 * 86_400 if number == 11 else 1
            await checkpoints.before(f"t{number}", session="s")
        most = [one.turn for one in await checkpoints.list()]
        time[0] += 8 * 86_400
        await checkpoints.before("last", session="s")
        return [*most, *[one.turn for one in await checkpoints.list()]]

    assert asyncio.run(all_of_it()) == ["t11", "t10", "t9", "last"]


def test_without_git_and_in_a_home_it_says_so(work: Path, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="need git"):
        asyncio.run(GitCheckpoints(str(work), tmp_path / "s", git="").before("one", session="s"))
    with pytest.raises(EnvironmentFailure, match="too much"):
        asyncio.run(GitCheckpoints("/tmp", tmp_path / "s", git="/usr/bin/git").before("one", session="s"))
    (work / "git").write_text("#!/bin/sh\n")
    (work / "git").chmod(0o755)
    assert not program(str(work), cwd=str(work))


def test_many_processes_share_one_store(work: Path) -> None:
    async def all_of_it() -> int:
        several = [kept(work) for _ in range(4)]
        for number in range(3):
            (work / "a").write_text(str(number))
            await asyncio.gather(*(one.before(f"{n}-{number}", session="s") for n, one in enumerate(several)))
        return len(await several[0].list())

    assert asyncio.run(all_of_it()) == 12
