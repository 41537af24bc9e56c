"""The segments of a session: what stands between two compactions, each the child of the one before. Layer 0, pure.

A compaction changes what a model sees and nothing of what is stored: every segment can be read as it was.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from melete.core.event import EPOCH, Compacted, Fact

SHORTEST = 4
"""Signs of an id below which a name is a number only."""


class Segment(Struct, frozen=True, kw_only=True):
    """A part of a session: the facts from `first` to `last`, the compaction that opened it included.

    The first one bears the session's id and has no parent. Tokens are those of the conversation before and after the compaction;
    `summary` is what a model made of all that came before, empty where none did.
    """

    number: int
    id: str
    parent: str = ""
    at: datetime
    first: int
    last: int
    tokens_before: int = 0
    tokens_after: int = 0
    how: str = ""
    focus: str = ""
    summary: str = ""


def segments(facts: Sequence[Fact], session: str) -> list[Segment]:
    """The segments of a session, in order; one where nothing was shortened."""
    opened = [fact for fact in facts if isinstance(fact, Compacted)]
    ends = [fact.seq - 1 for fact in opened] + [facts[-1].seq if facts else 0]
    first = Segment(number=1, id=session, at=facts[0].at if facts else EPOCH, first=1, last=ends[0])
    found = [first]
    for number, (fact, last) in enumerate(zip(opened, ends[1:], strict=True), 2):
        found.append(
            Segment(
                number=number,
                id=fact.segment,
                parent=found[-1].id,
                at=fact.at,
                first=fact.seq,
                last=last,
                tokens_before=fact.tokens_before,
                tokens_after=fact.tokens_after,
                how=fact.how,
                focus=fact.focus,
                summary=fact.summary,
            )
        )
    return found


def segment_named(found: Sequence[Segment], name: str) -> Segment | None:
    """The segment of this number or id, or of the only id that begins with a name of `SHORTEST` signs; None where there is none."""
    exact = [one for one in found if name in (one.id, str(one.number))]
    begun = [one for one in found if one.id.startswith(name)]
    return exact[0] if exact else begun[0] if len(name) >= SHORTEST and len(begun) == 1 else None
