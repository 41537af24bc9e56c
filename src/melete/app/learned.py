"""What a review brought, in one line for the person. Part of the composition root."""

import asyncio
from collections.abc import Sequence

from melete.app.wire import Melete
from melete.core.event import Learned
from melete.learn.facts import Proposed, Review, facts_of

HEADS = {"trial": "learned", "inbox": "proposed", "refused": "refused"}
SHOWN = 4
"""Lessons that are named in the line; there may be more."""


async def learned(app: Melete, review: Review) -> Learned | None:
    """The line for a review that ended; None where nothing is to be said."""
    how = app.loaded.settings.learning.notify
    if how == "off":
        return None
    rows = await asyncio.to_thread(app.ledger.read, kind=Proposed.kind)
    last: dict[str, Proposed] = {}
    first: dict[str, int] = {}
    for fact in facts_of(Proposed, rows):
        if fact.review == review.id:
            last[fact.id] = fact
            first.setdefault(fact.id, fact.number)
    wanted = ("trial", "inbox", "refused") if how == "verbose" else ("trial", "inbox")
    found = [(status, [fact for fact in last.values() if fact.status == status]) for status in wanted]
    found = [(status, facts) for status, facts in found if facts]
    if not found:
        return _nothing(review) if how == "verbose" else None
    parts = [_named(facts, "" if not at else f"{HEADS[status]}: ") for at, (status, facts) in enumerate(found)]
    status, facts = found[0]
    number = first[facts[0].id]
    command = "melete learn inbox" if status == "inbox" else f"melete learn show {number}"
    about = f"{'decide' if status == 'inbox' else 'why'}: {command}"
    return Learned(number=number, what=" · ".join(parts), status=HEADS[status], about=about)


def _named(facts: Sequence[Proposed], head: str) -> str:
    """These lessons, each with what was done; entries of memory need no names."""
    names = [f"{fact.name} ({fact.did})" for fact in facts if fact.target == "skill"]
    names += ["memory updated"] if any(fact.target == "memory" for fact in facts) else []
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return head + " · ".join(names[:SHOWN]) + more


def _nothing(review: Review) -> Learned:
    """What is said of a review without a lesson to those who want to hear of everything."""
    if review.status == "failed":
        return Learned(number=review.number, what=f"a review failed: {review.error}", status="not learned")
    return Learned(number=review.number, what="a review found nothing to keep", status="learned")
