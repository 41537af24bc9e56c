"""A client that sends the whole conversation each time goes on in the session that said it; any other history makes a new one."""

import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import msgspec
import pytest

from melete.testing import ScriptedModel
from tests.chatting import POEM, answer, text_of
from tests.served import Served, served, variables


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    with ScriptedModel(answer) as model, served(tmp_path_factory.mktemp("person"), model) as found:
        yield found


class Talk:
    """A client of the usual kind: it keeps the conversation itself and sends all of it."""

    def __init__(self, server: Served, *messages: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self.server = server
        self.messages = list(messages)
        self.headers = headers or {}

    def say(self, words: str, *, stream: bool = False, **more: Any) -> str:
        """Say something and return the session that answered."""
        self.messages.append({"role": "user", "content": words})
        found = self.ask(stream=stream, **more)
        assert found.status_code == 200, found.text
        if stream:
            frames = [line.removeprefix("data: ") for line in found.text.splitlines() if line.startswith("data: {")]
            choices = [choice for frame in frames for choice in msgspec.json.decode(frame)["choices"]]
            text = "".join(choice["delta"].get("content", "") for choice in choices)
        else:
            text = found.json()["choices"][0]["message"]["content"]
        self.messages.append({"role": "assistant", "content": text})
        return found.headers["x-melete-session-id"]

    def ask(self, **more: Any) -> httpx2.Response:
        """Send the conversation as it is."""
        body = {"model": "melete", "messages": self.messages, **more}
        return self.server.client.post("/v1/chat/completions", json=body, headers=self.headers)


def seen(server: Served) -> list[str]:
    """The conversation that the model was sent last: each message's role and words."""
    assert server.model is not None
    messages = server.model.requests[-1].json["messages"]
    return [f"{one['role']}: {text_of(one)}" for one in messages if one["role"] != "system"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_goes_on_in_one_session_with_all_that_it_knows(server: Served, *, stream: bool) -> None:
    talk = Talk(server, {"role": "system", "content": f"Be brief. {stream}"})
    sessions = {talk.say(f"hello {stream}", stream=stream), talk.say("tool please", stream=stream)}
    sessions.add(talk.say("and now?", stream=stream))
    assert len(sessions) == 1
    assert any("from the tool" in line for line in seen(server)), "what the tool returned was kept"
    assert server.model is not None
    first, *_, last = [one.json["messages"][0] for one in server.model.requests[-4:]]
    assert first == last, "the head of the request is the same bytes"


def test_an_edited_conversation_is_a_new_session_that_begins_with_it(server: Served) -> None:
    talk = Talk(server)
    first = talk.say("what is edited")
    talk.messages[0] = {"role": "user", "content": "what was edited"}
    second = talk.say("go on")
    assert second != first
    assert seen(server) == ["user: what was edited", "assistant: You said: what is edited", "user: go on"]
    assert talk.say("and on") == second


def test_an_answer_that_is_asked_for_again_comes_from_a_new_session(server: Served) -> None:
    talk = Talk(server)
    first = talk.say("one of two")
    assert talk.say("two of two") == first
    del talk.messages[-2:]
    again = talk.say("two of two")
    assert again != first
    assert seen(server) == ["user: one of two", "assistant: You said: one of two", "user: two of two"]


def test_the_same_conversation_from_two_places_goes_on_twice(server: Served) -> None:
    talk = Talk(server)
    first = talk.say("shared beginning")
    with ThreadPoolExecutor(4) as pool:
        others = list(pool.map(lambda n: Talk(server, *talk.messages).say(f"slow 0.01 {n}"), range(4)))
    assert len(set(others)) == 4
    assert others.count(first) == 1


def test_people_who_share_a_key_are_kept_apart_where_the_client_tells_them_apart(server: Served) -> None:
    talk = Talk(server)
    first = talk.say("a common phrase", user="ann")
    assert Talk(server, *talk.messages).say("more", user="bob") != first
    chats = {"x-openwebui-chat-id": "c1"}
    ours = Talk(server, headers=chats)
    second = ours.say("a common phrase")
    assert Talk(server, *ours.messages, headers={"x-openwebui-chat-id": "c2"}).say("more") != second
    assert ours.say("more") == second


def test_a_session_that_went_on_elsewhere_is_left_alone(server: Served) -> None:
    talk = Talk(server)
    first = talk.say("before the terminal")
    melete = [sys.executable, "-m", "melete", "run", "-s", first, "said in the terminal"]
    subprocess.run(melete, env=variables(server.home, server.model), check=True, stdin=subprocess.DEVNULL, timeout=60)
    assert talk.say("after the terminal") != first


def test_a_header_goes_on_in_a_session_and_only_the_last_message_counts(server: Served) -> None:
    first = Talk(server).say("begin")
    named = {"x-melete-session-id": first}
    talk = Talk(
        server, {"role": "user", "content": "never said"}, {"role": "assistant", "content": "nor this"}, headers=named
    )
    assert talk.say("go on by name") == first
    assert seen(server) == ["user: begin", "assistant: You said: begin", "user: go on by name"]
    assert Talk(server, headers={"x-hermes-session-id": first}).say("by another name") == first


def test_a_session_of_the_terminal_goes_on_in_a_chat_and_back(server: Served) -> None:
    melete = [sys.executable, "-m", "melete", "run", "--json"]
    environment = variables(server.home, server.model)

    def run(*words: str) -> dict[str, Any]:
        done = subprocess.run(
            [*melete, *words], env=environment, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
        )
        return msgspec.json.decode(done.stdout.splitlines()[-1])

    session = run("from the terminal")["session"]
    assert Talk(server, headers={"x-melete-session-id": session}).say("from a chat") == session
    assert run("-s", session, "back in the terminal")["session"] == session
    assert seen(server)[::2] == ["user: from the terminal", "user: from a chat", "user: back in the terminal"]


def test_a_session_that_is_not_there_is_not_found(server: Served) -> None:
    title = "a title is not an id"
    first = Talk(server).say(title)
    for name in ("nobody", first[:-1], title, "../x", "a" * 500):
        found = Talk(server, {"role": "user", "content": "hi"}, headers={"x-melete-session-id": name}).ask()
        assert (found.status_code, found.json()["error"]["code"]) == (404, "session_not_found"), name


def test_two_headers_have_to_agree(server: Served) -> None:
    first, second = Talk(server).say("one"), Talk(server).say("two")
    message = {"role": "user", "content": "hi"}
    found = Talk(server, message, headers={"x-melete-session-id": first, "x-hermes-session-id": second}).ask()
    assert (found.status_code, found.json()["error"]["code"]) == (400, "invalid_session")


def test_a_session_at_work_is_busy(server: Served) -> None:
    session = Talk(server).say("soon busy")
    talk = Talk(server, {"role": "user", "content": "slow 0.2"}, headers={"x-melete-session-id": session})
    with server.client.stream(
        "POST", "/v1/chat/completions", json={"messages": talk.messages, "stream": True}, headers=talk.headers
    ) as stream:
        assert stream.status_code == 200
        found = talk.ask()
        assert (found.status_code, found.json()["error"]["code"]) == (409, "session_busy")
        assert POEM[:6] in "".join(stream.iter_text())
    assert talk.say("free again") == session


def test_what_was_cut_off_goes_on_when_the_client_asks_for_it(server: Served) -> None:
    """A chat page's `continue` button sends the answer back as the last message."""
    talk = Talk(server, {"role": "user", "content": "a poem"}, {"role": "assistant", "content": "Roses are"})
    assert talk.ask().status_code == 200
    assert seen(server)[:2] == ["user: a poem", "assistant: Roses are"]
    assert "Go on exactly where it ends" in seen(server)[2]


def test_results_of_a_clients_own_tools_are_history(server: Served) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
    talk = Talk(
        server,
        {"role": "user", "content": "how is the weather"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
    )
    assert talk.ask().status_code == 200
    assert [line.partition(":")[0] for line in seen(server)] == ["user", "assistant", "tool"]
    assert seen(server)[-1] == "tool: rain"
