"""Responses stand in the log: after a restart they are what they were, and one that was cut off goes on under its own id."""

import time
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from melete.testing import Call, Fault, Reply, Say, ScriptedModel
from tests.served import Served, served
from tests.story.homes import configure

WORDS = "one two three four five six seven eight nine ten eleven twelve"
ANSWER = "It is done, in the end."


def library(server: Served) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def settled(client: openai.OpenAI, id_: str) -> Response:
    """The response once nobody works on it any more."""
    until = time.monotonic() + 30
    while (found := client.responses.retrieve(id_)).status == "in_progress":
        assert time.monotonic() < until, "it did not end"
        time.sleep(0.05)
    return found


def asked(model: ScriptedModel) -> None:
    """Wait until the model has been asked."""
    until = time.monotonic() + 30
    while not model.requests:
        assert time.monotonic() < until, "nobody asked"
        time.sleep(0.01)


def test_what_was_stored_is_the_same_after_a_restart(tmp_path: Path) -> None:
    with ScriptedModel([Call("terminal", {"command": "ls"}, text="Let me look."), Say(ANSWER), Say("Again.")]) as model:
        with served(tmp_path, model) as server, library(server) as client:
            first = client.responses.create(input="work", metadata={"a": "b"}, instructions="Be brief.")
            with client.responses.retrieve(first.id, stream=True) as stream:
                before = list(stream)
            other = client.responses.create(input="gone")
            client.responses.delete(other.id)
        with served(tmp_path, model) as server, library(server) as client:
            assert client.responses.retrieve(first.id) == first
            with client.responses.retrieve(first.id, stream=True) as stream:
                after = list(stream)
            assert [e for e in after if "delta" not in e.type] == [e for e in before if "delta" not in e.type]
            assert server.client.get(f"/v1/responses/{other.id}").status_code == 404
            second = client.responses.create(input="and now?", previous_response_id=first.id)
            roles = [m["role"] for m in model.requests[-1].json["messages"]]
            assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
            assert second.previous_response_id == first.id


def interrupted(body: dict[str, Any], number: int, mark: Path) -> Reply:
    """A tool, then an answer that is cut off when it is first given."""
    if number == 0:
        return Call("terminal", {"command": f"echo once >> {mark}"}, text="Let me look.")
    if number == 1:
        return Fault("slow", seconds=0.1, reply=Say(WORDS, pieces=5))
    return Say(ANSWER)


def test_a_response_that_was_cut_off_goes_on_and_its_reader_misses_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with ScriptedModel(lambda body, number: interrupted(body, number, mark)) as model:
        with served(tmp_path, model) as server, library(server) as client:
            with client.responses.create(input="work", stream=True) as stream:
                seen: list[Any] = []
                for event in stream:
                    seen.append(event)
                    if (
                        event.type == "response.output_text.delta"
                        and event.output_index == 2
                        and "three" in words(seen)
                    ):
                        break
            id_ = seen[0].response.id
            assert client.responses.retrieve(id_).status == "in_progress"
            server.kill()
        with served(tmp_path, model) as server, library(server) as client:
            with client.responses.retrieve(id_, stream=True, starting_after=seen[-1].sequence_number) as stream:
                rest: list[Any] = list(stream)
            assert rest[0].type == "response.in_progress"
            assert rest[-1].type == "response.completed"
            assert not [event for event in rest if event.type == "response.mcp_call.completed"], "that was read before"
            assert words(rest) == ANSWER
            numbers = [event.sequence_number for event in (*seen, *rest)]
            assert numbers == sorted(set(numbers))
            found = client.responses.retrieve(id_)
            assert found == rest[-1].response
            assert (found.status, found.output_text) == ("completed", f"Let me look.\n\n{ANSWER}")
            assert [item.type for item in found.output] == ["message", "mcp_call", "message"]
            client.responses.create(input="more", previous_response_id=id_)
            users = [m["content"] for m in model.requests[-1].json["messages"] if m["role"] == "user"]
            assert users[0] == "work"
            assert users[-1] == "more"
    assert mark.read_text() == "once\n", "no tool is run twice"


def words(events: list[Any]) -> str:
    last = max((event.output_index for event in events if event.type == "response.output_text.delta"), default=0)
    found = [e.delta for e in events if e.type == "response.output_text.delta" and e.output_index == last]
    return "".join(found)


def test_a_form_that_was_asked_for_counts_after_the_restart(tmp_path: Path) -> None:
    slow = Fault("slow", seconds=0.2, reply=Say('{"n": 1, "much": "more than is read"}', pieces=2))
    form: Any = {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object", "required": ["n"]}}}
    with ScriptedModel([slow, "four", '{"n": 4}']) as model:
        with served(tmp_path, model) as server, library(server) as client:
            made = client.responses.create(input="work", text=form, background=True)
            asked(model)
            server.kill()
        with served(tmp_path, model) as server, library(server) as client:
            found = settled(client, made.id)
            assert (found.status, found.output_text) == ("completed", '{"n": 4}')


def test_a_server_that_only_reports_says_that_it_was_cut_off(tmp_path: Path) -> None:
    configure(tmp_path, server={"interrupted": "report"})
    with ScriptedModel([Fault("stall", reply=Say("late"))]) as model:
        with served(tmp_path, model) as server, library(server) as client:
            made = client.responses.create(input="work", background=True)
            server.kill()
        with served(tmp_path, model) as server, library(server) as client:
            found = settled(client, made.id)
            assert found.status == "failed"
            assert found.error is not None
            assert "the server was stopped" in found.error.message


def test_what_was_not_to_be_stored_is_gone_after_a_kill(tmp_path: Path) -> None:
    with ScriptedModel([Fault("stall", reply=Say("late"))]) as model:
        with (
            served(tmp_path, model) as server,
            library(server) as client,
            client.responses.create(input="a secret", store=False, stream=True) as stream,
        ):
            id_ = next(iter(stream)).response.id  # pyright: ignore
            asked(model)
            server.kill()
        with served(tmp_path, model) as server:
            until = time.monotonic() + 20
            while server.client.get("/api/sessions").json()["data"] and time.monotonic() < until:
                time.sleep(0.05)
            assert server.client.get("/api/sessions").json()["data"] == []
            assert server.client.get(f"/v1/responses/{id_}").status_code == 404
    logs = [path for path in (tmp_path / ".melete" / "state").rglob("*.log") if path.is_file()]
    assert not [path for path in logs if b"a secret" in path.read_bytes()]
    assert len(model.requests) == 1, "it is not taken up again"


def test_a_request_that_is_sent_again_is_answered_once(tmp_path: Path) -> None:
    with ScriptedModel([Say("first"), Fault("slow", seconds=0.05, reply=Say(WORDS, pieces=5)), Say("third")]) as model:
        with served(tmp_path, model) as server, library(server) as client:
            once = {"Idempotency-Key": "k-1"}
            made = client.responses.create(input="work", extra_headers=once)
            again = client.responses.with_raw_response.create(input="work", extra_headers=once)
            assert again.headers["idempotent-replayed"] == "true"
            assert again.parse() == made
            with pytest.raises(openai.UnprocessableEntityError) as caught:
                client.responses.create(input="other", extra_headers=once)
            assert caught.value.code == "idempotency_key_reused"
        with served(tmp_path, model) as server, library(server) as client:
            assert client.responses.create(input="work", extra_headers=once) == made
            behind = {"Idempotency-Key": "k-2"}
            slow = client.responses.create(input="slow", background=True, extra_headers=behind)
            assert client.responses.create(input="slow", background=True, extra_headers=behind).id == slow.id
            assert settled(client, slow.id).output_text == WORDS
    assert len(model.requests) == 2
