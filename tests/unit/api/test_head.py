"""The head of a request is read the same way whichever parser stood before: what that lets through may still be refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.surfaces.api.errors import ApiError
from melete.surfaces.api.head import Head, read_head

HOST = (b"host", b"localhost")


def head(*headers: tuple[bytes, bytes], path: str = "/who", query: bytes = b"", **more: Any) -> Head:
    scope = {"method": "GET", "path": path, "query_string": query, "headers": [HOST, *headers], "http_version": "1.1"}
    return read_head(scope | more)


@pytest.mark.parametrize(
    "header",
    [
        (b"authorization", b"Bearer a\x00b"),
        (b"authorization", b"Bearer a\nX-Other: b"),
        (b"origin", b"https://a.example\r"),
        (b"HOST", b"evil.example"),
        (b"Host", b"localhost"),
        (b"content-length", b"1\n"),
        (b"content-length", b"1, 1"),
        (b"content-length", "\u0663".encode()),
        (b"content-length", b"0x10"),
        (b"content-length", b"1_000"),
        (b"transfer-encoding", b"gzip, chunked"),
        (b"transfer-encoding", b"identity"),
        (b"transfer-encoding", b"xchunked"),
    ],
)
def test_what_a_lenient_parser_lets_through_is_refused(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(ApiError) as caught:
        head(header)
    assert caught.value.status == 400


def test_a_length_and_chunks_exclude_each_other() -> None:
    length, chunks = (b"content-length", b"5"), (b"Transfer-Encoding", b"Chunked")
    assert (head(length).length, head(length).has_body) == (5, True)
    assert (head(chunks).chunked, head(chunks).has_body) == (True, True)
    assert not head((b"content-length", b"0")).has_body
    for headers, version in (((length, chunks), "1.1"), ((chunks,), "1.0")):
        with pytest.raises(ApiError, match="where the body ends"):
            head(*headers, http_version=version)


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b"Bearer abc", b"abc"),
        (b"bearer   abc  ", b"abc"),
        (b"Bearer", b""),
        (b"Bearer\tabc", b""),
        (b"Basic abc", b""),
        (b"abc", b""),
        (b"", b""),
        (b"Bearer a b", b"a b"),
        (b"Bearer \xff\xfe", b"\xff\xfe"),
    ],
)
def test_a_key_is_what_stands_behind_bearer(value: bytes, key: bytes) -> None:
    assert head((b"authorization", value)).key == key


@pytest.mark.parametrize(
    "query",
    [
        b"key=x", b"API_KEY=x", b"Api-Key", b"access%5Ftoken=x", b"a=1&token=x", b"x=mk_" + b"aB3_-" * 8, b"x=%6Dk_" + b"a" * 43,
        b"authorization=Bearer+x", b"a=b&password=", b"&".join(b"a%d=1" % n for n in range(101)),
    ],
)  # fmt: skip
def test_a_query_holds_no_key(query: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        head(query=query)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "query",
    [
        b"after=1.2",
        b"limit=10&offset=5",
        b"q=the+key+to+it",
        b"keyword=x",
        b"tokens=5",
        b"q=mk_abc+mk_def",
        b"%ff=%fe",
        b"&&",
    ],
)
def test_other_fields_of_a_query_are_left_alone(query: bytes) -> None:
    assert head(query=query).path == "/who"


@given(
    st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=50)), max_size=10),
    st.text(max_size=30),
    st.binary(max_size=60),
)
def test_any_head_is_read_or_refused(headers: list[tuple[bytes, bytes]], path: str, query: bytes) -> None:
    try:
        found = head(*headers, path=path, query=query)
    except ApiError as error:
        assert error.status in (400, 414, 431)
    else:
        assert found.path.startswith("/")
        assert found.path.isascii()


@pytest.mark.parametrize(
    ("site", "mode", "origin", "method", "hidden"),
    [
        (b"cross-site", b"no-cors", b"", "GET", True),
        (b"same-site", b"no-cors", b"", "GET", True),
        (b"cross-site", b"navigate", b"", "GET", False),
        (b"cross-site", b"navigate", b"", "POST", True),
        (b"cross-site", b"cors", b"https://a.example", "GET", False),
        (b"same-origin", b"no-cors", b"", "GET", False),
        (b"none", b"navigate", b"", "GET", False),
        (b"", b"", b"", "GET", False),
    ],
)
def test_pages_that_do_not_say_who_they_are(site: bytes, mode: bytes, origin: bytes, method: str, hidden: bool) -> None:
    found = head((b"sec-fetch-site", site), (b"sec-fetch-mode", mode), (b"origin", origin), method=method)
    assert found.is_hidden_page is hidden
