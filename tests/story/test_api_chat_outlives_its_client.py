"""A chat completion is a run like any other: it goes on without its client, asks and is answered, and can be cancelled."""

import re
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from melete.testing import ScriptedModel
from tests.chatting import POEM, answer
from tests.served import PATIENCE, Served, served
from tests.story.homes import configure

PATH = "/v1/chat/completions"


@contextmanager
def serving(home: Path, **settings: Any) -> Generator[Served]:
    configure(home, server={"keepalive": 0.2, **settings})
    with ScriptedModel(answer) as model, served(home, model) as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    with serving(tmp_path_factory.mktemp("person")) as found:
        yield found


def body(words: str, *, stream: bool = True) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": words}], "stream": stream}


def frames(lines: Iterator[str]) -> Iterator[Any]:
    """The data of a stream, decoded; `[DONE]` as it is."""
    for line in lines:
        if line.startswith("data: "):
            data = line.removeprefix("data: ")
            yield data if data == "[DONE]" else msgspec.json.decode(data)


def until_over(server: Served, run: str) -> dict[str, Any]:
    """The status of a run once it has ended, without having followed it."""
    wait_until(lambda: server.status(run)["status"] not in ("running", "waiting"))
    return server.status(run)


def wait_until(there: Callable[[], bool]) -> None:
    """Look until it is so."""
    until = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < until
        time.sleep(0.02)


def leave(server: Served, words: str, *, stream: bool) -> str:
    """Ask for something, go away once it is being answered, and return the run."""
    assert server.model is not None
    asked = len(server.model.requests)
    if stream:
        with server.client.stream("POST", PATH, json=body(words)) as answered:
            assert any('"content":"Roses' in line for line in answered.iter_lines())
            return answered.headers["x-melete-run-id"]
    with (
        httpx2.Client(base_url=server.url, trust_env=False, timeout=0.3) as impatient,
        pytest.raises(httpx2.ReadTimeout),
    ):
        impatient.post(PATH, json=body(words, stream=False))
    wait_until(lambda: server.model is not None and len(server.model.requests) > asked)
    runs = re.findall(r'"run":"([0-9a-f]{16})"', newest(server))
    return runs[-1]


def newest(server: Served) -> str:
    """The log of the session that changed last."""
    logs = (server.melete / "state" / "sessions").glob("*.log")
    return max(logs, key=lambda path: path.stat().st_mtime_ns).read_text()


@pytest.mark.parametrize("stream", [True, False])
def test_a_run_is_finished_without_its_client(server: Served, *, stream: bool) -> None:
    run = leave(server, f"slow 0.06 {stream}", stream=stream)
    assert until_over(server, run)["text"] == POEM


@pytest.mark.parametrize("stream", [True, False])
def test_a_run_ends_with_its_client_where_that_is_wanted(tmp_path: Path, *, stream: bool) -> None:
    with serving(tmp_path, disconnect="cancel") as server:
        run = leave(server, "slow 0.3", stream=stream)
        status = until_over(server, run)
        assert (status["status"], status["text"]) == ("cancelled", "")
        with server.client.stream("POST", PATH, json=body("slow 0.01")) as answered:
            assert list(frames(answered.iter_lines()))[-1] == "[DONE]"
        assert until_over(server, answered.headers["x-melete-run-id"])["status"] == "done"


def test_a_silent_stream_is_kept_alive(server: Served) -> None:
    with server.client.stream("POST", PATH, json=body("slow 0.7")) as answered:
        lines: list[str] = []
        for line in answered.iter_lines():
            lines.append(line)
            if sum(line.startswith(":") for line in lines) == 3:
                break
    assert '"role":"assistant"' in next(line for line in lines if line.startswith("data: "))
    server.client.post(f"/v1/runs/{answered.headers['x-melete-run-id']}/cancel")


def test_a_question_is_told_and_its_answer_goes_on(server: Served) -> None:
    text, kinds = "", list[str]()
    with server.client.stream("POST", PATH, json=body("ask me")) as answered:
        run = answered.headers["x-melete-run-id"]
        for frame in frames(answered.iter_lines()):
            if frame == "[DONE]":
                break
            if told := frame.get("melete"):
                kinds.append(told["type"])
                if told["type"] == "asked":
                    assert (told["text"], told["choices"]) == ("Which colour?", ["red", "blue"])
                    assert server.status(run)["status"] == "waiting"
                    value = {"question": told["question"], "value": "blue"}
                    assert server.client.post(f"/v1/runs/{run}/answer", json=value).json()["status"] == "accepted"
            text += "".join(choice["delta"].get("content", "") for choice in frame["choices"])
    assert kinds == ["tool.started", "asked", "answered", "tool.ended", "run.ended"]
    assert "blue" in text


def test_a_run_that_is_cancelled_is_an_error_of_its_stream(server: Served) -> None:
    with server.client.stream("POST", PATH, json=body("slow 0.3")) as answered:
        run = answered.headers["x-melete-run-id"]
        found = frames(answered.iter_lines())
        assert next(found)["choices"][0]["delta"]["role"] == "assistant"
        assert server.client.post(f"/v1/runs/{run}/cancel").status_code == 200
        *_, last = found
    assert (last["error"]["code"], last["error"]["type"]) == ("cancelled", "conflict_error")
    assert run in last["error"]["message"]


def test_a_run_that_is_cancelled_is_an_error_of_its_answer(server: Served) -> None:
    assert server.model is not None
    asked = len(server.model.requests)
    with ThreadPoolExecutor(1) as pool:
        answered = pool.submit(server.client.post, PATH, json=body("slow 0.3 whole", stream=False))
        wait_until(lambda: server.model is not None and len(server.model.requests) > asked)
        run = re.findall(r'"run":"([0-9a-f]{16})"', newest(server))[-1]
        with httpx2.Client(base_url=server.url, trust_env=False) as other:
            assert other.post(f"/v1/runs/{run}/cancel").status_code == 200
        found = answered.result(PATIENCE)
    assert (found.status_code, found.json()["error"]["code"]) == (409, "cancelled")
    assert found.headers["x-melete-run-id"] == run
    assert found.headers["x-should-retry"] == "false"


def test_a_model_that_is_silent_at_first_gets_its_stream_opened(tmp_path: Path) -> None:
    """The head of a stream waits for something to tell, but not for long."""
    with serving(tmp_path) as server, server.client.stream("POST", PATH, json=body("stall")) as answered:
        assert answered.status_code == 200
        lines = answered.iter_lines()
        first = [next(lines) for _ in range(4)]
        assert any(line.startswith("data: ") for line in first)
        run = answered.headers["x-melete-run-id"]
        assert server.status(run)["status"] == "running"
        server.client.post(f"/v1/runs/{run}/cancel")
