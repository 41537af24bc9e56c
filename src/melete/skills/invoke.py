"""A skill's text as it is loaded for use: where it lies, with the arguments of this use in their places. Pure."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from melete.core.skill import PLACES, Option, Skill, Variable

ALL: Final = "$ARGUMENTS"
MOST: Final = 1_000_000
"""Characters that arguments may come to in all their places together; what would be more stands at the end, once."""
FOREIGN: Final = frozenset({"hub", "project", "external"})
"""Roots of skills that others wrote."""
_ONE = re.compile(r"(?<!\w)'[^'\n]*'|(?<![\\$\w])\$([1-9])(?!\w)")
"""A numbered argument; what a shell would leave alone, between single quotes, belongs to another program."""


def invoked(text: str, *, base: str, args: str = "") -> str:
    """The text with the folder's line before it and everything that stands for something replaced.

    Arguments that no place is kept for follow at the end.
    """
    for place in PLACES:
        text = text.replace(place, base)
    args = args.strip()
    places = text.count(ALL) or len(_ONE.findall(text))
    if ALL in text and places * len(args) <= MOST:
        text = text.replace(ALL, args)
    elif args:
        given = words(args) if places * len(args) <= MOST else ()
        filled = _ONE.sub(lambda found: _numbered(found, given), text)
        text = filled if filled != text else f"{text.rstrip()}\n\nARGUMENTS: {args}\n"
    return f"Base directory of this skill: {base}\n\n{text}"


def _numbered(found: re.Match[str], given: Sequence[str]) -> str:
    number = found[1]
    if number is None or int(number) > len(given):
        return found[0]
    return given[int(number) - 1]


def words(args: str) -> list[str]:
    """Arguments one by one, as a shell would part them; by spaces alone where quotes do not close."""
    try:
        return shlex.split(args)
    except ValueError:
        return args.split()


def folder_of(skill: Skill, cwd: str) -> str:
    """Where a skill lies as it is told: from the working folder on for one of the project, else in full."""
    return skill.folder.removeprefix(f"{cwd.rstrip('/')}/") if cwd and skill.root == "project" else skill.folder


def missing_text(skill: Skill, missing: Sequence[Variable]) -> str:
    """What a skill still needs, by name and never by value; empty where nothing is missing."""
    if not missing:
        return ""
    rows = ", ".join(
        f"{one.name} ({about})" if (about := one.required_for or one.help) else one.name for one in missing
    )
    return f"Not set: {rows}. Ask the person to set it outside of this conversation: melete skills setup {skill.name}"


def value_of(option: Option, skill: Skill, config: Mapping[str, Any]) -> Any:
    """What the settings say, under the whole key or part by part; else the skill's own default. Never a section.

    What others wrote reads below its own name alone.
    """
    found: Any = config.get(skill.name, {}) if skill.root in FOREIGN else config
    if isinstance(found, Mapping) and option.key in found:
        found = cast("Mapping[str, Any]", found)[option.key]
    else:
        for name in option.key.split("."):
            found = cast("Mapping[str, Any]", found).get(name) if isinstance(found, Mapping) else None
    return option.default if found is None or isinstance(found, Mapping) else found
