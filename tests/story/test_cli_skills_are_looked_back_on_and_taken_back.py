"""A skill that the agent wrote and mended: its history, what changed, why, back again; and the person's own hand on skills."""

from pathlib import Path

from melete.testing import Call, Say, ScriptedModel
from tests.story.cli import Terminal, lines, melete
from tests.unit.skills.kept import text

NAME = "net-debug"
FIRST = text(NAME, "1. Inspect the network.\n", description="Finds out why containers cannot reach each other.")
CREATE = Call("skill_manage", {"action": "create", "name": NAME, "content": FIRST})
MEND = Call(
    "skill_manage",
    {"action": "patch", "name": NAME, "old_string": "network.", "new_string": "network.\n2. Look at the firewall."},
)


def made(tmp_path: Path) -> Path:
    """Have the agent write the skill in one session and mend it in another; return its file."""
    script = [
        Call("terminal", {"command": "echo no route"}),
        CREATE,
        Say("Kept."),
        Call("skill_view", {"name": NAME}),
        MEND,
    ]
    with ScriptedModel([*script, Say("Mended.")]) as model:
        assert melete("run", "Why is web cut off?", model=model, cwd=tmp_path).returncode == 0
        assert melete("run", "Still cut off.", model=model, cwd=tmp_path).returncode == 0
    return Path.home() / ".melete/skills/user" / NAME / "SKILL.md"


def test_what_the_agent_wrote_is_explained_and_taken_back(tmp_path: Path) -> None:
    path = made(tmp_path)
    path.write_text(path.read_text().replace("firewall", "wall of fire"))
    last, second, first = lines(melete("skills", "history", NAME, "--json").stdout)
    assert [one["author"] for one in (first, second, last)] == ["agent", "agent", "user"]
    assert "+2. Look at the wall of fire." in melete("skills", "diff", NAME).stdout
    whole = melete("skills", "diff", NAME, first["version"][:8], second["version"][:8]).stdout
    assert "+2. Look at the firewall." in whole
    why = melete("skills", "why", NAME, first["version"]).stdout
    for wanted in ("Why is web cut off?", "no route", "trial, trust 2 of 4", "loaded   1 times since"):
        assert wanted in why
    back = melete("skills", "revert", NAME, first["version"], "-m", "it was enough")
    assert (back.returncode, path.read_text()) == (0, FIRST), back.stderr
    assert "it was enough" in melete("skills", "history", NAME).stdout
    wrong = melete("skills", "revert", NAME, "ffff")
    assert wrong.returncode == 2
    assert len(wrong.stderr.splitlines()) == 1
    assert first["version"] in wrong.stderr, "it names the versions that there are"
    (row,) = lines(melete("skills", "stats", NAME, "--json").stdout)
    assert (row["loaded"], row["listed"]) == (1, 1)
    with Terminal(["skills", "history", NAME], columns=60, cwd=tmp_path) as terminal:
        assert terminal.end() == 0
        assert max(map(len, terminal.rest().splitlines())) <= 60


def test_a_person_edits_pins_archives_and_brings_back(tmp_path: Path) -> None:
    path = made(tmp_path)
    edited = melete("skills", "edit", NAME, EDITOR="sed -i s/Inspect/Check/", VISUAL="")
    assert (edited.returncode, "1. Check the network." in path.read_text()) == (0, True), edited.stderr
    broken = melete("skills", "edit", NAME, EDITOR="sed -i s/^description.*//", VISUAL="")
    assert (broken.returncode, "it has no description" in broken.stderr) == (2, True), broken.stderr
    assert "what you wrote is in" in broken.stderr
    assert melete("skills", "pin", NAME).returncode == 0
    assert melete("skills", "archive", NAME).returncode == 0
    assert not path.exists()
    assert f"Archived: {NAME}" in melete("skills", "list", "--all").stdout
    offered = melete(
        "skills", "restore", COMP_WORDS="melete skills restore ", COMP_CWORD="3", _MELETE_COMPLETE="bash_complete"
    )
    assert offered.stdout == f"plain,{NAME}\n"
    assert melete("skills", "restore", NAME).returncode == 0
    (row,) = [row for row in lines(melete("skills", "list", "--json").stdout) if row["name"] == NAME]
    assert row["pinned"]


def test_lines_are_answered_by_names_the_best_first() -> None:
    asked = (
        b'{"id": 1, "query": "get back a commit that vanished after a reset"}\n\nno json\n{"id": [2], "query": ""}\n'
    )
    done = melete("skills", "search", "--batch", "-n", "3", stdin=asked)
    found, wrong, empty = lines(done.stdout)
    assert (found["id"], found["hits"][0], len(found["hits"])) == (1, "git-recover", 3)
    assert (wrong["id"], "error" in wrong) == (None, True)
    assert empty == {"id": [2], "hits": []}
    assert done.returncode == 1


def test_missing_variables_are_asked_for_at_a_terminal_only(own_home: Path) -> None:
    home = own_home / ".melete"
    path = home / "skills/user/pages/SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(
        text("pages", more="required_environment_variables:\n  - name: PAGES_KEY\n    help: See pages.example.\n")
    )
    (home / ".env").write_text("# mine\nOTHER=1\n")
    alone = melete("skills", "setup", "pages")
    assert (alone.returncode, "PAGES_KEY" in alone.stderr) == (2, True)
    with Terminal(["skills", "setup", "pages"]) as terminal:
        assert "See pages.example." in terminal.read_until("PAGES_KEY, empty to leave it:")
        terminal.type('a "quoted" \\ key\r')
        terminal.read_until("PAGES_KEY is in ~/.melete/.env now.")
        assert terminal.end() == 0
        assert "quoted" not in terminal.raw
    assert (home / ".env").read_text() == '# mine\nOTHER=1\nPAGES_KEY="a \\"quoted\\" \\\\ key"\n'
    assert "has all the variables" in melete("skills", "setup", "pages").stderr


def test_a_skill_of_the_agent_gets_variables_once_a_person_has_read_it(tmp_path: Path) -> None:
    needy = text(NAME, more="required_environment_variables:\n  - name: PAGES_KEY\n")
    create = Call("skill_manage", {"action": "create", "name": NAME, "content": needy})
    with ScriptedModel([create, Say("Kept.")]) as model:
        assert melete("run", "Keep that.", model=model, cwd=tmp_path).returncode == 0
    with Terminal(["skills", "setup", NAME]) as terminal:
        terminal.read_until(f"The agent wrote {NAME}. Have you read it, and may its commands see PAGES_KEY? [y/N]")
        terminal.type("y\r")
        terminal.read_until("PAGES_KEY, empty to leave it:")
        terminal.type("the-key\r")
        assert terminal.end() == 0
    (row,) = [row for row in lines(melete("skills", "list", "--json").stdout) if row["name"] == NAME]
    assert (row["owner"], row["trust"]) == ("agent", 3)
