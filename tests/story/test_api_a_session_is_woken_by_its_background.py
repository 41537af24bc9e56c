"""A session that `melete serve` keeps: what its background processes have to say begins a run by itself, also after a crash."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from melete.testing import Call, Reply, Say, ScriptedModel
from tests.served import Sent, Served, served
from tests.story.homes import configure


def work(body: dict[str, Any], index: int) -> Reply | str:
    """A model that does what the last words of a person or of a process ask for."""
    last = body["messages"][-1]
    text = str(last["content"])
    if last["role"] == "tool":
        return Say(text=f"Result: {text}")
    if text.startswith("start "):
        told = {"background": True, "notify_on_complete": True}
        return Call(name="terminal", arguments={"command": text.removeprefix("start "), **told})
    if text.startswith("run "):
        return Call(name="terminal", arguments={"command": text.removeprefix("run ")})
    if text.startswith("process "):
        return Call(name="process", arguments=msgspec.json.decode(text.removeprefix("process ")))
    return Say(text=f"Heard: {text}")


def runs(events: Iterator[Sent], many: int) -> list[Sent]:
    """The events of a session up to the end of so many runs."""
    found: list[Sent] = []
    for event in events:
        found.append(event)
        many -= event.event == "run.ended"
        if not many:
            return found
    raise AssertionError(f"the stream ended: {[event.event for event in found]}")


def of(events: list[Sent], kind: str) -> list[Any]:
    """The data of the events of a type."""
    return [event.data for event in events if event.event == kind]


def test_a_run_begins_by_itself_with_surface_and_owner_kept(tmp_path: Path) -> None:
    with ScriptedModel(work) as model, served(tmp_path / "person", model) as server:
        key = server.add_key("ann")
        begun = server.run("start sleep 0.5; exit 3", key=key)
        with server.stream(f"/api/sessions/{begun['session']}/events", key=key) as events:
            found = runs(events, 2)
        first, second = of(found, "run.started")
        assert first["about"].get("woken") is None
        assert second["about"]["woken"] == "processes"
        assert second["surface"] == first["surface"] == "api"
        assert "ended with exit code 3" in of(found, "run.ended")[1]["text"]
        assert server.status(second["run"], key=key)["status"] == "done"
        other = server.add_key("bob")
        denied = server.client.get(f"/v1/runs/{second['run']}", headers={"authorization": f"Bearer {other}"})
        assert denied.status_code == 404


def test_what_ends_while_a_run_goes_on_is_read_by_that_run(tmp_path: Path) -> None:
    with ScriptedModel(work) as model, served(tmp_path / "person", model) as server:
        begun = server.run("start true")
        server.ended(begun["id"])
        with server.stream(f"/api/sessions/{begun['session']}/events") as events:
            found = runs(events, 1)
            if len(of(found, "message")) == 1:  # it ended only after the run had
                found += runs(events, 1)
        assert "ended with exit code 0" in of(found, "run.ended")[-1]["text"]
        time.sleep(0.5)
        listed = server.client.get("/v1/runs", params={"session": begun["session"]}).json()["data"]
        assert len(listed) == len(of(found, "run.started"))


def test_too_many_runs_are_waited_for(tmp_path: Path) -> None:
    configure_home(tmp_path / "person", server={"max_runs": 1})
    with ScriptedModel(work) as model, served(tmp_path / "person", model) as server:
        begun = server.run("start sleep 0.5; exit 3")
        server.ended(begun["id"])
        other = server.run("run sleep 2")
        with server.stream(f"/api/sessions/{begun['session']}/events") as events:
            found = runs(events, 2)
        assert "ended with exit code 3" in of(found, "run.ended")[1]["text"]
        assert of(found, "run.started")[1]["at"] > server.status(other["id"])["ended"]


def test_after_a_crash_the_records_say_what_is_true(tmp_path: Path) -> None:
    home = tmp_path / "person"
    with ScriptedModel(work) as model:
        with served(home, model) as server:
            begun = server.run("start echo here; exec sleep 300")
            server.ended(begun["id"])
            until_kept(home, b"here")
            server.kill()
        with served(home, model) as server:
            again = ask(server, begun["session"], '{"action":"list"}')
            assert '"session_id":"p1"' in again
            assert '"status":"running"' in again
            assert "its agent ended before it" in again
            assert '"output":"here' in ask(server, begun["session"], '{"action":"log","session_id":"p1"}')
            assert "nothing can be sent" in ask(
                server, begun["session"], '{"action":"write","session_id":"p1","data":"x"}'
            )
            assert '"status":"killed"' in ask(server, begun["session"], '{"action":"kill","session_id":"p1"}')
            found = server.events(f"/v1/runs/{server.run('start true', session=begun['session'])['id']}/events")
            assert '"session_id":"p2"' in str(of(found, "tool.ended"))


@pytest.mark.needs("bwrap")
def test_what_ended_with_its_sandbox_says_so(tmp_path: Path) -> None:
    home = tmp_path / "person"
    with ScriptedModel(work) as model:
        with served(home, model, env={"MELETE_ENV": "sandbox"}) as server:
            begun = server.run("start echo here; exec sleep 300")
            server.ended(begun["id"])
            until_kept(home, b"here")
            server.kill()
        with served(home, model, env={"MELETE_ENV": "sandbox"}) as server:
            told = ask(server, begun["session"], '{"action":"poll","session_id":"p1"}')
            assert '"status":"killed"' in told
            assert "here" in told


def ask(server: Served, session: str, arguments: str) -> str:
    """What the process tool answers in a run of its own, as all texts of that run."""
    run = server.run(f"process {arguments}", session=session)["id"]
    return str(of(server.events(f"/v1/runs/{run}/events"), "reply")).replace("\\\\", "")


def until_kept(home: Path, text: bytes) -> None:
    """Wait until the output of the first process is on the disk."""
    folder = home / ".melete" / "state" / "processes"
    until = time.monotonic() + 30
    while not any(text in path.read_bytes() for path in folder.glob("*/p1.log")):
        assert time.monotonic() < until
        time.sleep(0.05)


def configure_home(home: Path, **settings: Any) -> None:
    """Settings of a person whose home does not exist yet."""
    home.mkdir()
    configure(home, **settings)
