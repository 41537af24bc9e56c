"""Insights as JSON, with names that stay. Part of the composition root; docs/guides/insights.md tells what they mean.

Unknown prices are null, never 0; shares are between 0 and 1, seconds wall time, prices USD, times UTC, days and hours local.
"""

from typing import Any

import msgspec

from melete.app.insights import Insights
from melete.core.message import Usage
from melete.core.statistics import Counts, SessionUse, Spending, ToolUse

VERSION = 1


def document(insights: Insights) -> dict[str, Any]:
    """The insights as an object for JSON; `melete_insights` is the version of its form."""
    found = insights.statistics
    streak = insights.streak
    return {
        "melete_insights": VERSION,
        "since": insights.since,
        "until": insights.until,
        "now": insights.now,
        "first": found.first,
        "last": found.last,
        **_counts(found.counts),
        **_spending(found.spending),
        "cache_saved_usd": insights.saved_usd,
        "earlier_cost_usd": insights.earlier.usd if insights.earlier else None,
        "retries": found.retries,
        "discarded": _spending(found.discarded),
        "side_work": _spending(insights.side_work),
        "days_used": streak.days,
        "streak": streak.current,
        "longest_streak": streak.longest,
        "stops": found.stops,
        "days": [{"day": use.day, **_counts(use.counts), **_spending(use.spending)} for use in found.days],
        "hours": [
            {"weekday": use.weekday, "hour": use.hour, "prompts": use.said, "requests": use.requests}
            for use in found.hours
        ],
        "models": [
            {"model": use.model, "provider": use.provider, "price_source": use.source, **_spending(use.spending)}
            for use in found.models
        ],
        "tools": [_tool(use) for use in found.tools],
        "sources": [{"source": use.source, **_counts(use.counts), **_spending(use.spending)} for use in found.sources],
        "roles": [{"role": use.role, **_spending(use.spending)} for use in found.roles],
        "errors": [
            {"where": trouble.where, "kind": trouble.kind, "count": trouble.count, "last": trouble.last}
            for trouble in found.troubles
        ],
        "longest": [_session(use) for use in found.longest],
        "dearest": [_session(use) for use in found.dearest],
        "sizes": {**msgspec.structs.asdict(found.sizes), "total": found.sizes.total},
        "remarks": [msgspec.structs.asdict(remark) for remark in insights.remarks],
    }


def _counts(counts: Counts) -> dict[str, Any]:
    return {
        "sessions": counts.sessions,
        "runs": counts.runs,
        "steps": counts.steps,
        "messages": counts.messages,
        "prompts": counts.said,
        "tool_calls": counts.tool_calls,
        "tool_errors": counts.tool_errors,
        "run_seconds": counts.seconds,
    }


def _spending(spending: Spending) -> dict[str, Any]:
    return {
        "requests": spending.requests,
        "tokens": _tokens(spending.usage),
        "cost_usd": spending.usd,
        "cost_status": spending.status,
        "billed_usd": spending.actual_usd,
        "unpriced_requests": spending.unpriced,
        "cache_share": spending.cache_share,
        "reply_seconds": spending.seconds,
    }


def _tokens(usage: Usage) -> dict[str, int]:
    return {**msgspec.structs.asdict(usage), "total": usage.total}


def _tool(use: ToolUse) -> dict[str, Any]:
    return {
        "name": use.name,
        "calls": use.calls,
        "errors": use.errors,
        "error_share": use.errors / use.calls if use.calls else 0.0,
        "outcomes": use.outcomes,
        "seconds": use.seconds,
        "median_seconds": use.median,
        "p95_seconds": use.p95,
        "result_characters": use.length,
        "spilled": use.spilled,
    }


def _session(use: SessionUse) -> dict[str, Any]:
    session = use.session
    return {
        "id": session.id,
        "title": session.title,
        "source": session.source,
        "model": session.model,
        "updated": session.updated,
        **_counts(use.counts),
        **_spending(use.spending),
    }
