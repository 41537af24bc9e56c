"""Where a request goes: a URL taken apart once, and the proxy in between. Part: models."""

from base64 import b64encode
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

from melete.core.errors import ConfigError
from melete.models.spec import shown

PORTS = {"http": 80, "https": 443}


class Address(Struct, frozen=True, kw_only=True):
    """A server and a target on it; `host` is what is looked up and what a certificate must name."""

    secure: bool
    host: str
    port: int
    target: str
    authorization: str = ""

    @property
    def authority(self) -> str:
        """`host:port` with the brackets that an IPv6 address needs."""
        return f"{_bracketed(self.host)}:{self.port}"

    @property
    def numeric(self) -> bool:
        """Whether the host is an IP address, which needs no looking up."""
        return ":" in self.host or self.host.replace(".", "").isdecimal()

    @property
    def host_header(self) -> str:
        """The value of the Host header: without the port where it is the scheme's own."""
        usual = self.port == PORTS["https" if self.secure else "http"]
        return _bracketed(self.host) if usual else self.authority


def address(url: str, *, what: str) -> Address:
    """The parts of an http or https URL; raises ConfigError that names `what` it is for."""
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode() if parts.hostname else ""
    except ValueError as error:
        raise ConfigError(
            f"{what} {shown_or_raw(url)!r} is not a URL: {error}", next="check its host and port"
        ) from error
    if parts.scheme.lower() not in PORTS or not host:
        raise ConfigError(
            f"{what} {shown_or_raw(url)!r} does not start with http:// or https:// and a host",
            next="such as https://api.example.com/v1",
        )
    target = quote(parts.path or "/", safe="/:@!$&'()*+,;=%~-._")
    if parts.query:
        target += "?" + quote(parts.query, safe="/:@!$&'()*+,;=%~-._?")
    basic = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        basic = "Basic " + b64encode(pair.encode()).decode()
    secure = parts.scheme.lower() == "https"
    return Address(
        secure=secure, host=host, port=port or PORTS[parts.scheme.lower()], target=target, authorization=basic
    )


def shown_or_raw(url: str) -> str:
    """The URL as messages may show it, even when it is broken."""
    try:
        return shown(url)
    except ValueError:
        return url.rpartition("@")[2]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
