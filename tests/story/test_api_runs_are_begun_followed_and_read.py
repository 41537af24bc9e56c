"""`/v1/runs`: a run is begun, listed, followed and read; it outlives its client, and its events can be read again from anywhere."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from melete.testing import ScriptedModel
from tests.playing import PIXEL, play, wait_until, waits
from tests.served import Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with ScriptedModel(play) as model, served(tmp_path_factory.mktemp("person"), model) as found:
        yield found


def code(answer: httpx2.Response) -> str:
    """The code of an error."""
    return answer.json()["error"]["code"]


def listed(server: Served, **query: Any) -> list[dict[str, Any]]:
    """A listing of runs."""
    answer = server.client.get("/v1/runs", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_a_run_is_begun_followed_to_its_end_and_read(server: Served) -> None:
    begun = server.run("say Good morning.")
    events = server.events(f"/v1/runs/{begun['id']}/events")
    kinds = [event.event for event in events]
    assert kinds[0] == "run.started"
    assert kinds[-1] == "run.ended"
    assert {"message", "text.delta", "reply", "spent"} <= set(kinds)
    assert {event.data["run"] for event in events} == {begun["id"]}
    assert [event.data["type"] for event in events] == kinds
    status = server.status(begun["id"])
    assert (status["status"], status["stop"], status["text"]) == ("done", "done", "Good morning.")
    assert (status["session"], status["seq"], status["surface"]) == (begun["session"], int(events[-1].id[:-2]), "api")
    assert status["usage"]["output"] > 0


def test_a_run_goes_on_in_a_session_and_knows_what_was_said(server: Served) -> None:
    first = server.run("say One.")
    server.ended(first["id"])
    second = server.run("say Two.", session=first["session"])
    assert second["session"] == first["session"]
    server.ended(second["id"])
    assert server.model is not None
    assert "say One." in server.model.requests[-1].body.decode()
    assert [row["id"] for row in listed(server, session=first["session"])] == [second["id"], first["id"]]


def test_input_may_be_parts_with_pictures(server: Served) -> None:
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": "say What a picture."},
        {"type": "image_url", "image_url": {"url": PIXEL}},
    ]
    answer = server.client.post("/v1/runs", json={"input": parts})
    assert answer.status_code == 202, answer.text
    server.ended(answer.json()["id"])
    assert server.model is not None
    assert PIXEL in server.model.requests[-1].body.decode()


@pytest.mark.parametrize(
    ("input", "where"),
    [
        ("", "input"),
        (" \n", "input"),
        ([], "input"),
        ([{"type": "text", "text": " "}], "input"),
        ([{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}], "input[0].image_url"),
        ([{"type": "image_url", "image_url": {"url": "data:image/png;base64,%%"}}], "input[0].image_url"),
        ([{"type": "text", "text": "a"}] * 1001, "input"),
        ([{"type": "video"}], "input[0].type"),
        (7, "input"),
    ],
)
def test_input_that_cannot_be_is_refused_by_name(server: Served, input: Any, where: str) -> None:
    answer = server.client.post("/v1/runs", json={"input": input})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, where), answer.text


def test_what_is_asked_for_and_not_there_is_said(server: Served) -> None:
    nowhere = server.client.post("/v1/runs", json={"input": "hi", "session": "20200101-000000-0000000000"})
    assert (nowhere.status_code, code(nowhere)) == (404, "not_found")
    tools = server.client.post("/v1/runs", json={"input": "hi", "toolsets": ["no-such"]})
    assert (tools.status_code, code(tools)) == (422, "invalid_configuration")
    field = server.client.post("/v1/runs", json={"input": "hi", "colour": "red"})
    assert (field.status_code, code(field)) == (400, "invalid_request")
    for path in ("", "/events"):
        gone = server.client.get(f"/v1/runs/0123456789abcdef{path}")
        assert (gone.status_code, code(gone)) == (404, "not_found")
    for act, body in (("steer", {"text": "a"}), ("answer", {"question": "q", "value": "v"}), ("cancel", {})):
        gone = server.client.post(f"/v1/runs/0123456789abcdef/{act}", json=body)
        assert (gone.status_code, code(gone)) == (404, "not_found")


def test_a_run_that_is_over_is_read_again_and_takes_nothing_more(server: Served) -> None:
    begun = server.run("work 1")
    path = f"/v1/runs/{begun['id']}/events"
    first = server.events(path)
    facts = [event for event in first if event.id.endswith(".0")]
    again = server.events(path)
    assert [event.id for event in again if event.id.endswith(".0")] == [event.id for event in facts]
    middle = facts[len(facts) // 2].id
    behind = [event.id for event in server.events(path, after=middle) if event.id.endswith(".0")]
    assert behind == [event.id for event in facts][len(facts) // 2 + 1 :]
    by_query = server.client.get(path, params={"after": middle})
    assert f"id: {behind[0]}\n" in by_query.text
    for act, body in (("steer", {"text": "a"}), ("answer", {"question": "q", "value": "v"}), ("cancel", {})):
        late = server.client.post(f"/v1/runs/{begun['id']}/{act}", json=body)
        assert (late.status_code, code(late)) == (409, "run_over")


def test_a_reader_that_has_had_everything_is_told_so(server: Served) -> None:
    begun = server.run("say Short.")
    last = server.events(f"/v1/runs/{begun['id']}/events")[-1]
    done = server.client.get(f"/v1/runs/{begun['id']}/events", headers={"last-event-id": last.id})
    assert (done.status_code, done.content) == (204, b"")
    other = server.run("say More.", session=begun["session"])
    server.ended(other["id"])
    still = server.client.get(f"/v1/runs/{begun['id']}/events", headers={"last-event-id": last.id})
    assert still.status_code == 204


@pytest.mark.parametrize("last", ["999.0", "999", "999999999999999.999999999999999"])
def test_an_id_that_is_ahead_of_the_stream_is_refused(server: Served, last: str) -> None:
    begun = server.run("say Short.")
    server.ended(begun["id"])
    answer = server.client.get(f"/v1/runs/{begun['id']}/events", headers={"last-event-id": last})
    assert (answer.status_code, code(answer)) == (400, "event_id_ahead")


@pytest.mark.parametrize("last", ["x", "-1", "1.2.3", "1.", ".1", "1e3", "٣"])
def test_an_id_that_never_was_one_is_refused(server: Served, last: str) -> None:
    begun = server.run("say Short.")
    answer = server.client.get(f"/v1/runs/{begun['id']}/events", headers=[(b"last-event-id", last.encode())])
    assert (answer.status_code, code(answer)) == (400, "invalid_event_id")
    server.ended(begun["id"])


def test_a_run_that_goes_on_is_listed_refuses_a_second_and_is_cancelled(server: Served) -> None:
    begun = server.run("wait never")
    path = f"/v1/runs/{begun['id']}"
    with server.stream(f"{path}/events") as events:
        assert next(event for event in events if event.event == "tool.started")
        assert server.status(begun["id"])["status"] == "running"
        assert [row["id"] for row in listed(server, status="running")] == [begun["id"]]
        assert not listed(server, status="interrupted")
        busy = server.client.post("/v1/runs", json={"input": "me too", "session": begun["session"]})
        assert (busy.status_code, code(busy)) == (409, "session_busy")
        ahead = server.client.get(f"{path}/events", headers={"last-event-id": "500.1"})
        assert (ahead.status_code, code(ahead)) == (400, "event_id_ahead")
        steered = server.client.post(f"{path}/steer", json={"text": "hurry"}).json()
        assert steered["status"] == "queued"
        cancelled = server.client.post(f"{path}/cancel").json()
        assert cancelled["status"] == "accepted"
        kinds = [event.event for event in events]
    assert kinds[-1] == "run.ended"
    assert "cancel" in kinds
    status = server.status(begun["id"])
    assert (status["status"], status["stop"]) == ("cancelled", "cancelled")
    assert begun["id"] in [row["id"] for row in listed(server, status="cancelled")]
    assert not listed(server, status="running")


def test_a_question_is_answered_once_and_the_second_answer_is_lost(server: Served) -> None:
    begun = server.run("ask me")
    path = f"/v1/runs/{begun['id']}"
    with server.stream(f"{path}/events") as events:
        asked = next(event for event in events if event.event == "asked")
        question = asked.data["question"]["id"]
        assert server.status(begun["id"])["questions"][0]["id"] == question
        assert [row["id"] for row in listed(server, status="waiting")] == [begun["id"]]
        wrong = server.client.post(f"{path}/answer", json={"question": "q_other", "value": "once"}).json()
        assert wrong["status"] == "expired"
        first = server.client.post(f"{path}/answer", json={"question": question, "value": "once"}).json()
        second = server.client.post(f"{path}/answer", json={"question": question, "value": "deny"})
        kinds = [event.event for event in events]
    assert first["status"] == "accepted"
    assert (second.status_code, second.json()["status"]) == (200, "lost")
    assert kinds[-1] == "run.ended"
    assert server.status(begun["id"])["text"] == "Removed."


def test_a_run_outlives_its_client(server: Served) -> None:
    begun = server.run("wait outlived")
    with server.stream(f"/v1/runs/{begun['id']}/events") as events:
        next(event for event in events if event.event == "tool.started")
    waits(server.home)("outlived")
    assert server.ended(begun["id"])["text"] == "Waited for outlived."


def test_a_run_that_fails_says_so(server: Served) -> None:
    status = server.ended(server.run("fail now")["id"])
    assert (status["status"], status["stop"]) == ("failed", "failed")
    assert status["error"]
    assert status["id"] in [row["id"] for row in listed(server, status="failed")]


def test_listings_are_taken_in_pages(server: Served) -> None:
    session = server.run("say 0")["session"]
    for number in range(1, 5):
        wait_until(lambda: not listed(server, session=session, status="running"))
        server.run(f"say {number}", session=session)
    wait_until(lambda: not listed(server, session=session, status="running"))
    whole = listed(server, session=session)
    assert len(whole) == 5
    assert [row["started"] for row in whole] == sorted((row["started"] for row in whole), reverse=True)
    first = server.client.get("/v1/runs", params={"session": session, "limit": 2}).json()
    last = server.client.get("/v1/runs", params={"session": session, "limit": 2, "offset": 4}).json()
    assert (first["data"], first["has_more"]) == (whole[:2], True)
    assert (last["data"], last["has_more"]) == (whole[4:], False)
    assert not listed(server, session="20200101-000000-0000000000")
    for wrong in ({"limit": 0}, {"limit": 5000}, {"status": "asleep"}, {"colour": "red"}):
        assert server.client.get("/v1/runs", params=wrong).status_code == 400
