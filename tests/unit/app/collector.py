"""A collector of traces on loopback: real HTTP, real protobuf, and every way in which one may fail."""

import gzip
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

PATIENCE = 20.0


class Sent:
    """A span as the collector has read it."""

    def __init__(self, span: Span, resource: Mapping[str, Any]) -> None:
        self.name = span.name
        self.kind = Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_")
        self.trace = span.trace_id.hex()
        self.id = span.span_id.hex()
        self.parent = span.parent_span_id.hex()
        self.begun = span.start_time_unix_nano
        self.ended = span.end_time_unix_nano
        self.error = span.status.message if span.status.code == 2 else ""
        self.about = {pair.key: _value(pair.value) for pair in span.attributes}
        self.events = [(event.name, {p.key: _value(p.value) for p in event.attributes}) for event in span.events]
        self.resource = resource


class TraceCollector:
    """Takes OTLP over HTTP; `answer` makes the status of each request from its number, and may take its time."""

    def __init__(self, answer: Callable[[int], int] = lambda _: 200) -> None:
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.spans: list[Sent] = []
        self.arrived = threading.Condition()
        self._answer = answer
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.take(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """What `telemetry.otlp_endpoint` is set to."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def take(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        body = request.rfile.read(int(request.headers["Content-Length"]))
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        with self.arrived:
            number = len(self.bodies)
            self.bodies.append(body)
            self.paths.append(request.path)
            self.headers.append({name.lower(): value for name, value in request.headers.items()})
            self.arrived.notify_all()
        status = self._answer(number)
        answer = ExportTraceServiceResponse().SerializeToString()
        if status == 200:
            with self.arrived:
                self.spans += _spans(body)
                self.arrived.notify_all()
        request.send_response(status)
        request.send_header("Content-Type", "application/x-protobuf")
        request.send_header("Content-Length", str(len(answer)))
        request.end_headers()
        request.wfile.write(answer)

    def wait(self, wanted: Callable[[], bool]) -> None:
        """Wait until something of it is so; fails when that never comes."""
        until = time.monotonic() + PATIENCE
        with self.arrived:
            while not wanted():
                assert self.arrived.wait(until - time.monotonic()), "it never came"

    def named(self, name: str) -> list[Sent]:
        """The spans of a name, in the order in which they began."""
        return sorted((span for span in self.spans if span.name == name), key=lambda span: span.begun)

    def one(self, name: str) -> Sent:
        """The only span of a name."""
        (found,) = self.named(name)
        return found


def _spans(body: bytes) -> list[Sent]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        Sent(span, {pair.key: _value(pair.value) for pair in group.resource.attributes})
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind) if kind else None
