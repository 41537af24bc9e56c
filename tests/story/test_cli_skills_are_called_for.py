"""A person calls for skills at the command line: `--skills`, `/name` and `@name`."""

from pathlib import Path

from melete.testing import Say, ScriptedModel
from tests.story.cli import Terminal, melete
from tests.unit.skills.kept import text


def write(name: str, body: str) -> None:
    path = Path.home() / ".melete/skills/user" / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(text(name, body))


def last(model: ScriptedModel) -> str:
    said = [message for message in model.requests[-1].json["messages"] if message["role"] == "user"]
    return str(said[-1]["content"])


def test_a_run_loads_skills_and_names_the_nearest_of_one_that_is_not_there(tmp_path: Path) -> None:
    write("review", "Read $ARGUMENTS.\n")
    write("tone", "Be kind.\n")
    with ScriptedModel([Say("Done."), Say("Done.")]) as model:
        done = melete("run", "--skills", "tone, review", "Go.", model=model, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "Done.\n")
        assert "Be kind." in last(model)
        assert "Read ." in last(model)
        assert melete("run", "/review the plan", model=model, cwd=tmp_path).returncode == 0
        assert "Read the plan." in last(model)
        wrong = melete("run", "--skills", "revue", "Go.", model=model, cwd=tmp_path)
        assert wrong.returncode == 2
        assert "the nearest are review" in wrong.stderr


def test_in_a_chat_a_command_stands_before_a_skill_of_its_name(tmp_path: Path) -> None:
    write("review", "Read $ARGUMENTS.\n")
    write("tools", "Never read.\n")
    with ScriptedModel([Say("Reviewed.")]) as model, Terminal(["chat"], model=model, cwd=tmp_path) as chat:
        chat.read_until("> ")
        for typed, wanted in (
            ("/tools", "session_search"),
            ("/reviw it", "there is no command"),
            ("/review it", "Reviewed."),
        ):
            chat.type(f"{typed}\r")
            chat.read_until(wanted)
            chat.read_until("> ")
        chat.type("\x04")
        assert chat.end() == 0
        assert "Read it." in last(model)


def test_what_comes_through_a_pipe_calls_no_skill(tmp_path: Path) -> None:
    write("review", "Read $ARGUMENTS.\n")
    with ScriptedModel([Say("Done."), Say("Done."), Say("Done.")]) as model:
        for words, said in ((["Sum it up."], b"Thanks, @review"), (["-"], b"/review it"), ([], b"@review helps")):
            assert melete("run", *words, model=model, stdin=said, cwd=tmp_path).returncode == 0
            assert "Base directory" not in last(model)
