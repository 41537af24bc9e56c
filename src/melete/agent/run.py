"""One run of a session: repair what a crash left, begin, converse, and end with a fact, whatever happens. Layer 2."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, cast
from uuid import uuid4

from msgspec import Struct, field

from melete.agent.agent import Agent
from melete.agent.approvals import Desk
from melete.agent.loop import Emit, converse
from melete.agent.mail import Mail
from melete.agent.results import close_open_calls
from melete.core.errors import LimitError, StoreError
from melete.core.event import Answered, CancelAsked, Fact, Notice, RunEnded, RunStarted, Said, Stop, Titled
from melete.core.message import Message
from melete.core.model import ContextOverflowError, ModelError
from melete.core.session import Session

log = logging.getLogger("melete.run")
TITLE = 80
Beside = Callable[[], Coroutine[Any, Any, None]]
LONGER = 1.5
"""Seconds that work beside the conversation may take after its end."""
WATCH = 0.04
"""Seconds between two looks into the inbox."""


def new_run_id() -> str:
    """An id that no other run has."""
    return uuid4().hex[:16]


class Over(NamedTuple):
    """Why a conversation stopped, and the error that ended it with its class, where there was one."""

    stop: str
    error: str | None = None
    cause: str = ""


CANCELLED = Over(Stop.CANCELLED)


class Start(Struct, frozen=True, kw_only=True):
    """How a run begins: its id, where, in which process, the environment's name, and `about` as `RunStarted` has it."""

    id: str = field(default_factory=new_run_id)
    surface: str = "cli"
    pid: int = 0
    env: str = ""
    about: dict[str, str] = {}


class Run:
    """Drives one session from a prompt to an answer; made anew for every run."""

    def __init__(self, agent: Agent, session: Session, desk: Desk, *, emit: Emit, start: Start | None = None) -> None:
        self._start = start or Start()
        self.id = self._start.id
        self._agent = agent
        self._session = session
        self._desk = desk
        self._emit = emit
        self._task: asyncio.Task[Over] | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """Stop the run as soon as its results are stored; safe to call at any time and from a signal handler.

        A second call does nothing: it would interrupt the storing.
        """
        first, self._cancelled = not self._cancelled, True
        if first and self._task and not self._task.done():
            self._task.cancel()

    async def execute(
        self,
        prompt: Message | None,
        *,
        opening: Sequence[Fact] = (),
        beside: Beside | None = None,
        begun: Callable[[], None] | None = None,
    ) -> RunEnded:
        """Run to the end and return the last fact; failures are in it. Only a failure to store is raised: StorageError.

        A task that is cancelled while it waits here ends the run as well: its last fact is stored before the cancellation goes on.
        `opening` is stored right after the beginning: the frame where the session has none that fits, and remarks. `beside`
        runs while the conversation does, and a moment longer; what it does not finish in time is dropped. `begun` is called
        once the beginning and the prompt are on the disk.
        """
        session, began = self._session, time.monotonic()
        session.begin(self.id)
        log.info("run %s: begins with %s", self.id, self._agent.model.name)
        await self._begin(prompt, opening)
        if begun:
            begun()
        try:
            over = await self._converse(Mail(resting=prompt is None and at_rest(session)), beside)
        except asyncio.CancelledError:
            await self._end(CANCELLED, began=began)
            raise
        return await self._end(over, began=began)

    async def _end(self, over: Over, *, began: float) -> RunEnded:
        await close_open_calls(self._session)
        ended = self._summary(over, seconds=time.monotonic() - began)
        stored = (await self._session.record(ended, durable=True))[0]
        log.log(
            logging.WARNING if over.error else logging.INFO,
            "run %s: %s, %d steps, %s",
            self.id,
            over.stop,
            ended.steps,
            over.error or "ok",
        )
        return cast("RunEnded", stored)

    async def _begin(self, prompt: Message | None, opening: Sequence[Fact]) -> None:
        session, model = self._session, self._agent.model
        unknown = await close_open_calls(session)
        await self._expire()
        started = RunStarted(
            model=model.name,
            provider=model.provider,
            base_url=self._agent.base_url,
            surface=self._start.surface,
            pid=self._start.pid,
            max_steps=self._agent.limits.max_steps,
            env=self._start.env,
            about=self._start.about,
        )
        await session.record(started, *opening)
        if unknown:
            text = f"{unknown} call(s) were open when this session stopped last; the model is told that they may not have run"
            await session.record(Notice(text=text, level="warning", about="crash"))
        if prompt is not None:
            await session.record(Said(message=prompt), durable=True)
            if not session.transcript.title and (title := title_of(prompt.text)):
                await session.record(Titled(title=title))

    async def _expire(self) -> None:
        """Close the questions of a dead run, and the answers and cancels that were meant for it."""
        session = self._session
        for question in list(session.transcript.questions):
            await session.record(Answered(question=question, status="expired"))
        for message in session.pending():
            if message.kind == "answer":
                await self._desk.answer(message)
            elif message.kind == "cancel":
                await session.record(CancelAsked(status="expired", by=message.by, inbox=message.id))
            else:
                continue
            session.settle(message.id)

    async def _converse(self, mail: Mail, beside: Beside | None) -> Over:
        """The loop beside the inbox's watcher; returns why it stopped and what went wrong."""
        try:
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(self._watch())
                self._task = group.create_task(self._guarded(mail))
                self._task.add_done_callback(lambda _: watcher.cancel())
                if beside:
                    side = group.create_task(beside())
                    later = asyncio.get_running_loop().call_later
                    self._task.add_done_callback(lambda _: later(0 if self._cancelled else LONGER, side.cancel))
            if self._task.cancelled():  # before its first step, where nothing of it could notice
                return CANCELLED
            return self._task.result()
        except BaseExceptionGroup as errors:
            raise innermost(errors) from errors

    async def _guarded(self, mail: Mail) -> Over:
        if self._cancelled:
            return CANCELLED
        if mail.resting and not mail.waiting(self._session):
            return Over(Stop.DONE)  # the answer was stored, only the end of the run was not
        try:
            return Over(await converse(self._agent, self._session, mail, self._emit))
        except asyncio.CancelledError:
            if not self._cancelled:
                raise
            return CANCELLED
        except (LimitError, ModelError) as error:
            return Over(stop_of(error), self._agent.redact(str(error)), type(error).__name__)
        except Exception as error:
            cause = innermost(error)
            if isinstance(cause, StoreError):
                raise cause from error
            log.exception("run %s failed", self.id)
            return Over(Stop.FAILED, self._agent.redact(f"{type(cause).__name__}: {cause}"), type(cause).__name__)

    async def _watch(self) -> None:
        """Answers and cancels act at once, also while a tool or a model is waited for."""
        while True:
            await self._take_in()
            await asyncio.sleep(WATCH)

    async def _take_in(self) -> None:
        """Act on the answers and cancels that are in the inbox."""
        for message in self._session.pending():
            if message.kind == "answer":
                await self._desk.answer(message)
            elif message.kind == "cancel":
                await self._session.record(CancelAsked(by=message.by, inbox=message.id), durable=True)
                self.cancel()
            else:
                continue
            self._session.settle(message.id)

    def _summary(self, over: Over, *, seconds: float) -> RunEnded:
        state = self._session.transcript
        spent = state.spent_in(self.id)
        found = (
            over.stop == Stop.DONE and not spent.requests
        )  # an answer that was stored before, by a run without an end
        return RunEnded(
            stop=over.stop,
            text=state.messages[-1].text if found and state.messages else state.answer,
            steps=spent.requests,
            usage=spent.usage,
            cost_usd=spent.usd,
            error=over.error,
            cause=over.cause,
            seconds=round(seconds, 3),
        )


def stop_of(error: LimitError | ModelError) -> str:
    """The value of `Stop` for a run that ended with this error."""
    if isinstance(error, LimitError):
        return Stop.OUT_OF_BUDGET
    return Stop.CONTEXT_FULL if isinstance(error, ContextOverflowError) else Stop.FAILED


def innermost(errors: BaseException) -> BaseException:
    """The first real error inside nested groups."""
    while isinstance(errors, BaseExceptionGroup):
        errors = cast("BaseException", errors.exceptions[0])
    return errors


def at_rest(session: Session) -> bool:
    """Whether the conversation ends with the model's own words, so that it has nothing to answer."""
    messages = session.messages
    return not messages or (messages[-1].role == "assistant" and not messages[-1].calls)


def title_of(text: str) -> str:
    """A title from the first words of a prompt."""
    line = next((part.strip() for part in text.splitlines() if part.strip()), "")
    return line if len(line) <= TITLE else line[: TITLE - 1].rsplit(" ", 1)[0] + "…"
