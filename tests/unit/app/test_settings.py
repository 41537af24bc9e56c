"""Where a setting comes from, and what is said about a wrong one."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from melete.app.config_edit import set_value
from melete.app.sections import Fallback, Settings
from melete.app.settings import Loaded, keys, load, variables
from melete.core.errors import ConfigError


def home(tmp_path: Path, config: str | None = None, env: str | None = None) -> dict[str, str]:
    """Write a home and return the environment that leads to it."""
    folder = tmp_path / "h"
    folder.mkdir(exist_ok=True)
    if config is not None:
        (folder / "config.yaml").write_text(config)
    if env is not None:
        (folder / ".env").write_text(env)
    return {"HOME": str(tmp_path), "MELETE_HOME": str(folder)}


def with_config(tmp_path: Path, config: str | None = None) -> Loaded:
    return load(environ=home(tmp_path, config))


def fails(tmp_path: Path, config: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(environ=home(tmp_path, config))
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    loaded = load(environ={"HOME": str(tmp_path)})
    assert loaded.settings == Settings()
    assert loaded.home.root == tmp_path / ".melete"
    assert not loaded.home.root.exists()
    assert loaded.origin("agent.max_steps").where == "default"
    assert loaded.get("budget.run") == {"usd": 10.0, "tokens": 20_000_000, "seconds": 14_400.0}
    assert loaded.get("budget.day.usd") == 100.0


def test_flags_beat_variables_beat_the_file_beat_defaults(tmp_path: Path) -> None:
    environ = home(tmp_path, "model:\n  name: from-file\n  wire: w\nagent:\n  max_steps: 3\n")

    def name(loaded: Loaded) -> tuple[str, str]:
        return loaded.settings.model.name, loaded.origin("model.name").where

    assert name(load(environ=environ)) == ("from-file", "~/h/config.yaml:2")
    environ["MELETE_MODEL"] = "from-variable"
    assert name(load(environ=environ)) == ("from-variable", "MELETE_MODEL")
    assert name(load({"model.name": "from-flag"}, environ=environ)) == ("from-flag", "flag")
    assert name(load({"model.name": None}, environ=environ)) == ("from-variable", "MELETE_MODEL")
    loaded = load(environ=environ)
    assert (loaded.settings.model.wire, loaded.settings.agent.max_steps) == ("w", 3)
    assert loaded.settings.agent.loop_guard is True


def test_the_environment_beats_the_env_file_even_when_empty(tmp_path: Path) -> None:
    environ = home(tmp_path, env="MELETE_MODEL=from-file\nOPENAI_API_KEY=12345678-file\n")
    loaded = load(environ=environ)
    assert loaded.settings.model.name == "from-file"
    assert loaded.origin("model.name").where == "MELETE_MODEL (.env:1)"
    assert loaded.secrets == {"OPENAI_API_KEY": "12345678-file"}
    assert "OPENAI_API_KEY" not in loaded.environ
    loaded = load(environ={**environ, "MELETE_MODEL": "real", "OPENAI_API_KEY": ""})
    assert loaded.settings.model.name == "real"
    assert loaded.secrets == {}


def test_secrets_are_told_by_the_name_of_their_variable(tmp_path: Path) -> None:
    secret = {
        "A_KEY": "12345678",
        "PGPASSWORD": "12345678",
        "GITHUB_TOKEN": "12345678",
        "AWS_SECRET_ACCESS_KEY": "12345678",
    }
    other = {"SSH_AUTH_SOCK": "/run/agent", "KEYBOARD": "12345678", "MAX_TOKENS": "12345678", "B_KEY": "short"}
    assert load(environ={"HOME": str(tmp_path), **secret, **other}).secrets == secret


def test_each_variable_of_the_model_has_its_key(tmp_path: Path) -> None:
    given = {
        "MELETE_MODEL": "m",
        "MELETE_BASE_URL": "http://x/v1",
        "MELETE_WIRE": "w",
        "MELETE_CONTEXT_LENGTH": "32000",
    }
    model = load(environ={"HOME": str(tmp_path), **given}).settings.model
    assert (model.name, model.base_url, model.wire, model.context_length) == ("m", "http://x/v1", "w", 32_000)


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        ("agent:\n  max_step: 3\n", ["~/h/config.yaml:2: unknown key agent.max_step", "did you mean agent.max_steps?"]),
        ("\n\nagnet:\n  max_steps: 3\n", ["config.yaml:3: unknown key agnet", "did you mean agent?"]),
        ("max_steps: 3\n", ["config.yaml:1: unknown key max_steps", "did you mean agent.max_steps?"]),
        (
            "budget:\n  run:\n    token: 3\n",
            ["config.yaml:3: unknown key budget.run.token; did you mean budget.run.tokens?"],
        ),
        ("zzzz: 3\n", ["config.yaml:1: unknown key zzzz", "melete config schema"]),
        (
            "agent:\n  max_steps: many\n",
            ["config.yaml:2: agent.max_steps must be a whole number of at least 1", "'many'"],
        ),
        ("agent:\n  max_steps: 0\n", ["of at least 1, not '0'"]),
        ("agent:\n  max_steps: 1.5\n", ["whole number"]),
        ('agent:\n  max_steps: "9"\n', ["whole number", "not the text '9'"]),
        ("agent:\n  max_steps: [9]\n", ["whole number", "not a list"]),
        ("agent:\n  max_steps: {a: 9}\n", ["whole number", "not a section"]),
        ("agent:\n  max_steps: null\n", ["whole number", "not 'null'"]),
        ("agent:\n  loop_guard: maybe\n", ["must be true or false, not 'maybe'"]),
        ("agent: 5\n", ["config.yaml:1: agent is a section of keys"]),
        ("approvals:\n  mode: clever\n", ["one of manual, off, smart, not 'clever'"]),
        ("budget:\n  run:\n    usd: -1\n", ["config.yaml:3: budget.run.usd must be a number of at least 0 or null"]),
        ("budget:\n  run:\n    usd: .nan\n", ["must be a number", "not '.nan'"]),
        ("tools:\n  enabled: files\n", ["must be a list such as [one, two]"]),
        ("tools:\n  enabled: [[files]]\n", ["must be a list", "not a list"]),
        ("agent:\n  max_steps: 3\n  max_steps: 4\n", ["config.yaml:3: agent.max_steps stands in line 2 as well"]),
        ("- a\n", ["config.yaml:1: the file is not a list of keys"]),
        ("a: 1\n---\nb: 1\n", ["config.yaml:2: a second document begins"]),
    ],
)
def test_a_wrong_key_or_value_is_named_with_file_line_and_the_right_one(
    tmp_path: Path, config: str, parts: list[str]
) -> None:
    message = fails(tmp_path, config)
    assert [part for part in parts if part not in message] == [], message


@pytest.mark.parametrize(
    "config", ["model:\n  api_key: sk-verysecret\n", "api_key: sk-verysecret\n", "model:\n  key: sk-verysecret\n"]
)
def test_a_key_in_the_settings_is_refused_unshown_and_sent_to_its_place(tmp_path: Path, config: str) -> None:
    message = fails(tmp_path, config)
    assert "verysecret" not in message
    assert "put the key into .env" in message
    assert "MELETE_API_KEY" in message


def test_several_problems_are_counted(tmp_path: Path) -> None:
    assert "2 more in `melete config check`" in fails(tmp_path, "a: 1\nb: 2\nc: 3\n")


def test_a_wrong_variable_or_flag_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"MELETE_CONTEXT_LENGTH: model.context_length must be a whole number"):
        load(environ={"HOME": str(tmp_path), "MELETE_CONTEXT_LENGTH": "big"})
    with pytest.raises(ConfigError, match=r"\.env:2\): model.context_length"):
        load(environ=home(tmp_path, env="# c\nMELETE_CONTEXT_LENGTH=big\n"))
    with pytest.raises(ConfigError, match=r"flag: agent.max_steps must be"):
        load({"agent.max_steps": 0}, environ={"HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"did you mean agent.max_steps"):
        load({"agent.max_step": 1}, environ={"HOME": str(tmp_path)})


def test_flags_may_be_typed_or_text(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    flags: dict[str, Any] = {"budget.run.usd": 2, "tools.enabled": ("a", "b"), "agent.max_steps": "7"}
    settings = load(flags, environ=environ).settings
    assert (settings.budget.run.usd, settings.tools.enabled, settings.agent.max_steps) == (2.0, ("a", "b"), 7)
    assert load({"tools.enabled": "a, b"}, environ=environ).settings.tools.enabled == ("a", "b")


def test_what_may_be_meant_otherwise_is_warned_about(tmp_path: Path) -> None:
    environ = {**home(tmp_path, env="MELETE_HOME=/x\n"), "MELETE_MODLE": "m", "MELETE_PROFILE": ""}
    first, second = load(environ=environ).warnings
    assert "~/h/.env:1: MELETE_HOME has no effect here" in first
    assert "MELETE_MODLE is not known; did you mean MELETE_MODEL?" in second
    (tmp_path / "h" / ".env").unlink()
    (new,) = load(environ=home(tmp_path), profile="work").warnings
    assert new == "the profile work is new; it will live in ~/h/profiles/work"


def test_a_profile_has_settings_and_keys_of_its_own(tmp_path: Path) -> None:
    environ = home(tmp_path, "model:\n  name: base\n", env="A_KEY=base-key-1\n")
    work = tmp_path / "h" / "profiles" / "work"
    work.mkdir(parents=True)
    (work / "config.yaml").write_text("model:\n  name: work\n")
    loaded = load(environ={**environ, "MELETE_PROFILE": "work"})
    assert loaded.settings.model.name == "work"
    assert loaded.secrets == {}
    assert load(environ={**environ, "MELETE_PROFILE": "work"}, profile="default").settings.model.name == "base"


def test_reading_one_key_names_the_nearest_when_there_is_none(tmp_path: Path) -> None:
    loaded = load(environ={"HOME": str(tmp_path)})
    assert loaded.get("agent.max_steps") == 90
    with pytest.raises(ConfigError, match=r"did you mean agent.max_steps"):
        loaded.get("agent.max_step")
    with pytest.raises(ConfigError, match=r"unknown key agent.max_steps.x"):
        loaded.get("agent.max_steps.x")


def test_every_key_has_a_line_of_documentation_and_a_default_of_its_type() -> None:
    for key in keys().values():
        assert key.about.endswith("."), key.name
        assert key.accepts(key.default), key.name
        assert key.expects != "", key.name


def test_the_schema_names_every_key() -> None:
    schema = msgspec.json.schema(Settings)
    assert set(schema["$defs"]["Settings"]["properties"]) == {name.split(".")[0] for name in keys()}
    assert schema["$defs"]["AgentSettings"]["properties"]["max_steps"]["description"] == keys()["agent.max_steps"].about
    assert schema["$defs"]["AgentSettings"]["additionalProperties"] is False


def test_starting_up_loads_no_parser_that_is_not_needed(tmp_path: Path) -> None:
    code = "from melete.app.settings import load; import sys; load(); print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    for module in ("'yaml'", "'tomllib'", "'rich'", "'h11'", "'difflib'", "'asyncio'", "'sqlite3'"):
        assert module not in done.stdout


def test_variables_are_there_whatever_is_broken(tmp_path: Path) -> None:
    environ = home(tmp_path, "nonsense: 1\n", env="NO_COLOR=1\nEDITOR=ed\n") | {"EDITOR": "vi"}
    assert variables(environ=environ) == {"NO_COLOR": "1", **environ}
    environ = home(tmp_path, env="no line of the right kind\n")
    assert variables(environ=environ) == environ
    assert variables(environ=environ, profile="not/a/name") == environ
    assert variables(environ={}) == {}
    good = home(tmp_path, "", env="NO_COLOR=1\n")
    assert variables(environ=good) == load(environ=good).variables


def test_fallbacks_are_names_or_sections(tmp_path: Path) -> None:
    found = with_config(
        tmp_path,
        "model:\n"
        "  fallbacks:\n"
        "    - groq/llama\n"
        "    - {name: 4.1, base_url: 'http://localhost:1/v1', context_length: 8192}\n"
        "  extra:\n"
        "    provider: {order: [a, b], allow_fallbacks: false}\n"
        "    top_k: 40\n"
        "    user: '7'\n",
    ).settings.model
    assert found.fallbacks == (
        "groq/llama",
        Fallback(name="4.1", base_url="http://localhost:1/v1", context_length=8192),
    )
    assert found.extra == {"provider": {"order": ["a", "b"], "allow_fallbacks": False}, "top_k": 40, "user": "7"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model:\n  fallbacks:\n    - {nam: x}\n", "nam"),
        ("model:\n  fallbacks:\n    - {base_url: x}\n", "name"),
        ("model:\n  fallbacks:\n    - [a]\n", "not a list"),
        ("model:\n  fallbacks: x\n", "a list such as"),
        ("model:\n  extra: x\n", "a section of names"),
        ("model:\n  extra: [x]\n", "a section of names"),
    ],
)
def test_fallbacks_and_extra_fields_of_another_shape_are_told(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        with_config(tmp_path, text)


def test_fallbacks_and_extra_fields_are_set_from_the_command_line(tmp_path: Path) -> None:
    home = with_config(tmp_path, "").home
    set_value(home, "model.fallbacks", "groq/a, b")
    set_value(home, "model.extra", '{"provider": {"sort": "price"}}')
    assert with_config(tmp_path).settings.model.fallbacks == ("groq/a", "b")
    set_value(home, "model.fallbacks", '[{"name": "x", "base_url": "http://localhost:1"}]')
    found = with_config(tmp_path).settings.model
    assert found.fallbacks == (Fallback(name="x", base_url="http://localhost:1"),)
    assert found.extra == {"provider": {"sort": "price"}}
