"""Commands on another machine: a real server on loopback, told apart by its keys, broken in every way that a network breaks."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from melete.core.environment import Environment, Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import SshOptions
from melete.environments import keeper, tree
from melete.environments.ssh import Ssh, open_ssh
from melete.environments.synced import Synced
from tests.sshd_server import HOST, Sshd, running

pytestmark = pytest.mark.needs("ssh", "sshd")

VARIABLES = {"PATH": os.environ["PATH"], "WORD": "one 'two'", "SECRET": "never"}
SOON = 20.0


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    with running(tmp_path / "sshd") as server:
        yield server


@asynccontextmanager
async def opened(options: SshOptions, cwd: str = "") -> AsyncIterator[Environment]:
    env = open_ssh(Place(cwd=cwd, variables=VARIABLES, options=options, key="some-session"))
    try:
        async with asyncio.timeout(120):
            yield env
    finally:
        await env.aclose()


def with_env(options: SshOptions, test: Callable[[Environment], Awaitable[None]], cwd: str = "") -> None:
    async def main() -> None:
        async with opened(options, cwd) as env:
            await test(env)

    asyncio.run(main())


def failure_of(options: SshOptions) -> EnvironmentFailure:
    async def main() -> EnvironmentFailure:
        async with opened(options) as env:
            with pytest.raises(EnvironmentFailure) as failure:
                await env.exec(["true"])
            return failure.value

    return asyncio.run(main())


def processes(word: str) -> list[int]:
    found: list[int] = []
    for pid in tree.pids():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in line.split(b"\0") and tree.fields(pid):
            found.append(pid)
    return found


async def gone(word: str) -> None:
    until = time.monotonic() + SOON
    while processes(word):
        assert time.monotonic() < until, f"{word} still runs"
        await asyncio.sleep(0.05)


# ---- who is at the other end -------------------------------------------------------------------------------------------


def test_a_machine_that_is_not_known_is_refused_with_what_to_run(sshd: Sshd, tmp_path: Path) -> None:
    empty = tmp_path / "nobody-known"
    failure = failure_of(sshd.options(known_hosts=str(empty)))
    assert "is not known" in failure.what
    assert f"-p {sshd.port}" in failure.next
    assert not empty.exists()


def test_a_machine_with_another_key_than_before_is_refused(sshd: Sshd) -> None:
    known = sshd.folder / "known"
    text = f"[{HOST}]:{sshd.port} {(sshd.folder / 'stranger.pub').read_text()}"
    known.write_text(text)
    failure = failure_of(sshd.options())
    assert "is not the one that is known" in failure.what
    assert f"ssh-keygen -R '[{HOST}]:{sshd.port}' -f {known}" in failure.next
    assert known.read_text() == text


def test_programs_in_the_working_folder_are_not_used(sshd: Sshd, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    for name in ("ssh", "helper"):
        (folder / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/escaped\n")
        (folder / name).chmod(0o755)
    (sshd.folder / "config").write_text(f"Host *\n  ProxyCommand helper %h {sshd.port}\n")

    async def main() -> None:
        variables = {"PATH": f"{folder}:.:{os.environ['PATH']}"}
        env = Ssh(Place(cwd=str(folder), variables=variables, options=sshd.options()))
        with pytest.raises(EnvironmentFailure):
            await env.exec(["true"])
        await env.aclose()

    asyncio.run(main())
    assert not (tmp_path / "escaped").exists()


def test_a_config_that_would_accept_any_machine_has_no_say(sshd: Sshd) -> None:
    (sshd.folder / "known").write_text("")
    (sshd.folder / "config").write_text("Host *\n  StrictHostKeyChecking no\n  ForwardAgent yes\n  RequestTTY force\n")
    assert "is not known" in failure_of(sshd.options()).what


def test_a_login_that_is_refused_never_asks_for_a_password(sshd: Sshd) -> None:
    failure = failure_of(sshd.options(key=str(sshd.folder / "stranger")))
    assert "refuses the login" in failure.what
    assert "ssh.key" in failure.next


def test_a_key_that_others_can_read_is_told(sshd: Sshd) -> None:
    (sshd.folder / "user").chmod(0o644)
    assert "others can read" in failure_of(sshd.options()).what


def test_a_machine_that_does_not_exist_or_does_not_listen_is_told(sshd: Sshd) -> None:
    assert "was found" in failure_of(sshd.options(host="no-such-machine.invalid")).what
    sshd.stop()
    failure = failure_of(sshd.options())
    assert "nothing listens for ssh" in failure.what
    assert failure.next


def test_settings_that_ssh_would_take_for_options_are_refused(sshd: Sshd) -> None:
    for wrong in ({"host": "-oProxyCommand=evil"}, {"host": ""}, {"user": "-x"}, {"host": "a b"}):
        with pytest.raises(EnvironmentFailure) as failure:
            Ssh(Place(variables=VARIABLES, options=sshd.options(**wrong)))
        assert failure.value.next
    with pytest.raises(EnvironmentFailure, match="not installed"):
        Ssh(Place(variables={"PATH": "/nowhere"}, options=sshd.options()))


def test_names_and_jump_hosts_of_the_ssh_config_work(sshd: Sshd) -> None:
    (sshd.folder / "config").write_text(
        f"Host *\n  User {sshd.user}\n  IdentityFile {sshd.folder}/user\n  UserKnownHostsFile {sshd.folder}/known\n"
        f"Host jump\n  HostName {HOST}\n  Port {sshd.port}\n"
        f"Host far\n  HostName {HOST}\n  Port {sshd.port}\n"
        f"  ProxyCommand ssh -F {sshd.folder}/config -W %h:%p jump\n"
        "  ControlMaster yes\n  ControlPath /nowhere/%C\n  RequestTTY force\n  RemoteCommand evil\n  LocalForward 1 a:1\n"
    )

    async def test(env: Environment) -> None:
        assert (await env.exec(["echo", "through"])).output == b"through\n"

    with_env(SshOptions(host="far", config=str(sshd.folder / "config")), test)


# ---- commands ----------------------------------------------------------------------------------------------------------


def test_commands_see_their_own_machine_and_what_is_declared(sshd: Sshd) -> None:
    (sshd.home / ".bashrc").write_text("echo some noise; echo more >&2; printf unfinished; export FROM_THERE=yes")

    async def test(env: Environment) -> None:
        done = await env.exec(["bash", "-c", 'echo "$WORD|$SECRET|$FROM_THERE|$SSH_AUTH_SOCK|$PWD"'])
        assert done.output.decode().splitlines()[-1] == f"one 'two'||yes||{sshd.home}"
        assert env.cwd == str(sshd.home)
        assert await env.stat("~/.bashrc") is not None

    with_env(sshd.options(variables=("WORD", "NOT_THERE")), test)


def test_a_status_of_255_is_the_commands_own(sshd: Sshd) -> None:
    async def test(env: Environment) -> None:
        done = await env.exec(["sh", "-c", "echo said; exit 255"])
        assert (done.code, done.output) == (255, b"said\n")

    with_env(sshd.options(), test)


def test_a_missing_folder_and_a_command_that_is_too_long_are_told(sshd: Sshd) -> None:
    async def test(env: Environment) -> None:
        with pytest.raises(EnvironmentFailure, match="too long for ssh"):
            await env.exec(["echo", "!" * 30_000])
        with pytest.raises(EnvironmentFailure, match="/not/there does not exist"):
            await env.exec(["true"])

    with_env(sshd.options(cwd="/not/there"), test)


SHELLS = ["/bin/sh", "/bin/bash", "/bin/zsh", "/usr/bin/fish", "/bin/tcsh", "/usr/bin/busybox sh"]


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if Path(shell.split()[0]).exists()])
def test_any_login_shell_will_do(sshd: Sshd, shell: str) -> None:
    sshd.stop()
    sshd.more = [f'ForceCommand=exec {shell} -c "$SSH_ORIGINAL_COMMAND"']
    sshd.start()

    async def test(env: Environment) -> None:
        done = await env.exec(["printf", "%s|", "a'b", 'c"d', "e\\\\f", "!g", "$h", "ü\ni", "\t"])
        assert done.output.decode() == "a'b|c\"d|e\\\\f|!g|$h|ü\ni|\t|"
        assert (await env.exec(["sh", "-c", "exit 9"])).code == 9
        assert (await env.exec(["cat"], stdin=b"in")).output == b"in"
        assert (await env.exec(["sleep", "4303"], timeout=0.3)).timed_out
        await gone("4303")
        await env.write("ü '\"\\ file", b"there")
        assert [entry.name for entry in await env.list(".") if not entry.name.startswith(".")] == ["ü '\"\\ file"]

    with_env(sshd.options(), test)


def test_more_commands_at_a_time_than_a_connection_carries(sshd: Sshd) -> None:
    async def test(env: Environment) -> None:
        done = await asyncio.gather(*(env.exec(["sh", "-c", f"sleep 0.5; echo {n}"]) for n in range(14)))
        assert [one.output for one in done] == [b"%d\n" % n for n in range(14)]

    with_env(sshd.options(), test)


def test_late_output_is_complete(sshd: Sshd) -> None:
    async def test(env: Environment) -> None:
        done = await env.exec(["sh", "-c", "head -c 30000000 /dev/zero"], limit=40_000_000)
        assert len(done.output) == 30_000_000

    with_env(sshd.options(), test)


def test_it_says_where_commands_run(sshd: Sshd, tmp_path: Path) -> None:
    async def test(env: Any) -> None:
        assert f"{sshd.user}@{HOST}" in env.note
        about = await env.about()
        assert about["machine"] == [f"{sshd.user}@{HOST}:{sshd.port}"]
        assert str(sshd.home) in about["writable"][0]
        assert ("copy" in about) == ("a copy" in env.note)

    with_env(sshd.options(), test)
    with_env(sshd.options(sync=True), test, cwd=str(tmp_path))


# ---- what breaks -------------------------------------------------------------------------------------------------------


def test_a_lost_connection_is_told_and_the_next_command_connects_anew(sshd: Sshd) -> None:
    async def test(env: Environment) -> None:
        await env.write(f"{await env.temp()}/kept", b"")
        running = asyncio.ensure_future(env.exec(["sh", "-c", "sleep 4301; sleep 4301"]))
        while not processes("4301"):  # noqa: ASYNC110 - another process starts it
            await asyncio.sleep(0.02)
        sshd.stop()
        with pytest.raises(EnvironmentFailure, match="was lost") as failure:
            await running
        assert "connects again" in failure.value.next
        await gone("4301")
        with pytest.raises(EnvironmentFailure, match="nothing listens"):
            await env.exec(["true"])
        sshd.start()
        assert (await env.exec(["echo", "back"])).output == b"back\n"

    with_env(sshd.options(), test)


def test_a_network_that_falls_silent_is_given_up_and_what_ran_is_ended(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("melete.environments.ssh.ALIVE", (1, 2))

    async def test(env: Environment) -> None:
        folder = await env.temp()
        running = asyncio.ensure_future(env.exec(["sh", "-c", "trap '' HUP TERM; sleep 4304; sleep 4304"]))
        while not processes("4304"):  # noqa: ASYNC110 - another process starts it
            await asyncio.sleep(0.02)
        silent = sshd.connections()
        for pid in silent:
            os.kill(pid, signal.SIGSTOP)
        with pytest.raises(EnvironmentFailure, match="was lost"):
            await running
        assert (await env.exec(["echo", "back"])).output == b"back\n"
        await gone("4304")
        while Path(folder).parent.exists():  # noqa: ASYNC110 - another process removes it
            await asyncio.sleep(0.02)
        for pid in silent:
            os.kill(pid, signal.SIGKILL)

    with_env(sshd.options(), test)


def test_nothing_is_left_there_when_the_agent_is_killed(sshd: Sshd, tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text(
        "import asyncio, os, sys, tempfile\n"
        "from pathlib import Path\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from melete.core.environment import Place\n"
        "from melete.core.places import SshOptions\n"
        "from melete.environments.ssh import Ssh\n"
        "import msgspec\n"
        "async def main():\n"
        "    options = msgspec.json.decode(sys.argv[2], type=SshOptions)\n"
        "    env = Ssh(Place(variables=dict(os.environ), options=options))\n"
        "    await env.start(['sh', '-c', 'trap \"\" HUP TERM; sleep 4302; sleep 4302'])\n"
        "    await env.exec(['sh', '-c', 'nohup sleep 4302 >/dev/null 2>&1 &'])\n"
        "    print(await env.temp(), flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    argv = [sys.executable, str(script), str(Path.cwd()), msgspec.json.encode(sshd.options()).decode()]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env = {**os.environ, "TMPDIR": str(scratch)}
    short = len(str(scratch)) <= keeper.LONGEST_PATH
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=env) as agent:
        assert agent.stdout is not None
        temp = Path(agent.stdout.readline().decode().strip())
        agent.send_signal(signal.SIGKILL)
    asyncio.run(gone("4302"))
    until = time.monotonic() + SOON
    while temp.parent.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not temp.parent.exists()
    left = Path(scratch if short else "/tmp")
    old = list(left.glob(f"{keeper.FOLDER}{agent.pid}-*"))
    assert len(old) == 1
    shutil.rmtree(keeper.control_folder(str(left)))
    assert not old[0].exists()


def test_closing_twice_and_using_it_after_that(sshd: Sshd) -> None:
    async def main() -> None:
        env = Ssh(Place(variables=VARIABLES, options=sshd.options()))
        await env.exec(["true"])
        await env.aclose()
        await env.aclose()
        with pytest.raises(EnvironmentFailure, match="closed"):
            await env.exec(["true"])

    asyncio.run(main())


# ---- copies of the working folder ----------------------------------------------------------------------------------------


def test_the_working_folder_goes_there_and_comes_back(sshd: Sshd, tmp_path: Path) -> None:
    here = tmp_path / "project"
    here.mkdir()
    (here / "a.txt").write_text("from here")

    async def test(env: Environment) -> None:
        done = await env.exec(["sh", "-c", "cat a.txt; echo made > b.txt; pwd"])
        assert done.output.decode() == f"from here{sshd.home}/.cache/melete/some-session\n"
        assert (here / "b.txt").read_text() == "made\n"
        (here / "c.txt").write_text("a person's")
        await env.write("d.txt", b"by a tool")
        assert (await env.exec(["true"])).notes == ()
        assert (await env.read("c.txt"), (here / "d.txt").read_text()) == (b"a person's", "by a tool")
        await env.write("last.txt", b"just before the end")

    with_env(sshd.options(sync=True), test, cwd=str(here))
    assert (here / "last.txt").read_text() == "just before the end"
    assert list((sshd.home / ".cache/melete").iterdir()) == []


def test_results_come_while_a_command_runs(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("melete.environments.synced.EVERY", 0.2)
    here = tmp_path / "project"
    here.mkdir()

    async def test(env: Environment) -> None:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(
                env.exec(["sh", "-c", "echo early > out; while [ ! -e go ]; do sleep 0.1; done"])
            )
            while not (here / "out").exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.02)
            assert not running.done()
            (here / "go").write_text("")
        assert running.result().code == 0

    with_env(sshd.options(sync=True), test, cwd=str(here))


def test_a_folder_of_ones_own_there_stays_and_a_round_that_fails_is_told(sshd: Sshd, tmp_path: Path) -> None:
    here = tmp_path / "project"
    here.mkdir()
    (here / "a.txt").write_text("from here")
    there = sshd.home / "mine"

    async def test(env: Environment) -> None:
        await env.exec(["true"])
        (here / "large").write_bytes(b"x" * 3_000_000)
        notes = (await env.exec(["true"])).notes
        assert "more than is allowed" in notes[0]
        (here / "large").unlink()
        assert (await env.exec(["true"])).notes == ()

    with_env(sshd.options(sync=True, sync_mb=2, cwd=str(there)), test, cwd=str(here))
    assert [path.name for path in there.iterdir()] == ["a.txt"]


def test_what_was_removed_between_two_sessions_does_not_come_back(sshd: Sshd, tmp_path: Path) -> None:
    here, there = tmp_path / "project", sshd.home / "mine"
    here.mkdir()
    for name in ("stays", "goes"):
        (here / name).write_text(name)

    def session() -> tuple[str, ...]:
        async def main() -> tuple[str, ...]:
            options = sshd.options(sync=True, cwd=str(there))
            env = open_ssh(
                Place(cwd=str(here), variables=VARIABLES, options=options, scratch=str(tmp_path / "scratch"))
            )
            try:
                return (await env.exec(["true"])).notes
            finally:
                await env.aclose()

        return asyncio.run(main())

    session()
    (here / "goes").unlink()
    (here / "stays").write_text("changed here")
    (there / "made").write_text("there")
    assert session() == ()
    for folder in (here, there):
        assert {path.name: path.read_text() for path in folder.iterdir()} == {"stays": "changed here", "made": "there"}


@pytest.mark.parametrize("own", [False, True])
def test_what_is_removed_after_a_kill_does_not_come_back(sshd: Sshd, tmp_path: Path, own: bool) -> None:
    here, scratch = tmp_path / "project", tmp_path / "scratch"
    here.mkdir()
    (here / "goes").write_text("here")
    options = sshd.options(sync=True, cwd=str(sshd.home / "mine") if own else "")
    place = Place(cwd=str(here), variables=VARIABLES, options=options, key="some-session", scratch=str(scratch))

    async def main() -> None:
        env = open_ssh(place)
        assert isinstance(env, Synced)
        await env.exec(["sh", "-c", "echo there > made"])
        await env.env.aclose()  # what a kill leaves: no last round, and the copy stays
        for name in ("goes", "made"):
            (here / name).unlink()
        env = open_ssh(place)
        try:
            assert (await env.exec(["ls"])).output == b""
        finally:
            await env.aclose()

    asyncio.run(main())
    assert list(here.iterdir()) == []
    assert bool(list(scratch.glob("sync/*"))) == own


def test_what_could_not_be_copied_back_is_told_at_the_end(sshd: Sshd, tmp_path: Path) -> None:
    here = tmp_path / "project"
    here.mkdir()

    async def main() -> None:
        env = open_ssh(Place(cwd=str(here), variables=VARIABLES, options=sshd.options(sync=True)))
        await env.exec(["true"])
        sshd.stop()
        with pytest.raises(EnvironmentFailure, match="was not copied back"):
            await env.aclose()

    asyncio.run(main())
