"""The suite's parameter: one run of each test for each wire."""

import pytest

from tests.wire.adapters import ADAPTERS, Adapter


@pytest.fixture(params=ADAPTERS, ids=lambda adapter: adapter.wire)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    """The wire under test."""
    return request.param
