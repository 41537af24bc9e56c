"""`melete config`, `model`, `context`, `doctor`, `logs`, `verify`, `rebuild`, `completion` and `--version`."""

from pathlib import Path

import msgspec

import melete as package
from melete.testing import Fault, ScriptedModel
from tests.story.cli import Terminal, lines, melete


def test_a_setting_is_changed_and_its_origin_told() -> None:
    assert melete("config", "get", "agent.max_steps").stdout == "90\n"
    assert melete("config", "set", "agent.max_steps", "7").returncode == 0
    assert melete("config", "get", "agent.max_steps").stdout == "7\n"
    row = next(line for line in melete("config", "get").stdout.splitlines() if line.startswith("agent.max_steps"))
    assert row.split()[1] == "7"
    assert "config.yaml:" in row
    assert msgspec.json.decode(melete("config", "get", "agent", "--json").stdout)["max_steps"] == 7
    path = Path(melete("config", "path").stdout.strip())
    assert path.read_text(encoding="utf-8") == "agent:\n  max_steps: 7\n"


def test_a_broken_file_is_told_with_its_line_and_can_still_be_edited(own_home: Path) -> None:
    home = own_home / ".melete"
    home.mkdir()
    (home / "config.yaml").write_text("agent:\n  max_stepz: 7\n", encoding="utf-8")
    for words in (("config", "check"), ("run", "hello"), ("sessions", "list")):
        done = melete(*words)
        assert done.returncode == 2
        assert "config.yaml:2" in done.stderr
        assert "did you mean agent.max_steps?" in done.stderr
    mended = melete("config", "edit", EDITOR="sed -i s/stepz/steps/")
    assert (mended.returncode, mended.stderr.count("is fine")) == (0, 1)
    assert melete("config", "check").returncode == 0
    assert melete("config", "edit", EDITOR="false").returncode == 2


def test_a_broken_file_takes_neither_colours_nor_the_editor_away(own_home: Path) -> None:
    home = own_home / ".melete"
    home.mkdir()
    (home / "config.yaml").write_text("agent:\n  max_stepz: 7\n", encoding="utf-8")
    for more, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        with Terminal(["doctor"], more=more) as terminal:
            assert terminal.end() == 1
            assert ("\x1b[" in terminal.raw) is coloured
    (home / ".env").write_text("EDITOR='sed -i s/stepz/steps/'\nNO_COLOR=1\n", encoding="utf-8")
    with Terminal(["logs"]) as terminal:
        assert terminal.end() == 0
        assert "\x1b[" not in terminal.raw
    assert melete("config", "edit", VISUAL="", EDITOR="sed -i s/stepz/stepy/").returncode == 2
    assert "stepy" in (home / "config.yaml").read_text(encoding="utf-8")


def test_a_variable_that_stands_before_the_file_is_told() -> None:
    with ScriptedModel() as model:
        done = melete("config", "set", "model.name", "other", model=model)
    assert done.returncode == 0
    assert "MELETE_MODEL" in done.stderr


def test_schemas_are_json() -> None:
    assert "properties" in melete("config", "schema").stdout
    assert "run.ended" in melete("config", "schema", "events").stdout
    msgspec.json.decode(melete("config", "schema", "events").stdout)
    assert melete("config", "schema", "nothing").returncode == 2


def test_a_model_is_chosen() -> None:
    assert "no model is configured" in melete("model").stdout
    done = melete("model", "set", "openai/some-model", OPENAI_API_KEY="sk-something-secret")
    assert done.returncode == 0
    shown = melete("model", OPENAI_API_KEY="sk-something-secret").stdout
    assert "some-model" in shown.splitlines()[0]
    assert "sk-something-secret" not in shown
    (now,) = lines(melete("model", "--json", OPENAI_API_KEY="sk-something-secret").stdout)
    assert now["current"]["model"] == "some-model"
    rows = lines(melete("model", "list", "--json", OPENAI_API_KEY="sk-something-secret").stdout)
    assert [row["provider"] for row in rows if row["current"]] == ["openai"]


def test_the_context_is_counted_without_a_model_and_without_storing(own_home: Path, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.", encoding="utf-8")
    rows = lines(melete("context", "--json", cwd=tmp_path).stdout)
    parts = {(row["group"], row["part"]) for row in rows}
    assert {("system", "identity"), ("system", "context files"), ("tools", "terminal")} <= parts
    assert all(row["tokens"] == -(-row["bytes"] // 4) for row in rows)
    assert sum(row["bytes"] for row in rows) <= 12_500
    assert not (own_home / ".melete").exists()


def test_the_doctor_finds_what_is_wrong(own_home: Path) -> None:
    with ScriptedModel() as model:
        well = melete("doctor", "--json", model=model)
    assert well.returncode == 0
    assert {row["status"] for row in lines(well.stdout)} <= {"ok", "warn"}
    (own_home / ".melete").mkdir()
    (own_home / ".melete" / "config.yaml").write_text("nonsense: 1\n", encoding="utf-8")
    ill = melete("doctor")
    assert ill.returncode == 1
    assert "✗ settings" in ill.stdout
    assert "config.yaml:1" in ill.stdout


def test_failures_are_in_the_logs(tmp_path: Path) -> None:
    assert "no such records" in melete("logs").stderr
    with ScriptedModel([Fault("unauthorized")]) as model:
        melete("run", "hello", model=model, cwd=tmp_path)
    entries = lines(melete("logs", "--json").stdout)
    assert entries
    assert entries[-1]["session"] == lines(melete("sessions", "list", "--json").stdout)[0]["id"]


def test_what_is_stored_is_checked_and_remade(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(["A green answer."]) as model:
        melete("run", "hello", model=model, cwd=tmp_path)
    assert melete("verify").returncode == 0
    assert "search" in melete("rebuild").stdout
    assert "green" in melete("sessions", "search", "green").stdout
    (log,) = (own_home / ".melete" / "state" / "sessions").glob("*.log")
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    damaged = melete("verify")
    assert damaged.returncode == 1
    assert log.name in damaged.stdout


def test_shells_get_their_completion() -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_MELETE_COMPLETE" in melete("completion", shell).stdout
    done = melete("completion", "bash", _MELETE_COMPLETE="bash_complete", COMP_WORDS="melete sess", COMP_CWORD="1")
    assert "sessions" in done.stdout


def test_the_version_is_told() -> None:
    assert melete("--version").stdout == f"melete {package.__version__}\n"
    assert melete("-p", "work", "--version").stdout == f"melete {package.__version__}\n"


def test_profiles_are_apart(tmp_path: Path) -> None:
    with ScriptedModel(["One.", "Two."]) as model:
        melete("run", "-p", "work", "hello", model=model, cwd=tmp_path)
        assert melete("sessions", "list", "--json", model=model).stdout == ""
        assert len(lines(melete("-p", "work", "sessions", "list", "--json", model=model).stdout)) == 1
