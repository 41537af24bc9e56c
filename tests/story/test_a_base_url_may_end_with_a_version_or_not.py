"""Where a server is, written as people write it: every wire finds its own path."""

from pathlib import Path

import pytest

from melete.testing import ScriptedModel
from tests.story.cli import melete
from tests.story.homes import WIRES, configure

PATHS = {
    "openai-chat": "/chat/completions",
    "openai-responses": "/responses",
    "anthropic-messages": "/messages",
    "gemini": "/models/m:streamGenerateContent",
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("ending", ["", "/v1/", "/api/v3"])
def test_the_request_arrives(wire: str, ending: str, tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(["Here."]) as model:
        root = model.base_url.removesuffix("/v1")
        configure(own_home, model={"base_url": root + ending, "wire": wire, "name": "m"})
        done = melete("run", "go", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "Here.\n"), done.stderr
    (request,) = model.requests
    assert request.wire == wire
    assert request.path.endswith(PATHS[wire])
    assert request.path.startswith(ending.rstrip("/"))
    assert "//" not in request.path


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses", "anthropic-messages"])
def test_a_whole_path_stays(wire: str, tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(["Here."]) as model:
        configure(own_home, model={"base_url": model.base_url + PATHS[wire], "wire": wire, "name": "m"})
        done = melete("run", "go", cwd=tmp_path)
    assert done.stdout == "Here.\n", done.stderr
    assert model.requests[0].path == "/v1" + PATHS[wire]
