"""Does a person's message correct what was just done or said? A small classifier of our own, without a model. Pure.

What people say in five languages is data (`corrections.toml`), what each cue weighs as well (`corrections.json`, written by
`scripts/fit_corrections.py`). The figures stand in docs/concepts/learning.md.
"""

import math
import re
import tomllib
import unicodedata
from collections.abc import Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

CUES: Final = Path(__file__).with_name("corrections.toml")
WEIGHTS: Final = Path(__file__).with_name("corrections.json")
LONGEST: Final = 2_000
"""Characters of a message that are looked at: who corrects does it at once."""
OPENING: Final = 16
"""A cue that begins within so many characters stands at the head of the message."""
FEW, SOME, MANY = 4, 12, 30
"""Words of a very short, a short and a long message."""
ALIKE: Final = 0.6
SHOWN: Final = 3
GLAD: Final = ("thanks", "praise", "works", "right_you")
QUOTATION: Final = "¤"
_POLITE: Final = re.compile(r"(?:please|pls|bitte|svp|stp|por favor|porfa|请),? ?")
"""What may stand before an order."""
_QUOTED: Final = re.compile(
    r"```.*?(?:```|\Z)|^ {0,3}>.*$|“[^”]*”|«[^»]*»|„[^“”]*[“”]|\"[^\"\n]*\"", re.DOTALL | re.MULTILINE
)
_CODE: Final = re.compile(r"`[^`\n]+`")
_LOG: Final = re.compile(r"^(?:Traceback|[\w.]*(?:Error|Exception)\b.*:|fatal:|npm ERR|\w+: .*not found)", re.MULTILINE)
_VALUE: Final = re.compile(r"[A-Za-z0-9][\w./+@-]*[A-Za-z0-9]|\d")
_NUMBER: Final = re.compile(r"\d[\d.,:-]*[^\W_]{0,3}")
_ADDRESS: Final = re.compile(r"\w+://\S+")
_WORD: Final = re.compile(r"[^\W_]+")
_HAN: Final = re.compile(r"[\u4e00-\u9fff]")
_ASKING: Final = re.compile(r"[?\uff1f]\W*\Z")


class Weights(Struct, frozen=True, kw_only=True):
    """What was fitted: the bias, a weight for each feature, and the score from which a message counts as a correction."""

    bias: float = 0.0
    threshold: float = 0.5
    weights: dict[str, float] = {}


class Correction(Struct, frozen=True, kw_only=True):
    """How a message reads: `score` (0 to 1) that it corrects what came before, and whether that is enough to say so.

    `remember` says that it wants something kept for later, `positive` that the person is content. `why` names what weighed most.
    """

    score: float
    is_correction: bool
    remember: bool = False
    positive: bool = False
    why: str = ""


def correction(message: str, before: str) -> Correction:
    """Judge a person's message; `before` is what the agent said and did last. With nothing before it, nothing is corrected."""
    fitted = fitted_weights()
    found = features(message, before)
    parts = {name: fitted.weights.get(name, 0.0) * value for name, value in found.items()}
    score = 1 / (1 + math.exp(-fitted.bias - sum(parts.values()))) if before.strip() else 0.0
    corrects = score >= fitted.threshold
    asks = "asking" in found
    return Correction(
        score=round(score, 3),
        is_correction=corrects,
        remember=not asks
        and ("remember" in found or _cues()["habit"].match(_POLITE.sub("", _plain(message))) is not None),
        positive=not corrects and not asks and any(name in found for name in GLAD) and "failing" not in found,
        why=", ".join(sorted((name for name in parts if parts[name] > 0), key=parts.__getitem__, reverse=True)[:SHOWN]),
    )


def features(message: str, before: str) -> dict[str, float]:
    """What is found in a message: cues (`name`, and `name^` at its head) and how it is built."""
    raw, plain = message.strip()[:LONGEST], _plain(message)
    found: dict[str, float] = {}
    for name, pattern in _cues().items():
        if (hit := pattern.search(plain)) is not None:
            found[name] = 1.0
            if hit.start() < OPENING:
                found[f"{name}^"] = 1.0
    count = len(_WORD.findall(_HAN.sub(" ", plain))) + len(_HAN.findall(plain)) / 2
    tests = {
        "few": count <= FEW,
        "some": FEW < count <= SOME,
        "many": count > MANY,
        "asking": _ASKING.search(raw) is not None,
        "exclaims": re.search(r"[!?\uff01\uff1f]{2}", raw) is not None
        or re.search(r"\b[A-Z]{4,} [A-Z]{2,}", raw) is not None,
        "quotes": QUOTATION in plain,
        "log": _LOG.search(raw) is not None and len(raw.splitlines()) > 1,
        "bare": count <= SOME and not found,
        "was_asked": _ASKING.search(before.strip()) is not None,
    }
    return found | {name: 1.0 for name, holds in tests.items() if holds} | _compared(raw, before)


def _compared(message: str, before: str) -> dict[str, float]:
    """How the message's values lie to those of what came before: other numbers, almost the same words, the same ones."""
    new, old = set(_VALUE.findall(_ADDRESS.sub(" ", message))), set(_VALUE.findall(before[-LONGEST:]))
    fresh = new - old
    numbers = [one for one in fresh if _NUMBER.fullmatch(one)]
    known = [one for one in old if one[0].isdigit()]
    names = [one for one in fresh if len(one) > FEW]
    near = any(
        SequenceMatcher(None, one, other).ratio() >= ALIKE
        for one in names[:MANY]
        for other in old
        if len(other) > FEW and one.lower() != other.lower()
    )
    shared = {one.lower() for one in new & old if len(one) > FEW}
    tests = {"other_number": bool(numbers and known), "near_value": near, "same_words": bool(shared)}
    return {name: 1.0 for name, holds in tests.items() if holds}


def _plain(message: str) -> str:
    """The person's own words: marks stand for what is quoted and for code."""
    own = folded(_QUOTED.sub(f" {QUOTATION} ", message.strip()[:LONGEST]))
    return _CODE.sub(" ¶ ", own).strip()


def folded(text: str) -> str:
    """The text in small letters without accents, with straight apostrophes, and Chinese marks as Latin ones."""
    text = unicodedata.normalize("NFKD", text.replace("’", "'").casefold())
    return re.sub(r"[ \t]+", " ", "".join(c for c in text if not unicodedata.combining(c)))


def _cues() -> Mapping[str, re.Pattern[str]]:
    return patterns(CUES)


@lru_cache(maxsize=4)
def patterns(path: Path, flags: int = 0) -> Mapping[str, re.Pattern[str]]:
    """The cues of a file by name, its languages together; in a Latin script a pattern stands for whole words, `raw` as it is."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return {
        name: re.compile(
            "|".join(one if tongue in ("zh", "raw") else rf"(?<!\w)(?:{one})(?!\w)" for tongue, one in rows.items()),
            flags,
        )
        for name, rows in table.items()
    }


@lru_cache(maxsize=1)
def fitted_weights() -> Weights:
    """The weights that are shipped."""
    return msgspec.json.decode(WEIGHTS.read_bytes(), type=Weights)
