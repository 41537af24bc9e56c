"""The network of one sandbox: which doors lead through its wall, and the variables by which programs find them.

The sandbox has a loopback of its own and nothing else. Sockets that listen in there are held out here: connections to them are
accepted, judged and carried on by a thread with a loop of its own, which starts with the first of them, so that a download
never stands in the agent's way. `Sandbox` mounts it once the program inside is up, before the first command.
"""

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from melete.core.environment import Place
from melete.core.errors import EnvironmentFailure, MeleteError
from melete.core.places import SandboxOptions
from melete.core.plugin import Lazy
from melete.environments.allowlist import AllowList, Entry
from melete.environments.gate import Gate
from melete.environments.relay import Connection, close, relay
from melete.environments.remotes import Remotes
from melete.security.urls import networks

log = logging.getLogger(__name__)

HERE: Final = "127.0.0.1"
MOST: Final = 128
WAITING: Final = 1024
NO_ROOM: Final = 0.1
PAUSE: Final = 2.0
CONNECTING: Final = 10.0
KEPT: Final = frozenset({"GOPROXY", "GONOPROXY"})
"""Variables whose names speak of proxies and mean mirrors."""
CERTIFICATES: Final = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE",
)  # fmt: skip
"""Variables that name files of certificates; a program that is pointed to one that it cannot see fails."""
NOT_PROXIED: Final = "localhost,127.0.0.1,::1"

_registries: Lazy[Callable[..., list[Entry]]] = Lazy("melete.environments.registries:of_this_machine")
_proxy: Lazy[Callable[[Gate], Any]] = Lazy("melete.environments.netproxy:Proxy")
Serve = Callable[[Connection], Coroutine[Any, Any, None]]


class Behind(Protocol):
    """What is asked of the program inside a sandbox; see `spawner.Inside`."""

    async def ask(self, do: str, /, descriptors: Sequence[int] = (), **fields: Any) -> tuple[Any, list[int]]:
        """Send a request and wait for its answer."""
        ...


class Door(Struct, frozen=True):
    """A socket that listens, and what becomes of each connection to it."""

    listening: socket.socket
    serve: Serve


class Network:
    """The network of one sandbox by its settings; `mount` it anew whenever the sandbox has started anew."""

    def __init__(self, place: Place, options: SandboxOptions, *, cwd: str) -> None:
        self._place = place
        self._options = options
        self._cwd = cwd
        self._notes: list[str] = []
        self._porter: Porter | None = None
        self._remotes = Remotes(cwd, home=place.variables.get("HOME", ""), scratch=place.scratch, now=time.time_ns())
        self._first_seen: list[Entry] = []
        self._present: list[Entry] = []
        self._looked_again = -PAUSE
        trusted, self._no_networks = networks(options.private_networks)
        self.gate = Gate(options.allow, place.dial, derive=self._derived, later=self._later, trusted=trusted)

    async def mount(self, inside: Behind) -> Mapping[str, str]:
        """Open the doors and return the variables that commands see; raises EnvironmentFailure."""
        await self.unmount()
        if self._options.network == "on":
            return self._place.variables
        variables = without_proxies(self._place.variables)
        variables = await _with_visible_certificates(inside, variables)
        if self._options.network == "off":
            return variables
        self._look()
        doors: list[Door] = []
        try:
            port = await self._open_doors(inside, doors)
        except BaseException:
            for door in doors:
                door.listening.close()
            raise
        self._porter = Porter(doors)
        return {**variables, **proxied(port, variables)}

    async def unmount(self) -> None:
        """Close every door and every connection through one."""
        porter, self._porter = self._porter, None
        if porter:
            await porter.aclose()

    def remarks(self) -> tuple[str, ...]:
        """What there is to say since the last call: what was refused, and which settings could not be followed."""
        notes, self._notes = self._notes, []
        return (*notes, *self.gate.remarks())

    def hosts(self) -> list[Entry]:
        """The whole allow-list as it counts now, for people: `str(entry)` as it is written, `entry.why` where it comes from.

        It reads files and takes a moment; a folder's remotes are remembered by it as by a first command.
        """
        if not self._first_seen:
            self._look()
        return list(self.gate.entries())

    def _look(self) -> None:
        """Read what has to be known before the first command can change it."""
        for text in AllowList(self._options.allow).unreadable:
            self._notes.append(
                f"sandbox.allow holds {text!r}, which is no NAME, *.NAME or NAME:PORT, and allows nothing"
            )
        for text in self._no_networks:
            self._notes.append(f"sandbox.private_networks holds {text!r}, which is no network, and trusts nothing")
        if not self._options.derive:
            return
        try:
            self._first_seen = self._remotes.first_seen()
        except OSError as error:
            self._notes.append(
                f"the folder's git remotes are not on the sandbox's allow-list: they could not be remembered ({error.strerror})"
            )

    def _derived(self) -> list[Entry]:
        if not self._options.derive:
            return []
        found = _registries.load()(self._place.variables, cwd=self._cwd, written=self._options.write)
        return [*self._first_seen, *found]

    def _later(self) -> list[Entry]:
        """The remotes that the folder has now; looked up now and then only, however often a command makes us look."""
        if self._options.derive and time.monotonic() > self._looked_again + PAUSE:
            self._present = self._remotes.present()
            self._looked_again = time.monotonic()
        return self._present

    async def _open_doors(self, inside: Behind, doors: list[Door]) -> int:
        """Open the proxy's door and those that the settings name; the proxy's port."""
        told, listening = await _listen(inside, 0)
        doors.append(Door(listening, self._proxied))
        for port in self._options.loopback:
            try:
                doors.append(Door((await _listen(inside, port))[1], _to(lambda port=port: _connect_here(port))))
            except OSError as error:
                self._notes.append(f"sandbox.loopback: port {port} cannot be opened in the sandbox ({error.strerror})")
        for port in self._options.publish:
            try:
                doors.append(Door(_listen_here(port), _to(_joined(inside, port))))
            except OSError as error:
                self._notes.append(
                    f"sandbox.publish: port {port} of this machine cannot be opened ({error.strerror}), so nothing leads to the"
                    " sandbox's"
                )
        return told

    async def _proxied(self, client: Connection) -> None:
        await _proxy.load()(self.gate).serve(client)


class Porter:
    """Serves doors: waits on the loop that it is made on, and with the first connection starts a thread that serves them all."""

    def __init__(self, doors: Sequence[Door]) -> None:
        self._doors = doors
        self._waiting_loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serving: asyncio.Task[None] | None = None
        self._ready = threading.Event()
        for door in doors:
            door.listening.setblocking(False)
        self._wait()

    async def aclose(self) -> None:
        """End every connection, close the doors and end the thread."""
        self._stop_waiting()
        if self._thread is not None:
            await asyncio.to_thread(self._end_thread, self._thread)
            self._thread = None
        for door in self._doors:
            door.listening.close()

    def _wait(self) -> None:
        if self._waiting_loop is not None:
            for door in self._doors:
                self._waiting_loop.add_reader(door.listening, self._begin)

    def _begin(self) -> None:
        loop = self._waiting_loop
        self._stop_waiting()
        thread = threading.Thread(target=self._work, name="melete-sandbox-network", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no room for one more
            log.warning("the sandbox's network cannot start: %s; it is tried again", error)
            self._waiting_loop = loop
            asyncio.get_running_loop().call_later(PAUSE, self._wait)
            return
        self._thread = thread

    def _stop_waiting(self) -> None:
        if self._waiting_loop is not None:
            for door in self._doors:
                self._waiting_loop.remove_reader(door.listening)
            self._waiting_loop = None

    def _end_thread(self, thread: threading.Thread) -> None:
        self._ready.wait()
        if self._loop is not None and self._serving is not None:
            try:
                self._loop.call_soon_threadsafe(self._serving.cancel)
            except RuntimeError:
                log.debug("the sandbox's network had ended by itself")
        thread.join()

    def _work(self) -> None:
        self._loop = loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(self._serve())
        except asyncio.CancelledError:
            pass  # as `aclose` asked
        except Exception:
            log.exception("the sandbox's network has ended; commands reach nothing until the sandbox starts anew")
        finally:
            self._ready.set()
            loop.close()

    async def _serve(self) -> None:
        self._serving = asyncio.current_task()
        self._ready.set()
        async with asyncio.TaskGroup() as group:
            for door in self._doors:
                group.create_task(_accepting(door, group))


async def _accepting(door: Door, group: asyncio.TaskGroup) -> None:
    """Accept for ever; beyond `MOST` connections at a time the others wait in the system's queue."""
    room = asyncio.Semaphore(MOST)
    loop = asyncio.get_running_loop()
    while True:
        await room.acquire()
        try:
            accepted, _ = await loop.sock_accept(door.listening)
        except OSError:  # no descriptors are left, or whoever called has gone again
            room.release()
            await asyncio.sleep(NO_ROOM)
            continue
        group.create_task(_serving(door, accepted)).add_done_callback(lambda _: room.release())


async def _serving(door: Door, accepted: socket.socket) -> None:
    """Serve one connection; whatever happens to it happens to no other."""
    try:
        client = await asyncio.open_connection(sock=accepted)
    except OSError:
        accepted.close()
        return
    try:
        await door.serve(client)
    except (OSError, TimeoutError, MeleteError):
        log.debug("a connection of the sandbox ended early", exc_info=True)
    except Exception:
        log.exception("a connection of the sandbox could not be served")
    finally:
        await close(client[1])


def _to(connect: Callable[[], Awaitable[Connection]]) -> Serve:
    """Serve a connection by carrying it on to another."""

    async def serve(client: Connection) -> None:
        async with asyncio.timeout(CONNECTING):
            server = await connect()
        try:
            await relay(client, server)
        finally:
            await close(server[1])

    return serve


async def _connect_here(port: int) -> Connection:
    return await asyncio.open_connection(HERE, port)


def _joined(inside: Behind, port: int) -> Callable[[], Awaitable[Connection]]:
    """Connect to a port of the sandbox; the program inside is asked on the loop that talks to it."""
    home = asyncio.get_running_loop()

    async def connect() -> Connection:
        asked = asyncio.run_coroutine_threadsafe(inside.ask("connect", port=port), home)
        _, received = await asyncio.wrap_future(asked)
        return await asyncio.open_connection(sock=_socket(received))

    return connect


async def _listen(inside: Behind, port: int) -> tuple[int, socket.socket]:
    """(port, socket) that listens on the sandbox's loopback; raises OSError, EnvironmentFailure."""
    told, received = await inside.ask("listen", port=port)
    listening = _socket(received)
    listening.listen(WAITING)
    return told.port, listening


def _listen_here(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HERE, port))
        listening.listen(WAITING)
    except BaseException:
        listening.close()
        raise
    return listening


def _socket(received: list[int]) -> socket.socket:
    """The socket that came from inside, and nothing else; raises EnvironmentFailure."""
    try:
        found = socket.socket(fileno=received[0])
        if found.type == socket.SOCK_STREAM and found.family == socket.AF_INET:
            found.setblocking(False)
            return found
        found.detach()
    except (OSError, IndexError) as error:
        log.debug("what came from the sandbox is no socket", exc_info=error)
    for descriptor in received:
        os.close(descriptor)
    raise EnvironmentFailure("the sandbox gave something else than a socket", next="the next command starts a new one")


async def _with_visible_certificates(inside: Behind, variables: Mapping[str, str]) -> dict[str, str]:
    """Variables without those that name certificates which commands cannot see."""
    kept = dict(variables)
    seen: dict[str, bool] = {}
    for name in CERTIFICATES:
        path = kept.get(name, "")
        if path not in seen:
            seen[path] = not path.startswith("/") or await _visible(inside, path)
        if not seen[path]:
            del kept[name]
    return kept


async def _visible(inside: Behind, path: str) -> bool:
    try:
        told, _ = await inside.ask("describe", path=path)
    except OSError:
        return False
    return told.found is not None


def without_proxies(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables without any that names a proxy: what is not reachable from inside, and may hold a password."""
    return {name: value for name, value in variables.items() if name in KEPT or "proxy" not in name.lower()}


def proxied(port: int, variables: Mapping[str, str]) -> dict[str, str]:
    """The variables by which programs find the proxy at a port of the sandbox; Java keeps the options that it has."""
    address = f"http://{HERE}:{port}"
    java = " ".join(f"-D{kind}.proxyHost={HERE} -D{kind}.proxyPort={port}" for kind in ("http", "https"))
    names = ("http_proxy", "https_proxy", "all_proxy")
    return {
        **dict.fromkeys(names, address),
        **dict.fromkeys((name.upper() for name in names), address),
        "no_proxy": NOT_PROXIED,
        "NO_PROXY": NOT_PROXIED,
        "NODE_USE_ENV_PROXY": "1",
        "YARN_HTTP_PROXY": address,
        "YARN_HTTPS_PROXY": address,
        **{name: f"{variables.get(name, '')} {java}".strip() for name in ("MAVEN_OPTS", "GRADLE_OPTS")},
    }
