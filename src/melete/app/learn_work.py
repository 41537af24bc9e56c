"""The work of learning: sessions are read for signals, and what is due is reviewed, by one process at a time. Composition root.

What is to be done stands in the ledger and in the sessions' logs, so that any process can do it, also after the one that ran the
session is gone. The lock is the kernel's: what a dead process has begun is free as soon as it is dead.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Collection, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from uuid import uuid4

from msgspec import structs

from melete.app.learn_lock import locked, stamp
from melete.app.learn_outcomes import settle
from melete.app.learn_taught import taught_already
from melete.app.reviewing import Job, release, review
from melete.app.unstored import SOURCE
from melete.app.wire import Melete
from melete.core.errors import SessionNotFoundError, StorageError
from melete.core.event import Fact, Opened, Reply, RunEnded, RunStarted, Said, ToolEnded
from melete.core.session import SessionInfo, SessionRef, Which
from melete.learn.debts import TRIES, Debts, Due, Rule, Standing, only, whole
from melete.learn.facts import Brief, Debt, ReadUpTo, Review, fields_of
from melete.learn.share import Share
from melete.learn.signals import Signal, Signals, spoken

log = logging.getLogger("melete.learn")
BACK = timedelta(days=1)
"""How far behind the last reading sessions are looked at, and how far back in a home in which nothing was read yet."""
APART = frozenset({SOURCE, "review", "import", "subagent"})
"""Where sessions come from in which nothing is to be learned."""
OFF = {"learn": "off"}
"""What `RunStarted.about` holds of a run from which on nothing is learned of a session."""
WRITES = "skill_manage"
OPEN_FOR = timedelta(minutes=30)
"""How long a review is expected to take at most; it is told with its beginning."""
Live = Callable[[str], bool | None]
"""Whether a session of this process is still open; None for one of another process."""
Told = Callable[[Review], Any]


class Reading:
    """A session's log as far as it was read: its signals, and what is counted for the plain counters."""

    def __init__(self, known: Collection[str]) -> None:
        self.signals = Signals(known=known)
        self.facts: list[Fact] = []
        self.pid = 0
        self.off = False
        self.start = 0
        self.seq = 0

    def feed(self, facts: Sequence[Fact]) -> list[tuple[int, Signal]]:
        """Take in further facts; each signal comes with the number of the fact that brought it."""
        found: list[tuple[int, Signal]] = []
        for fact in facts:
            if isinstance(fact, Opened):
                self.off = fact.source in APART or "imported" in fact.about
                self.start = fact.copied
            elif isinstance(fact, RunStarted):
                self.pid = fact.pid
                self.off = self.off or fact.about.get("learn") == OFF["learn"]
            if self.off:
                break
            self.seq = fact.seq
            self.facts.append(fact)
            found += [(fact.seq, signal) for signal in self.signals.feed(fact)]
        return found

    def counts(self, paid: int) -> dict[str, Any]:
        """Steps and turns behind `paid`, and behind the last use of `skill_manage`."""
        wrote = max((f.seq for f in self.facts if isinstance(f, ToolEnded) and f.result.name == WRITES), default=0)
        steps = [f.seq for f in self.facts if isinstance(f, Reply) and f.message.calls]
        turns = [f.seq for f in self.facts if isinstance(f, Said) and spoken(f.message) is not None]
        since = max(paid, wrote)
        return {
            "steps": sum(seq > since for seq in steps),
            "turns": sum(seq > since for seq in turns),
            "state": {"apart": sum(seq > paid for seq in turns)},
        }


class Worker:
    """Reads and reviews for one process; `live` tells of its own sessions, `told` hears of each review that ended."""

    def __init__(self, app: Melete, *, live: Live = lambda _: None, told: Told | None = None) -> None:
        settings = app.loaded.settings
        self.app = app
        self.debts = Debts()
        self._settings = settings.learning
        self._rule = Rule(
            trigger=self._settings.trigger,
            steps=self._settings.review_every_steps,
            turns=self._settings.review_every_turns,
        )
        self._kinds: set[Brief] = {"both"}
        self._kinds |= {"skills"} if settings.skills.enabled else set()
        self._kinds |= {"memory"} if settings.memory.enabled else set()
        self._share = Share(self._settings.day_share)
        self._read: dict[str, Reading] = {}
        self._released: date | None = None
        self._live = live
        self._told = told

    async def turn(self) -> bool:
        """Do all that is due now, and what is asked for meanwhile; False where another process is at it. Raises StoreError."""
        home = self.app.loaded.home
        asked = -1
        while asked != stamp(home):
            with locked(home) as mine:
                if not mine:
                    return False
                asked = stamp(home)
                await self._turn()
        return True

    async def _turn(self) -> None:
        await self._catch_up()
        for info in await self._candidates():
            await self._look(info)
        if self._released != (
            today := self.app.clock.now().astimezone().date()
        ):  # what waits for nothing but another day
            await release(self.app)
            self._released = today
        seen: set[tuple[str, int]] = set()
        while todo := [one for one in self._due() if (one.session, one.upto) not in seen]:
            for due in todo:  # behind what is gone on with, the rest of a session may be due as well
                seen.add((due.session, due.upto))
                await self._review(due)

    def _due(self) -> Sequence[Due]:
        return self.debts.due(self._rule, now=self.app.clock.now())

    async def review(self, ref: SessionRef) -> Review | None:
        """Review a session now, whatever it weighs; None where another process is at it, or nothing is left to review."""
        with locked(self.app.loaded.home) as mine:
            if not mine:
                return None
            await self._catch_up()
            stands = await self._look(await self.app.store.info(ref))
            behind = await self.app.store.facts(ref, after=stands.paid)
            if not any(isinstance(fact, RunEnded) and fact.seq <= stands.seq for fact in behind):
                return None
            return await self._review(whole(stands, "asked for"), asked=True)

    async def _catch_up(self) -> None:
        rows = await asyncio.to_thread(self.app.ledger.read, after=self.debts.number)
        self._share.take(rows)
        self.debts.take(rows)

    async def _append(self, *facts: Debt | ReadUpTo | Review) -> None:
        for fact in facts:
            await self.app.ledger.append(fact.kind, fields_of(fact), durable=isinstance(fact, Review))
        await self._catch_up()

    async def _candidates(self) -> Sequence[SessionInfo]:
        """The sessions that changed since they were read, and those that had not ended then."""
        stood = self.debts.sessions.values()
        now = self.app.clock.now()
        at = min(now, max((datetime.fromisoformat(one.at) for one in stood if one.at), default=now))
        rows = await self.app.store.list(which=Which(since=at - BACK), limit=1_000_000)
        found = {row.id: row for row in rows if row.source not in APART and self._changed(row, now)}
        for one in [one for one in stood if one.seq and not one.over and one.session not in found]:
            with contextlib.suppress(SessionNotFoundError):
                found[one.session] = await self.app.store.info(SessionRef(id=one.session))
        return [*found.values()]

    def _changed(self, row: SessionInfo, now: datetime) -> bool:
        """Whether a session may hold what was not read; a clock that went wrong must not hide it."""
        stands = self.debts.of(row.id)
        read = datetime.fromisoformat(stands.at) if stands.at else None
        return not stands.over or read is None or row.updated >= read or read > now

    async def _look(self, info: SessionInfo) -> Standing:
        """Read on in a session, note what was found, and once it is over what came of what was shown in it."""
        ref, stands = SessionRef(id=info.id, owner=info.owner), self.debts.of(info.id)
        reading = self._read.setdefault(info.id, Reading(self.debts.known))
        facts = () if reading.off else await self.app.store.facts(ref, after=reading.seq)
        found = await asyncio.to_thread(reading.feed, facts)
        seq, over = max(1, reading.seq), self._over(info, reading)
        if (seq, over) != (stands.seq, stands.over):
            after = max(stands.seq, reading.start)
            debts = [_debt(info.id, signal) for at, signal in found if at > after]
            read = ReadUpTo(session=info.id, upto=seq, over=over, **reading.counts(stands.paid))
            await self._append(*debts, read)
        if over:
            del self._read[info.id]
            await settle(self.app, info.id, reading.facts)
        return self.debts.of(info.id)

    def _over(self, info: SessionInfo, reading: Reading) -> bool:
        """Whether a session has ended: its process says so or is gone, or nothing has happened in it for a while.

        A process that starts this one does so at its end.
        """
        if info.running:
            return False
        live = self._live(info.id)
        if live is not None:
            return not live
        if reading.pid in (0, os.getppid()) or not _alive(reading.pid):
            return True
        return self.app.clock.now() - info.updated >= timedelta(seconds=self._settings.idle_seconds)

    async def _review(self, due: Due, *, asked: bool = False) -> Review | None:
        """Claim a review and have it done, if there is allowance for it."""
        before, stands = due.before, self.debts.of(due.session)
        brief = only(due.brief, self._kinds)
        if brief is None:
            return None
        ref = before.id if before else uuid4().hex[:16]
        claim = Review(id=ref, session=due.session, after=due.after, upto=due.upto, why=due.why, brief=brief)
        if before and before.status == "begun" and stands.tries >= TRIES:
            error = "its process ended each time before it did"
            await self._append(structs.replace(claim, status="failed", error=error))
            return None
        if not asked and self._rule.trigger == "debt" and (names := await taught_already(self.app, due)):
            await self._append(structs.replace(claim, status="ended", said=f"nothing new: {', '.join(names)} says it"))
            return None
        put_off = before.at if before and before.status == "put_off" else ""
        if not asked and self._share.left(self.app.clock.now(), put_off=put_off) <= 0:
            if not put_off:
                error = "the share of reviews in the tokens of the week is used up (learning.day_share)"
                await self._append(structs.replace(claim, status="put_off", error=error))
            return None
        return await self._claimed(claim, due)

    async def _claimed(self, claim: Review, due: Due) -> Review | None:
        try:
            await self.app.store.find(claim.session)
        except SessionNotFoundError:
            await self._append(structs.replace(claim, status="ended", error="the session is gone"))
            return None

        async def begun(at: str = "") -> None:
            until = self.app.clock.now() + OPEN_FOR
            await self._append(structs.replace(claim, pid=os.getpid(), until=until.isoformat(), log=at))

        await begun()
        job = Job(
            id=claim.id,
            session=claim.session,
            after=claim.after,
            upto=claim.upto,
            why=claim.why,
            brief=claim.brief,
            signals=tuple(debt for debt in due.signals if debt.weight),
            log=due.before.log if due.before else "",
        )
        log.info("the session %s is reviewed: %s", claim.session, claim.why)
        try:
            ended = await review(self.app, job, on_begun=begun)
        except StorageError:  # a full disk is nobody's fault, and no try
            with contextlib.suppress(StorageError):
                await self._append(structs.replace(claim, status="cancelled", error="it could not be stored"))
            raise
        finally:
            await self._catch_up()
        if self._told:
            await self._told(ended)
        return ended


def _debt(session: str, signal: Signal) -> Debt:
    return Debt(
        session=session,
        turn=signal.turn,
        signal=signal.kind,
        weight=signal.weight,
        what=signal.what,
        facts=signal.facts,
        verb=signal.verb,
        skill=signal.skill,
        cause=signal.cause,
        sure=signal.sure,
    )


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
