"""A chat completion that is sent again under its Idempotency-Key is answered by the first one's run; keys see their own alone."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from melete.testing import ScriptedModel
from tests.chatting import answer
from tests.served import Served, served
from tests.story.cli import melete

PATH = "/v1/chat/completions"
OWN = "7d793037a0760186574b0282f2f435e7"
TEXT = "Let me look.\n\nThe tool is done."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    with ScriptedModel(answer) as model, served(tmp_path_factory.mktemp("person"), model) as found:
        yield found


def ask(server: Served, words: str, *, key: str = "", **more: Any) -> httpx2.Response:
    headers = {"idempotency-key": key} if key else {}
    body = {"messages": [{"role": "user", "content": words}], **more}
    return server.client.post(PATH, json=body, headers=headers)


def asked(server: Served) -> int:
    """How often the model was asked."""
    assert server.model is not None
    return len(server.model.requests)


def test_a_request_that_is_sent_again_gets_the_same_answer(server: Served) -> None:
    first = ask(server, "tool please", key="a1")
    before = asked(server)
    again = ask(server, "tool please", key="a1")
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert again.json() == first.json()
    assert again.headers["x-melete-run-id"] == first.headers["x-melete-run-id"]
    assert asked(server) == before


def test_a_stream_that_is_sent_again_tells_the_same(server: Served) -> None:
    first = ask(server, "tool please", key="a2", stream=True, stream_options={"include_usage": True})
    before = asked(server)
    again = ask(server, "tool please", key="a2", stream=True, stream_options={"include_usage": True})
    assert again.headers["idempotent-replayed"] == "true"
    assert again.text == first.text, "deltas of one piece each are told as they were"
    assert again.text.endswith("data: [DONE]\n\n")
    assert asked(server) == before


def test_a_failure_that_is_sent_again_is_the_same_failure(server: Served) -> None:
    first = ask(server, "unauthorized", key="a3")
    again = ask(server, "unauthorized", key="a3")
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert first.headers["x-melete-run-id"] == again.headers["x-melete-run-id"]


def test_a_key_with_another_body_is_refused(server: Served) -> None:
    assert ask(server, "one thing", key="a4").status_code == 200
    found = ask(server, "another thing", key="a4")
    assert (found.status_code, found.json()["error"]["code"]) == (422, "idempotency_key_reused")


def test_a_key_is_not_used_up_by_a_request_that_was_refused(server: Served) -> None:
    assert ask(server, "hi", key="a5", n=2).status_code == 400
    assert ask(server, "hi", key="a5").status_code == 200


def test_an_answer_outlives_the_server(tmp_path: Path) -> None:
    with ScriptedModel(answer) as model:
        with served(tmp_path, model) as server:
            first = ask(server, "tool please", key="b1", response_format={"type": "text"})
        with served(tmp_path, model) as server:
            before = asked(server)
            again = ask(server, "tool please", key="b1", response_format={"type": "text"})
            assert again.json() == first.json()
            assert asked(server) == before


def test_one_key_never_reads_what_another_said(own_home: Path) -> None:
    with ScriptedModel(answer) as model, served(own_home, model, env={"MELETE_SERVER_KEY": OWN}) as server:
        ann, bob = (melete("serve", "keys", "add", name).stdout.strip() for name in ("ann", "bob"))

        def said(key: str, *messages: tuple[str, str], session: str = "") -> httpx2.Response:
            body = {"messages": [{"role": role, "content": text} for role, text in messages]}
            given = {"authorization": f"Bearer {key}" if key else "", "x-melete-session-id": session}
            headers = {name: value for name, value in given.items() if value}
            return server.client.post(PATH, json=body, headers=headers)

        first = said(ann, ("user", "a secret of ann's"))
        session = first.headers["x-melete-session-id"]
        repeated = (
            ("user", "a secret of ann's"),
            ("assistant", first.json()["choices"][0]["message"]["content"]),
            ("user", "more"),
        )
        assert said(bob, *repeated).headers["x-melete-session-id"] != session
        assert said(OWN, *repeated).headers["x-melete-session-id"] != session
        assert said(ann, *repeated).headers["x-melete-session-id"] == session
        refused, missing = said(bob, ("user", "hi"), session=session), said(bob, ("user", "hi"), session="nobody")
        assert (refused.status_code, missing.status_code) == (404, 404)
        assert refused.json() == missing.json()
        assert said(OWN, ("user", "the person sees all"), session=session).status_code == 200
        assert said("", ("user", "hi")).status_code == 401
