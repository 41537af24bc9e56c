"""Deltas go out in whole words without secrets, and together they are what came."""

from hypothesis import given
from hypothesis import strategies as st

from melete.agent.whole import LONGEST, Whole
from melete.core.event import CallDelta, Delta, TextDelta, ThinkingDelta
from melete.security.redact import Redactor

KEY = "ghp_" + "k3Jd8sQ0zXw7Lm2Vb9Nc4Rt6Yp1Hf5Ga8Ue2"


def passed(*deltas: Delta) -> list[Delta]:
    found: list[Delta] = []
    whole = Whole(found.append, Redactor({"ACME_API_KEY": "hunter2-hunter2"}))
    for delta in deltas:
        whole.put(delta)
    whole.flush()
    whole.flush()
    return found


def text(deltas: list[Delta]) -> str:
    return "".join(delta.arguments if isinstance(delta, CallDelta) else delta.text for delta in deltas)


def cut(words: str, size: int) -> list[TextDelta]:
    return [TextDelta(text=words[at : at + size]) for at in range(0, len(words), size)]


def test_a_key_in_pieces_is_taken_out() -> None:
    for size in (1, 3, 7, 24, 100):
        for key, name in ((KEY, "github"), ("hunter2-hunter2", "ACME_API_KEY")):
            assert text(passed(*cut(f"It is {key}, they say.", size))) == f"It is [redacted:{name}], they say."
            assert text(passed(*cut(key, size))) == f"[redacted:{name}]"


def test_words_go_out_as_soon_as_they_end() -> None:
    assert [text([each]) for each in passed(*cut("One two three. Vier 五六 x", 5))] == [
        "One ", "two ", "three. ", "Vier ", "五六 ", "x",
    ]  # fmt: skip


@given(st.text(max_size=800), st.integers(1, 50))
def test_nothing_is_lost_or_turned_round(words: str, size: int) -> None:
    found = passed(*cut(words, size))
    assert text(found) == Redactor({})(words)


def test_a_word_without_end_is_not_held_back_for_ever() -> None:
    found: list[Delta] = []
    whole = Whole(found.append, Redactor({}))
    for delta in cut("x" * (LONGEST + 10), 100):
        whole.put(delta)
    assert text(found).startswith("x" * LONGEST)


def test_calls_keep_their_names_and_places() -> None:
    found = passed(
        ThinkingDelta(text="So I"), TextDelta(text="I do"),
        CallDelta(index=0, id="a", name="terminal"), CallDelta(index=0, arguments='{"command":"echo '),
        CallDelta(index=0, arguments=f'{KEY[:20]}'), CallDelta(index=0, arguments=f'{KEY[20:]}"}}'),
        CallDelta(index=1, id="b", name="todo", arguments="{}"),
    )  # fmt: skip
    assert [type(each).__name__ for each in found[:4]] == ["ThinkingDelta", "ThinkingDelta", "TextDelta", "TextDelta"]
    calls = [each for each in found if isinstance(each, CallDelta)]
    assert [(each.id, each.name) for each in calls if each.name] == [("a", "terminal"), ("b", "todo")]
    assert text([each for each in calls if each.index == 0]) == '{"command":"echo [redacted:github]"}'
    assert text([each for each in calls if each.index == 1]) == "{}"


def test_long_tokens_and_private_keys_in_pieces_are_taken_out() -> None:
    token = f"ey{KEY * 5}.ey{KEY * 20}.{KEY}".replace("_", "1")
    body = "\n".join((KEY[4:] * 2)[:64] for _ in range(25))
    key = f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{body}\n-----END RSA PRIVATE KEY-----"
    for size in (1, 7, 400):
        assert text(passed(*cut(f"a {token} b", size))) == "a [redacted:jwt] b"
        for form in (key, key.replace("\n", "\\n")):
            found = text(passed(*cut(f"So: {form} and on", size)))
            assert KEY[4:20] not in found
            assert found.endswith("-----END RSA PRIVATE KEY----- and on")
