"""What runs in a process of its own, to be followed, steered and killed: an owner, a sender, a claimer.

Each line on standard output is an acknowledgement, written with one system call after the store has promised.
"""

import asyncio
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from melete.core.errors import SessionBusyError
from melete.core.event import Answered, Asked, CancelAsked, Fact, Opened, Question, RunEnded, RunStarted, Said, Steered
from melete.core.message import user
from melete.core.session import InboxMessage, Query, Session, SessionRef, Store
from melete.store import open_ledger, open_store
from tests.unit.store.given import turn

REF = SessionRef(id="s-1")


class RealClock:
    """The time."""

    def now(self) -> datetime:
        return datetime.now(UTC)


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def fact_of(message: InboxMessage) -> Fact:
    """The fact that carries a message, as a run would record it."""
    match message.kind:
        case "steer":
            return Steered(message=user(message.text), inbox=message.id)
        case "queue":
            return Said(message=user(message.text), inbox=message.id)
        case "answer":
            return Answered(question=message.question, value=message.text, inbox=message.id)
        case _:
            return CancelAsked(inbox=message.id)


async def drain(session: Session) -> list[str]:
    """Take in what waits: the fact first, then the message goes."""
    kinds: list[str] = []
    for message in session.pending():
        stored = await session.record(fact_of(message), durable=True)
        say(f"fact {stored[0].seq}")
        session.settle(message.id)
        kinds.append(message.kind)
    return kinds


async def own(store: Store) -> None:
    """Run a session until it is cancelled: what the other process does becomes facts."""
    async with store.claim(REF) as session:
        session.begin("run-1")
        await session.record(RunStarted(pid=os.getpid(), model="m-1"))
        await session.record(Asked(question=Question(id="q-1", kind="approval", text="May I?")), durable=True)
        say("owned")
        kinds: list[str] = []
        while "cancel" not in kinds:
            kinds = await drain(session)
            await asyncio.sleep(0.01)
        await session.record(RunEnded(stop="cancelled"), durable=True)


async def work(store: Store, state: Path) -> None:
    """Everything that an owner writes, once: log, inbox, tables, index, ledger."""
    ref = await store.create(Opened(cwd="/here"), id=REF.id)
    await store.send(ref, InboxMessage(id="m-0", kind="queue", text="from the inbox", at=RealClock().now()))
    say("sent m-0")
    ledger = open_ledger(state, clock=RealClock())
    for number in range(2):
        async with store.claim(ref) as session:
            session.begin(f"run-{number}")
            for fact in turn(number):
                stored = await session.record(fact, durable=fact.run == "" and isinstance(fact, RunEnded | Said))
                say(f"fact {stored[0].seq}")
            await drain(session)
        await store.list()
        await store.search(Query(text="files"))
        say(f"ledger {await ledger.append('note', {'number_of': number})}")


async def add(store: Store) -> None:
    """Add two sessions of facts that exist already, and delete the first."""
    for name in ("s-1", "s-2"):
        await store.add([Opened(title="added"), *turn()], id=name)
        say(f"added {name}")
    await store.search(Query(text="files"))
    await store.delete(REF)
    say("deleted s-1")


async def send(store: Store) -> None:
    """Send three messages to whoever owns the session."""
    for number in range(3):
        message = InboxMessage(id=f"m-{number}", kind="steer", text=f"note {number}", at=RealClock().now())
        receipt = await store.send(REF, message)
        say(f"{receipt.status} m-{number}")


async def claim(store: Store, until: float) -> None:
    """Wait for a moment, then try to own the session; the winner keeps it until standard input closes."""
    await asyncio.sleep(max(0.0, until - time.time()))
    try:
        async with store.claim(REF):
            say("won")
            await asyncio.to_thread(sys.stdin.read)
    except SessionBusyError:
        say("busy")


async def main(role: str, state: Path) -> None:
    # One worker thread: strace counts each thread's calls apart, and every call is to have its turn.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
    store = open_store(state, clock=RealClock())
    match role:
        case "own":
            await own(store)
        case "work":
            await work(store, state)
        case "send":
            await send(store)
        case "add":
            await add(store)
        case _:
            await claim(store, float(sys.argv[3]))
    await store.aclose()
    say("done")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
