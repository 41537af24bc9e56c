"""Sessions as lines: what goes out comes in again byte for byte, without secrets where they are not wanted."""

import asyncio
import base64
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.core.event import Fact, Notice, Opened, Reply, Said
from melete.core.message import Image, Message, Text, ToolCall, Wire, user
from melete.security.redact import Redactor
from melete.store import exchange, record
from melete.store.exchange import Header, Reading, UnreadableError
from tests.unit.store.given import START, opened_store, with_turns
from tests.unit.store.past import pasts

SECRET = "sk-9f8e7d6c5b4a"
BODIES = (b'{"role":"assistant","content":[]}', b'{\n  "role": "assistant",\r\n  "x": 1.50\n}', b"[1, 2,\t3]")


def lines_of(facts: Sequence[Fact], *, redact: Callable[[str], str] | None = None) -> list[bytes]:
    return list(exchange.written(facts, "s-1", redact=redact, version="1", now=START))


def read_back(lines: Sequence[bytes]) -> Reading:
    header = exchange.read_header(lines[0])
    assert header is not None
    reading = Reading(header)
    for line in lines[1:]:
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        assert exchange.is_fact(line.strip())
        reading.add(exchange.read_fact(line.strip(), header.id))
    return reading


@given(facts=pasts(), bodies=st.lists(st.sampled_from(BODIES), max_size=3))
def test_what_is_written_reads_as_it_was(facts: Sequence[Fact], bodies: list[bytes]) -> None:
    replies = [
        Reply(
            seq=len(facts) + number,
            session="s-1",
            message=Message(
                role="assistant", parts=(), wire=Wire(name="openai-chat", body=msgspec.Raw(body), provider="acme")
            ),
        )
        for number, body in enumerate(bodies, 1)
    ]
    whole = [*facts, *replies]
    reading = read_back(lines_of(whole))
    assert [record.encode_fact(fact) for fact in reading.facts] == [record.encode_fact(fact) for fact in whole]
    wires = [fact.message.wire for fact in reading.facts[len(facts) :] if isinstance(fact, Reply)]
    assert [bytes(wire.body) for wire in wires if wire] == bodies
    assert reading.missing == 0
    assert exchange.same(reading.facts, whole)


def test_a_session_comes_back_with_the_same_log(tmp_path: Path) -> None:
    async def main() -> None:
        one, two = opened_store(tmp_path / "one"), opened_store(tmp_path / "two")
        ref = await with_turns(one, 3, id="s-1")
        facts = await one.facts(ref)
        await two.add(read_back(lines_of(facts)).facts, id="s-1")
        assert await two.facts(ref) == facts
        logs = [(tmp_path / name / "state" / "sessions" / "s-1.log").read_bytes() for name in ("one", "two")]
        assert logs[0] == logs[1]
        await one.aclose()
        await two.aclose()

    asyncio.run(main())


@pytest.mark.parametrize(
    "fact",
    [
        Said(message=user(f"my key is {SECRET}, keep it")),
        Notice(text=SECRET),
        Said(message=Message(role="user", parts=(Image(data=base64.b64encode(f"..{SECRET}..".encode()).decode()),))),
        Reply(message=Message(role="assistant", parts=(ToolCall(id="c", name="x", arguments=f'{{"k": "{SECRET}"}}'),))),
        Reply(
            message=Message(
                role="assistant", parts=(), wire=Wire(name="w", body=msgspec.Raw(f'{{"x": "{SECRET}"}}'.encode()))
            )
        ),
        Reply(
            message=Message(
                role="assistant", parts=(), wire=Wire(name="w", body=msgspec.Raw(f'{{\n "x": "{SECRET}"}}'.encode()))
            )
        ),
    ],
)
def test_secrets_are_taken_out_and_what_is_left_can_be_read(fact: Fact) -> None:
    redact = Redactor({"KEY": SECRET})
    facts = [Opened(seq=1), msgspec.structs.replace(fact, seq=2), Notice(seq=3, text="sound")]
    lines = lines_of(facts, redact=redact)
    assert SECRET.encode() not in b"".join(lines)
    reading = read_back(lines)
    assert [type(fact) for fact in reading.facts] == [type(fact) for fact in facts]
    assert reading.header.redacted == 1
    assert reading.facts[2] == msgspec.structs.replace(facts[2], session="s-1")


@pytest.mark.parametrize("secret", ["12345678", '"message"', "2026-11-21", '","text":"'])
def test_a_secret_that_is_part_of_the_form_leaves_a_fact_that_can_be_read(secret: str) -> None:
    facts = [Opened(seq=1), Said(seq=2, at=START, message=user(f"12345678 {secret}")), Notice(seq=3, text="sound")]
    reply = Reply(
        seq=4, message=Message(role="assistant", parts=(), wire=Wire(name="w", body=msgspec.Raw(b"12345678")))
    )
    redact = Redactor({"KEY": secret})
    reading = read_back(lines_of([*facts, reply], redact=redact))
    assert len(reading.facts) == 4
    for fact in reading.facts:
        text = record.encode_fact(fact).decode()
        if fact.at != START:  # a time that is a secret is a time all the same
            assert redact(text) == text


def test_only_headers_are_headers() -> None:
    assert exchange.read_header(b'{"session":"x","role":"user","content":"\\"melete_session\\" is a word"}') is None
    assert exchange.read_header(b'{"role":"user","content":{"melete_session":1}}') is None
    assert exchange.read_header(b'["melete_session"]') is None
    assert exchange.read_header(b'{"melete_session":1,"id":"s-1"}') == Header(melete_session=1, id="s-1")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"melete_session":2,"id":"s-1"}', "form 2"),
        (b'{"melete_session":1,"id":"../etc"}', "cannot be the id"),
        (b'{"melete_session":1}', "cannot be the id"),
        (b'{"melete_session":1,"id":', "no header"),
        (b'{"melete_session":"1","id":"s"}', "no header"),
    ],
)
def test_a_header_of_no_use_says_why(line: bytes, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        exchange.read_header(line)


@pytest.mark.parametrize("line", [b"{}", b'{"type":"from.tomorrow","seq":2}', b'{"type":"message"}', b'{"fact64":"!"}'])
def test_a_fact_of_no_use_says_so(line: bytes) -> None:
    with pytest.raises(UnreadableError, match="fact"):
        exchange.read_fact(line, "s-1")


def test_a_place_whose_line_was_lost_keeps_its_number() -> None:
    reading = Reading(Header(melete_session=1, id="s-1", title="Trip", owner="ada", facts=6))
    reading.add(Notice(seq=3, text="three"))
    reading.add(Notice(seq=5, text="five"))
    assert isinstance(reading.facts[0], Opened)
    assert (reading.facts[0].title, reading.facts[0].owner) == ("Trip", "ada")
    assert [fact.text for fact in reading.facts[1:] if isinstance(fact, Notice)][1::2] == ["three", "five"]
    assert (len(reading.facts), reading.missing) == (5, 4)
    for wrong in (Notice(seq=5, text=""), Notice(seq=2, text=""), Notice(seq=1_000_000, text=""), Opened(seq=6)):
        with pytest.raises(UnreadableError):
            reading.add(wrong)
    assert len(reading.facts) == 5


def test_the_same_means_the_same_words_at_the_same_times() -> None:
    one = [Opened(seq=1, at=START), Said(seq=2, message=Message(role="user", parts=(Text(text="a"),)))]
    later = [msgspec.structs.replace(fact, at=START.replace(year=2027), session="other") for fact in one]
    assert exchange.same(one, later, times=False)
    assert not exchange.same(one, later)
    assert not exchange.same(one, one[:1])


@pytest.mark.parametrize(
    "shape", ['{"melete_session":1,"x":%s}', '{"type":"message","x":%s}', '{"fact64":%s}', '{"x":%s}', "%s"]
)
def test_a_line_that_is_nested_without_end_is_told(shape: str) -> None:
    line = (shape % ("[" * 5_000 + "]" * 5_000)).encode()
    assert exchange.is_fact(line) == line.startswith((b'{"type":', b'{"fact64":'))
    with pytest.raises(UnreadableError):
        exchange.read_fact(line, "s-1")
    if b"melete_session" in line:
        with pytest.raises(UnreadableError):
            exchange.read_header(line)
