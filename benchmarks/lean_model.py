"""A model on loopback that costs next to nothing, so that a server's own time is what is measured; a process of its own.

    python -m benchmarks.lean_model PORT SECONDS

It speaks `openai-chat` streams only. Each answer begins after SECONDS; a prompt with the word `slowly` is answered in twenty
pieces, a quarter of a second apart, every other in five at once.
"""

import asyncio
import json
import sys
from typing import cast

WORDS = ("Hello", " there,", " how", " are", " you?")
PIECES, APART = 20, 0.25


def _event(fields: dict[str, object]) -> bytes:
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted-model"}
    data = f"data: {json.dumps(head | fields)}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


def _word(text: str) -> bytes:
    delta = {"role": "assistant", "content": text}
    return _event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = (
    _event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    + _event({"choices": [], "usage": {"prompt_tokens": 1500, "completion_tokens": 5, "total_tokens": 1505}})
    + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
)
WHOLE = HEAD + b"".join(_word(word) for word in WORDS) + END


class Model(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, wait: float) -> None:
        self._wait = wait
        self._buffer = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, blank, rest = self._buffer.partition(b"\r\n\r\n")
        if not blank:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or b"0")
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        if not head.startswith(b"POST"):
            self._send(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            return
        later = asyncio.get_running_loop().call_later
        if b"slowly" not in rest:
            later(self._wait, self._send, WHOLE)
            return
        later(self._wait, self._send, HEAD)
        for number in range(PIECES):
            later(self._wait + number * APART, self._send, _word(f" {number}"))
        later(self._wait + PIECES * APART, self._send, END)

    def _send(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


async def main(port: int, wait: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Model(wait), "127.0.0.1", port, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
