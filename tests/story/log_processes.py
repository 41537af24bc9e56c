"""Starting the worker processes that the stories about the log are told with."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@asynccontextmanager
async def worker(role: str, state: Path, *more: str) -> AsyncGenerator[Process, None]:
    """A worker of tests.crash.workers; it is ended with the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-B", "-m", "tests.crash.workers", role, str(state), *more),
        cwd=ROOT,
        env=dict(os.environ),
        stdin=PIPE,
        stdout=PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_of(process: Process) -> str:
    """The next acknowledgement."""
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 20)).decode().strip()
