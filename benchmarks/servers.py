"""What frameworks and HTTP servers cost: one small application on each, in Pythons that have them and msgspec.

`--subject NAME=PYTHON` names one of SUBJECTS. A server starts in a running loop, with a socket that listens already (granian gets a
port), and is stopped by us. 32 clients keep their connections and ask again when they are answered, then 500 streams are open at
once. The server counts its own processor time. Subjects take turns; each round's figures go to stderr.
"""

import asyncio
import json
import os
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.measure import run
from benchmarks.report import Row, parser, quantile, say, show

PRELUDE = """
import asyncio, contextlib, msgspec, os, resource, signal, socket, sys
ANSWER, JSON, SSE = msgspec.json.encode({"text": "x" * 489}), "application/json", "text/event-stream"
def state():
    used = resource.getrusage(resource.RUSAGE_SELF)
    pages = open("/proc/self/statm").read().split()[1] if sys.platform == "linux" else used.ru_maxrss / resource.getpagesize()
    return msgspec.json.encode({"cpu": used.ru_utime + used.ru_stime, "rss": int(pages) * resource.getpagesize()})
async def answer(body):
    await asyncio.sleep(msgspec.json.decode(body)["sleep"])
    return ANSWER
async def events():
    for number in range(20):
        yield b"id: %d\\ndata: %s\\n\\n" % (number, b"x" * 100)
        await asyncio.sleep(0.05)
"""
STARLETTE = """
from starlette import applications, responses
from starlette.routing import Route
async def told(request): return responses.Response(state(), media_type=JSON)
async def chat(request): return responses.Response(await answer(await request.body()), media_type=JSON)
async def stream(request): return responses.StreamingResponse(events(), media_type=SSE)
app = applications.Starlette(routes=[Route("/state", told), Route("/chat", chat, methods=["POST"]), Route("/events", stream)])
"""
AIOHTTP = """
from aiohttp import web
async def told(request): return web.Response(body=state(), content_type=JSON)
async def chat(request): return web.Response(body=await answer(await request.read()), content_type=JSON)
async def stream(request):
    reply = web.StreamResponse(headers={"content-type": SSE})
    await reply.prepare(request)
    async for event in events(): await reply.write(event)
    return reply
(app := web.Application()).add_routes([web.get("/state", told), web.post("/chat", chat), web.get("/events", stream)])
async def serve(stop, group):
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=2, access_log=None)
    await runner.setup()
    await web.SockSite(runner, socket.socket(fileno=FD), backlog=2048).start()
    await stop.wait()
    await runner.cleanup()
"""
UVICORN = """
import uvicorn
class Server(uvicorn.Server):
    def capture_signals(self): return contextlib.nullcontext()
async def serve(stop, group):
    server = Server(uvicorn.Config(app, http=HTTP, ws="none", log_level="error", access_log=False, timeout_graceful_shutdown=2))
    group.create_task(server.serve(sockets=[socket.socket(fileno=FD)]))
    await stop.wait()
    server.should_exit = True
"""
HYPERCORN = """
from hypercorn.asyncio import serve as run
from hypercorn.config import Config
async def serve(stop, group):
    config = Config()
    config.bind, config.backlog, config.graceful_timeout, config.errorlog = [f"fd://{FD}"], 2048, 2, None
    await run(app, config, shutdown_trigger=stop.wait)
"""
GRANIAN = """
from granian.constants import Interfaces
from granian.server.embed import Server
async def serve(stop, group):
    server = Server(app, "127.0.0.1", PORT, interface=Interfaces.ASGINL, log_enabled=False, backlog=2048)
    group.create_task(server.serve())
    await stop.wait()
    server.stop()
"""
MAIN = """
async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with asyncio.TaskGroup() as group: await serve(stop, group)
(uvloop if "uvloop" in globals() else asyncio).run(main())
"""
H11, HTTPTOOLS, UVLOOP = "HTTP = 'h11'" + UVICORN, "HTTP = 'httptools'" + UVICORN, "import uvloop"
SUBJECTS = {
    "starlette": STARLETTE + H11,
    "httptools": STARLETTE + HTTPTOOLS,
    "uvloop": STARLETTE + H11 + UVLOOP,
    "both": STARLETTE + HTTPTOOLS + UVLOOP,
    "hypercorn": STARLETTE + HYPERCORN,
    "granian": STARLETTE + GRANIAN,
    "aiohttp": AIOHTTP,
}
Figures = dict[tuple[str, str, int], float]  # what, unit and digits of each


class Client(asyncio.Protocol):
    """One connection that asks, waits for the whole answer and asks again until its time is over."""

    def __init__(self, request: bytes, *, until: float, taken: list[float]) -> None:
        self.request, self.until, self.taken = request, until, taken
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        self.answer, self.asked = b"", time.perf_counter()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.answer += data
        if self.answer.endswith(b'"}'):  # the one answer that there is ends so
            self.taken.append((now := time.perf_counter()) - self.asked)
            self.ask() if now < self.until else self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc or not self.answer.startswith(b"HTTP/1.1 200") or time.perf_counter() < self.until:
            self.done.set_exception(RuntimeError(f"a connection was lost: {exc or self.answer[:80]}"))
        else:
            self.done.set_result(None)


async def ask(port: int, path: str, until: bytes) -> bytes:
    """What is answered, up to these bytes or the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with closing(writer):
        writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        return await asyncio.wait_for(reader.readuntil(until), 60)


async def state(port: int) -> dict[str, float]:
    return json.loads((await ask(port, "/state", b"}")).partition(b"\r\n\r\n")[2])


async def load(port: int, *, sleep: float, seconds: float = 3.0, clients: int = 32) -> tuple[list[float], float, float]:
    """Milliseconds of each answer, answers in a second, milliseconds of the server's processor time for one."""
    body = json.dumps({"sleep": sleep, "text": "x" * 1970}).encode()
    request = f"POST /chat HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    before, taken, until = (await state(port))["cpu"], list[float](), time.perf_counter() + seconds
    made = partial(Client, request, until=until, taken=taken)
    each = [(await asyncio.get_running_loop().create_connection(made, "127.0.0.1", port))[1] for _ in range(clients)]
    await asyncio.gather(*(client.done for client in each))
    rate = len(taken) / (time.perf_counter() - until + seconds)
    return [t * 1000 for t in taken], rate, ((await state(port))["cpu"] - before) * 1000 / len(taken)


async def streams(port: int, *, count: int = 500) -> tuple[float, float]:
    """Bytes of memory while all are open, milliseconds of the server's processor time for an event."""
    before = (await state(port))["cpu"]
    async with asyncio.TaskGroup() as group:
        each = [group.create_task(ask(port, "/events", b"\r\n0\r\n\r\n")) for _ in range(count)]
        await asyncio.sleep(0.7)
        during = (await state(port))["rss"]
    if any(task.result().count(b"data: ") != 20 for task in each):
        raise RuntimeError("a stream lacked an event")
    return during, ((await state(port))["cpu"] - before) * 1000 / (20 * count)


@contextmanager
def serving(name: str, python: Path) -> Generator[tuple[int, float]]:
    """The port of a server that answers, and the seconds until its first answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
        port, handles = listening.getsockname()[1], [listening.fileno()]
        program = f"FD, PORT = {handles[0]}, {port}\n{PRELUDE}{SUBJECTS[name]}{MAIN}"
        if name == "granian":
            listening.close()
            handles.clear()
        begun = time.monotonic()
        process = subprocess.Popen([python, "-c", program], pass_fds=handles, stdin=subprocess.DEVNULL)
    try:
        while not answers(port):
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended with {process.returncode}")
        yield port, time.monotonic() - begun
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()


def answers(port: int) -> bool:
    with suppress(OSError, EOFError):
        return asyncio.run(state(port)) != {}
    return False


def imports(name: str, python: Path) -> float:
    """Milliseconds that the imports and the making of the application add to a Python that runs."""
    ran = partial(run, env=dict(os.environ), cwd=Path.cwd())
    with_it, without = (ran([str(python), "-c", PRELUDE + more]).wall for more in (SUBJECTS[name], ""))
    return (with_it - without) * 1000


async def measured(port: int) -> Figures:
    """The figures of a server that runs."""
    found: Figures = {("memory at rest", "MB", 1): (await state(port))["rss"] / 1e6}
    for what, sleep in (("after 200 ms", 0.2), ("at once", 0.0)):
        taken, rate, cost = await load(port, sleep=sleep)
        found[f"answers {what}", "a second", 0] = rate
        found[f"answers {what}: median", "ms", 2] = median(taken)
        found[f"answers {what}: 95th percentile", "ms", 2] = quantile(taken, 0.95)
        found[f"answers {what}: processor time of one", "ms", 3] = cost
    rss, cost = await streams(port)
    found["500 streams: memory", "MB", 1] = rss / 1e6
    found["500 streams: processor time of an event", "ms", 3] = cost
    return found


def main() -> None:
    """Measure and print."""
    made = parser(__doc__ or "", rounds=3)
    made.add_argument("--subject", action="append", required=True, help=f"NAME=PYTHON of {', '.join(SUBJECTS)}")
    options = made.parse_args()
    pythons = {name: Path(python) for name, _, python in (text.partition("=") for text in options.subject)}
    rounds: dict[str, list[Figures]] = {name: [] for name in pythons}
    for turn in range(options.rounds):
        for name, python in pythons.items():
            figures: Figures = {("imports", "ms", 0): median(imports(name, python) for _ in range(5))}
            with serving(name, python) as (port, started):
                figures["first answer after the start", "ms", 0] = started * 1000
                figures |= asyncio.run(measured(port))
            rounds[name].append(figures)
            say(f"round {turn + 1}: {name}: " + ", ".join(f"{key[0]} {value:.4g}" for key, value in figures.items()))
    rows = [
        Row(what=k[0], unit=k[1], digits=k[2], values={n: median(each[k] for each in rounds[n]) for n in pythons})
        for k in rounds[next(iter(pythons))][0]
    ]
    show(rows, pythons, as_json=options.json)


if __name__ == "__main__":
    main()
