"""The suite's parameter: one run of each test for each wire, and for the bridge to some of them."""

import pytest

from tests.wire.adapters import ADAPTERS, Adapter
from tests.wire.bridges import BRIDGES, excuse, shown


@pytest.fixture(params=(*ADAPTERS, *BRIDGES), ids=shown)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    """The wire under test."""
    if (mark := excuse(request.param, request.node.name)) is not None:
        request.applymarker(mark)
    return request.param
