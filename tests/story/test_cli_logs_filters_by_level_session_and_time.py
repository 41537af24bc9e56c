"""`melete logs`: the records that were asked for, old and new, without secrets, whatever stands in the files."""

import os
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from melete.testing import Fault, ScriptedModel
from tests.story.cli import MELETE, PATIENCE, Terminal, lines, melete, variables
from tests.story.homes import keys

CANARY = "sk-canary-0123456789"
NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def folder(own_home: Path) -> Path:
    found = own_home / ".melete" / "logs"
    found.mkdir(parents=True)
    return found


def record(text: str, *, level: str = "INFO", ago: timedelta = timedelta(), session: str = "-") -> str:
    at = (NOW - ago).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f"{at} {level:<7} melete.test [{session}] {text}\n"


def shown(*words: str) -> list[str]:
    """The texts of the records that a command shows."""
    done = melete("logs", "--json", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return [line["text"] for line in lines(done.stdout)]


def test_level_time_logger_text_and_number(folder: Path) -> None:
    hour = timedelta(hours=1)
    (folder / "agent.log.2").write_text(record("oldest", ago=72 * hour))
    (folder / "agent.log.1").write_text(record("older", ago=48 * hour, level="WARNING"))
    (folder / "agent.log").write_text(
        record("failed\n    Traceback (most recent call last):\n    ValueError: 宽", ago=2 * hour, level="ERROR")
        + "\0\0binary\n"
        + "x" * 300_000
        + "\n"
        + record("newest")
    )
    (folder / "errors.log").write_text(record("only here", ago=99 * hour, level="ERROR"))
    everything = shown()
    assert [text.split("\n")[0] for text in everything] == ["oldest", "older", "failed", "newest"]
    assert everything[2].startswith("failed\nTraceback (most recent call last):\nValueError: 宽\n\0\0binary\nxxx")
    assert shown("--until", "1d") == ["oldest", "older"]
    assert shown("--since", "60h", "--until", "1d") == ["older"]
    assert shown("--grep", "valueerror")[0].startswith("failed")
    assert shown("-n", "1") == ["newest"]
    assert shown("-l", "error") == ["only here"]
    assert shown("-l", "warning", "--file", "agent")[0] == "older"
    assert shown("--logger", "melete.test", "-n", "1") == ["newest"]
    assert shown("--logger", "melete.tes") == []
    for words in (["-l", "loud"], ["--since", "the other day"], ["--file", "other"]):
        refused = melete("logs", *words)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)


def test_a_session_is_named_by_id_beginning_or_title_also_after_it_is_gone(folder: Path, tmp_path: Path) -> None:
    with ScriptedModel([Fault("unauthorized")] * 2) as model:
        assert melete("run", "first thing", model=model, cwd=tmp_path).returncode == 1
        assert melete("run", "second thing", model=model, cwd=tmp_path).returncode == 1
    second, first = (row["id"] for row in lines(melete("sessions", "list", "--json").stdout))
    assert first != second
    mine = [line for line in lines(melete("logs", "--json").stdout) if line["session"] == first]
    assert mine
    texts = [line["text"] for line in mine]
    assert shown("-s", first) == shown("-s", first[:-1]) == shown("-s", "first thing") == texts
    assert melete("sessions", "delete", "-y", first).returncode == 0
    assert shown("-s", first[:-1]) == texts
    unknown = melete("logs", "-s", "third thing")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "no session 'third thing'" in unknown.stderr


def test_a_key_that_an_older_program_wrote_down_is_not_shown(folder: Path, own_home: Path) -> None:
    (folder / "agent.log").write_text(record(f"asked with {CANARY}", session=CANARY) + record("broken [settings"))
    keys(own_home, SOME_API_KEY=CANARY)
    for words in ([], ["--json"]):
        done = melete("logs", *words)
        assert CANARY not in done.stdout
        assert "asked with [redacted:SOME_API_KEY]" in done.stdout
    (own_home / ".melete" / "config.yaml").write_text("nonsense: [")
    broken = melete("logs")
    assert (broken.returncode, CANARY in broken.stdout, "[redacted:SOME_API_KEY]" in broken.stdout) == (0, False, True)


def test_records_cannot_touch_the_terminal(folder: Path) -> None:
    (folder / "agent.log").write_text(
        record("\x1b]0;owned\x07\x1b[2J" + "y" * 50_000, level="ERROR", session="\x1b[1m")
    )
    with Terminal(["logs"], more={"NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 0
        assert "\x1b" not in terminal.raw
        assert "more characters; --json shows all" in terminal.rest()
    with Terminal(["logs"]) as terminal:
        assert terminal.end() == 0
        assert "\x1b[31mERROR" in terminal.raw


def test_nothing_is_said_to_be_nothing(folder: Path) -> None:
    done = melete("logs", "-l", "critical")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("There are no such records in ")


@pytest.fixture
def following(folder: Path) -> Iterator[subprocess.Popen[str]]:
    (folder / "agent.log").write_text(record("before"))
    with subprocess.Popen(
        [*MELETE, "logs", "-f", "-l", "info", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=variables(),
    ) as process:
        yield process
        process.kill()


def test_new_records_are_followed_over_a_rotation_until_ctrl_c(folder: Path, following: subprocess.Popen[str]) -> None:
    assert following.stdout is not None

    def next_text() -> str:
        assert following.stdout is not None
        return lines(following.stdout.readline())[0]["text"]

    def add(text: str) -> None:
        with (folder / "agent.log").open("a") as file:
            file.write(text)

    assert next_text() == "before"
    add(record("one"))
    assert next_text() == "one"
    add(record("two\n    more"))
    (folder / "agent.log").rename(folder / "agent.log.1")
    add(record("three"))
    assert [next_text(), next_text()] == ["two\nmore", "three"]
    os.kill(following.pid, signal.SIGINT)
    assert following.wait(timeout=PATIENCE) == 130
    assert following.stderr is not None
    assert following.stderr.read() == ""
