"""A file of lines: whole lines, an end to its size, and several writers that follow one another to the new file."""

import subprocess
import sys
from pathlib import Path

import pytest

from melete.app.log_file import LogFile

WRITING = """
import sys
from pathlib import Path
from melete.app.log_file import LogFile
file = LogFile(Path(sys.argv[1]), largest=1_000, kept=1_000)
for number in range(200):
    file.append(f"{sys.argv[2]} {number}\\n".encode())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "logs"
    found.mkdir()
    return found


def texts(path: Path) -> dict[str, str]:
    return {found.name: found.read_text() for found in sorted(path.parent.iterdir())}


def test_nothing_is_there_before_the_first_line(folder: Path) -> None:
    file = LogFile(folder / "some.log")
    assert list(folder.iterdir()) == []
    file.append(b"one\n")
    assert file.path.stat().st_mode & 0o777 == 0o600
    file.close()
    file.append(b"two\n")
    assert texts(file.path) == {"some.log": "one\ntwo\n"}
    file.close()


def test_it_makes_room_and_keeps_so_many(folder: Path) -> None:
    file = LogFile(folder / "some.log", largest=8, kept=2)
    for text in ("aaaa", "bbbb", "cccc", "dddd", "a line longer than the file", "eeee"):
        file.append(text.encode())
    assert texts(file.path) == {
        "some.log": "eeee",
        "some.log.1": "a line longer than the file",
        "some.log.2": "ccccdddd",
    }
    file.close()


def test_a_file_that_was_taken_away_is_begun_anew(folder: Path) -> None:
    file = LogFile(folder / "some.log")
    file.append(b"one\n")
    file.path.rename(folder / "kept")
    file.append(b"two\n")
    assert texts(file.path) == {"kept": "one\n", "some.log": "two\n"}
    file.close()


def test_several_processes_lose_no_line_and_mix_none(folder: Path) -> None:
    path = folder / "some.log"
    going = [subprocess.Popen([sys.executable, "-c", WRITING, str(path), name]) for name in "abcd"]
    assert [process.wait(timeout=60) for process in going] == [0] * 4
    lines = [line for text in texts(path).values() for line in text.splitlines()]
    assert sorted(lines) == sorted(f"{name} {number}" for name in "abcd" for number in range(200))
    assert all(found.stat().st_size <= 1_000 + 4 * len("a 199\n") for found in folder.iterdir())
