"""A library of skills in memory: changes by the rules of the real one, without front matter, scan, merge or history."""

import hashlib
from collections.abc import Sequence

from msgspec import structs

from melete.core.ports import Applied, Change
from melete.core.skill import MAIN, Here, Problem, Skill, SkillText, fits
from melete.core.tool import ToolError


class MemorySkills:
    """Skills that are gone with it. `proposed` are the changes that wait for a person."""

    def __init__(self) -> None:
        self.proposed: dict[str, Change] = {}
        self._skills: dict[str, Skill] = {}
        self._files: dict[str, dict[str, str]] = {}

    def refresh(self) -> bool:
        """Nothing changes from outside."""
        return False

    def index(self, here: Here) -> Sequence[Skill]:
        """The skills that fit here, by category and name."""
        return [skill for skill in self.all() if fits(skill.conditions, here)]

    def all(self) -> Sequence[Skill]:
        """Every skill, by category and name."""
        return sorted(self._skills.values(), key=lambda skill: (skill.category, skill.name))

    def problems(self) -> Sequence[Problem]:
        """None."""
        return ()

    def get(self, name: str) -> Skill:
        """The skill of this name; raises ToolError."""
        if name not in self._skills:
            raise ToolError(f"there is no skill {name!r}")
        return self._skills[name]

    def about(self, category: str) -> str:  # noqa: ARG002 - nothing is said of any
        """Nothing is said of categories."""
        return ""

    def __contains__(self, name: str) -> bool:
        return name in self._skills

    def files(self, name: str) -> Sequence[str]:
        """The paths inside a skill, SKILL.md first; raises ToolError."""
        return sorted(self._files[self.get(name).name], key=lambda path: (path != MAIN, path))

    def fill(self) -> bool:
        """Everything can be found at once."""
        return False

    def rank(self, query: str, *, here: Here | None = None, limit: int = 5) -> Sequence[tuple[Skill, float]]:
        """By the share of the query's words that stand in a skill."""
        words = query.lower().split()
        found = [(skill, sum(word in self._text(skill).lower() for word in words) / len(words)) for skill in self.all()]
        fitting = [(skill, score) for skill, score in found if score and (here is None or fits(skill.conditions, here))]
        return sorted(fitting, key=lambda one: -one[1])[:limit]

    async def read(self, name: str, part: str = "", *, args: str | None = None) -> SkillText:  # noqa: ARG002 - no places
        """A skill's SKILL.md or one of its files; raises ToolError."""
        skill, part = self.get(name), part or MAIN
        if part not in self._files[name]:
            raise ToolError(f"{name} has no file {part!r}")
        return SkillText(
            skill=skill,
            part=part,
            text=self._files[name][part],
            version=self._version(name),
            files=(*self.files(name),),
        )

    async def check(self, change: Change) -> Applied:
        """What `apply` would say, without doing it."""
        known, new = self._files.get(change.name, {}), change.files
        why = {
            f"there is no skill {change.name!r}": not known and not new.get(MAIN),
            f"{change.name} was not read": bool(known) and not change.base,
            f"{change.name} has changed since": bool(known) and change.base not in ("", self._version(change.name)),
            "that changes nothing": all(known.get(path) == text for path, text in new.items()),
        }
        reason = next((text for text, holds in why.items() if holds), "")
        return Applied(ok=not reason, reason=reason, conflict=reason.endswith("since"))

    async def apply(self, change: Change) -> Applied:
        """Make the change as a new version; one without its SKILL.md is gone."""
        done = await self.check(change)
        if not done.ok:
            return done
        files = {**self._files.get(change.name, {}), **change.files}
        kept = {path: text for path, text in files.items() if text is not None}
        if MAIN not in kept:
            del self._skills[change.name], self._files[change.name]
            return done
        agent = change.author == "agent"
        made = Skill(name=change.name, description="", category=change.category, owner="agent" if agent else "user")
        made = structs.replace(made, trust=2, state="trial") if agent else made
        self._skills.setdefault(change.name, made)
        self._files[change.name] = kept
        return structs.replace(done, version=self._version(change.name))

    async def propose(self, change: Change) -> str:
        """Keep the change in `proposed` and return its id."""
        self.proposed[number := str(len(self.proposed) + 1)] = change
        return number

    def _version(self, name: str) -> str:
        return hashlib.sha256(repr(sorted(self._files[name].items())).encode()).hexdigest()[:16]

    def _text(self, skill: Skill) -> str:
        return f"{skill.name} {' '.join(self._files[skill.name].values())}"
