"""The row of `local`: this machine itself."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from melete.core.environment import Place
from melete.environments.local import LocalEnvironment
from melete.testing import suites
from tests.places.row import Row


@asynccontextmanager
async def _open(folder: Path, _: Any) -> AsyncIterator[LocalEnvironment]:
    variables = {"PATH": os.environ["PATH"], **suites.VARIABLES}
    place = LocalEnvironment(Place(cwd=str(folder), variables=variables))
    try:
        yield place
    finally:
        await place.aclose()


ROW = Row(name="local", open=_open)
