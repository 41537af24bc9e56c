"""Other clients than Python's: curl, which keeps its connection, and OpenAI's library for Node."""

import json
import subprocess
from collections.abc import Generator
from typing import Any

import pytest

from melete.testing import ScriptedModel
from tests.chatting import answer
from tests.node import run
from tests.served import Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    with ScriptedModel(answer) as model, served(tmp_path_factory.mktemp("person"), model) as found:
        yield found


@pytest.mark.needs("curl")
def test_curl_asks_twice_on_one_connection(server: Served) -> None:
    url = f"{server.url}/v1/chat/completions"
    bodies = [json.dumps({"messages": [{"role": "user", "content": f"curl {n}"}], "stream": n > 0}) for n in range(2)]
    first, second = (["-H", "content-type: application/json", "-d", body, url] for body in bodies)
    done = subprocess.run(
        ["curl", "-sSv", "--noproxy", "*", "--max-time", "30", *first, "--next", "-sSv", "--noproxy", "*", *second],
        capture_output=True, check=True, text=True, timeout=60,
    )  # fmt: skip
    whole, _, stream = done.stdout.partition("data: ")
    assert json.loads(whole)["choices"][0]["message"]["content"] == "You said: curl 0"
    assert "You said: curl " in stream
    assert stream.endswith("data: [DONE]\n\n")
    assert done.stderr.count("HTTP/1.1 200 OK") == 2
    assert done.stderr.lower().count("connected to 127.0.0.1") == 1, done.stderr
    assert "re-us" in done.stderr.lower(), done.stderr


def test_the_library_for_node_finds_everything_that_it_knows(server: Served) -> None:
    found: dict[str, dict[str, Any]] = {line.pop("name"): line for line in run("chat.mjs", server.url)}
    assert found["models"] == {"names": ["melete", "scripted"], "one": "melete"}
    assert (found["whole"]["text"], found["whole"]["finish"]) == ("You said: hello from node", "stop")
    assert found["whole"]["usage"]["prompt_tokens_details"]["cached_tokens"] >= 0
    assert found["continued"] == {"text": "You said: and again", "same": True}
    stream = found["stream"]
    assert stream.pop("usage")["total_tokens"] > 0
    assert stream == {
        "text": "Let me look.\n\nThe tool is done.",
        "roles": ["assistant"],
        "finish": "stop",
        "beside": ["tool.started", "tool.ended", "run.ended"],
    }
    assert found["helper"] == {"text": "It is four.", "pieces": "It is four.", "finish": "stop"}
    assert found["image"] == {"text": "You said: look <image_url>"}
    assert found["parsed"] == {"content": '{"n": 4}', "parsed": {"n": 4}}
    assert found["unsupported"] == {
        "kind": "BadRequestError", "status": 400, "code": "unsupported_parameter", "param": "n",
    }  # fmt: skip
    assert found["no_user"]["code"] == "no_user_message"
    assert (found["not_found"]["kind"], found["not_found"]["code"]) == ("NotFoundError", "model_not_found")
    assert (found["failed"]["kind"], found["failed"]["status"]) == ("InternalServerError", 502)
    assert found["tools"] == {"text": "You said: hi", "ignored": "tools"}
    assert found["broken"] == {"kind": "APIError", "code": "model_failed", "api": True}
