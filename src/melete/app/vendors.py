"""The catalogue of vendors, and what can be told from an address alone. Part of the composition root."""

from collections.abc import Mapping
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Struct

from melete.core.errors import ConfigError
from melete.models.spec import Quirks, shown

CATALOG = Path(__file__).parents[1] / "models" / "catalog.toml"


class Vendor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a vendor is, the wire it speaks, the variables of its key, and its dialect.

    `key` is the variable that messages name, `other_keys` are read as well; `aliases` are other names that people write, `note`
    is a line for them.
    """

    wire: str
    base_url: str
    key: str
    other_keys: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    note: str = ""
    quirks: Quirks = Quirks()

    @property
    def keys(self) -> tuple[str, ...]:
        """The variables that its key may stand in, the one that messages name first."""
        return tuple(name for name in (self.key, *self.other_keys) if name)

    @property
    def local(self) -> bool:
        """Whether it is on this machine, which needs no key and costs nothing."""
        return self.wire == "local" or is_loopback(urlsplit(self.base_url).hostname or "")


@cache
def vendors() -> Mapping[str, Vendor]:
    """The catalogue, by name."""
    return msgspec.toml.decode(CATALOG.read_bytes(), type=dict[str, Vendor])


def vendor_named(name: str) -> str:
    """The catalogue's name for what a person calls a vendor, empty where there is none; case does not matter."""
    known = vendors()
    plain = name.strip().lower()
    if plain in known:
        return plain
    return next((own for own, vendor in known.items() if plain in vendor.aliases), "")


def key_set(vendor: Vendor, variables: Mapping[str, str]) -> str:
    """The variable that holds a vendor's key, empty where none does."""
    return next((name for name in vendor.keys if variables.get(name, "").strip()), "")


def vendor_at(host: str) -> tuple[str, Vendor] | None:
    """The vendor whose API has this host, by name; servers on this machine are told apart by nothing and never found."""
    for name, vendor in vendors().items():
        if not vendor.local and urlsplit(vendor.base_url).hostname == host:
            return name, vendor
    return None


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine, told without asking DNS."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def address(url: str, *, where: str) -> SplitResult:
    """The parts of a base URL; raises ConfigError, beginning with `where`, for one that cannot be a server's address."""
    text = url.strip()
    if "{" in text:
        raise _yours(text)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{where}: {shown_or_nothing(text)}is not an address: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or any(c.isspace() for c in text):
        raise ConfigError(
            f"{where}: {text.rpartition('@')[2]!r} is not the address of a server",
            next="write it like https://host/v1 or http://localhost:8000/v1",
        )
    if parts.password is not None:
        raise ConfigError(
            f"{where}: the address of {parts.hostname} holds a password", next="put the key into MELETE_API_KEY instead"
        )
    return parts


def _yours(url: str) -> ConfigError:
    """The error for an address with a part in braces, which only the person knows."""
    vendor = next((name for name, vendor in vendors().items() if vendor.base_url == url), "")
    part = url.partition("{")[2].partition("}")[0] or "part"
    example = url.replace(f"{{{part}}}", f"YOUR-{part.upper()}")
    provider = f", and model.provider to {vendor}" if vendor else ""
    return ConfigError(
        f"the address of {vendor or 'the model'} has a part of your own: {part}",
        next=f"set model.base_url to {example}{provider}",
    )


def shown_or_nothing(url: str) -> str:
    """The address for a message, or nothing where it cannot even be taken apart."""
    try:
        return f"{shown(url)} "
    except ValueError:
        return ""


def proxy_for(parts: SplitResult, variables: Mapping[str, str]) -> str:
    """The proxy that the usual variables name for an address, empty for none; loopback never goes through one."""
    host = parts.hostname or ""
    if is_loopback(host) or _excepted(host, parts.port, _either(variables, "no_proxy")):
        return ""
    return _either(variables, f"{parts.scheme}_proxy") or _either(variables, "all_proxy")


def _either(variables: Mapping[str, str], name: str) -> str:
    return (variables.get(name) or variables.get(name.upper()) or "").strip()


def _excepted(host: str, port: int | None, exceptions: str) -> bool:
    for entry in exceptions.replace(",", " ").split():
        name, _, wanted = entry.rpartition(":") if entry.rpartition(":")[2].isdigit() else (entry, "", "")
        suffix = name.lower().removeprefix("*").removeprefix(".")
        same_port = not wanted or wanted == str(port)
        if same_port and (name == "*" or host == suffix or host.endswith(f".{suffix}")):
            return True
    return False
