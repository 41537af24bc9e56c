"""What a skill would be had some of its changes never been made: later edits by others than the agent are merged, and kept.

What the agent built upon such a change goes with it. A text that comes back is what it was found to be before: so an undo that
was itself taken back can be undone once more. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from melete.core.skill import MAIN, Version
from melete.skills.merge import merge_file
from melete.skills.versions import STATE, VERSION, Tree

NOTHING: Final[Tree] = {}


class Step(Struct, frozen=True, kw_only=True):
    """What the ledger tells of a skill in one fact: the version that it became, None where it was archived."""

    number: int
    made: Version | None
    by_agent: bool = False
    session: str = ""
    reason: str = ""


class Without(Struct, frozen=True, kw_only=True):
    """A skill without some of its changes: its files, and the version that they stand in for, None where there are none.

    `taken` are the numbers of what was left out, `kept` of what was merged. With a `conflict`, in words, what was edited in the
    same places is left out of the files as well.
    """

    files: Tree
    like: Version | None
    taken: tuple[int, ...]
    kept: tuple[int, ...] = ()
    conflict: str = ""


def steps(rows: Sequence[Mapping[str, Any]], name: str) -> list[Step]:
    """What these facts tell of a skill, oldest first."""
    found: list[Step] = []
    for row in rows:
        if row.get("skill") != name:
            continue
        number, session, reason = row["number"], row.get("session", ""), row.get("reason", "")
        by_agent = row.get("author") == "agent"
        if row["kind"] == VERSION:
            made = msgspec.convert(row, Version)
        elif row["kind"] == STATE and row.get("state") == "archived":
            made = None
        else:
            continue
        found.append(Step(number=number, made=made, by_agent=by_agent, session=session, reason=reason))
    return found


def without(known: Sequence[Step], away: Callable[[Step], bool], tree: Callable[[Version], Tree]) -> Without | None:
    """The skill as it would be without the steps that are to go `away`; None where none is.

    `tree` gives the files of a version; what it raises goes on.
    """
    first = next((at for at, step in enumerate(known) if away(step)), None)
    if first is None:
        return None
    walk = _Walk(known[:first], tree)
    for step in known[first:]:
        walk.take(step, away=away(step))
    return walk.end()


class _Walk:
    """The way from the first step that goes away to the last: the files as they were, and beside them those without it."""

    def __init__(self, before: Sequence[Step], tree: Callable[[Version], Tree]) -> None:
        self._tree = tree
        last = before[-1].made if before else None
        self._was = self._of(last)
        self._now: tuple[Tree, Version | None] = self._was, last
        self._clean: dict[str, tuple[Tree, Version | None] | Version] = {
            step.made.version: step.made for step in before if step.made
        }
        self._taken: list[int] = []
        self._kept: list[int] = []
        self._conflict = ""

    def _of(self, made: Version | None) -> Tree:
        return self._tree(made) if made else NOTHING

    def take(self, step: Step, *, away: bool) -> None:
        """Go one step further."""
        is_, key = self._of(step.made), step.made.version if step.made else ""
        if away or (step.by_agent and self._now[0] != self._was and key not in self._clean):
            self._taken.append(step.number)
        elif not key:  # that somebody has put it away counts, whoever did so before
            self._now = NOTHING, None
        elif known := self._clean.get(key):
            self._now = (self._of(known), known) if isinstance(known, Version) else known
        else:
            self._merge(step, is_)
        self._clean[key] = self._now
        self._was = is_

    def _merge(self, step: Step, theirs: Tree) -> None:
        merged = dict(self._now[0])
        for path in sorted({*self._was, *merged, *theirs}):
            base, ours = self._was.get(path), self._now[0].get(path)
            one = theirs.get(path) if ours == base else merge_file(base, ours, theirs.get(path))
            if isinstance(one, str):
                self._conflict = f"{path} {one}"
                return
            if one is None:
                merged.pop(path, None)
            else:
                merged[path] = one
        if merged and MAIN not in merged:
            self._conflict = f"{MAIN} would be gone, and {', '.join(sorted(merged)[:3])} was added since"
            return
        self._now = merged, step.made if merged else None
        self._kept.append(step.number)

    def end(self) -> Without:
        """What is there in the end."""
        files, like = self._now
        return Without(
            files=files, like=like, taken=tuple(self._taken), kept=tuple(self._kept), conflict=self._conflict
        )


def standing_in(like: Version, reason: str) -> Version:
    """The version that is to be made in place of one, by a person."""
    return structs.replace(
        like, author="user", session="", turns=(), model="", taint="none", reason=reason, number=0, at="", parent=""
    )  # fmt: skip
