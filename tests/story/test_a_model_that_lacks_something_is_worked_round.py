"""A model without tools, or without eyes, does the work all the same, and the person is told how."""

import base64
from pathlib import Path

import pytest

from melete.testing import Fault, Say, ScriptedModel
from tests.story.cli import lines, melete
from tests.story.homes import WIRES, at, configure, of_type

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CALL = '<tool_call>{"name": "terminal", "arguments": {"command": "echo done > proof.txt; cat proof.txt"}}</tool_call>'


@pytest.mark.parametrize("wire", WIRES)
def test_a_server_that_takes_no_tools_has_them_described(wire: str, tmp_path: Path, own_home: Path) -> None:
    refusal = Fault("bad_request", message="m does not support tools")
    with ScriptedModel([refusal, Say(f"I shall.\n{CALL}"), Say("It is done.")]) as model:
        configure(own_home, model=at(model, wire=wire, name="m"))
        done = melete("run", "--json", "do it", cwd=tmp_path)
        again = melete("run", "-c", "--json", "and?", cwd=tmp_path)
    assert (done.returncode, again.returncode) == (0, 0), done.stderr
    assert (tmp_path / "proof.txt").read_text() == "done\n"
    events = lines(done.stdout)
    (retried,) = of_type(events, "retried")
    assert "takes no tools for m; they are described to it in words from now on" in retried["reason"]
    assert of_type(events, "run.ended")[0]["text"] == "It is done."
    first, *described = model.requests[:3]
    assert "tools" in first.json
    for request in described:
        assert not request.json.get("tools")
        assert b"You act by calling tools" in request.body
    assert b"done" in described[1].body
    for event in events:
        if event["type"] == "text.delta":
            assert "<tool_call>" not in event["text"]


@pytest.mark.parametrize("wire", WIRES)
def test_a_model_that_is_known_to_have_no_eyes_is_told_that_a_picture_was_left_out(
    wire: str, tmp_path: Path, own_home: Path
) -> None:
    picture = tmp_path / "dot.png"
    picture.write_bytes(PIXEL)
    with ScriptedModel(["I see nothing."]) as model:
        blind = at(model, wire=wire, name="codestral-latest", provider="mistral")
        configure(own_home, model=blind)
        done = melete("run", "--image", str(picture), "what is this?", cwd=tmp_path, MISTRAL_API_KEY="sk-0123456789")
    assert (done.returncode, done.stdout) == (0, "I see nothing.\n"), done.stderr
    (request,) = model.requests
    assert base64.b64encode(PIXEL) not in request.body
    assert b"left out" in request.body
    assert [line for line in done.stderr.splitlines() if "takes no images" in line]


@pytest.mark.parametrize("wire", WIRES)
def test_a_model_with_eyes_gets_the_picture(wire: str, tmp_path: Path, own_home: Path) -> None:
    picture = tmp_path / "dot.png"
    picture.write_bytes(PIXEL)
    with ScriptedModel(["A dot."]) as model:
        configure(own_home, model=at(model, wire=wire, name="m"))
        done = melete("run", "--image", str(picture), "what is this?", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "A dot.\n", "")
    assert base64.b64encode(PIXEL) in model.requests[0].body


@pytest.mark.parametrize("wire", WIRES)
def test_a_server_that_turns_out_to_have_no_eyes_is_asked_without(wire: str, tmp_path: Path, own_home: Path) -> None:
    picture = tmp_path / "dot.png"
    picture.write_bytes(PIXEL)
    refusal = Fault("bad_request", message="this model does not support image input")
    with ScriptedModel([refusal, Say("I see nothing."), Say("Still not.")]) as model:
        configure(own_home, model=at(model, wire=wire, name="m"))
        done = melete("run", "-v", "--image", str(picture), "what is this?", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "I see nothing.\n"), done.stderr
    assert base64.b64encode(PIXEL) not in model.requests[1].body
    assert "image" in done.stderr
