"""The row of `sandbox`: this machine behind walls."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

from melete.core.environment import Environment, Place
from melete.core.places import SandboxOptions
from melete.environments.sandbox import Sandbox
from melete.testing import suites
from tests.places.row import Row

TEMP_MB = 32


@asynccontextmanager
async def _open(folder: Path, _: Any) -> AsyncIterator[Sandbox]:
    variables = {"PATH": os.environ["PATH"], **suites.VARIABLES}
    options = SandboxOptions(network="off", temp_mb=TEMP_MB)
    place = Sandbox(Place(cwd=str(folder), variables=variables, options=options, key=token_hex(6)))
    try:
        yield place
    finally:
        await place.aclose()


async def _cut(place: Environment, _: Any) -> None:
    """Kill the bubblewrap that this sandbox runs in."""
    await asyncio.sleep(0)
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            argv = (entry / "cmdline").read_bytes().split(b"\0")
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:  # it ended while we looked
            continue
        if parent == str(os.getpid()) and argv[0].endswith(b"bwrap") and os.fsencode(place.cwd) in argv:
            os.kill(int(entry.name), signal.SIGKILL)


ROW = Row(name="sandbox", open=_open, needs=("bwrap",), cut=_cut, small="/tmp")
