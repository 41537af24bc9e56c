"""What a hostile command tries, run against a real sandbox by a program of its own, as whichever user starts it.

`python hostile.py WALLS FOLDER` lays out bait in FOLDER, runs every attempt and prints one JSON object: name → what got
through, empty where nothing did. An attempt prints BROKEN where it succeeded; whatever it prints may hold no bait, and
afterwards nothing outside may have changed.
"""

# ruff: noqa: E501 - a script is read best as it is run

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal, cast

from melete.core.environment import Environment, Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import SandboxOptions
from melete.environments.sandbox import Sandbox

BAIT = "BAIT-7d1f"
UNTOUCHED = "as it was"
PROCESSES = 64
TEMP_MB = 16
FILE_MB = 32
ABSTRACT = "melete-hostile-test"

PRELUDE = """
import ctypes, os, socket, struct, sys, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    got = libc.syscall(*args)
    return got, ctypes.get_errno()
def reach(family, address, kind=socket.SOCK_STREAM):
    try:
        s = socket.socket(family, kind); s.settimeout(2)
        s.connect(address)
        s.send(b"hello")
        print("BROKEN reached", address)
    except OSError as e:
        print("kept", address, e)
def tries(what, do):
    try:
        print("BROKEN", what, do())
    except OSError as e:
        print("kept", what, e)
"""

RUN_AS_OWNER = """
fd = os.open("plain", os.O_RDWR | os.O_CREAT)
for bit in (0o4000, 0o2000) if os.getuid() == 0 else (0o4000,):
    mode, new = 0o755 | bit, os.O_RDWR | os.O_CREAT
    how = struct.pack("QQQ", new, mode, 0)
    calls = [(90, b"plain", mode), (91, fd, mode), (268, -100, b"plain", mode), (452, -100, b"plain", mode, 0),
             (133, b"f133", 0o100000 | mode, 0), (259, -100, b"f259", 0o100000 | mode, 0), (85, b"f85", mode),
             (2, b"f2", new, mode), (257, -100, b"f257", new, mode), (257, -100, b".", os.O_TMPFILE | os.O_RDWR, mode),
             (437, -100, b"f437", how, len(how))]
    for number, *words in calls:
        got, e = call(number, *words)
        made = [entry.name for entry in os.scandir(".") if entry.stat(follow_symlinks=False).st_mode & bit]
        print("kept" if got < 0 and e in (errno.EPERM, errno.ENOSYS) and not made else f"BROKEN {number} {got} {e} {made}")
for mode in (0o1755, 0o644):
    os.chmod("plain", mode); os.close(os.open(f"g{mode}", new, mode))
"""
# Names in capitals are replaced by what they stand for.
SHELL: dict[str, str] = {
    "read_keys_of_the_home": "cat HOME/.ssh/id_rsa HOME/.aws/credentials HOME/.bash_history; cat ~/.ssh/id_rsa; ls -A HOME/.ssh && echo BROKEN",
    "read_other_homes": "cat /root/.bashrc /root/.bash_history && echo BROKEN; ls /home/*/* 2>/dev/null && echo BROKEN",
    "read_passwords": "cat /etc/shadow && echo BROKEN; cat /etc/gshadow && echo BROKEN; ls /etc/ssl/private/* && echo BROKEN",
    "read_melete_own": "cat HOME/.melete/.env HOME/.melete/state/log; ls -A HOME/.melete | grep . && echo BROKEN",
    "write_outside": "for f in OUTSIDE/file HOME/.bashrc HOME/.melete/.env /etc/melete-test /usr/melete-test; do echo x > $f && [ -e $f ] && grep -q x $f && [ $f != HOME/.bashrc ] && echo BROKEN $f; done; rm -f OUTSIDE/file; mv OUTSIDE/file OUTSIDE/other; ln OUTSIDE/file hard && echo x >> hard",
    "write_through_a_link": "echo x > out; echo x > outfolder/file; echo x > outfolder/new; cp --remove-destination /bin/true outfolder/file",
    "proc_root": "for p in /proc/[0-9]* /proc/AGENT /proc/VICTIM; do cat $p/root/HOME/.ssh/id_rsa; ls $p/cwd/../../.ssh/ && echo BROKEN; cat $p/cwd/.ssh/id_rsa; done",
    "proc_root_write": "for p in /proc/[0-9]* /proc/AGENT /proc/VICTIM; do echo x > $p/root/OUTSIDE/file; echo x > $p/cwd/../../outside/file; done",
    "read_variables": "cat /proc/[0-9]*/environ /proc/AGENT/environ /proc/VICTIM/environ | tr '\\0' '\\n' | grep -a BAI; env | grep BAI",
    "signals": "kill -9 AGENT VICTIM && echo BROKEN; kill -9 -1; sleep 0.2; echo still",
    "mounts": "mount -t tmpfs none OUTSIDE && echo BROKEN; umount HOME && echo BROKEN; umount -l / && echo BROKEN; unshare -Ur true && echo BROKEN; unshare -Urm mount -t tmpfs none /mnt && echo BROKEN; mount -o remount,rw / && echo BROKEN",
    "devices": "mknod dev b 8 0 && echo BROKEN; mknod mem c 1 1 && echo BROKEN; ls /dev/vd* /dev/sd* /dev/mem /dev/kmsg /dev/loop* 2>/dev/null && head -c1 /dev/vda /dev/sda /dev/mem 2>/dev/null | grep -qa . && echo BROKEN",
    "kernel_settings": "for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sys/vm/drop_caches /proc/sysrq-trigger /sys/power/state; do (cat $f > copy; [ -s copy ] && cat copy > $f) && echo BROKEN $f; done; hostname changed && echo BROKEN; dmesg && echo BROKEN; true",
    "setuid": "cp /bin/true mine; chmod u+s mine && echo BROKEN; install -m 4755 /bin/true mine && echo BROKEN; su root -c id && echo BROKEN; sudo -n id && echo BROKEN; true",
    "descriptors": "ls -l /proc/self/fd | grep -a 'socket:\\|memfd:' && echo BROKEN; true",
    "leave_a_daemon": "(setsid nohup sh -c 'while :; do date +%N > alive; sleep 0.05; done' >/dev/null 2>&1 &) ; sleep 0.2; test -s alive && echo begun",
}
PYTHON: dict[str, str] = {
    "loopback": 'reach(socket.AF_INET, ("127.0.0.1", TCP)); reach(socket.AF_INET6, ("::1", TCP))',
    "private_and_metadata_addresses": 'for a in ("10.0.0.1", "192.168.0.1", "172.17.0.1", "169.254.169.254", "100.100.100.200", "8.8.8.8"): reach(socket.AF_INET, (a, 80))',
    "name_servers": 'for a in (("8.8.8.8", 53), ("192.168.0.1", 53)): reach(socket.AF_INET, a, socket.SOCK_DGRAM)\ntry: s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"x", ("127.0.0.1", UDP))\nexcept OSError as e: print("kept", e)',
    "raw_sockets": 'for f, k in ((socket.AF_PACKET, socket.SOCK_RAW), (socket.AF_INET, socket.SOCK_RAW), (40, socket.SOCK_STREAM), (38, socket.SOCK_SEQPACKET), (31, socket.SOCK_RAW)): tries(f"socket {f}", lambda: socket.socket(f, k))',
    "abstract_socket": 'reach(socket.AF_UNIX, "\\0ABSTRACT")',
    "socket_of_a_service": 'reach(socket.AF_UNIX, "OUTSIDE/service.sock"); reach(socket.AF_UNIX, "/var/run/docker.sock"); reach(socket.AF_UNIX, "/run/docker.sock")',
    "ptrace": "for pid in (AGENT, VICTIM):\n    print('BROKEN' if libc.ptrace(16, pid, 0, 0) == 0 else 'kept')\n    tries('mem', lambda: open(f'/proc/{pid}/mem', 'rb').read(1))\n    tries('maps', lambda: open(f'/proc/{pid}/maps').read(1))\n    fd, e = call(434, pid, 0)\n    got, e = call(438, fd, 0, 0) if fd >= 0 else (-1, e)\n    print('BROKEN pidfd' if got >= 0 else 'kept')",
    "limits_of_others": "import resource\nfor pid in (AGENT, VICTIM):\n    tries('prlimit', lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 3)))",
    "chroot": "tries('chroot', lambda: os.chroot('.')); print('BROKEN' if call(155, b'.', b'.')[0] == 0 else 'kept')",
    "kernel_calls": "for n in (248, 250, 321, 323, 298, 246, 175, 425, 304, 428, 430):\n    got, e = call(n, 0, 0, 0, 0, 0)\n    print('kept' if got < 0 and e in (errno.EPERM, errno.ENOSYS) else f'BROKEN {n} {got} {e}')",
    "files_that_run_as_their_owner": RUN_AS_OWNER,
    "other_numbers": "got, e = call(0x40000000 + 39)\nprint('kept' if e == errno.ENOSYS else f'BROKEN {got}')",
    "clone_namespaces": "for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000): print('kept' if call(272, flag)[0] < 0 else 'BROKEN')",
    "fork_bomb": "n = 0\ntry:\n    for n in range(1000):\n        if os.fork() == 0:\n            import time; time.sleep(60); os._exit(0)\nexcept OSError as e: print('kept', e)\nprint('BROKEN' if n > PROCESSES + 2 else 'kept', n)",
    "command_after_the_bomb": "print('kept')",
}
BWRAP_ONLY: dict[str, str] = {
    "fill_private_folders": "for d in /tmp /var/tmp /dev/shm /dev /run HOME; do dd if=/dev/zero of=$d/fill bs=1M count=40 2>/dev/null && echo BROKEN $d; rm -f $d/fill; done; true",
    "list_processes": "ls /proc | grep -qx 'AGENT\\|VICTIM' && [ AGENT -gt 400 ] && echo BROKEN; true",
    "hostname_and_ipc": "ipcs -m | grep -q 0x && echo BROKEN; true",
}


async def attempts(env: Environment, words: dict[str, str], *, walls: str) -> dict[str, str]:
    found: dict[str, str] = {}
    scripts = {**SHELL, **(BWRAP_ONLY if walls == "bwrap" else {})}
    commands = {name: ["bash", "-c", filled(script, words)] for name, script in scripts.items()}
    commands |= {name: ["python3", "-c", PRELUDE + filled(script, words)] for name, script in PYTHON.items()}
    for name, argv in commands.items():
        try:
            done = await env.exec(argv, timeout=30)
        except EnvironmentFailure as error:
            found[name] = f"the sandbox did not stand: {error}"
            continue
        said = done.output.decode(errors="replace")
        wrong = "BROKEN" in said or BAIT in said or done.timed_out or "Traceback" in said or "Error:" in said
        found[name] = said[-1500:] if wrong else ""
    found["write_by_the_file_tools"] = await by_file_tools(env, words)
    found["large_file"] = await large_file(env)
    return found


async def by_file_tools(env: Environment, words: dict[str, str]) -> str:
    got: list[str] = []
    for path in ("out", "outfolder/file", "outfolder/new", f"{words['OUTSIDE']}/file", f"{words['HOME']}/.melete/.env"):
        try:
            await env.write(path, b"x")
        except OSError:
            continue
        if not path.startswith(words["HOME"]):
            got.append(f"wrote {path}")
    for path in (
        f"{words['HOME']}/.ssh/id_rsa",
        "~/.aws/credentials",
        "key",
        "/etc/shadow",
        f"/proc/{words['AGENT']}/environ",
    ):
        try:
            if await env.read(path):
                got.append(f"read {path}")
        except OSError:
            continue
    return ", ".join(got)


async def large_file(env: Environment) -> str:
    done = await env.exec(
        ["bash", "-c", "dd if=/dev/zero of=big bs=1M count=64; code=$?; stat -c %s big; rm big; exit $code"]
    )
    size = int(done.output.split()[-1])
    return "" if size <= FILE_MB << 20 and done.notes else f"{size} bytes, {done.notes}"


def filled(script: str, words: dict[str, str]) -> str:
    for name, value in words.items():
        script = script.replace(name, value)
    return script


def bait(folder: Path) -> None:
    home = folder / "home"
    for path in (
        ".ssh/id_rsa",
        ".aws/credentials",
        ".bash_history",
        ".melete/.env",
        ".melete/state/log",
        "other/notes",
    ):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(BAIT)
    (home / "work").mkdir()
    (folder / "outside").mkdir()
    (folder / "outside/file").write_text(UNTOUCHED)
    (home / "work/out").symlink_to(folder / "outside/file")
    (home / "work/outfolder").symlink_to(folder / "outside")
    (home / "work/key").symlink_to(home / ".ssh/id_rsa")


async def run(walls: Literal["bwrap", "landlock"], folder: Path) -> dict[str, Any]:
    bait(folder)
    home, outside = folder / "home", folder / "outside"
    os.environ["AGENT_KEY"] = BAIT
    victim = subprocess.Popen(["sleep", "600"], env={"KEY": BAIT}, cwd=home)  # noqa: ASYNC220
    servers = [socket.socket(socket.AF_INET), socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)]
    addresses: list[Any] = [("127.0.0.1", 0), f"\0{ABSTRACT}{os.getpid()}", str(outside / "service.sock")]
    for server, address in zip(servers, addresses, strict=True):
        server.bind(address)
        server.listen()
        server.setblocking(False)
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", 0))
    datagrams.setblocking(False)
    words = {
        "ABSTRACT": f"{ABSTRACT}{os.getpid()}", "AGENT": str(os.getpid()), "HOME": str(home), "OUTSIDE": str(outside),
        "PROCESSES": str(PROCESSES), "TCP": str(servers[0].getsockname()[1]), "UDP": str(datagrams.getsockname()[1]),
        "VICTIM": str(victim.pid),
    }  # fmt: skip
    options = SandboxOptions(
        walls=walls, network="off", processes=PROCESSES, temp_mb=TEMP_MB, file_mb=FILE_MB, show=(str(outside),)
    )
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(home)}
    env = Sandbox(
        Place(
            cwd=str(home / "work"), variables=variables, options=options, key="hostile", hidden=(str(home / ".melete"),)
        )
    )
    try:
        found = await attempts(env, words, walls=walls)
    finally:
        await env.aclose()
        ended = victim.poll()
        victim.kill()
        victim.wait()
    alive = home / "work/alive"
    before = alive.read_text()
    time.sleep(0.3)  # noqa: ASYNC251 - nothing else runs
    reached = [str(server.getsockname()) for server in servers if heard(server.accept)]
    found["nothing_outside_changed"] = "; ".join(
        what
        for what, wrong in {
            "the daemon goes on": alive.read_text() != before,
            "the victim was ended": ended is not None,
            "the file was changed": (outside / "file").read_text() != UNTOUCHED,
            "the folder was changed": sorted(path.name for path in outside.iterdir()) != ["file", "service.sock"],
            "Melete's own was changed": (home / ".melete/.env").read_text() != BAIT,
            "the home was changed": sorted(path.name for path in home.iterdir())
            != [".aws", ".bash_history", ".melete", ".ssh", "other", "work"],
            "mounts were made": str(folder) in Path("/proc/self/mounts").read_text(),
            f"servers were reached: {reached}": bool(reached),
            "a datagram came": heard(lambda: datagrams.recv(10)),
        }.items()
        if wrong
    )
    for server in (*servers, datagrams):
        server.close()
    return found


def heard(listen: Any) -> bool:
    try:
        listen()
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    try:
        print(json.dumps(asyncio.run(run(cast("Any", sys.argv[1]), Path(sys.argv[2])))))
    finally:
        shutil.rmtree(sys.argv[2], ignore_errors=True)
