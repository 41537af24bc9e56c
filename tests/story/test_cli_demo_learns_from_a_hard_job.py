"""`melete demo`: needs nothing, finds the way out by failing, learns it through the gates, uses it, and takes it back."""

from pathlib import Path

from tests.story.cli import Terminal, lines, melete


def test_it_works_and_says_what_is_real(own_home: Path) -> None:
    done = melete("demo")
    assert (done.returncode, done.stderr) == (0, "")
    for said in (
        "The model is scripted",
        "exit status 17",
        "failed 3 times, then worked",
        "✗ grounding: '--force'",
        "✓ form  ✓ grounding  ✓ safety  ✓ ownership  ✓ duplicates",
        "+description: Makes the weekly report",
        "learned: weekly-report (created)",
        "↶ weekly-report: archived",
        " 7 calls",
        " 2 calls",
        "melete doctor",
    ):
        assert said in done.stdout
    assert not (own_home / ".melete").exists()


def test_the_verdict_is_the_last_line_of_json() -> None:
    *events, verdict = lines(melete("demo", "--json").stdout)
    assert (verdict["type"], verdict["ok"], verdict["calls_first"], verdict["calls_second"]) == (
        "demo.ended",
        True,
        7,
        2,
    )
    assert (verdict["refused"], verdict["learned"], verdict["undone"]) == (1, 1, True)
    assert events[-1]["type"] == "run.ended"


def test_its_folder_can_be_kept_and_all_of_it_looked_at(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    done = melete("demo", "--keep", str(kept))
    assert done.returncode == 0
    home = str(kept / "home")
    assert (kept / "project" / "out" / "2026-W48.md").read_text(encoding="utf-8").endswith("Total: 38:15\n")
    sessions = [row["id"] for row in lines(melete("sessions", "list", "--json", MELETE_HOME=home).stdout)]
    assert all(f"{kept / 'home' / 'state' / 'sessions'}" in done.stdout or one in done.stdout for one in sessions[-1:])
    assert "--force" in melete("learn", "inbox", "--all", "--json", MELETE_HOME=home).stdout
    undone = next(line for line in done.stdout.splitlines() if "melete learn undo" in line and "again" in line)
    assert melete("learn", "undo", undone.split()[-1], MELETE_HOME=home).returncode == 0
    assert "weekly-report" in melete("skills", "list", MELETE_HOME=home).stdout
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
