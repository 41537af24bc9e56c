"""OpenAI's own library for Node, pointed at a server, finds everything that it knows of responses."""

from pathlib import Path

from melete.testing import ScriptedModel
from tests import node
from tests.chatting import OTHER, POEM, answer
from tests.served import served

TOOL = "Let me look.\n\nThe tool is done."


def test_everything_that_the_library_for_node_knows(tmp_path: Path) -> None:
    with ScriptedModel(answer) as model, served(tmp_path, model) as server:
        found = {one.pop("name"): one for one in node.run("responses.mjs", server.url)}
    stream = found.pop("stream")
    assert stream["ordered"]
    assert stream["text"] == TOOL
    assert stream["types"][:2] == ["response.created", "response.in_progress"]
    assert stream["types"][-1] == "response.completed"
    resumed = found.pop("resumed")
    assert set(resumed["rest"]) <= set(resumed["wanted"])
    assert resumed["rest"][-1] == resumed["wanted"][-1]
    assert found == {
        "whole": {
            "text": "You said: hello from node",
            "status": "completed",
            "same": True,
            "metadata": {"a": "b"},
            "continued": True,
        },
        "items": {"asked": ["and again"]},
        "helper": {"text": TOOL, "pieces": TOOL, "types": ["message", "mcp_call", "message"]},
        "given up": {"text": OTHER},
        "parsed": {"n": 5, "text": '{"n": 4}'},
        "background": {"began": "in_progress", "status": "completed", "text": POEM},
        "cancelled": {"status": "cancelled"},
        "deleted": {"status": 404, "code": "response_not_found", "known": True},
        "refused": {"status": 400, "code": "unsupported_parameter", "param": "tool_choice"},
        "failed": {"status": 429, "code": "insufficient_quota"},
    }
