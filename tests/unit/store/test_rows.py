"""Rows of other programs as sessions that can go on."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from melete.core.event import Opened, Reply, Said
from melete.core.message import Image, Text
from melete.core.transcript import Transcript
from melete.store import rows
from melete.store.exchange import UnreadableError
from melete.store.names import is_session_id

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def row(**fields: Any) -> rows.Row:
    return rows.read(msgspec.json.encode({"session": "s-1", "role": "user", "content": "hello", **fields}))


def test_rows_make_a_session_with_their_names_times_and_roles() -> None:
    facts = rows.facts(
        "Trip to Rome",
        [
            row(at="2026-03-01T10:00:00Z", ref="D1:1", title=" A  trip "),
            row(role="assistant", content="Gladly.", at=1772359260, ref=2),
            row(role="system", content="Be brief."),
            row(role="Tool", content={"x": [1]}),
        ],
        now=NOW,
    )
    opened, said, reply, system, tool = facts
    assert isinstance(opened, Opened)
    assert (opened.source, opened.title, opened.about) == ("import", "A trip", {"imported": "Trip to Rome"})
    assert opened.at == said.at == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert isinstance(said, Said)
    assert (said.ref, said.message.parts) == ("D1:1", (Text(text="hello", taint="import"),))
    assert isinstance(reply, Reply)
    assert (reply.ref, reply.at, reply.message.role) == ("2", datetime(2026, 3, 1, 10, 1, tzinfo=UTC), "assistant")
    assert isinstance(system, Said)
    assert isinstance(tool, Said)
    assert [(fact.message.by.who, fact.message.text) for fact in (system, tool) if fact.message.by] == [
        ("system", "[system]\nBe brief."),
        ("tool", '[tool]\n{"x":[1]}'),
    ]
    assert reply.at < system.at < tool.at < reply.at + timedelta(seconds=1)
    assert [message.role for message in Transcript(facts).messages] == ["user", "assistant", "user", "user"]


def test_without_times_the_messages_stand_in_their_order_now() -> None:
    facts = rows.facts("s", [row(), row(), row()], now=NOW)
    assert NOW <= facts[0].at <= facts[1].at < facts[2].at < facts[3].at < NOW + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("value", "at"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31 12:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        (1769860800, datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (1769860800.5, datetime(2026, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC)),
        (1769860800000, datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (1769860800000000, datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        ("", None),
        (None, None),
    ],
)
def test_times_are_understood_in_their_usual_forms(value: Any, at: datetime | None) -> None:
    assert rows.moment(value) == at


PIXEL = "data:image/png;base64,iVBORw0KGgo="


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (None, ()),
        ("", ()),
        (["a", {"type": "text", "text": "b"}], (Text(text="a"), Text(text="b"))),
        ([{"type": "image_url", "image_url": {"url": PIXEL}}], (Image(data="iVBORw0KGgo="),)),
        ([{"type": "input_image", "image_url": PIXEL}], (Image(data="iVBORw0KGgo="),)),
        ([{"type": "image_url", "image_url": "https://x.example/a.png"}], (Image(url="https://x.example/a.png"),)),
        ([{"type": "image_url", "image_url": "file:///etc/passwd"}], (Text(text="file:///etc/passwd"),)),
        (
            [{"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lG"}}],
            (Image(media_type="image/gif", data="R0lG"),),
        ),
        ([{"type": "tool_use", "name": "x"}], (Text(text='{"type":"tool_use","name":"x"}'),)),
        ({"any": "thing"}, (Text(text='{"any":"thing"}'),)),
        (7, (Text(text="7"),)),
    ],
)
def test_contents_of_every_form_become_parts(content: Any, parts: tuple[Text | Image, ...]) -> None:
    fact = rows.facts("s", [row(content=content)], now=NOW)[1]
    assert isinstance(fact, Said)
    assert fact.message.parts == tuple(msgspec.structs.replace(part, taint="import") for part in parts)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"nonsense", "no message"),
        (b"[1]", "no message"),
        (b'{"role":"user","content":"x"}', "session"),
        (b'{"session":"","role":"user"}', "no session"),
        (b'{"session":"s","role":" "}', "no role"),
        (b'{"session":"s","content":"x"}', "role"),
        (b'{"session":"s","role":"user","at":"yesterday"}', "'yesterday' is no time"),
        (b'{"session":"s","role":"user","at":true}', "no message"),
        (b'{"session":"s","role":"user","at":1e300}', "no time"),
        (b'{"session":"s","role":"user","at":-1e25}', "no time"),
        (b'{"session":"s","role":"user","content":"\xff"}', "no message"),
    ],
)
def test_a_row_of_no_use_says_why(line: bytes, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        rows.read(line)


@pytest.mark.parametrize("name", ["conv 1", "Conv-1", "会话", "../../etc/passwd", "x" * 200, " ", "-a"])
def test_names_that_are_no_ids_become_ids_of_their_own(name: str) -> None:
    found = rows.session_id(name)
    assert is_session_id(found)
    assert found != rows.session_id(name + " ")
    assert rows.session_id("conv-1") == "conv-1"


def test_what_follows_the_last_moment_of_all_stands_at_it() -> None:
    last = "9999-12-31T23:59:59.999999Z"
    facts = rows.facts("s-1", [row(at=last), row(content="still here")], now=NOW)
    assert [fact.at for fact in facts[1:]] == [datetime.max.replace(tzinfo=UTC)] * 2
