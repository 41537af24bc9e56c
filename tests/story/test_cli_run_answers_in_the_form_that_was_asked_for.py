"""`melete run --schema FILE`: the answer is JSON of that form or the command fails, whatever the wire."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from melete.testing import Call, Say, ScriptedModel
from tests.story.cli import lines, melete
from tests.story.homes import WIRES, at, configure, of_type

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer", "minimum": 1}},
    "required": ["city", "people"],
    "additionalProperties": False,
}
RIGHT = '{"city": "Delphi", "people": 800}'


@pytest.fixture
def schema(tmp_path: Path) -> str:
    """The file that a person would give."""
    file = tmp_path / "place.json"
    file.write_bytes(msgspec.json.encode(SCHEMA))
    return str(file)


def asked_for(wire: str, body: dict[str, Any]) -> Any:
    """Where each wire says what an answer has to be."""
    match wire:
        case "openai-chat":
            return body["response_format"]["json_schema"]["schema"]
        case "openai-responses":
            return body["text"]["format"]["schema"]
        case "anthropic-messages":
            return body["output_config"]["format"]["schema"]
        case _:
            config = body["generationConfig"]
            return config.get("responseJsonSchema") or config["responseSchema"]


@pytest.mark.parametrize("wire", WIRES)
def test_the_schema_reaches_the_model_and_the_answer_standard_output(
    wire: str, schema: str, tmp_path: Path, own_home: Path
) -> None:
    with ScriptedModel([Call("terminal", {"command": "true"}), Say(RIGHT, thinking="Which one?")]) as model:
        configure(own_home, model=at(model, wire=wire, name="m"))
        done = melete("run", "--schema", schema, "where?", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert msgspec.json.decode(done.stdout) == {"city": "Delphi", "people": 800}
    for request in model.requests:
        sent = asked_for(wire, request.json)
        assert sent["required"] == ["city", "people"]
        assert sorted(sent["properties"]) == ["city", "people"]


@pytest.mark.parametrize("wire", WIRES)
def test_a_wrong_answer_is_sent_back_with_what_is_wrong(wire: str, schema: str, tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(['{"city": "Delphi"}', "Delphi, and 800.", f"```json\n{RIGHT}\n```"]) as model:
        configure(own_home, model=at(model, wire=wire, name="m"))
        done = melete("run", "--schema", schema, "where?", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, RIGHT + "\n"), done.stderr
    assert len(model.requests) == 3
    assert b"must contain" in model.requests[1].body
    assert b"it is not JSON" in model.requests[2].body


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=str)
def test_after_two_more_tries_it_fails(flags: list[str], schema: str, tmp_path: Path) -> None:
    with ScriptedModel(["no", "never", "not so", RIGHT]) as model:
        done = melete("run", *flags, "--schema", schema, "where?", model=model, cwd=tmp_path)
    assert done.returncode == 1
    assert len(model.requests) == 3
    if flags:
        (ended,) = of_type(lines(done.stdout), "run.ended")
        assert (ended["stop"], "not JSON" in ended["error"]) == ("failed", True)
    else:
        assert done.stdout == ""
        assert "not JSON" in done.stderr


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "is not JSON"), ("[]", "is not a JSON object"), ('{"type": "nonsense"}', "is not a JSON Schema"),
        (None, "cannot read"),
        ('{"type": "object", "properties": {"x": {"$ref": "https://localhost:1/x.json"}}}', "is not a JSON Schema"),
        ('{"$ref": "#/nowhere"}', "is not a JSON Schema"),
    ],
)  # fmt: skip
def test_a_broken_schema_is_a_mistake_of_the_command_line(content: str | None, why: str, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    if content is not None:
        file.write_text(content)
    with ScriptedModel() as model:
        done = melete("run", "--schema", str(file), "where?", model=model, cwd=tmp_path)
    assert (done.returncode, model.requests) == (2, [])
    assert why in done.stderr
    assert "Traceback" not in done.stderr
