"""Where commands run: the first command, each further one over the bare call, bursts and files, for all that work here.

`python -m benchmarks environments [NAME …]`. The bare call is the same program started by this process. `docker` uses the
engine that answers or starts one (as root), `ssh` a server of its own on loopback.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from secrets import token_hex

from tests import docker_engine, sshd_server

from melete.core.environment import Environment, Place
from melete.core.places import SandboxOptions
from melete.environments.docker import Docker
from melete.environments.local import LocalEnvironment
from melete.environments.sandbox import Sandbox
from melete.environments.ssh import Ssh

PAUSE = 0.3
BURST = 8
BIG = 50_000_000
Opening = Callable[[Path], contextlib.AbstractContextManager[Environment]]


def variables() -> dict[str, str]:
    """What commands see."""
    return {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}


@contextlib.contextmanager
def local(folder: Path) -> Iterator[Environment]:
    """This machine."""
    yield LocalEnvironment(Place(cwd=str(folder), variables=variables()))


@contextlib.contextmanager
def sandbox(folder: Path) -> Iterator[Environment]:
    """Behind walls."""
    yield Sandbox(
        Place(cwd=str(folder), variables=variables(), options=SandboxOptions(network="off"), key=token_hex(6))
    )


@contextlib.contextmanager
def docker(folder: Path) -> Iterator[Environment]:
    """A container."""
    with docker_engine.running() as engine:
        docker_engine.with_image(engine)
        yield Docker(engine.place(folder, key=token_hex(6)))


@contextlib.contextmanager
def ssh(folder: Path) -> Iterator[Environment]:
    """A server on loopback."""
    with tempfile.TemporaryDirectory() as keys, sshd_server.running(Path(keys) / "server") as server:
        options = server.options(cwd=str(folder))
        yield Ssh(Place(variables={**variables(), "HOME": str(server.home)}, options=options, key=token_hex(6)))


STARTS = {"local": 8, "sandbox": 8}
"""How many further environments are begun for the median of the first command; the others are too slow to begin."""
OPENINGS: Mapping[str, Opening] = {"local": local, "sandbox": sandbox, "docker": docker, "ssh": ssh}


async def took(doing: Awaitable[object]) -> float:
    """Milliseconds."""
    before = time.perf_counter()
    await doing
    return (time.perf_counter() - before) * 1000


def bare(rounds: int) -> float:
    """The median of starting `true` from here, in milliseconds."""
    taken: list[float] = []
    for _ in range(rounds):
        before = time.perf_counter()
        subprocess.run(["true"], stdin=subprocess.DEVNULL, capture_output=True, check=True)
        taken.append((time.perf_counter() - before) * 1000)
    return statistics.median(taken)


async def figures(env: Environment, rounds: int) -> dict[str, float]:
    """What one environment takes."""
    found = {"first command": await took(env.exec(["true"]))}
    apart: list[float] = []
    for _ in range(rounds):
        await asyncio.sleep(PAUSE)
        apart.append(await took(env.exec(["true"])))
    at_once = [await took(env.exec(["true"])) for _ in range(rounds)]
    floor = bare(rounds)
    found["over the bare call, with pauses"] = statistics.median(apart) - floor
    found["over the bare call, one after another"] = statistics.median(at_once) - floor
    found[f"{BURST} at the same moment"] = await took(asyncio.gather(*(env.exec(["true"]) for _ in range(BURST))))
    await asyncio.sleep(PAUSE)
    found["write and read a small file"] = await took(env.write("small", b"x")) + await took(env.read("small"))
    found[f"write {BIG // 1_000_000} MB"] = await took(env.write("big", bytes(BIG)))
    found[f"read {BIG // 1_000_000} MB"] = await took(env.read("big"))
    found["a deadline of 100 ms"] = await took(env.exec(["sleep", "60"], timeout=0.1))
    found["close"] = await took(env.aclose())
    return found


def measured(name: str, rounds: int) -> dict[str, float]:
    """The figures of an environment, in milliseconds."""

    async def run(env: Environment) -> dict[str, float]:
        try:
            return await figures(env, rounds)
        finally:
            await env.aclose()

    async def start(env: Environment) -> float:
        try:
            return await took(env.exec(["true"]))
        finally:
            await env.aclose()

    starts: list[float] = []
    for _ in range(STARTS.get(name, 0)):
        with tempfile.TemporaryDirectory() as root, OPENINGS[name](Path(root)) as env:
            starts.append(asyncio.run(start(env)))
    with tempfile.TemporaryDirectory() as root, OPENINGS[name](Path(root)) as env:
        found = asyncio.run(run(env))
    return found | {"first command": statistics.median([*starts, found["first command"]])}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(OPENINGS), metavar="NAME", help=", ".join(OPENINGS))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    found = {name: measured(name, options.rounds) for name in options.names}
    if options.json:
        json.dump(found, sys.stdout, indent=2)
        return
    what = list(dict.fromkeys(key for row in found.values() for key in row))
    wide = max(map(len, what))
    print(f"{'milliseconds':<{wide}}" + "".join(f"{name:>10}" for name in found))
    for key in what:
        print(f"{key:<{wide}}" + "".join(f"{row.get(key, float('nan')):>10.1f}" for row in found.values()))


if __name__ == "__main__":
    main()
