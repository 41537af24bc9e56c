"""A real sshd on loopback for tests: its own keys, its own list of who may log in, and a home of its own."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from melete.core.places import SshOptions

HOST = "127.0.0.1"
SHORT = "/tmp"


class Sshd:
    """A server in `folder`; `options()` are the settings that reach it. Starting it again uses the same port and keys."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.user = pwd.getpwuid(os.getuid()).pw_name
        self.port = _free_port()
        self.more: list[str] = []
        """More settings of the server for its next start."""
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("host", "user", "stranger"):
            _keygen(folder / name)
        shutil.copy(folder / "user.pub", folder / "authorized")
        (folder / "known").write_text(f"[{HOST}]:{self.port} {(folder / 'host.pub').read_text()}")
        (folder / "config").write_text("")

    def options(self, **changed: Any) -> SshOptions:
        """The settings of `ssh:` that reach this server."""
        given: dict[str, Any] = {
            "host": HOST, "port": self.port, "user": self.user, "key": str(self.folder / "user"),
            "known_hosts": str(self.folder / "known"), "config": str(self.folder / "config"),
        }  # fmt: skip
        return SshOptions(**{**given, **changed})

    def start(self) -> None:
        """Listen; returns when it does."""
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        settings = [
            f"Port={self.port}", f"ListenAddress={HOST}", f"HostKey={self.folder}/host", "UsePAM=no", "PidFile=none",
            f"AuthorizedKeysFile={self.folder}/authorized", "StrictModes=no", f"SetEnv=HOME={self.home}",
            "PasswordAuthentication=no", "KbdInteractiveAuthentication=no", *self.more,
        ]  # fmt: skip
        program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") or "/usr/sbin/sshd"
        argv = [program, "-D", "-e", "-f", "/dev/null", *(word for one in settings for word in ("-o", one))]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + 20
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((self.folder / "log").read_text())
            time.sleep(0.02)

    def stop(self) -> None:
        """Listen no more and break every connection; what ran in them is not touched."""
        if self._process is not None:
            connections = self.connections()
            self._process.kill()
            self._process.wait()
            self._process = None
            for pid in connections:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def connections(self) -> list[int]:
        """The processes of the server that each hold one connection."""
        return [] if self._process is None else _below(self._process.pid)

    def cut(self) -> None:
        """Break every connection, as a network that goes away does; the server listens on."""
        for pid in self.connections():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), timeout=1) as made:
            return made.recv(4) == b"SSH-"
        return False


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Sshd]:
    """A server that runs."""
    server = Sshd(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _below(parent: int) -> list[int]:
    """Children that are sshd, and theirs."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent and (entry / "comm").read_text().strip() == "sshd":
                found += [int(entry.name), *_below(int(entry.name))]
    return found


def _keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]
