"""Text that wants to steer the agent: what is meant for memory, context files or the results of tools. Pure judgement.

It sees wording and hiding, nothing else. An order that reads like ordinary text is not seen by anybody who reads only the text:
what guards against that is that outside effects ask after untrusted text.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from msgspec import Struct

from melete.security.threat_rules import FULL, RULES, ThreatRule

SHOWN: Final = 120
LONGEST: Final = 200_000
"""Characters that are looked at, twice what a tool may give; the middle of a longer text is not."""
FEW_UNSEEN: Final = 2
BEFORE: Final = 200
BEHIND: Final = 400
FAR: Final = 1_200
"""Characters between two places that are looked at apart."""
WIDE: Final = 8_000
"""Characters that are looked at together: no other thread runs meanwhile."""

_TAGS: Final = re.compile("[\U000e0000-\U000e007f]")
_FLAG: Final = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{1,8}\U000e007f")
_TURNED: Final = re.compile("[\u202a\u202b\u202d\u202e\u2066-\u2068]")
UNSEEN: Final = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\u202a-\u202e\u2066-\u206f\ufeff\U000e0000-\U000e007f]")
_INSIDE: Final = re.compile("(?<=[A-Za-z])[\u200b\u2060\u2062-\u2064\u00ad\ufeff](?=[A-Za-z])")
_TWINS: Final = dict(zip("аеорсухіѕјԁһԛԝкмтвнαορντικ", "aeopcyxisjdhqwkmtbhaopvtik", strict=True))
"""Letters of other scripts that look like Latin ones."""
_LATIN: Final = str.maketrans(_TWINS)
_TWINNED: Final = re.compile(rf"(?<!\w)[A-Za-z{''.join(_TWINS)}]*[{''.join(_TWINS)}][A-Za-z{''.join(_TWINS)}]*(?!\w)")
BLANKS: Final = re.compile(r"[ \t\r\f\v\u00a0]+")
_HIDDEN: Final = re.compile(
    r"<!--(?P<comment>(?:(?!-->|<!--).){0,2000})-->|^\[//\]: # [(\"'](?P<note>[^\n]{0,500})|"
    r"<(?:span|div|p|font)\b[^<>]{0,200}(?:display: ?none|visibility: ?hidden|font-size: ?0|"
    r"opacity: ?0|color: ?(?:#fff(?:fff)?|white))\b"
    r"[^<>]{0,100}>(?P<pale>[^<]{0,500})",
    re.DOTALL | re.MULTILINE,
)
_ORDER: Final = re.compile(
    r"\b(?:ai|llm|agents?|assistants?|claude|gpt|copilot|model)\b.{0,60}\b(?:must|should|please|"
    r"upload|send|run|execute|ignore|follow|include|add)\b"
    r"|\b(?:upload|send|forward|exfiltrate|curl|execute)\b.{0,80}(?:https?://|@|secret|token|"
    r"key|password)",
    re.DOTALL,
)


class Finding(Struct, frozen=True, kw_only=True):
    """One sign that a text wants to steer its reader; `text` is what was found, `weight` counts towards FULL."""

    rule: str
    reason: str
    text: str
    weight: int = FULL


def scan(text: str, rules: Sequence[ThreatRule] = RULES) -> tuple[Finding, ...]:
    """What makes the text suspect, the weightiest first; empty when it is clean. Never raises; time grows with the text.

    What is hidden is told whatever the `rules` are, by which its words are judged.
    """
    text = _ends(text)
    found = [*_unseen(text)]
    folded = BLANKS.sub(" ", text if text.isascii() else _ends(_plain(UNSEEN.sub("", text)))).lower()
    folded = folded if folded.isascii() else _TWINNED.sub(lambda match: match[0].translate(_LATIN), folded)
    found += _hidden(folded)
    for rule in rules:
        if match := _match(rule, folded):
            found.append(Finding(rule=rule.id, reason=rule.reason, text=match[0][:SHOWN], weight=rule.weight))
    if sum(each.weight for each in found) < FULL:
        return ()
    return tuple(sorted(found, key=lambda each: -each.weight))


def _ends(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST // 2] + "\n" + text[-LONGEST // 2 :]


def _plain(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text[at : at + WIDE]) for at in range(0, len(text), WIDE))


def _match(rule: ThreatRule, folded: str) -> re.Match[str] | None:
    """Looks only round the rule's plain words: most texts hold few of them."""
    first, last = -1, -1
    for at in (*sorted(at for word in rule.any_of for at in _places(word, folded)), len(folded) + FAR):
        if at > last + FAR or at > first + WIDE:
            if last >= 0 and (match := _pattern(rule).search(folded, max(0, first - BEFORE), last + 2 * BEHIND)):
                return match
            first = at
        last = at
    return None


def _places(word: str, folded: str) -> Iterator[int]:
    at = folded.find(word)
    while at >= 0:
        yield at
        at = folded.find(word, at + BEHIND)


def _unseen(text: str) -> list[Finding]:
    found: list[Finding] = []
    if text.isascii():
        return found
    if tags := _TAGS.findall(_FLAG.sub("", text)):
        said = "".join(chr(ord(tag) - 0xE0000) for tag in tags).strip("\0")
        found.append(
            Finding(rule="tag-characters", reason="holds text in characters that nobody sees", text=said[:SHOWN])
        )
    if _TURNED.search(text):
        found.append(
            Finding(rule="turned-text", reason="holds marks that change the order in which text is shown", text="")
        )
    if len(_INSIDE.findall(text)) >= FEW_UNSEEN:
        found.append(Finding(rule="unseen-characters", reason="holds characters without width inside words", text=""))
    return found


def _hidden(folded: str) -> list[Finding]:
    if "<" not in folded and "[//]" not in folded:
        return []
    hidden = (match for match in _HIDDEN.finditer(folded) if _ORDER.search(match[match.lastgroup or 0]))
    return [
        Finding(
            rule="hidden-order",
            reason="an order stands where a reader of the page does not see it",
            text=match[0][:SHOWN],
        )
        for match in hidden
    ][:1]


@cache
def _pattern(rule: ThreatRule) -> re.Pattern[str]:
    return re.compile(rule.pattern)
