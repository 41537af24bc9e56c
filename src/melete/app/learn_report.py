"""What learning has brought in this home: gathered, and as JSON with names that stay. Part of the composition root."""

import asyncio
from collections.abc import Callable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from melete.app.wire import Melete
from melete.core.plugin import Lazy

if TYPE_CHECKING:
    from melete.learn.facts import Debt, Review
    from melete.learn.inbox import Item
    from melete.learn.report import Effect as Effect
    from melete.learn.report import Meeting as Meeting
    from melete.learn.report import Report as Report

_report: "Lazy[Callable[..., Report]]" = Lazy("melete.learn.report:report")
_changes: Lazy[Callable[..., Any]] = Lazy("melete.memory.fold:read_changes")
VERSION = 1


async def gather(app: Melete) -> "Report":
    """The report of the home as it is now; raises StoreError."""

    def work() -> "Report":
        rows = app.ledger.read()
        changes = chain.from_iterable(change.rows for change in _changes.load()(rows))
        texts = {row.entry: row.text for row in changes if row.text}
        return _report.load()(rows, now=app.clock.now(), day_share=app.loaded.settings.learning.day_share, texts=texts)

    return await asyncio.to_thread(work)


def document(found: "Report") -> dict[str, Any]:
    """The report as an object for JSON; `melete_learning` is the version of its form. Unknown prices are null, never 0."""
    reviews, proposals = found.reviews, found.proposals
    return {
        "melete_learning": VERSION,
        "now": found.now,
        "sessions": found.sessions,
        "outcomes": found.outcomes,
        "followed": found.followed,
        "withheld": found.withheld,
        "signals": found.signals,
        "debts": [
            {"session": one.session, "weight": one.weight, "signals": [debt_row(debt) for debt in one.signals]}
            for one in found.debts
        ],
        "reviews": {
            "by_status": reviews.by_status,
            "tokens": reviews.tokens,
            "cost_usd": reviews.usd,
            "unpriced": reviews.unpriced,
            "week_tokens": reviews.week[0],
            "week_all_tokens": reviews.week[1],
            "share": reviews.share,
            "day_share": reviews.allowed,
            "rows": [_review(one, reviews.proposed) for one in reviews.rows],
        },
        "proposals": {
            "by_state": proposals.by_state,
            "stopped_by": proposals.stopped,
            "rows": [_proposal(one) for one in proposals.rows],
        },
        "effects": msgspec.to_builtins(found.effects),
        "together": msgspec.to_builtins(found.together),
        "trend": msgspec.to_builtins(found.trend),
    }


def debt_row(debt: "Debt") -> dict[str, Any]:
    """A signal as JSON."""
    return {"signal": debt.signal, "weight": debt.weight, "turn": debt.turn, "verb": debt.verb, "what": debt.what}


def _review(one: "Review", proposed: Mapping[str, int]) -> dict[str, Any]:
    names = ("id", "session", "at", "why", "brief", "status", "log", "model", "usd", "steps", "error")
    return {
        **{name: getattr(one, name) for name in names},
        "usage": msgspec.to_builtins(one.usage),
        "proposals": proposed.get(one.id, 0),
    }


def _proposal(one: "Item") -> dict[str, Any]:
    made = one.proposal
    names = ("id", "target", "name", "did", "session", "turns", "review", "tokens", "usd", "taint")
    return {
        "number": one.number,
        "state": one.state,
        "at": one.at,
        "class": made.class_,
        "reason": one.reason,
        **{name: getattr(made, name) for name in names},
    }
