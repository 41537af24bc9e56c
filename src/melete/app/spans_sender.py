"""Sending spans to a collector, from a thread that nobody waits for. Composition root, for the extra `otel`; see spans.py.

What cannot be sent is dropped. That is said once, and once more when it is over, however many batches fail.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Sequence
from urllib.parse import urlsplit
from uuid import uuid4

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Tracer

from melete import __version__
from melete.app.telemetry import Collector

log = logging.getLogger("melete.telemetry")
SCOPE = "melete"
QUEUE, BATCH = 2_048, 512
QUEUE_WITH_CONTENT, BATCH_WITH_CONTENT = 256, 32
"""Spans that wait to be sent, and that are sent at a time; with content each may be large."""
FOREIGN_LOGS = ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.sdk._shared_internal")


class Sender:
    """Owns the way to one collector; `tracer` makes spans that go there when they end."""

    def __init__(self, to: Collector) -> None:
        self._exporter = _Exporter(to)
        self._processor = BatchSpanProcessor(
            self._exporter,
            max_queue_size=QUEUE_WITH_CONTENT if to.content else QUEUE,
            max_export_batch_size=BATCH_WITH_CONTENT if to.content else BATCH,
        )
        about = {"service.name": to.service, "service.version": __version__, "service.instance.id": uuid4().hex}
        provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
        provider.add_span_processor(self._processor)
        self.tracer: Tracer = provider.get_tracer(SCOPE, __version__)

    async def aclose(self, *, seconds: float) -> None:
        """Send what is left; after so many seconds what could not be sent is dropped."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def work() -> None:
            self._processor.shutdown()
            self._exporter.library.unmute()
            with contextlib.suppress(RuntimeError):  # the loop did not wait
                loop.call_soon_threadsafe(ended.set)

        # Not asyncio.to_thread: the loop's own threads are waited for when it ends, however long they take.
        threading.Thread(target=work, name="melete-last-spans", daemon=True).start()
        try:
            async with asyncio.timeout(seconds):
                await ended.wait()
        except TimeoutError:
            log.warning("the last traces could not be sent to %s in time and are dropped", self._exporter.shown)
            self._exporter.shutdown()


class _Exporter(SpanExporter):
    """The library's exporter, whose failures are told once."""

    def __init__(self, to: Collector) -> None:
        parts = urlsplit(to.endpoint)
        self.shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self.library = _Muted()
        self._inner = OTLPSpanExporter(endpoint=to.endpoint, headers=dict(to.headers))
        self._lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send them; called by the processor's thread, and again by nobody for the same spans."""
        result = self._inner.export(spans)
        if result is not SpanExportResult.SUCCESS:
            if not self._lost:
                why = self.library.reason.rstrip(".")
                log.warning("traces cannot be sent to %s (%s); runs go on, and spans are dropped", self.shown, why)
            self._lost += len(spans)
        elif self._lost:
            log.warning("traces are sent to %s again; %d spans or more are lost", self.shown, self._lost)
            self._lost = 0
        return result

    def shutdown(self) -> None:
        """Close connections and stop trying again; a second call does nothing."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing is held back here."""
        return self._inner.force_flush(timeout_millis)


class _Muted(logging.Filter):
    """Keeps the library from logging each failure; `reason` is the last thing that it wanted to say."""

    def __init__(self) -> None:
        super().__init__()
        self.reason = ""
        for name in FOREIGN_LOGS:
            logging.getLogger(name).addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Let nothing through."""
        self.reason = record.getMessage()
        return False

    def unmute(self) -> None:
        """Let the library log again."""
        for name in FOREIGN_LOGS:
            logging.getLogger(name).removeFilter(self)
