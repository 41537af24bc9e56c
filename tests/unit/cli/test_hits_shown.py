"""What a search found, as people read it: grouped, highlighted, redacted, harmless."""

import asyncio
import io
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from melete.core.event import Opened
from melete.core.message import user
from melete.core.session import Hit, Line, Query
from melete.security.redact import Redactor
from melete.surfaces.cli.hits_shown import Found, highlighted, hits_text
from melete.surfaces.cli.paint import Paint
from tests.unit.store.given import opened_store

NOW = datetime(2026, 2, 1, 12, tzinfo=UTC)
PLAIN = Paint(io.StringIO(), {})
COLOURED = Paint(io.StringIO(), {})
COLOURED.colours = True
SECRET = "sk-0123456789-0123456789"


def as_it_is(text: str) -> str:
    return text


def hit(snippet: str, *marks: tuple[int, int], **fields: Any) -> Hit:
    base: dict[str, Any] = {"session": "s-1", "seq": 5, "role": "user", "title": "Rivers", "source": "cli"}
    values = {**base, **fields, "snippet": snippet, "marks": marks, "at": NOW - timedelta(days=31)}
    return msgspec.convert(values, Hit)


def test_hits_stand_below_their_session_with_their_steps() -> None:
    line = Line(session="s-1", seq=6, role="assistant", text="It is\nlong.", at=NOW)
    found = [
        Found(hit=hit("the danube"), step=3, after=(line,)),
        Found(hit=hit("danube delta", session="s-2", title=""), step=0),
        Found(hit=hit('{"output": "danube"}', role="tool", tool="terminal", seq=9), step=4),
    ]
    assert hits_text(found, PLAIN, now=NOW, redact=as_it_is).splitlines() == [
        "Rivers",
        "s-1 · cli · 31 d ago",
        "  [3] you: the danube",
        "  model: It is long.",
        "  --",
        '  [4] tool terminal: {"output": "danube"}',
        "",
        "untitled",
        "s-2 · cli · 31 d ago",
        "  you: danube delta",
    ]


def test_what_matched_is_bold_where_that_shows() -> None:
    found = hit("the  danube\nis", (5, 11))
    assert highlighted(found, COLOURED, as_it_is) == "the \x1b[1mdanube\x1b[0m is"
    assert highlighted(found, PLAIN, as_it_is) == "the danube is"


def test_a_secret_is_taken_out_also_where_a_mark_would_cut_it() -> None:
    found = hit(f"the key {SECRET} there", (8, 14))
    for paint in (PLAIN, COLOURED):
        assert highlighted(found, paint, Redactor({"KEY": SECRET})) == "the key [redacted:KEY] there"


texts = st.text(max_size=40)
marks = st.lists(st.tuples(st.integers(-5, 50), st.integers(-5, 50)), max_size=4)


@given(text=texts, places=marks)
def test_no_marks_lose_or_double_any_of_the_text(text: str, places: list[tuple[int, int]]) -> None:
    shown = highlighted(hit(text, *places), COLOURED, as_it_is)
    plain = shown.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert plain.split() == highlighted(hit(text), PLAIN, as_it_is).split()
    assert "\x1b" not in plain


def test_no_part_of_a_key_is_left_where_a_snippet_is_cut(tmp_path: Path) -> None:
    redact = Redactor({"KEY": SECRET})

    async def main() -> None:
        async with aclosing(opened_store(tmp_path)) as store:
            ref = await store.create(Opened())
            async with store.claim(ref) as session:
                for number in range(0, 200, 3):
                    filler = "pebble " * (number // 7) + "x" * (number % 7)
                    await session.append(user(f"{filler} {SECRET} {filler} lighthouse {filler} {SECRET} {filler}"))
            hits = await store.search(Query(text="lighthouse", limit=200))
            assert len(hits) == 67
            for found in hits:
                shown = highlighted(found, PLAIN, redact)
                assert not [at for at in range(len(SECRET) - 6) if SECRET[at : at + 6] in shown], shown

    asyncio.run(main())
