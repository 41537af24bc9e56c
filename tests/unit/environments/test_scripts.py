"""Files and process trees through scripts alone, with the shells and tools of the common systems."""

import asyncio
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.core.environment import Completed, Environment, Place, RunningProcess
from melete.core.errors import EnvironmentFailure
from melete.environments.errands import Errands
from melete.environments.local import LocalEnvironment
from melete.environments.scripts import (
    FILE_STEPS,
    Greeting,
    ScriptedFiles,
    escaped,
    greeting,
    kill_script,
    order,
    waiting,
    wrapped,
)
from tests.unit.environments.test_local_exec import alive

BINARIES = "/usr/bin:/bin"
APPLETS = (
    "cat", "chmod", "chown", "dd", "find", "head", "kill", "mkdir", "mktemp", "mv", "printf", "readlink", "rm", "rmdir",
    "setsid", "sh", "sleep", "stat", "true",
)  # fmt: skip


class Elsewhere(ScriptedFiles, LocalEnvironment):
    """This machine, as one that has nothing but `shell` and what is in `path`."""

    def __init__(self, cwd: Path, *, shell: Sequence[str], path: str, errands: bool) -> None:
        super().__init__(Place(cwd=str(cwd), variables={"PATH": path}))
        self.home = str(cwd / "home")
        self.shell = shell
        self.errands = Errands(self._start_here, FILE_STEPS) if errands else None

    async def _start_here(self, argv: Sequence[str]) -> RunningProcess:
        return await self.start([*self.shell, *argv[1:]])

    async def exec(
        self, argv: Sequence[str], *, stdin: bytes = b"", cwd: str = "", timeout: float = 180.0, limit: int = 1_000_000
    ) -> Completed:
        here = [*self.shell, *argv[1:]] if argv[0] == "sh" else argv
        return await super().exec(here, stdin=stdin, cwd=cwd, timeout=timeout, limit=limit)

    async def aclose(self) -> None:
        if self.errands:
            await self.errands.aclose()
        self.closed = False
        await self.remove_temp()
        await super().aclose()


@pytest.fixture(params=[False, True], ids=["each-alone", "by-one-that-stays"])
def errands(request: pytest.FixtureRequest) -> bool:
    """Whether file steps are done by a shell that stays."""
    return request.param


@pytest.fixture(params=["sh", "bash", "busybox"])
def there(request: pytest.FixtureRequest, tmp_path: Path, errands: bool) -> Iterator[Callable[[], Elsewhere]]:
    """Makes an environment whose every step is a script."""
    folder = tmp_path / "work"
    folder.mkdir()
    if request.param != "busybox":
        yield lambda: Elsewhere(folder, shell=[request.param], path=BINARIES, errands=errands)
        return
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("needs busybox")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in APPLETS:
        (tools / name).symlink_to(busybox)
    yield lambda: Elsewhere(folder, shell=[str(tools / "sh")], path=str(tools), errands=errands)


def run(env: Elsewhere, test: Callable[[Elsewhere, Path], Awaitable[None]]) -> None:
    async def main() -> None:
        try:
            async with asyncio.timeout(60):
                await test(env, Path(env.cwd))
        finally:
            await env.aclose()

    asyncio.run(main())


def test_it_is_an_environment(there: Callable[[], Elsewhere]) -> None:
    checked: Environment = there()
    assert checked.name


def test_bytes_written_are_bytes_read(there: Callable[[], Elsewhere]) -> None:
    async def test(env: Elsewhere, folder: Path) -> None:
        for data in (b"", b"text\n", bytes(range(256)) * 300, os.urandom(20_000_000)):
            await env.write("deep/er/file", data)
            assert await env.read("deep/er/file") == data
            assert await env.read("deep/er/file", offset=2, limit=3) == data[2:5]
            assert await env.read("deep/er/file", offset=65_537, limit=70_000) == data[65_537:135_537]
            assert await env.read("deep/er/file", offset=len(data) + 5) == b""
        assert [(entry.name, entry.size) for entry in await env.list("deep/er")] == [("file", 20_000_000)]

    run(there(), test)


def test_a_replaced_file_keeps_its_mode_and_links_are_followed(there: Callable[[], Elsewhere]) -> None:
    async def test(env: Elsewhere, folder: Path) -> None:
        (folder / "real").write_text("old")
        (folder / "real").chmod(0o751)
        (folder / "link").symlink_to("real")
        (folder / "loose").symlink_to("fresh")
        await env.write("link", b"new")
        await env.write("loose", b"made")
        await env.write("plain", b"")
        assert (folder / "link").is_symlink()
        assert (folder / "real").read_text() == "new"
        assert (folder / "fresh").read_text() == "made"
        umask = os.umask(0)
        os.umask(umask)
        assert [stat.S_IMODE((folder / name).stat().st_mode) for name in ("real", "plain")] == [0o751, 0o666 & ~umask]
        assert sorted(path.name for path in folder.iterdir()) == ["fresh", "link", "loose", "plain", "real"]

    run(there(), test)


def test_what_goes_wrong_is_an_error_of_its_kind(there: Callable[[], Elsewhere]) -> None:
    async def test(env: Elsewhere, folder: Path) -> None:
        os.mkfifo(folder / "fifo")
        (folder / "file").write_text("x")
        (folder / "loop").symlink_to("loop")
        (folder / "sub").mkdir()
        (folder / "sub" / "full").write_text("x")
        for path in ("fifo", "/dev/zero"):
            for step in (env.read(path), env.write(path, b"x")):
                with pytest.raises(OSError, match="not a regular file"):
                    await step
        for step in (
            env.read("."),
            env.write(".", b"x"),
            env.write("new/", b"x"),
            env.remove("sub"),
            env.rename("file", "sub"),
        ):
            with pytest.raises(IsADirectoryError):
                await step
        for step in (env.read("missing"), env.list("missing"), env.remove("missing"), env.rename("missing", "b")):
            with pytest.raises(FileNotFoundError, match="missing"):
                await step
        for step in (env.write("file/a", b"x"), env.list("file"), env.rename("sub", "file"), env.read("file/x")):
            with pytest.raises(NotADirectoryError):
                await step
        for step in (env.read("loop"), env.stat("loop"), env.write("loop", b"x")):
            with pytest.raises(OSError, match="levels of symbolic links"):
                await step
        with pytest.raises(OSError, match="name too long"):
            await env.write("n" * 300, b"x")
        for step in (env.read("a\0b"), env.stat("a\0b"), env.write("a\0b", b"")):
            with pytest.raises(ValueError, match="null byte"):
                await step
        assert sorted(path.name for path in folder.iterdir()) == ["fifo", "file", "loop", "sub"]

    run(there(), test)


def test_a_full_disk_is_said_and_leaves_the_old_file(there: Callable[[], Elsewhere], tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if os.getuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", small], check=False).returncode:
        pytest.skip("needs a small file system")

    async def test(env: Elsewhere, folder: Path) -> None:
        await env.write(f"{small}/file", b"old")
        with pytest.raises(OSError, match="No space left on device"):
            await env.write(f"{small}/file", b"x" * 3_000_000)
        assert [path.read_text() for path in small.iterdir()] == ["old"]

    try:
        run(there(), test)
    finally:
        subprocess.run(["umount", small], check=True)


def test_stat_follows_links_and_knows_nothing_of_what_is_not_there(there: Callable[[], Elsewhere]) -> None:
    async def test(env: Elsewhere, folder: Path) -> None:
        (folder / "file").write_text("12345")
        os.utime(folder / "file", (1_700_000_000.25, 1_700_000_000.25))
        (folder / "link").symlink_to("file")
        (folder / "loose").symlink_to("nowhere")
        found = await env.stat("link")
        assert found is not None
        assert (found.kind, found.size, int(found.mtime)) == ("file", 5, 1_700_000_000)
        kinds = [
            found and found.kind for found in [await env.stat(path) for path in (".", "/dev/null", "loose", "file/x")]
        ]
        assert kinds == ["folder", "other", None, None]

    run(there(), test)


def test_a_folder_with_every_kind_of_name_is_told_in_order(there: Callable[[], Elsewhere]) -> None:
    names = ["-n", " lead", "new\nline", "tail\n", "trap\n81a4 5 .", "back\\slash", "*", "é", "日本", ".hidden", "..x", "'q'\"",
             os.fsdecode(b"caf\xe9"), "$HOME", "%s", "a:b"]  # fmt: skip

    async def test(env: Elsewhere, folder: Path) -> None:
        for name in names:
            await env.write(name, name.encode("utf-8", "surrogateescape"))
        (folder / "sub").mkdir()
        (folder / "to").symlink_to("sub")
        os.mkfifo(folder / "fifo")
        found = await env.list(".")
        assert [entry.name for entry in found] == sorted([*names, "fifo", "sub", "to"])
        assert {entry.name: entry.kind for entry in found if entry.kind != "file"} == {
            "fifo": "other", "sub": "folder", "to": "link",
        }  # fmt: skip
        for name in names:
            assert await env.read(name) == os.fsencode(name)
            await env.rename(name, f"moved/{name}")
            await env.remove(f"moved/{name}")
        assert list(await env.list("moved")) == []

    run(there(), test)


def test_moving_replaces_a_file_a_link_and_an_empty_folder(there: Callable[[], Elsewhere]) -> None:
    async def test(env: Elsewhere, folder: Path) -> None:
        for name in ("a", "b", "c"):
            (folder / name).write_text(name)
        (folder / "empty").mkdir()
        (folder / "sub").mkdir()
        (folder / "sub" / "x").write_text("x")
        (folder / "to").symlink_to("sub")
        await env.rename("a", "b")
        await env.rename("b", "to")
        assert ((folder / "to").read_text(), (folder / "to").is_symlink()) == ("a", False)
        await env.rename("sub", "empty")
        assert (folder / "empty" / "x").read_text() == "x"
        await env.rename("c", "c")
        await env.write("~/note", b"home")
        assert (folder / "home" / "note").read_text() == "home"

    run(there(), test)


def test_the_temporary_folder_is_private_and_goes_with_the_environment(there: Callable[[], Elsewhere]) -> None:
    made: list[Path] = []

    async def test(env: Elsewhere, folder: Path) -> None:
        made.append(Path(await env.temp()))
        assert await env.temp() == str(made[0])
        assert stat.S_IMODE(made[0].stat().st_mode) == 0o700
        (made[0] / "file").write_text("x")

    run(there(), test)
    assert not made[0].exists()


def test_a_wrapped_program_says_where_it_runs_or_why_not(there: Callable[[], Elsewhere]) -> None:
    async def begin(env: Elsewhere, argv: list[str], cwd: str) -> tuple[Greeting, bytes, int | None]:
        done = await env.exec(wrapped(argv, cwd=cwd, id="x1"))
        first, _, rest = done.output.partition(b"\n")
        return greeting(first, id="x1", argv=argv, cwd=cwd), rest, done.code

    async def test(env: Elsewhere, folder: Path) -> None:
        (folder / "dir").mkdir()
        (folder / "plain").write_text("text")
        for argv in (
            ["sh", "-c", 'pwd; echo "$0" "$1" >&2; exit 7', "a b", "'c\nd'"],
            [shutil.which("sh") or "", "-c", "pwd"],
        ):
            who, rest, code = await begin(env, argv, str(folder / "dir"))
            assert who.pid > 1
            assert who.birth.isdigit()
            assert rest.startswith(f"{folder}/dir\n".encode())
            assert (rest.endswith(b"a b 'c\nd'\n"), code) in {(True, 7), (False, 0)}
        for argv, cwd, why in (
            (["true"], "/nowhere", "working folder /nowhere does not exist"),
            (["no-such-program"], "/", "no-such-program could not be started: No such file"),
            (["./plain"], str(folder), "Permission denied"),
            (["./dir"], str(folder), "Permission denied"),
            (["./none"], str(folder), "No such file"),
            ([], "/", "an empty command"),
            ([""], "/", "could not be started"),
            (["cd"], "/", "cd could not be started"),
        ):  # fmt: skip
            with pytest.raises(EnvironmentFailure, match=why):
                await begin(env, argv, cwd)
        with pytest.raises(ValueError, match="null"):
            wrapped(["a\0"], cwd="/", id="x")

    run(there(), test)


def test_a_shell_that_waits_becomes_the_program_it_is_told(there: Callable[[], Elsewhere]) -> None:
    async def test(env: Elsewhere, folder: Path) -> None:
        argv = [
            "printf",
            "[%s]",
            "",
            "a b",
            "'",
            '"',
            "$x `y` \\",
            "two\n\nlines\n",
            "é*",
            os.fsdecode(b"\xff"),
            "!#;&|",
        ]
        done = await env.exec(waiting("w1"), stdin=order(argv, cwd=str(folder), id="w2"))
        first, second, said = done.output.split(b"\n", 2)
        assert greeting(first, id="w1", argv=[], cwd="") == greeting(second, id="w2", argv=[], cwd="")
        assert said == b"".join(b"[%b]" % os.fsencode(word) for word in argv[2:])
        done = await env.exec(waiting("w1"), stdin=order(["cat"], cwd=str(folder), id="w2") + b"\0rest\n'" * 9)
        assert done.output.endswith(b"\n" + b"\0rest\n'" * 9)
        assert (await env.exec(waiting("w1"))).code == 0
        done = await env.exec(waiting("w1"), stdin=order(["true"], cwd="/nowhere", id="w2"))
        with pytest.raises(EnvironmentFailure, match="/nowhere does not exist"):
            greeting(done.output.splitlines()[1], id="w2", argv=["true"], cwd="/nowhere")

    run(there(), test)


def test_what_no_system_takes_is_refused_before_it_is_sent() -> None:
    for argv in (["echo", "x" * 140_000], ["echo", *["word"] * 250_000]):
        for make in (wrapped, order):
            with pytest.raises(EnvironmentFailure, match="longer than the system takes"):
                make(argv, cwd="/", id="x")


@pytest.mark.parametrize("command", [
    "trap '' TERM; sleep 300 & echo $! >> pids; echo $$ >> pids; echo on; wait; sleep 300",
    "setsid sh -c 'echo $$ >> pids; sleep 300 & echo $! >> pids; echo on; wait' & sleep 300",
    "echo $$ >> pids; (sleep 300 & echo $! >> pids) & echo on; kill -STOP $$",
])  # fmt: skip
def test_the_whole_tree_of_a_wrapped_program_ends(there: Callable[[], Elsewhere], command: str) -> None:
    async def test(env: Elsewhere, folder: Path) -> None:
        shell = env.shell[0]
        process = await env.start([shell, *wrapped(["sh", "-c", command], cwd=str(folder), id="x2")[1:]])
        said = b""
        while b"on\n" not in said:
            said += await process.read()
        who = greeting(said.partition(b"\n")[0], id="x2", argv=["sh"], cwd="")
        pids = [int(pid) for pid in (folder / "pids").read_text().split()]
        assert all(alive(pid) for pid in pids)
        done = await env.exec(kill_script(who, grace=0.2))
        assert (done.code, done.output) == (0, b"")
        until = time.monotonic() + 5
        while any(alive(pid) for pid in pids) and time.monotonic() < until:  # noqa: ASYNC110 - killed is not yet gone
            await asyncio.sleep(0.01)
        assert not [pid for pid in pids if alive(pid)]
        await process.kill()
        assert (await env.exec(kill_script(who, grace=0.2))).code == 0

    run(there(), test)


def test_a_number_that_was_given_anew_is_left_alone(there: Callable[[], Elsewhere]) -> None:
    async def test(env: Elsewhere, folder: Path) -> None:
        process = await env.start(["sleep", "300"])
        await env.exec(kill_script(Greeting(pid=process.pid, birth="1"), grace=0.1))
        assert alive(process.pid)
        await process.kill()

    run(there(), test)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30))
def test_any_text_survives_the_way_there(text: str) -> None:
    sent = escaped(text)
    assert sent.isascii()
    assert "'" not in sent
    got = subprocess.run(["printf", "%b", sent], stdout=subprocess.PIPE, check=True).stdout if sent else b""
    assert os.fsdecode(got) == text
