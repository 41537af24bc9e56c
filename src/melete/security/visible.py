"""Text as a person must see it before saying yes: nothing hidden, nothing that looks like something else. Layer 1.

An escape is the character's number between brackets that command lines hardly know: `⟦U+202E⟧`. The brackets themselves are
escaped as well, so no text can pretend to hold an escape that it does not hold.
"""

import re
import unicodedata
from hashlib import sha256

LONGEST = 16_000
"""Characters that a person can be expected to read before an answer: what is longer cannot be approved."""
LONG = 500
"""Characters from which a text is shown with its length and digest."""
_PLAIN = re.compile(r"[\x20-\x7e\n]*")
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0\u034f\u17b4\u17b5\u180b\u180c\u180d\u180e\u00a0")
"""What looks like a space, or like nothing, although its category says that it is a letter, a mark or a sign."""
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
_SELECTORS = ("\ufe00", "\ufe0f"), ("\U000e0100", "\U000e01ef")
_WORD = re.compile(r"[^\W_]+")
_TWINS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "DESERET")
"""Scripts with letters that cannot be told from Latin ones."""


def visible(text: str) -> str:
    """The text with every character escaped that is not seen, moves others, or passes for an ASCII one; lines stay lines.

    A letter of another script counts as passing for a Latin one inside a word that has both.
    """
    if _PLAIN.fullmatch(text):
        return text
    mixed = {at for found in _WORD.finditer(text) for at in _twins(found)}
    return "".join(_escaped(c) if at in mixed or _hides(c) else c for at, c in enumerate(text))


def digest(text: str | bytes) -> str:
    """What a text or a file is known by in questions and grants: the start of its SHA-256, far beyond chance."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return sha256(data).hexdigest()[:32]


def measure(text: str) -> str:
    """Length and digest of a long text in words, empty for a short one."""
    return f"{len(text):,} characters, sha256 {digest(text)}" if len(text) > LONG else ""


def _escaped(c: str) -> str:
    return f"⟦U+{ord(c):04X}⟧"


def _hides(c: str) -> bool:
    if " " <= c <= "~" or c == "\n":
        return False
    if c in "⟦⟧" or c in _BLANK or unicodedata.category(c) in _HIDDEN:
        return True
    if any(first <= c <= last for first, last in _SELECTORS):
        return True
    return unicodedata.normalize("NFKC", c).isascii()


def _twins(word: re.Match[str]) -> list[int]:
    if not any("a" <= c.lower() <= "z" for c in word.group()):
        return []
    return [
        word.start() + at for at, c in enumerate(word.group()) if unicodedata.name(c, "").partition(" ")[0] in _TWINS
    ]
