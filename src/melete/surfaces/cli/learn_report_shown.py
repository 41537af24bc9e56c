"""The learning report as text, to be read from the top."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from melete.app.figures import money, percent, plural, short
from melete.app.learn_figures import STATES, brings, controls, course, reviews_cost, share_text, together
from melete.surfaces.cli.output import one_line
from melete.surfaces.cli.paint import Paint, cut
from melete.surfaces.cli.table import table

if TYPE_CHECKING:
    from melete.app.learn_report import Effect, Meeting, Report

ROWS = 10
EACH = 3
NAME = 40


def report_text(found: "Report", paint: Paint) -> str:
    """Everything that there is; a line where there is nothing."""
    parts = [
        *_sums(found, paint),
        *_trend(found, paint),
        *_effects(found, paint),
        *_proposals(found, paint),
        *_reviews(found, paint),
        *_debts(found, paint),
    ]
    if not parts:
        return "Nothing was learned or measured yet: work, and ask again; `melete learn work` looks at finished work now.\n"
    return "\n".join(parts) + paint("dim", "melete learn report --html FILE tells what is measured, and what is not\n")


def _sums(found: "Report", paint: Paint) -> Iterator[str]:
    if not (found.sessions or found.reviews.rows or found.proposals.rows):
        return
    many = len(found.reviews.rows)
    rows = [
        ("Measured", f"{found.trend.tasks:,} tasks in {found.sessions:,} {plural(found.sessions, 'session')}"),
        ("Exposures", f"{found.outcomes:,} with an outcome, {found.followed:,} followed, {found.withheld:,} withheld"),
        ("Reviews", f"{many:,}: {reviews_cost(found)}" if many else "none"),
        ("Share", share_text(found)),
    ]
    yield paint("bold", "Learning") + "\n" + table(("", ""), rows, paint)


def _trend(found: "Report", paint: Paint) -> Iterator[str]:
    met = [one for one in found.trend.meetings if one.tasks]
    if not met:
        return
    head = ("MEETING", "TASKS", "CALLS", "WORK", "DONE", "CORRECTED", "IN A NEW SESSION")
    body = table(head, [_meeting(one) for one in met], paint, right=head[1:])
    lines = "".join(f"{line}\n" for line in course(found.trend))
    yield f"{paint('bold', 'Calls a task, by how often its class was met')}\n{body}{paint('dim', lines)}"


def _meeting(one: "Meeting") -> Sequence[str]:
    fresh = f"{one.afresh_work:.1f} ({one.afresh:,})" if one.afresh else "-"
    return (
        one.label, f"{one.tasks:,}", f"{one.calls:.1f}", f"{one.work:.1f}", percent(one.done), percent(one.corrected), fresh
    )  # fmt: skip


def _effects(found: "Report", paint: Paint) -> Iterator[str]:
    used = [one for one in found.effects if one.judged != "not_used"]
    if not used:
        return
    head = ("LESSON", "LISTED", "SUGGESTED", "LOADED", "FOLLOWED", "WHAT IT BRINGS")
    body = table(head, [_effect(one) for one in used[:ROWS]], paint, right=head[1:5])
    more = len(found.effects) - len(used[:ROWS])
    rest = (
        f"… and {more:,} more skills and entries, {len(found.effects) - len(used):,} of them never loaded; --json shows all\n"
        if more
        else ""
    )
    said = paint("dim", f"{rest}{together(found)}\n{controls(found)}")
    yield f"{paint('bold', 'Lessons')}\n{body}{said}\n"


def _effect(one: "Effect") -> Sequence[str]:
    name = one.name if one.target == "skill" else f"memory: {one.text or one.name}"
    counts = (one.listed, one.suggested, one.loaded, one.followed.number)
    return (cut(one_line(name), NAME), *(f"{count:,}" for count in counts), brings(one))


def _proposals(found: "Report", paint: Paint) -> Iterator[str]:
    proposals = found.proposals
    if not proposals.rows:
        return
    states = ", ".join(
        f"{proposals.by_state[state]} {words}" for state, words in STATES.items() if state in proposals.by_state
    )
    stopped = ", ".join(f"{gate} {count}" for gate, count in proposals.stopped.items())
    rows = [("Where they stand", states), *([("Stopped by", stopped)] if stopped else [])]
    yield f"{paint('bold', 'Proposals')}\n{table(('', ''), rows, paint)}"


def _reviews(found: "Report", paint: Paint) -> Iterator[str]:
    reviews = found.reviews
    if not reviews.rows:
        return
    head = ("WHEN", "STATUS", "TOKENS", "COST", "PROPOSED", "SESSION", "WHY")
    rows = [
        (
            one.at[:16].replace("T", " "), one.status.replace("_", " "), short(one.usage.total),
            "unknown" if one.usd is None else money(one.usd), f"{reviews.proposed.get(one.id, 0)}", one.session,
            one_line(one.error or one.why),
        )
        for one in reviews.rows[:ROWS]
    ]  # fmt: skip
    yield f"{paint('bold', 'Reviews')}\n{table(head, rows, paint, right=('TOKENS', 'COST', 'PROPOSED'))}"


def _debts(found: "Report", paint: Paint) -> Iterator[str]:
    if not found.debts:
        return
    head = ("WEIGHT", "SESSION", "SIGNAL", "VERB", "WHAT")
    rows = [
        (f"+{debt.weight}", one.session, debt.signal, one_line(debt.verb), one_line(debt.what))
        for one in found.debts[:ROWS]
        for debt in one.signals[:EACH]
    ]
    total = sum(one.weight for one in found.debts)
    title = f"Open debts: {total} in {len(found.debts)} {plural(len(found.debts), 'session')}"
    yield f"{paint('bold', title)}\n{table(head, rows, paint, right=('WEIGHT',))}"
