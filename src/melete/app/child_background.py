"""Children in the background: on record before they begin, reported by a message, taken up again after a restart."""

import asyncio
import fcntl
import logging
import os
import time
from collections.abc import Awaitable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, structs

from melete.agent.checkpointing import Turn
from melete.agent.run import new_run_id
from melete.app.child import Order, drive, open_child
from melete.app.text_file import replacing
from melete.app.wire import Melete
from melete.core.delegation import Outcome, Rules, Task
from melete.core.errors import MeleteError
from melete.core.message import Taint
from melete.core.session import SessionRef
from melete.security.taint import UNTRUSTED

if TYPE_CHECKING:
    from melete.agent.budget import RunBudget
    from melete.app.children import Children, Row

log = logging.getLogger("melete.delegation")
FOLDER = "children"
LAST = 30.0
"""Seconds that the children have to be stored when the session is closed."""


class Record(Struct, frozen=True, kw_only=True):
    """A child in the background, as it stands on the disk."""

    parent: str
    child: str
    owner: str = ""
    call: str = ""
    task: Task
    taint: Taint = "none"


class TakenError(MeleteError):
    """A child is at work already, or waits for its turn, perhaps in another process: it is reported from there."""


class Behind:
    """The background children of one conversation."""

    def __init__(self, children: "Children") -> None:
        self._children = children
        self._app = children.app
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._goals: dict[str, str] = {}
        self._gate = asyncio.Semaphore(children.rules.most)
        self._closing = False

    def awaited(self) -> Sequence[str]:
        """Those that have not reported yet, in words."""
        return [f"child {child} ({goal})" for child, goal in self._goals.items()]

    async def begin(self, call: str, order: Order) -> str:
        """Begin one and return the id of its session, once it is on record. Raises what opening it raises."""
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = self._app.group.create_task(self._run(order, call, ready))
        child = await ready
        self._tasks[child] = task
        return child

    async def go_on(self) -> None:
        """Take up what an earlier process has left, on one account; one that cannot be taken up is reported so."""
        of = self._children.of
        left, account = left_behind(self._app, of.ref.id), of.budget()
        for number, record in enumerate(left):
            share = account.share(of.ref.id, among=len(left) - number)
            try:
                if await self._app.store.owned(SessionRef(id=record.child, owner=record.owner)):
                    account.release(share)
                    continue  # another process runs it, and reports
                await self.begin(record.call, self._again(record, share))
            except TakenError:
                account.release(share)
            except Exception as error:  # noqa: BLE001 - whatever it is, the parent is told
                await self._say(record.child, f"could not go on: {self._app.redact(str(error))}", taint="tool")

    async def aclose(self) -> None:
        """Stop all; their records stay."""
        self._closing = True
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=LAST)

    def _again(self, record: Record, share: "RunBudget") -> Order:
        of = self._children.of
        rules: Rules = self._children.rules
        return Order(
            parent=of,
            task=structs.replace(record.task, resume=record.child),
            rules=structs.replace(rules, depth=rules.depth + 1),
            share=share,
            model=self._children.model() or of.model,
            over=time.monotonic() + rules.timeout,
            turn=Turn(name=new_run_id(), session=of.ref.id),
            taint=record.taint,
            argv=self._children.argv,
        )

    async def _run(self, order: Order, call: str, ready: "asyncio.Future[str]") -> None:
        with ExitStack() as kept:
            await self._run_one(order, call, ready, kept=kept)

    async def _run_one(self, order: Order, call: str, ready: "asyncio.Future[str]", *, kept: ExitStack) -> None:
        name = ""
        try:
            known = bool(order.task.resume) and kept.enter_context(self._held(order.task.resume))
            async with open_child(order) as child:
                if ready.cancelled():  # the call that began it was stopped
                    return
                name = child.ref.id
                self._note(child.ref, call, order)
                if not known:
                    kept.enter_context(self._held(name))
                self._goals[name] = self._app.redact(" ".join((order.task.goal or name).split()))[:80]
                ready.set_result(name)
                async with self._gate, self._children.watched(child, order, call=call, number=0) as row:
                    await self._record(row, None)
                    began = time.monotonic()
                    status, error = await drive(child, order, within)
                    if self._closing and status == "interrupted":
                        return  # it goes on when the session is open again
                    outcome = await self._children.outcome(child, status, error=error, seconds=time.monotonic() - began)
                    await self._record(row, outcome)
            await self._report(name, order, outcome)
        except asyncio.CancelledError:
            if not ready.done():
                ready.cancel()
            if not self._closing:
                raise
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)
                return
            log.exception("a child in the background failed")
            await self._say(name, f"failed: {self._app.redact(str(error))}", taint="tool")
        finally:
            self._goals.pop(name, None)
            self._tasks.pop(name, None)
            if self._children.of.work:
                self._children.of.work.budget.release(order.share)

    async def _record(self, row: "Row", outcome: Outcome | None) -> None:
        """Note in the parent's log where a run of it goes on; else the message alone tells."""
        work = self._children.of.work
        if work is None:
            return
        fact = self._children.ended(row, outcome) if outcome else self._children.begun(row)
        try:
            await work.session.record(structs.replace(fact, background=True))
        except MeleteError as error:
            log.info("a child in the background is not noted in its parent's log: %s", error)

    async def _report(self, child: str, order: Order, outcome: Outcome) -> None:
        goal = self._goals.get(child, child)
        text = f"Your child in the background has ended: {outcome.status}: {goal} (session {child})\nIts result:\n"
        text += msgspec.json.format(msgspec.json.encode(outcome.fields, enc_hook=str)).decode()
        self._children.remember(order.task, outcome)
        await self._say(child, text, taint=outcome.taint)

    async def _say(self, child: str, text: str, *, taint: Taint) -> None:
        """Put the message into the inbox; the record goes once it is there, and a second message of its id counts for nothing."""
        of = self._children.of
        said = await of.waking.tell(f"[{text}]", outside=taint in UNTRUSTED, id=f"child-{child}-{self._turn(child)}")
        if said:
            self._path(of.ref.id, child).unlink(missing_ok=True)
            with_folder = self._path(of.ref.id, child).parent
            if with_folder.is_dir() and not any(with_folder.iterdir()):
                with_folder.rmdir()

    def _turn(self, child: str) -> str:
        """What tells one report of a child from its next one: when it was put on record."""
        try:
            return str(self._path(self._children.of.ref.id, child).stat().st_mtime_ns)
        except OSError:
            return new_run_id()

    @contextmanager
    def _held(self, child: str) -> Generator[bool]:
        """Hold a child's record, so that no other process takes it up; False where there is none. Raises TakenError."""
        try:
            record = os.open(self._path(self._children.of.ref.id, child), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            yield False
            return
        try:
            try:
                fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise TakenError(f"the child {child} is at work already", next="wait for its report") from error
            yield True
        finally:
            os.close(record)

    def _note(self, ref: SessionRef, call: str, order: Order) -> None:
        """Put the child on record before it begins."""
        parent = self._children.of.ref
        path = self._path(parent.id, ref.id)
        if self._app.ephemeral or path.exists():
            return
        record = Record(
            parent=parent.id, child=ref.id, owner=parent.owner, call=call, task=order.task, taint=order.taint
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            os.write(file, msgspec.json.encode(record))

    def _path(self, parent: str, child: str) -> Path:
        return self._app.loaded.home.state / FOLDER / parent / f"{child}.json"


async def within(seconds: float, work: Awaitable[Any]) -> Any:
    """Await `work` at most `seconds`; raises TimeoutError."""
    async with asyncio.timeout(seconds):
        return await work


def left_behind(app: Melete, parent: str = "") -> list[Record]:
    """The children in the background that have not reported, of one session or of all; a record that is none is left out."""
    found: list[Record] = []
    for path in sorted((app.loaded.home.state / FOLDER).glob(f"{parent or '*'}/*.json")):
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=Record))
        except (OSError, msgspec.DecodeError) as error:
            log.warning("the record %s of a child cannot be read: %s", path.name, error)
    return found
