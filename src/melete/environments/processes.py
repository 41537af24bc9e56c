"""Background processes of one session, on top of any environment's `start`.

Those that this agent started are `_Entry`s with their streams; those that an earlier one left, or another one has, are known by
their records alone.
"""

import asyncio
import codecs
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import msgspec

from melete.core.errors import EnvironmentFailure
from melete.core.plugin import Lazy
from melete.core.ports import Clock, Environment, ProcessInfo, RunningProcess
from melete.core.tool import ToolError
from melete.environments import left_over, tree
from melete.environments.records import HERE, Record, Records, Status, boot, is_over, number_of, see, settled
from melete.environments.rolling import RollingText
from melete.environments.watching import Watch, plain, quoted

_brings: Lazy[Callable[[str], bool]] = Lazy("melete.security.network:brings")

log = logging.getLogger("melete.processes")
MOST = 64
SHELLS = ("bash", "sh")
KEEP_OUTPUT = 1.0
"""Seconds from one time that output is put on the disk to the next."""
LAST_LINES, LAST_CHARACTERS = 20, 2_000
"""How much of its output is told when a process has ended."""
COMMAND = 100
LONGEST = 2_000
"""Characters of a command in a message, and on record."""
LOOK = 0.1


Spawn = Callable[[Coroutine[Any, Any, None]], object]


class Waker(Protocol):
    """Reaches the session of the processes; neither raises."""

    async def tell(self, text: str, *, now: bool = True, outside: bool = False) -> str:
        """Tell it something, and return the message's id; `now` asks for a run of its own where none goes on.

        `outside`: what a network brought is in it.
        """
        ...

    def take_back(self, message: str) -> None:
        """Take back a message that nobody has read yet: what it says is known by now."""
        ...


class _Entry:
    """One process of this agent and what is known about it."""

    def __init__(self, record: Record, process: RunningProcess, watch: Watch) -> None:
        self.record = record
        self.process = process
        self.watch = watch
        self.log = RollingText()
        self.ended = asyncio.Event()
        self.killed = False
        self.waiting = 0
        self.saying = 0
        self.seen = False
        self.message = ""
        self.keeping: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        return not self.ended.is_set()

    @property
    def awaited(self) -> bool:
        """Whether the session is still going to hear of it."""
        still = self.running and not self.killed and (self.record.notify or self.watch.hopes)
        return bool(self.saying) or self.watch.waits or still


class Background:
    """The `Processes` of one session: at most 64, each with a rolling log; finished ones are kept for 30 minutes.

    `spawn` gets coroutines that must each run in a task that somebody owns. With `records` all that is known here outlives the
    agent; `wake` tells the session of what it asked to be told.
    """

    def __init__(
        self, environment: Environment, *, spawn: Spawn, clock: Clock, records: Records | None = None,
        wake: Waker | None = None,
    ) -> None:  # fmt: skip
        self._environment = environment
        self._spawn = spawn
        self._clock = clock
        self._records = records
        self._wake = wake
        self._entries: dict[str, _Entry] = {}
        self._shown: dict[str, int] = {}
        self._lost: dict[str, str] = {}
        self._count = 0
        self._closing = False
        self._recall()

    # ---- starting ------------------------------------------------------------------------------------------------

    async def start(
        self, command: str, *, cwd: str = "", pty: bool = False, notify: bool = False, watch: Sequence[str] = (),
        shown: str = "",
    ) -> ProcessInfo:  # fmt: skip
        """Start a shell command; raises ToolError when 64 run already, EnvironmentFailure when it cannot start."""
        if self._closing:
            raise EnvironmentFailure("the session is closed", next="open it again")
        self._make_room()
        process = await self._shell(command, cwd=cwd, pty=pty)
        record = Record(
            id="",
            command=clipped(shown or command),
            cwd=clipped(cwd or self._environment.cwd),
            pid=process.pid,
            born=tree.born(process.pid) if self._environment.name == HERE else "",
            environment=self._environment.name,
            agent=os.getpid(),
            agent_born=tree.born(os.getpid()),
            boot=boot(),
            status="running",
            started=self._clock.now(),
            notify=notify,
        )
        record = self._put(record)
        entry = _Entry(record, process, Watch(watch, say=lambda text: self._say_lines(record.id, text)))
        self._entries[record.id] = entry
        self._spawn(self._follow(entry))
        return self._info(entry)

    async def _shell(self, command: str, *, cwd: str, pty: bool) -> RunningProcess:
        try:
            return await self._environment.start([SHELLS[0], "-c", command], cwd=cwd, pty=pty)
        except EnvironmentFailure:  # there may be no bash here; any other cause fails again
            return await self._environment.start([SHELLS[1], "-c", command], cwd=cwd, pty=pty)

    def _put(self, record: Record) -> Record:
        """Put a record on the disk where that can be done, and number one that is new."""
        command = record.command
        try:
            if self._records is not None:
                record = msgspec.structs.replace(self._records.put(record), command=command)
        except (OSError, ValueError) as error:
            log.warning("the background process %d is not on record: %s", record.pid, error)
        if not record.id:
            record = msgspec.structs.replace(record, id=f"p{self._count + 1}")
        self._count = max(self._count, number_of(record.id))
        return record

    def _make_room(self) -> None:
        """Forget what ended too long ago, and the oldest that has ended where there are too many."""
        now = self._clock.now()
        finished = sorted((e.record.ended, number_of(e.record.id), e) for e in self._entries.values() if e.record.ended)
        gone = {entry.record.id for *_, entry in finished if is_over(entry.record, now)}
        left = len(self._entries) - len(gone)
        spare = [entry.record.id for *_, entry in finished if entry.record.id not in gone]
        gone.update(spare[: max(0, left - MOST + 1)])
        if len(self._entries) - len(gone) >= MOST:
            raise ToolError(f"{MOST} background processes run already; kill one first")
        for name in gone:
            del self._entries[name]
        self._forget(lambda record: record.id in gone or is_over(record, now))

    def _forget(self, gone: Callable[[Record], bool]) -> None:
        if self._records is None:
            return
        try:
            if any(gone(record) for record in self._records.read().records):
                self._records.change(lambda book: book.without(gone))
        except OSError as error:
            log.warning("old records of background processes are still there: %s", error)

    # ---- while one runs ------------------------------------------------------------------------------------------

    async def _follow(self, entry: _Entry) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        code: int | None = None
        try:
            while data := await entry.process.read():
                self._printed(entry, decoder.decode(data))
            self._printed(entry, decoder.decode(b"", final=True))
            code = await entry.process.wait()
        except EnvironmentFailure as error:  # the place went away, and with it whoever could say how it ended
            self._printed(entry, f"\n[{error.what}]\n")
        except asyncio.CancelledError:  # everything ends: nobody can be told any more
            self._closing = True
            raise
        except Exception:
            log.exception("the background process %s cannot be followed", entry.record.id)
        finally:
            self._close(entry, code)

    def _printed(self, entry: _Entry, text: str) -> None:
        if not text:
            return
        entry.log.add(text)
        entry.watch.add(text)
        if self._records is not None and entry.keeping is None:
            entry.keeping = asyncio.get_running_loop().call_later(KEEP_OUTPUT, self._keep_output, entry)

    def _keep_output(self, entry: _Entry) -> None:
        entry.keeping = None
        if self._records is None:
            return
        try:
            self._records.keep_output(entry.record.id, entry.log.all()[0])
        except OSError as error:
            log.warning("the output of %s is not on record: %s", entry.record.id, error)

    def _close(self, entry: _Entry, code: int | None) -> None:
        status: Status = "killed" if entry.killed else "unknown" if code is None else "exited"
        if entry.keeping is not None:
            entry.keeping.cancel()
            self._keep_output(entry)
        entry.record = self._put(
            msgspec.structs.replace(
                entry.record, status=status, code=code, ended=self._clock.now(), dropped=entry.log.all()[1]
            )
        )
        hoped, lines = entry.watch.hopes, entry.watch.close()
        missed = hoped and entry.watch.hopes
        told = entry.waiting > 0 or entry.killed or self._closing
        if not told and (entry.record.notify or missed or lines):
            self._say(entry, self._ended(entry, lines=lines, whole=entry.record.notify or missed))
        entry.ended.set()

    # ---- telling the session -------------------------------------------------------------------------------------

    def _say_lines(self, name: str, lines: str) -> None:
        entry = self._entries[name]
        self._say(entry, f"[Background process {_named(entry.record)} printed what you watch for]\n{lines}")

    def _ended(self, entry: _Entry, *, lines: str, whole: bool) -> str:
        info = self._info(entry)
        how = "is gone; nobody saw how it ended"
        if info.code is not None:
            how = f"ended with exit code {info.code}" if info.code >= 0 else f"was ended by signal {-info.code}"
        head = f"[Background process {_named(entry.record)} {how} after {info.seconds:.0f} s]"
        if not whole:
            return f"{head}\nBefore that it printed what you watch for:\n{lines}"
        text = plain(entry.log.all()[0][-LAST_CHARACTERS:]).strip("\n")
        last = "\n".join(text.split("\n")[-LAST_LINES:])
        return f"{head}\nThe end of its output:\n{quoted(last)}" if last.strip() else f"{head}\nIt printed nothing."

    def _say(self, entry: _Entry, text: str) -> None:
        if self._wake is not None:
            entry.saying += 1
            self._spawn(self._tell(entry, self._wake, text))

    async def _tell(self, entry: _Entry, wake: Waker, text: str) -> None:
        over = not entry.running
        try:
            message = await wake.tell(text, outside=_brings.load()(entry.record.command))
        finally:
            entry.saying -= 1
        if over and entry.seen:
            wake.take_back(message)
        elif over:
            entry.message = message

    def _seen(self, entry: _Entry) -> None:
        """The model reads of the end of a process on its own: it need not be told as well."""
        if entry.seen or entry.running:
            return
        entry.seen = True
        if entry.message and self._wake is not None:
            self._wake.take_back(entry.message)

    def _recall(self) -> None:
        """Take note of what an earlier agent left; what it was to be told of is told once, with the next prompt."""
        if self._records is None:
            return
        try:
            left = [record for record in self._records.read().records if record.status == "running"]
            lost = [record for record in left if not see(record).foreign]
            if not lost:
                return
            ids = {record.id for record in lost}
            now = self._clock.now()
            self._records.change(lambda book: settled(book, now))
            for record in lost if self._wake is not None else ():
                if record.notify and not record.told:
                    self._spawn(self._tell_lost(record))
            log.info("background processes of an agent that has ended: %s", ", ".join(sorted(ids)))
        except OSError as error:
            log.warning("the records of background processes cannot be read: %s", error)

    async def _tell_lost(self, record: Record) -> None:
        seen = see(record)
        how = f"It {'still runs' if seen.status == 'running' else 'does not run any more'}: {seen.note}."
        if self._wake is not None:
            text = f"[Background process {_named(record)} lost its agent] {how}"
            self._lost[record.id] = await self._wake.tell(text, now=False)
        self._amend(record.id, told=True)

    def _amend(self, name: str, **changes: Any) -> None:
        """Change the record of a process that another agent started."""
        if self._records is None:
            return
        try:
            found = self._records.read().find(name)
            if found is not None:
                self._records.put(msgspec.structs.replace(found, **changes))
        except OSError as error:
            log.warning("the record of %s stays as it is: %s", name, error)

    # ---- asking --------------------------------------------------------------------------------------------------

    def list(self) -> Sequence[ProcessInfo]:
        """All that are known, the newest first."""
        known = [self._info(entry) for entry in self._entries.values()]
        known += [self._old_info(record) for record in self._old()]
        return sorted(known, key=lambda info: number_of(info.id), reverse=True)

    def get(self, id: str) -> ProcessInfo:
        """One of them; raises ToolError for an unknown id."""
        entry = self._entries.get(id)
        return self._info(entry) if entry is not None else self._old_info(self._old_one(id))

    def _old(self) -> Sequence[Record]:
        """Those that this agent did not start, or has forgotten."""
        if self._records is None:
            return ()
        try:
            return [record for record in self._records.read().records if record.id not in self._entries]
        except OSError as error:
            log.warning("the records of background processes cannot be read: %s", error)
            return ()

    def _old_one(self, name: str) -> Record:
        for record in self._old():
            if record.id == name:
                return record
        raise ToolError(f"no background process {name!r}", known=[info.id for info in reversed(self.list())])

    def _info(self, entry: _Entry) -> ProcessInfo:
        info = self._of(entry.record, owned=True)
        return msgspec.structs.replace(info, awaited=entry.awaited)

    def _old_info(self, record: Record) -> ProcessInfo:
        seen = see(record)
        return msgspec.structs.replace(self._of(record, owned=False), status=seen.status, note=seen.note)

    def _of(self, record: Record, *, owned: bool) -> ProcessInfo:
        until = record.ended or self._clock.now()
        return ProcessInfo(
            id=record.id,
            command=record.command,
            pid=record.pid,
            status=record.status,
            code=record.code,
            started=record.started,
            seconds=max(0.0, (until - record.started).total_seconds()),
            cwd=record.cwd,
            notify=record.notify,
            owned=owned,
        )

    def output(self, id: str, *, new: bool = False) -> tuple[str, int]:
        """The rolling log, or with `new` what came since the last such call, and how many characters are lost before it."""
        entry = self._entries.get(id)
        if entry is not None:
            self._seen(entry)
            return entry.log.new() if new else entry.log.all()
        record = self._old_one(id)
        if (message := self._lost.pop(id, "")) and self._wake is not None:
            self._wake.take_back(message)
        try:
            text = self._records.output(id) if self._records is not None else ""
        except OSError as error:
            raise EnvironmentFailure(f"the output of {id} cannot be read: {error.strerror}") from error
        if new:
            seen, self._shown[id] = min(self._shown.get(id, 0), len(text)), len(text)
            return text[seen:], 0
        return text, record.dropped

    # ---- acting --------------------------------------------------------------------------------------------------

    async def wait(self, id: str, *, timeout: float) -> ProcessInfo:
        """Wait for its end, at most `timeout` seconds; raises ToolError for an unknown id."""
        entry = self._entries.get(id)
        if entry is None:
            return await self._wait_for_old(id, timeout=timeout)
        entry.waiting += 1
        try:
            async with asyncio.timeout(timeout):
                await entry.ended.wait()
        except TimeoutError:
            pass  # it still runs, and the answer says so
        finally:
            entry.waiting -= 1
        return self._info(entry)

    async def _wait_for_old(self, name: str, *, timeout: float) -> ProcessInfo:
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while True:
            info, left = self.get(name), until - loop.time()
            if info.status != "running" or left <= 0:
                return info
            await asyncio.sleep(min(LOOK, left))  # nobody tells those who are not its parent

    async def write(self, id: str, data: str) -> None:
        """Send to its standard input; raises EnvironmentFailure when that is closed."""
        await self._mine(id).process.write(data.encode("utf-8", "replace"))

    async def close_stdin(self, id: str) -> None:
        """Close its standard input."""
        await self._mine(id).process.close_stdin()

    def _mine(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            seen = see(self._old_one(name))
            raise EnvironmentFailure(f"nothing can be sent to it any more: {seen.note or 'it has ended'}")
        return entry

    async def kill(self, id: str) -> ProcessInfo:
        """End it and everything that it started; one that has ended stays as it is."""
        entry = self._entries.get(id)
        if entry is None:
            return await self._kill_old(self._old_one(id))
        if entry.running:
            entry.killed = True
            await entry.process.kill()
            await self.wait(id, timeout=1)
        return self._info(entry)

    async def _kill_old(self, record: Record) -> ProcessInfo:
        seen = see(record)
        if seen.foreign:
            raise ToolError(f"{record.id} cannot be killed from here: {seen.note}")
        await self._end_old(record)
        return self.get(record.id)

    async def _end_old(self, record: Record) -> None:
        if see(record).status == "running":
            await left_over.end(record.pid, record.born)
            self._amend(record.id, status="killed", ended=self._clock.now())

    async def aclose(self) -> None:
        """End all of them at once, those that an earlier agent of this session left here as well."""
        self._closing = True
        async with asyncio.TaskGroup() as group:
            for name in self._entries:
                group.create_task(self._end(name))
            for record in self._old():
                if not see(record).foreign:
                    group.create_task(self._end_old(record))

    async def _end(self, name: str) -> None:
        try:
            await self.kill(name)
        except EnvironmentFailure as error:
            log.warning("%s could not be ended: %s", name, error)


def clipped(command: str) -> str:
    """A command as it is remembered: as text that can be stored, the end of a very long one left out."""
    text = command.encode("utf-8", "replace").decode()
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _named(record: Record) -> str:
    """A process in a message: its id and its command, on one line."""
    command = " ".join(record.command.split())
    return f"{record.id} `{command if len(command) <= COMMAND else command[: COMMAND - 1] + '…'}`"
