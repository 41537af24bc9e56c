"""The one door to every tool: arguments repaired, guards asked, intent stored, deadline kept, result shaped and stored. Layer 2."""

import asyncio
import difflib
import logging
import time
import traceback
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from melete.agent import arguments, results
from melete.agent.context import CallContext, Surroundings
from melete.agent.loopwatch import LoopWatch
from melete.core.errors import EnvironmentFailure, StoreError
from melete.core.event import ToolEnded, ToolStarted
from melete.core.message import Taint, ToolCall, ToolResult
from melete.core.plugin import Lazy
from melete.core.session import Session
from melete.core.tool import Go, Guard, Output, Refused, Result, Tool, ToolError
from melete.security.taint import UNTRUSTED, marked, spilled_name, worst

log = logging.getLogger("melete.dispatch")
_scan: Lazy[Callable[[str], Sequence[Any]]] = Lazy("melete.security.threats:scan")
LONGEST_BUG = 4_000
"""Characters of an unexpected error that the model is shown."""


class Door:
    """What every call of a session passes: its outcome is stored, whatever happens; `watch` sees it before."""

    def __init__(self, session: Session, *, watch: LoopWatch | None = None) -> None:
        self._session = session
        self._watch = watch

    @abstractmethod
    def batches(self, calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
        """The calls in order, neighbours that may share the clock together."""

    def surplus(self, calls: Sequence[ToolCall]) -> Mapping[str, str]:
        """Why a call of a reply does not run beside the others, by the call's id; here all run."""
        del calls
        return {}

    @abstractmethod
    async def _attempt(self, call: ToolCall, parent: object) -> ToolEnded:
        """The outcome of one call; every failure is a result that the model can act on."""

    async def run(self, call: ToolCall, *, refused: str = "", parent: object = None) -> ToolEnded:
        """Run one call and store its outcome, whatever happens; a cancellation and StorageError alone go on upwards.

        `parent` is what made the call, where a tool did.
        """
        began = time.monotonic()
        try:
            ended = results.failure(call, refused, outcome="not_run") if refused else await self._attempt(call, parent)
        except asyncio.CancelledError as stopped:
            fields = stopped.fields if isinstance(stopped, results.Stopped) else None
            await self._store(results.failure(call, "Stopped by the user.", outcome="cancelled", fields=fields), began)
            raise
        if self._watch and parent is None:  # what a tool calls is the tool's own business
            ended = self._watch.note(call, ended)
        return await self._store(ended, began)

    async def _store(self, ended: ToolEnded, began: float) -> ToolEnded:
        timed = msgspec.structs.replace(ended, seconds=round(time.monotonic() - began, 4))
        await self._session.record(timed)
        return timed


class Dispatch(Door):
    """Runs calls for one session; nothing else does."""

    def __init__(
        self, tools: Sequence[Tool], *, guards: Sequence[Guard], shared: Surroundings, watch: LoopWatch | None = None
    ) -> None:
        super().__init__(shared.session, watch=watch)
        self.tools = shared.tools = {tool.name: tool for tool in tools}
        self._inner = 0
        self._spilled = 0
        self._guards = tuple(guards)
        self._shared = shared

    def batches(self, calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
        """The calls in order, neighbours that are marked parallel together."""
        grouped: list[list[ToolCall]] = []
        before = False
        for call in calls:
            tool = self.tools.get(call.name)
            parallel = tool is not None and tool.parallel
            if parallel and before:
                grouped[-1].append(call)
            else:
                grouped.append([call])
            before = parallel
        return grouped

    def surplus(self, calls: Sequence[ToolCall]) -> Mapping[str, str]:
        """Why a call of a reply does not run beside the others of its tool, by the call's id."""
        counted: Counter[str] = Counter()
        found: dict[str, str] = {}
        for call in calls:
            counted[call.name] += 1
            tool = self.tools.get(call.name)
            if tool and tool.at_most and counted[call.name] > tool.at_most:
                found[call.id] = (
                    f"Not run: one reply may call {call.name} {tool.at_most} times. Send it again in a later one."
                )
        return found

    async def _attempt(self, call: ToolCall, parent: object) -> ToolEnded:
        tool = self.tools.get(call.name)
        if tool is None:
            near = difflib.get_close_matches(call.name, self.tools, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            return results.failure(call, f"There is no tool {call.name!r}.{hint}", fields={"tools": sorted(self.tools)})
        try:
            checked, canonical = arguments.check(tool, call.arguments)
            outer = parent if isinstance(parent, CallContext) else None
            ctx = CallContext(self._shared, call, tool=tool, arguments=checked, nested=self._nested, parent=outer)
            return await self._guarded(call, canonical, ctx)
        except Refused as refusal:
            return results.failure(call, str(refusal), outcome="denied", decision=refusal.decision)
        except ToolError as error:
            return await self._tool_error(call, tool, error)
        except StoreError:
            raise
        except Exception as error:  # a guard's or a judge's: nothing has run
            log.exception("call of %s failed", call.name)
            return self._bug(call, error)

    async def _guarded(self, call: ToolCall, canonical: str, ctx: CallContext) -> ToolEnded:
        """Pass the call through the guards to the tool; the innermost step stores the intent before the effect."""
        ended: list[ToolEnded] = []

        async def innermost(inner: ToolCall) -> ToolResult:
            await self._shared.session.record(
                ToolStarted(
                    call=msgspec.structs.replace(inner, arguments=canonical),
                    effect=ctx.tool.effect,
                    decision=ctx.decision,
                ),
                durable=ctx.tool.effect != "read",
            )
            ended.append(await self._effect(inner, ctx))
            return ended[-1].result

        go: Go = innermost
        for guard in reversed(self._guards):
            go = _layer(guard, ctx, go)
        result = await go(call)
        if ended and ended[-1].result is result:
            return ended[-1]
        outcome = ended[-1].outcome if ended else ("denied" if result.error else "ok")
        return ToolEnded(result=result, outcome=outcome, spilled=ended[-1].spilled if ended else "")

    async def _effect(self, call: ToolCall, ctx: CallContext) -> ToolEnded:
        try:
            done = await ctx.within(ctx.tool.deadline, ctx.tool.run(ctx, ctx.arguments))
            return await self._shaped(call, ctx.tool, _with_inner(done, ctx))
        except ToolError as error:
            return await self._shaped(call, ctx.tool, _with_inner(_failed(error), ctx))
        except (EnvironmentFailure, StoreError) as error:
            return results.failure(call, self._shared.redact(str(error)))
        except Exception as error:
            if ctx.late:
                why = f"{call.name} was stopped after {ctx.tool.deadline:g} s without an end."
                return results.failure(call, why, outcome="timeout")
            log.exception("tool %s failed", call.name)
            return self._bug(call, error)

    async def _shaped(self, call: ToolCall, tool: Tool, done: Result) -> ToolEnded:
        session = self._shared.session

        async def spill(name: str, text: str) -> str:
            self._spilled += 1  # calls that end side by side share the log's last number
            name = spilled_name(f"{session.transcript.seq}-{self._spilled}-{name}", _taint(done))
            return await self._shared.store.spill(session.ref, name, text)

        output, content, path = await results.shape(done, limit=tool.limit, redact=self._shared.redact, spill=spill)
        if output.taint in UNTRUSTED:
            signs = await results.aside(partial(_scan.load(), content), len(content))
            found = ", ".join(dict.fromkeys(one.rule for one in signs))
            source = f"{call.name} ({self._shared.redact(output.source)})" if output.source else call.name
            fields = marked(msgspec.json.decode(content), text=content, call=call.id, source=source, finding=found)
            content = results.encode(fields)
        result = ToolResult(
            call=call.id, name=call.name, content=content, error=output.failed, taint=output.taint, images=output.images
        )
        return ToolEnded(result=result, outcome="error" if output.failed else "ok", spilled=path)

    async def _tool_error(self, call: ToolCall, tool: Tool, error: ToolError) -> ToolEnded:
        return await self._shaped(call, tool, _failed(error))

    def _bug(self, call: ToolCall, error: Exception) -> ToolEnded:
        trace = traceback.extract_tb(error.__traceback__)[-1]
        text = self._shared.redact(f"{type(error).__name__}: {error}")[:LONGEST_BUG]
        return results.failure(call, text, fields={"where": f"{trace.name}:{trace.lineno}"})

    async def _nested(self, parent: CallContext, name: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """A call that a tool makes: the same door; its outcome is a fact, but not part of the conversation."""
        self._inner += 1
        call = ToolCall(id=f"{parent.call_id}/{self._inner}", name=name, arguments=results.encode(values))
        ended = await self.run(call, parent=parent)
        if ended.result.taint in UNTRUSTED:
            parent.heard[name] = ended.result.taint
        parent.unseen += len(ended.result.images)
        return msgspec.json.decode(ended.result.content)


def _failed(error: ToolError) -> Output:
    return Output(fields={"success": False, "error": str(error), **error.fields}, failed=True)


def _taint(done: Result) -> Taint:
    return done.taint if isinstance(done, Output) else "tool"


def _with_inner(done: Result, ctx: CallContext) -> Result:
    """The result with what the calls inside it brought: the taint, and that their pictures are not seen."""
    output = done if isinstance(done, Output) else Output(fields=done, failed=done.get("success") is False)
    if ctx.unseen:
        note = f"pictures that code opens cannot be seen ({ctx.unseen}): call the tool yourself to see one"
        output = msgspec.structs.replace(output, fields={**output.fields, "pictures": note})
    if ctx.heard and output.taint not in UNTRUSTED:
        output = msgspec.structs.replace(output, taint=worst(ctx.heard.values()), source=", ".join(ctx.heard))
    return output


def _layer(guard: Guard, ctx: CallContext, go: Go) -> Go:
    async def through(call: ToolCall) -> ToolResult:
        return await guard(call, ctx, go)

    return through
