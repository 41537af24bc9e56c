"""A sandbox that a service elsewhere runs: what `modal` and `daytona` share.

The service makes a sandbox, runs one short script at a time in it and ends it; everything that an `Environment` promises is built
on that here, with `spool` for programs and `scripts` for files. The sandbox is made at the first use. One that is gone is told as
an EnvironmentFailure, and the next command makes another.
"""

import asyncio
import contextlib
import posixpath
import re
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from melete.core.environment import Completed, Place, RunningProcess
from melete.core.errors import EnvironmentFailure
from melete.environments import spool
from melete.environments.clipped import Clipped
from melete.environments.hosted_programs import HOLD, QUICK, HostedProcess, HostedTerminal, Run, patience
from melete.environments.scripts import ScriptedFiles
from melete.environments.service import Away, Gone, Service

CANCEL_SECONDS = 10.0
MEETINGS = 20
MEETING = 0.1
AGAIN = (0.2, 1.0, 3.0)
GRACE = 1.0
UNBUFFERED = ("PYTHONUNBUFFERED", "1")
"""Output rests in a file there: a program of Python would keep the lines of a server to itself."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Job(Struct, frozen=True, kw_only=True):
    """A command with all that `exec` is given."""

    argv: Sequence[str]
    stdin: bytes
    cwd: str
    timeout: float
    limit: int


class Hosted(ScriptedFiles):
    """An `Environment` in the sandbox of a service. `workspace` is the working folder there.

    Of `place.variables` commands see those that `seen` names: what else is set here is for this machine. Output of a program
    rests in a file there until it is read. A status above 128 may mean a signal, as a shell tells it.
    """

    def __init__(self, place: Place, service: Service, *, workspace: str, seen: Sequence[str] = ()) -> None:
        self._service = service
        self._cwd = posixpath.normpath(workspace)
        self._variables = spool.variables([UNBUFFERED, *carried(place.variables, seen)])
        self._opening = asyncio.Lock()
        self._folder = ""
        self._count = 0
        self._done: list[str] = []
        self._closed = False
        self._running: set[HostedProcess] = set()

    @property
    def name(self) -> str:
        """The name of the service."""
        return self._service.name

    @property
    def cwd(self) -> str:
        """The working folder there."""
        return self._cwd

    async def temp(self) -> str:
        """A folder within the private one of this session."""
        return f"{await self.ready()}/temp"

    # ---- programs ------------------------------------------------------------------------------------------------

    async def exec(
        self, argv: Sequence[str], *, stdin: bytes = b"", cwd: str = "", timeout: float = 180.0, limit: int = 1_000_000
    ) -> Completed:
        """Run a program to its end or its deadline, also when a request on the way fails."""
        return await self.perform(Job(argv=argv, stdin=stdin, cwd=cwd, timeout=timeout, limit=limit))

    async def perform(self, job: "Job", *, only: str = "") -> Completed:
        """The same; with `only` in the sandbox whose private folder that is, and raises Vanished in another."""
        run = await self._new_run(job.argv, cwd=job.cwd, kind="input" if job.stdin else "none", only=only)
        begun = time.monotonic()
        until, limit = begun + max(job.timeout, 0), job.limit
        try:
            done = await self._first(run, job.stdin, until, limit)
            while done.code is None and time.monotonic() < until:
                done = await self._finish(run, until, limit)
            if done.code is None:
                return await self._timed_out(run, begun, limit)
        except asyncio.CancelledError:
            await self._give_up(run)
            raise
        except Away as error:
            raise Away(error.what, kept="the command may go on there", next=error.next) from error
        self._done.append(
            run.path
        )  # removed with the next command: an answer that is lost on the way can be asked for again
        run.greet(done.first)
        return self._completed(done, begun, limit)

    async def _first(self, run: Run, stdin: bytes, until: float, limit: int) -> spool.Finished:
        launch = await self._launching(run)
        seconds = min(max(until - time.monotonic(), 0), HOLD)
        old, self._done = self._done, []
        script = f"{spool.forget(*old)}\n{launch}\n{spool.finish(run.path, seconds=seconds, limit=limit)}"
        reply = await self._call(script, data=stdin, seconds=seconds + patience(len(stdin) + limit))
        spool.started(reply)
        return spool.finished(reply, limit=limit)

    async def _finish(self, run: Run, until: float, limit: int) -> spool.Finished:
        seconds = min(max(until - time.monotonic(), 0), HOLD)
        script = spool.finish(run.path, seconds=seconds, limit=limit)
        return spool.finished(await self.ask(script, seconds=seconds + patience(limit)), limit=limit)

    async def _timed_out(self, run: Run, begun: float, limit: int) -> Completed:
        done = await self._meet(run, limit)
        await self.end(run)
        if done.code is None:
            done = await self._finish(run, time.monotonic() + GRACE, limit)
        self._done.append(run.path)
        return structs.replace(self._completed(done, begun, limit), code=None, timed_out=True)

    def _completed(self, done: spool.Finished, begun: float, limit: int) -> Completed:
        kept = Clipped(limit)
        kept.add(done.head)
        kept.skip(done.total - len(done.head) - len(done.tail))
        kept.add(done.tail)
        output, dropped = kept.result()
        seconds = time.monotonic() - begun
        return Completed(code=done.code, output=output, seconds=seconds, dropped=dropped, notes=self._service.remarks())

    async def _meet(self, run: Run, limit: int) -> spool.Finished:
        """Learn who a program there is, unless it has ended; one that was only just sent may take a moment to say so."""
        for _ in range(MEETINGS):
            try:
                done = await self._finish(run, 0, limit)
            except spool.Vanished:
                done = spool.Finished(first=b"")
            if done.first:
                run.greet(done.first)
            if done.first or done.code is not None:
                return done
            await asyncio.sleep(MEETING)
        raise EnvironmentFailure("the command did not begin in time", next="try again with a later deadline")

    async def _give_up(self, run: Run) -> None:
        """End a program that nobody waits for any more; a service that does not answer cannot hold the caller."""
        try:
            async with asyncio.timeout(CANCEL_SECONDS):
                await self._meet(run, 0)
                await self.end(run)
                await self.ask(spool.forget(run.path), seconds=QUICK)
        except (EnvironmentFailure, TimeoutError):
            return  # it is gone, never began, or cannot be reached: the interrupt itself is what the caller is told

    async def start(self, argv: Sequence[str], *, cwd: str = "", pty: bool = False) -> RunningProcess:
        """Start a program with its streams open; it ends with the environment at the latest."""
        run = await self._new_run(argv, cwd=cwd, kind="terminal" if pty else "pipe")
        launch = await self._launching(run)
        reply = await self._call(launch, seconds=patience(0))
        spool.started(reply)
        if pty:
            process: HostedProcess = HostedTerminal(self, run, await self._service.terminal(f"{run.path}/script"))
        else:
            process = HostedProcess(self, run)
        self._running.add(process)
        try:
            await process.greeted()
        except BaseException:
            self._running.discard(process)
            await process.let_go()
            raise
        return process

    async def _new_run(self, argv: Sequence[str], *, cwd: str, kind: str, only: str = "") -> Run:
        if not argv:
            raise ValueError("an empty command")
        where = posixpath.normpath(posixpath.join(self._cwd, cwd))
        spool.program("", argv, cwd=where, id="", kind=kind)  # what cannot be sent is refused before anything starts
        folder = await self.ready()
        if only not in {"", folder}:
            raise spool.Vanished("the sandbox is another one than it was", next="run the command again")
        self._count += 1
        return Run(path=f"{folder}/{self._count}", argv=argv, cwd=where, kind=kind)

    async def _launching(self, run: Run) -> str:
        script = spool.program(run.path, run.argv, cwd=run.cwd, id=run.id, kind=run.kind)
        if len(script) > spool.INLINE:
            reply = await self._call(spool.put(run.path), data=script, seconds=patience(len(script)))
            spool.started(reply)
        return spool.launch(run.path, script, kind=run.kind)

    async def end(self, run: Run) -> None:
        """End a program with all that it started."""
        if run.who:
            await self.ask(spool.kill(run.who, grace=GRACE), seconds=QUICK)

    # ---- the way there -------------------------------------------------------------------------------------------

    async def ask(self, script: str, *, seconds: float) -> spool.Reply:
        """Run a script that does no harm when it runs twice: a service that does not answer is asked again."""
        for pause in AGAIN:
            try:
                return await self._call(script, seconds=seconds)
            except Away:
                await asyncio.sleep(pause)
        return await self._call(script, seconds=seconds)

    async def _call(self, script: str, *, data: bytes = b"", seconds: float) -> spool.Reply:
        folder = self._folder
        if self._closed:
            raise EnvironmentFailure("the environment is closed")
        try:
            return await self._service.run(script, data=data, seconds=seconds)
        except Gone:
            await self._lost(folder)
            raise

    async def _lost(self, folder: str) -> None:
        async with self._opening:
            if folder and folder == self._folder:
                self._folder = ""
                await self._service.lose()

    async def ready(self) -> str:
        """The private folder there, in a sandbox that is found or made when there is none."""
        async with self._opening:
            if self._closed:
                raise EnvironmentFailure("the environment is closed")
            if not self._folder:
                await self._service.open()
                reply = await self._service.run(spool.prepare(self._cwd), data=self._variables, seconds=QUICK)
                there = spool.prepared(reply, cwd=self._cwd, setting=f"{self.name}.workspace")
                self.home, self._folder = there.home, there.folder
            return self._folder

    def over(self, process: "HostedProcess") -> None:
        """Called once for each started program that has ended."""
        self._running.discard(process)

    async def aclose(self) -> None:
        """End every program and keep or end the sandbox; returns when the service has taken it."""
        if self._closed:
            return
        folder, self._folder = self._folder, ""
        self._closed = True
        try:
            if folder:
                with contextlib.suppress(EnvironmentFailure):  # what is there ends with the sandbox
                    await self._service.run(spool.forget(folder), seconds=QUICK)
        finally:
            async with self._opening:
                await self._service.close()
            for process in list(self._running):
                await process.let_go()


def carried(variables: Mapping[str, str], seen: Sequence[str]) -> list[tuple[str, str]]:
    """The variables that go along, by name, as far as they are set and a shell can hold them."""
    return [(name, variables[name]) for name in seen if name in variables and NAME.match(name)]
