"""The row of `modal`: its own library against a service with its API on loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from melete.core.environment import Environment, Place
from melete.core.places import ModalOptions
from melete.environments.modal import Modal
from melete.testing import suites
from tests.places.row import Row


@pytest.fixture(scope="session")
def modal_thread() -> None:
    """Start the thread of Modal's library, which lives as long as the process."""
    sdk = import_module("modal")
    asyncio.run(sdk.Client("http://127.0.0.1:9", 1, ("id", "secret")).close.aio())


@asynccontextmanager
async def _open(folder: Path, _: Any) -> AsyncIterator[Modal]:
    fake = import_module("tests.fake_modal")
    async with fake.serving(folder / "disk") as service:
        options = ModalOptions(
            mode="managed",
            gateway=service.url,
            workspace=str(folder / "disk" / "work"),
            variables=tuple(suites.VARIABLES),
            keep=False,
            sync=False,
        )
        secrets = {"MODAL_GATEWAY_KEY": ":".join(fake.TOKEN)}
        place = Modal(
            Place(variables=suites.VARIABLES, options=options, key=token_hex(6), secret=lambda n: secrets.get(n, ""))
        )
        _services[place] = service
        try:
            yield place
        finally:
            del _services[place]
            await place.aclose()


_services: dict[Environment, Any] = {}


async def _cut(place: Environment, _: Any) -> None:
    """End the sandbox at the service, as its owner can on the web page of the service."""
    _services[place].end_all()


ROW = Row(
    name="modal",
    open=_open,
    fixture="modal_thread",
    packages=("modal",),
    megabytes_of_file=20,
    megabytes_of_output=300,
    cut=_cut,
)
