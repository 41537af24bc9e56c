"""From a Korean word to what it is without particles and endings. Part of the store.

Particles stand behind nouns without a space, endings behind verbs; a vowel of the past tense often melts into the stem (마시었 is
written 마셨). The rules here take both away; what they leave is the same for the forms of one word, seldom a word of a dictionary.
"""

from functools import cache

PARTICLES = """
에게서 한테서 으로서 으로써 이라도 이라는 에서는 에서도 으로는 까지는 부터는 들에게 에서 에게 한테 께서 으로 로서
로써 이랑 하고 까지 부터 보다 처럼 같이 마다 조차 마저 밖에 이나 라도 이란 라는 에는 에도 에만 로는 들이 들은 들을
들의 들도 들과 은 는 이 가 을 를 의 에 께 로 와 과 랑 도 만 나 란 들
"""
ENDINGS = """
었습니다 았습니다 였습니다 겠습니다 ㅆ습니다 습니다 ㅂ니다 을까요 ㄹ까요 으면서 으니까 으려고 었어요 았어요 였어요
었는데 았는데 였는데 었지만 았지만 였지만 겠어요 으세요 십시오 ㅂ시다 읍시다 었나요 았나요 ㅆ어요 ㅆ는데 ㅆ지만
ㅆ나요 니다 어요 아요 여요 해요 네요 군요 지요 나요 까요 고요 면서 으면 니까 어서 아서 여서 지만 는데 은데 ㄴ데 려고
으러 도록 었다 았다 였다 었어 았어 였어 었던 았던 였던 었고 았고 였고 겠다 세요 ㄴ다 는다 어야 아야 었을 았을 었니
았니 ㅆ다 ㅆ어 ㅆ던 ㅆ고 ㅆ을 ㅆ니 다 요 어 아 죠 고 며 면 던 는 은 을 ㄴ ㄹ 게 지 기 러 자 나 냐 니
"""
"""The longest first; one that begins with a bare consonant closes the syllable before it."""
FIRST, LAST = 0xAC00, 0xD7A3
TAILS = "\0ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ"
VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
MELTED = {"ㅕ": "ㅣ", "ㅘ": "ㅗ", "ㅝ": "ㅜ", "ㅙ": "ㅚ"}
"""The vowel that a syllable shows when -어 or -아 melts into it, and the stem's own."""


@cache
def _tails(words: str) -> tuple[str, ...]:
    return tuple(words.split())


def forms(word: str) -> tuple[str, ...]:
    """The word, the word without its particle and the stem before its ending, no repeats."""
    return tuple(dict.fromkeys((word, bare(word), *_verb(word))))


def bare(word: str) -> str:
    """The word without its particle."""
    return next(
        (word[: -len(tail)] for tail in _tails(PARTICLES) if len(tail) < len(word) and word.endswith(tail)), word
    )


def _verb(word: str) -> tuple[str, ...]:
    for ending in _tails(ENDINGS):
        tail = ending[0] if ending[0] in TAILS else ""
        rest = ending[len(tail) :]
        stem = word[: len(word) - len(rest)]
        if stem and word.endswith(rest) and (not tail or _tail(stem[-1]) == tail):
            return (stem[:-1] + _stem(stem[-1], without=bool(tail)),)
    return ()


def _tail(syllable: str) -> str:
    return TAILS[(ord(syllable) - FIRST) % 28] if FIRST <= ord(syllable) <= LAST else ""


def _stem(syllable: str, *, without: bool) -> str:
    """A stem's last syllable as a dictionary has it, `without` its closing consonant where that is the ending's."""
    if not FIRST <= ord(syllable) <= LAST:
        return syllable
    opening, rest = divmod(ord(syllable) - FIRST, 21 * 28)
    vowel, tail = divmod(rest, 28)
    tail = 0 if without else tail
    if not tail:
        vowel = VOWELS.index(MELTED.get(VOWELS[vowel], VOWELS[vowel]))
        if syllable in "했해":
            vowel = 0
    return chr(FIRST + (opening * 21 + vowel) * 28 + tail)
