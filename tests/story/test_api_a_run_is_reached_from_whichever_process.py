"""What a terminal runs is watched, steered, answered and cancelled through the API, and the other way round."""

import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from melete.testing import ScriptedModel
from tests.playing import play, wait_until, waits
from tests.served import PATIENCE, Served, Terminal, served
from tests.story.cli import MELETE
from tests.story.cli import Terminal as Screen


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with ScriptedModel(play) as model, served(tmp_path_factory.mktemp("person"), model) as found:
        yield found


def command(server: Served, *words: str) -> dict[str, Any]:
    """Run a command of the same person to its end; what it printed as JSON."""
    done = subprocess.run(
        [*MELETE, *words, "--json"], capture_output=True, env=server.variables(), cwd=server.home, timeout=PATIENCE
    )
    return msgspec.json.decode(done.stdout)


def test_a_run_of_a_terminal_is_watched_and_steered(server: Served) -> None:
    terminal = Terminal(server, "run", "--json", "wait tabs")
    run = terminal.first("tool.started")["run"]
    path = f"/v1/runs/{run}"
    status = server.status(run)
    assert (status["status"], status["surface"]) == ("running", "cli")
    with server.stream(f"{path}/events") as events:
        watched = [next(events) for _ in range(3)]
        assert watched[0].event == "run.started"
        assert server.client.post(f"{path}/steer", json={"text": "use tabs"}).json()["status"] == "queued"
        waits(server.home)("tabs")
        watched += list(events)
    told = terminal.rest()
    facts = [event["seq"] for event in told if "sub" not in event and event.get("run") == run]
    assert [int(event.id[:-2]) for event in watched] == facts
    assert watched[-1].event == "run.ended"
    assert "steered" in [event.event for event in watched]
    assert server.status(run)["text"] == "Waited for tabs."
    assert server.model is not None
    assert "use tabs" in server.model.requests[-1].body.decode()


def test_a_run_of_a_terminal_is_cancelled(server: Served) -> None:
    terminal = Terminal(server, "run", "--json", "wait never")
    run = terminal.first("tool.started")["run"]
    assert server.client.post(f"/v1/runs/{run}/cancel").json()["status"] == "accepted"
    assert terminal.rest()[-1]["stop"] == "cancelled"
    assert terminal.process.returncode == 130
    assert server.status(run)["status"] == "cancelled"


def test_a_question_of_a_terminal_is_answered_through_the_api(server: Served) -> None:
    with Screen(["chat"], cwd=server.home, model=server.model, more=server.variables(TERM="xterm")) as screen:
        screen.type("ask me\r")
        screen.read_until("find build -delete")
        (waiting,) = wait_until(lambda: server.client.get("/v1/runs", params={"status": "waiting"}).json()["data"])
        (asked,) = server.status(waiting["id"])["questions"]
        question = asked["id"]
        assert asked["seconds"] == 60
        path = f"/v1/runs/{waiting['id']}/answer"
        typo = server.client.post(path, json={"question": question, "value": "onec"})
        assert (typo.status_code, typo.json()["error"]["code"]) == (422, "not_a_choice")
        assert ", ".join(asked["choices"]) in typo.text
        answered = server.client.post(path, json={"question": question, "value": "once"})
        assert answered.json()["status"] == "accepted"
        screen.read_until("Removed.")
        assert server.client.post(path, json={"question": question, "value": "deny"}).json()["status"] == "lost"
        screen.type("/exit\r")
        assert screen.end() == 0


def test_a_terminal_that_is_killed_leaves_a_run_that_is_told_as_interrupted(server: Served) -> None:
    terminal = Terminal(server, "run", "--json", "wait orphan")
    run = terminal.first("tool.started")["run"]
    with server.stream(f"/v1/runs/{run}/events") as events:
        next(events)
        terminal.process.send_signal(signal.SIGKILL)
        terminal.rest()
        kinds = [event.event for event in events]  # it ends although the run has no last fact
    waits(server.home)("orphan")  # what it had started goes on without it
    assert "run.ended" not in kinds
    assert server.status(run)["status"] == "interrupted"
    late = server.client.post(f"/v1/runs/{run}/cancel")
    assert (late.status_code, late.json()["error"]["code"]) == (409, "run_over")


def test_a_run_of_the_server_is_steered_and_cancelled_from_a_terminal(server: Served) -> None:
    begun = server.run("wait spaces")
    with server.stream(f"/v1/runs/{begun['id']}/events") as events:
        next(event for event in events if event.event == "tool.started")
        assert command(server, "sessions", "steer", begun["session"], "use spaces")["status"] == "queued"
        assert command(server, "sessions", "cancel", begun["session"])["status"] == "accepted"
        assert [event.event for event in events][-1] == "run.ended"
    assert server.status(begun["id"])["status"] == "cancelled"


def test_a_question_of_the_server_is_answered_from_a_terminal(server: Served) -> None:
    begun = server.run("ask me")
    with server.stream(f"/v1/runs/{begun['id']}/events") as events:
        next(event for event in events if event.event == "asked")
        words = [*MELETE, "sessions", "answer", begun["session"]]
        typo = subprocess.run(
            [*words, "onec"], capture_output=True, env=server.variables(), cwd=server.home, timeout=PATIENCE
        )
        assert (typo.returncode, b"say one of once, " in typo.stderr) == (2, True), typo.stderr
        answered = command(server, "sessions", "answer", begun["session"], "1")
        assert answered["status"] == "accepted"
        kinds = [event.event for event in events]
    assert kinds[-1] == "run.ended"
    late = server.client.post(f"/v1/runs/{begun['id']}/answer", json={"question": "q_other", "value": "deny"})
    assert (late.status_code, late.json()["error"]["code"]) == (409, "run_over")


def test_a_session_goes_from_the_terminal_to_the_api_and_back(server: Served) -> None:
    terminal = Terminal(server, "run", "--json", "say From the terminal.")
    session = terminal.rest()[-1]["session"]
    begun = server.run("say From the API.", session=session)
    assert server.ended(begun["id"])["text"] == "From the API."
    back = Terminal(server, "run", "--json", "-s", session, "say Back again.").rest()
    assert back[-1]["text"] == "Back again."
    assert server.model is not None
    body = server.model.requests[-1].body.decode()
    assert "From the terminal." in body
    assert "From the API." in body
    again = server.run("say Once more.", session=session)
    assert server.ended(again["id"])["text"] == "Once more."
    assert "Back again." in server.model.requests[-1].body.decode()


def test_what_a_terminal_runs_is_refused_to_another_run(server: Served) -> None:
    terminal = Terminal(server, "run", "--json", "wait busy")
    session = terminal.first("tool.started")["session"]
    busy = server.client.post("/v1/runs", json={"input": "me too", "session": session})
    assert (busy.status_code, busy.json()["error"]["code"]) == (409, "session_busy")
    waits(server.home)("busy")
    terminal.rest()
    begun = wait_until(lambda: _begun(server, session))
    server.ended(begun["id"])


def _begun(server: Served, session: str) -> dict[str, Any] | None:
    answer = server.client.post("/v1/runs", json={"input": "say Now.", "session": session})
    return answer.json() if answer.status_code == 202 else None
