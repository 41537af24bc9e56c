"""The shell that stays for file steps: when it does not answer the step goes another way, and nobody notices."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from melete.core.environment import Place, RunningProcess
from melete.environments.errands import Errands
from melete.environments.local import LocalEnvironment
from melete.environments.scripts import FILE_STEPS, ScriptedFiles

SCRIPTS = {"say": 'printf %s "$1"; exit "$2"', "wait": "echo on; sleep 300", "flood": "yes", "end": 'kill -9 "$$"'}
Test = Callable[[Errands, list[RunningProcess]], Awaitable[None]]


def run(folder: Path, test: Test) -> None:
    async def main() -> None:
        env = LocalEnvironment(Place(cwd=str(folder), variables={"PATH": os.environ["PATH"]}))
        started: list[RunningProcess] = []

        async def start(argv: Sequence[str]) -> RunningProcess:
            started.append(await env.start(argv))
            return started[-1]

        errands = Errands(start, SCRIPTS)
        try:
            async with asyncio.timeout(60):
                await test(errands, started)
        finally:
            await errands.aclose()
            await env.aclose()

    asyncio.run(main())


async def says(errands: Errands, words: str, code: int = 0) -> bool:
    done = await errands.run("say", [words, str(code)], timeout=20, limit=100_000)
    return done is not None and (done.output, done.code) == (words.encode(), code)


def test_one_shell_runs_all(tmp_path: Path) -> None:
    async def test(errands: Errands, started: list[RunningProcess]) -> None:
        for words in ("", "plain", "two\nlines\n", "'q' \"$x\" `y` \\", "ü" * 20_000):
            assert await says(errands, words, 7)
        assert len(started) == 1

    run(tmp_path, test)


def test_one_that_passes_its_deadline_is_ended_and_the_next_has_a_new_shell(tmp_path: Path) -> None:
    async def test(errands: Errands, started: list[RunningProcess]) -> None:
        done = await errands.run("wait", [], timeout=0.3, limit=1000)
        assert done is not None
        assert done.timed_out
        assert await says(errands, "on")
        assert len(started) == 2

    run(tmp_path, test)


def test_one_that_is_cancelled_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    async def test(errands: Errands, started: list[RunningProcess]) -> None:
        running = asyncio.ensure_future(errands.run("wait", [], timeout=60, limit=1000))
        while not started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        assert await says(errands, "on")

    run(tmp_path, test)


def test_a_shell_that_ends_or_says_too_much_is_no_answer(tmp_path: Path) -> None:
    async def test(errands: Errands, started: list[RunningProcess]) -> None:
        for name in ("end", "flood"):
            assert await errands.run(name, [], timeout=20, limit=100_000) is None
        assert await says(errands, "on")
        os.kill(started[-1].pid, signal.SIGKILL)
        await started[-1].wait()
        assert await errands.run("say", ["x", "0"], timeout=20, limit=100) is None
        assert await says(errands, "on")

    run(tmp_path, test)


def test_whoever_comes_meanwhile_goes_another_way(tmp_path: Path) -> None:
    async def test(errands: Errands, started: list[RunningProcess]) -> None:
        running = asyncio.ensure_future(errands.run("wait", [], timeout=60, limit=1000))
        await asyncio.sleep(0)
        before = time.monotonic()
        assert await errands.run("say", ["x", "0"], timeout=20, limit=100) is None
        assert time.monotonic() - before < 20
        running.cancel()
        await asyncio.wait([running])

    run(tmp_path, test)


class Files(ScriptedFiles, LocalEnvironment):
    """File steps of this machine by a shell that stays."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Place(cwd=str(folder), variables={"PATH": os.environ["PATH"]}))
        self.shells: list[RunningProcess] = []
        self.errands = Errands(self._shell, FILE_STEPS)

    async def _shell(self, argv: Sequence[str]) -> RunningProcess:
        self.shells.append(await self.start(argv))
        return self.shells[-1]


def test_files_are_the_same_when_the_shell_dies_between_and_many_ask(tmp_path: Path) -> None:
    async def main() -> None:
        env = Files(tmp_path)
        (tmp_path / "file").write_bytes(bytes(range(256)) * 5000)
        try:
            for _ in range(3):
                assert await env.read("file") == bytes(range(256)) * 5000
                await env.shells[-1].kill()
            found = await asyncio.gather(*(env.stat("file") for _ in range(8)))
            assert {stat and stat.size for stat in found} == {1_280_000}
        finally:
            await env.aclose()

    asyncio.run(main())
