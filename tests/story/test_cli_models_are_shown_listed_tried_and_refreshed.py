"""`melete model`: what answers, what is known, whether it works, and what happens when something is not known."""

import json
from pathlib import Path

import pytest

from melete.testing import Call, Fault, Say, ScriptedModel
from tests.story.cli import Terminal, lines, melete

READY = Call("ready", {"word": "yes"})


def config(home: Path, text: str) -> None:
    (home / ".melete").mkdir(exist_ok=True)
    (home / ".melete" / "config.yaml").write_text(text)


def test_the_model_is_shown_with_what_is_known_of_it(own_home: Path) -> None:
    config(
        own_home,
        "model: {name: openai/gpt-4.1, fallbacks: [groq/spare, {name: local-one, base_url: 'http://127.0.0.1:1/v1'}]}\n"
        "auxiliary: {title: openai/gpt-4.1-nano}\n",
    )
    done = melete("model", OPENAI_API_KEY="sk-something-secret")
    told = {line[:9].strip(): line[9:].strip() for line in done.stdout.splitlines()}
    assert told["window"] == "1,047,576 tokens, at most 32,768 in a reply"
    assert told["price"].startswith("$2.00 in, $8.00 out, $0.50 cached for a million tokens (litellm")
    assert told["key"] == "OPENAI_API_KEY is set"
    assert told["title"] == "openai/gpt-4.1-nano"
    assert "groq/spare" in done.stdout
    assert "local-one" in done.stdout
    assert "secret" not in done.stdout + done.stderr
    assert done.stderr == ""
    (row,) = lines(melete("model", "--json", OPENAI_API_KEY="sk-something-secret").stdout)
    assert (row["current"]["context"], row["current"]["known"]) == (1_047_576, True)
    assert row["beside"] == {"fallback": ["groq/spare", "local-one"], "title": ["openai/gpt-4.1-nano"]}


def test_what_is_not_known_is_noted_when_a_model_is_set() -> None:
    done = melete("model", "set", "openai/gpt-4.1-minii", OPENAI_API_KEY="sk-something")
    assert done.returncode == 0
    assert "note: the window of gpt-4.1-minii is not known: 128,000 tokens are assumed" in done.stderr
    assert "gpt-4.1-mini" in done.stderr
    assert "note: the price of gpt-4.1-minii is not known" in done.stderr


def test_a_model_of_a_vendor_leaves_the_server_before_behind(own_home: Path) -> None:
    config(
        own_home, "model:\n  name: mine\n  base_url: http://127.0.0.1:1/v1\n  wire: gemini\n  context_length: 9000\n"
    )
    assert melete("model", "set", "other").returncode == 0
    (row,) = lines(melete("model", "--json").stdout)
    assert (row["current"]["model"], row["current"]["base_url"]) == ("other", "http://127.0.0.1:1/v1")
    done = melete("model", "set", "openai/gpt-4.1", OPENAI_API_KEY="sk-something")
    assert (
        "model.base_url, model.wire, model.context_length belonged to the server before and are emptied" in done.stderr
    )
    (row,) = lines(melete("model", "--json", OPENAI_API_KEY="sk-something").stdout)
    now = row["current"]
    assert (now["model"], now["provider"], now["wire"], now["context"]) == (
        "gpt-4.1", "openai", "openai-responses", 1_047_576,
    )  # fmt: skip
    held = melete(
        "model", "set", "openai/gpt-5", OPENAI_API_KEY="sk-something", MELETE_BASE_URL="http://127.0.0.1:1/v1"
    )
    assert "MELETE_BASE_URL stands before the file, so this has no effect" in held.stderr


def test_a_model_in_this_process_is_known_without_its_file() -> None:
    done = melete("model", "--json", MELETE_MODEL="local/smollm2")
    (row,) = lines(done.stdout)
    assert (row["current"]["context"], row["current"]["images"], row["current"]["usd_input"]) == (8192, False, 0.0)
    asked = melete("model", "list", "local", "--online")
    assert (asked.returncode, "local has no server that could list its models" in asked.stderr) == (2, True)


def test_a_vendor_that_nobody_has_and_a_key_that_is_missing_are_said() -> None:
    unknown = melete("model", "list", "opnai")
    assert (unknown.returncode, "did you mean openai?" in unknown.stderr) == (2, True)
    keyless = melete("model", "set", "anthropic/claude-opus-4-5")
    assert (keyless.returncode, "no key for anthropic; put ANTHROPIC_API_KEY=" in keyless.stderr) == (2, True)
    mine = melete("model", "set", "azure/deployed", AZURE_OPENAI_API_KEY="k-12345678")
    assert (mine.returncode, "a part of your own: resource" in mine.stderr) == (2, True)


def test_vendors_and_their_models_are_listed() -> None:
    vendors = melete("model", "list").stdout
    assert "anthropic" in vendors
    assert "ANTHROPIC_API_KEY is not set" in vendors
    rows = {row["provider"]: row for row in lines(melete("model", "list", "--json", GROQ_API_KEY="gsk-123").stdout)}
    assert rows["anthropic"]["models"] > 5
    assert (rows["groq"]["key_set"], rows["anthropic"]["key_set"]) == (True, False)
    found = lines(melete("model", "list", "gemini", "--search", "2.5-PRO", "--json").stdout)
    assert {row["provider"] for row in found} == {"google"}
    assert next(row for row in found if row["name"] == "gemini-2.5-pro")["context"] == 1_048_576
    assert "openrouter/anthropic/claude-opus-4.5" in melete("model", "list", "--search", "opus-4.5").stdout
    nothing = melete("model", "list", "--search", "no-such-name")
    assert (nothing.stdout, nothing.stderr.startswith("0 models")) == ("", True)


def test_a_server_is_asked_for_its_list() -> None:
    with ScriptedModel() as model:
        (row,) = lines(melete("model", "list", "--online", "--json", model=model).stdout)
        assert row["name"] == model.model
        assert melete("model", "list", "--online", "--search", "other", model=model).stderr == (
            "The server lists no such model.\n"
        )
    gone = melete("model", "list", "--online", model=model)
    assert (gone.returncode, "start the server" in gone.stderr) == (1, True)


def test_a_model_that_calls_the_tool_works() -> None:
    with ScriptedModel([READY]) as model:
        done = melete("model", "test", model=model)
    assert done.returncode == 0, done.stderr
    assert "127.0.0.1/scripted (openai-chat)" in done.stdout
    assert "first token after" in done.stdout
    assert "the tool was called" in done.stdout
    assert len(model.requests) == 1
    assert model.requests[0].json["tools"][0]["function"]["name"] == "ready"


@pytest.mark.parametrize(
    ("said", "tools"), [(Say("yes"), "ignored"), (Say('{"name": "ready", "arguments": {"word": "yes"}}'), "as text")]
)
def test_a_model_that_only_talks_works_and_is_marked(said: Say, tools: str) -> None:
    with ScriptedModel([said]) as model:
        (row,) = lines(melete("model", "test", "--json", model=model).stdout)
    assert (row["ok"], row["tools"], row["role"], row["usd"]) == (True, tools, "main", None)


def test_a_server_that_refuses_tools_is_asked_without() -> None:
    refusal = Fault("bad_request", message="this model does not support tools")
    with ScriptedModel([refusal, Say("yes")]) as model:
        (row,) = lines(melete("model", "test", "--json", model=model).stdout)
    assert (row["ok"], row["tools"]) == (True, "refused")
    assert "tools" not in model.requests[1].json


def test_a_failure_is_told_at_once_with_cause_and_fix() -> None:
    with ScriptedModel([Fault("overloaded")]) as model:
        done = melete("model", "test", model=model)
    assert done.returncode == 1
    assert "✗ main" in done.stdout
    assert "→" in done.stdout
    assert len(model.requests) == 1
    gone = melete("model", "test", "--json", model=model)
    (row,) = lines(gone.stdout)
    assert (gone.returncode, row["ok"], "refused" in row["cause"], bool(row["fix"])) == (1, False, True, True)
    with ScriptedModel([Fault("empty")]) as model:
        (row,) = lines(melete("model", "test", "--json", model=model).stdout)
    assert (row["ok"], "neither text nor" in row["cause"]) == (False, True)


def test_every_model_of_the_settings_is_tried(own_home: Path) -> None:
    with ScriptedModel([READY, READY]) as main, ScriptedModel([Say("yes")]) as other:
        config(
            own_home,
            f"model:\n  name: one\n  base_url: {main.base_url}\n  fallbacks:\n"
            f"    - {{name: two, base_url: '{other.base_url}'}}\n    - anthropic/claude-opus-4-5\n"
            "auxiliary:\n  title: small\n",
        )
        done = melete("model", "test", "--json")
    rows = lines(done.stdout)
    assert [(row["role"], row["model"], row["ok"]) for row in rows] == [
        ("main", "one", True),
        ("fallback", "two", True),
        ("fallback", "anthropic/claude-opus-4-5", False),
        ("title", "small", True),
    ]
    assert done.returncode == 1
    assert "no key for anthropic" in rows[2]["cause"]
    named = [request.json["model"] for request in (*main.requests, *other.requests)]
    assert named == ["one", "small", "two"]


def test_without_a_model_there_is_nothing_to_try() -> None:
    done = melete("model", "test")
    assert (done.returncode, "no model is configured" in done.stderr) == (2, True)


def test_a_newer_list_is_fetched_from_a_file(own_home: Path, tmp_path: Path) -> None:
    file = tmp_path / "api.json"
    file.write_text(json.dumps({"openai": {"models": {"gpt-new": {"limit": {"context": 12_345}}}}}))
    done = melete("model", "refresh", "--from", str(file))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 models of 1 vendors from models.dev")
    (row,) = lines(melete("model", "list", "openai", "--json").stdout)
    assert (row["name"], row["context"]) == ("gpt-new", 12_345)
    file.write_text("<html>")
    bad = melete("model", "refresh", "--from", str(file))
    assert (bad.returncode, "no list of models" in bad.stderr) == (1, True)
    assert melete("model", "list", "openai", "--json").stdout.count("\n") == 1


@pytest.mark.parametrize(
    "words", [["model", "list"], ["model", "list", "groq"], ["model", "test"], ["model", "--json"]], ids=" ".join
)
def test_everything_fits_on_a_narrow_terminal(words: list[str]) -> None:
    with (
        ScriptedModel([READY]) as model,
        Terminal(words, model=model, columns=20, more={"NO_COLOR": "1"}) as terminal,
    ):
        assert terminal.end() == 0
        assert terminal.rest().strip()
