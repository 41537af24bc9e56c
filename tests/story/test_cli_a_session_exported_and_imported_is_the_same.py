"""`melete sessions export` and `import`: to another home and back, and conversations of other programs."""

import gzip
import stat
from pathlib import Path

import msgspec
import pytest

from melete.testing import Call, ScriptedModel
from tests.story.cli import Terminal, lines, melete
from tests.story.homes import holders

SECRET = "sk-live-3141592653589793"


@pytest.fixture
def session(tmp_path: Path) -> str:
    """A session of two steps in the test's home."""
    with ScriptedModel([Call("terminal", {"command": "echo hi"}), "Done, **really**."]) as model:
        assert melete("run", "greet", model=model, cwd=tmp_path).returncode == 0
        (row,) = lines(melete("sessions", "list", "--json").stdout)
    return row["id"]


def log(home: Path, session: str) -> bytes:
    return (home / "state" / "sessions" / f"{session}.log").read_bytes()


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_a_session_moves_to_another_home_byte_for_byte(tmp_path: Path, own_home: Path, session: str, name: str) -> None:
    path, other = tmp_path / name, tmp_path / "other"
    done = melete("sessions", "export", "--all", "--raw", "-o", str(path))
    assert done.returncode == 0
    assert "give the file to nobody" in done.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    data = gzip.decompress(path.read_bytes()) if name.endswith("gz") else path.read_bytes()
    assert data.startswith(b'{"melete_session":1,')
    summary = lines(melete("sessions", "import", str(path), "--json", MELETE_HOME=str(other)).stdout)[0]
    assert (summary["sessions"], summary["messages"], summary["bad"]) == (1, 3, 0)
    assert log(other, session) == log(own_home / ".melete", session)
    with ScriptedModel(["And on."]) as model:
        done = melete("run", "-s", session, "go on", model=model, cwd=tmp_path, MELETE_HOME=str(other))
    assert done.stdout == "And on.\n"


def test_an_export_through_a_pipe_is_one_as_well(tmp_path: Path, session: str) -> None:
    data = melete("sessions", "export", session).stdout.encode()
    done = melete("sessions", "import", "-", stdin=data, MELETE_HOME=str(tmp_path / "other"))
    assert (done.returncode, done.stdout.partition(" (")[0]) == (0, "1 session with 3 messages came in")
    again = melete("sessions", "import", "-", stdin=data)
    assert (again.returncode, "1 was here already" in again.stdout) == (0, True)


def test_known_secrets_leave_no_home_unless_they_are_asked_for(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel([f"The key is {SECRET}."]) as model:
        done = melete("run", f"remember {SECRET}", model=model, cwd=tmp_path, ACME_API_KEY=SECRET)
        assert done.returncode == 0
    folder = tmp_path / "out"
    folder.mkdir()
    for form in ("jsonl", "md", "html"):
        done = melete("sessions", "export", "--all", "--format", form, "-o", str(folder), ACME_API_KEY=SECRET)
        assert done.returncode == 0, done.stderr
    assert len(list(folder.iterdir())) == 3
    assert holders(folder, "[redacted:ACME_API_KEY]")
    assert not holders(folder, SECRET)
    assert SECRET in melete("sessions", "export", "--all", "--raw", ACME_API_KEY=SECRET).stdout
    (clean,) = folder.glob("*.jsonl")
    assert melete("sessions", "import", str(clean), MELETE_HOME=str(tmp_path / "other")).returncode == 0


def test_markdown_shows_words_calls_and_costs(session: str) -> None:
    text = melete("sessions", "export", session, "--format", "md").stdout
    assert text.startswith("# greet\n")
    assert "> greet" in text
    assert "✓ **terminal** `echo hi`" in text
    assert "Done, **really**." in text


def test_files_that_are_there_stay_unless_it_is_said(tmp_path: Path, session: str) -> None:
    path = tmp_path / "out.html"
    path.write_text("mine")
    done = melete("sessions", "export", session, "--format", "html", "-o", str(path))
    assert (done.returncode, path.read_text()) == (2, "mine")
    assert "--force" in done.stderr
    assert melete("sessions", "export", session, "--format", "html", "-o", str(path), "--force").returncode == 0
    assert path.read_text().startswith("<!doctype html>")
    gone = melete("sessions", "export", session, "-o", str(tmp_path / "nowhere" / "x.jsonl"))
    assert gone.returncode == 1
    assert "cannot write" in gone.stderr
    assert melete("sessions", "export", session, "-o", "/dev/null", "--force").returncode == 2


def test_a_page_of_html_goes_to_a_file_when_a_terminal_would_show_it(tmp_path: Path, session: str) -> None:
    with Terminal(["sessions", "export", session, "--format", "html"], cwd=tmp_path) as terminal:
        terminal.read_until(f"1 session in {session}.html")
        assert terminal.end() == 0
    assert (tmp_path / f"{session}.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "which sessions are meant"),
        (["--all", "x"], "which sessions are meant"),
        (["--all", "--raw", "--format", "md"], "--raw is for JSON lines"),
        (["nobody"], "there is no session"),
        (["--since", "soon"], "--since"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(session: str, words: list[str], told: str) -> None:
    done = melete("sessions", "export", *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_conversations_of_other_programs_come_in_are_found_and_go_on(tmp_path: Path) -> None:
    rows = [
        {"session": "Trip to Rome", "role": "system", "content": "Be brief.", "at": "2026-03-01T10:00:00Z"},
        {"session": "other", "role": "user", "content": "unrelated"},
        {"session": "Trip to Rome", "role": "user", "content": "Which gelateria was it?", "ref": "D1:1"},
        {"session": "Trip to Rome", "role": "assistant", "content": "Giolitti, near the Pantheon.", "ref": "D1:2"},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows) + b"{nonsense\n")
    done = melete("sessions", "import", str(path))
    assert done.returncode == 1
    assert "line 5" in done.stderr
    assert done.stdout.startswith("2 sessions with 4 messages came in; 1 line was left out")
    found = {row["id"]: row for row in lines(melete("sessions", "list", "--json").stdout)}
    (session,) = (name for name in found if name.startswith("trip-to-rome-"))
    assert (found[session]["source"], found["other"]["source"]) == ("import", "import")
    with ScriptedModel(["Yes."]) as model:
        assert melete("run", "-s", session, "sure?", model=model, cwd=tmp_path).stdout == "Yes.\n"
        asked = model.requests[0].json["messages"]
    assert [message["content"] for message in asked[1:]] == [
        "[system]\nBe brief.", "Which gelateria was it?", "Giolitti, near the Pantheon.", "sure?",
    ]  # fmt: skip


def test_waiting_for_a_silent_pipe_can_be_stopped(tmp_path: Path) -> None:
    with Terminal(["sessions", "import", "-"], cwd=tmp_path) as terminal:
        terminal.read_until("reading")
        terminal.type('{"session":"a","role":"user","content":"x"}\r')
        terminal.interrupt()
        terminal.read_until("stopped")
        assert terminal.end() == 130


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    for name, told in (("nothing.jsonl", "No such file"), (".", "directory")):
        done = melete("sessions", "import", str(tmp_path / name))
        assert done.returncode == 2
        assert told in done.stderr
    empty = melete("sessions", "import", "-", stdin=b"")
    assert (empty.returncode, empty.stdout.partition(" (")[0]) == (0, "0 sessions with 0 messages came in")
