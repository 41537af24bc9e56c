"""What a hostile command tries in a container, with nothing but the defaults between it and this machine. It gets nothing."""

import asyncio
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from secrets import token_hex
from typing import TypeVar

import pytest

from melete.core.environment import Completed
from melete.environments.docker import Docker
from tests.docker_engine import RunningEngine, engine

__all__ = ["engine"]
pytestmark = pytest.mark.needs("docker")
OWNERS = [12_345, 0] if os.getuid() == 0 else [os.getuid()]
DAEMON = "48151623"
MARK = "9f2c-the-secret"
Result = TypeVar("Result")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "work"
    made.mkdir()
    return made


@pytest.fixture(params=OWNERS, ids=lambda owner: "root" if owner == 0 else "somebody")
def tried(request: pytest.FixtureRequest, engine: RunningEngine, folder: Path) -> Callable[[str], Completed]:
    """Runs a script in a container of the defaults, whose working folder belongs to somebody or to root."""
    if os.getuid() == 0:
        os.chown(folder, request.param, request.param)

    def attempt(script: str) -> Completed:
        return inside(engine, folder, lambda env: env.exec(["bash", "-c", script], timeout=60))

    return attempt


def inside(engine: RunningEngine, folder: Path, test: Callable[[Docker], Awaitable[Result]]) -> Result:
    async def main() -> Result:
        env = Docker(engine.place(folder, key=token_hex(6)))
        try:
            async with asyncio.timeout(120):
                return await test(env)
        finally:
            await env.aclose()

    return asyncio.run(main())


def python(code: str) -> str:
    return f"python3 - <<'END' 2>&1\n{code}\nEND\n"


Tried = Callable[[str], Completed]


def test_homes_and_keys_are_not_to_be_seen(tried: Tried, tmp_path: Path, own_home: Path) -> None:
    for home in (own_home, tmp_path / "other"):
        (home / ".ssh").mkdir(parents=True)
        (home / ".ssh" / "id_of_somebody").write_text(MARK)
    said = tried(f"cat {own_home}/.ssh/* {tmp_path}/other/.ssh/* ~/.ssh/* /root/.ssh/* /home/*/.ssh/*; "
                 "find / -name id_of_somebody 2>/dev/null; ls /proc/1/root/home /proc/self/root/../..")  # fmt: skip
    assert MARK not in said.output.decode()
    assert b"id_of_somebody\n" not in said.output


def test_nothing_outside_the_working_folder_can_be_written(tried: Tried, tmp_path: Path, folder: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("whole")
    before = {path: path.stat().st_mtime_ns for path in (Path("/etc/passwd"), Path("/etc"), victim)}
    name = f"melete-{token_hex(6)}"
    tried(f"echo x > {victim}; echo x >> /etc/passwd; touch /tmp/{name} /etc/{name} ../{name} /workspace/../{name}; "
          f"ln -s {victim} link; echo x > link; echo x > /proc/1/root{victim}; rm -rf {tmp_path} /etc/passwd")  # fmt: skip
    assert before == {path: path.stat().st_mtime_ns for path in before}
    assert victim.read_text() == "whole"
    assert not any(Path(at, name).exists() for at in ("/tmp", "/etc", "/", str(tmp_path)))
    assert folder.is_dir()


def test_file_tools_follow_links_there_and_not_here(engine: RunningEngine, folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(MARK)

    async def test(env: Docker) -> None:
        await env.exec(["bash", "-c", f"ln -s {secret} link; ln -s {tmp_path} up"])
        for path in ("link", "up/secret", str(secret), f"../..{secret}"):
            with pytest.raises(OSError, match=r"No such file|denied"):
                await env.read(path)
        with pytest.raises(OSError, match=r"No such file|denied"):
            await env.list("up")

    inside(engine, folder, test)
    assert secret.read_text() == MARK


def test_no_address_is_reached(tried: Tried) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        port = server.getsockname()[1]
        addresses = [
            ("127.0.0.1", port),
            ("10.0.0.1", 80),
            ("172.17.0.1", port),
            ("192.168.0.1", 80),
            ("169.254.169.254", 80),
        ]
        code = f"""
import socket
for address in {addresses!r} + [("::1", {port}), ("fd00:ec2::254", 80), (socket.gethostname(), {port})]:
    try:
        socket.create_connection(address, timeout=2)
        print("REACHED", address)
    except OSError as error:
        print("refused", address, error)
for kind, protocol in ((socket.SOCK_RAW, 1), (socket.SOCK_RAW, 255)):
    try:
        socket.socket(socket.AF_INET, kind, protocol)
        print("REACHED raw")
    except OSError:
        print("refused raw")
try:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    print("REACHED packets")
except OSError:
    print("refused packets")
"""
        said = tried(python(code)).output.decode()
        assert [line.split()[0] for line in said.splitlines()] == ["refused"] * (len(addresses) + 6)
        assert "REACHED" not in said
        with pytest.raises(TimeoutError):
            server.accept()


def test_no_name_is_resolved_and_no_packet_leaves(tried: Tried) -> None:
    code = """
import socket
for name in ("secret.example.com", "localhost.example"):
    try:
        print("REACHED", socket.getaddrinfo(name, 53))
    except OSError as error:
        print("refused", error)
for address in ("192.0.2.1", "127.0.0.53", "169.254.169.253"):
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asking.settimeout(0.5)
    try:
        question = b"\\x06secret\\x07example\\x00\\x00\\x10\\x00\\x01"
        asking.sendto(b"\\x00\\x01\\x01\\x00\\x00\\x01" + bytes(6) + question, (address, 53))
        print("REACHED", asking.recv(10))
    except OSError as error:
        print("refused", error)
"""
    said = tried(python(code)).output.decode()
    assert (said.count("refused"), "REACHED" in said) == (5, False)


def test_the_agent_and_its_variables_are_not_to_be_seen(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_AGENT", MARK)
    agent = os.getpid()
    said = tried(
        f"env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; kill -0 {agent} && tr '\\0' ' ' < /proc/{agent}/cmdline; "
        + python(f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print("attached", libc.ptrace(16, {agent}, 0, 0))
buffer = ctypes.create_string_buffer(64)
print("opened", open("/proc/{agent}/mem", "rb"))
""")
    ).output.decode()
    assert MARK not in said
    assert "pytest" not in said
    assert Path(sys.executable).name not in said.replace("python3", "")
    assert "attached -1" in said
    assert "opened" not in said.replace('print("opened"', "")


def test_daemons_end_with_the_container(tried: Tried) -> None:
    tried(
        f"setsid nohup bash -c '(sleep {DAEMON} &) ; exec -a init sleep {DAEMON}' >/dev/null 2>&1 < /dev/null & disown; sleep 1"
    )
    until = time.monotonic() + 10
    while (left := running(DAEMON)) and time.monotonic() < until:
        time.sleep(0.1)
    assert left == []


def test_memory_files_and_shared_memory_have_an_end(engine: RunningEngine, folder: Path) -> None:
    async def test(env: Docker) -> Completed:
        return await env.exec(["bash", "-c", "head -c 200M /dev/zero > /dev/shm/big; head -c 200M /dev/zero > /tmp/big; "
                               "stat -c %s /dev/shm/big /tmp/big"])  # fmt: skip

    async def main() -> Completed:
        env = Docker(engine.place(folder, key=token_hex(6), disk_mb=50))
        try:
            return await test(env)
        finally:
            await env.aclose()

    sizes = [int(line) for line in asyncio.run(main()).output.split()[-2:]]
    assert max(sizes) <= 64 << 20


def test_the_engine_itself_is_not_to_be_reached(tried: Tried, engine: RunningEngine) -> None:
    socket_path = engine.host.removeprefix("unix://")
    said = tried(
        f"find / -xdev -type s 2>/dev/null; ls -la {socket_path} /var/run/docker.sock /run/podman; env | grep -i docker"
    )
    assert b"docker.sock\n" not in said.output.replace(b"No such file or directory", b"")
    assert b"DOCKER_HOST" not in said.output


def test_the_kernel_is_not_to_be_set_up_anew(tried: Tried) -> None:
    before = {path: Path(path).read_bytes() for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname")}
    said = tried("""
for path in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sysrq-trigger /sys/kernel/uevent_helper \\
    /proc/sys/vm/drop_caches /proc/1/oom_score_adj /sys/fs/cgroup/memory/release_agent /sys/fs/cgroup/cgroup.procs; do
    [ -e $path ] && (echo -500 > $path) 2>/dev/null && echo "WROTE $path"
done
head -c 1 /proc/kcore 2>/dev/null | grep -q . && echo "READ kcore"
dmesg 2>/dev/null | grep -q . && echo "READ dmesg"
mount -t tmpfs none /mnt 2>/dev/null && echo "MOUNTED"
mount -t proc none /tmp 2>/dev/null && echo "MOUNTED proc"
mount -o remount,rw /sys 2>/dev/null && echo "MOUNTED sys"
mknod /tmp/disk b 8 0 2>/dev/null && head -c 1 /tmp/disk >/dev/null 2>&1 && echo "MADE a device"
unshare -Ur true 2>/dev/null && echo "MADE a user namespace"
unshare -m true 2>/dev/null && echo "MADE a mount namespace"
hostname other 2>/dev/null && echo "NAMED"
nice -n -5 true 2>/dev/null | grep -q . && echo "HASTENED"
for disk in /dev/sd? /dev/vd? /dev/nvme* /dev/mem /dev/kmem /dev/kvm; do [ ! -e $disk ] || echo "SEES $disk"; done
""").output.decode()  # fmt: skip
    assert said == ""
    assert before == {path: Path(path).read_bytes() for path in before}


def test_setuid_programs_and_capabilities_give_nothing(engine: RunningEngine, tried: Tried, folder: Path) -> None:
    said = tried(
        "setuid-id; cat /etc/secret; grep -E 'Cap(Eff|Bnd|Amb)|NoNewPrivs|Seccomp:' /proc/self/status"
    ).output.decode()
    fields = dict(line.split(":\t") for line in said.splitlines() if ":\t" in line)
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    if folder.stat().st_uid:
        assert "euid=0" not in said
        assert "for root alone" not in said
        assert {int(fields[name], 16) for name in ("CapEff", "CapBnd", "CapAmb")} == {0}
    else:  # CHOWN, DAC_OVERRIDE, FOWNER
        assert {int(fields[name], 16) for name in ("CapEff", "CapBnd")} == {0b1011}


def running(mark: str) -> list[str]:
    """Processes of this machine with this word on their command line."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(entry.name)
    return found
