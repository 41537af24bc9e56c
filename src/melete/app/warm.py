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

log = logging.getLogger("melete.warm")
LOOK = 15.0
"""Seconds between two looks for conversations that have been idle for too long."""


class Kept:
    """A conversation that is open; `busy` while somebody has taken it."""

    def __init__(self, conversation: Conversation, options: Options) -> None:
        self.conversation = conversation
        self.options = options
        self.busy = True
        self.used = time.monotonic()
        self.leave = asyncio.Event()
        self.gone = asyncio.Event()

    def fits(self, options: Options) -> bool:
        """Whether it can serve these options as it is open now."""
        mine = self.options
        same = (mine.toolsets, mine.surface, mine.owner) == (options.toolsets, options.surface, options.owner)
        return same and options.cwd in ("", mine.cwd) and options.env in ("", mine.env)

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
            kept = await self._open(options)
            self._taken.add(kept.conversation.ref.id)
            return kept
        if ref.id in self._taken:
            raise SessionBusyError(
                f"a run goes on in the session {ref.id}",
                kept="it was not touched",
                next="steer or cancel that run, or wait until it ends",
            )
        self._taken.add(ref.id)
        try:
            return await self._again(ref.id, options)
        except BaseException:
            self._taken.discard(ref.id)
            raise

    async def _again(self, session: str, options: Options) -> Kept:
        kept = self._kept.pop(session, None)
        if kept is not None and kept.fits(options):
            kept.busy = True
            self._kept[session] = kept
            await kept.conversation.adopt(options)
            return kept
        if kept is not None:
            await self._close(kept)
        return await self._open(options)

    def release(self, kept: Kept) -> None:
        """Give one back; those beyond the bound are closed, the longest unused first."""
        kept.busy = False
        kept.used = time.monotonic()
        session = kept.conversation.ref.id
        self._taken.discard(session)
        if self._kept.get(session) is kept:
            self._kept[session] = self._kept.pop(session)  # the last used stands last
        self._shrink()

    async def tend(self) -> None:
        """Close what has been idle for too long, until cancelled."""
        while True:
            await asyncio.sleep(min(LOOK, self._seconds))
            self._shrink(unused_since=time.monotonic() - self._seconds)

    async def aclose(self) -> None:
        """Close all of them."""
        self._closing = True
        for kept in list(self._kept.values()):
            await self._close(kept)

    def _shrink(self, *, unused_since: float = 0.0) -> None:
        """Close those without work that are too many, or whose last use was before a moment of the monotonic clock."""
        idle = [kept for kept in self._kept.values() if not kept.at_work]  # the longest unused stands first
        for number, kept in enumerate(idle):
            if len(idle) - number <= self._most and kept.used >= unused_since:
                break
            del self._kept[kept.conversation.ref.id]
            kept.leave.set()

    async def _open(self, options: Options) -> Kept:
        ready: asyncio.Future[Kept] = asyncio.get_running_loop().create_future()
        self._app.group.create_task(self._keep(options, ready))
        kept = await ready
        self._kept[kept.conversation.ref.id] = kept
        return kept

    async def _close(self, kept: Kept) -> None:
        self._kept.pop(kept.conversation.ref.id, None)
        kept.leave.set()
        await kept.gone.wait()

    async def _keep(self, options: Options, ready: "asyncio.Future[Kept]") -> None:
        """Hold one open until it is to be closed; a failure to open it is the waiting caller's."""
        kept: Kept | None = None
        try:
            async with open_conversation(self._app, options) as conversation:
                kept = Kept(conversation, options)
                if ready.cancelled():
                    return
                ready.set_result(kept)
                await kept.leave.wait()
        except Exception as error:
            if ready.done():
                log.exception("closing a conversation failed")
            else:
                ready.set_exception(error)
        finally:
            if kept:
                kept.gone.set()
            if not ready.done():
                ready.cancel()
