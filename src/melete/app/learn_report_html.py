"""The learning report as one HTML file: what is measured, what is not, and how many cases each figure is from. Composition root."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from melete.app.figures import local, money, percent, plural, short
from melete.app.html_page import Cell, cards, coded, legend, section, table, whole
from melete.app.insights_svg import Series, bar, columns, highest, interval, safe, ticks
from melete.app.learn_figures import (
    MEASURED,
    SIGNALS,
    STATES,
    UNMEASURED,
    brings,
    controls,
    course,
    reviews_cost,
    share_text,
    together,
)

if TYPE_CHECKING:
    from melete.learn.report import Effect, Report

MOST = 50
"""Rows of a table."""
STYLES = {"helps": "c3", "harms": "bad"}


def page(found: "Report") -> str:
    """The whole page."""
    body = "".join(_body(found))
    return whole("What was learned, and what it brings", body, f"Made by Melete on {local(found.now):%Y-%m-%d %H:%M}.")


def _body(found: "Report") -> Iterator[str]:
    yield _cards(found)
    yield section("What can be said", _list(_said(found)))
    yield section("Calls a task, by how often its class was met", _meetings(found))
    yield section("Work a task, in the order of the tasks", _points(found))
    yield section("Each lesson", _effects(found))
    yield '<div class="pair">'
    yield section("Where proposals stand", _states(found))
    yield section("What stopped them", _counts(found.proposals.stopped, "Gate"))
    yield section("What gave reason to look", _signals(found))
    yield "</div>\n"
    yield section("Reviews: when, why, and what they cost", _reviews(found))
    yield section("Open debts: what no review has covered yet", _debts(found))
    yield section("What is measured", _list(MEASURED))
    yield section("What is not measured", _list(UNMEASURED))


def _cards(found: "Report") -> str:
    trend, reviews = found.trend, found.reviews
    met = [one for one in trend.meetings if one.tasks]
    first, last = (met[0], met[-1]) if met else (None, None)
    rows = (
        (
            "Work a task",
            f"{first.work:.1f} → {last.work:.1f}" if first and last else "-",
            f"{first.label} to {last.label} meeting of a class"
            if first and last and last is not first
            else "one meeting only",
        ),
        (
            "Tasks",
            f"{trend.tasks:,}",
            f"{trend.classes:,} {plural(trend.classes, 'class', many='classes')}, {found.sessions:,} sessions",
        ),
        (
            "Lessons followed",
            f"{found.followed:,}",
            f"of {found.outcomes:,} outcomes of exposures, {found.withheld:,} withheld",
        ),
        ("Review share", percent(reviews.share) if reviews.week[1] else "-", share_text(found)),
        ("Reviews", f"{len(reviews.rows):,}", reviews_cost(found)),
        (
            "Proposals",
            f"{len(found.proposals.rows):,}",
            f"{found.proposals.by_state.get('refused', 0)} refused by a gate",
        ),
    )
    return cards(rows)


def _said(found: "Report") -> Iterator[str]:
    yield from course(found.trend)
    yield together(found)
    for word in ("help", "harm"):
        names = [f"`{one.name}`" for one in found.effects if one.judged == f"{word}s"]
        many = f"{len(names)} {plural(len(names), 'lesson is', many='lessons are')}"
        yield f"{many} shown to {word}: {', '.join(names)}." if names else f"No single lesson is shown to {word}."
    few = sum(one.judged in ("too_few", "no_controls") for one in found.effects)
    yield f"For {few} {plural(few, 'lesson')} it is too early to say. {controls(found)}"


def _list(lines: Iterator[str] | Sequence[str]) -> str:
    rows = "".join(f"<li>{coded(line)}</li>" for line in lines)
    return f'<ul class="remarks">{rows}</ul>'


# ---- the course of calls ---------------------------------------------------------------------------------------------


def _meetings(found: "Report") -> str:
    met = [one for one in found.trend.meetings if one.tasks]
    if not met:
        return "<p>No task was measured yet.</p>"
    values = [
        Series(name="work: calls for what was asked", style="c1", values=[one.work for one in met]),
        Series(name="lookups in skills and memory", style="c2", values=[max(0.0, one.calls - one.work) for one in met]),
    ]
    titles = [f"{one.label}: {one.calls:.2f} calls, {one.work:.2f} of work, {one.tasks:,} tasks" for one in met]
    chart = columns(
        [f"{one.label} ({one.tasks:,} tasks)" for one in met], values, titles=titles, figures=_figures(values)
    )  # fmt: skip
    rows: list[Sequence[Cell]] = [
        (
            ("", safe(one.label)), ("n", f"{one.tasks:,}"), ("n", f"{one.calls:.2f}"), ("n", f"{one.work:.2f}"),
            ("n", percent(one.done)), ("n", percent(one.corrected)), ("n", f"{one.afresh:,}"),
            ("n", f"{one.afresh_work:.2f}" if one.afresh else "-"),
        )
        for one in met
    ]  # fmt: skip
    head = ("Meeting", "Tasks", "Calls", "Work", "Done", "Corrected", "In a new session", "Work there")
    note = (
        "A new session had not met the class before: no memory of the same conversation explains what is saved there."
    )
    return f'{chart}{legend(values)}{table(head, rows)}<p class="dim">{safe(note)}</p>'


def _points(found: "Report") -> str:
    points = found.trend.points
    if len(points) < 2:  # noqa: PLR2004 - one column is no course
        return ""
    values = [Series(name="work a task", style="c1", values=[one.work for one in points])]
    titles = [f"tasks {one.first} to {one.last}: {one.work:.2f}, {percent(one.corrected)} corrected" for one in points]
    return columns([f"{one.first}" for one in points], values, titles=titles, figures=_figures(values))


def _figures(values: Sequence[Series]) -> list[str]:
    return [f"{mark:g}" for mark in ticks(highest(values))]


# ---- lessons ---------------------------------------------------------------------------------------------------------


def _effects(found: "Report") -> str:
    used = [one for one in found.effects if one.judged != "not_used"][:MOST]
    rows = [_effect(one) for one in used]
    head = (
        "",
        "Listed",
        "Suggested",
        "Loaded",
        "Followed",
        "Compared with",
        "Gain in reward, 90 %",
        "What it brings",
    )
    more, idle = len(found.effects) - len(used), sum(one.judged == "not_used" for one in found.effects)
    note = (
        f'<p class="dim">… and {more:,} more skills and entries, {idle:,} of them never loaded; --json shows all.</p>'
        if more
        else ""
    )
    return table(head, rows) + note


def _effect(one: "Effect") -> Sequence[Cell]:
    name = (
        f"<code>{safe(one.name)}</code>"
        if one.target == "skill"
        else f'<span class="dim">memory</span> {safe(one.text or one.name)}'
    )
    gain = one.gain
    drawn = (
        interval(gain.low, gain.value, gain.high, style=STYLES.get(one.judged, "c1"))
        if gain
        else '<span class="dim">-</span>'
    )
    return (
        ("", name),
        *(("n", f"{count:,}") for count in (one.listed, one.suggested, one.loaded, one.followed.number, one.without.number)),
        ("", drawn),
        ("", safe(brings(one))),
    )  # fmt: skip


# ---- tables ----------------------------------------------------------------------------------------------------------


def _counts(counts: dict[str, int], name: str) -> str:
    total = max(counts.values(), default=0)
    rows = [
        (("", safe(word)), ("n", f"{count:,}"), ("", bar([("c1", count / total)], title=f"{count:,}")))
        for word, count in counts.items()
    ]
    return table((name, "", ""), rows)


def _states(found: "Report") -> str:
    states = found.proposals.by_state
    return _counts({words: states[state] for state, words in STATES.items() if state in states}, "State")


def _signals(found: "Report") -> str:
    return _counts({SIGNALS.get(signal, signal): count for signal, count in found.signals.items()}, "Signal")


def _reviews(found: "Report") -> str:
    reviews = found.reviews
    rows = [
        (
            ("dim", safe(one.at[:16].replace("T", " "))), ("", safe(one.status.replace("_", " "))),
            ("n", short(one.usage.total)), ("n", "unknown" if one.usd is None else money(one.usd)),
            ("n", f"{reviews.proposed.get(one.id, 0)}"), ("", f'<code class="dim">{safe(one.session)}</code>'),
            ("", coded(one.error or one.why)),
        )
        for one in reviews.rows[:MOST]
    ]  # fmt: skip
    return table(("When", "Status", "Tokens", "Cost", "Proposed", "Session", "Why"), rows)


def _debts(found: "Report") -> str:
    rows = [
        (
            ("n", f"+{debt.weight}"), ("", f'<code class="dim">{safe(one.session)}</code>'),
            ("", safe(SIGNALS.get(debt.signal, debt.signal))), ("", f"<code>{safe(debt.verb)}</code>"), ("", coded(debt.what)),
        )
        for one in found.debts[:MOST]
        for debt in one.signals
    ]  # fmt: skip
    return table(("Weight", "Session", "Signal", "Verb", "What"), rows)
