"""What the HTTP API adds to a model of 200 ms: one client, many, a burst, streams, memory, time to ready, and a long load.

Model and clients are processes of their own on the same machine. `--part` chooses; `--minutes` is the length of the long load.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.http_load import Answered, Client, burst, closed_loop
from benchmarks.report import Row, chosen, parser, quantile, say, show
from benchmarks.subjects import make

MODEL_SECONDS = 0.2
KEY = "k7Qw-29xv-TTmz-04pL-benchmark"
PARTS = ("one", "loop", "burst", "streams", "memory", "soak")


class Served:
    """A running server with its process id and port."""

    def __init__(self, name: str, pid: int, port: int, *, ready: float) -> None:
        self.name = name
        self.pid = pid
        self.port = port
        self.ready = ready

    def rss(self) -> int:
        """Resident bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def files(self) -> int:
        """Open file descriptors."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def model() -> Iterator[str]:
    """The base URL of a lean model."""
    command = [sys.executable, "-m", "benchmarks.lean_model", "0", str(MODEL_SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        finally:
            process.terminate()


@contextmanager
def served(name: str, program: Path, *, base_url: str, root: Path) -> Iterator[Served]:
    """The subject's API server in a fresh home, ready."""
    subject = make(name, root, program=program, base_url=base_url)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    theirs = {
        "API_SERVER_ENABLED": "true",
        "API_SERVER_KEY": KEY,
        "API_SERVER_PORT": str(port),
        "GATEWAY_ALLOW_ALL_USERS": "true",
    }
    ours = {"MELETE_SERVER_KEY": KEY, "MELETE_SERVER_PORT": str(port)}
    command = [str(program), "serve"] if name == "melete" else [str(program), "gateway", "run"]
    log = (root / f"{name}.log").open("wb")
    began = time.perf_counter()
    env = subject.env | (ours if name == "melete" else theirs)
    with (
        log,
        subprocess.Popen(
            command, env=env, cwd=subject.cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        ) as process,
    ):
        try:
            while not _answers(port):
                if process.poll() is not None or time.perf_counter() - began > 90:
                    raise RuntimeError(f"{name} did not come up:\n{Path(log.name).read_text()[-2000:]}")
                time.sleep(0.005)
            yield Served(name, process.pid, port, ready=time.perf_counter() - began)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.5) as one:
            one.sendall(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
            return b" 200 " in one.recv(64)
    except OSError:
        return False


def good(answers: Sequence[Answered | str]) -> list[Answered]:
    """The answers that came; says how many did not, and why the first."""
    wrong = [one for one in answers if isinstance(one, str)]
    if wrong:
        say(f"  {len(wrong)} of {len(answers)} failed: {wrong[0][:300]}")
    return [one for one in answers if isinstance(one, Answered)]


def added(answers: Sequence[Answered]) -> list[float]:
    """Milliseconds beyond the model's own."""
    return [(one.seconds - MODEL_SECONDS) * 1000 for one in answers]


class Figures:
    """Figures by what they say and whose they are."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str, bool | None, int], dict[str, float]] = {}

    def add(
        self, subject: str, what: str, unit: str, value: float, *, less: bool | None = True, digits: int = 1
    ) -> None:
        """Add one."""
        say(f"  {subject}: {what}: {value:.{digits}f} {unit}")
        self.rows.setdefault((what, unit, less, digits), {})[subject] = value

    def all(self) -> list[Row]:
        """As a table."""
        return [
            Row(what=what, unit=unit, values=values, less_is_better=less, digits=digits)
            for (what, unit, less, digits), values in self.rows.items()
        ]


async def one_client(server: Served, figures: Figures, *, times: int) -> None:
    client = Client(server.port, key=KEY)
    await client.chat("Say hi")
    whole = added([await client.chat(f"Say hi {n}") for n in range(times)])
    streamed = [await client.chat(f"Say hi {n}", stream=True) for n in range(times)]
    client.close()
    first = [(one.first - MODEL_SECONDS) * 1000 for one in streamed]
    figures.add(server.name, "one client: added, median", "ms", median(whole))
    figures.add(server.name, "one client: added, p95", "ms", quantile(whole, 0.95))
    figures.add(server.name, "one client: first token added, median", "ms", median(first))


async def loop(server: Served, figures: Figures, *, seconds: float) -> None:
    cpu, began = server.cpu(), time.perf_counter()
    answers = await closed_loop(server.port, 32, seconds=seconds, key=KEY)
    found, took = good(answers), time.perf_counter() - began
    figures.add(server.name, "32 clients: requests a second", "1/s", len(found) / took, less=False)
    figures.add(server.name, "32 clients: failed", "", len(answers) - len(found), digits=0)
    if found:
        figures.add(server.name, "32 clients: added, median", "ms", median(added(found)))
        figures.add(server.name, "32 clients: processor time a request", "ms", (server.cpu() - cpu) / len(found) * 1000)


async def bursts(server: Served, figures: Figures, *, rounds: int) -> None:
    answered, worst = [], []
    for _ in range(rounds):
        found = good(await burst(server.port, 32, key=KEY))
        answered.append(len(found))
        worst.append(quantile(added(found), 0.95) if found else float("nan"))
        await asyncio.sleep(0.5)
    figures.add(server.name, "burst of 32: answered, least", "", min(answered), less=False, digits=0)
    figures.add(server.name, "burst of 32: added p95, median of rounds", "ms", median(worst))


async def streams(server: Served, figures: Figures) -> None:
    before = server.cpu()
    answers = await burst(server.port, 500, key=KEY, prompt="Count slowly", stream=True)
    found = good(answers)
    figures.add(server.name, "500 streams at a time: failed", "", len(answers) - len(found), digits=0)
    figures.add(server.name, "500 streams at a time: processor time", "s", server.cpu() - before)
    if found:
        figures.add(server.name, "500 streams at a time: longest", "s", max(one.seconds for one in found))


async def memory(server: Served, figures: Figures, *, sessions: int) -> None:
    good(await burst(server.port, 8, key=KEY))  # what is loaded with the first requests belongs to no session
    await asyncio.sleep(1)
    before = server.rss()
    for _ in range(sessions // 8):
        good(await burst(server.port, 8, key=KEY))
    await asyncio.sleep(1)
    figures.add(server.name, f"memory for each of {sessions} sessions", "kB", (server.rss() - before) / sessions / 1000)
    figures.add(server.name, "resident after them", "MB", server.rss() / 1e6)


async def soak(server: Served, figures: Figures, *, minutes: float) -> None:
    seen: list[tuple[int, int]] = []
    count = 0
    for _ in range(max(2, round(minutes * 2))):
        answers = await closed_loop(server.port, 8, seconds=30, key=KEY)
        count += len(good(answers))
        await asyncio.sleep(0.5)
        seen.append((server.rss(), server.files()))
        say(f"  {server.name}: {count} answered, {server.rss() / 1e6:.1f} MB, {server.files()} files")
    middle = len(seen) // 2
    figures.add(server.name, "long load: answered", "", count, less=False, digits=0)
    figures.add(server.name, "long load: resident, middle", "MB", seen[middle][0] / 1e6)
    figures.add(server.name, "long load: resident, end", "MB", seen[-1][0] / 1e6)
    figures.add(server.name, "long load: files, middle", "", seen[middle][1], digits=0)
    figures.add(server.name, "long load: files, end", "", seen[-1][1], digits=0)


async def measure(server: Served, figures: Figures, parts: Sequence[str], *, quick: bool, minutes: float) -> None:
    figures.add(server.name, "ready after", "s", server.ready, digits=2)
    time.sleep(1)  # noqa: ASYNC251 - nothing else goes on
    figures.add(server.name, "resident, idle", "MB", server.rss() / 1e6)
    for part in parts:
        match part:
            case "one":
                await one_client(server, figures, times=10 if quick else 60)
            case "loop":
                await loop(server, figures, seconds=3 if quick else 20)
            case "burst":
                await bursts(server, figures, rounds=1 if quick else 5)
            case "streams":
                await streams(server, figures)
            case "memory":
                await memory(server, figures, sessions=64)
            case _:
                await soak(server, figures, minutes=minutes)


def main() -> None:
    """Measure and print."""
    made = parser(__doc__ or "", rounds=1)
    made.add_argument("--part", action="append", choices=PARTS, help="only this; may be repeated")
    made.add_argument("--quick", action="store_true", help="fewer requests")
    made.add_argument("--minutes", type=float, default=10.0, help="of the long load")
    options = made.parse_args()
    found, figures = chosen(options), Figures()
    parts = options.part or [part for part in PARTS if part != "soak"]
    for _ in range(options.rounds):
        for name, program in found.items():
            with (
                tempfile.TemporaryDirectory() as root,
                model() as base_url,
                served(name, program, base_url=base_url, root=Path(root)) as server,
            ):
                asyncio.run(measure(server, figures, parts, quick=options.quick, minutes=options.minutes))
    show(figures.all(), found, as_json=options.json)


if __name__ == "__main__":
    main()
