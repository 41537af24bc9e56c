"""Spans of runs, made of the facts that this process stores, by OpenTelemetry's conventions for generative AI.

Composition root, for the extra `otel`; only telemetry.py loads it. A run is `invoke_agent melete`; below it are `chat MODEL` for
each reply, tries that failed before it included, and `execute_tool NAME` for each call, below the call that made it where a tool
did. Times are those of the facts. What was said is in the spans only where the settings ask for it.

Names are those of the conventions' repository of their own (semantic-conventions-genai), which are still in development.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from melete import __version__
from melete.app.spans_content import bounded, messages
from melete.app.spans_sender import Sender
from melete.app.telemetry import Collector
from melete.core.event import (
    EPOCH,
    Answered,
    Asked,
    CancelAsked,
    Compacted,
    Fact,
    Reply,
    Retried,
    RunEnded,
    RunStarted,
    Said,
    Steered,
    Stop,
    ToolEnded,
    ToolStarted,
)
from melete.core.message import Message, Text, Usage
from melete.core.session import SessionRef

log = logging.getLogger("melete.telemetry")
AGENT = "melete"
INTERRUPTED = "interrupted"
WANTED = frozenset({Stop.DONE, Stop.CANCELLED})
"""Ends of a run that are no error."""
PROVIDERS = {
    "azure": "azure.ai.openai",
    "google": "gcp.gemini",
    "kimi": "moonshot_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""What the conventions call providers that have another name here."""
FINISHES = {"end": "stop", "tool_calls": "tool_call", "other": "error"}
MOST_RUNS = 10_000
LONGEST_NAME = 200
MICROSECOND = timedelta(microseconds=1)
Attributes = dict[str, str | bool | int | float | Sequence[str]]


class _Run:
    """An open run: its span, those of the calls at work, and what belongs to the next reply."""

    def __init__(self, span: Span, started: RunStarted, *, session: str) -> None:
        self.session = session
        self.span = span
        self.context = set_span_in_context(span, Context())
        self.started = started
        self.model = started.model
        self.provider = started.provider
        self.since = started.at
        """When the model was last given something to answer."""
        self.retries: list[Retried] = []
        self.calls: dict[str, Span] = {}
        self.asked: dict[str, str] = {}
        self.compacted = False
        self.unread: list[Message] = []
        self.prompts: list[Message] = []


class Spans:
    """Makes spans and sends them to a collector from a thread of its own; `listen` is to be among `Melete.listeners`."""

    def __init__(self, to: Collector, *, redact: Callable[[str], str]) -> None:
        self._redact = redact if to.content else None
        self._sender = Sender(to)
        self._tracer = self._sender.tracer
        self._traceparents = TraceContextTextMapPropagator()
        self._runs: dict[str, _Run] = {}
        self._broken = False
        self._handlers: dict[type[Any], Callable[[_Run, Any], None]] = {
            RunEnded: self._run_ended,
            Reply: self._reply,
            Retried: self._retried,
            ToolStarted: self._tool_started,
            ToolEnded: self._tool_ended,
            Asked: self._question_asked,
            Answered: self._question_answered,
            Compacted: self._made_shorter,
            CancelAsked: self._cancel_asked,
            Said: self._entered,
            Steered: self._entered,
        }

    def listen(self, ref: SessionRef, fact: Fact) -> None:
        """Take in a stored fact; neither waits nor raises: a mistake in here ends the traces, not the run."""
        if self._broken:
            return
        try:
            if isinstance(fact, RunStarted):
                self._run_started(ref.id, fact)
            elif (handler := self._handlers.get(type(fact))) and (run := self._runs.get(ref.id)):
                handler(run, fact)
        except Exception:
            self._broken = True
            log.exception("no more traces are sent, because making a span failed; runs are not affected")

    async def aclose(self, *, seconds: float) -> None:
        """End open spans and send what is left; after so many seconds what could not be sent is dropped."""
        for session in list(self._runs):
            self._interrupt(session)
        await self._sender.aclose(seconds=seconds)

    # ---- runs ----------------------------------------------------------------------------------------------------

    def _run_started(self, session: str, fact: RunStarted) -> None:
        self._interrupt(session)  # a run before it whose end could not be stored
        if len(self._runs) >= MOST_RUNS:
            self._interrupt(next(iter(self._runs)))
        about: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": AGENT,
            "gen_ai.agent.version": __version__,
            "gen_ai.provider.name": _provider(fact.provider),
            "gen_ai.request.model": _name(fact.model),
            "gen_ai.conversation.id": session,
            "melete.run": fact.run,
            "melete.surface": _name(fact.surface),
            **{f"melete.{key}": _name(fact.about[key]) for key in ("resumes", "job") if key in fact.about},
        }
        carrier = {key: fact.about[key] for key in ("traceparent", "tracestate") if key in fact.about}
        parent = self._traceparents.extract(carrier, Context())
        span = self._tracer.start_span(
            f"invoke_agent {AGENT}",
            context=parent,
            kind=SpanKind.INTERNAL,
            attributes=about,
            start_time=_nanoseconds(fact.at),
        )
        self._runs[session] = _Run(span, fact, session=session)

    def _run_ended(self, run: _Run, fact: RunEnded) -> None:
        del self._runs[run.session]
        if run.retries:
            self._chat(run, {}, at=fact.at, error=run.retries[-1].cause)
        for call in run.calls.values():
            _fail(call, INTERRUPTED)
            call.end(end_time=_nanoseconds(fact.at))
        run.span.set_attributes({**_usage(fact.usage), "melete.stop": fact.stop, "melete.steps": fact.steps})
        if fact.cost_usd is not None:
            run.span.set_attribute("melete.cost_usd", fact.cost_usd)
        if fact.stop not in WANTED:
            error = bounded(fact.error, self._redact) if self._redact and fact.error else fact.stop
            _fail(run.span, fact.stop, text=error)
        if self._redact:
            answer = Message(role="assistant", parts=(Text(text=fact.text),))
            run.span.set_attribute("gen_ai.input.messages", messages(run.prompts, self._redact))
            run.span.set_attribute("gen_ai.output.messages", messages([answer], self._redact, finish="stop"))
        run.span.end(end_time=max(_nanoseconds(fact.at), _nanoseconds(run.started.at)))

    def _interrupt(self, session: str) -> None:
        """End the spans of a run that is left without an end."""
        if run := self._runs.pop(session, None):
            for span in (*run.calls.values(), run.span):
                _fail(span, INTERRUPTED)
                span.end()

    def _entered(self, run: _Run, fact: Said | Steered) -> None:
        run.since = fact.at
        if self._redact:
            run.unread.append(fact.message)
            run.prompts.append(fact.message)

    def _cancel_asked(self, run: _Run, fact: CancelAsked) -> None:
        run.span.add_event("cancel", timestamp=_nanoseconds(fact.at))

    def _made_shorter(self, run: _Run, fact: Compacted) -> None:
        run.compacted, run.since = True, fact.at
        about = {"tokens_before": fact.tokens_before, "tokens_after": fact.tokens_after}
        run.span.add_event("compacted", about, timestamp=_nanoseconds(fact.at))

    # ---- replies -------------------------------------------------------------------------------------------------

    def _retried(self, run: _Run, fact: Retried) -> None:
        run.retries.append(fact)
        run.model, run.provider = fact.model or run.model, fact.provider or run.provider

    def _reply(self, run: _Run, fact: Reply) -> None:
        finish = FINISHES.get(fact.stop, fact.stop)
        about: Attributes = {"gen_ai.response.finish_reasons": (finish,), **_usage(fact.usage)}
        run.model = run.model or fact.model
        run.provider = fact.provider or run.provider
        if fact.model:
            about["gen_ai.response.model"] = _name(fact.model)
        if fact.request_id:
            about["melete.request_id"] = _name(fact.request_id)
        if fact.first_token_seconds > 0:
            about["gen_ai.response.time_to_first_chunk"] = fact.first_token_seconds
        if self._redact:
            about["gen_ai.input.messages"] = messages(run.unread, self._redact)
            about["gen_ai.output.messages"] = messages([fact.message], self._redact, finish=finish)
            run.unread.clear()
        if not run.retries:
            run.since = max(run.since, fact.at - timedelta(seconds=fact.seconds))
        self._chat(run, about, at=fact.at)
        run.since = fact.at

    def _chat(self, run: _Run, about: Attributes, *, at: datetime, error: str = "") -> None:
        """The span of a request with all its tries, ended."""
        given: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _provider(run.provider),
            "gen_ai.request.model": _name(run.model),
            "gen_ai.request.stream": True,
            "gen_ai.conversation.id": run.session,
            **(_server(run.started.base_url) if run.provider == run.started.provider else {}),
            **({"gen_ai.conversation.compacted": True} if run.compacted else {}),
            **about,
        }
        begun = min(_nanoseconds(run.since), _nanoseconds(at))
        span = self._tracer.start_span(
            f"chat {_name(run.model)}", context=run.context, kind=SpanKind.CLIENT, attributes=given, start_time=begun
        )
        for retry in run.retries:
            what = {"error.type": _name(retry.cause), "attempt": retry.attempt, "delay": retry.delay}
            span.add_event("retried", what, timestamp=_nanoseconds(retry.at))
        run.retries.clear()
        if error:
            _fail(span, _name(error))
        span.end(end_time=_nanoseconds(at))

    # ---- tools and people ----------------------------------------------------------------------------------------

    def _tool_started(self, run: _Run, fact: ToolStarted) -> None:
        run.calls[fact.call.id] = self._call(run, fact.call.id, fact.call.name, begun=fact.at)
        run.calls[fact.call.id].set_attribute("melete.tool.effect", fact.effect)
        if self._redact:
            given = bounded(fact.call.arguments, self._redact)
            run.calls[fact.call.id].set_attribute("gen_ai.tool.call.arguments", given)

    def _tool_ended(self, run: _Run, fact: ToolEnded) -> None:
        run.since, result = fact.at, fact.result
        span = run.calls.pop(result.call, None)
        if span is None:  # refused before it began
            span = self._call(run, result.call, result.name, begun=fact.at - timedelta(seconds=fact.seconds))
        span.set_attribute("melete.tool.outcome", fact.outcome)
        if fact.outcome != "ok":
            _fail(span, fact.outcome)
        if self._redact:
            span.set_attribute("gen_ai.tool.call.result", bounded(result.content, self._redact))
            run.unread.append(Message(role="tool", parts=(result,)))
        span.end(end_time=_nanoseconds(fact.at))

    def _call(self, run: _Run, call: str, name: str, *, begun: datetime) -> Span:
        about: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": _name(name),
            "gen_ai.tool.call.id": _name(call),
            "gen_ai.tool.type": "function",
            "gen_ai.conversation.id": run.session,
        }
        parent = run.calls.get(call.rpartition("/")[0])
        return self._tracer.start_span(
            f"execute_tool {_name(name)}",
            context=set_span_in_context(parent, Context()) if parent else run.context,
            kind=SpanKind.INTERNAL,
            attributes=about,
            start_time=_nanoseconds(begun),
        )

    def _question_asked(self, run: _Run, fact: Asked) -> None:
        run.asked[fact.question.id] = fact.question.kind
        run.span.add_event("asked", {"kind": fact.question.kind}, timestamp=_nanoseconds(fact.at))

    def _question_answered(self, run: _Run, fact: Answered) -> None:
        about = {"kind": run.asked.get(fact.question, ""), "status": fact.status}
        run.span.add_event("answered", about, timestamp=_nanoseconds(fact.at))


def _fail(span: Span, kind: str, *, text: str = "") -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, text or kind))


def _nanoseconds(at: datetime) -> int:
    return (at - EPOCH) // MICROSECOND * 1_000


def _name(text: str) -> str:
    """A name that others made up, fit for an attribute: bounded, and text that can be encoded."""
    return text[:LONGEST_NAME].encode("utf-8", "replace").decode()


def _provider(name: str) -> str:
    return PROVIDERS.get(name, _name(name) or "_OTHER")


def _usage(usage: Usage) -> Mapping[str, int]:
    """Tokens as the conventions count them: what was read from and written to a cache is part of the input."""
    counts = {
        "gen_ai.usage.input_tokens": usage.input + usage.cache_read + usage.cache_write,
        "gen_ai.usage.output_tokens": usage.output,
    }
    parts = {
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_write.input_tokens": usage.cache_write,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
    }
    return counts | {name: count for name, count in parts.items() if count}


def _server(url: str) -> Mapping[str, str | int]:
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return {}
    return {"server.address": parts.hostname, "server.port": port} if parts.hostname and port else {}
