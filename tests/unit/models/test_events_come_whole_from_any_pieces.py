"""The parser of server-sent events: the same events however the bytes are cut."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from melete.models.sse import EventParser, ServerEvent

LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
DATA = st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=("Cs",)), max_size=20)


def parsed(pieces: list[bytes]) -> list[ServerEvent]:
    """The events of a stream that arrives in these pieces."""
    parser = EventParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + list(parser.close())


@given(
    st.lists(st.lists(DATA, min_size=1, max_size=3), max_size=5),
    LINE_ENDS,
    st.lists(st.integers(min_value=0, max_value=300), max_size=8),
    st.booleans(),
)
def test_any_cut_gives_the_same_events(events: list[list[str]], end: bytes, cuts: list[int], bom: bool) -> None:
    stream = b"\xef\xbb\xbf" if bom else b""
    for lines in events:
        stream += b": hello" + end
        for line in lines:
            stream += b"data: " + line.encode() + end
        stream += end
    places = sorted({0, len(stream), *(c for c in cuts if c < len(stream))})
    pieces = [stream[a:b] for a, b in pairwise(places)]
    assert [e.data.decode() for e in parsed(pieces)] == ["\n".join(lines) for lines in events]


@given(st.binary(max_size=300), st.lists(st.integers(min_value=0, max_value=300), max_size=6))
def test_any_bytes_in_any_pieces_are_read_alike(data: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(data), *(c for c in cuts if c < len(data))})
    assert parsed([data[a:b] for a, b in pairwise(places)]) == parsed([data])


def test_names_comments_and_fields_without_a_space() -> None:
    stream = b":keep-alive\n\nevent: error\ndata:{}\nid: 7\nretry: 10\n\ndata: a\ndata\ndata: b\n\nevent: none\n\n"
    assert parsed([stream]) == [ServerEvent(name="error", data=b"{}"), ServerEvent(name="message", data=b"a\n\nb")]


def test_the_last_event_needs_no_blank_line() -> None:
    assert [e.data for e in parsed([b"data: 1\n\ndata: 2"])] == [b"1", b"2"]


def test_open_bytes_are_counted_and_forgotten() -> None:
    parser = EventParser()
    assert list(parser.feed(b"data: " + b"x" * 1000)) == []
    assert parser.buffered == 1006
    assert len(list(parser.feed(b"\n\n"))) == 1
    assert parser.buffered == 0
    assert parser.met
