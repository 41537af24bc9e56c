"""Insights as text: sums, what stands out, and small charts of block characters."""

from collections.abc import Iterator, Sequence

from melete.app.figures import WEEKDAYS, cost, cost_in_words, day_text, duration, local, money, percent, plural, short
from melete.app.insights import Insights, periods, span
from melete.core.statistics import SessionUse, Spending, Trouble
from melete.surfaces.cli.bars import FULL, bar, pace, shade, squeezed, upright
from melete.surfaces.cli.output import one_line
from melete.surfaces.cli.paint import Paint, cut
from melete.surfaces.cli.table import entry, table

WIDTH = 80
"""Columns on a pipe, which has no width."""
WIDEST = 100
ROOMY = 60
ROWS = 8
TOP = 5
REMARKS = 4
BAR = 12
HEIGHT = 5
INDENT = 12
HOURS = 24
STOPS = {"done": "answered", "": "without an end"}


def insights_text(insights: Insights, paint: Paint) -> str:
    """Everything that is worth a look, to be read from the top; a line or two where nothing happened."""
    if insights.empty:
        return _nothing(insights)
    width = min(paint.width, WIDEST) if paint.terminal else WIDTH
    parts = (
        paint("bold", paint.fit(_heading(insights))) + "\n" + table(("", ""), list(_sums(insights)), paint),
        _remarks(insights, paint),
        _days(insights, paint, width),
        _hours(insights, paint, width),
        _models(insights, paint, width),
        _tools(insights, paint, width),
        _troubles(insights, paint),
        _sessions("Dearest sessions", insights.statistics.dearest, paint),
        _sessions("Longest sessions", insights.statistics.longest, paint),
    )
    return "\n".join(part for part in parts if part)


def _nothing(insights: Insights) -> str:
    if insights.since is None and insights.until is None:
        return 'There is nothing to tell yet: `melete run "…"` asks something, and what it takes is shown here.\n'
    return f"Nothing happened here, {_heading(insights)}; `melete insights --all` looks at everything.\n"


def _heading(insights: Insights) -> str:
    first, last = insights.first_day, insights.last_day
    if first == last:
        return day_text(first, year=True)
    days = (last - first).days + 1
    return f"{day_text(first, year=first.year != last.year)} to {day_text(last, year=True)}, {days:,} days"


# ---- sums ------------------------------------------------------------------------------------------------------------


def _sums(insights: Insights) -> Iterator[tuple[str, str]]:
    found = insights.statistics
    counts, spending = found.counts, found.spending
    streak = insights.streak
    row = f", {streak.current} in a row up to now" if streak.current > 1 else ""
    yield "Cost", cost_in_words(spending) + _compared(insights)
    yield "Tokens", _tokens(spending)
    if cached := _cached(insights):
        yield "Cache", cached
    yield "Sessions", f"{counts.sessions:,} with {_many(counts.said, 'prompt')} and {_many(counts.messages, 'message')}"
    yield "Runs", f"{counts.runs:,}, {_many(counts.steps, 'step')}, {duration(counts.seconds)}{_stops(found.stops)}"
    if counts.tool_calls:
        failed = f", {counts.tool_errors:,} failed ({percent(counts.tool_errors / counts.tool_calls)})"
        yield "Tools", _many(counts.tool_calls, "call") + (failed if counts.tool_errors else "")
    yield "Days", f"{streak.days:,} with work{row}"
    if len(found.sources) > 1 or any(use.source != "cli" for use in found.sources):
        yield "Sources", ", ".join(f"{use.source or 'unknown'} {use.counts.sessions:,}" for use in found.sources)
    if side := [use for use in found.roles if use.role != "main"]:
        work = (f"{use.role} {use.spending.requests:,} ({cost(use.spending)})" for use in side)
        yield "Side work", f"{', '.join(work)}; it is part of the cost"
    if found.retries:
        yield "Retries", _retries(found.retries, found.discarded)


def _many(count: int, one: str) -> str:
    return f"{count:,} {plural(count, one)}"


def _compared(insights: Insights) -> str:
    if insights.earlier is None or insights.earlier.usd is None:
        return ""
    return f"; {cost(insights.earlier)} in the same time before"


def _tokens(spending: Spending) -> str:
    usage = spending.usage
    read = f"{short(spending.prompt)} read: {short(usage.input)} anew"
    if usage.cache_read or usage.cache_write:
        read += f", {short(usage.cache_read)} from a cache, {short(usage.cache_write)} into one"
    thought = f", {short(usage.reasoning)} of it thinking" if usage.reasoning else ""
    return f"{read}; {short(usage.output)} written{thought}"


def _cached(insights: Insights) -> str:
    spending, saved = insights.statistics.spending, insights.saved_usd
    if not spending.prompt:
        return ""
    text = f"{percent(spending.cache_share)} of what was read came from a cache"
    if saved is None:
        return text
    return f"{text}; about {money(saved)} saved" if saved >= 0 else f"{text}; {money(-saved)} lost by writing to it"


def _stops(stops: dict[str, int]) -> str:
    ways = sorted(stops.items(), key=lambda way: (-way[1], way[0]))
    words = (f"{count:,} {STOPS.get(stop, stop.replace('_', ' '))}" for stop, count in ways)
    return f": {', '.join(words)}" if ways else ""


def _retries(retries: int, discarded: Spending) -> str:
    text = f"{retries:,} {plural(retries, 'request was', many='requests were')} repeated"
    if not discarded.requests:
        return text
    answers = plural(discarded.requests, "answer that was", many="answers that were")
    price = "at an unknown price" if discarded.usd is None else f"for {cost(discarded)}"
    return f"{text}; {discarded.requests:,} {answers} thrown away took {short(discarded.usage.total)} tokens {price}"


def _remarks(insights: Insights, paint: Paint) -> str:
    """What stands out and what to do about it."""
    return "".join(
        entry(("yellow", "!"), remark.about, [t for t in (remark.text, remark.next) if t], paint=paint, indent=INDENT)
        for remark in insights.remarks[:REMARKS]
    )


# ---- charts ----------------------------------------------------------------------------------------------------------


def _days(insights: Insights, paint: Paint, width: int) -> str:
    """Columns for the days (weeks, months): money where every price is known, else tokens."""
    found = periods(insights)
    if len(found) < 2:  # noqa: PLR2004 - one column is no chart
        return ""
    usd = insights.priced
    values = [period.spending.usd or 0.0 if usd else float(period.spending.usage.total) for period in found]
    if not any(values):
        return ""
    room = width - 8
    top = max(squeezed(values, room))
    labels = [money(top) if usd else short(top), *[""] * (HEIGHT - 1)]
    rows = upright(values, height=HEIGHT, width=room)
    drawn = "".join(f"{label:>6} {paint('cyan', row)}\n" for label, row in zip(labels, rows, strict=True))
    long = pace(len(squeezed(values, room)), room) * len(squeezed(values, room))
    first, last = day_text(found[0].start), day_text(found[-1].end)
    ends = f"{first}{last:>{max(len(last) + 1, long - len(first))}}"
    title = f"{'Cost' if usd else 'Tokens'} per {span(insights)}"
    return f"{paint('bold', title)}\n{drawn}{' ' * 7}{paint('dim', cut(ends, room))}\n"


def _hours(insights: Insights, paint: Paint, width: int) -> str:
    """The hours of the week, the busiest the darkest; prompts where there are any, else requests."""
    hours = insights.statistics.hours
    prompts = any(use.said for use in hours)
    grid = [[0] * HOURS for _ in WEEKDAYS]
    for use in hours:
        grid[use.weekday][use.hour] = use.said if prompts else use.requests
    if not any(map(any, grid)):
        return ""
    folded, wide = (1, 2) if width >= ROOMY else (1, 1) if width >= HOURS + 4 else (2, 1)
    cells = [[sum(row[at : at + folded]) for at in range(0, HOURS, folded)] for row in grid]
    top = max(map(max, cells))
    scale = "".join(f"{hour:<{6 // folded * wide}}" for hour in range(0, HOURS, 6)).rstrip()
    lines = [
        f"{day} {paint('cyan', ''.join(shade(value, top) * wide for value in row))}\n"
        for day, row in zip(WEEKDAYS, cells, strict=True)
    ]
    thing = plural(top, "prompt" if prompts else "request")
    legend = f"{FULL} up to {top:,} {thing}"
    title = paint("bold", "Hours of the week")
    return f"{title}\n{''.join(lines)}    {paint('dim', scale)}\n    {paint('dim', cut(legend, max(1, width - 4)))}\n"


def _models(insights: Insights, paint: Paint, width: int) -> str:
    models = insights.statistics.models
    most = max((use.spending.usage.total for use in models), default=0)
    rows = [
        (
            one_line(use.model) or "-",
            f"{use.spending.requests:,}",
            short(use.spending.usage.total),
            percent(use.spending.cache_share),
            cost(use.spending),
            *([bar(use.spending.usage.total / most if most else 0.0, BAR)] if width >= ROOMY else []),
        )
        for use in models
    ]
    head = ("MODEL", "REQUESTS", "TOKENS", "CACHED", "COST", *([""] if width >= ROOMY else []))
    return _table("Models", head, rows, paint)


def _tools(insights: Insights, paint: Paint, width: int) -> str:
    tools = insights.statistics.tools
    most = max((use.calls for use in tools), default=0)
    rows = [
        (
            one_line(use.name) or "-",
            f"{use.calls:,}",
            f"{use.errors:,} ({percent(use.errors / use.calls)})" if use.errors else "-",
            duration(use.median),
            duration(use.p95),
            *([bar(use.calls / most if most else 0.0, BAR)] if width >= ROOMY else []),
        )
        for use in tools
    ]
    head = ("TOOL", "CALLS", "FAILED", "MEDIAN", "95%", *([""] if width >= ROOMY else []))
    return _table("Tools", head, rows, paint)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], paint: Paint) -> str:
    if not rows:
        return ""
    text = paint("bold", title) + "\n" + table(head, rows[:ROWS], paint, right=[name for name in head[1:] if name])
    if len(rows) > ROWS:
        text += paint("dim", paint.fit(f"… and {len(rows) - ROWS:,} more; --json shows all")) + "\n"
    return text


def _troubles(insights: Insights, paint: Paint) -> str:
    """Failures by kind; those of tools stand in their table."""
    found = [trouble for trouble in insights.statistics.troubles if trouble.where != "tool"]
    return _table("Failures", ("KIND", "COUNT", "LAST"), [_trouble(trouble) for trouble in found], paint)


def _trouble(trouble: Trouble) -> tuple[str, str, str]:
    words = {"request": "request", "run": "run ended"}
    kind = cut(f"{words.get(trouble.where, trouble.where)}: {one_line(trouble.kind)}", ROOMY - 20)
    return kind, f"{trouble.count:,}", f"{local(trouble.last):%Y-%m-%d %H:%M}"


def _sessions(title: str, found: Sequence[SessionUse], paint: Paint) -> str:
    if len(found) < 2:  # noqa: PLR2004 - the only one needs no rank
        return ""
    rows = [
        (
            use.session.id,
            cost(use.spending),
            short(use.spending.usage.total),
            duration(use.counts.seconds),
            one_line(use.session.title) or "-",
        )
        for use in found[:TOP]
    ]
    head = ("ID", "COST", "TOKENS", "TIME", "TITLE")
    return paint("bold", title) + "\n" + table(head, rows, paint, right=head[1:4])
