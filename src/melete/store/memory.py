"""The twins in memory of the store and the ledger: for tests, and for runs that are to leave nothing behind.

Part of the store. They keep the same promises as those on files for as long as the process lives, and pass the same suite.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from melete.core.errors import SessionBusyError, SessionNotFoundError, StoreError
from melete.core.event import Fact, Opened, RunStarted, Titled
from melete.core.message import Usage
from melete.core.plugin import Lazy
from melete.core.policy import Allowance
from melete.core.ports import Clock, Day
from melete.core.session import (
    ALL,
    ALL_RUNS,
    UNTALKED,
    Hit,
    InboxMessage,
    Line,
    Problem,
    Query,
    Receipt,
    RunInfo,
    Session,
    SessionInfo,
    SessionRef,
    Which,
    WhichRuns,
)
from melete.core.transcript import Transcript
from melete.store import adding, lines, spending
from melete.store.aside import Finding
from melete.store.delivery import receipt_of
from melete.store.names import is_message_id, new_session_id, only, safe_name
from melete.store.record import encode_fact
from melete.store.session import OnFact, OwnedSession
from melete.store.spending import RESERVED, SETTLED, SPENDING

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from melete.core.statistics import Statistics
    from melete.store.recall import Recalled

_folder: Lazy[Callable[..., "TemporaryDirectory[str]"]] = Lazy("tempfile:TemporaryDirectory")
_recalled: "Lazy[Callable[[Mapping[str, Room]], Recalled]]" = Lazy("melete.store.recall:Recalled")
POLL = 0.005
LOOK_FOR = "see `melete sessions list`"


class Room:
    """Everything of one session."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.facts: Sequence[Fact] = []
        self.findings: Sequence[Finding] = ()
        self.seq = 0
        self.owned = False
        self.gone = False
        self.inbox: dict[str, InboxMessage] = {}

    async def append(self, facts: Sequence[Fact], *, durable: bool) -> asyncio.CancelledError | None:  # noqa: ARG002
        """Keep the facts; raises StorageError for one that a log could not hold either."""
        for fact in facts:
            encode_fact(fact)
        self.facts = [*self.facts, *facts]
        self.seq += len(facts)
        return None

    def pending(self, done: Container[str]) -> Sequence[InboxMessage]:
        """What waits, oldest first; ids in `done` are removed."""
        for message in [message for message in self.inbox if message in done]:
            del self.inbox[message]
        return sorted(self.inbox.values(), key=lambda message: (message.at.timestamp(), message.id))

    def settle(self, message: str) -> None:
        """Remove a message."""
        self.inbox.pop(message, None)

    @property
    def owner(self) -> str:
        """Whose session it is."""
        opened = self.facts[0]
        return opened.owner if isinstance(opened, Opened) else ""


class MemoryStore:
    """Sessions that end with the process; what was spilled lies in a folder of its own that `aclose` removes."""

    def __init__(self, *, clock: Clock, on_fact: OnFact | None = None) -> None:
        self._spilled: TemporaryDirectory[str] | None = None
        self._recalled: Recalled | None = None
        self._rooms: dict[str, Room] = {}
        self._clock = clock
        self._on_fact = on_fact

    async def create(self, opened: Fact, *, id: str = "") -> SessionRef:
        """Make a session whose first fact is `opened`."""
        name = id or new_session_id(self._clock.now())
        adding.check_id(name)
        opened = adding.check_opened(opened)
        if name in self._rooms:
            raise adding.taken(name)
        room = Room(name)
        session = OwnedSession(room, room, owner=opened.owner, clock=self._clock, on_fact=self._on_fact)
        await session.record(opened)
        self._rooms[name] = room
        return session.ref

    async def add(self, facts: Sequence[Fact], *, id: str = "") -> SessionRef:
        """Make a session of facts that exist already, numbered anew from 1 and not published, all or nothing."""
        now = self._clock.now()
        name = id or new_session_id(now)
        adding.check_id(name)
        if name in self._rooms:
            raise adding.taken(name)
        room = Room(name)
        await room.append(adding.numbered(facts, name, now), durable=True)
        self._rooms[name] = room
        return SessionRef(id=name, owner=room.owner)

    @asynccontextmanager
    async def claim(self, ref: SessionRef) -> AsyncGenerator[Session, None]:
        """Own the session until the block ends; raises SessionBusyError, SessionNotFoundError."""
        room = self._room(ref)
        _free(room)
        room.owned = True
        try:
            yield OwnedSession(room, room, owner=room.owner, clock=self._clock, on_fact=self._on_fact)
        finally:
            room.owned = False

    async def find(self, name: str, *, owner: str = "") -> SessionRef:
        """The session with this id, unique id prefix or title; raises SessionNotFoundError."""
        mine = [room for room in self._latest_first() if owner in ("", room.owner)]
        prefixed = [room for room in mine if name and room.session.startswith(name)]
        found = [room for room in prefixed if room.session == name] or prefixed
        if len(found) != 1 and name.strip():
            found = [room for room in mine if Transcript(room.facts).title == name] or found
        refs = [SessionRef(id=room.session, owner=room.owner) for room in found]
        return only(name, refs)

    async def latest(self, *, owner: str = "", cwd: str = "") -> SessionRef | None:
        """The session that changed last, of those in which somebody talks."""
        for room in self._latest_first():
            opened = room.facts[0]
            if not isinstance(opened, Opened) or opened.source in UNTALKED:
                continue
            if owner in ("", opened.owner) and cwd in ("", opened.cwd):
                return SessionRef(id=room.session, owner=opened.owner)
        return None

    async def list(
        self, *, owner: str = "", which: Which = ALL, limit: int = 50, offset: int = 0
    ) -> Sequence[SessionInfo]:
        """Sessions, the last changed first."""
        rows = self._recall().list(owner=owner, which=which, limit=limit, offset=offset)
        return [self._now(row) for row in rows]

    async def info(self, ref: SessionRef) -> SessionInfo:
        """One session's row."""
        row = self._recall().info(SessionRef(id=self._room(ref).session, owner=ref.owner))
        if row is None:
            raise SessionNotFoundError(f"there is no session {ref.id!r}", next=LOOK_FOR)
        return self._now(row)

    async def of_run(self, run: str, *, owner: str = "") -> SessionRef:
        """The session that a run with this id belongs to; raises SessionNotFoundError."""
        found = self._recall().of_run(run, owner)
        if found is None:
            raise SessionNotFoundError(f"there is no run {run!r}", next=LOOK_FOR)
        return found

    async def runs(self, which: WhichRuns = ALL_RUNS, *, limit: int = 50, offset: int = 0) -> Sequence[RunInfo]:
        """Runs, the last begun first."""
        return [self._now_run(row) for row in self._recall().runs(which, limit=limit, offset=offset)]

    async def unfinished(self, surfaces: Sequence[str]) -> Sequence[tuple[SessionRef, str]]:
        """Sessions whose last run, begun on one of the surfaces, has no end although nobody owns them; with that run's id."""
        return [(ref, run) for ref, run in self._recall().unfinished(surfaces) if not self._rooms[ref.id].owned]

    async def owned(self, ref: SessionRef) -> bool:
        """Whether somebody owns the session at this moment."""
        return self._room(ref).owned

    async def facts(self, ref: SessionRef, *, after: int = 0) -> Sequence[Fact]:
        """The stored facts behind `after`."""
        return self._room(ref).facts[after:]

    async def follow(self, ref: SessionRef, *, after: int = 0) -> AsyncGenerator[Fact]:
        """The stored facts behind `after`, then each new one; ends when the session is deleted."""
        room = self._room(ref)
        while True:
            for fact in room.facts[after:]:
                after = fact.seq
                yield fact
            if room.gone:
                return
            await asyncio.sleep(POLL)

    async def scroll(self, ref: SessionRef, *, around: int, window: int = 5) -> Sequence[Line]:
        """The messages round the fact `around`."""
        return lines.around(lines.of(self._room(ref).facts), around, window)

    async def search(self, query: Query) -> Sequence[Hit]:
        """Messages that match, the best first; any text is a valid query."""
        return self._recall().search(query)

    async def statistics(self, *, owner: str = "", which: Which = ALL) -> "Statistics":
        """What the sessions add up to, in the local time zone."""
        return self._recall().statistics(owner=owner, which=which)

    async def rename(self, ref: SessionRef, title: str) -> None:
        """Give the session a title."""
        async with self.claim(ref) as session:
            await session.record(Titled(title=title))

    async def delete(self, ref: SessionRef) -> None:
        """Forget the session; raises SessionBusyError while it runs."""
        room = self._room(ref)
        _free(room)
        room.gone = True
        del self._rooms[ref.id]

    async def send(self, ref: SessionRef, message: InboxMessage, *, wait: float = 5.0) -> Receipt:
        """Put a message into the session's inbox and wait for the fact that carries it."""
        room = self._room(ref)
        if not is_message_id(message.id):
            raise StoreError(f"{message.id!r} cannot be the id of a message", next="use letters, digits, '-' and '_'")
        if (receipt := receipt_of(room.facts, message.id)) is not None:
            return receipt
        room.inbox[message.id] = message
        until = asyncio.get_running_loop().time() + wait
        while (receipt := receipt_of(room.facts, message.id)) is None:
            if room.gone:
                raise SessionNotFoundError(f"the session {ref.id} was deleted meanwhile", kept="nothing was done")
            if not room.owned and message.kind in ("answer", "cancel"):
                room.settle(message.id)
                return Receipt(status="expired")
            if not room.owned or asyncio.get_running_loop().time() >= until:
                return Receipt(status="queued")
            await asyncio.sleep(POLL)
        return receipt

    async def spill(self, ref: SessionRef, name: str, text: str) -> str:
        """Keep the text in a file until the store is closed, so that tools can read it, and return its path."""
        if self._spilled is None:
            self._spilled = _folder.load()(prefix="melete-")
        path = Path(self._spilled.name) / f"{self._room(ref).session}-{safe_name(name)}.txt"
        path.write_bytes(text.encode("utf-8", "replace"))
        return str(path)

    async def verify(self, *, deep: bool = False) -> Sequence[Problem]:  # noqa: ARG002
        """Nothing is wrong with what is not on a disk."""
        return ()

    async def rebuild(self, *, on_progress: Callable[[int, int], None] | None = None) -> Sequence[str]:  # noqa: ARG002
        """There is nothing to remake."""
        return ()

    async def aclose(self) -> None:
        """Remove what was spilled; a second call does nothing."""
        if self._spilled is not None:
            self._spilled.cleanup()
            self._spilled = None
        if self._recalled is not None:
            self._recalled.close()
            self._recalled = None

    def _room(self, ref: SessionRef) -> Room:
        room = self._rooms.get(ref.id)
        if room is None or ref.owner not in ("", room.owner):
            raise SessionNotFoundError(f"there is no session {ref.id!r}", next=LOOK_FOR)
        return room

    def _recall(self) -> "Recalled":
        if self._recalled is None:
            self._recalled = _recalled.load()(self._rooms)
        return self._recalled

    def _now(self, row: SessionInfo) -> SessionInfo:
        """The row with what only the session itself tells."""
        room = self._rooms[row.id]
        size = sum(len(encode_fact(fact)) for fact in room.facts)
        return msgspec.structs.replace(row, running=room.owned, size=size)

    def _now_run(self, row: RunInfo) -> RunInfo:
        room = self._rooms[row.session]
        last = next(fact.run for fact in reversed(room.facts) if isinstance(fact, RunStarted))
        return msgspec.structs.replace(row, running=room.owned and row.ended is None and row.id == last)

    def _latest_first(self) -> Sequence[Room]:
        return sorted(self._rooms.values(), key=lambda room: room.facts[-1].at, reverse=True)


class MemoryLedger:
    """A ledger that ends with the process."""

    def __init__(self, *, clock: Clock) -> None:
        self._rows: list[dict[str, Any]] = []
        self._clock = clock

    async def append(self, kind: str, fields: Mapping[str, Any], *, durable: bool = True) -> int:  # noqa: ARG002
        """Keep a fact of `kind` and return its number."""
        if taken := {"number", "kind", "at"} & fields.keys():
            raise StoreError(f"the ledger sets {', '.join(sorted(taken))} itself", next="use another name")
        return self._add(kind, msgspec.json.decode(msgspec.json.encode(fields)))

    def read(self, *, kind: str = "", after: int = 0) -> Sequence[Mapping[str, Any]]:
        """Facts behind `after`, oldest first."""
        return [row for row in self._rows if row["number"] > after and kind in ("", row["kind"])]

    async def reserve(self, who: str, want: Allowance, cap: Allowance) -> str:
        """Set aside part of the day's allowance; raises LimitError with both numbers."""
        total = spending.reserve(await self.today(), want, cap)
        reservation = spending.new_id(total)
        self._add(RESERVED, spending.reserved(reservation, who, want=want, total=total))
        return reservation

    async def settle(self, reservation: str, *, usage: Usage, usd: float | None) -> Day:
        """Replace a reservation by what was spent and return the day so far."""
        held = [row for row in self._rows if row["kind"] in SPENDING and row["id"] == reservation]
        day = await self.today()
        if not held:
            raise StoreError(f"there is no reservation {reservation}", kept="the day's total is as it was")
        if held[-1]["kind"] == SETTLED:
            return day
        total = spending.settle(day, held[-1], usage=usage, usd=usd)
        self._add(SETTLED, spending.settled(held[-1], usage=usage, usd=usd, total=total))
        return total

    async def today(self) -> Day:
        """The day so far, in UTC."""
        spent = (row for row in reversed(self._rows) if row["kind"] in SPENDING)
        return spending.day_of(spent, self._clock.now())

    def _add(self, kind: str, fields: Mapping[str, Any]) -> int:
        number = len(self._rows) + 1
        at = msgspec.to_builtins(self._clock.now().astimezone(UTC))
        self._rows.append({"number": number, "kind": kind, "at": at, **fields})
        return number


def _free(room: Room) -> None:
    if room.owned:
        raise SessionBusyError(f"another task runs the session {room.session}", kept="it was not touched")
