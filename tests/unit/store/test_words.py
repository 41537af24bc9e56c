"""What any text becomes: the terms it is indexed under, what a query asks for, and where in the text they stand."""

# ruff: noqa: RUF001 - letters of many scripts

import re
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from melete.store import languages, pieces
from melete.store.words import LONGEST_QUERY, TERMS, query, spans, terms

TERM = re.compile(r'[^\s"\x00-\x1f\x7f\ud800-\udfff]{1,65}')
PUNCTUATION = re.compile(r"[!$%&'()*,\-/:;<=>?\[\\\]^_`{|}~A-Z]")
SENTENCES = (
    "the house of my friend was bought , Häuser und die Katze été l'homme ¿Dónde está? "
    "кошки 猫が好き 회의를 🎉 foo_bar.baz C++ 1,000"
)
TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(alphabet=st.characters(codec=None), max_size=60),
    st.lists(st.sampled_from(SENTENCES.split()), max_size=25).map(" ".join),
    st.text(alphabet="aB1.-_@#+'’/:,\u0301\u200d\ud800\x00 茶のカ한ไ", max_size=40),
)


def asked(text: str) -> dict[str, tuple[str, ...]]:
    return {term.text: term.forms for term in query(text) if not term.stop}


def finds(question: str, text: str) -> bool:
    """Whether the text holds every word of the question that counts."""
    held = set(terms(text))
    return all(not held.isdisjoint(forms) for forms in asked(question).values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("well-known", ["wellknown", "well", "know"]),
        ("foo_bar.baz", ["foobar.baz", "foobar", "foo", "bar", "baz"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("fooBar", ["foobar", "foo", "bar"]),
        ("John.Doe@example.com", ["john.doe@example.com", "john.doe", "john", "doe", "example.com", "exampl", "com"]),
        ("src/main/words.py", ["src", "main", "words.py", "word", "py"]),
        ("https://example.com/a?b=1", ["https", "example.com", "exampl", "com", "a", "b", "1"]),
        ("1,000 dollars", ["1000", "dollar"]),
        ("v1.2.3", ["1.2.3", "1.2"]),
        ("2026-11-21", ["20261121", "2026", "11", "21"]),
        ("the 21st at 05:30", ["the", "21st", "21", "st", "at", "5", "30"]),
        ("error E1234", ["error", "e1234"]),
        ("python3", ["python3", "python", "3"]),
        ("don't can't won't", ["do", "can", "will"]),
        ("Maria's dogs' bones", ["maria", "dog", "bone"]),
        ("O'Brien", ["obrien", "brien"]),
        ("C++ and C#", ["c++", "c", "and", "c#", "c"]),
        ("the .NET", ["the", ".net", "net"]),
        ("node.js", ["node.js", "node", "js"]),
        ("#launch @maria", ["#launch", "launch", "@maria", "maria"]),
        ("done 🎉❤️", ["do", "🎉", "❤"]),
        ("🇩🇪", ["🇩🇪"]),
        ("€5", ["€", "5"]),
        ("... -- ___ ?!", []),
        ("", []),
        ("ＡＢＣ ①", ["abc", "1"]),
        ("٣٤ apples", ["34", "appl"]),
    ],
)
def test_a_text_becomes_terms(text: str, expected: list[str]) -> None:
    known_english = "the words of this text are English and we had them with you: "
    assert terms(known_english + text)[len(terms(known_english)) :] == expected


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("foobar", "call foo_bar now"),
        ("foo-bar", "call fooBar now"),
        ("wellknown", "a well-known place"),
        ("what is known", "a well-known place"),
        ("words.py", "see src/melete/words.py"),
        ("1000", "it costs 1,000 dollars"),
        ("1.000 Euro", "es kostet 1000 Euro"),
        ("3.11", "runs on Python 3.11.7"),
        ("john.doe", "write to john.doe@example.com"),
        ("the colour", "the color"),
        ("organised", "organizing"),
        ("children", "a child"),
        ("where did she go", "she went home"),
        ("🎉", "party 🎉🎉"),
        ("C++", "a C++ programmer"),
        (".net", "we use .NET here"),
        ("cafe", "le Café"),
        ("naïve", "a naive approach"),
        ("strasse", "Straße"),
        ("Łódź", "in Lodz"),
        ("елка", "ёлка"),
        ("茶", "我想喝茶"),
        ("ﾃﾞｰﾀ", "データ"),
        ("コンピュータ", "コンピューター"),
        ("python", "用Python脚本"),
        ("کتاب", "كتاب"),
        ("Straßen", "STRASSE"),
        ("cafe\u0301", "caf\xe9"),
        ("vacaciones", "Pasamos las vacaciones en la playa con los niños."),
        ("where is Maria", "María vive en Madrid con su familia y sus perros."),
        ("Berlin", "Wir waren im Mai in Berlin und es war schön."),
    ],
)
def test_a_question_finds_another_spelling(question: str, text: str) -> None:
    assert asked(question)
    assert finds(question, text)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("C#", "the C language"),
        ("1.2", "version 12"),
        ("车", "自行"),
    ],
)
def test_a_question_does_not_find_what_only_looks_like_it(question: str, text: str) -> None:
    assert not finds(question, text)


def test_words_that_say_little_are_marked() -> None:
    assert [term.text for term in query("When did Maria go to the museum?") if not term.stop] == [
        "maria",
        "go",
        "museum",
    ]
    assert all(term.stop for term in query("who are you"))
    assert [term.text for term in query("Wann war die Katze in der Stadt?") if not term.stop] == ["katze", "stadt"]
    assert [term.text for term in query("who will die")] == ["who", "will", "die"]
    assert not query("who will die")[-1].stop
    assert not query("dog")[0].stop
    assert [term.text for term in query("去年的会议在哪里") if not term.stop] == ["去年", "会议"]
    assert [term.text for term in query("你知道茶吗") if not term.stop] == ["道茶", "茶"]


def test_a_long_query_keeps_what_says_most() -> None:
    many = query(
        "the of "
        + " ".join(f"word{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")
        + " and so on to you " * 9
        + "E1234567"
    )
    assert len(many) <= TERMS
    assert "e1234567" in {term.text for term in many}
    assert "the" not in {
        term.text for term in query(" ".join(f"term{number}x{number}" for number in range(60)) + " the")
    }
    assert len(query("word " * LONGEST_QUERY + "unique")) == 1


def test_the_place_of_each_term_is_known() -> None:
    text = "Maria's well-known cat can't see the 猫カフェ"
    places = [(text[start:end], found) for start, end, found in spans(text)]
    assert ("Maria's", ("maria",)) in places
    assert ("well-known", ("wellknown",)) in places
    assert ("known", ("know",)) in places
    assert ("can't", ("can",)) in places
    assert ("猫", ("猫",)) in places
    assert ("カフェ", ("カフェ",)) in places


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("I would like to know what you think about this", "en"),
        ("Ich weiß nicht, was ich damit machen soll", "de"),
        ("Je ne sais pas ce que nous allons faire avec lui", "fr"),
        ("No sé qué vamos a hacer con los otros", "es"),
        ("Non so che cosa faremo con gli altri", "it"),
        ("Eu não sei o que vamos fazer com isso", "pt"),
        ("Ik weet niet wat we met hem moeten doen", "nl"),
        ("Nie wiem, co się z nim jeszcze stało", "pl"),
        ("Bunu nasıl yapacağımızı bilmiyorum ama çok güzel", "tr"),
        ("Nem tudom, hogy mit csináljunk vele, mert nincs itt", "hu"),
    ],
)
def test_a_language_is_told_from_its_function_words(text: str, language: str) -> None:
    assert languages.of_text(pieces.chunks(text)).languages[0] == language


def test_code_without_function_words_is_read_as_english() -> None:
    code = (
        "int main() { printf(text, value); return value; } int other() { close(file); write(file); printf(x, y, z); }"
    )
    assert languages.of_text(pieces.chunks(code)).languages == ("en",)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
@example("\ud800 \x00 a\x00b")
@example("e\u0301\u0301\u0301" * 50)
@example("½ ㎏ ﬁ ´ ⁄ ⑴ ﷺ")
@example("\u200d\u200c\xad a\u200db")
@example(".@#'_-")
@example("0_\u0300")
def test_any_text_becomes_terms_that_an_index_can_hold(text: str) -> None:
    for term in [*terms(text), *(form for one in query(text) for form in one.forms)]:
        assert TERM.fullmatch(term), ascii(term)
        assert not PUNCTUATION.search(term), ascii(term)
    assert [term for _, _, found in spans(text) for term in found] == terms(text)
    assert all(0 <= start < end <= len(text) for start, end, _ in spans(text))
    assert len(query(text)) <= TERMS


@settings(max_examples=300, deadline=None)
@given(TEXTS)
@example("dog barks")
@example("Die Häuser")
def test_a_text_is_found_by_its_own_words(text: str) -> None:
    held = set(terms(text))
    for term in query(text):
        assert not held.isdisjoint(term.forms), (ascii(text), term)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(SENTENCES.split()), min_size=1, max_size=25), st.data())
def test_a_text_is_found_by_any_one_of_its_words(written: list[str], data: st.DataObject) -> None:
    held = set(terms(" ".join(written)))
    word = data.draw(st.sampled_from(written))
    assert all(not held.isdisjoint(term.forms) for term in query(word))


@pytest.mark.parametrize(
    "unit", ["a", "-a", "A", "1", "茶", "한", "カ", "ก", "\u0301", "'", "a.", "@a", "_", "\ud800", "🎉", "aB", "1,000"]
)
def test_much_of_anything_is_read(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    assert max(map(len, terms(text)), default=0) <= 65
    assert len(query(text)) <= TERMS


def test_a_megabyte_of_one_letter_is_one_word() -> None:
    (place,) = spans("x" * 1_000_000)
    assert place[:2] == (0, 1_000_000)
    assert max(map(len, place[2])) <= 65


def test_a_text_in_english_loads_one_stemmer() -> None:
    script = (
        "import sys; from melete.store import words; words.terms('where did you go with the dogs');"
        "print(*sorted(name for name in sys.modules if name.endswith('_stemmer')))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["melete.store.snowball.english_stemmer"]


def test_without_the_stemmers_an_error_names_the_package_to_install() -> None:
    code = (
        "import sys; sys.modules['snowballstemmer'] = None\n"
        "from melete.core.errors import ConfigError\n"
        "from melete.store import words\n"
        "try:\n    words.terms('the houses')\nexcept ConfigError as error:\n    print(error)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'snowballstemmer', which is not installed" in result.stdout
    assert "pip install snowballstemmer" in result.stdout


def test_the_stemmers_are_found_in_an_archive_too(tmp_path: Path) -> None:
    package = find_spec("snowballstemmer")
    assert package is not None
    assert package.origin is not None
    folder = Path(package.origin).parent
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in folder.glob("*.py"):
            file.write(path, f"snowballstemmer/{path.name}")
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "from melete.store import words\n"
        "print(words.terms('the houses'), sys.modules['melete.store.snowball.english_stemmer'].__file__)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'hous'" in result.stdout
    assert str(archive) in result.stdout
