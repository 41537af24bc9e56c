"""The row of `sandbox` with its second kind of walls: a program that walls itself in."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

from melete.core.environment import Place
from melete.core.places import SandboxOptions
from melete.environments.sandbox import Sandbox
from melete.testing import suites
from tests.places.row import Row


@asynccontextmanager
async def _open(folder: Path, _: Any) -> AsyncIterator[Sandbox]:
    variables = {"PATH": os.environ["PATH"], **suites.VARIABLES}
    options = SandboxOptions(network="off", walls="landlock")
    place = Sandbox(Place(cwd=str(folder), variables=variables, options=options, key=token_hex(6)))
    try:
        yield place
    finally:
        await place.aclose()


async def _cut(_place: Sandbox, _: Any) -> None:
    """Kill the program inside."""
    await asyncio.sleep(0)
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:  # it ended while we looked
            continue
        if parent == str(os.getpid()) and b"\0landlock\0" in line:
            os.kill(int(entry.name), signal.SIGKILL)


ROW = Row(name="landlock", open=_open, cut=_cut)
