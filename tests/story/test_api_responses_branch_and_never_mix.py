"""A response may be gone on from more than once: each time the conversation is the one up to it, and nothing of the others."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Generator
from typing import Any

import msgspec
import openai
import pytest
from openai.types.responses import Response

from melete.testing import ScriptedModel
from tests.chatting import answer, text_of
from tests.served import Served, served, variables


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    with ScriptedModel(answer) as model, served(tmp_path_factory.mktemp("person"), model) as found:
        yield found


@pytest.fixture
def client(server: Served) -> Generator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as found:
        yield found


def said(server: Served) -> list[str]:
    """What users have said in the conversation that the model was asked last."""
    return [text_of(message) for message in sent(server) if message["role"] == "user"]


def system(server: Served) -> str:
    return text_of(sent(server)[0])


def sent(server: Served) -> list[dict[str, Any]]:
    assert server.model is not None
    return server.model.requests[-1].json["messages"]


def session(response: Response) -> str:
    found: Any = response.to_dict()["melete"]
    return found["session"]


def sessions(server: Served) -> set[str]:
    return {one["id"] for one in server.client.get("/api/sessions?limit=200").json()["data"]}


def test_the_last_response_goes_on_in_its_session(server: Served, client: openai.OpenAI) -> None:
    first = client.responses.create(input="one")
    second = client.responses.create(input="two", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert session(first) == session(second)
    assert said(server) == ["one", "two"]


def test_an_earlier_one_goes_on_in_a_branch(server: Served, client: openai.OpenAI) -> None:
    first = client.responses.create(input="one")
    second = client.responses.create(input="two", previous_response_id=first.id)
    other = client.responses.create(input="other", previous_response_id=first.id)
    assert said(server) == ["one", "other"]
    assert session(other) != session(second)
    client.responses.create(input="three", previous_response_id=second.id)
    assert said(server) == ["one", "two", "three"]
    client.responses.create(input="fourth", previous_response_id=other.id)
    assert said(server) == ["one", "other", "fourth"]
    assert client.responses.retrieve(first.id).output_text == first.output_text
    assert session(client.responses.retrieve(first.id)) == session(first)


def test_several_at_once_go_on_apart(server: Served, client: openai.OpenAI) -> None:
    first = client.responses.create(input="one")

    async def main() -> list[Response]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as together:
            asked = [together.responses.create(input=f"n{n}", previous_response_id=first.id) for n in range(6)]
            return await asyncio.gather(*asked)

    made = asyncio.run(main())
    assert [one.output_text for one in made] == [f"You said: n{n}" for n in range(6)]
    assert len({session(one) for one in made}) == 6
    for one in made:
        facts = server.client.get(f"/api/sessions/{session(one)}/messages").json()["data"]
        assert len([line for line in facts if line["role"] == "user"]) == 2, "nothing of another branch"


def test_a_session_in_which_somebody_else_is_at_work_is_left_alone(server: Served, client: openai.OpenAI) -> None:
    first = client.responses.create(input="one")
    run = server.run("slow 0.1", session=session(first))
    other = client.responses.create(input="other", previous_response_id=first.id)
    assert session(other) != session(first)
    assert said(server) == ["one", "other"]
    server.ended(run["id"])


def test_a_response_that_is_being_made_cannot_be_gone_on_from(client: openai.OpenAI) -> None:
    made = client.responses.create(input="stall", background=True)
    with pytest.raises(openai.ConflictError) as caught:
        client.responses.create(input="two", previous_response_id=made.id)
    assert caught.value.code == "response_in_progress"
    client.responses.cancel(made.id)


def test_a_response_that_was_cancelled_can_be_gone_on_from(server: Served, client: openai.OpenAI) -> None:
    made = client.responses.create(input="stall", background=True)
    client.responses.cancel(made.id)
    client.responses.create(input="two", previous_response_id=made.id)
    assert said(server) == ["stall", "two"]
    with pytest.raises(openai.ConflictError) as caught:
        client.responses.create(input="three", previous_response_id=made.id)
    assert caught.value.code == "previous_response_failed"


def test_instructions_count_for_one_answer_and_those_in_the_input_for_all(
    server: Served, client: openai.OpenAI
) -> None:
    first = client.responses.create(
        input=[{"role": "developer", "content": "Say please."}, {"role": "user", "content": "one"}],
        instructions="Speak Greek.",
    )
    assert "Speak Greek." in system(server)
    assert "Say please." in system(server)
    second = client.responses.create(input="two", previous_response_id=first.id)
    assert "Speak Greek." not in system(server)
    assert "Say please." in system(server)
    assert second.instructions is None
    client.responses.create(input="three", previous_response_id=second.id, instructions="Speak Latin.")
    assert "Speak Latin." in system(server)
    assert "Say please." in system(server)


def test_no_instructions_means_none(server: Served, client: openai.OpenAI) -> None:
    first = client.responses.create(input="one", instructions="Speak Greek.")
    client.responses.create(input="two", previous_response_id=first.id)
    assert "Speak Greek." not in system(server)


def test_a_session_is_a_conversation(server: Served, client: openai.OpenAI) -> None:
    run = server.run("begun elsewhere")
    server.ended(run["id"])
    made = client.responses.create(input="gone on here", conversation=run["session"])
    assert made.conversation is not None
    assert (made.conversation.id, session(made)) == (run["session"], run["session"])
    assert said(server) == ["begun elsewhere", "gone on here"]
    assert client.responses.retrieve(f"resp_{run['id']}").output_text == "You said: begun elsewhere"
    with pytest.raises(openai.NotFoundError) as caught:
        client.responses.create(input="x", conversation={"id": run["session"][:12]})
    assert caught.value.code == "conversation_not_found"


def test_the_terminals_conversation_goes_on_and_comes_back(server: Served, client: openai.OpenAI) -> None:
    def melete(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "melete", *words]
        env = variables(server.home, server.model)
        return subprocess.run(command, env=env, cwd=server.home, capture_output=True, text=True, check=True)

    ended = msgspec.json.decode(melete("run", "--json", "begun in the terminal").stdout.splitlines()[-1])
    made = client.responses.create(input="gone on here", previous_response_id=f"resp_{ended['run']}")
    assert session(made) == ended["session"]
    assert said(server) == ["begun in the terminal", "gone on here"]
    assert melete("run", "-s", ended["session"], "and back").stdout == "You said: and back\n"
    assert said(server) == ["begun in the terminal", "gone on here", "and back"]
    client.responses.create(input="a branch", previous_response_id=made.id)
    assert said(server) == ["begun in the terminal", "gone on here", "a branch"]


def test_a_run_of_another_route_can_be_gone_on_from(server: Served, client: openai.OpenAI) -> None:
    run = server.run("begun elsewhere")
    server.ended(run["id"])
    made = client.responses.create(input="gone on here", previous_response_id=f"resp_{run['id']}")
    assert session(made) == run["session"]
    client.responses.delete(made.id)
    client.responses.delete(f"resp_{run['id']}")
    assert server.client.get(f"/api/sessions/{run['session']}").status_code == 200, (
        "it was not made for responses alone"
    )


def test_several_items_go_on_in_a_session(server: Served, client: openai.OpenAI) -> None:
    first = client.responses.create(input="one")
    items: Any = [
        {"role": "user", "content": "two"},
        {"type": "function_call_output", "call_id": "c9", "output": "forty"},
        {"role": "user", "content": "three"},
    ]
    client.responses.create(input=items, previous_response_id=first.id)
    told = said(server)
    assert told[0] == "one"
    assert len(told) == 2
    assert all(words in told[1] for words in ("two", "forty", "three"))


# ---- what is not to be stored --------------------------------------------------------------------------------------------


def gone(server: Served, before: set[str]) -> None:
    """Wait until there are no more sessions than before."""
    until = time.monotonic() + 20
    while (left := sessions(server) - before) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_not_stored_leaves_nothing_behind(server: Served, client: openai.OpenAI, stream: bool) -> None:
    first = client.responses.create(input="one")
    before = sessions(server)
    for previous in (None, first.id):
        wanted: Any = {"input": "a secret", "store": False, "stream": stream, "previous_response_id": previous}
        made: Any = client.responses.create(**wanted)
        if stream:
            made = list(made)[-1].response
        assert (made.output_text, made.store) == ("You said: a secret", False)
        assert said(server) == (["one", "a secret"] if previous else ["a secret"])
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(made.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.create(input="two", previous_response_id=made.id)
        gone(server, before)
    logs = [path for path in (server.melete / "state").rglob("*") if path.is_file() and path.suffix == ".log"]
    assert not [path for path in logs if b"a secret" in path.read_bytes()]


def test_what_is_not_stored_goes_although_its_client_has_left(server: Served, client: openai.OpenAI) -> None:
    before = sessions(server)
    with client.responses.create(input="slow 0.05", store=False, stream=True) as stream:
        next(iter(stream))
    gone(server, before)
