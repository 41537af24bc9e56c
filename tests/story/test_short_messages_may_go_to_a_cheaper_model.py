"""`model.routing`: small talk goes to the cheaper model and work to the main one; nothing does unless it is turned on."""

from pathlib import Path
from typing import Any

import pytest

from melete.testing import ScriptedModel
from tests.story.cli import lines, melete
from tests.story.homes import at, configure, of_type


def settings(main: ScriptedModel, cheap: ScriptedModel, **routing: Any) -> dict[str, Any]:
    return {
        "model": {**at(main, name="big"), "routing": {"model": "box/small", **routing}},
        "providers": {"box": at(cheap, wire="anthropic-messages")},
    }


def test_small_talk_is_answered_by_the_cheap_one_and_work_is_not(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(["Big."] * 2) as main, ScriptedModel(["Small."] * 2) as cheap:
        configure(own_home, **settings(main, cheap, enabled=True))
        small = melete("run", "--json", "good morning, how are you?", cwd=tmp_path)
        work = melete("run", "-c", "refactor the parser in src/parse.py", cwd=tmp_path)
        thanks = melete("run", "-c", "thank you!", cwd=tmp_path)
    assert (work.stdout, thanks.stdout) == ("Big.\n", "Small.\n"), work.stderr + thanks.stderr
    events = lines(small.stdout)
    notices = [event["text"] for event in of_type(events, "notice") if event["about"] == "routing"]
    assert notices == ["a short message: small answers it (model.routing)"]
    assert [(row["model"], row["provider"]) for row in of_type(events, "spent")] == [("small", "box")]
    assert [request.json["model"] for request in (*main.requests, *cheap.requests)] == ["big", "small", "small"]
    for text in (b"good morning", b"Small."):
        assert text in main.requests[0].body
    for text in (b"refactor", b"Big."):
        assert text in cheap.requests[1].body


@pytest.mark.parametrize("routing", [{}, {"enabled": False}, {"enabled": True, "model": ""}], ids=str)
def test_it_is_off_by_default(routing: dict[str, Any], tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(["Big."]) as main, ScriptedModel() as cheap:
        configure(own_home, **settings(main, cheap, **routing))
        done = melete("run", "hello", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("Big.\n", "")


def test_a_cheap_model_that_cannot_be_used_leaves_the_message_to_the_main_one(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(["Big."]) as main, ScriptedModel() as cheap:
        configure(own_home, **settings(main, cheap, enabled=True, model="anthropic/claude-haiku-4-5"))
        done = melete("run", "hello", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "Big.\n"), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("melete: warning: model.routing cannot be used: no key for anthropic")


def test_a_message_that_the_cheap_model_fails_on_goes_on_with_the_fallbacks(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(["Big."]) as main, ScriptedModel() as cheap:
        given = settings(main, cheap, enabled=True, model="gone/small")
        given["providers"]["gone"] = {"base_url": "http://127.0.0.1:1/v1"}
        given["model"]["timeouts"] = {"connect": 1.0}
        configure(own_home, **given)
        done = melete("run", "hello", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "Big.\n"), done.stderr
