"""`melete policy explain` shows every program behind a command, what it is fed, and what would be done about it."""

from pathlib import Path

import msgspec
import pytest

from tests.story.cli import Terminal, melete
from tests.story.homes import configure

LOCAL = ("policy", "explain", "--env", "local")


def test_what_is_hidden_is_shown_with_the_reason() -> None:
    done = melete(*LOCAL, "echo cm0gLXJmIC8= | base64 -d | sudo sh")
    assert (done.returncode, done.stderr) == (0, "")
    assert "reads: rm -rf /\n" in done.stdout
    assert "└─ rm -rf /  ✗ deletes" in done.stdout
    assert "✗ forbidden: deletes the whole system" in done.stdout
    assert "Nobody can allow it" in done.stdout


def test_what_the_mode_makes_of_a_question_is_said(tmp_path: Path) -> None:
    assert "A person is asked first" in melete(*LOCAL, "git push --force").stdout
    configure(Path.home(), approvals={"mode": "off"})
    assert "approvals.mode: off" in melete(*LOCAL, "git push --force").stdout


def test_what_cannot_be_told_and_what_nobody_sees_is_named() -> None:
    done = melete(*LOCAL, "$TOOL r\u200bun")
    assert "⟨?⟩ run" in done.stdout
    assert "cannot be told: the name of the program is not known" in done.stdout
    assert "$TOOL r⟦U+200B⟧un" in done.stdout


def test_words_standard_input_and_json_are_understood() -> None:
    for done in (
        melete(*LOCAL, "--json", "rm", "-rf", "/"),
        melete(*LOCAL, "--json", stdin=b"rm -rf /\n"),
        melete(*LOCAL, "--json", "-", stdin=b"rm -rf /"),
    ):
        found = msgspec.json.decode(done.stdout)
        assert (found["verdict"], found["rule"], found["command"]) == ("forbid", "delete-system", "rm -rf /")
        assert [program["rule"] for program in found["programs"]] == ["delete-system"]
    assert melete(*LOCAL, stdin=b"\n").returncode == 2


def test_a_folder_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    done = melete(*LOCAL, "--cwd", str(tmp_path / "no"), "ls")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_a_terminal_has_colours() -> None:
    with Terminal([*LOCAL, "ls"]) as terminal:
        assert terminal.end() == 0
        assert "\x1b[32m✓ allowed" in terminal.raw


def test_what_a_web_page_would_change_is_said() -> None:
    assert "After text from outside" not in melete(*LOCAL, "git status").stdout
    assert (
        "After text from outside was read, such as a web page, a person is asked" in melete(*LOCAL, "make test").stdout
    )


@pytest.mark.needs("bwrap")
def test_what_the_sandbox_makes_harmless_is_said() -> None:
    sandbox = ("policy", "explain", "--env", "sandbox")
    assert "but only behind walls (contained)" in melete(*sandbox, "sudo ls /root").stdout
    assert "one answer covers the session" in melete(*sandbox, "make test").stdout
    configure(Path.home(), approvals={"after_untrusted": "walls"})
    assert "it has no network" in melete(*sandbox, "make test").stdout
    assert "a person is asked first (" in melete(*sandbox, "curl https://example.org").stdout
    configure(Path.home(), approvals={"after_untrusted": "allow"})
    assert "After text" not in melete(*sandbox, "make test").stdout


def test_a_container_has_walls_unless_it_is_opened() -> None:
    docker = ("policy", "explain", "--env", "docker", "sudo ls /root")
    assert "environment docker, behind walls" in melete(*docker).stdout
    for opened in ({"network": "on"}, {"volumes": ["/srv:/srv"]}):
        configure(Path.home(), docker=opened)
        assert "? asked about" in melete(*docker).stdout
