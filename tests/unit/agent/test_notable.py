"""What is found worth keeping in a text, in several languages, and that bad input costs little."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.agent.notable import literals, sentences, skeleton, stems, unknown, values, weigh


@pytest.mark.parametrize(
    "sentence",
    [
        "You must never push to main.",
        "From now on answer in French.",
        "We go with Postgres.",
        "Bitte nimm immer Tabs.",
        "N'utilise jamais cette clé.",
        "No lo borres nunca.",
        "Никогда не удаляй эти файлы.",
        "以后总是使用中文。",
        "必ずテストを書いてください。",
        "항상 한국어로 답해.",
    ],
)
def test_what_binds_weighs_most(sentence: str) -> None:
    assert weigh(sentence) >= 3.0 > weigh("The harbour has 7219 crates.") > weigh("Lovely weather today.")


def test_a_question_is_not_kept() -> None:
    assert weigh("Which port must be used?") == weigh("どのポートを使いますか\uff1f") == 0.0


def test_values_are_found_as_they_stand() -> None:
    result = '{"output":"BUILD_ID=abc-7\\nthe release lies in /srv/rel-9.tar.gz now\\nnothing here","exit_code":0}'
    assert [one.text for one in values(result)] == ["BUILD_ID=abc-7", "the release lies in /srv/rel-9.tar.gz now"]
    assert [one.text for one in values('{"step":50,"status":"ok","reading":"x81","log":"word word"}')] == [
        "step: 50, status: ok, reading: x81, log: word word"
    ]
    assert [one.text for one in values('{"output":"heron"}')] == ["output: heron"]
    assert not values('{"success":true,"exit_code":0,"output":""}')
    assert [one.text for one in values("no JSON, but port: 8431")] == ["no JSON, but port: 8431"]


def test_what_is_wanted_comes_before_what_is_alike() -> None:
    lines = [f"crate {n}: mill, shelf {n}" for n in range(1_000, 1_060)]
    lines.insert(40, "the gateway of the depot answers on port 2033")
    found = values("\n".join(lines), most=3, wanted=stems("On which port does the gateway of the depot answer?"))
    assert "2033" in found[0].text


def test_literals_are_letter_by_letter() -> None:
    said = 'Port 8431, file /srv/app/a-1.toml, "the red one", mail ann@example.org, NODE_ENV and v2.3.'
    assert literals(said) == ["8431", "/srv/app/a-1.toml", "the red one", "ann@example.org", "NODE_ENV", "v2.3"]
    assert unknown("It is 8431 and 9999, and 3.", [said]) == ["9999"]


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    assert all(part for part in sentences(text))
    assert set(stems(text)) >= set()
    assert skeleton(text) == skeleton(skeleton(text).replace("#", "1"))
    assert all(one.text for one in values(text))
    assert weigh(text) >= 0
