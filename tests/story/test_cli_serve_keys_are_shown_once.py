"""Keys for others are made, renewed and taken away at the command line; a key is shown once, and alone, to be piped on."""

import json
import re
from pathlib import Path

import pytest

from tests.story.cli import lines, melete
from tests.story.homes import configure, holders
from tests.story.test_cli_shells_complete_sessions import offered

KEY = re.compile(r"mk_[A-Za-z0-9_-]{43}\n")


def keys(*words: str, status: int = 0, clock: str = "", own: str = "") -> tuple[str, str]:
    """What a command says on standard output and on standard error."""
    done = melete("serve", "keys", *words, MELETE_CLOCK=clock, MELETE_SERVER_KEY=own)
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def test_a_key_stands_alone_on_standard_output_and_nowhere_else(own_home: Path) -> None:
    out, said = keys("add", "webui", "--scope", "chat,jobs", "--scope", "metrics", "--expires", "30d")
    assert KEY.fullmatch(out)
    assert "chat, jobs, metrics" in said
    assert "once" in said
    assert out.strip() not in said
    assert holders(own_home, out.strip()) == []
    assert holders(own_home, out.strip().removeprefix("mk_")) == []
    listed, _ = keys("list")
    assert "webui" in listed
    assert "chat, jobs, metrics" in listed
    assert "mk_" not in listed
    (row,) = lines(keys("list", "--json")[0])
    assert row.keys() == {"name", "scopes", "created", "expires", "active"}
    assert (row["name"], row["scopes"], row["active"]) == ("webui", ["chat", "jobs", "metrics"], True)


def test_the_first_key_is_said_to_shut_the_server() -> None:
    assert "asks everybody for a key" in keys("add", "one")[1]
    assert "asks everybody" not in keys("add", "two")[1]


def test_who_has_a_key_of_their_own_is_told_nothing_of_it() -> None:
    assert "asks everybody" not in keys("add", "one", own="a-key-of-my-own-42")[1]


def test_a_key_made_for_a_program_is_one_json_object() -> None:
    (made,) = lines(keys("add", "ci", "--json")[0])
    assert KEY.fullmatch(made["key"] + "\n")
    assert (made["name"], made["scopes"]) == ("ci", ["chat"])
    (again,) = lines(keys("rotate", "ci", "--grace", "2h", "--json")[0])
    assert again["key"] != made["key"]
    assert again["old_until"]
    out, _ = keys("remove", "ci", "--json")
    assert json.loads(out) == {"removed": "ci", "left": 0}


def test_a_key_is_renewed_and_taken_away() -> None:
    first, _ = keys("add", "webui")
    second, said = keys("rotate", "webui")
    assert KEY.fullmatch(second)
    assert second != first
    assert "before works until" in said
    assert "before works" not in keys("rotate", "webui", "--grace", "0")[1]
    out, said = keys("remove", "webui")
    assert out == ""
    assert "sessions stay" in said
    assert "no key any more" in said
    assert "no named keys" in keys("list")[1]


def test_a_key_that_has_ended_is_shown_as_over() -> None:
    keys("add", "old", "--expires", "1h", clock="2026-01-01T00:00:00Z")
    assert "(over)" in keys("list", clock="2026-01-01T01:00:00Z")[0]
    assert lines(keys("list", "--json", clock="2026-01-01T01:00:00Z")[0])[0]["active"] is False
    _, said = keys("rotate", "old", status=2, clock="2026-01-01T01:00:00Z")
    assert "--expires" in said


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("add", "webui"), "rotate webui"),
        (("add", "Web UI"), "cannot be the name"),
        (("add", "x", "--scope", "everything"), "chat, jobs, metrics, admin"),
        (("add", "x", "--expires", "yesterday"), "--expires"),
        (("add", "x", "--expires", "2020-01-01"), "not in the future"),
        (("rotate", "webui", "--grace", "-1h"), "--grace"),
        (("rotate", "webiu"), "did you mean webui?"),
        (("remove", "other"), "melete serve keys list"),
    ],
)
def test_what_makes_no_sense_is_told_and_changes_nothing(
    own_home: Path, words: tuple[str, ...], complaint: str
) -> None:
    keys("add", "webui")
    file = own_home / ".melete" / "state" / "server_keys.json"
    before = file.read_bytes()
    out, said = keys(*words, status=2)
    assert out == ""
    assert complaint in said
    assert file.read_bytes() == before


def test_a_damaged_file_is_told_and_stays_as_it_is(own_home: Path) -> None:
    keys("add", "webui")
    file = own_home / ".melete" / "state" / "server_keys.json"
    file.write_bytes(file.read_bytes()[:-9])
    before = file.read_bytes()
    for words in (("list",), ("add", "x"), ("rotate", "webui"), ("remove", "webui")):
        assert "not touched" in keys(*words, status=1)[1]
    assert file.read_bytes() == before
    assert offered("serve", "keys", "remove", "") == []


def test_the_persons_own_key_is_mentioned_with_its_place_and_never_shown(own_home: Path) -> None:
    configure(own_home, server={"api_key": "a-key-of-my-own-42"})
    keys("add", "webui")
    for out in keys("list"):
        assert "a-key-of-my-own-42" not in out
    assert "config.yaml:1" in keys("list")[1]
    assert "MELETE_SERVER_KEY" in keys("list", own="another one")[1]
    assert "no key any more" not in keys("remove", "webui")[1]


def test_every_change_is_in_the_audit_log(own_home: Path) -> None:
    for words in (("add", "webui"), ("list",), ("rotate", "webui"), ("remove", "webui")):
        keys(*words)
    log = own_home / ".melete" / "logs" / "audit.log"
    assert log.stat().st_mode & 0o777 == 0o600
    rows = lines(log.read_text())
    assert [(row["who"], row["from"], row["route"], row["key"]) for row in rows] == [
        ("person", "terminal", f"serve keys {command}", "webui") for command in ("add", "rotate", "remove")
    ]
    assert "mk_" not in log.read_text()


def test_shells_complete_the_names_of_keys() -> None:
    assert offered("serve", "keys", "remove", "") == []
    keys("add", "webui")
    keys("add", "ci", "--scope", "jobs")
    assert offered("serve", "keys", "remove", "") == ["webui", "chat", "ci", "jobs"]
    assert offered("serve", "keys", "rotate", "we") == ["webui", "chat"]
    assert offered("serve", "keys", "remove", "x") == []
