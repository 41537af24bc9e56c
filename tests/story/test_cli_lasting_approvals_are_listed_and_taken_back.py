"""`melete policy grants` shows what was approved for good, `revoke` ends it."""

from pathlib import Path

from melete.testing import Call, ScriptedModel
from tests.story.cli import Terminal, lines, melete
from tests.story.test_cli_shells_complete_sessions import offered

REMOVE = Call("terminal", {"command": "find . -name none -delete"})


def test_an_approval_for_good_holds_headless_until_it_is_taken_back(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    assert "Nothing was approved" in melete("policy", "grants").stderr
    with ScriptedModel([REMOVE, "One.", REMOVE, "Two.", REMOVE, "Three."]) as model:
        with Terminal(["run", "x"], model=model, cwd=folder) as terminal:
            terminal.read_until("[1-4] ")
            terminal.type("always\r")
            terminal.read_until("One.")
            assert terminal.end() == 0
        assert melete("run", "x", model=model, cwd=folder).stdout == "Two.\n"
        assert '\\"exit_code\\":0' in model.requests[3].body.decode()
        (row,) = lines(melete("policy", "grants", "--json").stdout)
        assert (row["tool"], row["rule"], row["who"]) == ("terminal", "remove-many", "cli")
        assert "command: find . -name none -delete" in melete("policy", "grants").stdout
        assert row["digest"][:12] in offered("policy", "revoke", row["digest"][:3])
        assert melete("policy", "revoke").returncode == 2
        assert melete("policy", "revoke", "nothing").returncode == 2
        assert melete("policy", "revoke", row["digest"][:8]).returncode == 0
        assert melete("run", "x", model=model, cwd=folder).stdout == "Three.\n"
        assert "nobody is there" in model.requests[5].body.decode()
