"""The suite's parameter: one run of each test for each wire, and for the bridge to some of them."""

import gc
import warnings
from collections.abc import Iterator

import pytest

from tests.wire.adapters import ADAPTERS, Adapter
from tests.wire.bridges import BRIDGES, excuse, shown


@pytest.fixture(params=(*ADAPTERS, *BRIDGES), ids=shown)
def adapter(request: pytest.FixtureRequest) -> Iterator[Adapter]:
    """The wire under test."""
    mark = excuse(request.param, request.node.name)
    if mark is None:
        yield request.param
        return
    request.applymarker(mark)
    yield request.param
    with (
        warnings.catch_warnings()
    ):  # a test that has to fail leaves the vendor's library no time to close what it opened
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
