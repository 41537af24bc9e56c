"""The sandbox's list of hosts: an entry covers what it says and nothing that merely looks like it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.environments.allowlist import AllowList, Entry, is_address, parse, plain


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    (
        ("host.example", "host.example", 443),
        ("host.example", "host.example", 80),
        ("Host.Example.", "host.example", 443),
        ("host.example:8443", "host.example", 8443),
        ("host.example:*", "host.example", 22),
        ("*.host.example", "a.host.example", 443),
        ("*.host.example", "a.b.host.example", 443),
        ("*.host.example:9000", "a.host.example", 9000),
        ("bücher.example", "xn--bcher-kva.example", 443),
        ("*", "any.host.example", 443),
        ("93.184.215.14", "93.184.215.14", 80),
        ("93.184.215.14:22", "93.184.215.14", 22),
        ("[2606:4700:0:0::1111]:443", "2606:4700::1111", 443),
    ),
)
def test_an_entry_covers_what_it_names(entry: str, host: str, port: int) -> None:
    assert AllowList([entry]).covers(host, port)


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    (
        ("host.example", "evilhost.example", 443),
        ("host.example", "host.example.evil.example", 443),
        ("host.example", "a.host.example", 443),
        ("host.example", "example", 443),
        ("host.example", "host.example", 22),
        ("host.example:8443", "host.example", 443),
        ("*.host.example", "host.example", 443),
        ("*.host.example", "evilhost.example", 443),
        ("*.host.example", "xhost.example", 443),
        ("*", "93.184.215.14", 443),
        ("*", "2606:4700::1111", 443),
        ("*", "any.host.example", 22),
        ("93.184.215.14", "93.184.215.140", 80),
    ),
)
def test_and_nothing_else(entry: str, host: str, port: int) -> None:
    assert not AllowList([entry]).covers(host, port)


@pytest.mark.parametrize(
    "text",
    (
        "", " ", "a b", "http://host.example", "host.example/path", "host.example:0", "host.example:70000", "host.example:http",
        "*host.example", "a.*.example", "**", "*.", "*.93.184.215.14", "2130706433", "0x7f.1", "010.0.0.1", "me@host.example",
        "2606:4700::1111", "[fe80::1%eth0]", "-a.example", "a..example",
    ),
)  # fmt: skip
def test_what_cannot_be_read_allows_nothing_and_is_kept_to_be_told(text: str) -> None:
    assert parse(text) is None
    given = AllowList([text, "host.example"])
    assert given.unreadable == [text]
    assert [str(entry) for entry in given.entries] == ["host.example"]


def test_entries_are_written_as_they_are_read() -> None:
    texts = [
        "host.example",
        "*.host.example:8080",
        "*",
        "host.example:*",
        "93.184.215.14:22",
        "[2606:4700::1111]",
        "[2606:4700::1111]:99",
    ]
    assert [str(parse(text)) for text in texts] == texts
    listed = AllowList(texts, why="a person")
    listed.add([*texts, Entry(name="other.example")])
    assert [str(entry) for entry in listed.entries] == [*texts, "other.example"]
    assert listed.entries[0].why == "a person"


def test_a_host_has_one_spelling_and_one_kind() -> None:
    assert plain("HOST.example.") == "host.example"
    assert plain("[2606:4700:0::1111]") == "2606:4700::1111"
    assert plain("::ffff:1.2.3.4") == "::ffff:102:304"
    for wrong in (
        "127.1",
        "0x7f000001",
        "017700000001",
        "1.2.3.4.",
        "host.0x1",
        "fe80::1%1",
        "",
        "a b",
        "a\0b",
        "host.example\n",
    ):
        assert plain(wrong) is None, wrong
    assert [is_address(host) for host in ("1.2.3.4", "::1", "host.example", "1.example")] == [True, True, False, False]


@given(st.text(max_size=60), st.integers(-5, 70_000))
def test_no_text_breaks_it_and_only_the_listed_name_gets_through(text: str, port: int) -> None:
    AllowList([text, f"*.{text}", f"{text}:{port}"])
    host = plain(text)
    if host is not None and AllowList(["host.example"]).covers(host, port):
        assert host == "host.example"
