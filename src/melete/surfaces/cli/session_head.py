"""What is known of a session as a whole: its model, times and price, and the sessions that it comes from and led to."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from melete.core.event import Fact, Opened, Reply, RunStarted
from melete.core.segments import Segment, segments
from melete.core.session import SessionInfo
from melete.core.steps import Step
from melete.surfaces.cli.output import one_line
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.render import usage_text
from melete.surfaces.cli.tables import ago

MOST = 5
"""Relatives, or models, that are named one by one."""


class Whole(Struct, frozen=True, kw_only=True):
    """A session with everything that its head shows; `kin` are the other sessions of its chain."""

    info: SessionInfo
    facts: Sequence[Fact]
    steps: Sequence[Step]
    kin: Sequence[SessionInfo] = ()


def head_lines(whole: Whole, paint: Paint, *, now: datetime, redact: Callable[[str], str]) -> Iterator[str]:
    """Lines without their ends: the title, then what there is to say."""
    info = whole.info
    yield paint("bold", paint.fit(redact(one_line(info.title)) or "untitled"))
    for parts in (
        (info.id, info.source, info.cwd),
        (_times(info, now), "runs now" if info.running else ""),
        (*_counts(whole), usage_text(info.usage), cost_text(info)),
        (_models(whole.facts), _environments(whole.facts)),
        (_origin(whole),),
        (_named("forks", _forks(whole)),),
        (_named("children", [row.id for row in whole.kin if row.parent == info.id]),),
    ):
        if text := " · ".join(one_line(part) for part in parts if part):
            yield paint("dim", redact(text))
    for line in segment_lines(segments(whole.facts, info.id), whole.steps):
        yield paint("dim", paint.fit(redact(line)))


def cost_text(info: SessionInfo) -> str:
    """What the session has cost, and how well that is known; empty when nothing was asked."""
    if info.cost_usd is None:
        return "price unknown" if info.usage.total else ""
    source = f", {info.cost_source}" if info.cost_source else ""
    how = {
        "estimated": f" (estimated{source})",
        "partial": f" at least (some prices are unknown{source})",
        "actual": " (as the provider says)",
    }.get(info.cost_status, "")
    return f"${info.cost_usd:.4f}{how}"


def _times(info: SessionInfo, now: datetime) -> str:
    begun, changed = f"{info.started:%Y-%m-%d %H:%M}", f"{info.updated:%Y-%m-%d %H:%M}"
    end = changed if info.updated.date() != info.started.date() else f"{info.updated:%H:%M}"
    return (
        f"{begun} to {end} UTC ({ago(info.updated, now)})"
        if changed != begun
        else f"{begun} UTC ({ago(info.updated, now)})"
    )


def _counts(whole: Whole) -> Iterator[str]:
    runs = sum(isinstance(fact, RunStarted) for fact in whole.facts)
    calls = sum(len(step.tools) for step in whole.steps)
    for count, name in (
        (whole.info.messages, "message"),
        (len(whole.steps), "step"),
        (runs, "run"),
        (calls, "tool call"),
    ):
        yield f"{count:,} {name}{'' if count == 1 else 's'}"


def _models(facts: Sequence[Fact]) -> str:
    """The models that were asked, in order."""
    names: dict[str, None] = {}
    for fact in facts:
        if isinstance(fact, RunStarted) and fact.model:
            names[f"{fact.provider}/{fact.model}" if fact.provider else fact.model] = None
        elif isinstance(fact, Reply) and fact.model and not any(name.endswith(fact.model) for name in names):
            names[fact.model] = None
    return _some("answered by", list(names))


def _environments(facts: Sequence[Fact]) -> str:
    """Where its commands ran, in order."""
    return _some("commands in", list(dict.fromkeys(f.env for f in facts if isinstance(f, RunStarted) and f.env)))


def _origin(whole: Whole) -> str:
    opened = next((fact for fact in whole.facts if isinstance(fact, Opened)), Opened())
    if opened.forked_from:
        step = sum(step.end <= opened.copied for step in whole.steps)
        return f"forked from {opened.forked_from} {_at(step)}"
    return f"part of {opened.parent}" if opened.parent else ""


def _forks(whole: Whole) -> list[str]:
    return [
        f"{row.id} {_at(sum(step.end <= row.forked_at for step in whole.steps))}"
        for row in whole.kin
        if row.forked_from == whole.info.id
    ]


def _at(step: int) -> str:
    return f"at step {step}" if step else "before step 1"


def segment_lines(found: Sequence[Segment], steps: Sequence[Step], *, most: int = MOST) -> Iterator[str]:
    """The parts of a conversation that was shortened, a line each below its parent; the last `most` of them, and the first."""
    if len(found) == 1:
        return
    many = len(found) - 1
    yield f"shortened {many:,} time{'' if many == 1 else 's'}; --segment N or ID shows a part as it was:"
    left_out = max(0, len(found) - 1 - most)
    for one in found:
        if one.number == 2 and left_out:  # noqa: PLR2004 - the first child
            yield f"   … {left_out:,} more: --segments lists all"
        if one.number == 1 or one.number > left_out + 1:
            yield f"{'└─ ' if one.parent else ''}{_segment(one, steps)}"


def _segment(one: Segment, steps: Sequence[Step]) -> str:
    mine = [step.number for step in steps if one.first <= step.reply <= one.last]
    which = f"steps {mine[0]}-{mine[-1]}" if len(mine) > 1 else f"step {mine[0]}" if mine else "no step"
    parts = [f"{one.number} {one.id}", which, f"{one.at:%Y-%m-%d %H:%M}"]
    if one.parent:
        parts += [f"{one.tokens_before:,} → {one.tokens_after:,} tokens", one_line(one.how)]
    return " · ".join(part for part in parts if part)


def _named(name: str, found: Sequence[str]) -> str:
    return _some(f"{name}:", found)


def _some(name: str, found: Sequence[str]) -> str:
    more = f" and {len(found) - MOST} more" if len(found) > MOST else ""
    return f"{name} {', '.join(found[:MOST])}{more}" if found else ""
