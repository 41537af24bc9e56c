"""`melete sessions search --batch`: a line in, a line out, in order; imported messages keep their names."""

import json
import signal
import subprocess
from pathlib import Path

from tests.story.cli import MELETE, PATIENCE, lines, melete, variables

ROWS = [
    {"session": "Conv 1/a", "at": "2026-01-05T10:00:00Z", "role": "user", "content": "the lighthouse is red", "ref": "D1:1"},
    {"session": "Conv 1/a", "at": "2026-01-05T10:01:00Z", "role": "assistant", "content": "and white", "ref": "D1:2"},
    {"session": "conv-2", "at": "2026-01-06T10:00:00Z", "role": "user", "content": "长江是最长的河流", "ref": "D2:1"},
]  # fmt: skip


def imported() -> None:
    """Have the rows in the home."""
    rows = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    assert melete("sessions", "import", "-", stdin=rows).returncode == 0


def test_lines_are_answered_in_order_by_the_names_of_the_import() -> None:
    imported()
    asked = ["which colour has the lighthouse?", "最长的河流", "zanzibar", '"red', "AND OR NOT", "", "\x00 -- ' %"]
    sent = "".join(json.dumps({"id": number, "query": text}) + "\n" for number, text in enumerate(asked)).encode()
    done = melete("sessions", "search", "--batch", "-n", "5", stdin=sent)
    assert (done.returncode, done.stderr) == (0, "")
    rows = lines(done.stdout)
    assert [row["id"] for row in rows] == list(range(len(asked)))
    assert rows[0]["hits"][0]["session"] == "Conv 1/a"
    assert rows[0]["hits"][0]["ref"] == "D1:1"
    assert isinstance(rows[0]["hits"][0]["message"], int)
    assert rows[1]["hits"][0] == {"session": "conv-2", "ref": "D2:1", "message": rows[1]["hits"][0]["message"]}
    assert rows[2]["hits"] == []


def test_bad_lines_are_told_and_the_others_answered() -> None:
    imported()
    sent = b'\xef\xbb\xbf{"id": "a", "query": "red"}\r\n\nno json\n{"id": "b"}\n[1]\n{"id": "c", "query": 1}\n\xff\n'
    done = melete("sessions", "search", "--batch", stdin=sent + b'{"id": [1], "query": "white"}')
    assert done.returncode == 1
    rows = lines(done.stdout)
    assert [row["id"] for row in rows] == ["a", None, "b", None, "c", None, [1]]
    assert ["error" in row for row in rows] == [False, True, True, True, True, True, False]


def test_each_line_is_answered_before_the_next_is_sent() -> None:
    imported()
    process = subprocess.Popen(
        [*MELETE, "sessions", "search", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables()
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(3):
            process.stdin.write(json.dumps({"id": number, "query": "red"}).encode() + b"\n")
            process.stdin.flush()
            assert lines(process.stdout.readline().decode())[0]["id"] == number
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_an_interrupt_ends_the_waiting_for_a_line() -> None:
    imported()
    process = subprocess.Popen(
        [*MELETE, "sessions", "search", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables()
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"id": 1, "query": "red"}\n')
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


def test_questions_may_come_from_a_file_and_the_reader_may_leave(tmp_path: Path) -> None:
    imported()
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps({"id": number, "query": "red"}) + "\n" for number in range(500)))
    with file.open("rb") as source:
        whole = subprocess.run(
            [*MELETE, "sessions", "search", "--batch"], stdin=source, capture_output=True, env=variables()
        )
    assert [row["id"] for row in lines(whole.stdout.decode())] == list(range(500))
    with (
        file.open("rb") as source,
        subprocess.Popen(
            [*MELETE, "sessions", "search", "--batch"], stdin=source, stdout=subprocess.PIPE, env=variables()
        ) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE) == 0


def test_words_and_a_batch_exclude_each_other() -> None:
    for words in (["--batch", "red"], [], ["  "]):
        done = melete("sessions", "search", *words, stdin=b"")
        assert (done.returncode, done.stdout) == (2, "")
