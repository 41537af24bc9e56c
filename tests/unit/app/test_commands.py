"""The slash registry: one table, no word twice, every command with something that does it."""

import pytest

from melete.app.commands import COMMANDS, commands, is_command, parse, words
from melete.core.errors import UsageError
from melete.surfaces.cli.chat_commands import HANDLERS


def test_no_word_is_used_twice() -> None:
    every = [word for command in COMMANDS for word in (command.name, *command.aliases)]
    assert len(every) == len(set(every))
    assert all(command.about.endswith(".") and command.category for command in COMMANDS)


def test_the_terminal_does_what_it_offers() -> None:
    assert set(HANDLERS) == {command.name for command in commands("cli")}


def test_a_command_is_found_by_name_alias_and_case() -> None:
    assert parse("/exit", "cli")[0].name == "exit"
    assert parse("  /QUIT ", "cli")[0].name == "exit"
    command, rest = parse("/title  A new  title ", "cli")
    assert (command.name, rest) == ("title", "A new  title")


def test_an_unknown_command_names_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="did you mean /model"):
        parse("/modle", "cli")
    with pytest.raises(UsageError):
        parse("/exit", "gateway")


def test_paths_are_no_commands() -> None:
    assert is_command("/help me")
    for line in ("/etc/hosts", "/", "help", "", "  ", "a /help"):
        assert not is_command(line)


def test_completion_offers_every_word_with_its_slash() -> None:
    assert "/quit" in words("cli")
    assert "/exit" not in words("gateway")
    assert list(words("cli")) == sorted(words("cli"))
