"""A stream cut or chunked at every byte: the whole answer or a typed error, never a part of one and never a hang."""

import asyncio

from melete.core.message import Message
from melete.core.model import ConnectionFailedError, ModelClient
from melete.models.spec import Timeouts
from tests.wire.adapters import Adapter, answered, asking, spec
from tests.wire.raw import head, sending, serving
from tests.wire.recordings import ANSWERS


async def first_message(client: ModelClient) -> Message:
    """The message of one request."""
    return (await answered(client, asking("Go"))).message


def check(message: Message) -> None:
    """The recorded message, whole."""
    assert message.text == "Grüße 😀"
    assert [(c.name, c.arguments) for c in message.calls] == [("read_file", '{"path":"x"}')]


def test_cut_at_every_byte(adapter: Adapter) -> None:
    answer = ANSWERS[adapter.wire]

    async def main() -> list[bool]:
        whole: list[bool] = []
        for size in range(len(answer) + 1):
            async with serving(sending(head(), answer[:size])) as port:
                client = adapter.open(spec(f"http://127.0.0.1:{port}/v1"))
                try:
                    check(await first_message(client))
                    whole.append(True)
                except ConnectionFailedError:
                    whole.append(False)
                finally:
                    await client.aclose()
        return whole

    whole = asyncio.run(main())
    assert whole[-1]
    assert not whole[0]
    assert whole == sorted(whole), "an answer that is whole stays whole with more bytes"
    assert 0 < whole.count(True) < len(answer) // 4


def test_in_two_pieces_at_every_byte_and_in_single_bytes(adapter: Adapter) -> None:
    answer = ANSWERS[adapter.wire]
    cuts = [[answer[:at], answer[at:]] for at in range(1, len(answer))]
    cuts.append([answer[at : at + 1] for at in range(len(answer))])

    async def main() -> None:
        async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            for piece in cuts[turn]:
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
                await asyncio.sleep(0)
            writer.write(b"0\r\n\r\n")

        async with serving(act) as port:
            client = adapter.open(spec(f"http://127.0.0.1:{port}/v1"))
            for turn in range(len(cuts)):  # noqa: B007 - read by the server
                check(await first_message(client))
            await client.aclose()

    asyncio.run(main())


def test_steps_share_one_connection_and_a_closed_one_is_replaced(adapter: Adapter) -> None:
    answer = ANSWERS[adapter.wire]
    connections: list[object] = []

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        length = f"content-length: {len(answer)}\r\n\r\n".encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" + length + answer)
        await writer.drain()
        if len(connections) == 3:
            writer.close()  # without having said so: the next request meets a dead connection

    async def main() -> None:
        async with serving(act) as port:
            client = adapter.open(spec(f"http://127.0.0.1:{port}/v1", timeouts=Timeouts(tail=0.2)))
            for _ in range(5):
                check(await first_message(client))
            await client.aclose()

    asyncio.run(main())
    assert len(connections) == 5
    assert len(set(map(id, connections))) == 2
