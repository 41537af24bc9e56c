"""`model.effort`, `temperature`, `max_output`, `service_tier` and `extra`, said in each wire's own words."""

from pathlib import Path
from typing import Any

import pytest

from melete.testing import Call, Say, ScriptedModel
from tests.story.cli import melete
from tests.story.homes import WIRES, at, configure

EXTRA = {"provider": {"order": ["one", "two"]}, "x_own": [1, None]}


def fields(wire: str, body: dict[str, Any]) -> dict[str, Any]:
    """What a body says of temperature and longest answer."""
    config = body.get("generationConfig", {})
    longest = {
        "openai-chat": body.get("max_tokens"),
        "openai-responses": body.get("max_output_tokens"),
        "anthropic-messages": body.get("max_tokens"),
        "gemini": config.get("maxOutputTokens"),
    }
    return {"temperature": config.get("temperature", body.get("temperature")), "longest": longest[wire]}


@pytest.mark.parametrize("wire", WIRES)
def test_temperature_length_tier_and_further_fields(wire: str, tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel([Call("terminal", {"command": "true"}), Say("Done.")]) as model:
        configure(
            own_home,
            model=at(model, wire=wire, name="m", temperature=0.25, max_output=1234, service_tier="flex", extra=EXTRA),
        )
        done = melete("run", "go", cwd=tmp_path)
    assert done.stdout == "Done.\n", done.stderr
    assert len(model.requests) == 2
    for request in model.requests:
        assert fields(wire, request.json) == {"temperature": 0.25, "longest": 1234}
        assert {name: request.json[name] for name in EXTRA} == EXTRA
        assert b"flex" in request.body


@pytest.mark.parametrize("wire", WIRES)
def test_effort(wire: str, tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(["Done.", "Done."]) as model:
        place = at(model, wire=wire, name="m")
        configure(own_home, model=place)
        plain = melete("run", "go", cwd=tmp_path)
        configure(own_home, model={**place, "effort": "high"})
        hard = melete("run", "go", cwd=tmp_path)
    assert (plain.stdout, hard.stdout) == ("Done.\n", "Done.\n"), plain.stderr + hard.stderr
    before, after = (request.json for request in model.requests)
    said = {
        "openai-chat": lambda body: body.get("reasoning_effort"),
        "openai-responses": lambda body: body.get("reasoning", {}).get("effort"),
        "anthropic-messages": lambda body: (body.get("output_config") or {}).get("effort") or body.get("thinking"),
        "gemini": lambda body: (
            body["generationConfig"].get("thinkingConfig", {}).get("thinkingLevel")
            if "generationConfig" in body
            else None
        ),
    }[wire]
    assert not said(before) or "high" not in str(said(before)).lower()
    assert said(after)
    if wire != "anthropic-messages":
        assert str(said(after)).lower() == "high"


def test_a_vendor_that_nobody_has_and_a_wire_that_nobody_speaks_are_named(tmp_path: Path, own_home: Path) -> None:
    configure(own_home, model={"name": "m", "provider": "opnai"})
    vendor = melete("run", "go", cwd=tmp_path)
    assert (vendor.returncode, "did you mean openai?" in vendor.stderr) == (2, True)
    with ScriptedModel() as model:
        configure(own_home, model=at(model, name="m", wire="openai-chatt"))
        wire = melete("run", "go", cwd=tmp_path)
        assert model.requests == []
    assert wire.returncode == 2
    assert "openai-chatt" in wire.stderr
    configure(own_home, model={"name": "m", "effort": "hgih"})
    effort = melete("run", "go", cwd=tmp_path)
    assert (effort.returncode, "model.effort" in effort.stderr) == (2, True)
