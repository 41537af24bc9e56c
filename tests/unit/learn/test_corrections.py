"""Whether a message corrects what was done: measured on sentences that the weights were not fitted on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from melete.learn.corrections import correction

DATA = Path(__file__).parents[2] / "data"
TRAINING = Path(__file__).parents[3] / "scripts" / "corrections_training.jsonl"


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def measured(sentences: list[dict[str, Any]]) -> tuple[float, float]:
    """Precision and recall."""
    judged = [(correction(row["text"], row["before"]).is_correction, row["kind"] == "correction") for row in sentences]
    right = sum(said and so for said, so in judged)
    return right / sum(said for said, _ in judged), right / sum(so for _, so in judged)


def test_precision_and_recall_over_all_languages(record_property: Callable[[str, object], None]) -> None:
    precision, recall = measured(rows(DATA / "corrections.jsonl"))
    record_property("precision", round(precision, 3))
    record_property("recall", round(recall, 3))
    print(f"precision {precision:.3f}, recall {recall:.3f}")
    assert precision >= 0.9
    assert recall >= 0.8


@pytest.mark.parametrize("lang", ["en", "de", "fr", "es", "zh"])
def test_no_language_is_left_behind(lang: str) -> None:
    precision, recall = measured([row for row in rows(DATA / "corrections.jsonl") if row["lang"] == lang])
    print(f"{lang}: precision {precision:.3f}, recall {recall:.3f}")
    assert precision >= 0.85
    assert recall >= 0.75


def test_the_sentences_are_many_balanced_and_apart_from_those_of_the_training() -> None:
    test = rows(DATA / "corrections.jsonl")
    for lang in ("en", "de", "fr", "es", "zh"):
        mine = [row["kind"] == "correction" for row in test if row["lang"] == lang]
        assert (len(mine), sum(mine)) == (60, 30)
    assert not {row["text"] for row in test} & {row["text"] for row in rows(TRAINING)}


def test_where_no_word_gives_it_away_it_is_rather_missed_than_made_up() -> None:
    precision, recall = measured(rows(DATA / "corrections_later.jsonl"))
    print(f"without words of correction: precision {precision:.3f}, recall {recall:.3f}")
    assert precision >= 0.9
    assert recall >= 0.4


def test_what_is_to_be_remembered_is_found() -> None:
    test = rows(DATA / "corrections.jsonl")
    found = [(correction(row["text"], row["before"]).remember, bool(row.get("remember"))) for row in test]
    right = sum(said and so for said, so in found)
    assert right / sum(said for said, _ in found) >= 0.9
    assert right / sum(so for _, so in found) >= 0.8


def test_with_nothing_before_it_nothing_is_corrected() -> None:
    judged = correction("No, that's wrong, use port 8081 instead", "")
    assert (judged.is_correction, judged.score) == (False, 0.0)
    assert correction("remember that we deploy on fridays", "").remember


def test_who_is_content_is_not_taken_for_a_correction_nor_the_other_way_round() -> None:
    assert correction("thanks, works now", "I restarted it.").positive
    assert not correction("thanks, but it still doesn't work", "I restarted it.").positive


def test_it_says_what_weighed_most() -> None:
    assert "instead" in correction("use uv instead of pip", "I installed it with pip.").why


def test_the_same_words_in_a_quotation_or_in_code_are_nobodys_verdict() -> None:
    assert not correction('what does "no, that is wrong" mean in German?', "Done.").is_correction
    assert not correction("```\nraise ValueError('wrong, use --force instead')\n```", "Done.").is_correction


def test_a_long_paste_takes_no_long_time_and_fails_on_nothing() -> None:
    for text in ("no " * 200_000, "\0" * 10_000, "put " + "x " * 50_000, "”“\ud800", "", "¿" * 5_000):
        assert 0.0 <= correction(text, text).score <= 1.0
