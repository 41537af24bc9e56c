"""A real container engine for tests: the one that answers, else a dockerd that is started by hand; and an image without a registry.

The image is made of programs of this machine and what they load.
"""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from msgspec import Struct

from melete.core.environment import Place
from melete.core.places import DockerOptions

IMAGE = "melete-test:1"
STRICT = "MELETE_CI_STRICT"
STARTING = 60
PROGRAMS = """
awk base64 basename bash cat chgrp chmod chown cmp cp cut date dd df diff dirname du echo env expr false find getent git grep
head hostname id kill ln ls mkdir mkfifo mknod mktemp mount mv nohup od paste perl pgrep pkill printenv printf ps pwd python3
readlink realpath rm rmdir sed seq setsid sh sha256sum sleep sort split stat stty sync tail tar tee test timeout touch tr
true truncate tty uname uniq unshare wc which whoami xargs yes
"""


class RunningEngine(Struct, frozen=True, kw_only=True):
    """An engine that answers at `host` and has `image`; `client` is the program that talks to it."""

    host: str
    image: str = IMAGE
    client: str = "docker"

    def options(self, **changed: object) -> DockerOptions:
        """The settings of `docker:` that reach it."""
        given = {"host": self.host, "image": self.image, "memory_mb": 512, "command": self.client}
        return DockerOptions(**{**given, **changed})

    def place(self, folder: Path, *, key: str, variables: Mapping[str, str] | None = None, **changed: object) -> Place:
        """A place in it, with `folder` as the working folder, whose commands see `variables`."""
        shown = dict(variables or {})
        given = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **shown}
        return Place(cwd=str(folder), variables=given, options=self.options(variables=tuple(shown), **changed), key=key)

    def __call__(self, *words: str) -> str:
        """One call of the client."""
        env = {"PATH": os.environ["PATH"], "DOCKER_HOST": self.host}
        done = subprocess.run([self.client, *words], env=env, capture_output=True, check=True, text=True)
        return done.stdout.strip()

    def containers(self) -> list[str]:
        """All containers, stopped ones too."""
        return self("ps", "--all", "--quiet", "--no-trunc").split()


@pytest.fixture(scope="module")
def engine() -> Iterator[RunningEngine]:
    """An engine for the tests of a module."""
    with running() as found:
        with_image(found)
        before = found.containers()
        yield found
        left = [id for id in found.containers() if id not in before]
        for id in left:
            found("rm", "--force", id)
        assert left == []


@contextlib.contextmanager
def running() -> Iterator[RunningEngine]:
    """The engine that answers already, else one that runs as long as the context does."""
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if _answers(host):
        yield RunningEngine(host=host)
        return
    if os.getuid() or not shutil.which("dockerd"):
        told = pytest.fail if os.environ.get(STRICT) == "1" else pytest.skip
        told("no container engine answers, and only root can start one")
    folder = Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))  # short: it holds a socket
    try:
        with _started(folder) as host:
            yield RunningEngine(host=host)
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def _started(folder: Path) -> Iterator[str]:
    host = f"unix://{folder}/docker.sock"
    argv = [
        "dockerd", "-H", host, "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid",
        "--bridge=none", "--iptables=false", "--ip6tables=false", "--group", str(os.getgid()),
    ]  # fmt: skip
    if shutil.which("setpriv"):  # so that it ends even when the tests are killed
        argv = ["setpriv", "--pdeathsig", "TERM", *argv]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        until = time.monotonic() + STARTING
        while not _answers(host):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((folder / "log").read_text()[-2000:])
            time.sleep(0.1)
        yield host
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _unmount(folder)


def _answers(host: str) -> bool:
    if not shutil.which("docker"):
        return False
    env = {"PATH": os.environ["PATH"], "DOCKER_HOST": host}
    return subprocess.run(["docker", "version"], env=env, capture_output=True, check=False).returncode == 0


def _unmount(folder: Path) -> None:
    """Take away what an engine mounted below a folder and did not unmount."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    for target in sorted((line.split()[4] for line in lines if f" {folder}/" in line), reverse=True):
        subprocess.run(["umount", "--lazy", target], check=False)


def with_image(engine: RunningEngine) -> None:
    """Give the engine the image, unless it has it."""
    env = {"PATH": os.environ["PATH"], "DOCKER_HOST": engine.host}
    if subprocess.run([engine.client, "image", "inspect", IMAGE], env=env, capture_output=True, check=False).returncode:
        argv = [engine.client, "import", "-", IMAGE]
        subprocess.run(argv, env=env, input=root_file_system(), capture_output=True, check=True)


def root_file_system() -> bytes:
    """A small system as a tar archive: programs of this machine, what they load, and Python with its library."""
    pile = io.BytesIO()
    with tarfile.open(fileobj=pile, mode="w") as tar:
        _folders(tar)
        files: dict[str, Path] = {}
        for name in PROGRAMS.split():
            found = sys.executable if name == "python3" else shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
            if found:
                files[f"usr/bin/{name}"] = Path(found).resolve()
        extensions = Path(sysconfig.get_path("stdlib"), "lib-dynload").glob("*.so")
        for path in sorted({library for file in (*files.values(), *extensions) for library in _loaded(file)}):
            usual = str(path).startswith(("/lib", "/usr/lib"))
            files[str(path).lstrip("/") if usual else f"usr/lib/{path.name}"] = path
        for name, path in files.items():
            _add(tar, name, path.read_bytes(), mode=0o755)
        _add(tar, "usr/bin/setuid-id", files["usr/bin/id"].read_bytes(), mode=0o4755)
        _python(tar)
        _add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n")
        _add(tar, "etc/group", b"root:x:0:\n")
        _add(tar, "etc/secret", b"for root alone\n", mode=0o600)
    return pile.getvalue()


def busybox_file_system() -> bytes:
    """The smallest system: busybox under the names of its programs."""
    busybox = Path(shutil.which("busybox") or "busybox").resolve()
    pile = io.BytesIO()
    with tarfile.open(fileobj=pile, mode="w") as tar:
        _folders(tar)
        for path in _loaded(busybox):
            _add(tar, str(path).lstrip("/"), path.read_bytes(), mode=0o755)
        _add(tar, "usr/bin/busybox", busybox.read_bytes(), mode=0o755)
        for name in subprocess.run([busybox, "--list"], capture_output=True, check=True, text=True).stdout.split():
            if name != "busybox":
                link = tarfile.TarInfo(f"usr/bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
        _add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    return pile.getvalue()


def _folders(tar: tarfile.TarFile) -> None:
    modes = {"tmp": 0o1777, "var/tmp": 0o1777, "root": 0o700}
    for name in (
        "usr",
        "usr/bin",
        "usr/lib",
        "etc",
        "home",
        "root",
        "tmp",
        "var",
        "var/tmp",
        "proc",
        "sys",
        "dev",
        "run",
    ):
        folder = tarfile.TarInfo(name)
        folder.type, folder.mode = tarfile.DIRTYPE, modes.get(name, 0o755)
        tar.addfile(folder)
    for name in ("bin", "sbin", "lib", "lib64"):
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.SYMTYPE, "usr/bin" if "bin" in name else "usr/lib"
        tar.addfile(link)


def _add(tar: tarfile.TarFile, name: str, data: bytes, *, mode: int = 0o644) -> None:
    file = tarfile.TarInfo(name)
    file.mode, file.size = mode, len(data)
    tar.addfile(file, io.BytesIO(data))


def _loaded(program: Path) -> list[Path]:
    """The shared libraries that a program loads, by the paths under which it looks for them."""
    said = subprocess.run(["ldd", str(program)], capture_output=True, check=False, text=True).stdout
    return [Path(found) for found in re.findall(r"(?:=> |^\s*)(/\S+) \(0x", said, re.MULTILINE)]


def _python(tar: tarfile.TarFile) -> None:
    library = Path(sysconfig.get_path("stdlib"))
    left_out = {
        "test",
        "tests",
        "site-packages",
        "dist-packages",
        "__pycache__",
        "idlelib",
        "tkinter",
        "turtledemo",
        "ensurepip",
    }

    def kept(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        info.uid = info.gid = 0
        name = Path(info.name).name
        return None if name in left_out or name.startswith("config-") else info

    tar.add(library, f"usr/lib/{library.name}", filter=kept)
