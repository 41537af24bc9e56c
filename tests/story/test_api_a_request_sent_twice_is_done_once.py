"""`Idempotency-Key`: a request that is sent again leads to the same run, also after the server was killed in between."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from melete.app.clock import clock_from
from melete.app.keyed import Keyed, Requests
from melete.store import open_ledger
from melete.testing import ScriptedModel
from tests.playing import play, wait_until, waits
from tests.served import Served, served

OWN = "b1946ac92492d2347c6235b4d2611184"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    env = {"MELETE_SERVER_KEY": OWN}
    with ScriptedModel(play) as model, served(tmp_path_factory.mktemp("person"), model, env=env) as found:
        found.client.headers["authorization"] = f"Bearer {OWN}"
        yield found


def post(server: Served, path: str, body: Any, name: str = "", **headers: str) -> httpx2.Response:
    """A request under a name of the client's."""
    return server.client.post(path, json=body, headers={**({"idempotency-key": name} if name else {}), **headers})


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def chat(words: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": words}], **more}


def asked(server: Served) -> int:
    """How often the model was asked."""
    assert server.model is not None
    return len(server.model.requests)


def test_a_run_is_begun_once_and_named_again_whatever_it_does(server: Served) -> None:
    name, body = uuid4().hex, {"input": f"wait {uuid4().hex[:8]}"}
    first = post(server, "/v1/runs", body, name)
    again = post(server, "/v1/runs", body, name)
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json() == again.json()
    assert ("idempotent-replayed" in first.headers, again.headers["idempotent-replayed"]) == (False, "true")
    waits(server.home)(body["input"].split()[1])
    server.ended(first.json()["id"])
    calls = asked(server)
    assert post(server, "/v1/runs", body, name).json() == first.json()
    assert asked(server) == calls
    other = post(server, "/v1/runs", body, uuid4().hex)
    assert other.json()["id"] != first.json()["id"]
    server.ended(other.json()["id"])


def test_many_at_once_begin_one_run(server: Served) -> None:
    name, body = uuid4().hex, {"input": "say Once."}
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: post(server, "/v1/runs", body, name), range(12)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("idempotent-replayed" not in answer.headers for answer in answers) == 1
    server.ended(answers[0].json()["id"])


def test_a_chat_is_answered_again_from_its_run(server: Served) -> None:
    name, body = uuid4().hex, chat("work 1")
    first = post(server, "/v1/chat/completions", body, name)
    calls = asked(server)
    again = post(server, "/v1/chat/completions", body, name)
    assert first.status_code == 200, first.text
    assert again.json() == first.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["x-melete-run-id"] == first.headers["x-melete-run-id"]
    assert asked(server) == calls


def test_a_streamed_chat_is_answered_again_as_a_stream(server: Served) -> None:
    name, body = uuid4().hex, chat("say In pieces, please.", stream=True)
    first = post(server, "/v1/chat/completions", body, name)
    calls = asked(server)
    again = post(server, "/v1/chat/completions", body, name)
    assert again.text.endswith("data: [DONE]\n\n")
    assert "In pieces, please." in words(first) == words(again)
    assert asked(server) == calls


def words(answer: httpx2.Response) -> str:
    """The text of a streamed chat."""
    chunks = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    decoded: list[dict[str, Any]] = [httpx2.Response(200, text=chunk).json() for chunk in chunks]
    deltas = [choice["delta"] for chunk in decoded for choice in chunk["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


def test_a_response_is_answered_again(server: Served) -> None:
    name, body = uuid4().hex, {"input": "say A response."}
    first = post(server, "/v1/responses", body, name)
    again = post(server, "/v1/responses", body, name)
    assert (first.status_code, again.status_code) == (200, 200), first.text
    assert again.json()["id"] == first.json()["id"]
    assert again.json()["output"] == first.json()["output"]


def test_a_job_is_made_once(server: Served) -> None:
    name, body = uuid4().hex, {"name": "tidy", "prompt": "say Tidy.", "schedule": "every 30d"}
    first, again = post(server, "/api/jobs", body, name), post(server, "/api/jobs", body, name)
    assert (first.status_code, again.status_code) == (201, 201), first.text
    assert again.json()["id"] == first.json()["id"]
    assert len(server.client.get("/api/jobs").json()["jobs"]) == 1


def test_while_the_first_is_being_answered_the_second_is_refused(server: Served) -> None:
    name, file = uuid4().hex, uuid4().hex[:8]
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(post, server, "/v1/chat/completions", chat(f"wait {file}"), name)
        wait_until(lambda: (server.home / f"{file}.calls").exists())
        busy = post(server, "/v1/chat/completions", chat(f"wait {file}"), name)
        assert code(busy) == (409, "idempotency_key_in_use")
        assert busy.headers["retry-after"] == "1"
        waits(server.home)(file)
        assert first.result().status_code == 200
    assert post(server, "/v1/chat/completions", chat(f"wait {file}"), name).json() == first.result().json()
    assert len((server.home / f"{file}.calls").read_text().splitlines()) == 1


def test_another_body_under_the_same_name_is_refused(server: Served) -> None:
    name = uuid4().hex
    server.ended(post(server, "/v1/runs", {"input": "say a"}, name).json()["id"])
    assert code(post(server, "/v1/runs", {"input": "say b"}, name)) == (422, "idempotency_key_reused")
    assert code(post(server, "/v1/chat/completions", chat("say a"), name)) == (422, "idempotency_key_reused")
    session = post(server, "/v1/runs", {"input": "say c"}).json()["session"]
    wait_until(lambda: server.client.get(f"/api/sessions/{session}").json()["state"] == "idle")
    elsewhere = uuid4().hex
    assert post(server, "/v1/chat/completions", chat("say d"), elsewhere).status_code == 200
    moved = post(server, "/v1/chat/completions", chat("say d"), elsewhere, **{"x-melete-session-id": session})
    assert code(moved) == (422, "idempotency_key_reused")


def test_names_belong_to_their_keys(server: Served) -> None:
    ann, bob = server.add_key("ann"), server.add_key("bob")
    name, body = uuid4().hex, {"input": "say Mine."}
    first = post(server, "/v1/runs", body, name, authorization=f"Bearer {ann}")
    other = post(server, "/v1/runs", {"input": "say Else."}, name, authorization=f"Bearer {bob}")
    assert (first.status_code, other.status_code) == (202, 202)
    assert first.json()["id"] != other.json()["id"]
    assert post(server, "/v1/runs", body, name, authorization=f"Bearer {ann}").json() == first.json()
    server.ended(first.json()["id"], key=ann)
    server.ended(other.json()["id"], key=bob)


def test_what_was_refused_may_be_sent_again_as_it_should_be(server: Served) -> None:
    name = uuid4().hex
    assert post(server, "/v1/runs", {"input": "say a", "toolsets": ["none-such"]}, name).status_code == 422
    fixed = post(server, "/v1/runs", {"input": "say a"}, name)
    assert (fixed.status_code, "idempotent-replayed" in fixed.headers) == (202, False)
    server.ended(fixed.json()["id"])


def test_what_was_removed_since_is_not_done_again(server: Served) -> None:
    name, body = uuid4().hex, {"input": "say Gone."}
    begun = post(server, "/v1/runs", body, name).json()
    server.ended(begun["id"])
    assert server.client.delete(f"/api/sessions/{begun['session']}").status_code == 204
    assert code(post(server, "/v1/runs", body, name)) == (404, "not_found")


@pytest.mark.parametrize("name", ["", "a b", "x" * 256, "ü".encode().decode("latin-1")])
def test_a_name_that_is_none_is_refused(server: Served, name: str) -> None:
    headers = [(b"idempotency-key", name.encode("latin-1"))]
    answer = server.client.post("/v1/runs", json={"input": "say a"}, headers=headers)
    assert code(answer) == (400, "invalid_idempotency_key")


def test_two_names_are_refused(server: Served) -> None:
    headers = [(b"idempotency-key", b"a"), (b"idempotency-key", b"b")]
    assert server.client.post("/v1/runs", json={"input": "say a"}, headers=headers).status_code == 400


# ---- across a kill ---------------------------------------------------------------------------------------------------------


def test_after_a_kill_the_run_is_found_and_its_answer_is_that_of_the_run_that_went_on(tmp_path: Path) -> None:
    home, name, body = tmp_path / "person", uuid4().hex, {"input": "wait after"}
    said, talk = uuid4().hex, chat("wait talk")
    with ScriptedModel(play) as model:
        with served(home, model) as server, ThreadPoolExecutor(1) as pool:
            first = post(server, "/v1/runs", body, name).json()
            cut = pool.submit(post, server, "/v1/chat/completions", talk, said)
            wait_until(lambda: (home / "talk.calls").exists() and (home / "after.calls").exists())
            server.kill()
            assert isinstance(cut.exception(), httpx2.HTTPError)
        for file in ("after", "talk"):
            waits(home)(file)
        with served(home, model) as server:
            again = post(server, "/v1/runs", body, name)
            assert (again.status_code, again.json(), again.headers["idempotent-replayed"]) == (202, first, "true")
            answer = wait_until(lambda: _answer(server, talk, said))
            assert answer["choices"][0]["message"]["content"].endswith("Waited for talk.")
            new = wait_until(lambda: server.status(first["id"])["resumed_as"])
            assert server.ended(new)["text"] == "Waited for after."
            assert len(server.client.get("/v1/runs").json()["data"]) == 4
        for file in ("after", "talk"):
            assert (home / f"{file}.calls").read_text() == "x\n"


def _answer(server: Served, body: Any, name: str) -> Any:
    answer = post(server, "/v1/chat/completions", body, name)
    if answer.status_code == 409:
        assert code(answer) == (409, "idempotency_key_in_use")
        return None
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_run_that_never_began_begins_under_the_id_that_was_stored_for_it(tmp_path: Path) -> None:
    home, name, body = tmp_path / "person", uuid4().hex, b'{"input":"say At last."}'

    async def intend() -> str:
        """What a server does before the run begins; then it is killed."""
        requests = Requests(open_ledger(home / ".melete" / "state", clock=clock_from("")), clock_from(""))
        keyed = Keyed(owner="", key=name, body=b"\0".join([b"POST", b"/v1/runs", b"", b"", body]))
        async with requests.once(keyed, began=never) as work:
            return work.id

    async def never(id: str) -> bool:
        raise AssertionError(id)

    intended = asyncio.run(intend())
    with ScriptedModel(play) as model, served(home, model) as server:
        headers = {"idempotency-key": name, "content-type": "application/json"}
        begun = server.client.post("/v1/runs", content=body, headers=headers)
        assert (begun.status_code, begun.json()["id"]) == (202, intended), begun.text
        assert server.ended(intended)["text"] == "At last."
