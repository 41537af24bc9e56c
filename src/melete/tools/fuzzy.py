"""Finding a quoted piece of text although it was quoted a little wrongly. Pure.

The stages, each tried only when the one before found nothing: exact; without trailing white space; without indentation
(the new text is indented as the file is); with all white space alike; with typographic quotes, dashes and spaces alike.
"""

import difflib
from collections.abc import Callable, Sequence

from msgspec import Struct

TYPOGRAPHIC = str.maketrans(
    {
        "\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\u201c": '"', "\u201d": '"', "\u201e": '"',
        "\u201f": '"', "\u00ab": '"', "\u00bb": '"', "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-",
        "\u2014": "-", "\u2015": "-", "\u2212": "-", "\u00a0": " ", "\u2007": " ", "\u2009": " ", "\u202f": " ",
    }
)  # fmt: skip
CONSIDERED = 20_000
ALIKE = 0.5

Key = Callable[[str], str]


def _rstrip(line: str) -> str:
    return line.rstrip()


def _strip(line: str) -> str:
    return line.strip()


def _collapse(line: str) -> str:
    return " ".join(line.split())


def _plain(line: str) -> str:
    return " ".join(line.translate(TYPOGRAPHIC).split())


STAGES: tuple[tuple[str, Key], ...] = (
    ("trailing white space", _rstrip),
    ("indentation", _strip),
    ("white space", _collapse),
    ("typographic characters", _plain),
)


class Replaced(Struct, frozen=True, kw_only=True):
    """The new text, how many places were replaced, and what had to be overlooked to find them (empty: nothing)."""

    text: str
    count: int
    overlooked: str = ""


class NotFoundError(Exception):
    """The old text is nowhere; `near` shows the lines that come closest, with their numbers."""

    def __init__(self, near: str) -> None:
        super().__init__("the old text is not in the file")
        self.near = near


class SeveralError(Exception):
    """The old text is in several places; `lines` are the numbers of the lines where they begin."""

    def __init__(self, lines: Sequence[int]) -> None:
        super().__init__(f"the old text is in {len(lines)} places")
        self.lines = list(lines)


def replace(text: str, old: str, new: str, *, every: bool = False) -> Replaced:
    """Replace the one place where `old` stands, or `every` one; raises NotFoundError or SeveralError."""
    count = text.count(old)
    if count:
        if count > 1 and not every:
            raise SeveralError(_line_numbers(text, old))
        return Replaced(text=text.replace(old, new), count=count)
    return _by_lines(text, old, new, every=every) or _by_characters(text, old, new, every=every) or _fail(text, old)


def _line_numbers(text: str, old: str) -> list[int]:
    found: list[int] = []
    at = text.find(old)
    while at >= 0:
        found.append(text.count("\n", 0, at) + 1)
        at = text.find(old, at + len(old))
    return found


def _by_lines(text: str, old: str, new: str, *, every: bool) -> Replaced | None:
    lines = text.split("\n")
    wanted = old.removesuffix("\n").split("\n")
    fresh = new.removesuffix("\n") if old.endswith("\n") else new
    fresh_lines = fresh.split("\n") if new else []
    for overlooked, key in STAGES:
        places = find(lines, wanted, key)
        if not places:
            continue
        if len(places) > 1 and not every:
            raise SeveralError([place + 1 for place in places])
        for place in reversed(places):
            there = lines[place : place + len(wanted)]
            lines[place : place + len(wanted)] = (
                fresh_lines if key is _rstrip else reindent(fresh_lines, wanted=wanted, there=there)
            )
        return Replaced(text="\n".join(lines), count=len(places), overlooked=overlooked)
    return None


def _by_characters(text: str, old: str, new: str, *, every: bool) -> Replaced | None:
    """Within lines: the same length for each character, so that places in the plain text are places in the text."""
    plain, wanted = text.translate(TYPOGRAPHIC), old.translate(TYPOGRAPHIC)
    count = plain.count(wanted)
    if not count or not wanted.strip():
        return None
    if count > 1 and not every:
        raise SeveralError(_line_numbers(plain, wanted))
    pieces: list[str] = []
    position = 0
    at = plain.find(wanted)
    while at >= 0:
        pieces += (text[position:at], new)
        position = at + len(wanted)
        at = plain.find(wanted, position)
    return Replaced(text="".join(pieces) + text[position:], count=count, overlooked=STAGES[-1][0])


def find(lines: Sequence[str], wanted: Sequence[str], key: Key, *, start: int = 0) -> list[int]:
    """Where `wanted` stands in `lines` from `start` on, compared by `key`, without overlaps; blank text is nowhere."""
    keys = [key(line) for line in lines]
    goal = [key(line) for line in wanted]
    if not any(goal):
        return []
    found: list[int] = []
    at = start
    while at <= len(keys) - len(goal):
        if keys[at] == goal[0] and keys[at : at + len(goal)] == goal:
            found.append(at)
            at += len(goal)
        else:
            at += 1
    return found


def reindent(fresh: Sequence[str], *, wanted: Sequence[str], there: Sequence[str]) -> list[str]:
    """`fresh` with the indentation of the file: what `wanted` is to `there`, line by line, `fresh` shall become."""
    known: dict[str, str] = {}
    for quoted, real in zip(wanted, there, strict=True):
        if quoted.strip():
            known.setdefault(_lead(quoted), _lead(real))
    return [_indented(line, known) for line in fresh]


def _indented(line: str, known: dict[str, str]) -> str:
    lead = _lead(line)
    if not line.strip() or not known:
        return line
    if lead in known:
        return known[lead] + line[len(lead) :]
    shorter = [quoted for quoted in known if lead.startswith(quoted)]
    if shorter:
        base = max(shorter, key=len)
        return known[base] + _deeper(lead[len(base) :], known) + line[len(lead) :]
    base = min(known, key=len)
    lost = len(base) - len(lead)
    real = known[base]
    return real[: max(len(real) - lost, 0)] + line[len(lead) :]


def _deeper(extra: str, known: dict[str, str]) -> str:
    """More indentation, in the file's own unit where the pairs tell it: four spaces here may be a tab there."""
    if set(extra) == {" "} and any("\t" in real for real in known.values()):
        unit = next((len(q) // len(r) for q, r in known.items() if r and set(r) == {"\t"} and set(q) == {" "}), 4)
        return "\t" * (len(extra) // max(unit, 1))
    return extra


def _lead(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _fail(text: str, old: str) -> Replaced:
    raise NotFoundError(nearest(text.split("\n"), old.split("\n")))


def nearest(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """The part of a file that comes closest to what was quoted, with line numbers; empty when nothing is like it."""
    mark = max(wanted, key=lambda line: len(line.strip()))
    goal = _plain(mark)[:200]
    if not goal:
        return ""
    matcher = difflib.SequenceMatcher(b=goal, autojunk=False)
    best, place = ALIKE, -1
    for number, line in enumerate(lines[:CONSIDERED]):
        matcher.set_seq1(_plain(line)[:200])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (ratio := matcher.ratio()) > best:
            best, place = ratio, number
    if place < 0:
        return ""
    before = list(wanted).index(mark)
    first = max(place - min(before, 10) - 1, 0)
    last = min(place + min(len(wanted) - before, 10) + 1, len(lines))
    return "\n".join(f"{n + 1}|{lines[n][:200]}" for n in range(first, last))
