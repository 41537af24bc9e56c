"""A chat that the end of a server cut off, and whose session a terminal went on with, is answered as failed: not "try again"."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from melete.testing import Fault, Say, ScriptedModel
from tests.playing import wait_until
from tests.served import Served, served

HEADERS = {"idempotency-key": "once"}
CHAT = {"messages": [{"role": "user", "content": "Hello?"}]}


def _settled(server: Served) -> Any:
    """What is answered once the server has seen to what was left."""
    answer = server.client.post("/v1/chat/completions", json=CHAT, headers=HEADERS)
    return None if answer.status_code == 409 else answer


def test_it_failed_and_nothing_else_is_said_for_a_day(tmp_path: Path) -> None:
    with ScriptedModel([Fault("stall", seconds=60, reply=Say("Never read.")), "From the terminal."]) as model:
        with served(tmp_path, model) as server, ThreadPoolExecutor(1) as pool:
            cut = pool.submit(server.client.post, "/v1/chat/completions", json=CHAT, headers=HEADERS)
            wait_until(lambda: model.requests)
            run = server.client.get("/v1/runs").json()["data"][0]
            server.kill()
            assert cut.exception() is not None
            assert "From the terminal." in server.command("run", "-s", run["session"], "Go on.")
        with served(tmp_path, model) as server:
            wait_until(lambda: server.status(run["id"])["status"] == "interrupted")
            answer = wait_until(lambda: _settled(server))
            assert (answer.status_code, answer.json()["error"]["code"]) == (502, "model_failed")
            assert answer.headers["x-should-retry"] == "false"
            assert run["id"] in answer.json()["error"]["message"]
            assert len(model.requests) == 2
