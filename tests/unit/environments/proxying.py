"""A proxy as a sandbox has it, on a port of this machine, and one server that every name leads to."""

import asyncio
import socket
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from melete.core.errors import EnvironmentFailure
from melete.environments.gate import Gate
from melete.environments.netproxy import Proxy
from melete.environments.network import Door, Porter

Handler = Callable[[StreamReader, StreamWriter], Awaitable[None]]
HOST = "host.example"


class World:
    """A proxy on a port, and the one server that every name leads to; `dialled` is what it was asked to reach."""

    def __init__(self, handler: Handler, *, allow: Sequence[str] = (HOST,), **more: Any) -> None:
        self._handler = handler
        self._allow = allow
        self._derive = more.get("derive", list)
        self._later = more.get("later", list)
        self._private = more.get("private", ())
        self.dialled: list[tuple[str, int]] = []

    async def __aenter__(self) -> "World":
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        self._to = self._server.sockets[0].getsockname()[1]
        self.gate = Gate(self._allow, self._dial, derive=self._derive, later=self._later)
        listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = listening.getsockname()[1]
        self._porter = Porter([Door(listening, Proxy(self.gate).serve)])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._porter.aclose()
        self._server.close()
        assert "melete-sandbox-network" not in [thread.name for thread in threading.enumerate()]

    async def _handle(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            await self._handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the proxy let go of it
        finally:
            writer.close()

    async def _dial(self, host: str, port: int) -> tuple[StreamReader, StreamWriter]:
        self.dialled.append((host, port))
        if host in self._private:
            raise EnvironmentFailure(f"{host} may not be reached: it stands for 10.0.0.1")
        if port == 81:
            raise ConnectionRefusedError(111, "Connection refused")
        return await asyncio.open_connection("127.0.0.1", self._to)

    async def open(self) -> tuple[StreamReader, StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def say(self, data: bytes) -> bytes:
        """Everything that comes back for some bytes."""
        reader, writer = await self.open()
        writer.write(data)
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()


async def echo(reader: StreamReader, writer: StreamWriter) -> None:
    """Send everything back, then end."""
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.write(b"END")
    writer.close()


def web(
    answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", *, seen: list[bytes] | None = None
) -> Handler:
    async def handler(reader: StreamReader, writer: StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if seen is not None:
            seen.append(head)
        writer.write(answer)
        writer.close()

    return handler


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(main())


CONNECT = f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
GET = f"GET http://{HOST}/path?q HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
