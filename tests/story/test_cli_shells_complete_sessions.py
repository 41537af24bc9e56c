"""Where a session is to be named, a shell is offered ids with their titles, and never an error."""

from pathlib import Path

import pytest

from melete.testing import ScriptedModel
from tests.story.cli import lines, melete


def offered(*words: str) -> list[str]:
    """What zsh is offered for the last word: value, title, value, title …"""
    done = melete(
        *("completion", "zsh"),
        _MELETE_COMPLETE="zsh_complete", COMP_WORDS=" ".join(("melete", *words)), COMP_CWORD=str(len(words)),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    rows = done.stdout.splitlines()
    return [text for number in range(0, len(rows), 3) for text in rows[number + 1 : number + 3]]


@pytest.mark.parametrize(
    "words",
    [
        ("sessions", "show"),
        ("sessions", "rename"),
        ("sessions", "delete"),
        ("sessions", "cancel"),
        ("sessions", "fork"),
        ("sessions", "search", "--session"),
        ("run", "-s"),
        ("chat", "--session"),
    ],
)
def test_ids_are_offered_with_their_titles(tmp_path: Path, words: tuple[str, ...]) -> None:
    with ScriptedModel(["Red."]) as model:
        melete("run", "which\tcolour?", model=model, cwd=tmp_path)
    (row,) = lines(melete("sessions", "list", "--json").stdout)
    assert offered(*words, "") == [row["id"], "which colour?"]
    assert offered(*words, row["id"][:8]) == [row["id"], "which colour?"]
    assert offered(*words, "zzz") == []


def test_a_home_that_cannot_be_read_offers_nothing(own_home: Path) -> None:
    assert offered("sessions", "show", "") == []
    home = own_home / ".melete"
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text("model: [\n")
    assert offered("sessions", "show", "") == []
