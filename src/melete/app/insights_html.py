"""Insights as one HTML file with charts: nothing is fetched, no script runs, light or dark. Part of the composition root."""

from collections.abc import Callable, Iterator, Sequence

from melete.app.figures import cost, cost_in_words, day_text, duration, local, money, percent, plural, short
from melete.app.html_page import Cell, cards, coded, legend, section, table, whole
from melete.app.insights import Insights, Period, periods, span
from melete.app.insights_svg import Series, bar, columns, highest, safe, ticks, week
from melete.core.statistics import SessionUse, Spending

HOURS, WEEK = 24, 7
CLASSES = (("c1", "read anew"), ("c2", "read from a cache"), ("c3", "written into a cache"), ("c4", "written"))


def page(insights: Insights) -> str:
    """The whole page."""
    body = _nothing(insights) if insights.empty else "".join(_body(insights))
    made = f"Made by Melete on {local(insights.now):%Y-%m-%d %H:%M}. Days and hours are local ones."
    return whole(f"Insights: {span_text(insights)}", body, made)


def span_text(insights: Insights) -> str:
    """The days that are shown, in words."""
    first, last = insights.first_day, insights.last_day
    if first == last:
        return day_text(first, year=True)
    return f"{day_text(first, year=first.year != last.year)} to {day_text(last, year=True)}"


def _nothing(insights: Insights) -> str:
    return f"<section><p>Nothing happened in this time: {safe(span_text(insights))}.</p></section>\n"


def _body(insights: Insights) -> Iterator[str]:
    found = insights.statistics
    yield _cards(insights)
    if insights.remarks:
        lines = "".join(
            f"<li>{coded(remark.text)}{f'<span>{coded(remark.next)}</span>' if remark.next else ''}</li>"
            for remark in insights.remarks
        )
        yield section("What stands out", f'<ul class="remarks">{lines}</ul>')
    yield _over_time(insights)
    yield _week(insights)
    yield section("Models", _models(insights))
    yield section("Tools", _tools(insights))
    yield '<div class="pair">'
    yield section("How runs ended", _stops(found.stops))
    yield section("Where the money went", _work(insights))
    yield section("Failures", _troubles(insights))
    yield section("Sources", _sources(insights))
    yield "</div>\n"
    yield section("Dearest sessions", _sessions(found.dearest))
    yield section("Longest sessions", _sessions(found.longest))


# ---- sums ------------------------------------------------------------------------------------------------------------


def _cards(insights: Insights) -> str:
    counts, spending, streak = insights.statistics.counts, insights.statistics.spending, insights.streak
    _, _, how = cost_in_words(spending).partition(money(spending.usd) if spending.usd is not None else "unknown: ")
    saved = "" if insights.saved_usd is None else f"; {_saved(insights.saved_usd)}"
    rows = (
        ("Cost", cost(spending), how.strip(" ,:") or "nothing was charged"),
        (
            "Tokens",
            short(spending.usage.total),
            f"{short(spending.prompt)} read, {short(spending.usage.output)} written",
        ),
        ("From a cache", percent(spending.cache_share), f"of what was read{saved}"),
        (
            "Sessions",
            f"{counts.sessions:,}",
            f"{counts.said:,} {plural(counts.said, 'prompt')}, {counts.messages:,} messages",
        ),
        (
            "Time in runs",
            duration(counts.seconds),
            f"{counts.runs:,} {plural(counts.runs, 'run')}, {counts.steps:,} steps",
        ),
        ("Days with work", f"{streak.days:,}", f"at most {streak.longest:,} in a row"),
    )
    return cards(rows)


def _saved(usd: float) -> str:
    return f"about {money(usd)} saved" if usd >= 0 else f"{money(-usd)} lost by writing to it"


def _stops(stops: dict[str, int]) -> str:
    total = sum(stops.values())
    rows = [
        (
            ("", safe(stop.replace("_", " ") or "without an end")),
            ("n", f"{count:,}"),
            ("", bar([("bad" if stop in ("failed", "") else "c1", count / total)], title=percent(count / total))),
        )
        for stop, count in sorted(stops.items(), key=lambda way: -way[1])
    ]
    return table(("", "Runs", ""), rows)


def _work(insights: Insights) -> str:
    found = insights.statistics
    spent = [(use.role.replace("main", "conversations"), use.spending) for use in found.roles]
    rows = [(("", safe(name)), *_cells(spending)) for name, spending in spent]
    if found.discarded.requests:
        name = "answers thrown away before another try, part of the above"
        rows.append((("dim", safe(name)), *_cells(found.discarded)))
    return table(("", "Requests", "Tokens", "Cost"), rows)


def _cells(spending: Spending) -> tuple[Cell, ...]:
    return ("n", f"{spending.requests:,}"), ("n", short(spending.usage.total)), ("n", safe(cost(spending)))


def _sources(insights: Insights) -> str:
    rows = [
        (("", safe(use.source or "unknown")), ("n", f"{use.counts.sessions:,}"), *_cells(use.spending))
        for use in insights.statistics.sources
    ]
    return table(("", "Sessions", "Requests", "Tokens", "Cost"), rows)


def _troubles(insights: Insights) -> str:
    rows = [
        (
            ("", safe(f"{trouble.where}: {trouble.kind}")),
            ("n", f"{trouble.count:,}"),
            ("n dim", f"{local(trouble.last):%Y-%m-%d %H:%M}"),
        )
        for trouble in insights.statistics.troubles
    ]
    return table(("", "Times", "Last"), rows)


# ---- charts and tables -----------------------------------------------------------------------------------------------


def _over_time(insights: Insights) -> str:
    found = periods(insights)
    each = span(insights)
    usages = [period.spending.usage for period in found]
    values = ([float(getattr(u, name)) for u in usages] for name in ("input", "cache_read", "cache_write", "output"))
    classes = [
        Series(name=name, style=style, values=part)
        for (style, name), part in zip(CLASSES, values, strict=True)
        if any(part)
    ]
    text = section(f"Tokens per {each}", _columns(found, classes, short) + legend(classes) if classes else "")
    if insights.statistics.spending.usd:
        spent = Series(name="cost", style="c1", values=[period.spending.usd or 0.0 for period in found])
        unknown = insights.statistics.spending.unpriced
        note = f'<p class="dim">{unknown:,} requests of unknown price are not in it.</p>' if unknown else ""
        text = section(f"Cost per {each}", _columns(found, [spent], money) + note) + text
    return text


def _columns(found: Sequence[Period], series: Sequence[Series], words: Callable[[float], str]) -> str:
    labels = [day_text(period.start) for period in found]
    titles = [
        f"{day_text(p.start, year=True)}{'' if p.start == p.end else f' to {day_text(p.end, year=True)}'}: "
        f"{cost(p.spending)}, {short(p.spending.usage.total)} tokens, {p.said:,} {plural(p.said, 'prompt')}"
        for p in found
    ]
    return columns(labels, series, titles=titles, figures=[words(mark) for mark in ticks(highest(series))])


def _week(insights: Insights) -> str:
    hours = insights.statistics.hours
    prompts = any(use.said for use in hours)
    grid = [[0] * HOURS for _ in range(WEEK)]
    for use in hours:
        grid[use.weekday][use.hour] = use.said if prompts else use.requests
    if not any(map(any, grid)):
        return ""
    thing = "prompt" if prompts else "request"
    return section(f"{thing.capitalize()}s by hour of the week", week(grid, thing=thing))


def _models(insights: Insights) -> str:
    found = insights.statistics.models
    most = max((use.spending.usage.total for use in found), default=0) or 1
    rows = [
        (
            ("", f'{safe(use.model or "-")} <span class="dim">{safe(use.provider)}</span>'),
            *_cells(use.spending),
            ("n", percent(use.spending.cache_share)),
            ("dim", safe(use.source)),
            ("", bar([("c1", use.spending.usage.total / most)], title=f"{use.spending.usage.total:,} tokens")),
        )
        for use in found
    ]
    return table(("", "Requests", "Tokens", "Cost", "Cached", "Price from", ""), rows)


def _tools(insights: Insights) -> str:
    found = insights.statistics.tools
    most = max((use.calls for use in found), default=0) or 1
    rows = [
        (
            ("", f"<code>{safe(use.name or '-')}</code>"),
            ("n", f"{use.calls:,}"),
            ("n", f"{use.errors:,} ({percent(use.errors / use.calls)})" if use.errors else "-"),
            ("n", duration(use.median)),
            ("n", duration(use.p95)),
            ("n", duration(use.seconds)),
            (
                "",
                bar(
                    [("c1", (use.calls - use.errors) / most), ("bad", use.errors / most)], title=_outcomes(use.outcomes)
                ),
            ),
        )
        for use in found
    ]
    return table(("", "Calls", "Failed", "Median", "95% within", "In all", ""), rows)


def _outcomes(outcomes: dict[str, int]) -> str:
    return ", ".join(f"{outcome.replace('_', ' ')} {count:,}" for outcome, count in outcomes.items())


def _sessions(found: Sequence[SessionUse]) -> str:
    rows = [
        (
            ("", f'{safe(use.session.title or "-")}<br><code class="dim">{safe(use.session.id)}</code>'),
            ("", safe(use.session.model or "-")),
            ("n", f"{use.counts.steps:,}"),
            ("n", short(use.spending.usage.total)),
            ("n", safe(cost(use.spending))),
            ("n", duration(use.counts.seconds)),
        )
        for use in found
    ]
    return table(("", "Model", "Steps", "Tokens", "Cost", "Time"), rows)
