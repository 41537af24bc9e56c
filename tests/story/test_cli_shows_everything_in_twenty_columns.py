"""Tables, checks and sessions on a very narrow terminal, without colours, and on one that can do nothing."""

from pathlib import Path

import pytest

from melete.testing import Call, ScriptedModel
from tests.story.cli import Terminal, melete

COMMANDS = (
    ["sessions", "list"],
    ["skills", "list"],
    ["memory", "show", "--why"],
    ["doctor"],
    ["context"],
    ["model"],
    ["config", "get"],
    ["logs"],
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_listing_fits(words: list[str], tmp_path: Path) -> None:
    with ScriptedModel([Call("terminal", {"command": "true"}), "Done."]) as model:
        melete("run", "a title that is rather long and has 宽 characters in it", model=model, cwd=tmp_path)
        with Terminal(words, model=model, cwd=tmp_path, columns=20, more={"NO_COLOR": "1"}) as terminal:
            assert terminal.end() == 0
            assert "\x1b" not in terminal.raw
            assert terminal.rest().strip()


@pytest.mark.parametrize("more", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_run_is_shown_plainly(more: dict[str, str], tmp_path: Path) -> None:
    with (
        ScriptedModel([Call("terminal", {"command": "echo a-rather-long-command"}), "Done."]) as model,
        Terminal(["run", "go"], model=model, cwd=tmp_path, columns=20, more=more) as terminal,
    ):
        terminal.read_until("Done.")
        assert terminal.end() == 0
        assert "\x1b[3" not in terminal.raw
