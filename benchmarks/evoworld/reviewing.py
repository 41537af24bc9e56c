"""What the policy writes when it is asked to review: a lesson for each thing that was found out, and the mistakes of a reviewer."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.evoworld.deciding import Call, Move
from benchmarks.evoworld.lessons import OWN_NOTE, junk, junk_name, lesson, lesson_name, secret, wrong
from benchmarks.evoworld.reading import Called, Piece, Request, remembered, upto
from benchmarks.evoworld.words import lines

WRONG_FACT, JUNK, SECRET = 0.15, 0.5, 0.05
WRITES = ("skill_manage", "memory")
THERE = ("already", "read it with skill_view")
"""What a refusal says of a skill that is there and has to be read."""
Write = tuple[Call, dict[str, Any]]
"""A call that writes, and what the record says of it."""


@dataclass(frozen=True, kw_only=True)
class Reviewer:
    """How reviews are done: the words that a request for one begins with, and whether mistakes are made."""

    briefs: tuple[str, ...]
    seed: int
    noise: bool
    late: bool

    def wanted(self, request: Request) -> bool:
        """Whether this request asks for a review."""
        return bool(self.briefs) and request.last_said.startswith(self.briefs)

    def review(self, request: Request) -> Move:
        """Read what there is about the verbs that were worked on, write, mend once what was refused, end."""
        before, after = upto(request, self.briefs)
        read, said = request.viewed(), request.last_said
        found = {piece.verb: piece for piece in before.pieces if piece.learned and piece.needs != "nothing"}
        learned = {verb: piece for verb, piece in found.items() if piece.learned not in said}  # else it is kept already
        written = [call for call in after if call.name in WRITES]
        if written:
            fresh = {str(call.arguments.get("name", "")) for call in after if call.name == "skill_view"}
            return self._mend(before, learned, written, read, fresh)
        skills = {verb: name for verb in learned if (name := self._about(request, verb))}
        unread = [name for name in dict.fromkeys(skills.values()) if name not in read]
        if unread and "skill_view" in request.tools:
            return Move(calls=tuple(("skill_view", {"name": name}) for name in unread))
        writes = [*self._lessons(before, learned, skills, read), *self._junk(before)]
        return _writing(writes) if writes else Move(text="Nothing to keep.")

    def _mend(
        self,
        before: Request,
        learned: Mapping[str, Piece],
        written: Sequence[Called],
        read: Mapping[str, str],
        fresh: Set[str],
    ) -> Move:
        """Read what is there already, and write again, without a mistake, what was refused for another reason."""
        refused = {verb: call for verb, call in _refused(written).items() if verb in learned}
        there = {
            verb: str(call.arguments.get("name", ""))
            for verb, call in refused.items()
            if any(words in call.result.casefold() for words in THERE)
        }
        if unread := [name for name in there.values() if name not in fresh]:
            return Move(calls=tuple(("skill_view", {"name": name}) for name in unread))
        skills = {verb: name for verb in refused if (name := there.get(verb) or self._about(before, verb)) in read}
        careful = replace(self, noise=False)
        again = careful._lessons(before, {verb: learned[verb] for verb in refused}, skills, read)
        writes = [write for write in again if write[1]["what"] != "edit"]
        return _writing(writes) if writes else Move(text="Reviewed.")

    def _about(self, request: Request, verb: str) -> str:
        """The skill that is about a verb: one that was followed, else one that is listed, one of its own before others."""
        followed = [name for name, text in request.viewed().items() if lines(text, verb)]
        listed = [
            name for name, about in request.listed().items() if verb in f"{name} {about}".replace("-", " ").split()
        ]
        listed.sort(key=lambda name: (name != lesson_name(verb, late=self.late), name))
        return next((name for name in (*reversed(followed), *listed) if name != junk_name(verb)), "")

    def _lessons(
        self, request: Request, learned: Mapping[str, Piece], skills: Mapping[str, str], read: Mapping[str, str]
    ) -> Iterator[Write]:
        for verb, piece in learned.items():
            name = skills.get(verb, "")
            old = [line for _, line in lines(read.get(name, ""), verb)]
            noted = remembered(request, verb)
            if OWN_NOTE in read.get(name, ""):
                yield self._edit(name, piece), {"what": "edit", "verb": verb, "noise": "own"}
            elif piece.learned in (*old, *noted):
                continue
            else:
                yield self._write(piece, name, old, noted)

    def _edit(self, name: str, piece: Piece) -> Call:
        content = lesson(piece.verb, piece.noun, piece.learned, late=self.late).replace(
            lesson_name(piece.verb, late=self.late), name
        )
        return ("skill_manage", {"action": "edit", "name": name, "content": content})

    def _write(self, piece: Piece, name: str, old: Sequence[str], noted: Sequence[str]) -> Write:
        chance = random.Random(f"{self.seed} noise {piece.verb} {piece.item}")
        mistaken, leaky = (chance.random() < share and self.noise for share in (WRONG_FACT, SECRET))
        line = wrong(piece.learned, chance) if mistaken else piece.learned
        note = {"verb": piece.verb, "noise": "wrong" if mistaken else ""}
        if name and old:
            change = {"action": "patch", "name": name, "old_string": old[0], "new_string": line}
            return ("skill_manage", change), note | {"what": "patch"}
        if piece.needs == "site":
            content = f"Here {piece.verb} needs its site: `{line}`"
            how = {"action": "replace", "old_text": noted[0]} if noted else {"action": "add"}
            return ("memory", {**how, "target": "memory", "content": content}), note | {"what": "memory"}
        more = f"\nThe token for it is {secret(chance)}\n" if leaky else ""
        text = lesson(piece.verb, piece.noun, line, late=self.late, more=more)
        called = lesson_name(piece.verb, late=self.late)
        note |= {"what": "create", "noise": note["noise"] or ("secret" if leaky else "")}
        return ("skill_manage", {"action": "create", "name": called, "content": text}), note

    def _junk(self, request: Request) -> Iterator[Write]:
        """A skill about what nobody can learn from, half the time."""
        for piece in request.pieces:
            chance = random.Random(f"{self.seed} junk {piece.verb} {piece.item}")
            if self.noise and piece.needs == "nothing" and chance.random() < JUNK:
                content = {"action": "create", "name": junk_name(piece.verb), "content": junk(piece.verb)}
                yield ("skill_manage", content), {"what": "create", "verb": piece.verb, "noise": "junk"}


def _writing(writes: Sequence[Write]) -> Move:
    return Move(calls=tuple(call for call, _ in writes), notes=tuple(note for _, note in writes))


def _refused(written: Sequence[Called]) -> Mapping[str, Called]:
    """The verbs whose only write was refused, with that."""
    verbs = [(call, {verb for value in call.arguments.values() for verb, _ in lines(str(value))}) for call in written]
    tried = Counter(verb for _, several in verbs for verb in several)
    return {verb: call for call, several in verbs for verb in sorted(several) if call.refused and tried[verb] == 1}
