"""`GET /api/sessions/{id}/events`: one stream of all that happens in a session, from any process, resumable and without an end."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from melete.testing import ScriptedModel
from tests.playing import play, waits
from tests.served import Sent, Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with ScriptedModel(play) as model, served(tmp_path_factory.mktemp("person"), model) as found:
        yield found


def session_of(server: Served, prompt: str) -> str:
    """A session in which one run has ended."""
    begun = server.run(prompt)
    server.ended(begun["id"])
    return begun["session"]


def upto(events: Iterator[Sent], kind: str) -> list[Sent]:
    """The events up to the first of a type."""
    found: list[Sent] = []
    for event in events:
        found.append(event)
        if event.event == kind:
            return found
    raise AssertionError(f"the stream ended before {kind}: {[event.id for event in found]}")


def order(events: list[Sent]) -> list[tuple[int, int]]:
    """The ids as pairs."""
    return [(int(seq), int(sub)) for seq, sub in (event.id.split(".") for event in events)]


def is_whole(events: list[Sent], first: int = 1) -> bool:
    """Whether the facts are there without a gap, and everything in order, each once."""
    places = order(events)
    facts = [seq for seq, sub in places if sub == 0]
    return places == sorted(set(places)) and facts == list(range(first, first + len(facts)))


def test_it_has_the_past_and_then_everything_that_comes(server: Served) -> None:
    session = session_of(server, "say Before.")
    path = f"/api/sessions/{session}/events"
    with server.stream(path) as events:
        found = upto(events, "run.ended")
        assert found[0].event == "session.opened"
        server.run("many 300", session=session)
        here = upto(events, "run.ended")
        server.command("run", "-s", session, "say From a terminal.")
        there = upto(events, "run.ended")
        server.run("say And here again.", session=session)
        last = upto(events, "run.ended")
    found += here + there + last
    assert is_whole(found)
    assert "".join(event.data["text"] for event in here if event.event == "text.delta") == "ab " * 300
    assert not any(event.event == "text.delta" for event in there)
    assert any(event.event == "text.delta" for event in last)


def test_it_goes_on_behind_the_last_event_that_was_read(server: Served) -> None:
    session = session_of(server, "say Before.")
    path = f"/api/sessions/{session}/events"
    with server.stream(path) as events:
        first = upto(events, "run.ended")
    begun = server.run("work 2 resumed", session=session)
    with server.stream(path, after=first[-1].id) as events:
        second = [next(events) for _ in range(57)]
    with server.stream(path, after=second[-1].id) as events:
        third = [next(events) for _ in range(30)]
        waits(server.home)("resumed")
        third += upto(events, "run.ended")
    assert is_whole(first + second + third)
    whole = [event for event in server.events(f"/v1/runs/{begun['id']}/events") if event.data["run"] == begun["id"]]
    assert [event.id for event in second + third] == [event.id for event in whole]


def test_a_reader_that_is_ahead_or_asks_for_nothing_is_refused(server: Served) -> None:
    session = session_of(server, "say Before.")
    for last, code in (("5000.0", "event_id_ahead"), ("x", "invalid_event_id")):
        answer = server.client.get(f"/api/sessions/{session}/events", headers={"last-event-id": last})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)


def test_it_ends_with_the_session(server: Served) -> None:
    session = session_of(server, "say Before.")
    with server.stream(f"/api/sessions/{session}/events") as events:
        upto(events, "run.ended")
        assert server.client.delete(f"/api/sessions/{session}").status_code == 204
        assert not list(events)


def test_many_follow_one_session(server: Served) -> None:
    session = session_of(server, "say Before.")

    def read() -> list[str]:
        with server.stream(f"/api/sessions/{session}/events") as events:
            past = upto(events, "run.ended")
            ready.wait()
            return [event.id for event in past + upto(events, "run.ended")]

    ready = Barrier(13)
    with ThreadPoolExecutor(12) as pool:
        readers = [pool.submit(read) for _ in range(12)]
        ready.wait()
        server.run("work 1", session=session)
        first, *others = [reader.result() for reader in readers]
    assert all(other == first for other in others)


def test_it_ends_when_the_server_stops(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("person")
    with ScriptedModel(play) as model, served(home, model) as server:
        session = session_of(server, "say Before.")
        with server.stream(f"/api/sessions/{session}/events") as events:
            upto(events, "run.ended")
            server.process.terminate()
            assert not list(events)
        assert server.process.wait(30) == 143
        assert "exceeded" not in server.said
