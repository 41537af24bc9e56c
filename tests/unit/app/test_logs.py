"""The program's own log files."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from melete.app import logs
from melete.app.home import Home
from melete.app.log_reader import Wanted, read_logs

log = logging.getLogger("melete.test")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(root=tmp_path / "h", user=tmp_path)


def same(text: str) -> str:
    return text


def test_nothing_is_made_before_the_first_record(home: Home) -> None:
    with logs.logging_to(home, redact=same):
        log.debug("not wanted")
        assert not home.root.exists()
        log.info("wanted")
        assert [path.name for path in home.logs.iterdir()] == ["agent.log"]
    assert oct((home.logs / "agent.log").stat().st_mode)[-3:] == "600"
    assert read_logs(home)[0].text == "wanted"


def test_each_file_has_its_level(home: Home) -> None:
    with logs.logging_to(home, redact=same):
        log.info("a")
        log.warning("b")
        logging.getLogger("asyncio").error("c")
        logging.getLogger("someone.else").info("not ours")
    log.warning("after the end")
    assert [(e.level, e.text, e.logger) for e in read_logs(home)] == [
        ("INFO", "a", "melete.test"),
        ("WARNING", "b", "melete.test"),
        ("ERROR", "c", "asyncio"),
    ]
    assert [e.text for e in read_logs(home, Wanted(level="warning"))] == ["b", "c"]
    assert [e.text for e in read_logs(home, Wanted(level="error"), limit=1)] == ["c"]
    assert [e.text for e in read_logs(home, limit=2)] == ["b", "c"]
    assert read_logs(home, limit=0) == ()
    assert "after the end" not in (home.logs / "errors.log").read_text()


def test_records_carry_their_session(home: Home) -> None:
    with logs.logging_to(home, redact=same):
        log.info("outside")
        with logs.log_session("s-1"):
            log.info("inside")
        log.info("by hand", extra={"session": "s-2"})
    assert [(e.session, e.text) for e in read_logs(home)] == [
        ("", "outside"),
        ("s-1", "inside"),
        ("s-2", "by hand"),
    ]
    assert [e.text for e in read_logs(home, Wanted(session="s-"))] == ["inside", "by hand"]


def test_secrets_are_taken_out_of_messages_arguments_and_tracebacks(home: Home) -> None:
    with logs.logging_to(home, redact=lambda text: text.replace("hunter2", "***")):
        try:
            int("hunter2")
        except ValueError:
            log.exception("key %s", "hunter2")
    for path in home.logs.iterdir():
        assert "hunter2" not in path.read_text()
    (entry,) = read_logs(home)
    assert entry.text.startswith("key ***\nTraceback")
    assert entry.text.endswith("base 10: '***'")


def test_a_record_cannot_forge_another(home: Home) -> None:
    forged = "x\n2026-01-01T00:00:00.000Z ERROR   melete [s] forged"
    with logs.logging_to(home, redact=same):
        log.info("%s", forged)
        log.info("carriage\rreturn \ud800")
    first, second = read_logs(home)
    assert (first.level, first.text) == ("INFO", forged)
    assert second.text == "carriage\\rreturn ?"


def test_arguments_that_do_not_fit_are_written_not_raised(home: Home) -> None:
    with logs.logging_to(home, redact=same):
        ours = logging.getLogger().handlers[-1]
        ours.handle(log.makeRecord(log.name, logging.INFO, __file__, 1, "%d things", ("many",), None))
    assert "%d things (the record's arguments do not fit" in read_logs(home)[0].text


def test_full_files_make_room_and_nothing_recent_is_lost(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LARGEST", 1000)
    with logs.logging_to(home, redact=same):
        for number in range(40):
            log.info("record %d %s", number, "x" * 50)
    names = sorted(path.name for path in home.logs.iterdir())
    assert names == ["agent.log", "agent.log.1", "agent.log.2", "agent.log.3"]
    assert all(path.stat().st_size <= 1000 for path in home.logs.iterdir())
    numbers = [int(e.text.split()[1]) for e in read_logs(home)]
    assert numbers == list(range(numbers[0], 40))
    assert len(numbers) > 20


WRITER = """
import logging, sys
from pathlib import Path
from melete.app import logs
from melete.app.home import Home
logs.LARGEST = 20_000
with logs.logging_to(Home(root=Path(sys.argv[1])), redact=str):
    for number in range(200):
        logging.getLogger("melete").info("%s %d %s", sys.argv[2], number, "x" * 20)
"""


def test_several_processes_write_whole_lines_to_the_same_files(home: Home) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(home.root), name]) for name in ("a", "b", "c")]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    seen = [tuple(e.text.split()) for e in read_logs(home, limit=10_000)]
    assert len(seen) == len(set(seen)) == 600
    assert all(len(words) == 3 and words[2] == "x" * 20 for words in seen)


def test_a_disk_that_takes_nothing_is_said_once_and_stops_nothing(home: Home) -> None:
    home.folder(home.logs)
    (home.logs / "agent.log").symlink_to("/dev/full")
    said: list[str] = []
    with logs.logging_to(home, redact=same, on_failure=said.append):
        log.info("a")
        log.info("b")
    assert len(said) == 1
    assert said[0].startswith("the log files cannot be written: ")
    assert "No space left" in said[0]


def test_a_home_that_is_a_file_is_said_once(home: Home) -> None:
    home.root.write_text("")
    said: list[str] = []
    with logs.logging_to(home, redact=same, on_failure=said.append):
        log.info("a")
    assert "move that file away" in said[0]


def test_a_file_that_was_moved_away_is_begun_anew(home: Home) -> None:
    with logs.logging_to(home, redact=same):
        log.info("a")
        (home.logs / "agent.log").rename(home.logs / "elsewhere")
        log.info("b")
    assert [e.text for e in read_logs(home)] == ["b"]


def test_damaged_files_are_read_as_far_as_they_go(home: Home) -> None:
    home.folder(home.logs)
    (home.logs / "agent.log").write_bytes(
        b"lost beginning\n2026-01-01T00:00:00.000Z INFO    m [-] good \xff\n    more\n" + b"\0" * 40 + b"\n"
    )
    (entry,) = read_logs(home)
    assert entry.text.startswith("good �\nmore\n")
    assert read_logs(Home(root=home.root / "none")) == ()


def test_what_is_no_log_file_is_neither_waited_for_nor_read_whole(home: Home) -> None:
    said: list[str] = []
    home.logs.mkdir(parents=True)
    os.mkfifo(home.logs / "agent.log")
    with logs.logging_to(home, redact=same, on_failure=said.append):
        log.info("goes on")
    assert len(said) == 1
    assert read_logs(home) == ()

    with (home.logs / "errors.log").open("wb") as file:
        file.truncate(1 << 40)
        file.seek(0, os.SEEK_END)
        file.write(
            b"\n2026-99-01T00:00:00.000Z ERROR melete [-] no such day\n2026-01-01T00:00:00.000Z ERROR melete [-] last\n"
        )
    assert [entry.text for entry in read_logs(home, Wanted(level="error"))] == ["last"]


def test_no_descriptor_stays_open(home: Home) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    with logs.logging_to(home, redact=same):
        log.warning("a")
    assert set(Path("/proc/self/fd").iterdir()) == before
