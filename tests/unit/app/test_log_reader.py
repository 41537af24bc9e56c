"""Reading the program's log files: which records are wanted, and those that come."""

import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.app import logs
from melete.app.home import Home
from melete.app.log_reader import LogEntry, LogReader, Wanted, known_secrets, read_logs
from melete.core.errors import UsageError

START = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(root=tmp_path / "h", user=tmp_path)
    found.folder(found.logs)
    return found


def line(text: str, *, minute: int = 0, level: str = "INFO", logger: str = "melete", session: str = "-") -> str:
    at = (START + timedelta(minutes=minute)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f"{at} {level:<7} {logger} [{session}] {text}\n"


def texts(entries: Any) -> list[str]:
    return [entry.text for entry in entries]


def put(home: Home, *lines: str, name: str = "agent.log") -> None:
    with (home.logs / name).open("a", encoding="utf-8") as file:
        file.writelines(lines)


def test_records_are_chosen_by_everything_that_is_known_of_them(home: Home) -> None:
    put(
        home,
        line("a", minute=0, logger="melete.agent"),
        line("b", minute=1, level="WARNING", logger="melete.agent.loop", session="s-1"),
        line("Über C", minute=2, level="ERROR", logger="melete.agents"),
        line("d", minute=3, level="CRITICAL", session="s-2"),
    )

    def found(**fields: Any) -> list[str]:
        return texts(read_logs(home, Wanted(file="agent", **fields)))

    assert found() == ["a", "b", "Über C", "d"]
    assert found(level="warning") == ["b", "Über C", "d"]
    assert found(since=START + timedelta(minutes=1)) == ["b", "Über C", "d"]
    assert found(until=START + timedelta(minutes=1)) == ["a"]
    assert found(logger="melete.agent") == found(logger="melete.agent.") == ["a", "b"]
    assert found(session="s-") == ["b", "d"]
    assert found(text="über c") == ["Über C"]
    assert texts(read_logs(home, Wanted(file="agent"), limit=2)) == ["Über C", "d"]


def test_failures_are_read_from_the_file_that_goes_back_farther(home: Home) -> None:
    put(home, line("new", level="ERROR"))
    put(home, line("old", level="ERROR"), line("new", level="ERROR"), name="errors.log")
    assert texts(read_logs(home, Wanted(level="error"))) == ["old", "new"]
    assert texts(read_logs(home, Wanted(level="error", file="agent"))) == ["new"]
    assert texts(read_logs(home, Wanted(file="errors"))) == ["old", "new"]


def test_a_level_that_does_not_exist_is_refused(home: Home) -> None:
    with pytest.raises(UsageError, match="no level is called 'loud'; use one of debug, info"):
        read_logs(home, Wanted(level="loud"))


def test_a_secret_that_an_older_program_wrote_down_is_not_shown(home: Home) -> None:
    put(home, line("key sk-canary-1 in\n    lines sk-\n    canary-2", logger="sk-canary-1", session="sk-canary-1"))

    def redact(text: str) -> str:
        return text.replace("sk-canary-1", "***").replace("sk-\ncanary-2", "***")

    (entry,) = read_logs(home, redact=redact)
    assert (entry.text, entry.logger, entry.session) == ("key *** in\nlines ***", "***", "***")
    assert read_logs(home, Wanted(text="canary"), redact=redact) == ()


def test_a_traceback_stays_with_its_record(home: Home) -> None:
    put(home, line("failed\n    Traceback\n      deeper", level="ERROR"), line("next"))
    assert texts(read_logs(home, Wanted(level="error", file="agent"))) == ["failed\nTraceback\n  deeper"]
    assert texts(read_logs(home, Wanted(text="deeper"))) == ["failed\nTraceback\n  deeper"]


def followed(reader: LogReader) -> list[str]:
    """What a reader shows that has looked until nothing came."""
    found: list[str] = []
    for _ in range(3):
        found += texts(reader.read(whole=False))
    return found


def test_new_records_come_once_each(home: Home) -> None:
    with LogReader(home, Wanted()) as reader:
        assert texts(reader.read()) == []
        put(home, line("a"), line("b"))
        assert followed(reader) == ["a", "b"]
        assert followed(reader) == []
        put(home, line("c")[:20])
        assert followed(reader) == []
        put(home, line("c")[20:], "    more\n")
        assert followed(reader) == ["c\nmore"]


def test_a_rotation_is_followed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LARGEST", 700)
    log = logging.getLogger("melete.test")
    with logs.logging_to(home, redact=str), LogReader(home, Wanted()) as reader:
        seen = texts(reader.read())
        for number in range(60):
            log.info("%d", number)
            if number % 7 == 0:
                seen += texts(reader.read(whole=False))
        seen += followed(reader)
    assert (home.logs / "agent.log.3").exists()
    assert seen == [str(number) for number in range(60)]


def test_a_file_that_was_moved_away_or_emptied_is_followed_anew(home: Home) -> None:
    put(home, line("older"), name="agent.log.1")
    os.utime(home.logs / "agent.log.1", (1, 1))
    put(home, line("a"))
    with LogReader(home, Wanted()) as reader:
        assert texts(reader.read()) == ["older", "a"]
        (home.logs / "agent.log").rename(home.logs / "elsewhere")
        assert followed(reader) == []
        put(home, line("b"))
        assert followed(reader) == ["b"]
        os.truncate(home.logs / "agent.log", 0)
        assert followed(reader) == []
        put(home, line("c"))
        assert followed(reader) == ["c"]


def test_a_reader_closes_what_it_opened(home: Home) -> None:
    put(home, line("a"))
    put(home, line("b"), name="agent.log.1")
    before = set(Path("/proc/self/fd").iterdir())
    with LogReader(home, Wanted()) as reader:
        next(iter(reader.read()), None)
    read_logs(home)
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_secrets_are_known_also_where_the_settings_cannot_be_read(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MELETE_HOME", str(home.root))
    home.env.write_text("OPENAI_API_KEY=sk-canary-1\nNAME=somebody-else\n")
    assert known_secrets() == {"OPENAI_API_KEY": "sk-canary-1"}
    home.config.write_text("nonsense: [")
    assert known_secrets() == {"OPENAI_API_KEY": "sk-canary-1"}


@pytest.fixture(scope="module")
def heap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    found = Home(root=tmp_path_factory.mktemp("heap"))
    found.logs.mkdir()
    yield found


RECORDS = st.builds(
    lambda text, level: line(text, level=level).encode(),
    st.text("ab é\n", max_size=9),
    st.sampled_from(["INFO", "ERROR", "ODD"]),
)
PIECES = st.one_of(st.binary(max_size=40), RECORDS, st.just(line("x").encode()[:30]), st.just(b"\n"))


@given(pieces=st.lists(PIECES, max_size=12))
def test_whatever_stands_in_a_file_is_read_and_no_record_is_lost_on_the_way(heap: Home, pieces: list[bytes]) -> None:
    path = heap.logs / "agent.log"
    path.write_bytes(b"".join(pieces))
    at_once = read_logs(heap, limit=1000)
    path.write_bytes(b"")
    slowly: list[LogEntry] = []
    with LogReader(heap, Wanted()) as reader:
        slowly += reader.read()
        for piece in pieces:
            with path.open("ab") as file:
                file.write(piece)
            slowly += reader.read(whole=False)
        slowly += reader.read()
    assert [entry.level for entry in slowly] == [entry.level for entry in at_once]
    assert all(whole.text.startswith(part.text) for part, whole in zip(slowly, at_once, strict=True))
