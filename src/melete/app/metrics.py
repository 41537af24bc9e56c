"""What `melete serve` counts, for Prometheus: facts that this process stores, and requests. Part of the composition root.

Only the server imports this. No label is a session, a person or anything else that grows without end: names beyond a bound, and
names that no tool answers to, are counted as `other`. `render` gives what a scrape asks for.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, Metric, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from melete import __version__
from melete.core.event import (
    Answered,
    Asked,
    Fact,
    Reply,
    Retried,
    RunEnded,
    RunStarted,
    Spent,
    Stop,
    ToolEnded,
    ToolStarted,
)
from melete.core.session import SessionRef

OTHER, UNKNOWN = "other", "unknown"
LONGEST_NAME = 100
MOST_NAMES = 50
"""How many values one label may have before new ones are `other`."""
MOST_RUNS = 10_000
"""Runs whose end is waited for; a run whose end could never be stored would be remembered for good."""
RAN = frozenset({"ok", "error", "timeout"})
"""Outcomes of calls that were at work, whose time therefore means something."""
SURFACES = ("api", "cron")
"""Where runs of a server begin."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
STATUSES = range(100, 600)
CLASSES = ("input", "output", "cache_read", "cache_write", "reasoning")

REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
MODEL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300)
TOOL_SECONDS = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 180, 600, 1800)
RUN_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400)


class Names:
    """The values of one label: the first so many that come are kept, every other is `other`."""

    def __init__(self, most: int = MOST_NAMES) -> None:
        self._most = most
        self._known: set[str] = set()

    def of(self, name: str, *, admit: bool = True) -> str:
        """The label for a name; with `admit` false a name that is not known yet stays unknown."""
        if name in self._known:
            return name
        if not name:
            return UNKNOWN
        if not admit or len(self._known) >= self._most or len(name) > LONGEST_NAME or not name.isprintable():
            return OTHER
        self._known.add(name)
        return name


@dataclass(kw_only=True)
class _Running:
    """What is remembered of a run until it ends."""

    surface: str
    at_work: dict[str, datetime] = field(default_factory=dict[str, datetime])
    questions: dict[str, str] = field(default_factory=dict[str, str])


class Metrics:
    """Everything that is counted; `listen` is to be among `Melete.listeners`, the API calls the rest."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._surfaces, self._stops, self._models, self._tools, self._causes, self._routes, self._jobs = (
            Names() for _ in range(7)
        )
        self._running: dict[str, _Running] = {}
        self._count_runs()
        self._count_models()
        self._count_tools()
        self._count_server()
        ProcessCollector(registry=self._registry)
        self._handlers: dict[type[Any], Callable[[str, Any], None]] = {
            RunStarted: self._run_started,
            RunEnded: self._run_ended,
            Reply: self._reply,
            Spent: self._spent,
            Retried: self._retried,
            ToolStarted: self._tool_started,
            ToolEnded: self._tool_ended,
            Asked: self._asked,
            Answered: self._answered,
        }

    def listen(self, ref: SessionRef, fact: Fact) -> None:
        """Count a fact that was stored; takes microseconds and never raises."""
        if handler := self._handlers.get(type(fact)):
            handler(ref.id, fact)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an HTTP request that was answered; `route` is the template, empty where none matched, never the path."""
        method = method if method in METHODS else OTHER
        route = self._routes.of(route)
        self._requests.labels(method, route, str(status) if status in STATUSES else OTHER).inc()
        self._request_seconds.labels(method, route).observe(seconds)

    @contextmanager
    def stream(self) -> Generator[None]:
        """Count an event stream as open while the block lasts."""
        with self._streams.track_inprogress():
            yield

    def job(self, status: str) -> None:
        """Count an occurrence of a job with what became of it, such as `ok`, `failed` or `skipped`."""
        self._occurrences.labels(self._jobs.of(status)).inc()

    def watch_warm(self, count: Callable[[], int]) -> None:
        """Ask `count` at each scrape how many sessions are kept ready."""
        self._warm.set_function(count)

    def render(self, accept: str = "") -> tuple[str, bytes]:
        """The content type and body that answer a scrape with this `Accept` header: OpenMetrics where it asks for that."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(_WithoutTimes(self._registry))

    # ---- what there is -------------------------------------------------------------------------------------------

    def _count_runs(self) -> None:
        self._runs = self._counter("runs", "Runs that ended, by how.", "surface", "stop")
        self._run_seconds = self._histogram("run_seconds", "Wall time of runs.", RUN_SECONDS, "surface")
        self._steps = self._counter("steps", "Replies of models to conversations.")
        self._answers = self._counter("questions", "What became of questions to people.", "kind", "status")
        for surface in SURFACES:  # from 0 on, so that the first failure of all is an increase
            for stop in (Stop.DONE, Stop.CANCELLED, Stop.FAILED, *sorted(Stop.LIMITS)):
                self._runs.labels(self._surfaces.of(surface), self._stops.of(stop))
        active = self._gauge("runs_active", "Runs that go on in this process.")
        active.set_function(lambda: len(self._running))
        open_now = self._gauge("questions_open", "Questions that wait for somebody's answer.")
        open_now.set_function(lambda: sum(len(run.questions) for run in self._running.values()))

    def _count_models(self) -> None:
        self._tokens = self._counter(
            "tokens", "Tokens; those of the class reasoning are in output too.", "class", "model"
        )
        self._cost = self._counter("cost_usd", "Price of requests whose price is known, in US dollars.", "model")
        self._unpriced = self._counter("unpriced_requests", "Requests whose price is not known.", "model")
        self._model_seconds = self._histogram("model_seconds", "Time to the end of a reply.", MODEL_SECONDS, "model")
        self._first = self._histogram(
            "first_token_seconds", "Time to the first piece of a reply.", MODEL_SECONDS, "model"
        )
        self._retries = self._counter("retries", "Requests to models that were tried again, by why.", "cause")

    def _count_tools(self) -> None:
        self._calls = self._counter("tool_calls", "Calls of tools, by outcome.", "tool", "outcome")
        self._tool_seconds = self._histogram(
            "tool_seconds", "Time of calls at work, without waiting for an approval.", TOOL_SECONDS, "tool"
        )

    def _count_server(self) -> None:
        self._requests = self._counter(
            "http_requests", "HTTP requests that were answered.", "method", "route", "status"
        )
        self._request_seconds = self._histogram(
            "http_seconds", "Time to the last byte of an answer, streams too.", REQUEST_SECONDS, "method", "route"
        )
        self._streams = self._gauge("http_streams_active", "Event streams that are open.")
        self._occurrences = self._counter("jobs", "Occurrences of scheduled jobs, by status.", "status")
        self._warm = self._gauge("sessions_warm", "Sessions whose agent is kept ready.")
        Info("melete_build", "The version that runs.", registry=self._registry).info({"version": __version__})

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"melete_{name}", about, labels, registry=self._registry)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(f"melete_{name}", about, registry=self._registry)

    def _histogram(self, name: str, about: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"melete_{name}", about, labels, buckets=buckets, registry=self._registry)

    # ---- facts ---------------------------------------------------------------------------------------------------

    def _run_started(self, session: str, fact: RunStarted) -> None:
        self._running.pop(session, None)  # a run before it whose end could not be stored
        self._running[session] = _Running(surface=self._surfaces.of(fact.surface))
        if len(self._running) > MOST_RUNS:
            del self._running[next(iter(self._running))]

    def _run_ended(self, session: str, fact: RunEnded) -> None:
        run = self._running.pop(session, None)
        self._runs.labels(run.surface if run else UNKNOWN, self._stops.of(fact.stop)).inc()
        if run:  # not the end that is given to a run which another process began
            self._run_seconds.labels(run.surface).observe(fact.seconds)

    def _reply(self, _: str, fact: Reply) -> None:
        model = self._models.of(fact.model)
        self._steps.inc()
        self._model_seconds.labels(model).observe(fact.seconds)
        if fact.first_token_seconds > 0:
            self._first.labels(model).observe(fact.first_token_seconds)

    def _spent(self, _: str, fact: Spent) -> None:
        model = self._models.of(fact.model)
        for kind in CLASSES:
            if count := getattr(fact.usage, kind):
                self._tokens.labels(kind, model).inc(max(0, count))
        if fact.usd is None:
            self._unpriced.labels(model).inc()
        else:
            self._cost.labels(model).inc(max(0.0, fact.usd))

    def _retried(self, _: str, fact: Retried) -> None:
        self._retries.labels(self._causes.of(fact.cause)).inc()

    def _tool_started(self, session: str, fact: ToolStarted) -> None:
        self._tools.of(fact.call.name)  # it exists: models also call what does not, by names without end
        if run := self._running.get(session):
            run.at_work[fact.call.id] = fact.at

    def _tool_ended(self, session: str, fact: ToolEnded) -> None:
        run = self._running.get(session)
        tool = self._tools.of(fact.result.name, admit=fact.outcome == "denied")  # only a call of a real tool is denied
        self._calls.labels(tool, fact.outcome).inc()
        began = run.at_work.pop(fact.result.call, None) if run else None
        if began and fact.outcome in RAN:  # from the beginning of the work on: before it, a person may have been asked
            self._tool_seconds.labels(tool).observe(max(0.0, (fact.at - began).total_seconds()))

    def _asked(self, session: str, fact: Asked) -> None:
        if run := self._running.get(session):
            run.questions[fact.question.id] = fact.question.kind

    def _answered(self, session: str, fact: Answered) -> None:
        run = self._running.get(session)
        kind = run.questions.get(fact.question, UNKNOWN) if run else UNKNOWN
        self._answers.labels(kind, fact.status).inc()
        if run and fact.status != "lost":
            run.questions.pop(fact.question, None)


class _WithoutTimes(Collector):
    """A registry without the series that say when each other series began: nothing is computed of them here."""

    def __init__(self, inner: CollectorRegistry) -> None:
        self._inner = inner

    def collect(self) -> Iterable[Metric]:
        """What the inner registry collects."""
        for metric in self._inner.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric
