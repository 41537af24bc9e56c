"""What Snowball's rules leave apart and a rule can join: fleeting vowels, doubled letters, plurals. Part of the store."""

# ruff: noqa: RUF001 - letters of many scripts

import re
from functools import cache

BEFORE = {
    "pt": (("(?:õe|ãe|ão)s?$", "ão"),),
    "ru": (("і|ї", "и"), ("є|ё", "е"), ("ґ", "г")),
}
"""By language: what is replaced in a word before it is stemmed. Ukrainian is read in Russian letters and gets Russian stems."""

FLEETING_NORDIC = (r"(?<=[bcdfghjkmpstv])e(?=[lnr]$)", "")
AFTER = {
    "ca": (("(?<=[aeiou])s$", ""),),
    "cs": (("(?<=.[bcčdfghjklmnprřsštvzž])e(?=[kclntrmďv]$)", ""),),
    "da": (FLEETING_NORDIC, (r"([bdfgkmpst])\1(?=[lnr]$)", r"\1")),
    "el": (("(?<=...)ι$", ""),),
    "fi": (("(?<=..)ks$", "s"), ("(?<=...)im$", "")),
    "nl": ((r"([aeou])\1(?=[^aeiou]$)", r"\1"),),
    "no": (FLEETING_NORDIC, (r"([bdfgkmpst])\1(?=[lnr]$)", r"\1")),
    "pl": (("(?<=.[bcćdfghjklłmnńprsśtwzźż])e(?=[kcnrłlt]$)", ""),),
    "ro": (("(?<=...)(?:eu|[eiu])$", ""),),
    "ru": (("(?<=..)[еийь]$", ""), ("(?<=.[бвгджзклмнпрстфхцчшщ])[ое](?=[кцн]$)", "")),
    "sv": (("(?<=...)en$", ""), FLEETING_NORDIC),
}
"""By language: what is replaced in a stem."""


def before(word: str, language: str) -> str:
    """The word as its stemmer is to see it."""
    return _replaced(word, language, "before") if language in BEFORE else word


def after(stem: str, language: str) -> str:
    """The stem as it is compared."""
    return _replaced(stem, language, "after") if language in AFTER else stem


def _replaced(text: str, language: str, when: str) -> str:
    for pattern, new in _rules(language, when):
        text = pattern.sub(new, text)
    return text


@cache
def _rules(language: str, when: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    rules = (BEFORE if when == "before" else AFTER)[language]
    return tuple((re.compile(pattern), new) for pattern, new in rules)
