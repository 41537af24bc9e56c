"""What a review has to know of skills: which come near, which were read, whose lines are whose. Part of the composition root."""

import re
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from typing import TYPE_CHECKING

from melete.core.event import Fact, Framed, Said
from melete.core.message import Message, ToolCall, ToolResult
from melete.core.ports import SkillLibrary
from melete.core.skill import MAIN, Skill
from melete.core.tool import ToolError
from melete.learn.briefs import LONGEST_LINE
from melete.learn.facts import Debt
from melete.learn.results import fields_of
from melete.learn.signals import VIEW, spoken

if TYPE_CHECKING:
    from melete.skills.manage import Keeper

NEAR, LONGEST_QUERY, STEM = 5, 4_000, 5
"""Skills that are named, and characters of what they are looked for by, and of a word that counts."""


def near(
    facts: Iterable[Fact], signals: Iterable[Debt], skills: "Keeper", *, frame: Framed | None = None
) -> Sequence[str]:
    """A line for each skill that comes near to what was asked for in these facts; what the frame says of one is left out."""
    said = [spoken(fact.message) or "" for fact in facts if isinstance(fact, Said)]
    query = " ".join((*said, *(one.verb for one in signals if one.signal != "sequence")))
    ranked, asked = skills.rank(query[:LONGEST_QUERY], limit=NEAR), _stems(query)
    found = [skill for skill, _ in ranked if skill.root != "project" and _touches(asked, skill)]
    return [_line(skill, "\n".join(frame.system) if frame else "") for skill in found]


async def seen(messages: Iterable[Message], skills: SkillLibrary) -> dict[str, dict[str, str]]:
    """The skills whose text stands in these messages just as it is now, with the version: they were read."""
    parts = [part for message in messages for part in message.parts]
    whole = {part.id for part in parts if isinstance(part, ToolCall) and not fields_of(part.arguments).get("file_path")}
    found: dict[str, dict[str, str]] = {}
    for part in parts:
        if isinstance(part, ToolResult) and part.name == VIEW and part.call in whole:
            told = fields_of(part.content)
            name = str(told.get("name", ""))
            with suppress(ToolError):  # it is gone
                if (now := await skills.read(name)).version == told.get("version"):
                    found[name] = {MAIN: now.version}
    return found


def _line(skill: Skill, shown: str) -> str:
    about = " ".join(skill.description.split())
    return skill.name if f"{skill.name}: {about[:STEM]}" in shown else f"{skill.name}: {about[:LONGEST_LINE]}"


def _touches(asked: Set[str], skill: Skill) -> bool:
    """Whether words and what a skill says of itself have two in common, or one with its name."""
    name = asked & _stems(skill.name.replace("-", " "))
    return bool(name) or len(asked & _stems(skill.description)) > 1


def _stems(text: str) -> set[str]:
    return {word[:STEM] for word in re.findall(r"\w{3,}", text.casefold())}


def own_lines(keeper: "Keeper", name: str) -> tuple[str, ...]:
    """The lines of a skill that came in with a person's edits."""
    known = {one.version: one for one in keeper.versions.history(name)}
    found: dict[str, None] = {}
    for made in known.values():
        if made.author == "user":
            before = known.get(made.parent)
            old = keeper.versions.tree(before) if before else {}
            for path, data in keeper.versions.tree(made).items():
                there = set(old.get(path, b"").splitlines())
                found |= {line.decode(errors="replace"): None for line in data.splitlines() if line not in there}
    return tuple(found)
