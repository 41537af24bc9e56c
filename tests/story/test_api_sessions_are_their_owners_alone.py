"""`/api/sessions`: sessions are listed, read, searched, named, forked, followed and removed, and one key never sees another's."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from melete.testing import ScriptedModel
from tests.playing import play, wait_until, waits
from tests.served import Served, served

OWN = "b1946ac92492d2347c6235b4d2611184"
NOWHERE = "20200101-000000-0000000000"


class Client:
    """Somebody with a key."""

    def __init__(self, server: Served, key: str) -> None:
        self.server = server
        self.key = key

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """One request."""
        return self.server.client.request(method, path, headers={"authorization": f"Bearer {self.key}"}, **more)

    def get(self, path: str, **query: Any) -> Any:
        """What is answered with 200."""
        answer = self.ask("GET", path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def said(self, prompt: str, **wanted: Any) -> tuple[str, str]:
        """A run that has ended: its session and its id."""
        begun = self.server.run(prompt, key=self.key, **wanted)
        self.server.ended(begun["id"], key=self.key)
        return begun["session"], begun["id"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    env = {"MELETE_SERVER_KEY": OWN}
    with ScriptedModel(play) as model, served(tmp_path_factory.mktemp("person"), model, env=env) as found:
        yield found


@pytest.fixture(scope="module")
def person(server: Served) -> Client:
    return Client(server, OWN)


@pytest.fixture(scope="module")
def ann(server: Served) -> Client:
    return Client(server, server.add_key("ann"))


@pytest.fixture(scope="module")
def bob(server: Served) -> Client:
    return Client(server, server.add_key("bob"))


def test_a_session_is_listed_shown_and_read(ann: Client) -> None:
    session, run = ann.said("say Hello there.")
    row = next(row for row in ann.get("/api/sessions")["data"] if row["id"] == session)
    assert (row["source"], row["title"], row["owner"]) == ("api", "say Hello there.", "key:ann")
    shown = ann.get(f"/api/sessions/{session}")
    assert (shown["state"], shown["run"], shown["questions"]) == ("idle", run, [])
    assert shown["messages"] == row["messages"] == 2
    said = ann.get(f"/api/sessions/{session}/messages")
    assert [(m["role"], m["text"]) for m in said["data"]] == [
        ("user", "say Hello there."),
        ("assistant", "Hello there."),
    ]
    assert said["has_more"] is False


def test_messages_are_taken_in_pages_from_both_ends(ann: Client) -> None:
    session, _ = ann.said("work 2")
    path = f"/api/sessions/{session}/messages"
    whole = ann.get(path)["data"]
    assert [m["role"] for m in whole] == ["user", *["assistant", "tool", "tool"] * 2, "assistant"]
    assert [call["name"] for call in whole[1]["calls"]] == ["terminal", "terminal"]
    assert {m["call"] for m in whole[2:4]} == {call["id"] for call in whole[1]["calls"]}
    assert whole[1]["thinking"]
    first = ann.get(path, limit=3)
    assert (first["data"], first["has_more"]) == (whole[:3], True)
    rest = ann.get(path, after=first["data"][-1]["seq"])
    assert (rest["data"], rest["has_more"]) == (whole[3:], False)
    newest = ann.get(path, order="desc", limit=2)
    assert (newest["data"], newest["has_more"]) == (whole[:-3:-1], True)
    older = ann.get(path, order="desc", before=newest["data"][-1]["seq"])
    assert older["data"] == whole[-3::-1]


def test_what_was_said_is_found_by_its_owner_alone(ann: Client, bob: Client, person: Client) -> None:
    session, _ = ann.said("say The heliotrope is in bloom.")
    assert {hit["session"] for hit in ann.get("/api/sessions/search", q="heliotrope")["data"]} == {session}
    assert {hit["session"] for hit in person.get("/api/sessions/search", q="heliotrope")["data"]} == {session}
    assert bob.get("/api/sessions/search", q="heliotrope")["data"] == []
    only = ann.get("/api/sessions/search", q="heliotrope", session=session, role="assistant", sort="newest", limit=1)
    assert [hit["role"] for hit in only["data"]] == ["assistant"]
    foreign = bob.ask("GET", "/api/sessions/search", params={"q": "heliotrope", "session": session})
    assert foreign.status_code == 404


def test_a_session_is_named_and_forked_and_the_fork_goes_on(ann: Client) -> None:
    session, _ = ann.said("say One.")
    named = ann.ask("PATCH", f"/api/sessions/{session}", json={"title": "  The \n first  "})
    assert (named.status_code, named.json()["title"]) == (200, "The first")
    made = ann.ask("POST", f"/api/sessions/{session}/fork", json={"title": "Another way"})
    assert made.status_code == 201, made.text
    fork = made.json()
    assert (fork["forked_from"], fork["step"], fork["title"]) == (session, 1, "Another way")
    assert ann.said("say Two.", session=fork["id"])[0] == fork["id"]
    assert len(ann.get(f"/api/sessions/{session}/messages")["data"]) == 2
    assert len(ann.get(f"/api/sessions/{fork['id']}/messages")["data"]) == 4
    assert ann.get(f"/api/sessions/{fork['id']}")["forked_from"] == session
    empty = ann.ask("POST", f"/api/sessions/{session}/fork")
    assert (empty.status_code, empty.json()["title"]) == (201, "The first (fork at step 1)")
    late = ann.ask("POST", f"/api/sessions/{session}/fork", json={"step": 9})
    assert (late.status_code, late.json()["error"]["code"]) == (422, "no_such_step")


def test_a_session_is_removed_with_all_that_belongs_to_it(ann: Client) -> None:
    session, run = ann.said("say Forget me: amaranth.")
    assert ann.ask("DELETE", f"/api/sessions/{session}").status_code == 204
    for path in (f"/api/sessions/{session}", f"/api/sessions/{session}/messages", f"/v1/runs/{run}"):
        assert ann.ask("GET", path).status_code == 404
    assert ann.ask("DELETE", f"/api/sessions/{session}").status_code == 404
    assert ann.get("/api/sessions/search", q="amaranth")["data"] == []
    again = ann.ask("POST", "/v1/runs", json={"input": "say Still there?", "session": session})
    assert again.status_code == 404


def test_a_session_that_runs_is_not_removed_and_answers_who_speaks_to_it(ann: Client) -> None:
    begun = ann.server.run("wait speak", key=ann.key)
    path = f"/api/sessions/{begun['session']}"
    wait_until(lambda: ann.get(path)["state"] == "running")
    assert ann.get("/api/sessions", running="true")["data"][0]["id"] == begun["session"]
    assert ann.ask("DELETE", path).status_code == 409
    steered = ann.ask("POST", f"{path}/steer", json={"text": "hurry"})
    queued = ann.ask("POST", f"{path}/steer", json={"text": "say Then this.", "queue": True})
    assert (steered.json()["status"], queued.json()["status"]) == ("queued", "queued")
    waits(ann.server.home)("speak")
    assert ann.server.ended(begun["id"], key=ann.key)["text"] == "Then this."
    late = ann.ask("POST", f"{path}/cancel")
    assert (late.status_code, late.json()["error"]["code"]) == (409, "run_over")


def test_a_question_is_answered_in_the_session_without_its_name(ann: Client) -> None:
    begun = ann.server.run("ask me", key=ann.key)
    path = f"/api/sessions/{begun['session']}"
    wait_until(lambda: ann.get(path)["state"] == "waiting")
    assert ann.get(path)["questions"][0]["detail"]
    first = ann.ask("POST", f"{path}/answer", json={"value": "deny"})
    assert first.json()["status"] == "accepted"
    ann.server.ended(begun["id"], key=ann.key)
    none = ann.ask("POST", f"{path}/answer", json={"value": "once"})
    assert (none.status_code, none.json()["error"]["code"]) == (409, "which_question")


def test_sessions_are_listed_by_what_is_asked(ann: Client, bob: Client) -> None:
    first, second = bob.said("say a")[0], bob.said("say b")[0]
    assert [row["id"] for row in bob.get("/api/sessions")["data"]] == [second, first]
    page = bob.get("/api/sessions", limit=1)
    assert ([row["id"] for row in page["data"]], page["has_more"]) == ([second], True)
    page = bob.get("/api/sessions", limit=1, offset=1)
    assert ([row["id"] for row in page["data"]], page["has_more"]) == ([first], False)
    bob.said("say c", session=first)
    assert [row["id"] for row in bob.get("/api/sessions", sort="messages")["data"]] == [first, second]
    assert bob.get("/api/sessions", source="cli")["data"] == []
    assert len(bob.get("/api/sessions", source="cli,api", since="1h")["data"]) == 2
    assert bob.get("/api/sessions", until="1h")["data"] == []
    assert bob.get("/api/sessions", model="other")["data"] == []
    wrong = bob.ask("GET", "/api/sessions", params={"since": "the other day"})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "invalid_time")
    assert ann.get("/api/sessions")["data"]


ACTS: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/api/sessions/{session}", None),
    ("GET", "/api/sessions/{session}/messages", None),
    ("GET", "/api/sessions/{session}/events", None),
    ("PATCH", "/api/sessions/{session}", {"title": "mine"}),
    ("DELETE", "/api/sessions/{session}", None),
    ("POST", "/api/sessions/{session}/fork", {}),
    ("POST", "/api/sessions/{session}/steer", {"text": "hello"}),
    ("POST", "/api/sessions/{session}/answer", {"value": "once"}),
    ("POST", "/api/sessions/{session}/cancel", None),
    ("GET", "/v1/runs/{run}", None),
    ("GET", "/v1/runs/{run}/events", None),
    ("POST", "/v1/runs/{run}/steer", {"text": "hello"}),
    ("POST", "/v1/runs/{run}/answer", {"question": "q", "value": "once"}),
    ("POST", "/v1/runs/{run}/cancel", None),
)


@pytest.mark.parametrize(("method", "path", "body"), ACTS, ids=[f"{method} {path}" for method, path, _ in ACTS])
def test_what_is_anothers_is_answered_as_what_is_not_there(
    ann: Client, bob: Client, method: str, path: str, body: Any
) -> None:
    session, run = ann.said("say Mine alone.")
    before = ann.get(f"/api/sessions/{session}")
    foreign = bob.ask(method, path.format(session=session, run=run), json=body)
    missing = bob.ask(method, path.format(session=NOWHERE, run="0123456789abcdef"), json=body)
    assert (foreign.status_code, missing.status_code) == (404, 404)
    hidden = foreign.text.replace(session, NOWHERE).replace(run, "0123456789abcdef")
    assert hidden == missing.text
    assert set(foreign.headers) == set(missing.headers)
    assert ann.get(f"/api/sessions/{session}") == before


def test_another_key_can_neither_go_on_with_a_session_nor_guess_it(ann: Client, bob: Client) -> None:
    session, run = ann.said("say Mine alone.")
    title = ann.get(f"/api/sessions/{session}")["title"]
    for name in (session, session[:-3], title):
        answer = bob.ask("POST", "/v1/runs", json={"input": "hi", "session": name})
        assert answer.status_code == 404, answer.text
    ann.ask("PATCH", f"/api/sessions/{session}", json={"title": "heirloom"})
    for name in (session[:-3], "heirloom"):  # not even its owner gets it by less than its id
        assert ann.ask("GET", f"/api/sessions/{name}").status_code == 404
    assert run not in [row["id"] for row in bob.get("/v1/runs", limit=1000)["data"]]
    assert bob.get("/v1/runs", session=session)["data"] == []


def test_the_person_sees_all_of_them(person: Client, ann: Client, bob: Client) -> None:
    mine, theirs = ann.said("say Ann's."), bob.said("say Bob's.")
    seen = {row["id"] for row in person.get("/api/sessions", limit=1000)["data"]}
    assert {mine[0], theirs[0]} <= seen
    assert {row["id"] for row in person.get("/v1/runs", limit=1000)["data"]} >= {mine[1], theirs[1]}
    assert person.get(f"/api/sessions/{mine[0]}")["owner"] == "key:ann"
    assert person.said("say And the person's.", session=mine[0])[0] == mine[0]
    assert len(ann.get(f"/api/sessions/{mine[0]}/messages")["data"]) == 4


def test_the_segments_of_a_session_are_linked_and_read_one_by_one(ann: Client) -> None:
    session, _ = ann.said("say Hello there.")
    (only,) = ann.get(f"/api/sessions/{session}")["segments"]
    assert (only["id"], only["parent"], only["number"], only["first"]) == (session, "", 1, 1)
    whole = ann.get(f"/api/sessions/{session}/messages")["data"]
    for name in (session, "1"):
        assert ann.get(f"/api/sessions/{session}/messages", segment=name)["data"] == whole
    missing = ann.ask("GET", f"/api/sessions/{session}/messages", params={"segment": "2"})
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "no_such_segment")
