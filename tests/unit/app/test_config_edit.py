"""`melete config set` changes one value and nothing else."""

import stat
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from melete.app import config_edit
from melete.app.config_file import parse_config
from melete.app.home import Home
from melete.app.sections import Settings
from melete.app.settings import build, keys
from melete.core.errors import ConfigError, StorageError, UsageError


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(root=tmp_path / "h", user=tmp_path)


def after(home: Home, text: str, *changes: tuple[str, str]) -> str:
    home.folder(home.root)
    home.config.write_bytes(text.encode())
    for key, value in changes:
        config_edit.set_value(home, key, value)
    return home.config.read_bytes().decode()


def test_a_first_value_makes_the_file_for_its_owner_alone(home: Home) -> None:
    assert config_edit.set_value(home, "agent.max_steps", "5") == 5
    assert home.config.read_text() == "agent:\n  max_steps: 5\n"
    assert stat.S_IMODE(home.config.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o700
    assert [path.name for path in home.root.iterdir()] == ["config.yaml"]


def test_comments_order_and_indentation_stay(home: Home) -> None:
    before = "# top\nagent:  # the agent\n    max_steps: 5   # five\n    # end\n\nbudget:\nmodel: {name: x}\n# bottom"
    assert after(
        home,
        before,
        ("agent.max_steps", "7"),
        ("agent.loop_guard", "off"),
        ("budget.day.usd", "3.5"),
        ("model.provider", "ollama"),
        ("tools.disabled", "a,b c"),
    ) == (
        "# top\nagent:  # the agent\n    max_steps: 7   # five\n    loop_guard: false\n    # end\n\n"
        "budget:\n  day:\n    usd: 3.5\nmodel: {name: x, provider: ollama}\n"
        'tools:\n  disabled: [a, "b c"]\n# bottom'
    )


@pytest.mark.parametrize(
    ("before", "key", "value", "wanted"),
    [
        (
            "tools:\n  enabled:\n  - a\n  - b # c\nagent: {}\n",
            "tools.enabled",
            "q",
            "tools:\n  enabled: [q]\nagent: {}\n",
        ),
        ("tools:\n  enabled: # keep\n    - a\n", "tools.enabled", "q", "tools:\n  enabled: [q] # keep\n"),
        ("agent: {}\n", "agent.max_steps", "3", "agent: {max_steps: 3}\n"),
        ("{}", "budget.run.usd", "1", "{budget: {run: {usd: 1.0}}}"),
        ("model:\n  name: >\n    foo\n    bar\n\nenv: {}\n", "model.name", "z", "model:\n  name: z\n\nenv: {}\n"),
        ("model:\n  name: 'x' # q\n", "model.name", "it's", 'model:\n  name: "it\'s" # q\n'),
        ("model:\n  name:\n  wire: w\n", "model.name", "z", "model:\n  name: z\n  wire: w\n"),
        ("model:\r\n  name: x\r\n", "model.wire", "w", "model:\r\n  name: x\r\n  wire: w\r\n"),
        ("---\nmodel:\n  name: x\n...\n", "model.name", "z", "---\nmodel:\n  name: z\n...\n"),
        ("budget:\n  run:\n    usd: 1\n", "budget.run.usd", "null", "budget:\n  run:\n    usd: null\n"),
        ("model: {name: \n  x}\n", "model.name", "z", "model: {name: \n  z}\n"),
        ("# é\nmodel: {name: 'é', wire: w}\n", "model.wire", "ö", "# é\nmodel: {name: 'é', wire: \"ö\"}\n"),
    ],
)
def test_each_style_is_changed_in_place(home: Home, before: str, key: str, value: str, wanted: str) -> None:
    assert after(home, before, (key, value)) == wanted


@pytest.mark.parametrize(
    ("before", "key", "value", "why"),
    [
        ("agent: {}\n", "agent.max_step", "3", "did you mean agent.max_steps"),
        ("agent: {}\n", "agent.max_steps", "x", "whole number"),
        ("agent: {}\n", "model.api_key", "x", "put the key into .env"),
        ("agnet: {}\n", "agent.max_steps", "3", "did you mean agent"),
        ("agent: {\n", "agent.max_steps", "3", "not YAML"),
        ("...\n", "agent.max_steps", "3", "."),
    ],
)
def test_what_cannot_be_set_leaves_the_file_as_it_was(home: Home, before: str, key: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        after(home, before, (key, value))
    assert home.config.read_text() == before


def test_a_link_stays_a_link_and_a_mode_stays(home: Home, tmp_path: Path) -> None:
    home.folder(home.root)
    real = tmp_path / "dotfiles.yaml"
    real.write_text("agent: {}\n")
    real.chmod(0o640)
    home.config.symlink_to(real)
    config_edit.set_value(home, "agent.max_steps", "3")
    assert home.config.is_symlink()
    assert real.read_text() == "agent: {max_steps: 3}\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_file_in_place_of_the_home_is_a_storage_error(home: Home) -> None:
    home.root.write_text("")
    with pytest.raises(StorageError, match=r"cannot write ~/h.*MELETE_HOME"):
        config_edit.set_value(home, "agent.max_steps", "3")


KEYS_AND_VALUES = st.one_of(
    st.tuples(st.just("agent.max_steps"), st.integers(1, 999)),
    st.tuples(st.just("agent.loop_guard"), st.booleans()),
    st.tuples(st.sampled_from(["budget.run.usd", "budget.day.usd"]), st.none() | st.floats(0, 1e9)),
    st.tuples(
        st.sampled_from(["model.name", "model.wire", "env.default"]),
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12),
    ),
)


@given(st.lists(KEYS_AND_VALUES, max_size=6))
def test_whatever_is_set_reads_back_here_and_in_other_readers(changes: list[tuple[str, object]]) -> None:
    text = "# c\nmodel:\n  # inner\n  name: x\nbudget: {run: {}}\n"
    wanted: dict[str, object] = {"model.name": "x"}
    for key, value in changes:
        root = parse_config(text, keys(), shown="c").root
        text = config_edit._changed(text, root, key.split("."), config_edit.written(value, keys()[key]))
        wanted[key] = value
        found = parse_config(text, keys(), shown="c")
        assert found.problems == ()
        assert {k: s.value for k, s in found.settings.items()} == wanted
    plain = yaml.load(text, Loader=yaml.CSafeLoader)
    for key, value in wanted.items():
        here = plain
        for part in key.split("."):
            here = here[part]
        assert here == value
    assert "# c\n" in text
    assert "  # inner\n" in text


def test_the_template_changes_nothing_and_shows_the_defaults() -> None:
    text = config_edit.template()
    assert parse_config(text, keys(), shown="c").settings == {}
    opened = "\n".join(line.removeprefix("# ") for line in text.splitlines()[1:])
    found = parse_config(opened, keys(), shown="c")
    assert set(found.settings) == set(keys())
    assert build({k: s.value for k, s in found.settings.items()}) == Settings()


def test_editing_offers_the_template_and_checks_the_result(home: Home) -> None:
    seen: list[str] = []

    def run(command: object) -> int:
        assert command == [sys.executable, "-x", str(home.config)]
        seen.append(home.config.read_text())
        home.config.write_text("agnet: 1\nb: 2\n")
        return 0

    problems = config_edit.edit(home, f"{sys.executable} -x", run)
    assert seen == [config_edit.template()]
    assert [problem.what.split(": ")[0] for problem in problems] == ["~/h/config.yaml:1", "~/h/config.yaml:2"]
    assert config_edit.check(home)[0].what == problems[0].what


def test_an_editor_that_is_missing_or_fails_is_said(home: Home) -> None:
    def missing(_: object) -> int:
        raise FileNotFoundError(2, "No such file or directory")

    with pytest.raises(UsageError, match="no editor is set"):
        config_edit.edit(home, "", lambda _: 0)
    with pytest.raises(UsageError, match="nope cannot be started"):
        config_edit.edit(home, "nope", missing)
    with pytest.raises(UsageError, match="ended with status 3"):
        config_edit.edit(home, "ed", lambda _: 3)


def test_schemas_of_settings_and_events() -> None:
    assert "Settings" in config_edit.schema()["$defs"]
    assert "run.ended" in str(config_edit.schema("events"))
    assert "/v1/runs" in config_edit.schema("openapi")["paths"]
    with pytest.raises(UsageError, match="settings, events or openapi"):
        config_edit.schema("x")
