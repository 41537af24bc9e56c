"""The service Modal through its own library. Loaded at the first use of the environment `modal`; needs the extra `modal`.

The library runs its own event loop in a thread of its own: every `.aio` below crosses over to it and back.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import Any

import modal
from modal import exception

from melete.core.errors import EnvironmentFailure
from melete.core.places import ModalOptions
from melete.environments.service import Away, Gone
from melete.environments.spool import Reply

sdk: Any = modal  # its types leave much unknown
NAME = "modal"
CLIENT = 1  # api_pb2.CLIENT_TYPE_CLIENT: a person's program, not one inside a container of Modal
CREATE_SECONDS = 600.0
SNAPSHOT_SECONDS = 300
CHUNK = 1_000_000
ANSWER = 20.0
"""Seconds that the service has to answer a short question."""
LOST = (
    exception.NotFoundError,
    exception.SandboxTerminatedError,
    exception.SandboxTimeoutError,
    exception.ConflictError,
)
SILENT = (
    exception.ConnectionError, exception.ServiceError, exception.TimeoutError, exception.InternalError, OSError, TimeoutError,
)  # fmt: skip


class ModalService:
    """One sandbox of Modal, named after the session; see `service.Service`.

    `token` is (id, secret), or None for what the library finds in its own configuration; `gateway` stands in for the address of
    the service. What is kept is a snapshot of the files, whose id rests in the file `memory`.
    """

    name = NAME

    def __init__(
        self, token: tuple[str, str] | None, options: ModalOptions, *, session: str, gateway: str, memory: Path
    ) -> None:
        self._token, self._options, self._gateway, self._memory = token, options, gateway, memory
        self._name = f"melete-{session}"
        self._client: Any = None
        self._sandbox: Any = None
        self._unsure = False
        self._remarks: list[str] = []

    def remarks(self) -> tuple[str, ...]:
        """What there is to say since the last call."""
        said, self._remarks = tuple(self._remarks), []
        return said

    async def open(self) -> None:
        """Find the sandbox that runs under this name, else make one from the last snapshot or from the image."""
        with _told("make a sandbox"):
            async with asyncio.timeout(ANSWER):
                client = self._client = self._client or await self._connected()
                found = await self._found(client)
            async with asyncio.timeout(CREATE_SECONDS):
                self._sandbox = found or await self._made(client)
                self._unsure = False

    async def _connected(self) -> Any:
        if self._gateway:
            token = self._token or ("", "")
            client = sdk.Client(self._gateway, CLIENT, token)  # the library's own makers know one address only
            return await client.__aenter__()
        if self._token:
            return await sdk.Client.from_credentials.aio(*self._token)
        return await sdk.Client.from_env.aio()

    async def _found(self, client: Any) -> Any:
        with contextlib.suppress(exception.NotFoundError):
            return await sdk.Sandbox.from_name.aio(self._options.app, self._name, client=client)
        return None

    async def _made(self, client: Any) -> Any:
        app = await sdk.App.lookup.aio(self._options.app, client=client, create_if_missing=True)
        kept = self._memory.read_text().strip() if self._memory.exists() else ""
        if kept:
            with contextlib.suppress(exception.NotFoundError):
                return await self._create(client, app, sdk.Image.from_id(kept, client=client))
            self._memory.unlink(missing_ok=True)
            self._remarks.append(
                "the snapshot of this session's files is gone at Modal: this sandbox begins from its image"
            )
        return await self._create(client, app, sdk.Image.from_registry(self._options.image))

    async def _create(self, client: Any, app: Any, image: Any) -> Any:
        given = self._options
        self._unsure = True
        try:
            return await sdk.Sandbox.create.aio(
                "tail", "-f", "/dev/null", app=app, client=client, image=image, name=self._name, timeout=given.seconds,
                idle_timeout=given.idle_minutes * 60 or None, cpu=given.cpus, memory=given.memory_mb,
                block_network=given.network == "off", tags={"made-by": "melete"},
            )  # fmt: skip
        except exception.Error as error:
            self._unsure = isinstance(error, SILENT)
            raise

    async def run(self, script: str, *, data: bytes = b"", seconds: float) -> Reply:
        """Run a script as a process of the sandbox, its input and output as streams of bytes."""
        sandbox = self._there()
        try:
            async with asyncio.timeout(seconds + ANSWER):
                process = await sandbox.exec.aio("sh", "-c", script, text=False, timeout=int(seconds) + 1)
                for start in range(0, len(data), CHUNK):
                    process.stdin.write(data[start : start + CHUNK])
                    await process.stdin.drain.aio()
                process.stdin.write_eof()
                await process.stdin.drain.aio()
                output = await process.stdout.read.aio()
                code = await process.wait.aio()
        except (exception.Error, OSError, TimeoutError) as error:
            raise await self._explained(error) from error
        if code < 0:  # how the library says that its time was over
            raise Away(
                "Modal did not answer in time", next="see whether the network and the service are up, then try again"
            )
        return Reply(code=code, output=output)

    async def terminal(self, path: str) -> "ModalTerminal":
        """A process with a terminal."""
        sandbox = self._there()
        try:
            async with asyncio.timeout(ANSWER):
                return ModalTerminal(await sandbox.exec.aio("sh", path, text=False, pty=True))
        except (exception.Error, OSError, TimeoutError) as error:
            raise await self._explained(error) from error

    def _there(self) -> Any:
        if self._sandbox is None:
            raise Gone("the sandbox at Modal is gone", next="run the command again: it makes another")
        return self._sandbox

    async def _explained(self, error: Exception) -> EnvironmentFailure:
        """What an error of a request in the sandbox means: one that has ended is not always named as the reason."""
        over = isinstance(error, LOST)
        if not over and self._sandbox is not None:
            try:
                async with asyncio.timeout(ANSWER):
                    over = await self._sandbox.poll.aio() is not None
            except LOST:
                over = True
            except (exception.Error, OSError, TimeoutError) as second:
                return _failure(second, "use the sandbox")
        if over:
            fix = "run the command again: it makes another; modal.seconds and modal.idle_minutes say how long one lives"
            return Gone("the sandbox at Modal has ended, with the files that were not copied or kept", next=fix)
        return _failure(error, "use the sandbox")

    async def lose(self) -> None:
        """Forget the sandbox."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.detach.aio()

    async def close(self) -> None:
        """Keep a snapshot of the files where that is wished, then end the sandbox."""
        client, self._client = self._client, None
        if client is None:
            return
        try:
            with _told(f"end the sandbox {self._name}; look for it in your account"):
                async with asyncio.timeout(SNAPSHOT_SECONDS + ANSWER):
                    sandbox = self._sandbox or (await self._found(client) if self._unsure else None)
                    if sandbox is not None:
                        await self._end(sandbox)
        except Gone:
            return  # it has ended by itself
        finally:
            self._sandbox = None
            await client.__aexit__(None, None, None)

    async def _end(self, sandbox: Any) -> None:
        try:
            if self._options.keep and self._sandbox is not None:
                image = await sandbox.snapshot_filesystem.aio(SNAPSHOT_SECONDS)
                self._memory.parent.mkdir(parents=True, exist_ok=True)
                self._memory.write_text(image.object_id + "\n")
        finally:
            await sandbox.terminate.aio()
            await sandbox.detach.aio()


class ModalTerminal:
    """A process with a terminal there; see `service.Terminal`."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self._pieces: AsyncIterator[bytes] = aiter(process.stdout)
        self._open = True

    async def receive(self) -> bytes:
        """The next piece; empty at the end."""
        try:
            return await anext(self._pieces)
        except (StopAsyncIteration, exception.Error, OSError):
            return b""  # whoever asks what became of the program is told why

    async def send(self, data: bytes) -> None:
        """Type something."""
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain.aio()
        except (exception.Error, OSError, ValueError) as error:
            raise EnvironmentFailure("its terminal is closed") from error

    async def close(self) -> None:
        """Nothing is held: the process ends with its program or its sandbox."""
        self._open = False


@contextlib.contextmanager
def _told(doing: str) -> Generator[None]:
    """Turn errors of the library into ours; `doing` ends the sentence `Modal could not …`."""
    try:
        yield
    except (exception.Error, OSError, TimeoutError) as error:
        raise _failure(error, doing) from error


def _failure(error: Exception, doing: str) -> EnvironmentFailure:
    said = " ".join(str(error).split())[:300] or type(error).__name__
    if isinstance(error, exception.AuthError):
        fix = "make a new one with `modal token new`, or put MODAL_TOKEN_ID and MODAL_TOKEN_SECRET into .env"
        return EnvironmentFailure(f"Modal refused the token: {said}", next=fix)
    if isinstance(error, exception.PermissionDeniedError):
        return EnvironmentFailure(
            f"Modal does not allow it: {said}", next="look at what the token may do in the workspace"
        )
    if isinstance(error, exception.ResourceExhaustedError):
        fix = "end sandboxes that you do not need, or raise the limit in the workspace's settings"
        return EnvironmentFailure(f"Modal's limit is reached: {said}", next=fix)
    if isinstance(error, LOST):
        return Gone(f"the sandbox at Modal is gone: {said}", next="run the command again: it makes another")
    if isinstance(error, SILENT):
        return Away(
            f"Modal did not answer: {said}", next="see whether the network and the service are up, then try again"
        )
    return EnvironmentFailure(f"Modal could not {doing}: {said}", next="try again, or choose another environment")
