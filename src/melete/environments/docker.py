"""Commands in a container of Docker or Podman: one container a session, with the working folder mounted at /workspace.

Starting a program in a container takes the engine some fifty milliseconds, most of it before the program is known. So shells
that wait for their order (`scripts.waiting`) are started ahead, and a command costs a message to one of them.
"""

import asyncio
import contextlib
import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from secrets import token_hex

from msgspec import structs

from melete.core.environment import Missing, Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import DockerOptions
from melete.environments.child import Child, Handle, Launched, Spec
from melete.environments.container import HOME, VOLUME, WORKSPACE, Container, is_root, open_container
from melete.environments.engine import Engine, mapping_words, meant, missing_engine
from melete.environments.errands import Errands
from melete.environments.host import launch
from melete.environments.running import Programs
from melete.environments.scripts import (
    FILE_STEPS,
    Greeting,
    ScriptedFiles,
    check_words,
    greeting,
    kill_script,
    located,
    order,
    waiting,
    wrapped,
)
from melete.environments.shared import SharedFiles
from melete.security.paths import within

AHEAD = 2
ANSWER = 30.0
PIPE = 60_000  # bytes that an empty pipe takes without anybody reading
NOISE = 64_000
ENDING = 5.0
LAST = 3.0
KILLED = 137
BY_SIGNAL = range(129, 129 + 64)
ANEW = "the container had ended; this ran in a new one, without what was outside the working folder"
RESTARTED = "the container had ended and was started again"


class ContainedHandle:
    """A program in the container, behind the client that carries its streams; see `child.Handle`."""

    def __init__(self, client: Handle, who: Greeting, container: Container, engine: Engine) -> None:
        self._client = client
        self._who = who
        self._container = container
        self._engine = engine
        self._ending = False
        self.pid = who.pid

    @property
    def code(self) -> int | None:
        """Its exit status; the client tells a signal as a shell does, which is undone for what was killed from here."""
        code = self._client.code
        return 128 - code if self._ending and code is not None and code in BY_SIGNAL else code

    def watch(self, ended: Callable[[], None]) -> Callable[[], None]:
        """Call `ended` once the client has ended, which it does after the program."""
        return self._client.watch(ended)

    def left_some(self) -> bool:
        """What it left behind ends with the container."""
        return False

    async def end(self, grace: float) -> None:
        """End its whole tree in the container; where that is not possible any more, the container."""
        self._ending = True
        if self._client.code is None and not self._container.gone:
            words = ["exec", self._container.id, *kill_script(self._who, grace=grace)]
            done = await self._engine.attempt(*words, timeout=grace + ENDING)
            if done.code and not self._container.gone:
                await self._container.kill()
        await _soon(lambda: self._client.code is not None, ENDING)
        await self._client.end(0)

    def kill(self) -> None:
        """Force its end now."""
        self._ending = True
        if not self._container.gone:
            self._engine.now(["exec", self._container.id, *kill_script(self._who, grace=0)], timeout=LAST)
        self._client.kill()


class Docker(SharedFiles, ScriptedFiles, Programs):
    """An `Environment` in a container; it starts with its first use. `aclose` throws it away, or stops it where it is kept."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.options: DockerOptions = place.options or DockerOptions()
        self._outside = os.path.realpath(Path(place.cwd).expanduser() if place.cwd else Path.cwd())
        if not Path(self._outside).is_dir():
            raise FileNotFoundError(self._outside)
        self.place = structs.replace(place, cwd=self._outside)
        self.share(place, self._outside)
        self._engine = Engine(self.place, self.options)
        self._variables = {os.fsencode(k): os.fsencode(v) for k, v in self._engine.variables.items()}
        self._container: Container | None = None
        self._opening = asyncio.Lock()
        self._ahead: list[tuple[str, Launched]] = []
        self._notes: list[str] = []
        self.errands = Errands(self.start, FILE_STEPS)

    @property
    def name(self) -> str:
        """`docker`."""
        return "docker"

    @property
    def cwd(self) -> str:
        """`/workspace`, where the working folder is mounted."""
        return WORKSPACE

    @property
    def contained(self) -> bool:
        """Whether commands reach nothing of this machine but the working folder: no network, and nothing else mounted."""
        return self.offline and not self.options.volumes

    @property
    def offline(self) -> bool:
        """Whether commands have no network."""
        return self.options.network == "off"

    @property
    def note(self) -> str:
        """One sentence for the model."""
        network = {"off": "there is no network", "on": "it has a network"}.get(
            self.options.network, f"its network is {self.options.network}"
        )
        folder = "the working folder is mounted at /workspace" if self._mounted else "/workspace starts empty"
        return f"Commands run in a container of {self.options.image}; {folder}; {network}."

    @staticmethod
    def missing(place: Place) -> Missing | None:
        """Why no container can be used here."""
        return missing_engine(place)

    async def about(self) -> Mapping[str, Sequence[str]]:
        """What a person should know about it."""
        options = self.options
        mounts = [f"{self._outside} at {WORKSPACE}"] if self._mounted else []
        disk = (
            f"{options.disk_mb} MB for one file, and in all where the engine can limit it"
            if options.disk_mb
            else "no limit"
        )
        return {
            "image": [options.image],
            "network": [{"off": "none", "on": "the engine's default network"}.get(options.network, options.network)],
            "writable": [*mounts, *options.volumes, "what is in the container"],
            "limits": [f"{options.cpus:g} processors", f"{options.memory_mb} MB of memory", f"{options.processes} processes",
                       f"disk: {disk}"],
            "afterwards": ["kept, stopped, for when the session goes on" if options.keep else "thrown away"],
        }  # fmt: skip

    async def aclose(self) -> None:
        """End everything that runs inside, and give the container back."""
        if self.errands and not self.closed:
            if self.options.keep:
                with contextlib.suppress(
                    OSError, EnvironmentFailure
                ):  # a container that is gone has no temporary folder
                    await self.remove_temp()
            await self.errands.aclose()
        async with self._opening:
            self.closed = True
        await self.end_all()
        self._drop_ahead()
        if self._container is not None:
            container, self._container = self._container, None
            await container.give_back(keep=self.options.keep)
        await self._engine.aclose()

    @property
    def _mounted(self) -> bool:
        return self.options.workspace == "mount"

    def on_host(self, path: str) -> str:
        """Where a file of the working folder or of another mount lies outside; empty for what is the container's own."""
        inside = posixpath.normpath(posixpath.join(WORKSPACE, path))
        mounts = [(WORKSPACE, self._outside)] if self._mounted else []
        for found in map(VOLUME.fullmatch, self.options.volumes):
            here = os.path.expanduser(found[1]) if found else ""  # noqa: PTH111 - it may be the name of a volume
            if found and here.startswith("/"):
                mounts.append((posixpath.normpath(found[2]), here))
        there, here = max(
            (one for one in mounts if within(inside, one[0])), key=lambda one: len(one[0]), default=("", "")
        )
        return here and here + inside[len(there.rstrip("/")) :]

    async def _inside(self) -> Container:
        """The container, running."""
        async with self._opening:
            if self.closed:
                raise EnvironmentFailure("the environment is closed")
            if self._container is not None and self._container.gone:
                self._container.forget()
                self._container = None
                self._temp_made = ""
                self._drop_ahead()
                self._notes.append(RESTARTED if self.options.keep else ANEW)
            if self._container is None:
                self._container = await open_container(self._engine, self.place, self.options, cwd=self._outside)
                self._notes += self._container.notes
                self.home = "/root" if is_root(self._container.user) else HOME if self._container.numbered else ""
            return self._container

    async def _launch(self, spec: Spec) -> Launched:
        cwd = located(self, spec.cwd)
        check_words((*spec.argv, cwd))
        for again in (True, False):
            container = await self._inside()
            try:
                return await self._begun(container, spec, cwd)
            except _UnheardError as unheard:
                if not (again and await container.ended(within=1.0)):
                    raise meant(unheard.said, "the container does not answer") from unheard
        raise AssertionError("unreachable")

    async def _begun(self, container: Container, spec: Spec, cwd: str) -> Launched:
        id = token_hex(4)
        if spec.pty:
            words = wrapped(spec.argv, cwd=cwd, id=id)
            launched = self._client(container, words, pty=True)
            return await self._greeted(container, launched, spec, cwd=cwd, id=id)
        message = order(spec.argv, cwd=cwd, id=id) + (spec.stdin or b"")
        if spec.stdin is not None and len(message) > PIPE:
            first = token_hex(4)
            launched = self._client(container, waiting(first), stdin=message)
        else:
            first, launched = self._ahead.pop(0) if self._ahead else self._one_ahead(container)
        try:
            async with asyncio.timeout(ANSWER):
                who = greeting(await _heard(launched.out, first), id=first, argv=spec.argv, cwd=cwd)
        except BaseException as error:
            _abandon(launched)
            raise _unheard(error) from error
        handle = ContainedHandle(launched.handle, who, container, self._engine)
        launched = structs.replace(launched, handle=handle)
        if launched.stdin >= 0:
            launched = await _told(launched, message, keep=spec.stdin is None)
        started = await self._greeted(container, launched, spec, cwd=cwd, id=id)
        self._refill(container)
        return started

    async def _greeted(self, container: Container, launched: Launched, spec: Spec, *, cwd: str, id: str) -> Launched:
        try:
            async with asyncio.timeout(ANSWER):
                who = greeting(await _heard(launched.out, id), id=id, argv=spec.argv, cwd=cwd)
        except BaseException as error:
            _abandon(launched)
            if isinstance(error, EnvironmentFailure) and spec.argv[0] == "bash" and "No such file" in error.what:
                fix = "choose an image that has it: docker.image"
                raise EnvironmentFailure(f"the image {self.options.image} has no bash", next=fix) from error
            raise _unheard(error) from error
        if isinstance(launched.handle, ContainedHandle):
            return launched
        return structs.replace(launched, handle=ContainedHandle(launched.handle, who, container, self._engine))

    def _client(
        self, container: Container, words: Sequence[str], *, pty: bool = False, stdin: bytes | None = None
    ) -> Launched:
        call = ["exec", "--interactive", "--workdir", "/"]
        call += ["--tty", "--detach-keys", "ctrl-@,ctrl-^,ctrl-@,ctrl-^"] if pty else []
        call += ["--env", f"HOME={self.home}"] if self.home else []
        call += mapping_words(self.place.variables, self.options.variables)
        argv = self._engine.argv(*call, container.id, *words)
        return launch(Spec(argv=argv, cwd="/", stdin=stdin, pty=pty), self._variables)

    def _one_ahead(self, container: Container) -> tuple[str, Launched]:
        id = token_hex(4)
        return id, self._client(container, waiting(id))

    def _refill(self, container: Container) -> None:
        while len(self._ahead) < AHEAD and not self.closed:
            self._ahead.append(self._one_ahead(container))

    def _drop_ahead(self) -> None:
        for _, launched in self._ahead:
            _abandon(launched)
        self._ahead.clear()

    async def _lost(self, child: Child) -> EnvironmentFailure | None:
        container = self._container
        if container is None:
            return EnvironmentFailure("the environment was closed while the command ran")
        if child.code != KILLED and not container.gone:
            return None
        if not container.gone and await container.out_of_memory():
            what = f"a program was killed because the container's memory ({self.options.memory_mb} MB) was used up"
            self._notes.append(f"{what}; docker.memory_mb gives it more")
            return None
        if not await container.ended(within=0.3):
            return None
        kept = "files in the working folder are as they were" if self._mounted else ""
        return EnvironmentFailure(
            "the container ended while the command ran", kept=kept, next="the next command starts a container anew"
        )

    def _remarks(self) -> tuple[str, ...]:
        notes, self._notes = tuple(self._notes), []
        return notes


class _UnheardError(Exception):
    """The client ended without a greeting; `said` is what it said instead."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


def _unheard(error: BaseException) -> BaseException:
    return _UnheardError(f"no answer within {ANSWER:.0f} seconds") if isinstance(error, TimeoutError) else error


async def _heard(out: int, id: str) -> bytes:
    """The first line that begins with `id`, read byte by byte since the next belongs to the program."""
    os.set_blocking(out, False)
    said, line = bytearray(), bytearray()
    while True:
        try:
            byte = os.read(out, 1)
        except BlockingIOError:
            await _readable(out)
            continue
        except OSError:  # a terminal whose other side is closed
            byte = b""
        if not byte or len(said) > NOISE:
            raise _UnheardError(said.decode("utf-8", "replace"))
        line += byte
        said += byte
        if byte == b"\n":
            if line.startswith(id.encode()):
                return bytes(line)
            line.clear()


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


async def _told(launched: Launched, message: bytes, *, keep: bool) -> Launched:
    """Write the order, and all input that there will be unless it is to be kept open."""
    try:
        if len(message) <= PIPE:
            _write(launched.stdin, message)
        else:
            await asyncio.to_thread(_write, launched.stdin, message)
    except OSError as error:  # the client has ended
        _abandon(launched)
        raise _UnheardError(str(error)) from error
    except BaseException:
        _abandon(launched)
        raise
    if keep:
        return launched
    os.close(launched.stdin)
    return structs.replace(launched, stdin=-1)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _abandon(launched: Launched) -> None:
    """End a client that nobody will hear."""
    for descriptor in {launched.out, launched.stdin} - {-1}:
        os.close(descriptor)
    launched.handle.kill()


async def _soon(true: Callable[[], bool], seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not true():  # noqa: ASYNC110 - the client's end sets no Event
                await asyncio.sleep(0.005)
