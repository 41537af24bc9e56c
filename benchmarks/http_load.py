"""Clients of an HTTP server that cost little themselves: raw sockets, one coroutine each."""

import asyncio
import json
import time
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Answered:
    """One answer: seconds to its end and to the first piece of its text (0 where it was not streamed)."""

    seconds: float
    first: float = 0.0


class Client:
    """A connection that is kept; raises RuntimeError for an answer that is no success."""

    def __init__(self, port: int, *, key: str) -> None:
        self._port = port
        self._key = key
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def chat(self, prompt: str, *, stream: bool = False, model: str = "melete") -> Answered:
        """Ask in a new session and read the whole answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        reader, writer = self._streams
        body = json.dumps(
            {"model": model, "stream": stream, "messages": [{"role": "user", "content": prompt}]}
        ).encode()
        began = time.perf_counter()
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nauthorization: Bearer %s\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
            % (self._port, self._key.encode(), len(body))
            + body
        )
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        first = 0.0
        text = bytearray()
        if b"transfer-encoding: chunked" in head:
            while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
                text += (await reader.readexactly(size + 2))[:-2]
                if not first and b'"content":"' in text.replace(b'": "', b'":"').replace(b'"content":""', b""):
                    first = time.perf_counter() - began
            await reader.readexactly(2)
        else:
            text += await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n")[0]))
        seconds = time.perf_counter() - began
        if b" 200 " not in head.split(b"\r\n")[0]:
            raise RuntimeError(f"{head[:40]!r}: {bytes(text[:300])!r}")
        if not text or (stream and b"[DONE]" not in text):
            raise RuntimeError(f"an answer without an end: {bytes(text[-200:])!r}")
        if b"connection: close" in head:
            self.close()
        return Answered(seconds=seconds, first=first)

    def close(self) -> None:
        """Close the connection."""
        if self._streams:
            self._streams[1].close()
            self._streams = None


async def burst(
    port: int, count: int, *, key: str, prompt: str = "Say hi", stream: bool = False
) -> list[Answered | str]:
    """So many requests at the same moment, each on a connection of its own; a failure is its text."""

    async def one(number: int) -> Answered | str:
        client = Client(port, key=key)
        try:
            return await client.chat(f"{prompt} {number}", stream=stream)
        except (RuntimeError, OSError, asyncio.IncompleteReadError) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            client.close()

    return list(await asyncio.gather(*(one(number) for number in range(count))))


async def closed_loop(port: int, clients: int, *, seconds: float, key: str) -> list[Answered | str]:
    """So many clients, each asking anew as soon as it was answered, for so many seconds."""
    until = time.perf_counter() + seconds
    found: list[Answered | str] = []

    async def one(number: int) -> None:
        client, turn = Client(port, key=key), 0
        while time.perf_counter() < until:
            turn += 1
            try:
                found.append(await client.chat(f"Say hi {number}.{turn}"))
            except (RuntimeError, OSError, asyncio.IncompleteReadError) as error:
                found.append(f"{type(error).__name__}: {error}")
                client.close()
        client.close()

    await asyncio.gather(*(one(number) for number in range(clients)))
    return found
