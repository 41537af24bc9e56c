"""A service with Daytona's HTTP API on loopback, as its own library uses it: a sandbox is a folder and its processes.

What the library sends was read from its code; answers have the fields that its models demand. Commands are run by the first
shell, streams joined, as text; files go by multipart; terminals over a WebSocket that ends with the exit code. `Daytona` counts
requests and can be told to fail.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import termios
from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

KEY = "dtn_key-of-the-tests"
MARK = "FAKE_DAYTONA_SANDBOX"


class Box:
    """One sandbox: what the API says about it, and its processes by the mark in their environment."""

    def __init__(self, asked: dict[str, Any], url: str) -> None:
        self.id = token_hex(8)
        self.asked = asked
        self.url = url
        self.state = "started"
        self.ended = asyncio.Event()

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id, "organizationId": "o", "name": self.asked.get("name") or self.id, "user": "daytona",
            "env": self.asked.get("env") or {}, "labels": self.asked.get("labels") or {}, "public": False,
            "networkBlockAll": bool(self.asked.get("networkBlockAll")), "kvm": False, "target": "eu", "cpu": 1, "gpu": 0,
            "memory": 1, "disk": 3, "state": self.state, "toolboxProxyUrl": self.url,
            "autoStopInterval": self.asked.get("autoStopInterval"),
            "autoDeleteInterval": self.asked.get("autoDeleteInterval"),
        }  # fmt: skip

    def variables(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": "/tmp", "TMPDIR": os.environ.get("TMPDIR", "/tmp"), MARK: self.id}

    def end(self, state: str) -> None:
        """Stop: everything that runs in it ends at once."""
        self.state = state
        self.ended.set()
        self.ended = asyncio.Event()
        mark = f"{MARK}={self.id}".encode()
        for _ in range(2):
            for entry in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        os.kill(int(entry.name), signal.SIGKILL)


class Daytona:
    """The service: `boxes` by id, `calls` as `METHOD path`, and what it shall answer to the next requests."""

    def __init__(self) -> None:
        self.boxes: dict[str, Box] = {}
        self.calls: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.refuse: list[tuple[int, str]] = []
        self.cut: int = 0
        self.url = ""

    def found(self, name: str) -> Box | None:
        return next((b for b in self.boxes.values() if name in {b.id, b.asked.get("name")}), None)

    # ---- the API -------------------------------------------------------------------------------------------------

    def refusal(self, request: Request) -> Response | None:
        self.calls.append(f"{request.method} {request.url.path}")
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return error(401, "Invalid credentials")
        if self.refuse:
            return error(*self.refuse.pop(0))
        return None

    async def create(self, request: Request) -> Response:
        if refused := self.refusal(request):
            return refused
        asked = await request.json()
        self.bodies.append(asked)
        if asked.get("name") and self.found(asked["name"]):
            return error(409, "Sandbox with that name exists")
        box = Box(asked, f"{self.url}/toolbox")
        self.boxes[box.id] = box
        return JSONResponse(box.shown())

    async def one(self, request: Request) -> Response:
        if refused := self.refusal(request):
            return refused
        box = self.found(request.path_params["name"])
        if box is None:
            return error(404, "Sandbox not found")
        if request.method == "DELETE":
            box.end("destroyed")
            del self.boxes[box.id]
        return JSONResponse(box.shown())

    async def turn(self, request: Request) -> Response:
        if refused := self.refusal(request):
            return refused
        box = self.found(request.path_params["name"])
        if box is None:
            return error(404, "Sandbox not found")
        if request.path_params["verb"] == "start":
            box.state = "started"
        else:
            box.end("stopped")
            if box.asked.get("autoDeleteInterval") == 0:
                del self.boxes[box.id]
        return JSONResponse(box.shown())

    # ---- the toolbox ---------------------------------------------------------------------------------------------

    def inside(self, request: Request) -> Box | Response:
        if refused := self.refusal(request):
            return refused
        box = self.boxes.get(request.path_params["box"])
        if box is None or box.state != "started":
            return error(502, "bad gateway: the sandbox is not running", source="DAYTONA_PROXY")
        return box

    async def execute(self, request: Request) -> Response:
        box = self.inside(request)
        if isinstance(box, Response):
            return box
        asked = await request.json()
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", asked["command"], stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, cwd=asked.get("cwd") or "/", env={**box.variables(), **(asked.get("envs") or {})},
            start_new_session=True,
        )  # fmt: skip
        ended = box.ended
        try:
            async with asyncio.timeout(asked.get("timeout") or 10):
                output, _ = await process.communicate()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            return error(408, "command execution timeout", source="DAYTONA_DAEMON")
        if ended.is_set():
            return error(502, "bad gateway: the sandbox is not running", source="DAYTONA_PROXY")
        if self.cut > 0:
            self.cut -= 1
            return error(503, "the proxy is restarting")
        return JSONResponse({"exitCode": process.returncode, "result": output.decode("utf-8", "replace")})

    async def upload(self, request: Request) -> Response:
        box = self.inside(request)
        if isinstance(box, Response):
            return box
        async with request.form(max_part_size=1 << 30) as form:
            path, file = form["files[0].path"], form["files[0].file"]
            assert isinstance(path, str)
            assert not isinstance(file, str)
            Path(path).write_bytes(await file.read())
        return JSONResponse({})

    async def download(self, request: Request) -> Response:
        box = self.inside(request)
        if isinstance(box, Response):
            return box
        boundary = token_hex(8).encode()
        body = b""
        for path in (await request.json())["paths"]:
            try:
                name, kind, data = "file", "application/octet-stream", Path(path).read_bytes()
            except OSError as failure:
                name, kind, data = "error", "text/plain", str(failure).encode()
            head = f'Content-Disposition: form-data; name="{name}"; filename="{path}"\r\nContent-Type: {kind}\r\n\r\n'
            body += b"--" + boundary + b"\r\n" + head.encode() + data + b"\r\n"
        body += b"--" + boundary + b"--\r\n"
        return Response(body, media_type=f"multipart/form-data; boundary={boundary.decode()}")

    async def end_pty(self, request: Request) -> Response:
        box = self.inside(request)
        if isinstance(box, Response):
            return box
        box.ended.set()  # every terminal of the box looks whether it is the one
        box.ended = asyncio.Event()
        return JSONResponse({"message": "deleted"})

    async def terminal(self, socket: WebSocket) -> None:
        self.calls.append(f"WS {socket.url.path}")
        box = self.boxes.get(socket.path_params["box"])
        if box is None or socket.headers.get("authorization") != f"Bearer {KEY}":
            await socket.close(1008)
            return
        await socket.accept(subprotocol="X-Daytona-Pty-Exit-Control")
        mine, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        process = await asyncio.create_subprocess_exec(
            "bash", "--norc", "-i", stdin=its, stdout=its, stderr=its, cwd="/", env={**box.variables(), "TERM": "xterm-256color"},
            preexec_fn=_controlling,
        )  # fmt: skip
        os.close(its)
        await socket.send_text(json.dumps({"type": "control", "status": "connected"}))
        await _relay(socket, mine, process)

    async def nothing(self, request: Request) -> Response:
        return error(404, f"no {request.url.path} here")

    def application(self) -> Starlette:
        box = "/toolbox/{box}"
        return Starlette(
            routes=[
                Route("/api/sandbox", self.create, methods=["POST"]),
                Route("/api/sandbox/{name}", self.one, methods=["GET", "DELETE"]),
                Route("/api/sandbox/{name}/{verb:str}", self.turn, methods=["POST"]),
                Route(f"{box}/process/execute", self.execute, methods=["POST"]),
                Route(f"{box}/files/bulk-upload", self.upload, methods=["POST"]),
                Route(f"{box}/files/bulk-download", self.download, methods=["POST"]),
                Route(f"{box}/process/pty/{{session}}", self.end_pty, methods=["DELETE"]),
                WebSocketRoute(f"{box}/process/pty/create-connect", self.terminal),
                Route("/{rest:path}", self.nothing),
            ]
        )

    async def stop_all(self) -> None:
        for box in list(self.boxes.values()):
            box.end("destroyed")
        self.boxes.clear()
        await asyncio.sleep(0)


def _controlling() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


async def _relay(socket: WebSocket, terminal: int, process: asyncio.subprocess.Process) -> None:
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue()

    def readable() -> None:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(terminal)
        pieces.put_nowait(data)

    async def typed() -> None:
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                message = await socket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                os.write(terminal, message.get("bytes") or (message.get("text") or "").encode())

    async def shown() -> None:
        while data := await pieces.get():
            await socket.send_bytes(data)

    loop.add_reader(terminal, readable)
    try:
        async with asyncio.TaskGroup() as group:
            reader, writer = group.create_task(typed()), group.create_task(shown())
            await asyncio.wait([reader, writer], return_when=asyncio.FIRST_COMPLETED)
            reader.cancel()
            writer.cancel()
    finally:
        loop.remove_reader(terminal)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGHUP)
            os.killpg(process.pid, signal.SIGCONT)
        code = await process.wait()
        os.close(terminal)
    with contextlib.suppress(RuntimeError, WebSocketDisconnect):
        await socket.send_text(json.dumps({"type": "control", "status": "exited", "exitCode": code}))
        await socket.close(1000, json.dumps({"exitCode": code}))


def error(status: int, message: str, *, source: str = "DAYTONA_API") -> Response:
    """An error in the envelope of the service."""
    return JSONResponse({"statusCode": status, "message": message, "source": source}, status_code=status)


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Daytona]:
    """Run the service on a free port of loopback in this event loop."""
    service = Daytona()
    config = uvicorn.Config(
        service.application(), host="127.0.0.1", port=0, log_level="critical", lifespan="off", ws="wsproto",
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    async with asyncio.TaskGroup() as group:
        running = group.create_task(server.serve())
        while not server.started and not running.done():  # noqa: ASYNC110 - uvicorn sets no Event
            await asyncio.sleep(0.01)
        service.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        try:
            yield service
        finally:
            await service.stop_all()
            server.should_exit = True


__all__ = ["KEY", "Daytona", "serving"]
