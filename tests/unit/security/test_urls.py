"""Which addresses may be reached: only what is plainly public, in the spelling that everybody reads alike."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.core.policy import Verdict
from melete.security.urls import (
    Where,
    embedded,
    judge,
    judge_address,
    judge_addresses,
    judge_host,
    networks,
    plain_name,
    read,
)

PUBLIC = ("93.184.215.14", "1.0.0.1", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::93.184.215.14", "172.32.0.1")
NOT_PUBLIC = (
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.9.8.7", "172.16.0.1", "172.31.255.255", "192.168.7.7", "169.254.169.254", "100.64.0.1",
    "100.127.255.255", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1",
    "240.0.0.1", "255.255.255.255", "168.63.129.16", "192.88.99.1",
    "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1", "2002:7f00:1::",
    "2002:5db8:d70e::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::169.254.169.254",
    "64:ff9b:1::10.0.0.1", "::127.0.0.1", "::ffff:0:10.0.0.1", "2a00:1450::5efe:10.0.0.1", "2606:4700::200:5efe:127.0.0.1",
    "100::1", "3fff::1", "4000::1",
)  # fmt: skip
NO_ADDRESS = (
    "",
    "one",
    "1.2.3",
    "1.2.3.4.5",
    "01.2.3.4",
    "0x7f.0.0.1",
    "2130706433",
    "1.2.3.256",
    "::g",
    "[::1]",
    " 1.1.1.1",
)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_reached(address: str) -> None:
    assert judge_address(address).verdict == "allow"


@pytest.mark.parametrize("address", NOT_PUBLIC + NO_ADDRESS)
def test_every_other_may_not(address: str) -> None:
    verdict = judge_address(address)
    assert verdict.verdict == "forbid"
    assert verdict.reason


@given(st.ip_addresses())
def test_nothing_passes_that_the_standard_library_takes_for_private(address: IPv4Address | IPv6Address) -> None:
    """Other registers know other exceptions; whatever either side forbids is forbidden."""
    inner = embedded(address) if isinstance(address, IPv6Address) else None
    if judge_address(str(address)).verdict == "allow":
        assert (inner or address).is_global
        assert not (inner or address).is_multicast


@given(st.ip_addresses(v=4))
def test_an_address_in_an_address_is_judged_as_the_one_that_it_stands_for(address: IPv4Address) -> None:
    for wrapped in (f"::ffff:{address}", f"64:ff9b::{address}"):
        assert judge_address(wrapped).verdict == judge_address(str(address)).verdict
        assert embedded(IPv6Address(wrapped)) == address


@pytest.mark.parametrize(
    "url",
    (
        "http://host.example", "https://host.example:8443/path?query#part", "HTTPS://HOST.EXAMPLE./", "http://xn--bcher-kva.example/",
        "http://bücher.example/ü", "http://93.184.215.14:8080/", "http://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/",
        "https://me@host.example/", "http://a_b.host.example/", "https://host.example:/", "https://10.host.example/",
    ),
)  # fmt: skip
def test_an_address_of_a_public_place_may_be_fetched(url: str) -> None:
    assert judge(url).verdict == "allow", judge(url).reason


@pytest.mark.parametrize(
    ("url", "rule"),
    (
        ("ftp://host.example/", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("//host.example/", "scheme"),
        ("http:host.example", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("", "scheme"),
        ("http:///path", "spelling"),
        ("http://", "spelling"),
        ("http://a b.example/", "spelling"),
        ("http://host.example\\@127.0.0.1/", "spelling"),
        ("http://host.exa\tmple/", "spelling"),
        ("http://host.example/\r\nHost: other", "spelling"),
        ("http://ho\u200bst.example/", "spelling"),
        ("http://host..example/", "spelling"),
        ("http://-host.example/", "spelling"),
        ("http://127.0.0.1%2f@host.example/", "credentials"),
        ("http://%31%32%37.0.0.1/", "spelling"),
        ("http://" + "a" * 9_000 + ".example/", "spelling"),
        ("http://[::1/", "spelling"),
        ("http://::1/", "spelling"),
        ("http://host.example:99999999/", "spelling"),
        ("http://host.example:http/", "spelling"),
        ("http://host.example:0/", "port"),
        ("http://host.example:70000/", "port"),
        ("http://host.example:22/", "port"),
        ("http://host.example:6379/", "port"),
        ("http://name:word@host.example/", "credentials"),
        ("http://other.example@host.example/", "credentials"),
        ("http://a@b@host.example/", "credentials"),
        ("http://0x7f000001/", "address"),
        ("http://017700000001/", "address"),
        ("http://2130706433/", "address"),
        ("http://127.1/", "address"),
        ("http://0x5db8d70e/", "address"),
        ("http://93.184.55054/", "address"),
        ("http://host.example.0x7f/", "address"),
        ("http://127.0.0.1/", "address"),
        ("http://127.0.0.1./", "spelling"),
        ("http://\uff11\uff12\uff17.0.0.1/", "spelling"),
        ("http://①②⑦.0.0.1/", "spelling"),
        ("http://[::ffff:127.0.0.1]/", "address"),
        ("http://[fe80::1%25eth0]/", "address"),
        ("http://localhost/", "internal-name"),
        ("http://a.localhost:8000/", "internal-name"),
        ("http://LocalHost./", "internal-name"),
        ("http://db.internal/", "internal-name"),
        ("http://printer.local/", "internal-name"),
        ("http://router.home.arpa/", "internal-name"),
        ("http://intranet/", "internal-name"),
        ("http://metadata/", "internal-name"),
    ),
)
def test_what_is_not_plainly_public_may_not(url: str, rule: str) -> None:
    verdict = judge(url)
    assert (verdict.verdict, verdict.rule) == ("forbid", rule), verdict.reason


def test_a_name_counts_by_all_that_it_stands_for() -> None:
    url = "https://host.example/"
    assert judge(url, ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"]).verdict == "allow"
    assert judge(url, []).verdict == "forbid"
    mixed = judge(url, ["93.184.215.14", "10.0.0.1"])
    assert mixed.verdict == "forbid"
    assert "10.0.0.1" in mixed.reason
    assert judge_addresses(["93.184.215.14"]).verdict == "allow"


def test_a_host_is_judged_by_itself_as_well() -> None:
    assert judge_host("host.example").verdict == "allow"
    assert judge_host("[::1]").verdict == "forbid"
    assert judge_host("[::1").verdict == "forbid"


def test_a_name_has_one_spelling() -> None:
    assert plain_name("Bücher.Example.") == "xn--bcher-kva.example"
    assert plain_name("a.b") == "a.b"
    for wrong in ("", ".", "a..b", "-a.b", "a-.b", "a b", "a/b", "a" * 64 + ".b", "ab." * 90, "é" * 70, "a:b", "a.b.."):
        assert plain_name(wrong) is None, wrong


@given(st.text(max_size=80))
def test_no_text_breaks_the_judgement(text: str) -> None:
    for tried in (text, f"http://{text}", f"https://{text}/", f"http://host.example/{text}"):
        assert judge(tried).verdict in ("allow", "forbid")


@given(st.ip_addresses(v=4), st.sampled_from(("decimal", "octal", "hex", "short")))
def test_an_address_in_an_odd_spelling_is_refused_whatever_it_stands_for(address: IPv4Address, kind: str) -> None:
    parts = address.packed
    text = {
        "decimal": str(int(address)),
        "octal": ".".join(f"0{part:o}" for part in parts),
        "hex": ".".join(hex(part) for part in parts),
        "short": f"{parts[0]}.{int(address) & 0xFFFFFF}",
    }[kind]
    try:
        ip_address(text)
    except ValueError:
        assert judge(f"http://{text}/").verdict == "forbid"


def test_trust_opens_private_networks_and_nothing_that_is_this_machines_own() -> None:
    trusted, unreadable = networks(
        ["10.1.0.0/16", "192.168.1.7", "fd00::/8", "169.254.0.0/16", "127.0.0.0/8", "::/0", "0.0.0.0/0", "x", "1/99"]
    )
    assert unreadable == ["x", "1/99"]
    for open_ in ("10.1.2.3", "fd00::1", "10.9.9.9", "64:ff9b::10.1.2.3", "::ffff:192.168.1.7"):
        assert judge_address(open_).rule == "private"
        assert judge_address(open_, trusted).verdict == "allow"
    for closed in (
        "127.0.0.1",
        "::1",
        "169.254.169.254",
        "100.100.100.200",
        "fd00:ec2::254",
        "fe80::1",
        "224.0.0.1",
        "0.0.0.0",
        "::ffff:127.0.0.1",
    ):
        assert judge_address(closed, trusted).rule == "address"
    assert judge_address("10.2.0.1", trusted[:1]).verdict == "forbid"
    assert judge_addresses(["10.1.0.1", "10.2.0.1"], trusted[:1]).verdict == "forbid"


@pytest.mark.parametrize(
    ("url", "verdict"),
    (
        ("https://metadata.platformequinix.com/userdata", "forbid"),
        ("https://open.example/proxy/169.254.169.254/latest/meta-data/", "forbid"),
        ("https://open.example/?url=http%3A%2F%2F169.254.169.254%2Flatest", "forbid"),
        ("https://open.example/fetch/http://metadata.google.internal:80/computeMetadata", "forbid"),
        ("https://docs.example/what-is-169.254.169.254/", "allow"),
        ("https://lookup.example/ip/169.254.169.254", "allow"),
        ("https://lookup.example/ip/169.254.169.254/", "allow"),
        ("https://lookup.example/?q=169.254.169.254&page=2", "allow"),
    ),
)
def test_nobody_else_is_sent_to_a_clouds_metadata(url: str, verdict: str) -> None:
    assert judge(url).verdict == verdict


def test_what_is_judged_is_what_is_dialled() -> None:
    where = read("HTTPS://me@Bücher.Example.:8443/a b/ü?x=[1]&y={z}#part".replace(" ", "%20"))
    assert isinstance(where, Where)
    assert (where.secure, where.host, where.port) == (True, "xn--bcher-kva.example", 8443)
    assert (where.target, where.header) == ("/a%20b/%C3%BC?x=[1]&y=%7Bz%7D", "xn--bcher-kva.example:8443")
    bare = read("http://[2606:4700::1]?q")
    assert isinstance(bare, Where)
    assert (bare.host, bare.target, bare.header, bare.port) == ("2606:4700::1", "/?q", "[2606:4700::1]", 80)
    assert isinstance(read("http://a:b@c.example/"), Verdict)


def test_trust_lets_addresses_decide_about_names_of_the_own_network() -> None:
    trusted = networks(["10.1.0.0/16"])[0]
    for url in ("http://wiki.corp/", "http://wiki/", "http://10.1.2.3/"):
        assert judge(url).verdict == "forbid"
        assert judge(url, trusted=trusted).verdict == "allow"
    assert judge("http://wiki.corp/", ["10.1.2.3"], trusted=trusted).verdict == "allow"
    for closed in (
        "http://localhost/",
        "http://a.localhost/",
        "http://127.0.0.1/",
        "http://10.2.0.1/",
        "http://0x0a010203/",
    ):
        assert judge(closed, trusted=trusted).verdict == "forbid"
    assert judge("http://wiki.corp/", ["10.2.0.1"], trusted=trusted).verdict == "forbid"
