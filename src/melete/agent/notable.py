"""What in a text is worth keeping word for word: sentences that bind, values under a name, literals. Layer 2, pure.

It reads form, not meaning: what it misses is still in the log, and what it keeps in vain costs a line.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple, cast

import msgspec

LONGEST: Final = 20_000
"""Characters of a text that are read; of a longer one the middle is not."""
SENTENCE, VALUE, KEY, LINE = 400, 160, 48, 300
"""Characters of a sentence, a value and its name that are kept, and of a line that is looked at."""
MOST: Final = 12
"""Values that are taken out of one result."""
DEEP, WIDE = 3, 8
"""Levels and items of a result that are looked at."""
PROSE: Final = 0.4
"""The weight of a sentence of a long line: it counts only where it has two words of what is wanted."""
WORDS = 6
"""Words that the name of a value may have."""
STEM, NEAR = 5, 4

BINDING: Final = re.compile(
    r"\b(?:must(?:n't)?|never|always|remember|do ?n[o']t|do not|from now on|keep in mind|note that|make sure|no longer|only use|use"
    r"|prefer|avoid|insist|should(?:n't)?|ha(?:ve|s) to|need(?:s|ed)? to|required?|forbidden|at (?:most|least)|no more than"
    r"|deadline|budget|decided?|decision|agreed?|instead of|let(?:'s| us)|we(?:'ll| will) (?:go|use|take)|go with"
    r"|muss|müssen|musst|darf|dürfen|nie(?:mals)?|immer|merke?|denke? daran|ab (?:jetzt|sofort)|verwende|benutze|nutze|nimm"
    r"|vermeide|kein(?:e|en)?|nicht(?: mehr)?|soll(?:st|en|te)?|höchstens|mindestens|entschieden|wir nehmen|statt"
    r"|toujours|jamais|doi[st]|doivent|souviens|retiens|rappelle|désormais|dorénavant|utilise[rz]?|évite[rz]?|il faut|décidé"
    r"|siempre|nunca|deben?|debes|recuerda|a partir de ahora|utiliza|evita|hay que|decidido|hemos"
    r"|sempre|mai|dev[eio]|ricorda|d'ora in poi|bisogna|deciso|lembre|de agora em diante|precisa|evite"
    r"|altijd|nooit|moet(?:en)?|onthoud|vanaf nu|gebruik|vermijd|zawsze|nigdy|musi|pamiętaj|od teraz|używaj"
    r"|alltid|aldrig|måste|kom ihåg|her zaman|asla|unutma|kullan"
    r"|всегда|никогда|долж(?:ен|на|ны|но)|нельзя|нужно|запомни|помни|отныне|используй(?:те)?|решили)\b"
    r"|必须|必須|一定|永远|不要|不得|别再|记住|记得|从现在起|以后|总是|决定|必ず|絶対|常に|しないで|覚えて|今後|これからは|決め"
    r"|반드시|항상|절대|하지 마|기억해|앞으로|دائما|أبدا|يجب|تذكر|हमेशा|कभी नहीं|याद रख",
    re.IGNORECASE,
)
"""Words of a person that set a rule or settle something."""
_TELLS: Final = re.compile(
    r"\b(?:is|are|was|were|equals?|named|called|ist|sind|war|heißt|lautet|est|sont|s'appelle|es|son|está|se llama|è|sono"
    r"|é|são|het|heet|jest|är|heter)\b|это|называется|是|叫|です|입니다|이다",
    re.IGNORECASE,
)
_ASKS: Final = re.compile(r"[?\uff1f\u061f]\s*[\"'»”)]*$")
_ENDS: Final = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])\s*|\n+")
LITERAL: Final = re.compile(
    r"https?://[^\s\"'<>)\]]+|[\w.+-]+@[\w-]+\.[\w.-]*\w|(?:~|\.{1,2})?/[\w.+-]+(?:/[\w.+-]+)*|\w[\w.-]*(?:/[\w.+-]+)+"
    r"|`[^`\n]{1,80}`|\"[^\"\n]{1,80}\"|“[^”\n]{1,80}”|„[^“\n]{1,80}“|«[^»\n]{1,80}»"
    r"|\b\w*\d[\w]*(?:[.,:_-]\w+)*|\b[^\W\d]\w*(?:_\w+)+|\b[A-Z][A-Z0-9]{2,}\b|\b[^\W\d]\w*\.[a-z]{1,5}\b"
)
"""Addresses, paths, quoted words, numbers and names with digits, capitals and the like."""
_INLINE: Final = re.compile(
    r"(?<![\w.])([^\W\d][\w.\-]{0,47})=(\"[^\"\n]{1,160}\"|'[^'\n]{1,160}'|[^\s,;&|\"'()]{1,160})"
)
_NAME: Final = re.compile(r"[^\W\d][\w .\-/\[\]]*")
_PARTS: Final = (" => ", " -> ", " → ", "=", ": ", "\uff1a", ":")
_WORD: Final = re.compile(r"[^\W_]+")
_NUMBERED: Final = re.compile(r"^\s*\d+\|")
_MASKED: Final = re.compile(r"\b[^\W\d]*\d\w*")
_ENDLESS: Final = re.compile(r"(\S{200})\S+")
_SCRIPTS: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ENVELOPE: Final = frozenset(
    (
        "success", "error", "exit_code", "timed_out", "cwd", "bytes", "size", "lines", "truncated", "full_output", "offset",
        "limit", "next_offset", "total", "seconds", "pid", "created", "replacements", "diff", "change", "added", "removed",
        "matches", "pruned", "began", "note", "notes", "hint", "counts", "todos", "tools", "loaded",
    )
)  # fmt: skip
"""Fields of a result that say how the call went, and not what it found."""
_TEXTS: Final = frozenset(
    ("output", "content", "text", "stdout", "stderr", "result", "message", "body", "answer", "holds")
)


class Value(NamedTuple):
    """Something that a result says under a name: `key` is what tells it from others, `weight` how much it looks like a fact."""

    text: str
    key: str
    weight: float


def sentences(text: str) -> list[str]:
    """The sentences of what a person wrote, long ones shortened; of a very long text the first and the last."""
    found = [" ".join(one.split()) for one in _ENDS.split(ends(text))]
    found = [one if len(one) <= SENTENCE else f"{one[: SENTENCE - 1]}…" for one in found if len(one) > 2]  # noqa: PLR2004
    return found if len(found) <= 5 * MOST else [*found[: 4 * MOST], *found[-MOST:]]


def ends(text: str, most: int = LONGEST) -> str:
    """A text without the middle of what is too long to be read."""
    return text if len(text) <= most else f"{text[: most * 3 // 4]}\n{text[-most // 4 :]}"


def weigh(sentence: str) -> float:
    """How much a person's sentence should be kept: 3 where it binds, 2 where it tells something with a name or a number."""
    if _ASKS.search(sentence):
        return 0.0
    exact = LITERAL.search(clipped(sentence)) is not None
    if BINDING.search(sentence):
        return 3.5 if exact else 3.0
    return (2.0 if exact else 1.0) if exact or _TELLS.search(sentence) else 0.5


def literals(text: str) -> list[str]:
    """What stands in a text letter by letter: numbers, paths, addresses, names, quoted words; in order, each once."""
    found = (one.strip("\"'`“”„«».,:;") for one in LITERAL.findall(clipped(text)))
    return list(dict.fromkeys(one for one in found if len(one) > 1))


def skeleton(text: str) -> str:
    """A text without its numbers: what is said over and over has the same."""
    return " ".join(_MASKED.sub("#", clipped(text).lower()).split())


def clipped(text: str) -> str:
    """A text whose words have an end: what looks for names in it takes time that grows with a word's square."""
    return _ENDLESS.sub(r"\1", text)


def stems(text: str) -> frozenset[str]:
    """The beginnings of a text's words; pairs of characters where a script does not part words."""
    found: set[str] = set()
    plain = text.isascii()
    for word in _WORD.findall(text.lower()):
        if not plain and _SCRIPTS.search(word):
            found.update(word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif len(word) > 2 or word.isdigit():  # noqa: PLR2004
            found.add(word if word[0].isdigit() else word[:STEM])
    return frozenset(found)


def values(content: str, most: int = MOST, *, wanted: frozenset[str] = frozenset()) -> list[Value]:
    """What a result says under a name: first what is likeliest a fact, or about the stems that are `wanted`."""
    try:
        fields: Any = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        fields = None
    found = _walk(cast("dict[str, Any]", fields), "", DEEP) if isinstance(fields, dict) else _of_text(content, "")
    near = (one for one in found if one.weight != PROSE or len(stems(one.text) & wanted) > 1)
    distinct = {one.text: one for one in islice(near, 40 * MOST)}
    often = Counter(one.key for one in distinct.values())

    def worth(one: Value) -> float:
        return (
            one.weight - math.log2(often[one.key]) / 2 + 0.7 * min(NEAR, len(stems(one.text) & wanted) if wanted else 0)
        )

    return sorted(distinct.values(), key=worth, reverse=True)[:most]


def _walk(fields: dict[str, Any], before: str, deep: int) -> Iterator[Value]:
    told = {
        name: one
        for name, one in [*fields.items()][: 5 * WIDE]
        if name not in _ENVELOPE and not name.startswith(("untrusted_", "end_")) and not isinstance(one, bool | None)
    }
    short = [name for name, one in told.items() if _is_short(one)][:WIDE]
    if len(short) > 1:  # what stands side by side belongs together
        text = ", ".join(f"{name}: {told.pop(name)}" for name in short)
        yield Value(f"{before.rstrip('.')}: {text}" if before else text, skeleton(" ".join(short)), 2.0)
    for name, value in told.items():
        yield from _field(value, f"{before}{name}", deep)


def _is_short(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and 0 < len(value) <= KEY and "\n" not in value)


def _field(value: Any, name: str, deep: int) -> Iterator[Value]:
    match value:
        case str() if name.rpartition(".")[2] in _TEXTS or "\n" in value or len(value) > VALUE:
            yield from _of_text(value, name)
        case str() | int() | float():
            yield from _pair(name, str(value))
        case dict() if deep:
            yield from _walk(cast("dict[str, Any]", value), f"{name}.", deep - 1)
        case list() if deep:
            items = cast("list[Any]", value)[:WIDE]
            if all(isinstance(one, str | int | float) for one in items):
                yield from _pair(name, ", ".join(map(str, items)))
            for one in items:
                if isinstance(one, dict):
                    yield from _field(one, name, deep - 1)
        case _:
            return


def _of_text(text: str, name: str) -> Iterator[Value]:
    lines = [line for line in ends(text).splitlines() if line.strip()]
    alone = name and len(lines) == 1
    for line in lines:
        if len(line) > LINE:
            yield from (Value(one, skeleton(one), PROSE) for one in sentences(_NUMBERED.sub("", line)))
        made = [*_of_line(_NUMBERED.sub("", line[:LINE]).strip())]
        yield from made or (_pair(name, line.strip(), weight=0.7) if alone else ())


def _of_line(line: str) -> Iterator[Value]:
    if line.count("=") > 1 and (inline := _INLINE.findall(line)):
        if len(line) <= VALUE:
            yield Value(line, skeleton(" ".join(key for key, _ in inline)), 2.0)
            return
        for key, value in inline:
            yield from _pair(key, value, sign="=")
        return
    bare = line.lstrip("-*•># \t\"'{[(").rstrip(",;")
    at, sign = min(((bare.find(sign), sign) for sign in _PARTS if 0 < bare.find(sign) <= KEY), default=(0, ""))
    key = bare[:at].strip(" \"'`*")
    if (
        sign
        and _NAME.fullmatch(key)
        and len(key.split()) <= WORDS
        and not bare[at:].startswith("://")
        and "://" not in key
    ):
        tight = bare[at - 1] != " " and sign == "="
        yield from _pair(key, bare[at + len(sign) :].strip(" \"'`"), sign=sign if tight or sign != "=" else " = ")
    elif inline := _INLINE.findall(line):
        for key, value in inline:
            yield from _pair(key, value, sign="=")
    elif len(line) < LINE and len(line.split()) > 2 and LITERAL.search(line):  # noqa: PLR2004
        yield Value(line, skeleton(line), 1.5 if _TELLS.search(line) else 1.0)


def _pair(key: str, value: str, *, weight: float = 0.0, sign: str = ": ") -> Iterator[Value]:
    value = " ".join(value.split())
    if not value or not key or value[0] in "{[(" or value in ("=", "None", "null", "true", "false"):
        return
    short = value if len(value) <= VALUE else f"{value[: VALUE - 1]}…"
    exact = LITERAL.search(clipped(short)) is not None or len(value.split()) <= 3  # noqa: PLR2004
    yield Value(f"{key}{sign}{short}", skeleton(key), weight or (2.0 if exact else 1.0))


def unknown(text: str, sources: Iterable[str]) -> list[str]:
    """The literals of a text that stand in none of its sources; small numbers are no literals here."""
    held = "\n".join(sources).lower()
    return [one for one in literals(text) if not (one.isdigit() and len(one) < 3) and one.lower() not in held]  # noqa: PLR2004
