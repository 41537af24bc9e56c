"""A service with Modal's gRPC API on loopback, as its own library uses it: a sandbox is a folder and its processes.

Two services, as there are two at Modal: the control plane makes sandboxes and images, the command router of a sandbox runs
commands with open streams. Requests and answers are the library's own messages. `Modal` keeps the calls and can be told to fail.
"""

import asyncio
import base64
import contextlib
import fcntl
import os
import pty
import shutil
import signal
import struct
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from secrets import token_hex
from typing import Any

from google.protobuf.message_factory import GetMessageClass
from grpclib import GRPCError, Status
from grpclib.const import Cardinality, Handler
from grpclib.events import RecvRequest, listen
from grpclib.server import Server
from modal_proto import api_pb2, task_command_router_pb2

TOKEN = ("ak-tests", "as-secret-of-the-tests")
MARK = "FAKE_MODAL_SANDBOX"
EXPIRES = base64.urlsafe_b64encode(b'{"exp": 4102444800}').decode().rstrip("=")
ROUTER_KEY = f"e30.{EXPIRES}.jwt-of-the-tests"


class Command:
    """A process in a sandbox: its output is kept, so that it can be read again from anywhere."""

    def __init__(self) -> None:
        self.process: asyncio.subprocess.Process | None = None
        self.terminal = -1
        self.output = bytearray()
        self.read_all = False
        self.code: int | None = None
        self.change = asyncio.Condition()
        self.stdin_offset = 0

    async def pump(self, piece: Callable[[], Awaitable[bytes]]) -> None:
        while data := await piece():
            async with self.change:
                self.output += data
                self.change.notify_all()
        assert self.process is not None
        code = await self.process.wait()
        async with self.change:
            self.read_all, self.code = True, code
            self.change.notify_all()
        if self.terminal >= 0:
            os.close(self.terminal)
            self.terminal = -1


class Box:
    """One sandbox."""

    def __init__(self, definition: Any) -> None:
        self.id = f"sb-fake-{token_hex(8)}"
        self.task = f"ta-fake-{token_hex(8)}"
        self.definition = definition
        self.result: Any = None
        self.commands: dict[str, Command] = {}

    def end(self, status: int) -> None:
        """Everything that runs in it ends at once."""
        self.result = api_pb2.GenericResult(status=status)  # type: ignore[arg-type]
        mark = f"{MARK}={self.id}".encode()
        for _ in range(2):
            for entry in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        os.kill(int(entry.name), signal.SIGKILL)


class Modal:
    """The service. `disk` is the folder that sandboxes write: a new one empties it, a snapshot copies it."""

    def __init__(self, disk: Path, group: asyncio.TaskGroup) -> None:
        self.disk, self._group = disk, group
        self.boxes: dict[str, Box] = {}
        self.images: dict[str, Path | None] = {}
        self.calls: list[str] = []
        self.token = TOKEN
        self.refuse: list[GRPCError] = []
        self.url = ""

    # ---- the control plane ---------------------------------------------------------------------------------------

    async def AuthTokenGet(self, _: Any) -> Any:
        return api_pb2.AuthTokenGetResponse(token=f"e30.{EXPIRES}.x")

    async def EnvironmentGetOrCreate(self, _: Any) -> Any:
        settings = api_pb2.EnvironmentSettings(image_builder_version="2025.06")
        return api_pb2.EnvironmentGetOrCreateResponse(
            environment_id="en-1", metadata=api_pb2.EnvironmentMetadata(name="main", settings=settings)
        )

    async def AppGetOrCreate(self, _: Any) -> Any:
        return api_pb2.AppGetOrCreateResponse(app_id="ap-1")

    async def ImageGetOrCreate(self, asked: Any) -> Any:
        self.images["im-base"] = None
        self.built = list(asked.image.dockerfile_commands)
        done = api_pb2.GenericResult(status=api_pb2.GenericResult.GENERIC_STATUS_SUCCESS)
        return api_pb2.ImageGetOrCreateResponse(image_id="im-base", result=done)

    async def ImageFromId(self, asked: Any) -> Any:
        if asked.image_id not in self.images:
            raise GRPCError(Status.NOT_FOUND, f"no image {asked.image_id}")
        return api_pb2.ImageFromIdResponse(image_id=asked.image_id)

    async def SandboxCreateV2(self, asked: Any) -> Any:
        if self.refuse:
            raise self.refuse.pop(0)
        box = Box(asked.definition)
        self.boxes[box.id] = box
        kept = self.images[asked.definition.image_id]
        shutil.rmtree(self.disk, ignore_errors=True)
        if kept:
            shutil.copytree(kept, self.disk, symlinks=True)
        access = api_pb2.CommandRouterAccess(url=self.url, jwt=ROUTER_KEY)
        return api_pb2.SandboxCreateV2Response(sandbox_id=box.id, task_id=box.task, command_router_access=access)

    async def SandboxGetFromNameV2(self, asked: Any) -> Any:
        for box in self.boxes.values():
            if box.definition.name == asked.sandbox_name and box.result is None:
                return api_pb2.SandboxGetFromNameResponse(sandbox_id=box.id)
        raise GRPCError(Status.NOT_FOUND, f"no sandbox {asked.sandbox_name}")

    async def SandboxGetFromName(self, asked: Any) -> Any:
        raise GRPCError(Status.NOT_FOUND, f"no sandbox {asked.sandbox_name}")

    async def SandboxGetTaskIdV2(self, asked: Any) -> Any:
        box = self._box(asked.sandbox_id)
        if box.result is not None:
            return api_pb2.SandboxGetTaskIdResponse(task_id=box.task, task_result=box.result)
        return api_pb2.SandboxGetTaskIdResponse(task_id=box.task)

    async def SandboxGetCommandRouterAccess(self, asked: Any) -> Any:
        self._box(asked.sandbox_id)
        return api_pb2.SandboxGetCommandRouterAccessResponse(url=self.url, jwt=ROUTER_KEY)

    async def SandboxWaitV2(self, asked: Any) -> Any:
        box = self._box(asked.sandbox_id)
        return api_pb2.SandboxWaitResponse(result=box.result or api_pb2.GenericResult())

    async def SandboxTerminateV2(self, asked: Any) -> Any:
        self._box(asked.sandbox_id).end(api_pb2.GenericResult.GENERIC_STATUS_TERMINATED)
        return api_pb2.SandboxTerminateResponse()

    def _box(self, id: str) -> Box:
        if id not in self.boxes:
            raise GRPCError(Status.NOT_FOUND, f"no sandbox {id}")
        return self.boxes[id]

    # ---- the command router --------------------------------------------------------------------------------------

    def _running(self, task: str) -> Box:
        for box in self.boxes.values():
            if box.task == task and box.result is None:
                return box
        raise GRPCError(Status.NOT_FOUND, f"no task {task} runs here")

    async def TaskExecStart(self, asked: Any) -> Any:
        box = self._running(asked.task_id)
        if asked.exec_id in box.commands:  # the id is what makes a request that came twice harmless
            return task_command_router_pb2.TaskExecStartResponse()
        command = box.commands[asked.exec_id] = Command()
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": "/root",
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
            MARK: box.id,
        }
        if asked.HasField("pty_info"):
            piece = await _in_terminal(command, list(asked.command_args), {**variables, "TERM": "xterm"})
        else:
            command.process = await asyncio.create_subprocess_exec(
                *asked.command_args, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL, cwd="/", env=variables, start_new_session=True,
            )  # fmt: skip
            stdout = command.process.stdout
            assert stdout is not None
            piece = lambda: stdout.read(1 << 16)  # noqa: E731
        self._group.create_task(command.pump(piece))
        return task_command_router_pb2.TaskExecStartResponse()

    async def TaskExecStdinWrite(self, asked: Any) -> Any:
        command = self._running(asked.task_id).commands[asked.exec_id]
        assert command.process is not None
        assert asked.offset == command.stdin_offset
        command.stdin_offset += len(asked.data)
        with contextlib.suppress(OSError):
            if command.terminal >= 0:
                os.write(command.terminal, asked.data)
            elif stdin := command.process.stdin:
                stdin.write(asked.data)
                await stdin.drain()
                if asked.eof:
                    stdin.close()
        return task_command_router_pb2.TaskExecStdinWriteResponse()

    async def TaskExecWait(self, asked: Any) -> Any:
        box = self._running(asked.task_id)
        command = box.commands[asked.exec_id]
        async with command.change:
            await command.change.wait_for(lambda: command.read_all)
        self._running(asked.task_id)
        code = command.code or 0
        answer = task_command_router_pb2.TaskExecWaitResponse
        return answer(code=code) if code >= 0 else answer(signal=-code)

    async def TaskSnapshotFilesystem(self, asked: Any) -> Any:
        self._running(asked.task_id)
        id = f"im-{token_hex(4)}"
        self.images[id] = self.disk.parent / id
        shutil.copytree(self.disk, self.disk.parent / id, symlinks=True)
        return task_command_router_pb2.TaskSnapshotFilesystemResponse(image_id=id)

    async def _read(self, stream: Any) -> None:
        asked = await stream.recv_message()
        command = self._running(asked.task_id).commands[asked.exec_id]
        errors = asked.file_descriptor == task_command_router_pb2.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDERR
        offset = asked.offset
        while not errors:
            async with command.change:
                await command.change.wait_for(lambda: len(command.output) > offset or command.read_all)  # noqa: B023
                data = bytes(command.output[offset : offset + (1 << 18)])
            if not data:
                break
            offset += len(data)
            await stream.send_message(task_command_router_pb2.TaskExecStdioReadResponse(data=data))
        self._running(asked.task_id)

    # ---- as a server ---------------------------------------------------------------------------------------------

    def __mapping__(self) -> dict[str, Handler]:
        planes = {
            "modal.client.ModalClient": api_pb2.DESCRIPTOR.services_by_name["ModalClient"],
            "modal.task_command_router.TaskCommandRouter": task_command_router_pb2.DESCRIPTOR.services_by_name[
                "TaskCommandRouter"
            ],
        }
        handlers: dict[str, Handler] = {}
        for service, plane in planes.items():
            for method in plane.methods:
                types = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
                if method.name == "TaskExecStdioRead":
                    handlers[f"/{service}/{method.name}"] = Handler(self._read, Cardinality.UNARY_STREAM, *types)
                elif hasattr(self, method.name):
                    answer = _answering(getattr(self, method.name))
                    handlers[f"/{service}/{method.name}"] = Handler(answer, Cardinality.UNARY_UNARY, *types)
        return handlers

    async def received(self, event: RecvRequest) -> None:
        """Note the call, and refuse who has not the right key."""
        self.calls.append(event.method_name.rpartition("/")[2])
        given = event.metadata
        if "ModalClient" in event.method_name:
            right = (given.get("x-modal-token-id"), given.get("x-modal-token-secret")) == self.token
        else:
            right = given.get("authorization") == f"Bearer {ROUTER_KEY}"
        if not right:
            raise GRPCError(Status.UNAUTHENTICATED, "Token ID or secret is wrong")

    def end_all(self) -> None:
        for box in self.boxes.values():
            if box.result is None:
                box.end(api_pb2.GenericResult.GENERIC_STATUS_TERMINATED)


def _answering(answer: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[None]]:
    async def handle(stream: Any) -> None:
        await stream.send_message(await answer(await stream.recv_message()))

    return handle


async def _in_terminal(command: Command, argv: list[str], variables: dict[str, str]) -> Callable[[], Awaitable[bytes]]:
    mine, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command.process = await asyncio.create_subprocess_exec(
        *argv, stdin=its, stdout=its, stderr=its, cwd="/", env=variables, preexec_fn=_controlling
    )
    os.close(its)
    command.terminal = mine
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue()

    def readable() -> None:
        try:
            data = os.read(mine, 1 << 16)
        except OSError:  # the other side is closed
            data = b""
        if not data:
            loop.remove_reader(mine)
        pieces.put_nowait(data)

    loop.add_reader(mine, readable)
    return pieces.get


def _controlling() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextlib.asynccontextmanager
async def serving(disk: Path) -> AsyncIterator[Modal]:
    """Run the service on a free port of loopback in this event loop."""
    async with asyncio.TaskGroup() as group:
        service = Modal(disk, group)
        server = Server([service])
        listen(server, RecvRequest, service.received)
        await server.start("127.0.0.1", 0)
        bound: Any = server._server
        service.url = f"http://127.0.0.1:{bound.sockets[0].getsockname()[1]}"
        try:
            yield service
        finally:
            service.end_all()
            server.close()
            await server.wait_closed()
