"""Background processes of one session, on top of any environment's `start`."""

import asyncio
import codecs
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any

from melete.core.errors import EnvironmentFailure
from melete.core.ports import Clock, Environment, ProcessInfo, RunningProcess
from melete.core.tool import ToolError

BUFFER = 200_000
MOST = 64
KEPT = timedelta(minutes=30)
SHELLS = ("bash", "sh")


class RollingText:
    """The last `size` characters of a text that only grows, and how much of it was already asked for."""

    def __init__(self, size: int = BUFFER) -> None:
        self._size = size
        self._pieces: deque[str] = deque()
        self._held = 0
        self._total = 0
        self._seen = 0

    def add(self, text: str) -> None:
        """Put `text` at the end and forget what falls out at the front."""
        if not text:
            return
        self._pieces.append(text)
        self._held += len(text)
        self._total += len(text)
        while self._held - len(self._pieces[0]) >= self._size:
            self._held -= len(self._pieces.popleft())
        if self._held > self._size:
            self._pieces[0] = self._pieces[0][self._held - self._size :]
            self._held = self._size

    def all(self) -> tuple[str, int]:
        """What is held, and how many characters came before it."""
        return "".join(self._pieces), self._total - self._held

    def new(self) -> tuple[str, int]:
        """What came since the last such call, and how many characters of that are lost."""
        unseen = self._total - self._seen
        self._seen = self._total
        kept = min(unseen, self._held)
        text = "".join(self._pieces)
        return text[len(text) - kept :], unseen - kept


class _Entry:
    """One process and what is known about it."""

    def __init__(self, info: ProcessInfo, process: RunningProcess) -> None:
        self.info = info
        self.process = process
        self.log = RollingText()
        self.ended = asyncio.Event()
        self.ended_at: datetime | None = None
        self.killed = False


class Background:
    """The `Processes` of one session: at most 64, each with a rolling log; finished ones are kept for 30 minutes.

    `spawn` gets the coroutine that reads a process and must run it in a task that somebody owns.
    """

    def __init__(
        self, environment: Environment, *, spawn: Callable[[Coroutine[Any, Any, None]], object], clock: Clock
    ) -> None:
        self._environment = environment
        self._spawn = spawn
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        self._count = 0

    async def start(self, command: str, *, cwd: str = "", pty: bool = False) -> ProcessInfo:
        """Start a shell command; raises ToolError when 64 run already, EnvironmentFailure when it cannot start."""
        self._make_room()
        process = await self._shell(command, cwd=cwd, pty=pty)
        self._count += 1
        info = ProcessInfo(
            id=f"p{self._count}",
            command=command,
            pid=process.pid,
            status="running",
            started=self._clock.now(),
            cwd=cwd or self._environment.cwd,
        )
        entry = self._entries[info.id] = _Entry(info, process)
        self._spawn(self._follow(entry))
        return info

    async def _shell(self, command: str, *, cwd: str, pty: bool) -> RunningProcess:
        try:
            return await self._environment.start([SHELLS[0], "-c", command], cwd=cwd, pty=pty)
        except EnvironmentFailure:  # there may be no bash here; any other cause fails again
            return await self._environment.start([SHELLS[1], "-c", command], cwd=cwd, pty=pty)

    async def _follow(self, entry: _Entry) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        code: int | None = None
        try:
            while data := await entry.process.read():
                entry.log.add(decoder.decode(data))
            entry.log.add(decoder.decode(b"", final=True))
            code = await entry.process.wait()
        finally:
            self._close(entry, code)

    def _close(self, entry: _Entry, code: int | None) -> None:
        status = "unknown" if code is None else "killed" if entry.killed else "exited"
        entry.ended_at = self._clock.now()
        entry.info = ProcessInfo(
            id=entry.info.id,
            command=entry.info.command,
            pid=entry.info.pid,
            status=status,
            code=code,
            started=entry.info.started,
            seconds=(entry.ended_at - entry.info.started).total_seconds(),
            cwd=entry.info.cwd,
        )
        entry.ended.set()

    def _make_room(self) -> None:
        now = self._clock.now()
        finished = [e for e in self._entries.values() if e.ended_at is not None]
        for entry in finished:
            if entry.ended_at is not None and now - entry.ended_at > KEPT:
                del self._entries[entry.info.id]
        if len(self._entries) < MOST:
            return
        finished = [e for e in self._entries.values() if e.ended_at is not None]
        if not finished:
            raise ToolError(f"{MOST} background processes run already; kill one first")
        del self._entries[finished[0].info.id]

    def list(self) -> Sequence[ProcessInfo]:
        """All that are known, the newest first."""
        return [self._shown(entry) for entry in reversed(self._entries.values())]

    def get(self, id: str) -> ProcessInfo:
        """One of them; raises ToolError for an unknown id."""
        return self._shown(self._entry(id))

    def _shown(self, entry: _Entry) -> ProcessInfo:
        if entry.ended_at is not None:
            return entry.info
        info = entry.info
        return ProcessInfo(
            id=info.id,
            command=info.command,
            pid=info.pid,
            status="running",
            started=info.started,
            seconds=(self._clock.now() - info.started).total_seconds(),
            cwd=info.cwd,
        )

    def _entry(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            raise ToolError(f"no background process {name!r}", known=list(self._entries))
        return entry

    def output(self, id: str, *, new: bool = False) -> tuple[str, int]:
        """The rolling log, or with `new` what came since the last such call, and how many characters are lost before it."""
        log = self._entry(id).log
        return log.new() if new else log.all()

    async def wait(self, id: str, *, timeout: float) -> ProcessInfo:
        """Wait for its end, at most `timeout` seconds; raises ToolError for an unknown id."""
        entry = self._entry(id)
        try:
            async with asyncio.timeout(timeout):
                await entry.ended.wait()
        except TimeoutError:
            pass  # it still runs, and the answer says so
        return self._shown(entry)

    async def write(self, id: str, data: str) -> None:
        """Send to its standard input; raises EnvironmentFailure when that is closed."""
        await self._entry(id).process.write(data.encode("utf-8", "replace"))

    async def close_stdin(self, id: str) -> None:
        """Close its standard input."""
        await self._entry(id).process.close_stdin()

    async def kill(self, id: str) -> ProcessInfo:
        """End it and everything that it started; one that has ended stays as it is."""
        entry = self._entry(id)
        if not entry.ended.is_set():
            entry.killed = True
            await entry.process.kill()
            await self.wait(id, timeout=1)
        return self._shown(entry)

    async def aclose(self) -> None:
        """End all of them at once."""
        async with asyncio.TaskGroup() as group:
            for entry in self._entries.values():
                group.create_task(self._end(entry))

    async def _end(self, entry: _Entry) -> None:
        await self.kill(entry.info.id)
