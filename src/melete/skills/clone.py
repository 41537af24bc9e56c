"""A skill out of a git repository, without a working tree: nothing of the repository is run, filtered, linked or followed."""

import asyncio
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from melete.core.tool import ToolError

SCHEMES: Final = ("https", "ssh", "file")
TIMEOUT: Final = 120.0
LARGEST_LIST: Final = 16_000_000
LARGEST_PACK: Final = 524_288
"""What one file of a clone may take, in blocks of 512 bytes."""
SHOWN, NOT_FOUND = 300, 127
PASSED: Final = ("PATH", "HOME", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY")
"""Variables that git needs to reach a server as the person does."""
ENVIRONMENT: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oPermitLocalCommand=no -oClearAllForwardings=yes",
    "LC_ALL": "C",
}
CLONE: Final = (
    "clone", "--quiet", "--bare", "--depth=1", "--single-branch", "--no-tags", "--no-recurse-submodules", "--template=",
)  # fmt: skip
REF = re.compile(r"[\w][\w./+-]{0,199}")
PLAIN = frozenset({"100644", "100755"})
"""The modes of files; others are links and submodules."""


class Blob(NamedTuple):
    """An entry of a tree: what it is, its content's name, how long it is and where it lies."""

    mode: str
    name: str
    size: int
    path: str


class Repository:
    """A clone in a folder of its own. `scheme` is the only way on which git may reach anything."""

    def __init__(self, folder: Path, *, scheme: str, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._errors = folder.with_name("errors")
        self._locked = ("-c", "protocol.allow=never", "-c", f"protocol.{scheme}.allow=always")
        self._locked += ("-c", f"core.hooksPath={os.devnull}", "-c", "http.followRedirects=false", "-c", "gc.auto=0")
        self._environ = {key: environ[key] for key in PASSED if key in environ} | ENVIRONMENT
        self._environ["GIT_ALLOW_PROTOCOL"] = scheme

    async def clone(self, url: str, ref: str = "") -> str:
        """Fetch the last commit, of a branch or tag, and return its name; raises ToolError."""
        if ref and not REF.fullmatch(ref):
            raise ToolError(f"{ref[:80]!r} is no name of a branch or tag")
        branch = ("--branch", ref) if ref else ()
        await self._git(*CLONE, *branch, "--", url, str(self._folder))
        return (await self._git("rev-parse", "HEAD", inside=True)).decode().strip()

    async def entries(self) -> list[Blob]:
        """What lies in the commit; raises ToolError."""
        rows = await self._git("ls-tree", "-r", "-z", "-l", "--full-tree", "HEAD", inside=True, most=LARGEST_LIST)
        found: list[Blob] = []
        for row in rows.decode("utf-8", "surrogateescape").split("\0")[:-1]:
            about, _, path = row.partition("\t")
            mode, _, name, size = about.split()
            found.append(Blob(mode, name, int(size) if size.isdecimal() else 0, path))
        return found

    async def contents(self, blobs: Sequence[Blob]) -> list[bytes]:
        """The contents, as they were committed; raises ToolError."""
        most = sum(blob.size + 200 for blob in blobs)
        asked = "".join(f"{blob.name}\n" for blob in blobs).encode()
        data = await self._git("cat-file", "--batch", inside=True, stdin=asked, most=most)
        found: list[bytes] = []
        at = 0
        for blob in blobs:
            start = data.find(b"\n", at) + 1
            if data[at:start].split() != [blob.name.encode(), b"blob", str(blob.size).encode()]:
                raise ToolError(f"the repository does not hold what it lists as {ascii(blob.path)[:200]}")
            at = start + blob.size + 1
            found.append(data[start : at - 1])
        return found

    async def _git(self, *words: str, inside: bool = False, stdin: bytes = b"", most: int = SHOWN) -> bytes:
        where = ("--git-dir", str(self._folder)) if inside else ()
        limited = ("sh", "-c", 'ulimit -f "$0"; exec "$@"', str(LARGEST_PACK))
        with self._errors.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *limited, "git", *self._locked, *where, *words,
                stdin=PIPE if stdin else DEVNULL, stdout=PIPE, stderr=errors, env=self._environ,
                cwd=self._folder.parent, start_new_session=True,
            )  # fmt: skip
        try:
            async with asyncio.timeout(TIMEOUT):
                data = await _talk(process, stdin, most)
        except TimeoutError as error:
            raise ToolError(f"git {words[0]} took longer than {TIMEOUT:g} s") from error
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if len(data) > most:
            raise ToolError("the repository holds more than a repository of skills does")
        if process.returncode:
            said = self._errors.read_bytes()[-SHOWN:].decode("utf-8", "replace").strip()
            why = "git is not installed" if process.returncode == NOT_FOUND else said or f"exit {process.returncode}"
            raise ToolError(f"git {words[0]} failed: {why}")
        return data


async def _talk(process: Process, stdin: bytes, most: int) -> bytes:
    """Hand over the input and read the output, a little more than `most` at most."""
    data = bytearray()

    async def give() -> None:
        if process.stdin:
            with suppress(BrokenPipeError, ConnectionResetError):
                process.stdin.write(stdin)
                await process.stdin.drain()
            process.stdin.close()

    async with asyncio.TaskGroup() as group:
        group.create_task(give())
        if process.stdout:
            while len(data) <= most and (block := await process.stdout.read(65_536)):
                data += block
    if len(data) <= most:
        await process.wait()
    return bytes(data)
