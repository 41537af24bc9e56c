"""Which addresses on the network may be reached. Pure judgement: nothing is resolved here.

Only what is plainly public passes. An address in an odd spelling, or one wrapped in another, is how a private one is smuggled
past a check, so spellings that no honest address has are refused as such. What a name stands for is judged when it is known:
`judge` takes the addresses, and whoever connects must connect to one of them (`net/dial.py`).
"""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import quote, unquote

from msgspec import Struct

from melete.core.policy import Verdict

Network = IPv4Network | IPv6Network

LONGEST: Final = 8_192
LONGEST_NAME: Final = 253
LAST_PORT: Final = 65_535
URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>[^#]*)(?:#.*)?", re.DOTALL)
AUTHORITY = re.compile(r"(?:[A-Za-z0-9_~-]+@)?(?P<host>\[[^\[\]]*\]|[^:\[\]@]*)(?::(?P<port>[0-9]{0,5}))?")
LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
UNSEEN = re.compile(r"[\x00-\x20\x7f-\xa0\xad\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ufff9-\uffff]")

NEVER_WEB = frozenset({
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 67, 68, 69, 79, 88, 109, 110, 111, 113, 119, 123, 135,
    137, 138, 139, 143, 161, 162, 179, 194, 389, 427, 445, 464, 465, 512, 513, 514, 515, 540, 548, 554, 563, 587, 601, 623,
    631, 636, 873, 989, 990, 992, 993, 995, 1433, 1521, 1719, 1720, 1723, 2049, 2375, 2376, 2379, 2380, 3306, 3389, 3659,
    4190, 5060, 5061, 5432, 5900, 5984, 6000, 6379, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10250, 10255, 11211, 27017,
})  # fmt: skip
"""Ports on which other things than web servers answer: mail, shells, databases, caches, the engines of containers."""

INTERNAL = ("localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan", "home.arpa")
"""Endings of names that mean this machine or the network that it stands in."""
THIS_MACHINE = ("localhost", "localdomain")
METADATA = frozenset({
    "metadata.packet.net", "metadata.platformequinix.com", "metadata.tencentyun.com", "api.metadata.cloud.ibm.com",
    "api.service.softlayer.com", "metadata.exoscale.com",
})  # fmt: skip
"""Public names under which clouds tell a machine its own keys."""
RELAYED = re.compile(
    r"[/=@](?:169\.254\.169\.254|100\.100\.100\.200|\[fd00:ec2::254\]|metadata\.google\.internal)(?::[0-9]+)?/[^/?&]"
)
"""A page of a cloud's metadata, named as what another server is to fetch."""

FORBIDDEN_4: Final = tuple(
    (IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "this machine"),
        ("10.0.0.0/8", "a private network"),
        ("100.64.0.0/10", "a provider's inner network"),
        ("127.0.0.0/8", "this machine"),
        ("168.63.129.16/32", "a cloud's inner service"),
        ("169.254.0.0/16", "link-local, where clouds keep their metadata"),
        ("172.16.0.0/12", "a private network"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved for examples"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "a private network"),
        ("198.18.0.0/15", "reserved for measurements"),
        ("198.51.100.0/24", "reserved for examples"),
        ("203.0.113.0/24", "reserved for examples"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
FORBIDDEN_6: Final = tuple(
    (IPv6Network(network), what)
    for network, what in (
        ("::/127", "this machine"),
        ("fc00::/7", "a private network"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "a private network"),
        ("ff00::/8", "multicast"),
        ("2001:db8::/32", "reserved for examples"),
        ("3fff::/20", "reserved for examples"),
        ("2001::/23", "reserved, or a tunnel"),
        ("2002::/16", "a tunnel"),
    )
)
NEVER: Final = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "224.0.0.0/4",
        "255.255.255.255/32", "::/127", "fe80::/10", "ff00::/8", "fd00:ec2::254/128", "fd20:ce::254/128",
    )
)  # fmt: skip
"""What nobody's trust opens: this machine itself, whole groups of machines, and where clouds keep their metadata."""
GLOBAL_6: Final = IPv6Network("2000::/3")
NAT64: Final = IPv6Network("64:ff9b::/96")
EMBEDDING: Final = (NAT64, IPv6Network("::ffff:0:0/96"))
ISATAP: Final = (0x00005EFE, 0x02005EFE)


class Where(Struct, frozen=True, kw_only=True):
    """A web address as it is judged and as it is dialled: one reading for both, so that they cannot differ.

    `host` is a plain name or an address without brackets, `spelled` the same as it was written; `target` is what is asked of it.
    """

    secure: bool
    host: str
    spelled: str
    port: int
    target: str

    @property
    def header(self) -> str:
        """The value of the Host header: without the port where it is the scheme's own."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return shown if self.port == (443 if self.secure else 80) else f"{shown}:{self.port}"


def read(url: str) -> Where | Verdict:
    """The parts of a web address, its host not judged; a refusal for what is none, or is spelled as no honest one is."""
    if len(url) > LONGEST or UNSEEN.search(url) or "\\" in url:
        return _no("spelling", "it holds characters that no address has, or is too long")
    parts = URL.fullmatch(url)
    if parts is None or (scheme := parts["scheme"].lower()) not in ("http", "https"):
        return _no("scheme", "only addresses that begin with http:// or https:// are fetched")
    authority = AUTHORITY.fullmatch(parts["authority"])
    if authority is None and "@" in parts["authority"]:
        return _no("credentials", "it holds a password, or a user's name that reads like another host")
    host = authority["host"] if authority else ""
    name = host[1:-1] if host.startswith("[") else plain_name(host)
    if authority is None or name is None:
        return _no("spelling", "its host cannot be read")
    rest = parts["rest"] if parts["rest"].startswith("/") else "/" + parts["rest"]
    return Where(
        secure=scheme == "https",
        host=name,
        spelled=host,
        port=int(authority["port"] or (443 if scheme == "https" else 80)),
        target=quote(rest, safe="/?:@!$&'()*+,;=%~-._[]|"),
    )


def judge(url: str, resolves_to: Sequence[str] | None = None, *, trusted: Sequence[Network] = ()) -> Verdict:
    """Whether a web address may be fetched; `resolves_to` are the addresses that its name has, each of which is judged.

    Without `resolves_to` the spelling alone is judged, and whoever connects has to judge the addresses. A redirect is an address
    of its own. Networks that are `trusted` count as public.
    """
    where = read(url)
    if isinstance(where, Verdict):
        return where
    if not _web(where.port):
        return _no("port", f"no web server answers on port {where.port}")
    if where.host in METADATA or RELAYED.search(unquote(where.target)):
        return _no("metadata", "it leads to where a cloud keeps a machine's own keys")
    verdict = judge_host(where.spelled, trusted)
    return verdict if verdict.verdict == "forbid" or resolves_to is None else judge_addresses(resolves_to, trusted)


def judge_host(host: str, trusted: Sequence[Network] = ()) -> Verdict:
    """Whether a host, by its spelling alone, may be a public one: a name, an IPv4 address, an IPv6 address in brackets.

    Where there are trusted networks, a name of the own network may belong to one: its addresses decide.
    """
    if host.startswith("["):
        return judge_address(host[1:-1] if host.endswith("]") else "", trusted)
    name = plain_name(host)
    if name is None:
        return _no("spelling", "its host cannot be read")
    last = name.rpartition(".")[2]
    if NUMERIC.fullmatch(last):
        return judge_address(name, trusted) if host == name else _no("spelling", "it is an address in an odd spelling")
    if not _under(name, INTERNAL) and "." in name:
        return Verdict()
    if trusted and not _under(name, THIS_MACHINE):
        return Verdict()
    return _no("internal-name", "the name belongs to this machine or its own network")


def judge_addresses(addresses: Sequence[str], trusted: Sequence[Network] = ()) -> Verdict:
    """Whether all of what a name stands for is public or trusted: one that is not forbids the whole, and so does none at all."""
    if not addresses:
        return _no("address", "the name has no address")
    for address in addresses:
        verdict = judge_address(address, trusted)
        if verdict.verdict == "forbid":
            return Verdict(verdict="forbid", rule=verdict.rule, reason=f"it stands for {address}: {verdict.reason}")
    return Verdict()


def judge_address(text: str, trusted: Sequence[Network] = ()) -> Verdict:
    """Whether an IP address in its usual spelling is a public one; every other is forbidden, and so is what is no address.

    Networks that somebody trusts count as public. The rule is `private` where trust would help, `address` where nothing does.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return _no("address", "it is no address, or one in an odd spelling")
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return _no("address", "it names a network interface of this machine")
        address = embedded(address) or address
    verdict = _judge_4(address) if isinstance(address, IPv4Address) else _judge_6(address)
    if verdict.verdict == "allow" or any(address in network for network in NEVER):
        return verdict
    if any(address in network for network in trusted):
        return Verdict()
    return _no("private", verdict.reason)


def networks(texts: Sequence[str]) -> tuple[list[Network], list[str]]:
    """The networks that texts name, each an address or `ADDRESS/BITS`, and the texts that name none."""
    found: list[Network] = []
    unreadable: list[str] = []
    for text in texts:
        try:
            found.append(ip_network(text.strip(), strict=False))
        except ValueError:
            unreadable.append(text)
    return found, unreadable


def embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address stands for, where it is one that networks translate back."""
    if any(address in network for network in EMBEDDING):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if (int(address) >> 32) & 0xFFFFFFFF in ISATAP:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def plain_name(host: str) -> str | None:
    """A host's name in the one spelling that is compared: lower case, ASCII, no dot at the end; None for what is no name."""
    if len(host) > LONGEST_NAME + 1:
        return None
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            return None
    name = host.lower().removesuffix(".")
    if not name or len(name) > LONGEST_NAME or not all(LABEL.fullmatch(label) for label in name.split(".")):
        return None
    return name


def _judge_4(address: IPv4Address) -> Verdict:
    for network, what in FORBIDDEN_4:
        if address in network:
            return _no("address", f"it is not a public address ({what})")
    return Verdict()


def _judge_6(address: IPv6Address) -> Verdict:
    for network, what in FORBIDDEN_6:
        if address in network:
            return _no("address", f"it is not a public address ({what})")
    return Verdict() if address in GLOBAL_6 else _no("address", "it is not a public address (reserved)")


def _under(name: str, endings: Sequence[str]) -> bool:
    return any(name == ending or name.endswith("." + ending) for ending in endings)


def _web(port: int) -> bool:
    return 0 < port <= LAST_PORT and port not in NEVER_WEB


def _no(rule: str, reason: str) -> Verdict:
    return Verdict(verdict="forbid", rule=rule, reason=reason)
