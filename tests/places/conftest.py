"""What is counted round the tests of environments: nothing may be left behind."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from melete.testing import leaks
from tests.docker_engine import engine
from tests.places.modal import modal_thread
from tests.places.ssh import sshd

__all__ = ["engine", "modal_thread", "sshd"]


@pytest.fixture(autouse=True)
def nothing_left_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, given: object
) -> Iterator[None]:
    """Fail the test that leaves a process, namespace, mount, descriptor, thread or temporary file."""
    folder = Path(tmp_path_factory.mktemp("t"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    before = leaks.Held.now(folder)
    yield
    assert leaks.left_behind(before) == []


@pytest.fixture
def given(request: pytest.FixtureRequest) -> object:
    """What the environment under test needs to run, such as an engine or a server: started before anything is counted."""
    row = request.getfixturevalue("row")
    return request.getfixturevalue(row.fixture) if row.fixture else None
