"""The row of `apptainer`: commands behind a program that takes its command line."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

from melete.core.environment import Environment, Place
from melete.core.places import ApptainerOptions
from melete.environments.apptainer import Apptainer
from melete.testing import suites
from tests.apptainer_stub import Stub
from tests.places.row import Row


@asynccontextmanager
async def _open(folder: Path, _: Any) -> AsyncIterator[Apptainer]:
    stub = Stub(folder.parent / f"stub-{token_hex(4)}")
    options = ApptainerOptions(image="image.sif", variables=tuple(suites.VARIABLES))
    variables = {"PATH": stub.path, **suites.VARIABLES}
    place = Apptainer(Place(cwd=str(folder), variables=variables, options=options, key=token_hex(6)))
    _stubs[place] = stub
    try:
        yield place
    finally:
        del _stubs[place]
        await place.aclose()
    assert stub.instances() == []


_stubs: dict[Environment, Stub] = {}


async def _cut(place: Environment, _: Any) -> None:
    """Stop the instance from outside, as its owner can."""
    stub = _stubs[place]
    for name in stub.instances():
        await asyncio.to_thread(stub.stop, name)


ROW = Row(name="apptainer", open=_open, megabytes_of_file=20, megabytes_of_output=300, cut=_cut)
