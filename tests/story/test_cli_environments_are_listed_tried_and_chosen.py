"""`melete env list`, `check` and `use`, what the doctor and a session say of environments, and what a shell is offered."""

from pathlib import Path

import pytest

from melete.testing import Call, Say, ScriptedModel
from tests.story.cli import Terminal, lines, melete


def test_environments_are_listed_with_what_is_missing(tmp_path: Path) -> None:
    rows = {row["name"]: row for row in lines(melete("env", "list", "--json", cwd=tmp_path).stdout)}
    assert rows["local"]["works"]
    assert rows["local"]["default"]
    assert all(row["why"] for row in rows.values() if not row["works"])
    assert "local *" in melete("env", "list", cwd=tmp_path).stdout
    bare = melete("env", "list", cwd=tmp_path, PATH="/nowhere", MELETE_ENV="auto")
    assert bare.returncode == 0
    assert "melete: note: commands run " in bare.stderr  # without a sandbox, or in a lesser one
    assert "bwrap" in bare.stderr
    only = melete("config", "set", "sandbox.walls", "bwrap", cwd=tmp_path)
    assert only.returncode == 0
    bare = melete("env", "list", cwd=tmp_path, PATH="/nowhere", MELETE_ENV="auto")
    assert "local *" in bare.stdout
    assert "without a sandbox on this machine: bubblewrap (bwrap) is not installed" in bare.stderr


def test_an_environment_is_tried_for_real_and_leaves_nothing(tmp_path: Path) -> None:
    done = melete("env", "check", "--json", cwd=tmp_path)
    steps = {row["name"]: row for row in lines(done.stdout)}
    assert done.returncode == 0, done.stderr
    assert {step["status"] for step in steps.values()} == {"ok"}
    assert str(tmp_path) in steps["folder"]["text"]
    assert [path.name for path in tmp_path.iterdir() if path.name != "user-home"] == []


@pytest.mark.needs("bwrap")
def test_the_sandbox_is_tried_for_real(tmp_path: Path) -> None:
    done = melete("env", "check", "sandbox", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✓ files" in done.stdout


def test_an_environment_is_chosen_after_a_try(own_home: Path, tmp_path: Path) -> None:
    used = melete("env", "use", "local", cwd=tmp_path, MELETE_ENV="")
    assert (used.returncode, "commands run in local" in used.stderr) == (0, True)
    assert (own_home / ".melete" / "config.yaml").read_text() == "env:\n  default: local\n"
    unknown = melete("env", "use", "locl", cwd=tmp_path)
    assert unknown.returncode == 2
    assert "did you mean local?" in unknown.stderr
    broken = melete("env", "use", "ssh", cwd=tmp_path)
    assert broken.returncode == 1
    assert "nothing was changed" in broken.stderr
    assert "default: local" in (own_home / ".melete" / "config.yaml").read_text()
    hidden = melete("env", "use", "auto", cwd=tmp_path, MELETE_ENV="local")
    assert "MELETE_ENV stands before the file" in hidden.stderr


def test_the_doctor_says_where_commands_run(tmp_path: Path) -> None:
    rows = {row["name"]: row for row in lines(melete("doctor", "--json", cwd=tmp_path).stdout)}
    assert rows["env"]["text"] == "commands run in local (env.default: local)"
    rows = {row["name"]: row for row in lines(melete("doctor", "--json", cwd=tmp_path, MELETE_ENV="sandbx").stdout)}
    assert (rows["env"]["status"], "sandbx" in rows["env"]["text"]) == ("fail", True)
    assert (rows["other envs"]["status"], "local: works" in rows["other envs"]["text"]) == ("ok", True)
    melete("config", "set", "sandbox.walls", "bwrap", cwd=tmp_path)
    rows = {row["name"]: row for row in lines(melete("doctor", "--json", cwd=tmp_path, PATH="/nowhere").stdout)}
    assert (rows["other envs"]["status"], ": works" in rows["other envs"]["text"]) == ("warn", False)


def test_an_unknown_name_is_answered_alike_everywhere(own_home: Path, tmp_path: Path) -> None:
    said: set[str] = set()
    with ScriptedModel([Say("No.")]) as model:
        for words, chosen in (
            (("run", "--env", "locl", "Go."), "local"),
            (("run", "Go."), "locl"),
            (("env", "use", "locl"), "local"),
            (("env", "check", "locl"), "local"),
        ):
            done = melete(*words, model=model, cwd=tmp_path, MELETE_ENV=chosen)
            assert done.returncode == 2
            said.add(done.stderr)
        (own_home / ".melete").mkdir(exist_ok=True)
        (own_home / ".melete" / "config.yaml").write_text("env:\n  default: locl\n")
        said.add(melete("run", "Go.", model=model, cwd=tmp_path, MELETE_ENV="").stderr)
    (one,) = said
    assert "there is no environment 'locl'" in one
    assert "did you mean local? known: local, sandbox, " in one
    assert one.rstrip().rstrip(")").endswith(", auto")


def test_a_shell_is_offered_environments(tmp_path: Path) -> None:
    done = melete(
        *("completion", "bash"), cwd=tmp_path,
        _MELETE_COMPLETE="bash_complete", COMP_WORDS="melete run --env ", COMP_CWORD="3",
    )  # fmt: skip
    offered = {line.partition(",")[2] for line in done.stdout.splitlines()}
    assert {"local", "sandbox", "auto"} <= offered
    done = melete(
        *("completion", "bash"), cwd=tmp_path,
        _MELETE_COMPLETE="bash_complete", COMP_WORDS="melete env use sand", COMP_CWORD="3",
    )  # fmt: skip
    assert done.stdout.splitlines() == ["plain,sandbox"]


@pytest.mark.needs("bwrap")
def test_a_session_that_was_begun_in_an_environment_goes_on_there(tmp_path: Path) -> None:
    plays = [Call("terminal", {"command": "echo $0 in there"}), Say("One."), Say("Two."), Say("Three.")]
    with ScriptedModel(plays) as model:
        begun = melete("run", "-v", "--env", "sandbox", "go", model=model, cwd=tmp_path)
        assert (begun.returncode, " · in sandbox · " in begun.stderr) == (0, True), begun.stderr
        again = melete("run", "-v", "-c", "and on", model=model, cwd=tmp_path)
        assert " · in sandbox · " in again.stderr
        other = melete("run", "-v", "-c", "--env", "local", "and here", model=model, cwd=tmp_path)
        assert " · in local · " in other.stderr
        prompts = [request.json["messages"][0]["content"] for request in model.requests]
    assert prompts[0] == prompts[1] == prompts[2]  # the prefix holds while the environment does
    (row,) = lines(melete("sessions", "list", "--json").stdout)
    assert "commands in sandbox, local" in melete("sessions", "show", row["id"]).stdout


def test_a_chat_says_where_commands_run(tmp_path: Path) -> None:
    with ScriptedModel() as model, Terminal(["chat"], model=model, cwd=tmp_path) as terminal:
        terminal.read_until(" · in local · ")
        terminal.type("/exit\n")
        assert terminal.end() == 0


@pytest.mark.needs("bwrap")
def test_the_default_is_the_sandbox_where_it_works(tmp_path: Path) -> None:
    with ScriptedModel([Say("One.")]) as model:
        done = melete("run", "-v", "go", model=model, cwd=tmp_path, MELETE_ENV="")
    assert " · in sandbox · " in done.stderr


def test_an_environment_that_does_not_work_is_told_before_anything_is_asked_or_kept(tmp_path: Path) -> None:
    with ScriptedModel([Say("One.")]) as model:
        done = melete("run", "--env", "ssh", "go", model=model, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert "ssh.host" in done.stderr
        assert not model.requests
    assert melete("sessions", "list", "--json").stdout == ""
