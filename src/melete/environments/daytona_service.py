"""The service Daytona through its own library. Loaded at the first use of the environment `daytona`; needs the extra `daytona`."""

import asyncio
import base64
import contextlib
import re
import shlex
import warnings
from collections.abc import Callable, Generator
from secrets import token_hex
from typing import Any

from daytona import (
    AsyncDaytona,
    AsyncSandbox,
    CreateSandboxFromImageParams,
    CreateSandboxFromSnapshotParams,
    DaytonaConfig,
    Resources,
    SandboxState,
)
from daytona.common.errors import (
    DaytonaAuthenticationError,
    DaytonaBadGatewayError,
    DaytonaConflictError,
    DaytonaConnectionError,
    DaytonaError,
    DaytonaForbiddenError,
    DaytonaGoneError,
    DaytonaNotFoundError,
    DaytonaRateLimitError,
    DaytonaServiceUnavailableError,
    DaytonaTimeoutError,
)

from melete.core.errors import EnvironmentFailure
from melete.core.places import DaytonaOptions
from melete.environments.service import Away, Gone
from melete.environments.spool import Reply

NAME = "daytona"
CREATE_SECONDS = 600.0
STOP_SECONDS = 120.0
UPLOADED = 32_000
"""Bytes of input from which on it is sent as a file."""
DOWNLOADED = 200_000
"""Bytes of output from which on it is fetched as a file."""
PIECES = 64
LOST = (DaytonaNotFoundError, DaytonaGoneError)
SILENT = (DaytonaConnectionError, DaytonaTimeoutError, DaytonaBadGatewayError, DaytonaServiceUnavailableError)
RUNNING = (SandboxState.STARTED, SandboxState.STARTING, SandboxState.RESTORING, SandboxState.RESIZING)
BROKEN = (SandboxState.ERROR, SandboxState.BUILD_FAILED, SandboxState.DESTROYED, SandboxState.DESTROYING)

_RUN = r"""
umask 077; f=$(mktemp -d "${TMPDIR:-/tmp}/melete-call-XXXXXX") || { echo "74 0 -"; exit 0; }
printf %s SCRIPT | base64 -d > "$f/script"
if [ -n INPUT ]; then sh "$f/script" < INPUT > "$f/out" 2>/dev/null; else printf %s DATA | base64 -d > "$f/in"
    sh "$f/script" < "$f/in" > "$f/out" 2>/dev/null; fi
c=$?; s=$(($(wc -c < "$f/out")))
if [ $s -le MOST ]; then echo "$c $s -"; base64 "$f/out"; rm -rf "$f"; else echo "$c $s $f"; fi
[ -z INPUT ] || rm -f INPUT
"""


class DaytonaService:
    """One sandbox of Daytona, named after the session; see `service.Service`."""

    name = NAME

    def __init__(self, key: str, options: DaytonaOptions, *, session: str, api_url: str) -> None:
        self._options, self._name = options, f"melete-{session}"
        self._config = DaytonaConfig(
            api_key=key, api_url=api_url or None, target=options.target or None, use_deprecated_polling=True
        )
        self._client: AsyncDaytona | None = None
        self._sandbox: AsyncSandbox | None = None
        self._unsure = False

    async def open(self) -> None:
        """Find the sandbox by its name and start it, else make it."""
        client = self._client = self._client or self._connected()
        with _told("make a sandbox"):
            found = await self._found(client)
            if found is None:
                self._unsure = True
                found = await self._made(client)
            elif found.state != SandboxState.STARTED:
                await found.start(timeout=CREATE_SECONDS)
            self._sandbox, self._unsure = found, False

    def _connected(self) -> AsyncDaytona:
        """A client without the library's channel of events: that one leaves connections open, and asking now and then is enough."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return AsyncDaytona(self._config)

    async def _made(self, client: AsyncDaytona) -> AsyncSandbox:
        try:
            return await client.create(self._parameters(), timeout=CREATE_SECONDS)
        except DaytonaError as error:
            self._unsure = isinstance(error, SILENT)
            raise

    async def _found(self, client: AsyncDaytona) -> AsyncSandbox | None:
        try:
            found = await client.get(self._name)
        except LOST:
            return None
        if found.state not in BROKEN:
            return found
        await found.delete(timeout=STOP_SECONDS, wait=True)
        return None

    def _parameters(self) -> CreateSandboxFromImageParams | CreateSandboxFromSnapshotParams:
        given = self._options
        common = {
            "name": self._name,
            "labels": {"made-by": "melete"},
            "auto_stop_interval": given.idle_minutes,
            "network_block_all": given.network == "off",
            "ephemeral": not given.keep,
        }
        if not given.image:
            return CreateSandboxFromSnapshotParams.model_validate(common)
        size = Resources(cpu=given.cpus, memory=given.memory_gb, disk=given.disk_gb)
        return CreateSandboxFromImageParams.model_validate({**common, "image": given.image, "resources": size})

    async def run(self, script: str, *, data: bytes = b"", seconds: float) -> Reply:
        """Run a script through the sandbox's shell; what is large goes and comes as a file."""
        sandbox = self._there()
        uploaded = f"/tmp/melete-{token_hex(8)}.in" if len(data) > UPLOADED else ""  # noqa: S108 - a name in the sandbox
        try:
            if uploaded:
                await sandbox.fs.upload_file(data, uploaded, int(seconds) + 1)
            command = "sh -c " + shlex.quote(_command(script, b"" if uploaded else data, uploaded))
            done = await sandbox.process.exec(command, timeout=int(seconds) + 1)
            head, _, text = done.result.partition("\n")
            match head.split():
                case [code, _, "-"]:
                    return Reply(code=int(code), output=base64.b64decode(re.sub(r"\s", "", text)))
                case [code, _, folder]:
                    output = await sandbox.fs.download_file(f"{folder}/out", int(seconds) + 1)
                    await sandbox.process.exec(f"rm -rf {folder}", timeout=int(seconds) + 1)
                    return Reply(code=int(code), output=output)
                case _:
                    said = done.result.strip()[:200] or f"status {done.exit_code}"
                    raise EnvironmentFailure(
                        f"the sandbox at Daytona did not answer as expected: {said}", next="try again"
                    )
        except DaytonaError as error:
            raise await self._explained(error) from error

    async def terminal(self, path: str) -> "DaytonaTerminal":
        """A terminal session of the sandbox; its shell is told to run the script."""
        sandbox = self._there()
        terminal = DaytonaTerminal()
        try:
            handle = await sandbox.process.create_pty_session(f"melete-{token_hex(6)}", terminal.take)
            await handle.send_input(f" exec sh {shlex.quote(path)}\n")
        except DaytonaError as error:
            raise await self._explained(error) from error
        terminal.handle = handle
        return terminal

    def _there(self) -> AsyncSandbox:
        if self._sandbox is None:
            raise Gone("the sandbox at Daytona is gone", next="run the command again: it makes another")
        return self._sandbox

    async def _explained(self, error: DaytonaError) -> EnvironmentFailure:
        """What an error of a request in the sandbox means: a sandbox that is stopped or gone is not always named as the reason."""
        client, sandbox = self._client, self._sandbox
        if client is None or sandbox is None:
            return _failure(error, "use the sandbox")
        try:
            state = (await client.get(sandbox.id)).state
        except LOST:
            return Gone(
                "the sandbox at Daytona is gone, with its files", next="run the command again: it makes another"
            )
        except DaytonaError as second:
            return _failure(second, "use the sandbox")
        if state not in RUNNING:
            word = state.value if state else "gone"
            return Gone(
                f"the sandbox at Daytona is {word}", next="run the command again: it starts it, or makes another"
            )
        return _failure(error, "use the sandbox")

    def remarks(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    async def lose(self) -> None:
        """Forget the sandbox; its name finds it again when it was only stopped."""
        self._sandbox = None

    async def close(self) -> None:
        """Stop the sandbox where it is kept, else delete it."""
        client, self._client = self._client, None
        if client is None:
            return
        try:
            sandbox = self._sandbox or (await self._found(client) if self._unsure else None)
            self._sandbox = None
            if sandbox is not None and self._options.keep:
                await sandbox.stop(timeout=STOP_SECONDS)
            elif sandbox is not None:
                await sandbox.delete(timeout=STOP_SECONDS)
        except (DaytonaNotFoundError, DaytonaConflictError):
            return  # it has ended by itself
        except DaytonaError as error:
            raise _failure(error, f"end the sandbox {self._name}; look for it in your account") from error
        finally:
            await client.close()


class DaytonaTerminal:
    """A terminal session of the sandbox; see `service.Terminal`."""

    def __init__(self) -> None:
        self.handle: Any = None
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(PIECES)

    async def take(self, data: bytes) -> None:
        """Called by the library for each piece of output; it waits while nobody reads."""
        await self._pieces.put(data)

    async def receive(self) -> bytes:
        """The next piece; empty at the end."""
        if self._pieces.empty() and self.handle:
            async with asyncio.TaskGroup() as group:
                ended = group.create_task(self.handle.wait())
                piece = group.create_task(self._pieces.get())
                await asyncio.wait([ended, piece], return_when=asyncio.FIRST_COMPLETED)
                ended.cancel()
                if not piece.done():
                    piece.cancel()
            if not piece.cancelled():
                return piece.result()
        return b"" if self._pieces.empty() else self._pieces.get_nowait()

    async def send(self, data: bytes) -> None:
        """Type something."""
        if self.handle is None:
            raise EnvironmentFailure("its terminal is closed")
        try:
            await self.handle.send_input(data)
        except DaytonaError as error:
            raise EnvironmentFailure("its terminal is closed") from error

    async def close(self) -> None:
        """End the session there, if it still runs, and let go of it."""
        handle, self.handle = self.handle, None
        if handle is not None:
            with contextlib.suppress(DaytonaError):  # it has ended
                if handle.is_connected():
                    await handle.kill()
            await handle.disconnect()


def _command(script: str, data: bytes, uploaded: str) -> str:
    words: dict[str, Callable[[], str]] = {
        "SCRIPT": lambda: base64.b64encode(script.encode()).decode(),
        "INPUT": lambda: uploaded or '""',
        "DATA": lambda: base64.b64encode(data).decode() or '""',
        "MOST": lambda: str(DOWNLOADED),
    }
    return re.sub("SCRIPT|INPUT|DATA|MOST", lambda found: words[found.group()](), _RUN)


@contextlib.contextmanager
def _told(doing: str) -> Generator[None]:
    """Turn errors of the library into ours; `doing` ends the sentence `Daytona could not …`."""
    try:
        yield
    except DaytonaError as error:
        raise _failure(error, doing) from error


def _failure(error: DaytonaError, doing: str) -> EnvironmentFailure:
    said = " ".join(str(error).split())[:300]
    if isinstance(error, DaytonaAuthenticationError):
        return EnvironmentFailure("Daytona refused the key in DAYTONA_API_KEY", next="make a new one and put it there")
    if isinstance(error, DaytonaForbiddenError):
        fix = "look at the limits of your organisation and at what the key may do"
        return EnvironmentFailure(f"Daytona does not allow it: {said}", next=fix)
    if isinstance(error, DaytonaRateLimitError):
        return EnvironmentFailure(f"Daytona's limit is reached: {said}", next="wait a little, or raise the limit there")
    if isinstance(error, SILENT):
        return Away(
            f"Daytona did not answer: {said}", next="see whether the network and the service are up, then try again"
        )
    return EnvironmentFailure(f"Daytona could not {doing}: {said}", next="try again, or choose another environment")
