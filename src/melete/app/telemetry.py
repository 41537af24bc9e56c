"""Whether traces are sent, and where to: the settings and the standard variables of OpenTelemetry. Part of the composition root.

Nothing of OpenTelemetry is imported before a collector is named; spans.py then makes spans of facts. Traces never hold up or
end a run: what is wrong with them is said in one line, and the server goes on without.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from melete.app.settings import Loaded
from melete.app.wire import Melete
from melete.core.errors import ConfigError
from melete.core.event import Fact
from melete.core.plugin import Lazy
from melete.core.session import SessionRef

SETTING = "telemetry.otlp_endpoint"
TRACES = "/v1/traces"
LINGER = 5.0
"""Seconds that the last spans have to be sent when the server stops."""


class Collector(Struct, frozen=True, kw_only=True):
    """Where traces go: `endpoint` is the whole address, `where` names the setting or variable that says so."""

    endpoint: str
    where: str
    headers: Mapping[str, str] = {}
    service: str = "melete"
    content: bool = False


class Tracer(Protocol):
    """What makes spans of facts and sends them."""

    def listen(self, ref: SessionRef, fact: Fact) -> None:
        """Take in a fact; neither waits nor raises."""
        ...

    async def aclose(self, *, seconds: float) -> None:
        """End open spans and send what is left, within so many seconds."""
        ...


_spans: Lazy[Callable[..., Tracer]] = Lazy("melete.app.spans:Spans", extra="otel")


def collector(loaded: Loaded) -> Collector | None:
    """Where traces are to be sent, None for nowhere; raises ConfigError for an address that cannot be one.

    Variables stand before the settings, as everywhere: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is taken as it is, to
    OTEL_EXPORTER_OTLP_ENDPOINT and to `telemetry.otlp_endpoint` the path of traces is added.
    """
    given = loaded.variables
    if _is(given, "OTEL_SDK_DISABLED", "true") or _is(given, "OTEL_TRACES_EXPORTER", "none"):
        return None
    endpoint, where = _endpoint(loaded)
    if not endpoint:
        return None
    if not _is_address(endpoint):
        raise ConfigError(
            f"{where} is not the address of a collector", next="give it as http://HOST:4318, its port of OTLP over HTTP"
        )
    protocol = _first(given, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol == "grpc":
        raise ConfigError(
            "OTEL_EXPORTER_OTLP_PROTOCOL asks for grpc, and traces are sent over HTTP only",
            next="set it to http/protobuf, and the endpoint to the collector's port for that, usually 4318",
        )
    return Collector(
        endpoint=endpoint,
        where=where,
        headers=_pairs(_first(given, "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")),
        service=_first(given, "OTEL_SERVICE_NAME") or "melete",
        content=loaded.settings.telemetry.content,
    )


@asynccontextmanager
async def tracing(app: Melete, *, warn: Callable[[str], None]) -> AsyncGenerator[None]:
    """Send a trace of every run of this process while the block lasts, where settings or variables name a collector.

    What stands in the way is told to `warn` in one line, and the block runs without traces.
    """
    tracer = _open(app, warn)
    if tracer is None:
        yield
        return
    app.listeners.append(tracer.listen)
    try:
        yield
    finally:
        app.listeners.remove(tracer.listen)
        await tracer.aclose(seconds=LINGER)


def _open(app: Melete, warn: Callable[[str], None]) -> Tracer | None:
    try:
        found = collector(app.loaded)
        return _spans.load()(found, redact=app.redact) if found else None
    except ConfigError as error:
        warn(f"no traces are sent: {error}")
        return None


def _endpoint(loaded: Loaded) -> tuple[str, str]:
    """The whole address of the collector and what named it."""
    given = loaded.variables
    if whole := _first(given, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        return whole, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
    base, where = _first(given, "OTEL_EXPORTER_OTLP_ENDPOINT"), "OTEL_EXPORTER_OTLP_ENDPOINT"
    if not base:
        base, where = loaded.settings.telemetry.otlp_endpoint.strip(), SETTING
    if not base or base.rstrip("/").endswith(TRACES):
        return base, where
    return base.rstrip("/") + TRACES, where


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets or a port that are none
        return False


def _is(given: Mapping[str, str], name: str, value: str) -> bool:
    return _first(given, name).lower() == value


def _first(given: Mapping[str, str], *names: str) -> str:
    """The first of the variables that says something."""
    return next((value for name in names if (value := given.get(name, "").strip())), "")


def _pairs(text: str) -> dict[str, str]:
    """`a=1,b=2` with percent-encoded values, as the variables for headers have it; what is no pair is left out."""
    pairs = (pair.partition("=") for pair in text.split(","))
    return {
        unquote(name.strip()).lower(): unquote(value.strip())
        for name, equals, value in pairs
        if name.strip() and equals
    }
