"""A session that this process owns: stamps facts, stores them, folds them, then publishes them. Part of the store."""

import asyncio
from collections.abc import Callable, Container, Sequence
from datetime import UTC
from typing import Protocol

import msgspec

from melete.core.event import EPOCH, Fact, Notice, Said
from melete.core.message import Message
from melete.core.ports import Clock
from melete.core.session import InboxMessage, SessionRef
from melete.core.transcript import Transcript
from melete.store.aside import Finding

OnFact = Callable[[SessionRef, Fact], None]


class Facts(Protocol):
    """Where a session's facts go: a log file, or its twin in memory."""

    session: str
    seq: int
    facts: Sequence[Fact]
    findings: Sequence[Finding]

    async def append(self, facts: Sequence[Fact], *, durable: bool) -> asyncio.CancelledError | None:
        """Store the facts, all or none, and return the cancellation that had to wait for that; raises StorageError."""
        ...


class Messages(Protocol):
    """Where a session's messages come from."""

    def pending(self, done: Container[str]) -> Sequence[InboxMessage]:
        """What waits, oldest first; ids in `done` are removed."""
        ...

    def settle(self, message: str) -> None:
        """Remove a message."""
        ...


class OwnedSession:
    """The writer of one session, for as long as it is owned."""

    def __init__(self, log: Facts, inbox: Messages, *, owner: str, clock: Clock, on_fact: OnFact | None) -> None:
        self._ref = SessionRef(id=log.session, owner=owner)
        self._log = log
        self._clock = clock
        self._on_fact = on_fact
        self._run = ""
        self._turn = asyncio.Lock()
        self._inbox = inbox
        self._transcript = Transcript(log.facts)
        self._transcript.seq = log.seq

    @property
    def ref(self) -> SessionRef:
        """The session's address."""
        return self._ref

    @property
    def transcript(self) -> Transcript:
        """The state that the facts so far add up to."""
        return self._transcript

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation of the current segment."""
        return self._transcript.messages

    async def record(self, *facts: Fact, durable: bool = False) -> Sequence[Fact]:
        """Store the facts in order, then publish them; return them stamped.

        With `durable` they, and all before them, are on the disk before this returns; a cancellation waits for that.
        Raises StorageError with nothing published and nothing of them kept.
        """
        async with self._turn:
            stamped = self._stamp(facts)
            cancelled = await self._log.append(stamped, durable=durable)
            for fact in stamped:
                self._transcript.apply(fact)
                if self._on_fact is not None:
                    self._on_fact(self._ref, fact)
        if cancelled is not None:
            raise cancelled
        return stamped

    async def append(self, *messages: Message) -> None:
        """Record user messages as `Said` facts."""
        await self.record(*(Said(message=message) for message in messages))

    def begin(self, run: str) -> None:
        """Stamp the facts from here on with this run's id."""
        self._run = run

    def pending(self) -> Sequence[InboxMessage]:
        """Messages in the inbox that no fact carries yet, oldest first."""
        return self._inbox.pending(self._transcript.inbox)

    def settle(self, message: str) -> None:
        """Remove an inbox message whose fact is stored."""
        self._inbox.settle(message)

    async def tell_findings(self) -> None:
        """Record a Notice for each thing that was wrong with the log when it was opened."""
        notices = [
            Notice(text=f"The log held {finding.text}.{_fate(finding)}", level="warning", about="log")
            for finding in self._log.findings
        ]
        if notices:
            await self.record(*notices)

    def _stamp(self, facts: Sequence[Fact]) -> list[Fact]:
        now = self._clock.now().astimezone(UTC)
        return [
            msgspec.structs.replace(
                fact,
                seq=number,
                session=self._ref.id,
                run=fact.run or self._run,
                at=now if fact.at == EPOCH else fact.at,
            )
            for number, fact in enumerate(facts, self._log.seq + 1)
        ]


def _fate(finding: Finding) -> str:
    return " These bytes were set aside beside the log; everything else is kept." if finding.raw else ""
