"""The scripted model: it plays what it is told, over real HTTP, and keeps what it was asked."""

import gc
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from melete.core.message import Usage
from melete.testing import Call, Calls, Fault, Say, ScriptedModel
from melete.testing.counting import common_prefix
from melete.testing.replies import FaultKind

ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Say hi"}]}
STREAM = ASK | {"stream": True, "stream_options": {"include_usage": True}}


class Client:
    """A plain client that keeps its connection."""

    def __init__(self, server: ScriptedModel) -> None:
        port = int(server.base_url.split(":")[2].split("/")[0])
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    def post(self, value: Any, path: str = "/v1/chat/completions") -> http.client.HTTPResponse:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.connection.request("POST", path, body, {"Content-Type": "application/json"})
        return self.connection.getresponse()

    def whole(self, value: Any = None) -> dict[str, Any]:
        answer = self.post(ASK if value is None else value)
        assert answer.status == 200
        return json.loads(answer.read())

    def events(self, value: Any = None) -> list[dict[str, Any]]:
        answer = self.post(STREAM if value is None else value)
        assert answer.status == 200
        assert answer.getheader("content-type") == "text/event-stream"
        return events(answer.read())

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()


def events(stream: bytes) -> list[dict[str, Any]]:
    """The JSON of each event; the stream must end as the format says."""
    lines = stream.split(b"\n\n")
    assert lines[-2:] == [b"data: [DONE]", b""]
    return [json.loads(line.removeprefix(b"data: ")) for line in lines[:-2]]


def joined(found: list[dict[str, Any]], field: str) -> str:
    """A field of the deltas, put together."""
    return "".join(choice["delta"].get(field) or "" for event in found for choice in event["choices"])


def test_words_whole_and_in_pieces_are_the_same() -> None:
    say = Say("Grüße, " * 20, thinking="well, " * 10)
    with ScriptedModel([say, say]) as server, Client(server) as client:
        message = client.whole()["choices"][0]["message"]
        found = client.events()
    assert message == {"role": "assistant", "content": "Grüße, " * 20, "reasoning_content": "well, " * 10}
    assert joined(found, "content") == message["content"]
    assert joined(found, "reasoning_content") == message["reasoning_content"]
    assert len(found) > 10
    assert found[-2]["choices"][0]["finish_reason"] == "stop"
    assert found[-1]["usage"]["completion_tokens_details"]["reasoning_tokens"] == 15


def test_half_of_a_surrogate_pair_is_sent_as_its_escape() -> None:
    text = "half \ud800 of a pair"
    script = [Say(text=text), Say(text=text, pieces=3), Call("read_file", {"path": text}), "Still there."]
    with ScriptedModel(script) as server, Client(server) as client:
        body = client.post(ASK).read()
        assert b"half \\ud800 of a pair" in body
        deltas = [event["choices"][0]["delta"] for event in client.events() if event["choices"]]
        assert "".join(delta.get("content") or "" for delta in deltas) == text
        (call,) = client.whole()["choices"][0]["message"]["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == {"path": text}
        assert client.whole()["choices"][0]["message"]["content"] == "Still there."


def test_usage_comes_in_a_stream_only_where_it_is_asked_for() -> None:
    with ScriptedModel(["hi"]) as server, Client(server) as client:
        assert not any("usage" in event for event in client.events(ASK | {"stream": True}))


def test_calls_whole_and_in_pieces_are_the_same() -> None:
    calls = Calls([Call("terminal", {"command": "ls -l"}), Call("read_file", '{"path":  "ü"}', id="own")], text="Both.")
    with ScriptedModel([calls, calls]) as server, Client(server) as client:
        choice = client.whole()["choices"][0]
        found = client.events()
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "Both."
    assert [call["function"]["arguments"] for call in choice["message"]["tool_calls"]] == [
        '{"command": "ls -l"}',
        '{"path":  "ü"}',
    ]
    streamed: dict[int, dict[str, Any]] = {}
    for delta in (d for e in found for c in e["choices"] for d in c["delta"].get("tool_calls", [])):
        call = streamed.setdefault(delta["index"], {"arguments": ""} | {"id": delta.get("id")})
        call["arguments"] += delta["function"]["arguments"]
    assert [call["arguments"] for call in streamed.values()] == ['{"command": "ls -l"}', '{"path":  "ü"}']
    assert streamed[0]["id"] == "call_1_0"
    assert streamed[1]["id"] == "own"


def test_own_fields_of_a_provider_are_sent_word_for_word() -> None:
    signed = {"reasoning_details": [{"type": "sealed", "data": "AbC=="}]}
    with ScriptedModel([Say("hi", extra=signed), Say("hi", extra=signed)]) as server, Client(server) as client:
        assert client.whole()["choices"][0]["message"]["reasoning_details"] == signed["reasoning_details"]
        assert any(c["delta"] == signed for event in client.events() for c in event["choices"])


def test_requests_are_kept_byte_for_byte_with_their_times() -> None:
    body = b'{"model":  "m", "messages": [ ],"x":1e400}'
    with ScriptedModel(["one"]) as server, Client(server) as client:
        before = time.monotonic()
        client.post(body).read()
        after = time.monotonic()
        client.post(b"not json").read()
        client.connection.request("GET", "/v1/models?x=1")
        models = json.loads(client.connection.getresponse().read())
        client.connection.request("GET", "/api/tags")
        assert client.connection.getresponse().status == 404
    assert [request.body for request in server.requests] == [body, b"not json"]
    assert server.requests[0].headers["content-type"] == "application/json"
    assert before <= server.requests[0].at <= server.replied_at[0] <= after
    assert [other.target for other in server.others] == ["/v1/models?x=1", "/api/tags"]
    assert models["data"][0]["id"] == "scripted-model"


def test_a_body_in_chunks_is_put_together() -> None:
    with ScriptedModel(["one"]) as server, Client(server) as client:
        pieces = [b'{"model": "m",', b'"messages": []}']
        client.connection.request("POST", "/v1/chat/completions", iter(pieces), encode_chunked=True)
        client.connection.getresponse().read()
    assert server.requests[0].body == b"".join(pieces)


def test_a_script_that_is_over_says_so() -> None:
    with ScriptedModel(["only"]) as server, Client(server) as client:
        assert server.left == 1
        assert client.whole()["choices"][0]["message"]["content"] == "only"
        assert client.whole()["choices"][0]["message"]["content"] == "(script is over)"
        server.play("more")
        assert client.whole()["choices"][0]["message"]["content"] == "more"


def test_a_function_sees_the_request_and_its_number() -> None:
    def script(request: dict[str, Any], index: int) -> str:
        return f"{index}: {request['messages'][0]['content']}"

    with ScriptedModel(script) as server, Client(server) as client:
        assert client.whole()["choices"][0]["message"]["content"] == "0: Say hi"
        assert client.whole()["choices"][0]["message"]["content"] == "1: Say hi"


def test_a_function_that_fails_is_told_to_both_sides() -> None:
    def script(request: dict[str, Any], index: int) -> str:
        raise LookupError(f"no reply for {index}")

    with pytest.raises(LookupError, match="no reply for 0"), ScriptedModel(script) as server, Client(server) as client:
        answer = client.post(ASK)
        assert answer.status == 500
        assert b"no reply for 0" in answer.read()


def test_usage_counts_what_prompts_share() -> None:
    first: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x" * 4000}]}
    longer = first | {"messages": [*first["messages"], {"role": "assistant", "content": "y" * 400}]}
    other = {"model": "m", "messages": [{"role": "user", "content": "z" * 4000}]}
    with ScriptedModel(lambda request, index: "word " * 8) as server, Client(server) as client:
        one, two, three = (client.whole(body)["usage"] for body in (first, longer, other))
    assert one["completion_tokens"] == 10
    assert one["prompt_tokens_details"]["cached_tokens"] == 0
    assert 1000 <= one["prompt_tokens"] <= 1020
    assert 1000 <= two["prompt_tokens_details"]["cached_tokens"] <= one["prompt_tokens"]
    assert two["prompt_tokens"] - one["prompt_tokens"] >= 100
    assert three["prompt_tokens_details"]["cached_tokens"] < 10


def test_usage_can_be_given() -> None:
    usage = Usage(input=7, cache_read=5, output=3, reasoning=1)
    with ScriptedModel([Say("hi", usage=usage)]) as server, Client(server) as client:
        found = client.whole()["usage"]
    assert (found["prompt_tokens"], found["completion_tokens"]) == (12, 3)
    assert found["prompt_tokens_details"]["cached_tokens"] == 5


@pytest.mark.parametrize(
    ("one", "other", "shared"), [(b"", b"a", 0), (b"abc", b"abc", 3), (b"abcd", b"abxd", 2), (b"a" * 99, b"a" * 70, 70)]
)
def test_common_prefix(one: bytes, other: bytes, shared: int) -> None:
    assert common_prefix(one, other) == shared == common_prefix(other, one)


# ---- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "status", "word"),
    [
        ("rate_limited", 429, b"too many"),
        ("overloaded", 503, b"overloaded"),
        ("server_error", 500, b"server_error"),
        ("bad_request", 400, b"not valid"),
        ("unauthorized", 401, b"invalid_api_key"),
        ("quota", 402, b"insufficient_quota"),
        ("unknown_model", 404, b"model_not_found"),
        ("overflow", 400, b"context_length_exceeded"),
        ("html", 200, b"<!DOCTYPE html>"),
        ("not_json", 200, b"works"),
        ("other_json", 200, b"something else"),
    ],
)
def test_refusals_have_their_status_and_body(kind: FaultKind, status: int, word: bytes) -> None:
    with ScriptedModel([Fault(kind, retry_after=3), "after it"]) as server, Client(server) as client:
        answer = client.post(STREAM)
        assert (answer.status, word in answer.read()) == (status, True)
        refused = kind not in {"html", "not_json", "other_json"}
        assert answer.getheader("retry-after") == ("3" if refused else None)
        assert client.whole()["choices"][0]["message"]["content"] == "after it"


def test_a_status_of_ones_own() -> None:
    with (
        ScriptedModel([Fault("status", status=529, body="busy", retry_after="soon")]) as server,
        Client(server) as client,
    ):
        answer = client.post(ASK)
        assert (answer.status, answer.read(), answer.getheader("retry-after")) == (529, b"busy", "soon")


@pytest.mark.parametrize("ask", [ASK, STREAM])
def test_a_reset_comes_before_any_byte(ask: dict[str, Any]) -> None:
    with ScriptedModel([Fault("reset")]) as server, Client(server) as client, pytest.raises(ConnectionResetError):
        client.post(ask)


@pytest.mark.parametrize("ask", [ASK, STREAM])
def test_a_reset_midway_comes_after_some_bytes(ask: dict[str, Any]) -> None:
    with ScriptedModel([Fault("reset_midway", after=2)]) as server, Client(server) as client:
        answer = client.post(ask)
        assert answer.status == 200
        assert answer.read(20)
        with pytest.raises(ConnectionResetError):
            answer.read()


@pytest.mark.parametrize("ask", [ASK, STREAM])
def test_a_cut_ends_the_body_early(ask: dict[str, Any]) -> None:
    with ScriptedModel([Fault("cut")]) as server, Client(server) as client, pytest.raises(http.client.IncompleteRead):
        client.post(ask).read()


@pytest.mark.parametrize("after", [None, 0, 3])
def test_a_stall_passes_and_the_answer_is_whole(after: int | None) -> None:
    fault = Fault("stall", seconds=0.05, after=after, reply=Say("worth the wait", pieces=2))
    with ScriptedModel([fault, fault]) as server, Client(server) as client:
        assert joined(client.events(), "content") == "worth the wait"
        assert client.whole()["choices"][0]["message"]["content"] == "worth the wait"
    assert server.replied_at[0] - server.requests[0].at >= 0.05


def test_a_client_that_hangs_up_in_a_stall_is_noticed_at_once() -> None:
    with ScriptedModel([Fault("stall", seconds=600, after=1)]) as server:
        with Client(server) as client:
            answer = client.post(STREAM)
            assert answer.read(10)
            client.connection.sock.shutdown(socket.SHUT_RDWR)
            answer.close()
        until = time.monotonic() + 10
        while not server.hung_up and time.monotonic() < until:
            time.sleep(0.005)
        assert server.hung_up == {0}


def test_closing_ends_a_stall() -> None:
    with ScriptedModel([Fault("stall", seconds=600)]) as server:
        client = Client(server)
        client.connection.request("POST", "/v1/chat/completions", json.dumps(ASK))
        while not server.requests:
            time.sleep(0.005)
    assert server.hung_up == {0}
    with pytest.raises(http.client.RemoteDisconnected):
        client.connection.getresponse()


def test_slow_tokens_arrive_all_the_same() -> None:
    with (
        ScriptedModel([Fault("slow", seconds=0.005, reply=Say("a b c d", pieces=2))]) as server,
        Client(server) as client,
    ):
        assert joined(client.events(), "content") == "a b c d"
    assert server.replied_at[0] - server.requests[0].at >= 5 * 0.005


def test_truncated_json() -> None:
    with ScriptedModel([Fault("truncated"), Fault("truncated")]) as server, Client(server) as client:
        with pytest.raises(json.JSONDecodeError):
            json.loads(client.post(ASK).read())
        stream = client.post(STREAM).read()
        *good, broken = stream.split(b"\n\n")
        assert all(json.loads(event.removeprefix(b"data: ")) for event in good)
        with pytest.raises(json.JSONDecodeError):
            json.loads(broken.removeprefix(b"data: "))


def test_a_wrong_content_type_with_the_right_body() -> None:
    with ScriptedModel([Fault("content_type", reply=Say("hi"))]) as server, Client(server) as client:
        answer = client.post(STREAM)
        assert answer.getheader("content-type") == "text/plain"
        assert joined(events(answer.read()), "content") == "hi"


def test_an_error_inside_the_stream() -> None:
    with ScriptedModel([Fault("error_event", after=2)]) as server, Client(server) as client:
        found = [json.loads(e.removeprefix(b"data: ")) for e in client.post(STREAM).read().split(b"\n\n") if e]
    assert len(found) == 3
    assert found[-1]["error"]["code"] == "server_error"


def test_a_stream_without_an_end() -> None:
    with ScriptedModel([Fault("no_end", reply=Say("hi"))]) as server, Client(server) as client:
        stream = client.post(STREAM).read()
    assert b'"content":"hi"' in stream
    assert b"[DONE]" not in stream
    assert b'"finish_reason":"stop"' not in stream


def test_messages_that_are_faults_themselves() -> None:
    kinds: tuple[FaultKind, ...] = ("empty", "length", "malformed_arguments", "unknown_tool", "duplicate_ids")
    with ScriptedModel([Fault(kind) for kind in kinds]) as server, Client(server) as client:
        empty, length, malformed, unknown, twice = (client.whole()["choices"][0] for _ in kinds)
    assert (empty["message"]["content"], empty["finish_reason"]) == (None, "stop")
    assert length["finish_reason"] == "length"
    with pytest.raises(json.JSONDecodeError):
        json.loads(malformed["message"]["tool_calls"][0]["function"]["arguments"])
    assert unknown["message"]["tool_calls"][0]["function"]["name"] == "open_pod_bay_doors"
    assert len({call["id"] for call in twice["message"]["tool_calls"]}) == 1
    assert len(twice["message"]["tool_calls"]) == 2


# ---- as a process ----------------------------------------------------------------------------------------------------


def run(*arguments: str) -> subprocess.Popen[bytes]:
    """The server as a process of its own."""
    command = [sys.executable, "-m", "melete.testing.scripted", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_it_runs_as_a_process_and_writes_a_record(tmp_path: Path) -> None:
    script, record = tmp_path / "script.json", tmp_path / "record.jsonl"
    script.write_text(
        json.dumps([
            {"type": "calls", "calls": [{"type": "call", "name": "terminal", "arguments": {"command": "ls"}}]},
            {"type": "fault", "kind": "rate_limited", "retry_after": 1},
            "bye",
        ])
    )  # fmt: skip
    with run("--script", str(script), "--record", str(record)) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().decode().split(":")[2].split("/")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        seen: list[tuple[int, bytes]] = []
        for _ in range(3):
            connection.request("POST", "/v1/chat/completions", json.dumps(ASK))
            answer = connection.getresponse()
            seen.append((answer.status, answer.read()))
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert [status for status, _ in seen] == [200, 429, 200]
    assert b"bye" in seen[2][1]
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["request", "replied"] * 3
    assert json.loads(lines[0]["body"]) == ASK
    assert lines[0]["at"] <= lines[1]["at"] <= lines[2]["at"]


@pytest.mark.parametrize("text", ['[{"type": "say", "txt": "typo"}]', "{", '[{"type": "fault", "kind": "nonsense"}]'])
def test_a_script_that_is_wrong_is_refused(tmp_path: Path, text: str) -> None:
    script = tmp_path / "script.json"
    script.write_text(text)
    with run("--script", str(script)) as process:
        _, error = process.communicate(timeout=20)
        assert process.returncode == 2
    assert b"cannot use the script" in error


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text("[]")
    with ScriptedModel() as server:
        port = server.base_url.split(":")[2].split("/")[0]
        with run("--script", str(script), "--port", port, "--record", str(tmp_path / "record")) as process:
            _, error = process.communicate(timeout=20)
        with pytest.raises(OSError, match="in use"):
            ScriptedModel(port=int(port), record=tmp_path / "record")
    assert process.returncode == 2
    assert b"cannot serve" in error


def test_no_file_descriptor_and_no_thread_is_left(tmp_path: Path) -> None:
    def serve(times: int) -> None:
        for _ in range(times):
            with ScriptedModel(["hi"], record=tmp_path / "record") as server, Client(server) as client:
                client.whole()

    def count() -> int:
        return threading.active_count() + sum(1 for _ in Path("/proc/self/fd").iterdir())

    gc.collect()
    serve(1)
    before = count()
    serve(5)
    assert count() == before
