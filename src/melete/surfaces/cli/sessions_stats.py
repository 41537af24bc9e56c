"""`melete sessions stats`: how much there is, and what it takes."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import click
import msgspec
from msgspec import Struct

from melete.app.figures import local
from melete.app.sizes import size_text
from melete.app.wire import Melete
from melete.core.session import CostStatus, Which
from melete.core.statistics import Sizes, Spending, Statistics
from melete.surfaces.cli.options import json_option, painter, settings
from melete.surfaces.cli.output import err, one_line, out
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.running import run_with_app
from melete.surfaces.cli.table import table
from melete.surfaces.cli.which import Meant, which_options

MOST = 10
"""Models that are named one by one."""
PARTS = (
    ("logs", "logs", "the truth: everything else but what was spilled can be remade"),
    ("spilled", "spilled", "long results, in files of their own"),
    ("inboxes", "inboxes", "messages that wait"),
    ("tables", "sessions.db", "remade by `melete rebuild`"),
    ("search", "search.db", "remade by `melete rebuild`"),
    ("set_aside", "set aside", "damaged pieces: `melete verify` tells more, `sessions prune --set-aside` removes them"),
    ("orphans", "orphans", "left of sessions that are gone: `sessions prune --set-aside` removes them"),
)


class Group(Struct, frozen=True, kw_only=True):
    """What one source or model adds up to, as JSON shows it."""

    name: str
    sessions: int | None = None
    requests: int
    tokens: int
    cost_usd: float | None
    cost_status: CostStatus


class Stats(Struct, frozen=True, kw_only=True):
    """The whole answer as JSON shows it; sizes are those of the whole home."""

    sessions: int
    runs: int
    steps: int
    messages: int
    tool_calls: int
    tool_errors: int
    tokens: int
    cost_usd: float | None
    cost_status: CostStatus
    first: datetime | None
    last: datetime | None
    sources: Sequence[Group]
    models: Sequence[Group]
    bytes: Sizes
    bytes_total: int
    bytes_a_message: dict[str, float]


@click.command()
@which_options
@json_option
def stats(*, as_json: bool, **meant: Any) -> int:
    """Count the sessions, and what they take on the disk."""
    loaded = settings()

    async def work(app: Melete) -> int:
        which = Meant(**meant).which(app.clock.now())
        found = await app.store.statistics(which=which)
        every = found if which == Which() else await app.store.statistics()
        if as_json:
            out(app.redact(msgspec.json.encode(_stats(found, every)).decode()) + "\n")
        elif not found.counts.sessions:
            err("There are no sessions yet.\n" if which == Which() else "There are no sessions like that.\n")
        else:
            paint = painter(loaded)
            parts = [*_counted(found), "", *_groups(found, paint), *_sizes(every, paint)]
            out(app.redact("".join(f"{line}\n" if not line.endswith("\n") else line for line in parts)))
        return 0

    return run_with_app(loaded, work)


def _stats(found: Statistics, every: Statistics) -> Stats:
    counts, spending = found.counts, found.spending
    return Stats(
        sessions=counts.sessions,
        runs=counts.runs,
        steps=counts.steps,
        messages=counts.messages,
        tool_calls=counts.tool_calls,
        tool_errors=counts.tool_errors,
        tokens=spending.usage.total,
        cost_usd=spending.usd,
        cost_status=spending.status,
        first=found.first,
        last=found.last,
        sources=[_group(use.source, use.spending, sessions=use.counts.sessions) for use in found.sources],
        models=[_group(_model(use.provider, use.model), use.spending) for use in found.models],
        bytes=every.sizes,
        bytes_total=every.sizes.total,
        bytes_a_message={name: round(each, 1) for name, each in _each(every)},
    )


def _group(name: str, spending: Spending, *, sessions: int | None = None) -> Group:
    return Group(
        name=name,
        sessions=sessions,
        requests=spending.requests,
        tokens=spending.usage.total,
        cost_usd=spending.usd,
        cost_status=spending.status,
    )


def _model(provider: str, model: str) -> str:
    return f"{provider}/{model}" if provider else model


def _each(every: Statistics) -> Iterator[tuple[str, float]]:
    """Bytes for each message, by where they are."""
    for name in ("logs", "tables", "search"):
        yield name, getattr(every.sizes, name) / max(1, every.counts.messages)


def _amount(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def _counted(found: Statistics) -> Iterator[str]:
    counts, spending = found.counts, found.spending
    sessions, messages = _amount(counts.sessions, "session"), _amount(counts.messages, "message")
    yield f"{sessions} with {messages}, {_amount(counts.runs, 'run')} and {_amount(counts.steps, 'step')}"
    failed = f", {counts.tool_errors:,} of them failed" if counts.tool_errors else ""
    yield f"{_amount(counts.tool_calls, 'tool call')}{failed}"
    yield f"{spending.usage.total:,} tokens, {_cost(spending)}"
    if found.first and found.last:
        first, last = (f"{local(at):%Y-%m-%d %H:%M}" for at in (found.first, found.last))
        yield f"from {first} to {last}"


def _cost(spending: Spending) -> str:
    if spending.usd is None:
        return "price unknown" if spending.requests else "nothing was asked"
    about = {"partial": f"; {spending.unpriced:,} requests have no known price", "estimated": " (estimated)"}
    return f"${spending.usd:.4f}{about.get(spending.status, '')}"


def _groups(found: Statistics, paint: Paint) -> Iterator[str]:
    rows = [
        (one_line(use.source) or "-", f"{use.counts.sessions:,}", f"{use.spending.usage.total:,}", _cost(use.spending))
        for use in found.sources
    ]
    yield table(("SOURCE", "SESSIONS", "TOKENS", "COST"), rows, paint, right=("SESSIONS", "TOKENS"))
    yield ""
    if not found.models:
        return
    rows = [
        (
            _model(use.provider, use.model),
            f"{use.spending.requests:,}",
            f"{use.spending.usage.total:,}",
            _cost(use.spending),
        )
        for use in found.models[:MOST]
    ]
    yield table(("MODEL", "REQUESTS", "TOKENS", "COST"), rows, paint, right=("REQUESTS", "TOKENS"))
    if len(found.models) > MOST:
        yield f"and {len(found.models) - MOST} more models"
    yield ""


def _sizes(every: Statistics, paint: Paint) -> Iterator[str]:
    sizes = every.sizes
    rows = [
        (name, size_text(size), about)
        for field, name, about in PARTS
        if (size := getattr(sizes, field)) or field == "logs"
    ]
    rows.append(("all", size_text(sizes.total), ""))
    yield table(("ON THE DISK", "SIZE", "WHAT IT IS"), rows, paint, right=("SIZE",))
    each = ", ".join(f"{size_text(size)} in {name}" for name, size in _each(every))
    yield f"a message takes {each}"
