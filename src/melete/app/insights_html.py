"""Insights as one HTML file with charts: nothing is fetched, no script runs, light or dark. Part of the composition root."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from melete.app.figures import cost, cost_in_words, day_text, duration, local, money, percent, plural, short
from melete.app.insights import Insights, Period, periods, span
from melete.app.insights_svg import Series, bar, columns, highest, safe, ticks, week
from melete.core.statistics import SessionUse, Spending

STYLE = Path(__file__).with_name("insights.css")
HOURS, WEEK = 24, 7
CLASSES = (("c1", "read anew"), ("c2", "read from a cache"), ("c3", "written into a cache"), ("c4", "written"))
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
Cell = tuple[str, str]
"""The class of a table's cell and its HTML."""


def page(insights: Insights) -> str:
    """The whole page."""
    title = f"Insights: {span_text(insights)}"
    style = STYLE.read_text("utf-8")
    body = _nothing(insights) if insights.empty else "".join(_body(insights))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{safe(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{safe(title)}</h1>\n{body}"
        f"<footer>Made by Melete on {local(insights.now):%Y-%m-%d %H:%M}. Days and hours are local ones.</footer>\n"
        "</main>\n</body>\n</html>\n"
    )


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
            f"<li>{_coded(remark.text)}{f'<span>{_coded(remark.next)}</span>' if remark.next else ''}</li>"
            for remark in insights.remarks
        )
        yield _section("What stands out", f'<ul class="remarks">{lines}</ul>')
    yield _over_time(insights)
    yield _week(insights)
    yield _section("Models", _models(insights))
    yield _section("Tools", _tools(insights))
    yield '<div class="pair">'
    yield _section("How runs ended", _stops(found.stops))
    yield _section("Where the money went", _work(insights))
    yield _section("Failures", _troubles(insights))
    yield _section("Sources", _sources(insights))
    yield "</div>\n"
    yield _section("Dearest sessions", _sessions(found.dearest))
    yield _section("Longest sessions", _sessions(found.longest))


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{safe(title)}</h2>\n{body}\n</section>\n" if body else ""


def _coded(text: str) -> str:
    """Text in which what stands between backquotes is code."""
    parts = safe(text).split("`")
    if len(parts) % 2 == 0:
        return safe(text)
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


# ---- sums ------------------------------------------------------------------------------------------------------------


def _cards(insights: Insights) -> str:
    counts, spending, streak = insights.statistics.counts, insights.statistics.spending, insights.streak
    _, _, how = cost_in_words(spending).partition(money(spending.usd) if spending.usd is not None else "unknown: ")
    saved = "" if insights.saved_usd is None else f"; {_saved(insights.saved_usd)}"
    cards = (
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
    return '<div class="cards">' + "".join(
        f'<div class="card"><span>{safe(name)}</span><b>{safe(value)}</b><span>{safe(more)}</span></div>'
        for name, value, more in cards
    ) + "</div>\n"  # fmt: skip


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
    return _table(("", "Runs", ""), rows)


def _work(insights: Insights) -> str:
    found = insights.statistics
    spent = [(use.role.replace("main", "conversations"), use.spending) for use in found.roles]
    rows = [(("", safe(name)), *_cells(spending)) for name, spending in spent]
    if found.discarded.requests:
        name = "answers thrown away before another try, part of the above"
        rows.append((("dim", safe(name)), *_cells(found.discarded)))
    return _table(("", "Requests", "Tokens", "Cost"), rows)


def _cells(spending: Spending) -> tuple[Cell, ...]:
    return ("n", f"{spending.requests:,}"), ("n", short(spending.usage.total)), ("n", safe(cost(spending)))


def _sources(insights: Insights) -> str:
    rows = [
        (("", safe(use.source or "unknown")), ("n", f"{use.counts.sessions:,}"), *_cells(use.spending))
        for use in insights.statistics.sources
    ]
    return _table(("", "Sessions", "Requests", "Tokens", "Cost"), rows)


def _troubles(insights: Insights) -> str:
    rows = [
        (
            ("", safe(f"{trouble.where}: {trouble.kind}")),
            ("n", f"{trouble.count:,}"),
            ("n dim", f"{local(trouble.last):%Y-%m-%d %H:%M}"),
        )
        for trouble in insights.statistics.troubles
    ]
    return _table(("", "Times", "Last"), rows)


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
    text = _section(f"Tokens per {each}", _columns(found, classes, short) + _legend(classes) if classes else "")
    if insights.statistics.spending.usd:
        spent = Series(name="cost", style="c1", values=[period.spending.usd or 0.0 for period in found])
        unknown = insights.statistics.spending.unpriced
        note = f'<p class="dim">{unknown:,} requests of unknown price are not in it.</p>' if unknown else ""
        text = _section(f"Cost per {each}", _columns(found, [spent], money) + note) + text
    return text


def _columns(found: Sequence[Period], series: Sequence[Series], words: Callable[[float], str]) -> str:
    labels = [day_text(period.start) for period in found]
    titles = [
        f"{day_text(p.start, year=True)}{'' if p.start == p.end else f' to {day_text(p.end, year=True)}'}: "
        f"{cost(p.spending)}, {short(p.spending.usage.total)} tokens, {p.said:,} {plural(p.said, 'prompt')}"
        for p in found
    ]
    return columns(labels, series, titles=titles, figures=[words(mark) for mark in ticks(highest(series))])


def _legend(series: Sequence[Series]) -> str:
    square = '<svg viewBox="0 0 10 10"><rect class="{}" width="10" height="10" rx="2"/></svg>'
    return f'<div class="legend">{"".join(f"<span>{square.format(one.style)}{safe(one.name)}</span>" for one in series)}</div>'


def _week(insights: Insights) -> str:
    hours = insights.statistics.hours
    prompts = any(use.said for use in hours)
    grid = [[0] * HOURS for _ in range(WEEK)]
    for use in hours:
        grid[use.weekday][use.hour] = use.said if prompts else use.requests
    if not any(map(any, grid)):
        return ""
    thing = "prompt" if prompts else "request"
    return _section(f"{thing.capitalize()}s by hour of the week", week(grid, thing=thing))


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
    return _table(("", "Requests", "Tokens", "Cost", "Cached", "Price from", ""), rows)


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
    return _table(("", "Calls", "Failed", "Median", "95% within", "In all", ""), rows)


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
    return _table(("", "Model", "Steps", "Tokens", "Cost", "Time"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A table; a heading stands as the cells below it do. Nothing where there are no rows."""
    if not rows:
        return ""
    styles = ["n" if style.startswith("n") else "" for style, _ in rows[0]]
    names = "".join(f'<th class="{style}">{safe(name)}</th>' for style, name in zip(styles, head, strict=True))
    lines = "".join("<tr>" + "".join(f'<td class="{s}">{html}</td>' for s, html in row) + "</tr>\n" for row in rows)
    return f'<div class="scroll"><table>\n<thead><tr>{names}</tr></thead>\n<tbody>\n{lines}</tbody></table></div>'
