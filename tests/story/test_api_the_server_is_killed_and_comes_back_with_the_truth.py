"""The server dies in the middle of a run, is started again, and tells what happened: nothing lost, nothing done twice."""

import signal
from pathlib import Path
from typing import Any

import pytest

from melete.testing import ScriptedModel
from tests.playing import play, wait_until, waits
from tests.served import PATIENCE, Sent, Served, Terminal, served
from tests.story.homes import configure


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "person"
    made.mkdir()
    return made


def cut_off(server: Served, prompt: str, at: str) -> tuple[dict[str, Any], list[Sent]]:
    """A run whose server is killed when an event of a type has come: what was answered, and the events so far."""
    begun = server.run(prompt)
    read: list[Sent] = []
    with server.stream(f"/v1/runs/{begun['id']}/events") as events:
        for event in events:
            read.append(event)
            if event.event == at:
                break
        server.kill()
    return begun, read


def goes_on_as(server: Served, run: str) -> str:
    """The run that goes on with one that was cut off."""
    return wait_until(lambda: server.status(run)["resumed_as"], "the resumed run")


def calls(server: Served, name: str) -> int:
    """How often a `wait NAME` was called."""
    return len((server.home / f"{name}.calls").read_text().splitlines())


def facts(events: list[Sent]) -> list[Sent]:
    return [event for event in events if event.id.endswith(".0")]


def test_a_run_that_was_cut_off_has_an_end_and_goes_on_as_another(home: Path) -> None:
    with ScriptedModel(play) as model:
        with served(home, model) as server:
            begun, read = cut_off(server, "wait killed", "tool.started")
        waits(home)("killed")  # the program that was begun goes on by itself
        with served(home, model) as server:
            path = f"/v1/runs/{begun['id']}/events"
            rest = server.events(path, after=read[-1].id)
            assert rest[-1].event == "run.ended"
            assert [int(event.id[:-2]) for event in facts(read) + rest] == list(
                range(2, 2 + len(facts(read)) + len(rest))
            )
            unknown = next(event for event in rest if event.event == "tool.ended")
            assert unknown.data["outcome"] == "unknown"
            cut = server.status(begun["id"])
            assert (cut["status"], cut["stop"]) == ("failed", "failed")
            assert "server was stopped" in cut["error"]
            new = goes_on_as(server, begun["id"])
            status = server.ended(new)
            assert (status["status"], status["text"], status["resumes"]) == ("done", "Waited for killed.", begun["id"])
            assert status["session"] == begun["session"]
            started = server.events(f"/v1/runs/{new}/events", many=1)[0]
            assert started.data["about"]["resumes"] == begun["id"]
            assert [row["id"] for row in server.client.get("/v1/runs").json()["data"]] == [new, begun["id"]]
            assert calls(server, "killed") == 1
            assert "outcome is unknown" in model.requests[-1].body.decode()
            again = server.events(path)
            assert [event.id for event in again] == [event.id for event in facts(read) + rest]


def test_a_run_that_was_cut_off_while_its_model_wrote_goes_on(home: Path) -> None:
    with ScriptedModel(play) as model:
        with served(home, model) as server:
            begun, read = cut_off(server, "slow 0.02", "text.delta")
        assert not read[-1].id.endswith(".0")
        with served(home, model) as server:
            rest = server.events(f"/v1/runs/{begun['id']}/events", after=read[-1].id)
            assert [event.event for event in rest] == ["run.ended"]
            status = server.ended(goes_on_as(server, begun["id"]))
            assert status["text"].startswith("Sing, goddess")


def test_its_limits_its_tools_and_its_model_are_kept(home: Path) -> None:
    with ScriptedModel(play) as model:
        with served(home, model) as server:
            wanted: dict[str, Any] = {"max_steps": 7, "toolsets": ["file"], "model": "other-model", "budget_usd": 3.5}
            begun = server.run("slow 0.5", **wanted)
            wait_until(lambda: len(model.requests) == 1)
            server.kill()
        with served(home, model) as server:
            new = goes_on_as(server, begun["id"])
            first, second = (server.events(f"/v1/runs/{run}/events", many=1)[0].data for run in (begun["id"], new))
            server.client.post(f"/v1/runs/{new}/cancel")
            server.ended(new)
    assert (first["model"], first["max_steps"]) == (second["model"], second["max_steps"]) == ("other-model", 7)
    assert {"toolsets": "file", "budget_usd": "3.5"}.items() <= second["about"].items()
    one, other = (request.json for request in model.requests[:2])
    assert one["tools"] == other["tools"]
    assert one["model"] == other["model"] == "other-model"


def test_where_that_is_wanted_it_is_only_reported(home: Path) -> None:
    configure(home, server={"interrupted": "report"})
    with ScriptedModel(play) as model:
        with served(home, model) as server:
            begun, read = cut_off(server, "wait reported", "tool.started")
        waits(home)("reported")
        with served(home, model) as server:
            rest = server.events(f"/v1/runs/{begun['id']}/events", after=read[-1].id)
            assert rest[-1].event == "run.ended"
            cut = server.status(begun["id"])
            assert (cut["status"], cut["resumed_as"]) == ("failed", None)
            asked = len(model.requests)
            later = server.run("say Hello again.", session=begun["session"])
            assert server.ended(later["id"])["text"] == "Hello again."
            assert len(model.requests) == asked + 1


def test_what_ends_the_server_each_time_is_left_alone_in_the_end(home: Path) -> None:
    with ScriptedModel(play) as model:
        with served(home, model) as server:
            run = server.run("stall")["id"]
            wait_until(lambda: len(model.requests) == 1)
            server.kill()
        for number in (2, 3):
            with served(home, model) as server:
                run = goes_on_as(server, run)
                wait_until(lambda number=number: len(model.requests) == number)
                server.kill()
        with served(home, model) as server:
            wait_until(lambda: server.status(run)["status"] == "failed")
            assert server.status(run)["resumed_as"] is None
            assert not server.client.get("/v1/runs", params={"status": "running"}).json()["data"]
            assert len(server.client.get("/v1/runs").json()["data"]) == 3
        with served(home, model) as server:
            assert server.status(run)["resumed_as"] is None
        assert len(model.requests) == 3


def test_a_question_that_was_open_expires_and_may_be_asked_again(home: Path) -> None:
    with ScriptedModel(play) as model:
        with served(home, model) as server:
            begun, read = cut_off(server, "ask me", "asked")
            question = read[-1].data["question"]["id"]
        with served(home, model) as server:
            rest = server.events(f"/v1/runs/{begun['id']}/events", after=read[-1].id)
            assert [(e.data["question"], e.data["status"]) for e in rest if e.event == "answered"] == [
                (question, "expired")
            ]
            server.ended(goes_on_as(server, begun["id"]))
            late = server.client.post(f"/v1/runs/{begun['id']}/answer", json={"question": question, "value": "once"})
            assert late.status_code == 409


def test_a_session_that_a_terminal_has_taken_since_is_left_to_it(home: Path) -> None:
    with ScriptedModel(play) as model:
        with served(home, model) as server:
            begun, _ = cut_off(server, "slow 0.5", "text.delta")
        terminal = Terminal(server, "run", "--json", "-s", begun["session"], "wait owned")
        terminal.first("tool.started")
        with served(home, model) as server:
            # another run that is seen to, so that all has been looked at
            other = server.run("say Something else.")
            server.ended(other["id"])
            assert server.status(begun["id"])["status"] == "interrupted"
            events = server.events(f"/v1/runs/{begun['id']}/events")
            assert events[-1].event != "run.ended"
            waits(home)("owned")
            told = terminal.rest()
            assert (terminal.process.returncode, told[-1]["text"]) == (0, "Waited for owned.")
            assert server.status(begun["id"])["resumed_as"] is None


def test_a_server_that_is_told_to_stop_lets_what_goes_on_end(home: Path) -> None:
    with ScriptedModel(play) as model, served(home, model) as server:
        begun = server.run("wait drained")
        with server.stream(f"/v1/runs/{begun['id']}/events") as events:
            next(event for event in events if event.event == "tool.started")
            server.send(signal.SIGTERM)
            refused = wait_until(lambda: _refused(server))
            assert refused.json()["error"]["code"] == "stopping"
            waits(home)("drained")
            last = list(events)[-1]
        assert (last.event, last.data["stop"], last.data["text"]) == ("run.ended", "done", "Waited for drained.")
        server.client.close()
        assert server.process.wait(PATIENCE) == 128 + signal.SIGTERM


def _refused(server: Served) -> Any:
    answer = server.client.post("/v1/runs", json={"input": "say More?"})
    return answer if answer.status_code == 503 else None


def test_what_does_not_end_in_time_is_cancelled_with_its_results_stored(home: Path) -> None:
    configure(home, server={"drain_seconds": 0.2})
    with ScriptedModel(play) as model:
        with served(home, model) as server:
            begun = server.run("wait never")
            with server.stream(f"/v1/runs/{begun['id']}/events") as events:
                next(event for event in events if event.event == "tool.started")
                server.send(signal.SIGTERM)
                kinds = [(event.event, event.data.get("outcome")) for event in events]
            assert kinds[-2:] == [("tool.ended", "cancelled"), ("run.ended", None)]
            server.client.close()
            assert server.process.wait(PATIENCE) == 128 + signal.SIGTERM
        with served(home, model) as server:
            status = server.status(begun["id"])
            assert (status["status"], status["resumed_as"]) == ("cancelled", None)
