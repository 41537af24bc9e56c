"""A server that sends exact bytes, and says nothing of HTTP by itself: for cuts, stalls and broken protocols."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext

Act = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(act: Act, *, ssl: SSLContext | None = None) -> AsyncIterator[int]:
    """Run `act` for each request's head and body; yield the port. Ends every connection with the block."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            while await read_request(reader):
                await act(reader, writer)
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            tasks.discard(task)

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=ssl)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Head and body of the next request; empty when the client has closed."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    return head + await reader.readexactly(length)


def sending(*pieces: bytes, close: bool = True, pause: float = 0.0) -> Act:
    """Send the pieces one by one, then close or leave the connection open."""

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
        if close:
            writer.close()

    return act


def head(kind: str = "text/event-stream", status: str = "200 OK", **headers: str) -> bytes:
    """The head of an answer whose body ends with the connection."""
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n{more}\r\n".encode()
