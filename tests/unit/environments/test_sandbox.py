"""What a sandbox shows, what it lets be written, and what happens at its edges."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from melete.core.environment import Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import SandboxOptions
from melete.environments import enclosure, landlock
from melete.environments.limits import Disk, Group
from melete.environments.rules import Rules
from melete.environments.sandbox import Sandbox

pytestmark = pytest.mark.needs("bwrap")
PATH = "/usr/bin:/bin"
NEEDS_LANDLOCK = pytest.mark.skipif(
    landlock.abi() < landlock.NEEDED, reason="this kernel has no Landlock that would do"
)
SOON = 8.0


def home_of(folder: Path) -> Path:
    """A home with secrets, start files and a tool of its own."""
    home = folder / "someone"
    for name in (
        ".ssh/id",
        ".aws/credentials",
        ".bashrc",
        ".melete/.env",
        ".melete/skills/a",
        "work/file",
        ".config/gh/hosts",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"text of {name}")
    return home


def with_sandbox(
    cwd: Path, test: Callable[[Sandbox], Awaitable[None]], *, home: Path | None = None, path: str = PATH, **options: Any
) -> None:
    async def main() -> None:
        home_ = home or cwd.parent / "nobody"
        variables = {"PATH": path, "HOME": str(home_)}
        chosen = SandboxOptions(**{"network": "off", **options})
        env = Sandbox(Place(cwd=str(cwd), variables=variables, options=chosen, hidden=(str(home_ / ".melete"),)))
        try:
            async with asyncio.timeout(60):
                await test(env)
        finally:
            await env.aclose()

    asyncio.run(main())


async def said(env: Sandbox, command: str) -> str:
    return (await env.exec(["bash", "-c", command])).output.decode()


# ---- what is shown -----------------------------------------------------------------------------------------------------


def test_a_home_is_empty_but_for_the_working_folder_and_may_be_written_for_a_while(tmp_path: Path) -> None:
    home = home_of(tmp_path)

    async def test(env: Sandbox) -> None:
        assert (await said(env, "ls -A ~; cat ~/work/file; echo x > ~/.cache && echo written")).split("\n")[:2] == [
            "work",
            "text of work/filewritten",
        ]

    with_sandbox(home / "work", test, home=home)
    assert not (home / ".cache").exists()


def test_in_a_home_as_the_working_folder_secrets_are_hidden_and_what_runs_at_login_stays(tmp_path: Path) -> None:
    home = home_of(tmp_path)

    async def test(env: Sandbox) -> None:
        with pytest.raises(OSError, match=r"No such file|Permission"):
            await env.read("~/.ssh/id")  # while nothing runs inside yet
        assert (
            await said(env, "ls -A .ssh .aws .melete .config/gh 2>/dev/null | grep -v :; cat .bashrc")
            == "\n\n\ntext of .bashrc"
        )
        assert "Read-only" in await said(env, "echo x >> .bashrc; echo y > new; cat new")
        for path in (".ssh/id", ".melete/.env", ".aws/credentials"):
            with pytest.raises(OSError, match=r"No such file|Permission"):
                await env.read(path)

    with_sandbox(home, test, home=home)
    assert (home / "new").read_text() == "y\n"
    assert (home / ".bashrc").read_text() == "text of .bashrc"


def test_tools_of_the_path_are_shown_and_nothing_beside_them(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    for name in (
        ".local/bin/tool",
        ".local/share/pipx/x",
        ".local/share/keyrings/k",
        "venv/pyvenv.cfg",
        "venv/bin/own",
        "odd/t",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("#!/bin/sh\necho tool\n")
        (home / name).chmod(0o755)
    (home / "link").symlink_to(home / "odd")

    async def test(env: Sandbox) -> None:
        assert await said(env, "tool; own; ls ~/odd ~/link/; ls ~/.local/share ~/.local/share/keyrings 2>&1") == (
            f"tool\ntool\n{home}/link/:\nt\n\n{home}/odd:\nt\nls: cannot access '{home}/.local/share/keyrings': "
            f"No such file or directory\n{home}/.local/share:\npipx\n"
        )
        assert "Read-only" in await said(env, "echo x > ~/.local/bin/tool")

    entries = [f"{home}/.local/bin", f"{home}/venv/bin", f"{home}/link", str(home), "relative", "/nowhere", PATH]
    with_sandbox(home / "work", test, home=home, path=":".join(entries))


def test_settings_show_hide_and_open_folders(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    (home / "data").mkdir()
    (home / "work/private").mkdir()
    (home / "work/private/x").write_text("x")

    async def test(env: Sandbox) -> None:
        assert await said(env, "cat ~/.aws/credentials; echo n > ~/data/new; ls private") == "text of .aws/credentials"
        assert (await env.exec(["true"])).notes == ()

    with_sandbox(
        home / "work", test, home=home, show=("~/.aws", "~/nothing"), hide=("private", "/none"), write=("~/data",)
    )
    assert (home / "data/new").read_text() == "n\n"


def test_a_folder_that_cannot_be_opened_is_told_of_once(tmp_path: Path) -> None:
    async def test(env: Sandbox) -> None:
        notes = (await env.exec(["true"])).notes
        assert notes == (
            "sandbox.write: there is no folder /nowhere",
            "sandbox.write: /etc stays read-only: it belongs to the system",
        )
        assert (await env.exec(["true"])).notes == ()

    with_sandbox(tmp_path, test, write=("/nowhere", "/etc"))


def test_melete_own_folder_is_hidden_even_as_the_working_folder(tmp_path: Path) -> None:
    home = home_of(tmp_path)

    async def test(env: Sandbox) -> None:
        done = await env.exec(["bash", "-c", "ls -A; cat .env"])
        assert b"text" not in done.output
        assert "Melete's own" in done.notes[0]
        with pytest.raises(OSError, match="No such file"):
            await env.read(".env")

    with_sandbox(home / ".melete", test, home=home)


def test_a_folder_in_melete_own_can_be_worked_in_alone(tmp_path: Path) -> None:
    home = home_of(tmp_path)

    async def test(env: Sandbox) -> None:
        assert await said(env, "cat a; ls -A ..; echo b > b") == "text of .melete/skills/askills\n"

    with_sandbox(home / ".melete/skills", test, home=home)
    assert (home / ".melete/skills/b").exists()


@pytest.mark.parametrize("folder", ["/", "/etc", "/usr/bin", "/home", "/tmp"])
def test_folders_of_the_system_can_be_looked_at_only(folder: str) -> None:
    async def test(env: Sandbox) -> None:
        done = await env.exec(["bash", "-c", "pwd; touch new-by-melete"])
        assert done.output.startswith(folder.encode())
        assert f"the working folder {folder} can be read here but not written" in done.notes[0]

    with_sandbox(Path(folder), test, home=Path("/nonexistent"))
    assert not (Path(folder) / "new-by-melete").exists()


def test_a_working_folder_behind_a_link_is_worked_in_under_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    async def test(env: Sandbox) -> None:
        assert env.cwd == str(tmp_path / "real")
        assert await said(env, "pwd; touch made") == f"{tmp_path}/real\n"

    with_sandbox(tmp_path / "link", test)
    assert (tmp_path / "real/made").exists()


def test_a_link_among_the_secrets_hides_what_it_leads_to(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    (home / "elsewhere").mkdir()
    (home / ".gnupg").symlink_to(home / "elsewhere")
    (home / ".docker").symlink_to("/usr")
    rules = Rules(Place(variables={"HOME": str(home), "PATH": PATH}), SandboxOptions(), cwd=str(home), thorough=False)
    assert rules.access(str(home / "elsewhere/x")) == "hide"
    assert rules.access("/usr/bin") == "read"


def test_what_leads_to_services_is_not_told_to_commands(tmp_path: Path) -> None:
    async def main() -> None:
        given = {"PATH": PATH, "SSH_AUTH_SOCK": "/run/agent", "TMPDIR": "/var/folders/x", "KEPT": "yes"}
        env = Sandbox(Place(cwd=str(tmp_path), variables=given, options=SandboxOptions(network="off")))
        try:
            assert await said(env, "echo $SSH_AUTH_SOCK $TMPDIR $KEPT") == "/tmp yes\n"
        finally:
            await env.aclose()

    asyncio.run(main())


def test_it_tells_people_about_itself(tmp_path: Path) -> None:
    async def test(env: Sandbox) -> None:
        about = await env.about()
        assert str(tmp_path) in about["writable"]
        assert "/tmp" in about["private, and gone at the end"]
        assert about["network"] == ["off"]
        assert len(env.note) < 200 + len(env.cwd)

    with_sandbox(tmp_path, test)


# ---- edges -------------------------------------------------------------------------------------------------------------


def test_a_replaced_working_folder_gets_a_new_sandbox_and_a_removed_one_a_reason(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()

    async def test(env: Sandbox) -> None:
        await said(env, "touch old")
        folder.rename(tmp_path / "away")
        with pytest.raises(EnvironmentFailure, match="does not exist"):
            await env.exec(["true"])
        folder.mkdir()
        done = await env.exec(["bash", "-c", "ls; touch new"])
        assert (done.output, "was replaced" in done.notes[0]) == (b"", True)
        assert (folder / "new").exists()

    with_sandbox(folder, test)


def test_a_command_cannot_end_the_sandbox(tmp_path: Path) -> None:
    async def test(env: Sandbox) -> None:
        server = await env.start(["sleep", "300"])
        await said(env, "kill -9 1; kill -9 -1")
        assert await server.wait() == -9
        assert await said(env, "echo on") == "on\n"

    with_sandbox(tmp_path, test)


def test_what_ran_in_a_sandbox_that_was_killed_says_so_and_the_next_command_works(tmp_path: Path) -> None:
    async def test(env: Sandbox) -> None:
        first = (await env.inside()).ready.result()
        assert first
        task = asyncio.ensure_future(env.exec(["sleep", "300"]))
        await asyncio.sleep(0.1)
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(EnvironmentFailure, match="sandbox has ended"):
            await task
        assert await said(env, "echo on") == "on\n"

    with_sandbox(tmp_path, test)


def children() -> list[int]:
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in found if b"bwrap" in Path(f"/proc/{pid}/cmdline").read_bytes()]


AGENT = """
import asyncio, os, sys
from melete.core.environment import Place
from melete.core.places import SandboxOptions
from melete.environments.sandbox import Sandbox
async def main():
    options = SandboxOptions(network="off", walls=sys.argv[2])
    env = Sandbox(Place(cwd=sys.argv[1], variables={"PATH": os.environ["PATH"]}, options=options))
    await env.exec(["bash", "-c", "(setsid bash -c 'while :; do date +%N > ticks; sleep 0.02; done' >/dev/null 2>&1 &)"])
    await env.exec(["bash", "-c", "while [ ! -s ticks ]; do sleep 0.02; done"])
    print("up", flush=True)
    await env.exec(["sleep", "300"])
asyncio.run(main())
"""


@pytest.mark.parametrize("walls", ["bwrap", pytest.param("landlock", marks=NEEDS_LANDLOCK)])
def test_nothing_outlives_an_agent_that_was_killed(tmp_path: Path, walls: str) -> None:
    agent = subprocess.Popen([sys.executable, "-c", AGENT, str(tmp_path), walls], stdout=subprocess.PIPE)
    assert agent.stdout is not None
    assert agent.stdout.readline() == b"up\n"
    agent.kill()
    agent.wait()
    agent.stdout.close()
    until = time.monotonic() + SOON
    while ticks(tmp_path):
        assert time.monotonic() < until, "what it started goes on"


def ticks(folder: Path) -> bool:
    before = (folder / "ticks").read_text()
    time.sleep(0.2)
    return (folder / "ticks").read_text() != before


def test_a_command_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    async def test(env: Sandbox) -> None:
        with pytest.raises(EnvironmentFailure, match="null byte"):
            await env.exec(["echo", "a\0b"])
        with pytest.raises(EnvironmentFailure, match="Argument list too long"):
            await env.exec(["echo", "x" * 3_000_000])
        with pytest.raises(EnvironmentFailure, match="no-such-program could not be started: No such file"):
            await env.exec(["no-such-program"])
        with pytest.raises(ValueError, match="null byte"):
            await env.read("a\0b")
        assert await said(env, "echo on") == "on\n"

    with_sandbox(tmp_path, test)


def test_names_that_are_no_utf8_come_and_go(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()

    async def test(env: Sandbox) -> None:
        name = os.fsdecode(b"caf\xe9")
        await env.exec(["true"])
        (folder / name).write_text("x")
        assert [entry.name for entry in await env.list(".")] == [name]
        assert (await env.exec(["cat", name])).output == b"x"
        await env.rename(name, "plain")
        assert await env.read("plain") == b"x"

    with_sandbox(folder, test)


def test_hundreds_of_commands_leave_no_descriptor_here_or_inside(tmp_path: Path) -> None:
    async def test(env: Sandbox) -> None:
        count = "ls /proc/1/fd | wc -l"
        inside = await said(env, count)
        here = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(20):
            await asyncio.gather(*(env.exec(["true"], stdin=b"x") for _ in range(20)))
            await env.write("file", b"x")
            await env.read("file")
            process = await env.start(["cat"], pty=True)
            await process.kill()
        assert len(list(Path("/proc/self/fd").iterdir())) == here
        assert int(await said(env, count)) <= int(inside)

    with_sandbox(tmp_path, test)


def test_a_command_that_is_given_up_while_it_starts_does_not_run_on(tmp_path: Path) -> None:
    async def test(env: Sandbox) -> None:
        await env.exec(["true"])
        for turns in range(30):
            task = asyncio.ensure_future(env.exec(["sleep", "300.5"]))
            for _ in range(turns % 6):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        until = time.monotonic() + SOON
        while await said(env, "pgrep sleep"):
            assert time.monotonic() < until
        assert not list(tmp_path.glob(".*.new"))

    with_sandbox(tmp_path, test)


def test_a_start_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    async def test(env: Sandbox) -> None:
        for pause in (0, 0.001, 0.003, 0.01, 0.02, 0.04, 0.08):
            task = asyncio.ensure_future(env.exec(["true"]))
            await asyncio.sleep(pause)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await env._end()
            until = time.monotonic() + SOON
            while children():  # it ends with the one that was killed, a moment later
                assert time.monotonic() < until
                await asyncio.sleep(0.01)
        assert await said(env, "echo on") == "on\n"

    with_sandbox(tmp_path, test)
    until = time.monotonic() + SOON
    while left := list(Path("/sys/fs/cgroup").glob(f"**/melete-{os.getpid()}-*")):
        assert time.monotonic() < until, left
        time.sleep(0.05)  # the kernel takes its time to count a process out; the next start removes what was left
        if group := Group.made(8):
            asyncio.run(group.aclose())


def test_what_earlier_commands_left_makes_room_for_new_ones(tmp_path: Path) -> None:
    async def test(env: Sandbox) -> None:
        server = await env.start(["sleep", "300"])
        await said(env, "for i in $(seq 33); do (setsid sleep 300 >/dev/null 2>&1 &) ; done")
        done = await env.exec(["bash", "-c", "echo $(echo on | cat)"])
        assert (done.output, "too many processes" in done.notes[0]) == (b"on\n", True)
        assert server.pid in [int(pid) for pid in (await said(env, "pgrep sleep")).split()]

    with_sandbox(tmp_path, test, processes=40)


@NEEDS_LANDLOCK
def test_a_refusal_of_bubblewrap_leads_to_the_second_kind_of_walls_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin/bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    fake.chmod(0o755)
    (tmp_path / "work").mkdir()

    async def test(env: Sandbox) -> None:
        done = await env.exec(["bash", "-c", "echo on > f; cat f; touch /usr/x /etc/x"])
        assert done.output.startswith(b"on\n")
        assert "Landlock" in done.notes[0]
        assert "uid map" in done.notes[0]
        assert (await env.temp()) in await said(env, "echo $TMPDIR")

    async def refused(env: Sandbox) -> None:
        with pytest.raises(EnvironmentFailure, match="could not be started: bwrap: setting up uid map"):
            await env.exec(["true"])

    with_sandbox(tmp_path / "work", test, path=f"{tmp_path}/bin:{PATH}")
    with_sandbox(tmp_path / "work", refused, path=f"{tmp_path}/bin:{PATH}", walls="bwrap")


def test_without_bubblewrap_and_with_no_other_walls_allowed_there_is_no_sandbox(tmp_path: Path) -> None:
    options = SandboxOptions(walls="bwrap")
    with pytest.raises(EnvironmentFailure, match="bwrap"):
        Sandbox(Place(cwd=str(tmp_path), variables={"PATH": str(tmp_path)}, options=options))


@pytest.mark.needs("mount", "umount")
@pytest.mark.skipif(os.getuid() != 0, reason="only an administrator may make a small disk")
def test_a_command_that_fills_the_disk_is_ended_and_the_note_says_why(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(disk)], check=True)

    async def test(env: Sandbox) -> None:
        done = await env.exec(
            ["bash", "-c", "for i in $(seq 60); do dd if=/dev/zero bs=1M count=1 >> big 2>/dev/null; sleep 0.02; done"]
        )
        assert "MB left" in done.notes[0]
        assert (disk / "big").stat().st_size < 60 << 20
        assert await said(env, "rm big; echo gone") == "gone\n"

    try:
        with_sandbox(disk, test, keep_free_mb=40)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_is_fuller_than_the_limit_can_still_be_worked_on(tmp_path: Path) -> None:
    async def main() -> None:
        told: list[str] = []
        disk = Disk(str(tmp_path), 1 << 40, full=told.append, busy=lambda: True)
        disk.watch()
        await asyncio.sleep(0.6)
        disk.rest()
        assert told == []

    asyncio.run(main())


def test_a_folder_is_told_from_another_of_its_name(tmp_path: Path) -> None:
    assert enclosure.identity(str(tmp_path / "none")) is None
    assert enclosure.identity(str(tmp_path)) == enclosure.identity(f"{tmp_path}/.")
