"""`melete sessions fork`: both branches live, each by itself, and what was paid once is paid once."""

from pathlib import Path
from typing import Any

from melete.testing import Call, ScriptedModel
from tests.story.cli import lines, melete
from tests.story.homes import at, configure


def rows(model: ScriptedModel) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in lines(melete("sessions", "list", "--json", model=model).stdout)}


def facts(session: str, *kinds: str) -> list[dict[str, Any]]:
    shown = lines(melete("sessions", "show", session, "--json").stdout)
    return [fact for fact in shown if not kinds or fact["type"] in kinds]


def three_steps(model: ScriptedModel, folder: Path) -> str:
    """A session of three steps; returns its id."""
    assert melete("run", "count the files", model=model, cwd=folder).returncode == 0
    (session,) = rows(model)
    return session


def script(*more: Any) -> list[Any]:
    calls = [Call("terminal", {"command": f"echo step-{number}"}) for number in (1, 2)]
    return [*calls, "There are three.", *more]


def test_a_fork_goes_on_with_another_model_and_the_original_stays(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(script()) as first, ScriptedModel(["Four, I say."]) as second:
        configure(
            own_home,
            model={"name": "one/m-1"},
            providers={"one": at(first, wire="openai-chat"), "two": at(second, wire="openai-chat")},
        )
        session = three_steps(first, tmp_path)
        before = facts(session)
        done = melete("sessions", "fork", session, "--at", "2", "-m", "two/m-2", "and", "now?", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "Four, I say.\n")
        asked = second.requests[0].json
        assert asked["model"] == "m-2"
        assert [message["role"] for message in asked["messages"][1:]] == [
            "user", "assistant", "tool", "assistant", "tool", "user",
        ]  # fmt: skip
        assert asked["messages"][:6] == first.requests[2].json["messages"]
        assert facts(session) == before
        (fork,) = set(rows(first)) - {session}
        opened = facts(fork)[0]
        assert (opened["forked_from"], opened["about"]) == (session, {"model": "two/m-2"})
        assert rows(first)[fork]["title"] == "count the files (fork at step 2)"
        assert [len(facts(name, "spent")) for name in (session, fork)] == [3, 1]


def test_the_model_of_a_fork_is_kept_until_another_is_named(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(script("By the first.")) as first, ScriptedModel(["By the second."]) as second:
        configure(
            own_home,
            model={"name": "one/m-1"},
            providers={"one": at(first, wire="openai-chat"), "two": at(second, wire="openai-chat")},
        )
        session = three_steps(first, tmp_path)
        fork = melete("sessions", "fork", session, "-m", "two/m-2").stdout.strip()
        assert melete("run", "-s", fork, "go on", cwd=tmp_path).stdout == "By the second.\n"
        assert melete("run", "-s", fork, "-m", "one/m-1", "go on", cwd=tmp_path).stdout == "By the first.\n"
        configure(own_home, model={"name": "one/m-1"}, providers={"one": at(first, wire="openai-chat")})
        gone = melete("run", "-s", fork, "go on", cwd=tmp_path)
        assert gone.returncode == 2
        assert "two/m-2" in gone.stderr
        assert "--model" in gone.stderr


def test_a_fork_in_the_middle_of_a_run_goes_on_without_a_prompt(tmp_path: Path) -> None:
    with ScriptedModel(script("Another answer.")) as model:
        session = three_steps(model, tmp_path)
        made = lines(melete("sessions", "fork", session, "--at", "1", "--title", "Branch", "--json").stdout)[0]
        assert (made["forked_from"], made["step"], made["title"]) == (session, 1, "Branch")
        done = melete("run", "-s", "Branch", model=model, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "Another answer.\n")
        assert [message["role"] for message in model.requests[3].json["messages"]] == [
            "system", "user", "assistant", "tool",
        ]  # fmt: skip


def test_a_fork_before_the_first_step_asks_the_first_question_again(tmp_path: Path) -> None:
    with ScriptedModel(script("None at all.")) as model:
        session = three_steps(model, tmp_path)
        fork = melete("sessions", "fork", session, "--at", "0", model=model).stdout.strip()
        assert melete("run", "-s", fork, model=model, cwd=tmp_path).stdout == "None at all.\n"
        assert model.requests[3].json["messages"] == model.requests[0].json["messages"]


def test_a_fork_keeps_long_results_when_the_original_is_deleted(tmp_path: Path) -> None:
    long = Call("terminal", {"command": "seq 1 60000"})
    with ScriptedModel([long, "Long.", "Still here."]) as model:
        session = three_steps(model, tmp_path)
        fork = melete("sessions", "fork", session, model=model).stdout.strip()
        assert melete("sessions", "delete", "--yes", session).returncode == 0
        (ended,) = facts(fork, "tool.ended")
        assert fork in ended["spilled"]
        assert ended["spilled"] in ended["result"]["content"]
        assert session not in ended["result"]["content"]
        assert Path(ended["spilled"]).read_text().splitlines()[-1] == "60000"
        assert melete("run", "-s", fork, "and?", model=model, cwd=tmp_path).stdout == "Still here.\n"


def test_what_cannot_be_forked_is_said_and_nothing_is_made(tmp_path: Path) -> None:
    with ScriptedModel(script()) as model:
        session = three_steps(model, tmp_path)
        for words, told in (
            (["--at", "9"], "its steps are 1 to 3"),
            (["-m", "acme/no such"], "provider"),
            (["--at", "x"], "integer"),
        ):
            done = melete("sessions", "fork", session, *words, model=model, MELETE_BASE_URL="")
            assert (done.returncode, done.stdout) == (2, ""), words
            assert told in done.stderr
        assert melete("sessions", "fork", "nobody", model=model).returncode == 2
        assert list(rows(model)) == [session]
