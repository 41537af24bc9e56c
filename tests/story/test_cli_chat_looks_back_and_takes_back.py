"""`melete chat` and the past: searching, resuming, branching at a step, taking back a prompt, looking back, exporting."""

from pathlib import Path

from melete.testing import Call, ScriptedModel
from tests.story.cli import Terminal, lines, melete


def say(chat: Terminal, line: str, wanted: str) -> str:
    """Type a line and read what is shown, from what is wanted to the next prompt."""
    chat.type(f"{line}\r")
    chat.read_until(line[-12:])
    return chat.read_until(wanted) + chat.read_until("\n> ")


def asked(model: ScriptedModel, index: int = -1) -> list[str]:
    """What people and model had said when a request was sent."""
    messages = model.requests[index].json["messages"]
    return [message["content"] for message in messages if message["role"] != "system"]


def test_a_prompt_is_taken_back_and_a_branch_goes_on_from_a_step(tmp_path: Path) -> None:
    script = ["One.", "Two.", "Another two.", "Three.", "Fresh."]
    with ScriptedModel(script) as model, Terminal(["chat"], model=model, cwd=tmp_path) as chat:
        chat.read_until("> ")
        say(chat, "first", "One.")
        say(chat, "second", "Two.")
        shown = say(chat, "/undo", "Taken back: second;")
        assert "the session stays as" in shown
        say(chat, "second again", "Another two.")
        assert asked(model) == ["first", "One.", "second again"]
        say(chat, "/fork 1", "Forked at step 1;")
        say(chat, "third", "Three.")
        assert asked(model) == ["first", "One.", "third"]
        say(chat, "/undo", "Taken back: third;")
        say(chat, "/undo", "Taken back: first;")
        say(chat, "/undo", "nothing was said in this session yet")
        say(chat, "fresh", "Fresh.")
        assert asked(model) == ["fresh"]
        say(chat, "/branch 9", "its steps are 1 to 1")
        say(chat, "/branch x", "is not a number")
        chat.type("\x04")
        assert chat.end() == 0
    rows = lines(melete("sessions", "list", "--json").stdout)
    original = [row for row in rows if row["title"] == "first"]
    assert [row["messages"] for row in original] == [4]  # what was taken back is still there
    kept = melete("sessions", "show", original[0]["id"]).stdout
    assert "Two." in kept
    assert "Another two." not in kept


def test_the_past_is_searched_listed_and_gone_on_with(tmp_path: Path) -> None:
    with ScriptedModel(["The lighthouse is red."]) as model:
        melete("run", "which colour?", model=model, cwd=tmp_path)
    (row,) = lines(melete("sessions", "list", "--json").stdout)
    with ScriptedModel(["Still red."]) as model, Terminal(["chat"], model=model, cwd=tmp_path) as chat:
        chat.read_until("> ")
        assert row["id"] in say(chat, "/search lighthouse", "The lighthouse is red.")
        say(chat, "/search zanzibar", "Nothing was found.")
        say(chat, "/search", "write /search WORDS")
        assert "which colour?" in say(chat, "/resume", row["id"])
        say(chat, "/resume nowhere", "there is no session")
        say(chat, "/resume which colour?", "2 messages")
        say(chat, "and now?", "Still red.")
        shown = say(chat, "/history 1", "and now?")
        assert "[2]" in shown
        assert "which colour?" not in shown
        say(chat, "/title   ", "which colour?")
        say(chat, f"/title {'x' * 201}", "use at most 200")
        say(chat, "/title Colours  of things", "Colours of things")
        say(chat, "/insights 7", "Cost")
        chat.type("\x04")
        assert chat.end() == 0
    assert melete("sessions", "show", "Colours of things").returncode == 0


def test_an_id_is_completed_behind_resume(tmp_path: Path) -> None:
    with ScriptedModel(["Red."]) as model:
        melete("run", "which colour?", model=model, cwd=tmp_path)
    (row,) = lines(melete("sessions", "list", "--json").stdout)
    with ScriptedModel([]) as model, Terminal(["chat"], model=model, cwd=tmp_path) as chat:
        chat.read_until("> ")
        chat.type(f"/resume {row['id'][:17]}\t")
        chat.read_until(f"/resume {row['id']} ")
        chat.type("\r")
        chat.read_until("2 messages")
        chat.read_until("> ")
        chat.type("\x04")
        assert chat.end() == 0


def test_a_session_is_exported_from_the_chat(tmp_path: Path) -> None:
    echo = Call("terminal", {"command": "echo <b>hi</b>"})
    with ScriptedModel([echo, "Done."]) as model, Terminal(["chat"], model=model, cwd=tmp_path) as chat:
        chat.read_until("> ")
        say(chat, "go", "Done.")
        for name in ("talk.md", "talk.html", "talk.jsonl"):
            say(chat, f"/export {name}", "Written to")
            assert "echo" in (tmp_path / name).read_text()
        assert "--force" not in say(chat, "/export talk.md", "exists already")
        say(chat, "/export talk.pdf", "names no format")
        say(chat, "/export", "Written to")
        chat.type("\x04")
        assert chat.end() == 0
    assert len(list(tmp_path.glob("2*.html"))) == 1
