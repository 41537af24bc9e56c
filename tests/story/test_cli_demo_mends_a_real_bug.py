"""`melete demo`: needs nothing, really fails and really passes the tests, and says that the model is scripted."""

import subprocess
import sys
from pathlib import Path

from tests.story.cli import Terminal, lines, melete


def test_it_works_and_says_what_is_real(own_home: Path) -> None:
    done = melete("demo")
    assert (done.returncode, done.stderr) == (0, "")
    for said in (
        "The model is scripted",
        "exit status 1",
        "+    return f",
        "✓ The tests failed before",
        "✓ It took 7 tool calls, and 4 with the skill; the skill has 2 versions",
        "+2. It came back with a merge once",
        "melete doctor",
    ):
        assert said in done.stdout
    assert not (own_home / ".melete").exists()


def test_the_verdict_is_the_last_line_of_json() -> None:
    *events, verdict = lines(melete("demo", "--json").stdout)
    assert (verdict["type"], verdict["ok"], verdict["calls_first"]) == ("demo.ended", True, 7)
    assert (verdict["calls_second"], verdict["versions"]) == (4, 2)
    assert events[-1]["type"] == "run.ended"


def test_its_folder_can_be_kept_and_its_session_read(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    done = melete("demo", "--keep", str(kept))
    assert done.returncode == 0
    tests = subprocess.run(
        [sys.executable, "-m", "unittest"], cwd=kept / "project", capture_output=True, text=True, timeout=60
    )
    assert tests.returncode == 0
    row, _ = lines(melete("sessions", "list", "--json", MELETE_HOME=str(kept / "home")).stdout)
    why = melete("skills", "why", "mend-timesheet", MELETE_HOME=str(kept / "home")).stdout
    assert "An old branch was merged" in why
    back = melete("skills", "revert", "mend-timesheet", MELETE_HOME=str(kept / "home"))
    assert "-2. It came back with a merge once" in back.stdout
    assert str(kept / "home" / "state" / "sessions" / f"{row['id']}.log") in done.stdout
    again = melete("demo", "--keep", str(kept))
    assert again.returncode == 2
    assert "is not empty" in again.stderr


def test_it_needs_no_settings_that_work(own_home: Path) -> None:
    (own_home / ".melete").mkdir()
    (own_home / ".melete" / "config.yaml").write_text("agent: [", encoding="utf-8")
    assert melete("demo").returncode == 0


def test_it_is_watched_on_a_terminal_of_any_width(tmp_path: Path) -> None:
    for columns, more in ((100, {}), (20, {"NO_COLOR": "1"}), (80, {"TERM": "dumb"})):
        with Terminal(["demo"], cwd=tmp_path, columns=columns, more=more) as terminal:
            terminal.read_until("What to try next:")
            assert terminal.end() == 0
            assert ("\x1b[3" in terminal.raw) is not more
