"""What this home knows of models: the list that is shipped, or a newer one that was fetched. Part of the composition root."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from melete.app.home import Home
from melete.app.settings import Loaded
from melete.app.text_file import replacing
from melete.app.vendors import address, proxy_for, vendors
from melete.core.errors import ConfigError, UsageError
from melete.core.model import Capabilities
from melete.core.plugin import Lazy
from melete.models import prices
from melete.models.prices import SHIPPED, Row
from melete.models.spec import LOCAL_WINDOW

ONLINE = "https://models.dev/api.json"
LARGEST = 32 << 20
NAME = "models.txt"
FREE = {"usd_input": 0.0, "usd_output": 0.0, "usd_cache_read": 0.0, "usd_cache_write": 0.0, "source": "this machine"}
ELSEWHERE = ("-cloud", ":cloud")
"""How the names of models end that a server on this machine only passes on."""

_close_matches: Lazy[Callable[..., list[str]]] = Lazy("difflib:get_close_matches")
_ask: Lazy[Callable[..., Any]] = Lazy("melete.app.fetch:Ask")
_get: Lazy[Callable[..., Any]] = Lazy("melete.app.fetch:get")
_read_list: Lazy[Callable[..., Any]] = Lazy("melete.models.pricelist:read_list")
_merged: Lazy[Callable[..., Any]] = Lazy("melete.models.pricelist:merged")
_text: Lazy[Callable[..., bytes]] = Lazy("melete.models.pricelist:text")


class Refreshed(Struct, frozen=True, kw_only=True):
    """A list that was fetched and kept: its models and vendors, where it is from, and the file that holds it."""

    models: int
    vendors: int
    source: str
    path: Path


def path(home: Home) -> Path:
    """The file of a home's own list."""
    return home.root / NAME


def book(home: Home) -> bytes:
    """The newer of the home's own list and the one that is shipped; a home's that cannot be read does not count."""
    shipped = SHIPPED.read_bytes()
    try:
        own = path(home).read_bytes()
    except OSError:
        return shipped
    return own if prices.day(own) >= prices.day(shipped) else shipped


def capabilities(home: Home, provider: str, model: str) -> Capabilities:
    """What is known of a vendor's model; defaults with `known` False where that is nothing. A server on this machine is free.

    Raises ConfigError when the home's list is damaged.
    """
    vendor = vendors().get(provider)
    if vendor is None:
        return Capabilities()
    if vendor.wire == "local":
        return structs.replace(Capabilities(context=LOCAL_WINDOW, images=False, known=True), **FREE)
    with _damage_named(home):
        found = prices.lookup(book(home), provider, model) or Capabilities()
    if vendor.local and found.usd_input is None and not model.endswith(ELSEWHERE):
        return structs.replace(found, **FREE)
    return found


def known_models(home: Home, provider: str) -> tuple[Row, ...]:
    """Every model of a vendor that is known, by name. Raises ConfigError when the home's list is damaged."""
    with _damage_named(home):
        return tuple(prices.rows(book(home), provider))


def completed(home: Home, found: Iterable[Row]) -> Iterator[Row]:
    """The rows with what is known here of the same models, where they say nothing themselves."""
    data = book(home)
    for row in found:
        if (known := prices.find(data, row.provider, row.name)) is None:
            yield row
            continue
        missing = {name: getattr(known, name) for name in row.__struct_fields__ if getattr(row, name) is None}
        yield structs.replace(row, **missing)


def day(home: Home) -> str:
    """The day of the list in use, as an ISO date."""
    return prices.day(book(home))


def source(home: Home) -> str:
    """Who keeps the list in use, and of which day it is."""
    return prices.source(book(home))


def counts(home: Home) -> dict[str, int]:
    """How many models of each vendor are known."""
    data = book(home)
    return {name: prices.count(data, name) for name in vendors()}


def nearest_models(home: Home, provider: str, model: str) -> tuple[str, ...]:
    """Up to three names of the vendor's models that are most like `model`; none when nothing comes near."""
    names = [row.name for row in known_models(home, provider)]
    return tuple(_close_matches.load()(model, names, n=3, cutoff=0.6))


def notes(home: Home, provider: str, model: str, can: Capabilities) -> tuple[str, ...]:
    """What a person should know of a model of which something is not known, a line each."""
    lines: list[str] = []
    if not can.known:
        near = nearest_models(home, provider, model) if provider else ()
        hint = f"; the nearest names that are known: {', '.join(near)}" if near else ""
        lines.append(
            f"the window of {model} is not known: {can.context:,} tokens are assumed; set model.context_length{hint}"
        )
    if can.usd_input is None or can.usd_output is None:
        lines.append(
            f"the price of {model} is not known: budgets in USD cannot hold, those in tokens do; "
            "`melete model refresh` fetches a newer list"
        )
    return tuple(lines)


def refresh(loaded: Loaded, *, origin: str = "", today: str = "") -> Refreshed:
    """Read a list from a URL or a file, models.dev's unless told otherwise, and keep it in the home. Blocks.

    Vendors of which it knows no model keep what is shipped. Raises FetchError, BadListError, UsageError and StorageError; the
    list that was there stays then.
    """
    origin = origin or ONLINE
    data = _over_the_network(loaded, origin) if "://" in origin else _from_file(Path(origin))
    day = today or datetime.now(UTC).date().isoformat()
    found = _read_list.load()(data, list(vendors()), today=day)
    shipped = SHIPPED.read_bytes()
    rows = _merged.load()(shipped, found.rows)
    source = found.kept_by
    if {provider for provider, _ in rows} > found.vendors:
        source = f"{source}; where it has none, {prices.source(shipped)}"
    home, target = loaded.home, path(loaded.home)
    home.folder(home.root)
    try:
        with replacing(target) as descriptor, open(descriptor, "wb", closefd=False) as file:
            file.write(_text.load()(rows, day=found.day or day, source=source))
    except OSError as error:
        raise home.unusable(target, error) from error
    return Refreshed(models=len(found.rows), vendors=len(found.vendors), source=source, path=target)


@contextmanager
def _damage_named(home: Home) -> Generator[None]:
    try:
        yield
    except ValueError as error:
        raise ConfigError(
            f"{home.display(path(home))} is damaged: {error}",
            next="write it anew with `melete model refresh`, or delete it",
        ) from error


def _over_the_network(loaded: Loaded, url: str) -> bytes:
    parts = address(url, where="--from")
    return _get.load()(
        _ask.load()(
            url=url,
            proxy=proxy_for(parts, loaded.variables),
            ca_file=loaded.variables.get("SSL_CERT_FILE", ""),
            follow=True,
        )
    ).body


def _from_file(file: Path) -> bytes:
    try:
        size = file.stat().st_size
        if not file.is_file() or size > LARGEST:
            raise UsageError(f"{file} is no list of models", next=f"give a file of at most {LARGEST >> 20} MiB")
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", next="check the path") from error
