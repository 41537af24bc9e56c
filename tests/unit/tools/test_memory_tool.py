"""The sentence that is stored with what is remembered, and the tool's few bytes."""

import pytest

from melete.app.context_report import schema_bytes
from melete.tools.memory import LONGEST_SAID, memory, sentence

FILLER = "It rained all morning and the train was late again, so there was time to read the paper. " * 5


def test_a_short_message_is_the_sentence() -> None:
    assert sentence(" Use tabs. Thanks! ", "Prefers tabs.") == "Use tabs. Thanks!"


@pytest.mark.parametrize("wanted", ["From now on indent Go files with tabs.", "请在 Go 文件里总是用制表符 tabs 缩进。"])
def test_of_a_long_message_the_sentence_that_says_it_is_found(wanted: str) -> None:
    assert sentence(f"{FILLER}{wanted} {FILLER}", "Wants tabs in Go files") == wanted


def test_a_sentence_without_an_end_is_shortened() -> None:
    assert len(sentence("tabs " * 1_000, "tabs")) == LONGEST_SAID


def test_the_schema_stays_small() -> None:
    assert schema_bytes(memory.shown) <= 800
