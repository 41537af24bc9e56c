"""Under which names the server may be called, and from which pages: what keeps other people's pages in a browser away. Pure.

A page whose own name is made to mean this machine (DNS rebinding) still sends its name as `Host`; any other page sends its
`Origin`.
"""

import re
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from melete.app.sections import ServerSettings
from melete.app.vendors import is_loopback
from melete.core.errors import ConfigError

ANY = "*"
_NAME = r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*"
_HOST = re.compile(rf"(?P<host>\[[0-9a-f:.]+\]|{_NAME})\.?(?::(?P<port>\d{{0,5}}))?", re.ASCII)
_ENTRY = re.compile(rf"(?P<below>\*\.)?(?P<host>\[[0-9a-f:.]+\]|{_NAME})(?::(?P<port>\d{{1,5}}))?", re.ASCII)
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@*,\\]+", re.ASCII)
_LONGEST = 255 + len("[]:65535")
_PORTS = {"http": ":80", "https": ":443"}


class Names:
    """The host names and origins that settings allow; raises ConfigError for one that can never be sent."""

    def __init__(self, settings: ServerSettings) -> None:
        listed = [_entry(text) for text in settings.allowed_hosts if text.strip() != ANY]
        own = settings.host.strip().lower().rstrip(".")
        self._any_host = ANY in (text.strip() for text in settings.allowed_hosts)
        self._hosts = {(host, port) for below, host, port in listed if not below} | {(own, "")}
        self._below = {(f".{host}", port) for below, host, port in listed if below}
        self._any_origin = ANY in settings.cors_origins
        self._origins = frozenset(_origin(text) for text in settings.cors_origins if text != ANY)

    @property
    def any_origin(self) -> bool:
        """Whether pages of every origin may call."""
        return self._any_origin

    @property
    def some_origin(self) -> bool:
        """Whether pages of any origin at all may call: then answers differ by it."""
        return self._any_origin or bool(self._origins)

    def knows(self, host: str) -> bool:
        """Whether the value of a `Host` header is a name of this server: loopback, an address, or one that is allowed."""
        found = _HOST.fullmatch(host.lower()) if len(host) <= _LONGEST else None
        if found is None:
            return False
        name, port = found["host"], found["port"] or ""
        if _is_address(name) or is_loopback(name):
            return True
        return self._any_host or any(
            (name, given) in self._hosts or any(name.endswith(end) and of == given for end, of in self._below)
            for given in ("", port)
        )

    def lists(self, origin: str) -> bool:
        """Whether the value of an `Origin` header stands in the settings by itself, not only as one of any."""
        return origin in self._origins

    def admits(self, origin: str) -> bool:
        """Whether pages of this origin may call."""
        return self._any_origin or self.lists(origin)


def is_here(host: str) -> bool:
    """Whether the value of a `Host` header means this machine and nothing else."""
    found = _HOST.fullmatch(host.lower())
    return found is not None and is_loopback(found["host"].strip("[]"))


def is_near(address: str) -> bool:
    """Whether a peer's address is this machine, also where an IPv4 address is written as IPv6."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback


def _is_address(name: str) -> bool:
    bare = name[1:-1] if name.startswith("[") else name
    try:
        return isinstance(ip_address(bare), IPv6Address) is name.startswith("[")
    except ValueError:
        return False


def _entry(text: str) -> tuple[bool, str, str]:
    """Whether names below it are meant, the name, and the port if it has one."""
    found = _ENTRY.fullmatch(text.strip().lower().rstrip("."))
    if found is None:
        raise ConfigError(
            f"server.allowed_hosts: {text!r} is not the name of a host",
            next="write it alone, such as chat.example, chat.example:8080 or *.chat.example",
        )
    return bool(found["below"]), found["host"], found["port"] or ""


def _origin(text: str) -> str:
    """An origin as browsers send it: in small letters, without the port that its scheme has anyway."""
    plain = text.strip().lower()
    try:
        port = urlsplit(plain).port
    except ValueError:
        port = -1
    if not _ORIGIN.fullmatch(plain) or port == -1:
        raise ConfigError(
            f"server.cors_origins: {text!r} is not an origin",
            next="write scheme, host and port alone, such as https://chat.example or http://localhost:3000",
        )
    return plain.removesuffix(_PORTS.get(plain.partition(":")[0], "\0"))
