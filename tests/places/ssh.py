"""The row of `ssh`: a real server on loopback."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex

import pytest

from melete.core.environment import Environment, Place
from melete.environments.ssh import Ssh
from melete.testing import suites
from tests.places.row import Row
from tests.sshd_server import Sshd, running


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A server for the tests of a module."""
    with running(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@asynccontextmanager
async def _open(folder: Path, given: Sshd) -> AsyncIterator[Ssh]:
    options = given.options(cwd=str(folder), variables=tuple(suites.VARIABLES))
    variables = {"PATH": os.environ["PATH"], "HOME": str(given.home), **suites.VARIABLES}
    place = Ssh(Place(variables=variables, options=options, key=token_hex(6)))
    try:
        yield place
    finally:
        await place.aclose()


async def _cut(_: Environment, given: Sshd) -> None:
    """Break the connection, as a network that goes away does."""
    await asyncio.sleep(0)
    given.cut()


ROW = Row(name="ssh", open=_open, fixture="sshd", needs=("ssh", "sshd"), cut=_cut)
