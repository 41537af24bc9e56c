"""Conversations kept ready between their runs: environment, tools and model stay, within bounds. Part of the composition root.

Each is opened and closed by a task of its own, so that what toolsets hold open is closed by whoever opened it.
"""

import asyncio
import logging
import time

from melete.app.opening import Options
from melete.app.service import Conversation, find_session, open_conversation
from melete.app.wire import Melete
from melete.core.errors import SessionBusyError
from melete.core.event import RunEnded

log = logging.getLogger("melete.warm")
LOOK = 15.0
"""Seconds between two looks for conversations that have been idle for too long."""


class Kept:
    """A conversation that is open; `busy` while somebody has taken it, for the run `run` where it is one."""

    def __init__(self, conversation: Conversation, options: Options) -> None:
        self.conversation = conversation
        self.options = options
        self.busy = True
        self.run = ""
        self.used = time.monotonic()
        self.free = asyncio.Event()
        self.leave = asyncio.Event()
        self.gone = asyncio.Event()

    def fits(self, options: Options) -> bool:
        """Whether it can serve these options as it is open now."""
        mine = self.options
        same = (mine.toolsets, mine.surface, mine.owner) == (options.toolsets, options.surface, options.owner)
        return same and options.cwd in ("", mine.cwd) and options.env in ("", mine.env)

    def take(self) -> None:
        """Somebody takes it."""
        self.busy = True
        self.free.clear()

    async def ends(self) -> bool:
        """Whether the run that it was taken for has its last fact, on the disk at least: in a moment it is given back."""
        conversation = self.conversation
        facts = await conversation.app.store.facts(conversation.ref) if self.run else ()
        return any(isinstance(fact, RunEnded) and fact.run == self.run for fact in facts)

    @property
    def at_work(self) -> bool:
        """Whether closing it would end something: a run, or programs in the background."""
        return self.busy or self.conversation.works_in_background


class Warm:
    """Open conversations by session, at most `most` of them without work, each for at most `seconds` after its last run."""

    def __init__(self, app: Melete, *, most: int, seconds: float) -> None:
        self._app = app
        self._most = most
        self._seconds = seconds
        self._kept: dict[str, Kept] = {}
        self._leaving: dict[str, Kept] = {}
        self._taken: set[str] = set()
        self._closing = False

    def __len__(self) -> int:
        """How many are open."""
        return len(self._kept)

    async def take(self, options: Options) -> Kept:
        """The conversation that the options ask for, opened if need be, to be given back with `release`.

        Raises SessionBusyError while somebody here has it, and what opening it raises.
        """
        ref = await find_session(self._app, options)
        if ref is None:
            return await self._open(options)
        await self._take(ref.id)
        try:
            return await self._again(ref.id, options)
        except BaseException:
            self._taken.discard(ref.id)
            raise

    async def _again(self, session: str, options: Options) -> Kept:
        kept = self._kept.get(session)
        if kept is not None and kept.fits(options):
            kept.take()
            try:
                await kept.conversation.adopt(options)
            except BaseException:
                kept.busy = False
                raise
            return kept
        await self._gone(session)
        return await self._open(options)

    def release(self, kept: Kept) -> None:
        """Give one back; those beyond the bound are closed, the longest unused first."""
        kept.busy, kept.run = False, ""
        kept.free.set()
        kept.used = time.monotonic()
        session = kept.conversation.ref.id
        self._taken.discard(session)
        if self._kept.get(session) is kept:
            self._kept[session] = self._kept.pop(session)  # the last used stands last
        self._shrink()

    async def drop(self, session: str) -> None:
        """Close the conversation of a session that is about to go; raises SessionBusyError while somebody here has it."""
        await self._take(session)
        try:
            await self._gone(session)
        finally:
            self._taken.discard(session)

    async def tend(self) -> None:
        """Close what has been idle for too long, until cancelled."""
        while True:
            await asyncio.sleep(min(LOOK, self._seconds))
            self._shrink(unused_since=time.monotonic() - self._seconds)

    async def aclose(self) -> None:
        """Close all of them; one that is being opened is closed as soon as it is open."""
        self._closing = True
        for session in [*self._kept]:
            self._let_go(session)
        for kept in [*self._leaving.values()]:
            await kept.gone.wait()

    async def _take(self, session: str) -> None:
        """Take a session; one whose run has just ended is given back in a moment, although its end can be read already."""
        while session in self._taken:
            kept = self._kept.get(session)
            if kept is not None and await kept.ends():
                await kept.free.wait()
                continue
            raise SessionBusyError(
                f"a run goes on in the session {session}",
                kept="it was not touched",
                next="steer or cancel that run, or wait until it ends",
            )
        self._taken.add(session)

    def _shrink(self, *, unused_since: float = 0.0) -> None:
        """Close those without work that are too many, or whose last use was before a moment of the monotonic clock."""
        many = len(self._kept) - sum(session in self._kept for session in self._taken) - self._most
        for kept in list(self._kept.values()) if many > 0 or unused_since else ():  # the longest unused stands first
            if many <= 0 and kept.used >= unused_since:
                break
            if not kept.at_work:
                self._let_go(kept.conversation.ref.id)
                many -= 1

    def _let_go(self, session: str) -> None:
        """Have one closed by the task that opened it; until it is `gone`, its session is not opened again."""
        kept = self._leaving[session] = self._kept.pop(session)
        kept.leave.set()

    async def _gone(self, session: str) -> None:
        """Close the one of a session, and wait for it; one that is being closed already is waited for as well."""
        if session in self._kept:
            self._let_go(session)
        if leaving := self._leaving.get(session):
            await leaving.gone.wait()

    async def _open(self, options: Options) -> Kept:
        ready: asyncio.Future[Kept] = asyncio.get_running_loop().create_future()
        self._app.group.create_task(self._keep(options, ready))
        try:
            return await ready
        except asyncio.CancelledError:
            if not ready.cancelled() and ready.exception() is None:  # it was opened in the same moment
                self.release(ready.result())
            raise

    async def _keep(self, options: Options, ready: "asyncio.Future[Kept]") -> None:
        """Hold one open until it is to be closed; a failure to open it is the waiting caller's."""
        kept: Kept | None = None
        try:
            async with open_conversation(self._app, options) as conversation:
                if ready.cancelled():
                    return
                kept = Kept(conversation, options)
                self._kept[conversation.ref.id] = kept
                self._taken.add(conversation.ref.id)
                ready.set_result(kept)
                if self._closing:
                    self._let_go(conversation.ref.id)
                await kept.leave.wait()
        except Exception as error:
            if ready.done():
                log.exception("closing a conversation failed")
            else:
                ready.set_exception(error)
        finally:
            if kept:
                self._away(kept)
            if not ready.done():
                ready.cancel()

    def _away(self, kept: Kept) -> None:
        """It is closed, whoever asked for that."""
        session = kept.conversation.ref.id
        for known in (self._kept, self._leaving):
            if known.get(session) is kept:
                del known[session]
        kept.gone.set()
