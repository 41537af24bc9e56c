"""The gate before a few small routes, on a real socket, asked in raw bytes."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import h11
import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Place

from melete.app.key_file import KeyFile
from melete.app.serve import Server, make_server
from melete.app.settings import load
from melete.app.wire import open_melete
from melete.core.errors import MeleteError
from melete.surfaces.api.answers import Stream, answer, note, who_of
from melete.surfaces.api.errors import encoded, refusal
from melete.surfaces.api.gate import Gate
from melete.surfaces.api.route import Route
from melete.surfaces.api.server import Http, bound

OWN = "b1946ac92492d2347c6235b4d2611184"
PATIENCE = 20.0


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer: `closed` says that the server closed the connection behind it."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    closed: bool = False

    def all(self, name: str) -> list[str]:
        """The values of a header."""
        return [value for known, value in self.headers if known == name]

    def one(self, name: str) -> str:
        """The value of a header that is there once; empty for none."""
        found = self.all(name)
        assert len(found) <= 1, f"{name} is there {len(found)} times"
        return found[0] if found else ""

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return msgspec.json.decode(self.body)

    @property
    def code(self) -> str:
        """The code of an error."""
        return self.json["error"]["code"]


class Gated:
    """A server on 127.0.0.1 whose requests pass the gate."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port
        self.home = server.app.loaded.home
        self.seen: list[str] = []

    def add(self, name: str, *scopes: str, expires: datetime | None = None) -> str:
        """Make a named key."""
        now = self.server.app.clock.now()
        return KeyFile(self.home).add(name, scopes=scopes or ("chat",), now=now, expires=expires)

    async def raw(self, data: bytes, *, source: str = "127.0.0.1") -> Answer:
        """Send bytes as they are and read one answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(source, 0))
        try:
            writer.write(data)
            return await read_answer(reader, "HEAD" if data.startswith(b"HEAD ") else "GET")
        finally:
            writer.close()
            await writer.wait_closed()

    async def ask(
        self, path: str = "/who", *headers: str, method: str = "GET", body: bytes = b"", source: str = "127.0.0.1"
    ) -> Answer:
        """Ask for something; `Host` is there unless it is given, the length of the body as well."""
        lines = [f"{method} {path} HTTP/1.1", *headers]
        if not any(line.lower().startswith("host:") for line in headers):
            lines.append(f"Host: 127.0.0.1:{self.port}")
        if body and not any("-encoding:" in line or "-length:" in line for line in map(str.lower, headers)):
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        return await self.raw(head + body, source=source)

    def audited(self) -> list[dict[str, Any]]:
        """What the audit log holds."""
        path = self.home.logs / "audit.log"
        return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()] if path.exists() else []


async def read_answer(reader: asyncio.StreamReader, method: str = "GET") -> Answer:
    """The next answer of a connection to a request of this method; `closed` when nothing can come behind it."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=method, target="/", headers=[("host", "x")]))
    client.send(h11.EndOfMessage())
    status, headers, body = 0, [], b""
    async with asyncio.timeout(PATIENCE):
        while True:
            event = client.next_event()
            if event is h11.NEED_DATA:
                client.receive_data(await reader.read(65_536))
            elif isinstance(event, h11.Response):
                status = event.status_code
                headers = [(name.decode(), value.decode("latin-1")) for name, value in event.headers]
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                closed = client.their_state is h11.MUST_CLOSE
                return Answer(status=status, headers=headers, body=body, closed=closed)
            elif isinstance(event, h11.ConnectionClosed):
                raise AssertionError("the connection was closed without an answer")


async def _who(request: Request) -> Response:
    who = who_of(request)
    return answer({"name": who.name, "owner": who.owner, "scopes": sorted(who.scopes)})


async def _act(request: Request) -> Response:
    note(request, session="s-1", run="r-1", job="j-1")
    return answer({"bytes": len(await request.body())})


async def _ignore(request: Request) -> Response:
    return answer({"id": request.path_params.get("id", "")})


async def _ticks(request: Request) -> Response:
    async def pieces() -> AsyncGenerator[bytes]:
        number = 0
        while True:
            yield f"data: {number}\n\n".encode()
            number += 1
            await asyncio.sleep(0.1)

    return Stream(pieces())


async def _break(request: Request) -> Response:
    raise ZeroDivisionError("a secret that nobody should read")


async def _refuse(request: Request) -> Response:
    note(request, session="s-9")
    return answer({}, status=403)


def _told(handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def told(request: Request) -> Response:
        try:
            return await handler(request)
        except MeleteError as error:
            found = refusal(error)
            return Response(
                encoded(found),
                status_code=found.status,
                media_type="application/json",
                headers=dict(found.headers),
            )

    return told


ROUTES = (
    Route(method="GET", path="/who", handler=_who, tag="t", scope=""),
    Route(method="GET", path="/open", handler=_who, tag="t", scope="", public=True),
    Route(method="POST", path="/act", handler=_act, tag="t", acts=True),
    Route(method="POST", path="/ignore", handler=_ignore, tag="t", acts=True),
    Route(method="GET", path="/things/all", handler=_who, tag="t"),
    Route(method="GET", path="/things/{id}", handler=_ignore, tag="t"),
    Route(method="DELETE", path="/things/{id}", handler=_ignore, tag="t", acts=True),
    Route(method="GET", path="/jobs", handler=_who, tag="t", scope="jobs"),
    Route(method="GET", path="/admin", handler=_who, tag="t", scope="admin"),
    Route(method="GET", path="/ticks", handler=_ticks, tag="t", stream=True),
    Route(method="GET", path="/broken", handler=_break, tag="t"),
    Route(method="GET", path="/refused", handler=_refuse, tag="t"),
)


@asynccontextmanager
async def gated(home: Path, *, host: str = "127.0.0.1", **settings: Any) -> AsyncGenerator[Gated]:
    """A server with these settings of `server.*`; it listens on 127.0.0.1 whatever `host` says."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_bytes(msgspec.json.encode({"server": {"host": host, **settings}}))
    async with open_melete(load(environ={"MELETE_HOME": str(home)})) as app:
        server = make_server(app)
        made = Starlette(routes=[Place(route.path, _told(route.handler), methods=[route.method]) for route in ROUTES])
        made.state.server = server
        made.add_middleware(Gate, server=server, routes=ROUTES)
        sockets = bound("127.0.0.1", 0)
        http = Http(made, grace=1)
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(http.listen(sockets))
            await http.listening.wait()
            try:
                yield Gated(server, sockets[0].getsockname()[1])
            finally:
                http.should_exit = True
                await serving
