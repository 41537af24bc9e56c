"""`melete learn bench`: the small world of benchmarks/evoworld, in which practice pays, run on this machine. Composition root.

The harness comes with the package, or lies beside the source. It is a program of its own, which starts this one as people do.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from melete.core.errors import MeleteError, UsageError

PACKAGE = Path(__file__).resolve().parents[1]
HARNESS = Path("benchmarks", "evoworld", "__main__.py")
ARMS = ("none", "learning", "oracle")
KEYS = (
    "calls_per_task", "success", "corrections", "wrong_facts", "junk", "secrets_stored", "poison_obeyed", "user_edits_kept",
    "review_token_share",
)  # fmt: skip
"""The figures that every measurement of learning ends with."""
LONGEST_LINE = 1 << 20
Row = dict[str, Any]


def harness() -> Path:
    """The folder from which `python -m benchmarks.evoworld` runs; raises UsageError where neither package nor checkout has it."""
    for folder in (PACKAGE / "_bench", PACKAGE.parents[1]):
        if (folder / HARNESS).is_file():
            return folder
    raise UsageError("the benchmark is not part of this installation", next="install Melete from a wheel or a checkout")


class Bench:
    """Arms of the world, each in a folder of its own below `folder`; one that is there already goes on where it stopped."""

    def __init__(self, folder: Path, *, tasks: int, sessions: float, seed: int, mode: str) -> None:
        program = Path(sys.executable).with_name("melete")
        if not program.is_file():
            raise UsageError(f"the benchmark starts {program}, which is not there", next="install Melete once more")
        self._folder = folder
        self._harness = harness()
        sizes = {"tasks": tasks, "sessions": sessions, "seed": seed, "mode": mode, "melete": program}
        self._options = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]

    async def run(self, told: Callable[[str, Row], None]) -> dict[str, Row]:
        """The figures of each arm, all run side by side; `told` hears of each task. Raises MeleteError when one fails."""
        try:
            async with asyncio.TaskGroup() as group:
                arms = {arm: group.create_task(self._arm(arm, told)) for arm in ARMS}
        except* MeleteError as failed:
            raise failed.exceptions[0] from None
        return {arm: task.result() for arm, task in arms.items()}

    async def picture(self) -> Path | None:
        """The curves of the arms, which have run, in one PNG; None where matplotlib is missing."""
        first, *others = (str(self._folder / arm) for arm in ARMS)
        await self._rows(["--arm", ARMS[0], "--out", first, "--beside", *others], lambda _: None)
        path = self._folder / ARMS[0] / "curve.png"
        return path if path.is_file() else None

    async def _arm(self, arm: str, told: Callable[[str, Row], None]) -> Row:
        options = ["--arm", arm, "--out", str(self._folder / arm), "--progress"]
        return await self._rows(options, lambda row: told(arm, row))

    async def _rows(self, options: Sequence[str], told: Callable[[Row], None]) -> Row:
        """Run the harness; what it says of tasks is told, what it says at last is returned."""
        command = [sys.executable, "-m", "benchmarks.evoworld", *self._options, *options, "--json"]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=self._harness, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, limit=LONGEST_LINE, start_new_session=True
        )  # fmt: skip
        try:
            async with asyncio.TaskGroup() as group:
                lines = group.create_task(_read(process.stdout, told))
                complaints = group.create_task(process.stderr.read() if process.stderr else asyncio.sleep(0, b""))
            status = await process.wait()
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGINT)
                await process.wait()
        if status:
            said = complaints.result().decode(errors="replace").strip()[-1000:]
            raise MeleteError(
                f"the benchmark ended with status {status}: {said}", next="what was done is kept with --keep"
            )
        return lines.result()


async def _read(stream: asyncio.StreamReader | None, told: Callable[[Row], None]) -> Row:
    last: Row = {}
    async for line in stream or asyncio.StreamReader():
        row: Row = msgspec.json.decode(line)
        if "number" in row:
            told(row)
        else:
            last = row
    return last
