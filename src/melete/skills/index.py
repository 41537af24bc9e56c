"""The first tier: what the system prompt says of the skills there are, within a budget whatever their number.

The same library, place and budget give the same bytes. Words from a skill stay on their line and inside the block.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Final

from msgspec import Struct

from melete.core.skill import Here, Skill
from melete.skills.library import Library

TOKENS: Final = 1_500
CHARS_PER_TOKEN: Final = 4
CAPS: Final = (240, 200, 160, 130, 110, 100, 90, 80, 70, 60, 50)
"""Lengths to which descriptions are cut, until all skills fit; where none is short enough, the list is cut instead."""
CUT: Final = 110
SHORTEST: Final = 40
"""A line that says anything is not shorter: more lines than have room so are not tried."""
LONGEST_CATEGORY: Final = 40
NO_CATEGORY: Final = "general"
WORD = re.compile(r"[^\W_]+")
PLAIN = re.compile(r"\w[\w /-]*")
"""A category that cannot pass for the line of a skill."""
PROJECT: Final = "from the working folder, not from the person"
KEPT: Final = 64
ROOM_TO_SAY: Final = 80
"""What the sentence about those that are not listed may take."""

LOAD = """# Skills
A skill is a procedure that proved itself: when it applies, the commands, the traps, how to check the result. Go through this \
list before you begin. Load with `skill_view` whatever may fit the task, and follow it; do without only where nothing fits."""
KEEP = """Keep the skills good with `skill_manage`. One that misled you or lacked a step is patched before you finish, unasked. \
Work that took five or more calls, a stubborn fault that gave way, a correction that led to success, or a way that was hard to \
find becomes a new skill, or you offer that at the end: when it applies, commands that ran, in order, the traps, and the check."""
OPEN, CLOSE = "<available_skills>", "</available_skills>"


class Block(Struct, frozen=True, kw_only=True):
    """A text for the prompt, with the names that it lists and how many more there are."""

    text: str
    shown: tuple[str, ...] = ()
    more: int = 0


class Index:
    """The blocks of one library, the last 64 kept until something changes."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._kept: OrderedDict[tuple[int, Here, int, Set[str]], Block] = OrderedDict()

    def block(self, here: Here, *, tokens: int = TOKENS, without: Set[str] = frozenset()) -> Block:
        """The block for a session that begins here, `without` some skills; a session keeps the one that it began with."""
        if not self._library.revision:
            self._library.refresh()
        key = (self._library.revision, here, tokens, without)
        if key not in self._kept:
            skills = self._library.index(here).without(without)
            self._kept[key] = build(skills, here, budget=tokens * CHARS_PER_TOKEN)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


def build(skills: Sequence[Skill], here: Here, *, budget: int = TOKENS * CHARS_PER_TOKEN) -> Block:
    """The guidance and the list, at most `budget` bytes together; the first skills are listed where not all fit."""
    guidance = [LOAD] if skills else []
    if "skill_manage" in here.tools or not here.tools:
        guidance.append(KEEP)
    head = "\n".join(guidance)
    room = budget - weight(head) - len(OPEN) - len(CLOSE) - ROOM_TO_SAY
    chosen: Sequence[Skill] = ()
    cap = CUT
    for cap in (*CAPS, CUT) if len(skills) * SHORTEST < room else (CUT,):
        chosen = list(_fitting(skills, cap, room))
        if len(chosen) == len(skills):
            break
    more = len(skills) - len(chosen)
    said = f"{more:,} more are not listed: find them with `skill_search`." if more else ""
    listed = [OPEN, *_lines(chosen, cap), CLOSE] if chosen else []
    text = "\n".join(one for one in (head, *listed, said) if one)
    return Block(text=text, shown=tuple(skill.name for skill in chosen), more=more)


def weight(text: str) -> int:
    """Characters as the budget counts them: four a token, one token a character outside ASCII. Never less than the bytes."""
    return len(text) if text.isascii() else sum(1 if character < "\x80" else CHARS_PER_TOKEN for character in text)


def one_line(text: str, most: int) -> str:
    """A text from a file as it may enter the prompt: one line, no markup, at most so many characters."""
    line = " ".join(text.split())
    if len(line) > most:
        line = line[: most - 1].rsplit(" ", 1)[0].rstrip(" ,;:.-") + "…"
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def excerpt(text: str, found: Callable[[str], bool], most: int) -> str:
    """A text in one line as `one_line` makes it; where some of the words that are `found` stand late, its beginning and what is
    round the first of these."""
    line = " ".join(text.split())
    hits = {match.start(): match[0].lower() for match in WORD.finditer(line) if found(match[0].lower())}
    seen = {word for at, word in hits.items() if at + len(word) < most}
    late = min((at for at, word in hits.items() if word not in seen), default=0)
    if len(line) <= most or not late:
        return one_line(line, most)
    head, tail = one_line(line, most // 3), line[max(0, late - most // 4) :]
    return f"{head} {one_line(tail.partition(' ')[2] if late > most // 4 else tail, most - most // 3)}"


def _fitting(skills: Sequence[Skill], cap: int, room: int) -> Iterator[Skill]:
    """The first skills whose lines, with those of their categories, take no more than the room."""
    categories: set[str] = set()
    for skill in skills:
        category = _category(skill)
        room -= weight(_line(skill, cap)) + 1
        if category not in categories:
            categories.add(category)
            room -= weight(category) + 2
        if room < 0:
            return
        yield skill


def _lines(skills: Sequence[Skill], cap: int) -> Iterator[str]:
    grouped: dict[str, list[Skill]] = {}
    for skill in skills:
        grouped.setdefault(_category(skill), []).append(skill)
    for category, several in sorted(grouped.items()):
        yield f"{category}:"
        yield from (_line(skill, cap) for skill in sorted(several, key=lambda skill: skill.name))


def _line(skill: Skill, cap: int) -> str:
    if skill.root == "project":  # its own words come in when it is loaded, and scanned
        return f"- {skill.name}: skill_view tells"
    return f"- {skill.name}: {one_line(skill.description, cap)}"


def _category(skill: Skill) -> str:
    if skill.root == "project":
        return PROJECT
    category = one_line(skill.category, LONGEST_CATEGORY)
    return category if PLAIN.fullmatch(category) else NO_CATEGORY
