"""What a vendor's own server says about its models: GET …/models, in the form of each wire. Part of the composition root."""

from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import Struct

from melete.app.fetch import Ask, FetchError, get
from melete.models.prices import Row
from melete.models.spec import ModelSpec, endpoint, shown

UNAUTHORISED = (401, 403)
MILLION = 1_000_000
TAILS = ("/chat/completions", "/responses", "/v1/messages", "/messages")
WINDOW = (
    "context_length", "context_window", "max_context_length", "max_model_len", "inputTokenLimit", "max_input_tokens",
)  # fmt: skip
OUTPUT = ("outputTokenLimit", "max_completion_tokens", "max_output_tokens")


class Manner(Struct, frozen=True, kw_only=True):
    """How the servers of a wire list their models."""

    version: str = ""
    key_header: str = "authorization"
    headers: Mapping[str, str] = {}
    query: str = ""


USUAL = Manner()
MANNERS = {
    "anthropic-messages": Manner(
        version="/v1", key_header="x-api-key", headers={"anthropic-version": "2023-06-01"}, query="limit=1000"
    ),
    "gemini": Manner(version="/v1beta", key_header="x-goog-api-key", query="pageSize=1000"),
}


class Online(Struct, frozen=True, kw_only=True):
    """The models that a server lists, by name, and its `Date` as it wrote it."""

    url: str
    models: tuple[Row, ...]
    date: str = ""


class NoListError(FetchError):
    """The server answered, but not with a list of models."""


def listing(spec: ModelSpec, *, seconds: float = 20.0) -> Online:
    """The models that the server behind a spec lists; raises FetchError with cause and fix. Blocks."""
    manner = MANNERS.get(spec.wire, USUAL)
    url = _url(spec, manner)
    headers = {**manner.headers, **spec.headers}
    if spec.api_key:
        header = spec.quirks.key_header or manner.key_header
        headers[header] = f"Bearer {spec.api_key}" if header == "authorization" else spec.api_key
    try:
        answer = get(Ask(url=url, headers=headers, proxy=spec.via, ca_file=spec.ca_file, seconds=seconds))
    except FetchError as error:
        if error.status not in UNAUTHORISED:
            raise
        raise FetchError(
            f"{error.what}: the key is not accepted", next=f"check {spec.key_variable}", status=error.status
        ) from error
    found = _entries(answer.body)
    if found is None:
        raise NoListError(
            f"{shown(url)} answers, but not with a list of models",
            next="check that the base URL is the one of an API",
            status=200,
        )
    rows = sorted((row for entry in found if (row := _row(spec.vendor, entry))), key=lambda row: row.name)
    return Online(url=url, models=tuple(rows), date=answer.date)


def _url(spec: ModelSpec, manner: Manner) -> str:
    """Where the list is; a base URL that is the address of requests already is cut back."""
    parts = urlsplit(spec.base_url.strip())
    path = parts.path.rstrip("/")
    tail = next((tail for tail in TAILS if path.endswith(tail)), "")
    base = urlunsplit((parts.scheme, parts.netloc, path.removesuffix(tail), parts.query, ""))
    url = endpoint(base, "/models", version=manner.version)
    return f"{url}{'&' if parts.query else '?'}{manner.query}" if manner.query else url


def _entries(body: bytes) -> list[dict[str, Any]] | None:
    """The entries of a list of models in any of its forms; None for anything else."""
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        value = fields.get("data", fields.get("models"))
    if not isinstance(value, list):
        return None
    return [cast("dict[str, Any]", entry) for entry in cast("list[Any]", value) if isinstance(entry, dict)]


def _row(vendor: str, entry: dict[str, Any]) -> Row | None:
    named = entry.get("id") or entry.get("name")
    methods = entry.get("supportedGenerationMethods")
    if not isinstance(named, str) or (isinstance(methods, list) and "generateContent" not in methods):
        return None
    price = _section(entry, "pricing")
    return Row(
        provider=vendor,
        name=named.removeprefix("models/"),
        context=_first(entry, WINDOW) or _first(_section(entry, "meta"), ("n_ctx", "n_ctx_train")),
        max_output=_first(entry, OUTPUT) or _first(_section(entry, "top_provider"), OUTPUT),
        tools=_listed(
            entry.get("supported_parameters"), "tools", _section(entry, "capabilities").get("function_calling")
        ),
        images=_listed(
            _section(entry, "architecture").get("input_modalities"),
            "image",
            _section(entry, "capabilities").get("vision"),
        ),
        usd_input=_usd(price.get("prompt"), price.get("input")),
        usd_output=_usd(price.get("completion"), price.get("output")),
        usd_cache_read=_usd(price.get("input_cache_read"), price.get("cached_input")),
        usd_cache_write=_usd(price.get("input_cache_write"), None),
    )


def _section(entry: dict[str, Any], name: str) -> dict[str, Any]:
    found: Any = entry.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _first(entry: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    numbers: Iterator[Any] = (entry.get(name) for name in names)
    return next((n for n in numbers if isinstance(n, int) and not isinstance(n, bool) and n > 0), None)


def _listed(words: Any, wanted: str, told: Any) -> bool | None:
    if isinstance(words, list):
        return wanted in cast("list[Any]", words)
    return told if isinstance(told, bool) else None


def _usd(each: Any, million: Any) -> float | None:
    """USD per million tokens, of a price for each token (a text, as a rule) or for a million."""
    for value, times in ((each, MILLION), (million, 1)):
        try:
            number = float(value) * times
        except (TypeError, ValueError):
            continue
        if 0 <= number < MILLION:
            return number
    return None
