"""Finding skills: by what they say, in any script, while texts are still being read, and by several processes at once."""

import sqlite3
from pathlib import Path

import pytest

from melete.skills.folders import Shelf
from melete.skills.library import Library
from melete.skills.rank import words
from tests.unit.skills.test_library import put

SKILLS = {
    "pdf-forms": ("Fill and flatten forms in PDF files", "Use qpdf and pdftk. Fields are listed first."),
    "docker-networks": ("Find out why containers cannot reach each other", "Inspect the bridge. Check the resolver."),
    "tidy-notes": ("Sort notes into folders", "Every note has one home. Never touch the resolver."),
    "kanji": ("日本語の文書を校正する", "敬語と表記の揺れを直す。"),
}


def library(path: Path) -> Library:
    for name, (about, body) in SKILLS.items():
        put(path / "user", name, about, body=body)
    return Library([Shelf(kind="user", path=str(path / "user"))], state=path / "state")


def found(library: Library, query: str) -> list[str]:
    return [skill.name for skill, _ in library.rank(query)]


def fill(library: Library) -> None:
    while library.fill():
        pass


def test_texts_count_once_they_are_indexed(tmp_path: Path) -> None:
    some = library(tmp_path)
    assert found(some, "filling a form")[0] == "pdf-forms"
    assert not found(some, "resolver")
    fill(some)
    assert set(found(some, "resolver")) == {"docker-networks", "tidy-notes"}
    assert found(some, "containers resolver bridge")[0] == "docker-networks"
    some.close()


@pytest.mark.parametrize("query", ["文書の校正", "敬語", "表記の揺れ"])
def test_scripts_without_spaces_are_found(tmp_path: Path, query: str) -> None:
    some = library(tmp_path)
    fill(some)
    assert found(some, query) == ["kanji"]
    some.close()


@pytest.mark.parametrize(
    "query", ["", "   ", "the of and", "\x00", '" OR * NEAR(', "-:^{}", "x" * 100_000, "zzzz qqqq"]
)
def test_any_query_is_answered(tmp_path: Path, query: str) -> None:
    some = library(tmp_path)
    assert found(some, query) == []
    some.close()


def test_the_best_has_the_highest_score_there_is(tmp_path: Path) -> None:
    some = library(tmp_path)
    fill(some)
    ranked = some.rank("Why do containers in docker networks not reach the resolver of the notes?")
    assert ranked[0][0].name == "docker-networks"
    assert ranked[0][1] == pytest.approx(1.5)
    assert [score for _, score in ranked] == sorted((score for _, score in ranked), reverse=True)
    assert len(some.rank("resolver notes forms", limit=1)) == 1
    some.close()


def test_what_changes_on_the_disk_changes_what_is_found(tmp_path: Path) -> None:
    some = library(tmp_path)
    fill(some)
    put(tmp_path / "user", "tidy-notes", "Sort recipes into books", body="Flour.")
    put(tmp_path / "user", "new-one", "Sort stamps", body="Albums.")
    (tmp_path / "user" / "kanji" / "SKILL.md").unlink()
    some.refresh()
    assert set(found(some, "sort")) == {"tidy-notes", "new-one"}
    fill(some)
    assert found(some, "albums") == ["new-one"]
    assert found(some, "flour") == ["tidy-notes"]
    assert not found(some, "敬語")
    assert found(some, "resolver") == ["docker-networks"]
    some.close()


def test_to_have_no_text_is_no_fault(tmp_path: Path) -> None:
    put(tmp_path / "user", "word-files", "Edit documents of Word, with tracked changes", body="See the manual.")
    put(
        tmp_path / "user",
        "word-games",
        "Play games",
        body="A word and a word. Documents and changes of every kind. " * 20,
    )
    some = Library([Shelf(kind="user", path=str(tmp_path / "user"))], state=tmp_path / "state")
    fill(some)
    best, score = some.rank("tracked changes in Word documents")[0]
    assert (best.name, score) == ("word-files", pytest.approx(1.5))
    assert found(some, "manual") == ["word-files"]
    some.close()


def test_two_processes_share_what_is_indexed(tmp_path: Path) -> None:
    first, second = library(tmp_path), library(tmp_path)
    first.rank("forms")
    fill(first)
    second.refresh()
    assert found(second, "qpdf") == ["pdf-forms"]
    assert not second.fill()
    assert (tmp_path / "state" / "skills.db").stat().st_mode & 0o777 == 0o600
    first.close()
    second.close()


def test_a_file_that_somebody_else_writes_is_waited_for_and_kept(tmp_path: Path) -> None:
    some = library(tmp_path)
    fill(some)
    other = sqlite3.connect(tmp_path / "state" / "skills.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    put(tmp_path / "user", "new-one", "Sort stamps")
    some.refresh()
    assert found(some, "qpdf") == ["pdf-forms"]
    assert not found(some, "stamps")
    other.execute("ROLLBACK")
    other.close()
    assert found(some, "stamps") == ["new-one"]
    some.close()


def test_an_index_of_another_version_is_made_anew(tmp_path: Path) -> None:
    some = library(tmp_path)
    fill(some)
    some.close()
    with sqlite3.connect(tmp_path / "state" / "skills.db") as other:
        other.execute("PRAGMA user_version = 999")
    other.close()
    assert found(some, "forms") == ["pdf-forms"]
    some.close()


def test_words_that_say_nothing_are_left_out() -> None:
    assert dict(words("Please use the PDF, and the pdf-tool! a 1")) == {"pdf": 2, "tool": 1}
