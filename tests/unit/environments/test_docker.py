"""The container of a session on a real engine: how it begins, what it may, whose its files are, and how it ends."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from secrets import token_hex

import pytest
from msgspec import structs

from melete.core.environment import Environment, Missing, Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import DockerOptions
from melete.environments.docker import ANEW, Docker
from tests.docker_engine import RunningEngine, busybox_file_system, engine

__all__ = ["engine"]
pytestmark = pytest.mark.needs("docker")
SOMEBODY = 12_345
Test = Callable[[Docker], Awaitable[None]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "work"
    made.mkdir()
    return made


def run(place: Place, test: Test) -> None:
    async def main() -> None:
        env = Docker(place)
        checked: Environment = env
        assert (checked.name, checked.cwd) == ("docker", "/workspace")
        try:
            async with asyncio.timeout(120):
                await test(env)
        finally:
            await env.aclose()

    asyncio.run(main())


def bash(command: str) -> list[str]:
    return ["bash", "-c", command]


async def said(env: Environment, command: str) -> str:
    return (await env.exec(bash(command))).output.decode()


async def failure_of(place: Place) -> EnvironmentFailure:
    env = Docker(place)
    try:
        with pytest.raises(EnvironmentFailure) as raised:
            await env.exec(["true"])
    finally:
        await env.aclose()
    return raised.value


# ---- how it begins and ends ------------------------------------------------------------------------------------------


def test_nothing_starts_before_the_first_use_and_nothing_stays(engine: RunningEngine, folder: Path) -> None:
    async def test(env: Docker) -> None:
        assert engine.containers() == before
        await env.exec(["true"])
        assert len(engine.containers()) == len(before) + 1

    before = engine.containers()
    run(engine.place(folder, key=token_hex(6)), test)
    assert engine.containers() == before


@pytest.mark.parametrize("seconds", [0.02, 0.15, 0.3, 0.5])
def test_a_start_that_is_interrupted_leaves_nothing(engine: RunningEngine, folder: Path, seconds: float) -> None:
    async def test(env: Docker) -> None:
        running = asyncio.ensure_future(env.exec(["sleep", "300"]))
        await asyncio.sleep(seconds)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()

    before = engine.containers()
    run(engine.place(folder, key=token_hex(6)), test)
    assert engine.containers() == before


@pytest.mark.parametrize("keep", [False, True])
def test_the_container_ends_with_an_agent_that_is_killed(engine: RunningEngine, folder: Path, keep: bool) -> None:
    key = token_hex(6)
    program = textwrap.dedent(f"""
        import asyncio
        from pathlib import Path
        from tests.docker_engine import RunningEngine
        from melete.environments.docker import Docker

        async def main():
            env = Docker(RunningEngine(host={engine.host!r}).place(Path({str(folder)!r}), key={key!r}, keep={keep}))
            await env.exec(["bash", "-c", "echo kept > /tmp/file"])
            print("on", flush=True)
            await env.exec(["sleep", "300"], timeout=300)

        asyncio.run(main())
    """)
    agent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=Path.cwd())
    assert agent.stdout is not None
    assert agent.stdout.readline() == b"on\n"
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    agent.stdout.close()
    until = time.monotonic() + 30
    while engine("ps", "--quiet", "--filter", f"label=melete.key={key}") and time.monotonic() < until:
        time.sleep(0.1)
    assert engine("ps", "--quiet", "--filter", f"label=melete.key={key}") == ""
    while (left := engine("ps", "--all", "--quiet", "--filter", f"label=melete.key={key}")) and not keep:
        assert time.monotonic() < until
    if not keep:
        return

    async def test(env: Docker) -> None:
        assert await said(env, "cat /tmp/file") == "kept\n"

    run(engine.place(folder, key=key, keep=True), test)
    engine("rm", "--force", left)


def test_a_kept_container_is_there_when_the_session_goes_on(engine: RunningEngine, folder: Path) -> None:
    key = token_hex(6)

    async def first(env: Docker) -> None:
        await said(env, "echo one > ~/note; nohup sleep 300 >/dev/null 2>&1 &")
        await env.write(f"{await env.temp()}/file", b"x")

    async def second(env: Docker) -> None:
        assert await said(env, "cat ~/note; pgrep sleep; ls /tmp") == "one\n"

    async def other(env: Docker) -> None:
        assert await said(env, "cat ~/note 2>&1") != "one\n"

    run(engine.place(folder, key=key, keep=True), first)
    assert engine("ps", "--quiet", "--filter", f"label=melete.key={key}") == ""
    run(engine.place(folder, key=key, keep=True), second)
    run(engine.place(folder, key=key, keep=True, processes=99), other)  # made in another way: the old one goes
    found = engine("ps", "--all", "--quiet", "--filter", f"label=melete.key={key}").split()
    assert len(found) == 1
    engine("rm", "--force", *found)


def test_a_container_that_was_killed_is_replaced_and_that_is_said(engine: RunningEngine, folder: Path) -> None:
    async def test(env: Docker) -> None:
        await said(env, "echo lost > /tmp/file; echo stays > file")
        await asyncio.to_thread(
            engine, "kill", engine("ps", "--quiet", "--filter", f"label=melete.key={env.place.key}")
        )
        await asyncio.sleep(0.5)
        done = await env.exec(bash("cat file; ls /tmp/file"))
        assert done.output.startswith(b"stays\n")
        assert (done.code, done.notes) == (2, (ANEW,))
        assert (await env.exec(["true"])).notes == ()

    run(engine.place(folder, key=token_hex(6)), test)


# ---- what it may and whose its files are -----------------------------------------------------------------------------


@pytest.mark.parametrize("owner", [0, SOMEBODY])
def test_files_belong_to_the_owner_of_the_folder(engine: RunningEngine, folder: Path, owner: int) -> None:
    if os.getuid():
        owner = os.getuid()
    os.chown(folder, owner, owner)

    async def test(env: Docker) -> None:
        assert (await said(env, "id -u; touch made; mkdir -p deep/er; echo x > ~/home && cat ~/home")).split() == [
            str(owner),
            "x",
        ]
        assert (await said(env, "whoami")).strip() == ("agent" if owner else "root")
        await env.write("written/below", b"x")
        home = await said(env, "echo $HOME; stat -c %u ~")
        assert home.split() == ["/home/agent" if owner else "/root", str(owner)]
        await env.write("~/more", b"y")
        assert await env.read(f"{home.split()[0]}/more") == b"y"

    run(engine.place(folder, key=token_hex(6)), test)
    assert {path.lstat().st_uid for path in folder.rglob("*")} == {owner}
    assert len(list(folder.rglob("*"))) == 5


def test_variables_of_here_stay_here_unless_named(
    engine: RunningEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_AGENT", "1")

    async def test(env: Docker) -> None:
        names = {line.partition("=")[0] for line in (await said(env, "env")).splitlines() if "=" in line}
        assert names <= {"WORD", "HOME", "HOSTNAME", "PATH", "PWD", "OLDPWD", "SHLVL", "_"}
        assert await said(env, 'printf %s "$WORD"') == "zwei\nlines"
        inspected = engine("inspect", engine("ps", "--quiet", "--filter", f"label=melete.key={env.place.key}"))
        assert "zwei" not in inspected

    place = engine.place(folder, key=token_hex(6), variables={"WORD": "zwei\nlines"})
    run(Place(cwd=place.cwd, key=place.key, options=place.options, variables={**place.variables, "OTHER": "x"}), test)


def test_hidden_folders_of_here_are_empty_there(engine: RunningEngine, folder: Path) -> None:
    (folder / ".agent").mkdir()
    (folder / ".agent" / "keys").write_text("secret")
    place = engine.place(folder, key=token_hex(6))

    async def test(env: Docker) -> None:
        assert await said(env, "ls -A .agent; cat .agent/keys 2>&1") == "cat: .agent/keys: No such file or directory\n"

    hidden = (str(folder / ".agent"), "/somewhere/else")
    run(Place(cwd=place.cwd, key=place.key, options=place.options, variables=place.variables, hidden=hidden), test)
    assert (folder / ".agent" / "keys").read_text() == "secret"


def test_in_a_home_as_the_working_folder_secrets_are_not_there(engine: RunningEngine, folder: Path) -> None:
    home = folder / "home"
    for name in (".ssh/id", ".config/gh/hosts", ".melete/.env", ".netrc", ".bash_history", ".bashrc", "keys/own"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("text")
    (home / ".aws").symlink_to("keys")

    async def test(env: Docker) -> None:
        there = "home" if env.place.cwd == str(folder) else "."
        names = ".ssh/id .config/gh/hosts .melete/.env .netrc .bash_history keys/own .aws/own */gh/hosts"
        assert "text" not in await said(env, f"cd {there}; mv .config open; cat {names} 2>&1")
        assert (
            await said(env, f"cd {there}; (echo x > .netrc; rm -r .ssh) 2>/dev/null; echo n > new; cat .bashrc new")
            == "textn\n"
        )

    for cwd in (home, folder):
        place = engine.place(cwd, key=token_hex(6))
        place = structs.replace(
            place, variables={**place.variables, "HOME": str(home)}, hidden=(str(home / ".melete"),)
        )
        run(place, test)
    assert (home / ".ssh/id").read_text() == (home / ".netrc").read_text() == "text"


def test_a_hidden_folder_stays_hidden_behind_a_link_and_under_every_name(engine: RunningEngine, folder: Path) -> None:
    (folder / "deep/.agent").mkdir(parents=True)
    (folder / "deep/.agent/keys").write_text("secret")
    link = folder.parent / "link"
    link.symlink_to(folder)
    place = engine.place(folder, key=token_hex(6))

    async def test(env: Docker) -> None:
        assert "secret" not in await said(env, "mv deep open; cat */.agent/keys")

    hidden = (str(link / "deep/.agent"),)
    for _ in range(2):
        run(Place(cwd=place.cwd, key=place.key, options=place.options, variables=place.variables, hidden=hidden), test)
    assert (folder / "deep/.agent/keys").read_text() == "secret"


def test_volumes_and_an_empty_workspace(engine: RunningEngine, folder: Path, tmp_path: Path) -> None:
    data = tmp_path / 'data, with "odd" name'
    data.mkdir()
    (data / "file").write_text("read me")
    plain = tmp_path / "plain"
    plain.mkdir()
    (folder / "here").write_text("x")

    async def test(env: Docker) -> None:
        done = await env.exec(bash("ls -A; touch made && rm made; touch /ro/x; touch /rw/made; ls /ro"))
        assert done.output == b"touch: cannot touch '/ro/x': Read-only file system\nfile\n"
        assert "starts empty" in env.note

    volumes = (f"{data}:/ro:ro", f"{plain}:/rw")
    run(engine.place(folder, key=token_hex(6), volumes=volumes, workspace="none"), test)
    assert [path.name for path in plain.iterdir()] == ["made"]


def test_folders_with_odd_names_are_mounted(engine: RunningEngine, tmp_path: Path) -> None:
    odd = tmp_path / "a, \"b\" 'c': ü"
    odd.mkdir()
    (odd / "file").write_text("inside")

    async def test(env: Docker) -> None:
        assert await env.read("file") == b"inside"

    run(engine.place(odd, key=token_hex(6)), test)


def test_memory_has_an_end_that_is_explained(engine: RunningEngine, folder: Path) -> None:
    async def test(env: Docker) -> None:
        done = await env.exec(["python3", "-c", "x = bytearray(900_000_000)"])
        assert done.code == 137
        assert any("memory (64 MB) was used up" in note for note in done.notes)
        assert (await env.exec(["echo", "on"])).output == b"on\n"

    run(engine.place(folder, key=token_hex(6), memory_mb=64), test)


def test_a_file_has_a_largest_size(engine: RunningEngine, folder: Path) -> None:
    async def test(env: Docker) -> None:
        done = await env.exec(bash("head -c 30000000 /dev/zero > big"))
        assert done.code
        assert (folder / "big").stat().st_size <= 20 << 20

    run(engine.place(folder, key=token_hex(6), disk_mb=20), test)


# ---- what goes wrong -------------------------------------------------------------------------------------------------


def test_an_engine_that_does_not_answer_is_said(tmp_path: Path) -> None:
    options = DockerOptions(host=f"unix://{tmp_path}/nothing.sock", image="x")
    place = Place(cwd=str(tmp_path), variables={"PATH": os.environ["PATH"]}, options=options)
    failure = asyncio.run(failure_of(place))
    assert "engine does not answer" in failure.what
    assert "systemctl start docker" in failure.next
    missing = Docker.missing(place)
    assert missing is not None
    assert "does not answer" in missing.why


def test_a_client_that_is_not_installed_is_said(tmp_path: Path) -> None:
    place = Place(cwd=str(tmp_path), variables={"PATH": str(tmp_path)})
    failure = asyncio.run(failure_of(place))
    assert (failure.what, "--env sandbox" in failure.next) == ("docker is not installed", True)
    missing = Docker.missing(place)
    assert isinstance(missing, Missing)
    assert missing.why == "docker is not installed"


def test_a_client_in_the_working_folder_is_not_used(tmp_path: Path) -> None:
    client = tmp_path / "bin/docker"
    client.parent.mkdir()
    client.write_text(f"#!/bin/sh\ntouch {tmp_path}/escaped\n")
    client.chmod(0o755)
    place = Place(cwd=str(tmp_path), variables={"PATH": str(client.parent)})
    assert asyncio.run(failure_of(place)).what == "docker is not installed"
    assert Docker.missing(place) is not None
    assert not (tmp_path / "escaped").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root may act as somebody else")
def test_no_permission_for_the_engine_is_said(engine: RunningEngine, tmp_path: Path) -> None:
    socket = Path(engine.host.removeprefix("unix://"))
    before = [(path, path.stat().st_mode) for path in (socket.parent, socket)]
    client = tmp_path / "client"
    client.write_text(f'#!/bin/sh\nexec setpriv --reuid {SOMEBODY} --clear-groups {engine.client} "$@"\n')
    client.chmod(0o755)
    try:
        socket.parent.chmod(0o755)
        socket.chmod(0o600)
        failure = asyncio.run(failure_of(engine.place(tmp_path, key="k", command=str(client))))
    finally:
        for path, mode in before:
            path.chmod(mode & 0o7777)
    assert "you may not use the container engine" in failure.what
    assert "group `docker`" in failure.next


def test_an_image_that_nobody_has_is_said(engine: RunningEngine, folder: Path) -> None:
    failure = asyncio.run(failure_of(engine.place(folder, key="k", image="127.0.0.1:1/no-such-image:1")))
    assert "127.0.0.1:1/no-such-image:1 is not here and could not be fetched: " in failure.what
    assert "docker pull 127.0.0.1:1/no-such-image:1" in failure.next


def test_a_volume_that_cannot_be_is_said(engine: RunningEngine, folder: Path) -> None:
    failure = asyncio.run(failure_of(engine.place(folder, key="k", volumes=("not a volume",))))
    assert failure.what == "docker.volumes: not a volume is no mount"
    failure = asyncio.run(failure_of(engine.place(folder, key="k", volumes=(f"{folder}/none:/data",))))
    assert failure.what == f"docker.volumes: {folder}/none does not exist"
    assert not (folder / "none").exists()
    failure = asyncio.run(failure_of(engine.place(folder, key="k", network="no-such-network")))
    assert "no-such-network" in failure.what
    with pytest.raises(FileNotFoundError):
        Docker(engine.place(folder / "gone", key="k"))


def test_an_image_without_bash_or_sh_is_said(engine: RunningEngine, folder: Path) -> None:
    def image(name: str, *programs: str) -> str:
        made = engine("create", engine.image, "true")
        try:
            exported = subprocess.run(
                [engine.client, "-H", engine.host, "export", made], capture_output=True, check=True
            ).stdout
        finally:
            engine("rm", made)
        argv = ["tar", "--delete", *[f"usr/bin/{program}" for program in programs]]
        less = subprocess.run(argv, input=exported, capture_output=True, check=True).stdout
        subprocess.run(
            [engine.client, "-H", engine.host, "import", "-", name], input=less, capture_output=True, check=True
        )
        return name

    async def test(env: Docker) -> None:
        assert (await env.exec(["sh", "-c", "echo on"])).output == b"on\n"
        with pytest.raises(EnvironmentFailure, match="less:1 has no bash"):
            await env.exec(["bash", "-c", "true"])

    try:
        run(engine.place(folder, key="k", image=image("less:1", "bash")), test)
        failure = asyncio.run(failure_of(engine.place(folder, key="k", image=image("none:1", "bash", "sh"))))
        assert "no shell" in failure.what
    finally:
        engine("image", "rm", "--force", "less:1", "none:1")


@pytest.mark.needs("busybox")
def test_an_image_of_busybox_alone_is_enough(engine: RunningEngine, folder: Path) -> None:
    async def test(env: Docker) -> None:
        assert (await env.exec(["sh", "-c", "echo on"])).output == b"on\n"
        await env.write("a/b", b"x" * 2_000_000)
        assert await env.read("a/b", offset=1_999_999) == b"x"
        assert [entry.name for entry in await env.list("a")] == ["b"]
        found = await env.stat("a/b")
        assert found is not None
        assert found.size == 2_000_000
        await env.rename("a/b", "c")
        await env.remove("c")
        done = await env.exec(["sh", "-c", "sleep 300 & sleep 300"], timeout=0.3)
        assert done.timed_out
        assert b"sleep" not in (await env.exec(["ps"])).output

    files = busybox_file_system()
    subprocess.run(
        [engine.client, "-H", engine.host, "import", "-", "busy:1"], input=files, capture_output=True, check=True
    )
    try:
        run(engine.place(folder, key="k", image="busy:1"), test)
    finally:
        engine("image", "rm", "--force", "busy:1")


def test_what_runs_when_the_engine_kills_the_container_is_told(engine: RunningEngine, folder: Path) -> None:
    async def test(env: Docker) -> None:
        await env.exec(["true"])
        running = asyncio.ensure_future(env.exec(["sleep", "300"]))
        started = await env.start(["sleep", "300"], pty=True)
        await asyncio.to_thread(
            engine, "kill", engine("ps", "--quiet", "--filter", f"label=melete.key={env.place.key}")
        )
        with pytest.raises(EnvironmentFailure, match="ended while the command ran") as raised:
            await running
        assert "anew" in raised.value.next
        assert await started.wait() != 0

    run(engine.place(folder, key=token_hex(6)), test)


def test_more_processes_than_allowed_end_with_their_command(engine: RunningEngine, folder: Path) -> None:
    async def test(env: Docker) -> None:
        done = await env.exec(bash(":(){ :|:& };:; sleep 300"), timeout=2)
        assert done.timed_out
        async with asyncio.timeout(60):
            assert (await env.exec(["echo", "on"])).output == b"on\n"

    run(engine.place(folder, key=token_hex(6), processes=60), test)
