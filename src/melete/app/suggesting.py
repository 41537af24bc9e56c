"""Which skills are worth naming behind a message: by words in common that were not shown yet. Composition root."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final

from msgspec import Struct

from melete.core.event import Framed
from melete.core.message import Text
from melete.core.plugin import Lazy
from melete.core.skill import SUGGESTED, Skill
from melete.core.transcript import Transcript

_words: Lazy[Callable[[str], Mapping[str, int]]] = Lazy("melete.skills.words:words")

CUT: Final = "…"
"""How a line ends that does not tell all."""
STEM: Final = 5
RARE: Final = 2
"""In how many candidates a word may be that suggests one alone."""
TALK: Final = 3
"""Words that say more than talk does: with fewer, none suggests a skill alone."""
MOST_ALONE: Final = 2
"""Skills that are suggested by one word, at most."""
_LISTED: Final = re.compile(r"^- ([^\W_](?:[^\W_]|-){0,63}): (.*)$", re.MULTILINE)


def listed(state: Transcript, frame: Framed | None) -> Mapping[str, str]:
    """The skills that a conversation has before it, in its prompt and behind earlier messages, with what it says of them."""
    texts = list(frame.system) if frame else []
    texts += [
        part.text
        for message in state.messages
        for part in message.parts
        if isinstance(part, Text) and part.text.startswith(SUGGESTED)
    ]
    found: dict[str, str] = {}
    for name, said in (one for text in texts for one in _LISTED.findall(text)):
        found[name] = f"{found[name]} {said}" if name in found else said
    return found


class Asked(Struct, frozen=True, kw_only=True):
    """The words of a message that say something, by their beginnings, with how often they occur."""

    stems: Mapping[str, int]

    @classmethod
    def of(cls, text: str) -> "Asked":
        """Those of a text."""
        stems = Counter[str]()
        for word, times in _words.load()(text).items():
            stems[word[:STEM]] += times
        return cls(stems=stems)

    def has(self, word: str) -> bool:
        """Whether a word begins as one that is asked for does."""
        return word[:STEM] in self.stems

    def within(self, text: str) -> Set[str]:
        """What a text has of them."""
        return self.stems.keys() & Asked.of(text.replace("-", " ")).stems.keys()

    def hits(self, skill: Skill) -> Set[str]:
        """What a skill says of them."""
        return self.within(f"{skill.name} {skill.description} {' '.join(skill.tags)} {skill.trigger}")

    def tells(self, name: str, hits: Set[str]) -> bool:
        """Whether two words in common, or one with the name, are enough to name a skill."""
        return len(hits) > 1 or bool(hits and self.within(name))

    def fitting(self, ranked: Sequence[tuple[Skill, float]], shown: Mapping[str, str]) -> list[tuple[Skill, float]]:
        """What is worth naming for words that were not shown with it yet: enough of them, or one that hardly any other has.

        Of the latter only a few, those whose word the message says most often.
        """
        hits = {skill.name: self.hits(skill) for skill, _ in ranked}
        often = Counter(stem for one in hits.values() for stem in one)
        enough: set[str] = set()
        alone = Counter[str]()
        for name, found in hits.items():
            seen = self.within(f"{name} {shown[name]}") if name in shown else frozenset[str]()
            if not (new := found - seen):
                continue
            if self.tells(name, found) and not self.tells("", seen):
                enough.add(name)
            elif len(self.stems) >= TALK:
                alone[name] = max((self.stems[one] for one in new if often[one] <= RARE and one.isalpha()), default=0)
        enough.update(name for name, weight in alone.most_common(MOST_ALONE) if weight)
        return [one for one in ranked if one[0].name in enough]
