"""Hundreds of runs, readers that leave and sessions that are put away: files, tasks and sessions are given back."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from melete.testing import ScriptedModel
from tests.playing import play, wait_until
from tests.served import Served, served
from tests.story.homes import configure

RUNS = 500
KEPT = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("person")
    configure(home, server={"warm_sessions": KEPT})
    with ScriptedModel(play) as model, served(home, model) as found:
        yield found


def files(server: Served) -> int:
    """How many files the server has open, its connections left aside."""
    folder = Path(f"/proc/{server.process.pid}/fd")
    return sum(not _target(entry).startswith("socket:") for entry in folder.iterdir())


def _target(entry: Path) -> str:
    try:
        return os.readlink(entry)  # noqa: PTH115 - the name of a socket is no path
    except FileNotFoundError:
        return "socket:"


def run(server: Served, number: int) -> None:
    """A run that is followed to its end, left after an event, or never looked at."""
    begun = server.run(f"say {number}")
    if number % 3 == 0:
        server.ended(begun["id"])
    elif number % 3 == 1:
        server.events(f"/v1/runs/{begun['id']}/events", many=1)
    elif number % 5 == 0:
        server.events(f"/api/sessions/{begun['session']}/events", many=1)


def test_files_and_sessions_are_given_back(server: Served) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: run(server, number), range(60)))
        idle(server)
        before = files(server)
        list(pool.map(lambda number: run(server, number), range(RUNS)))
    idle(server)
    assert wait_until(lambda: files(server) <= before + 4), f"{files(server)} files are open, {before} were"
    health = server.client.get("/health").json()
    assert health["warm_sessions"] <= KEPT
    assert not server.client.get("/v1/runs", params={"status": "interrupted"}).json()["data"]
    assert len(server.client.get("/v1/runs", params={"limit": 1000, "status": "done"}).json()["data"]) == RUNS + 60


def idle(server: Served) -> None:
    """Wait until nothing goes on."""
    wait_until(lambda: server.client.get("/health").json()["runs"] == 0)
