"""Which hosts the commands of a sandbox may reach: a list of names, compared before anything is resolved. Pure.

An entry is `NAME`, `NAME:PORT`, `NAME:*`, the same with `*.NAME` for every name below NAME, `*` for every public name, or an
address (`203.0.113.7:8080`, `[2001:db8::7]:443`). Without a port it stands for the web's own, 80 and 443. A host is compared in
one spelling: lower case, ASCII (punycode), without the dot at the end. An address is allowed when it is listed itself, in its
usual spelling, and by nothing else.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from msgspec import Struct

from melete.security.urls import LAST_PORT, NUMERIC, plain_name

WEB: Final = (80, 443)
ENTRY: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\[\]/@\s]+)(?::(?P<port>[0-9]{1,5}|\*))?")


class Entry(Struct, frozen=True, kw_only=True):
    """One line of the list: `below` also covers the names below `name`; no ports are all ports. `why` says where it is from."""

    name: str
    ports: tuple[int, ...] = WEB
    below: bool = False
    why: str = ""

    def __str__(self) -> str:
        name = f"*.{self.name}" if self.below and self.name else self.name or "*"
        name = f"[{name}]" if ":" in name else name
        if self.ports == WEB:
            return name
        return f"{name}:{self.ports[0]}" if self.ports else f"{name}:*"

    def covers(self, host: str, port: int) -> bool:
        """Whether it allows `host`, which `plain` has given, at `port`."""
        if self.ports and port not in self.ports:
            return False
        if not self.below:
            return host == self.name
        return not is_address(host) and (not self.name or host.endswith("." + self.name))


class AllowList:
    """Entries, in the order in which they were given; those that cannot be read are in `unreadable`."""

    def __init__(self, entries: Iterable[Entry | str] = (), *, why: str = "") -> None:
        self.entries: list[Entry] = []
        self.unreadable: list[str] = []
        self.add(entries, why=why)

    def add(self, entries: Iterable[Entry | str], *, why: str = "") -> None:
        """Put more at the end; what stands there already is not put there twice."""
        for given in entries:
            entry = given if isinstance(given, Entry) else parse(given, why=why)
            if entry is None:
                self.unreadable.append(str(given))
            elif not any(str(entry) == str(known) for known in self.entries):
                self.entries.append(entry)

    def covers(self, host: str, port: int) -> bool:
        """Whether some entry allows `host`, as `plain` gives it, at `port`."""
        return any(entry.covers(host, port) for entry in self.entries)


def parse(text: str, *, why: str = "") -> Entry | None:
    """An entry as a person writes it, or None when it cannot be read."""
    found = ENTRY.fullmatch(text.strip())
    if found is None:
        return None
    ports = _ports(found["port"])
    name, below = found["host"], False
    if name == "*":
        return Entry(name="", below=True, ports=ports, why=why) if ports is not None else None
    if name.startswith("*."):
        name, below = name[2:], True
    host = plain(name)
    if host is None or ports is None or (below and is_address(host)):
        return None
    return Entry(name=host, below=below, ports=ports, why=why)


def plain(host: str) -> str | None:
    """A host in the one spelling that is compared, an IPv6 address without brackets; None for what is no host.

    A name that some programs would read as a number, and so as an address, is no host.
    """
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        address = ip_address(bare)
    except ValueError:
        pass
    else:
        return None if "%" in bare else str(address)
    name = plain_name(host)
    if name is None or NUMERIC.fullmatch(name.rpartition(".")[2]):
        return None
    return name


def is_address(host: str) -> bool:
    """Whether a host, as `plain` gives it, is an address and not a name."""
    return ":" in host or host.rpartition(".")[2].isdigit()


def _ports(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return WEB
    if text == "*":
        return ()
    return (int(text),) if 0 < int(text) <= LAST_PORT else None
