"""What learning has brought, from the home's ledger: debts, reviews, proposals, effects, and calls a task. Pure.

Nothing is said that the numbers do not carry: each figure comes with how many cases it is from. A lesson is judged once enough uses
have followed it and there are enough tasks of the same classes without it.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from statistics import NormalDist, fmean
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct, structs

from melete.learn.debts import Debts
from melete.learn.facts import Debt, Outcome, Review, Task, facts_of
from melete.learn.inbox import Item, inbox
from melete.learn.share import Share, weight
from melete.learn.verbs import taught

T = TypeVar("T")
Row = Mapping[str, Any]
NONE: Final[Mapping[str, str]] = {}
ENOUGH: Final = 8
"""Uses that followed a lesson from which on it is judged."""
CONTROLS: Final = 3
"""Tasks of the same classes without it that it is then compared with."""
SURE: Final = 0.9
DOUBT: Final = 0.25
"""A squared deviation that is added to those of a sample: a few equal values are not certain."""
QUANTILE: Final = NormalDist().inv_cdf(0.95)
"""Of an interval that holds nine of ten."""
SECOND, FIFTH = 2, 5
POINTS: Final = 24
"""Columns of the course of all tasks at most."""
Judged = Literal["helps", "harms", "no_difference", "too_few", "no_controls", "not_followed", "no_commands", "not_used"]


class Open(Struct, frozen=True, kw_only=True):
    """A session with debts that no review has covered yet."""

    session: str
    weight: int
    signals: tuple[Debt, ...]


class Reviews(Struct, frozen=True, kw_only=True):
    """All reviews, each once as it stands, the last first; `week` are tokens of reviews and of everything in the last seven days.

    Cache reads count a tenth in both. `proposed` is how many proposals each review made.
    """

    rows: tuple[Review, ...] = ()
    by_status: dict[str, int] = {}
    proposed: dict[str, int] = {}
    tokens: int = 0
    usd: float | None = None
    unpriced: int = 0
    week: tuple[int, int] = (0, 0)
    allowed: float = 0.0

    @property
    def share(self) -> float:
        """What reviews took of the tokens of the week."""
        return self.week[0] / self.week[1] if self.week[1] else 0.0


class Proposals(Struct, frozen=True, kw_only=True):
    """Proposals by where they stand, and how many each gate has stopped; those of an import or a person are among them."""

    by_state: dict[str, int] = {}
    stopped: dict[str, int] = {}
    rows: tuple[Item, ...] = ()


class Mean(Struct, frozen=True, kw_only=True):
    """A mean of `number` cases with the ends of its interval of 90 %."""

    number: int
    value: float
    low: float
    high: float


class Used(Struct, frozen=True, kw_only=True):
    """What came of the followed uses of a lesson, with one model or with all: rewards, calls a task, and shares of turns."""

    model: str = ""
    number: int = 0
    reward: Mean | None = None
    calls: float = 0.0
    done: float = 0.0
    corrected: float = 0.0


class Effect(Struct, frozen=True, kw_only=True):
    """A lesson and what it brings. `listed` are sessions whose prompt named it, `suggested` and `loaded` turns.

    `followed` are turns with enough of it in their calls, which alone give it credit; `without` are tasks of the same classes from
    before its first such turn, or from which it was withheld. `gain` is the difference of their rewards, `better` the probability
    that it is above nothing. `measured` says that it teaches anything that can be seen in a call.
    """

    target: Literal["skill", "memory"]
    name: str
    text: str = ""
    listed: int = 0
    suggested: int = 0
    loaded: int = 0
    measured: bool = False
    followed: Used = Used()
    without: Used = Used()
    gain: Mean | None = None
    better: float | None = None
    models: tuple[Used, ...] = ()
    judged: Judged = "not_used"
    verdict: str = ""


class Meeting(Struct, frozen=True, kw_only=True):
    """Tasks by how often their class was met; `calls` are all calls, `work` those without lookups in skills and memory.

    `afresh` are those in sessions that had not met the class before, with their mean work, which no memory of the same conversation
    explains.
    """

    label: str
    tasks: int = 0
    calls: float = 0.0
    work: float = 0.0
    done: float = 0.0
    corrected: float = 0.0
    afresh: int = 0
    afresh_work: float = 0.0


class Point(Struct, frozen=True, kw_only=True):
    """A stretch of tasks in their order: the first and last of them, their mean work, and the share that was corrected."""

    first: int
    last: int
    work: float
    corrected: float


class Trend(Struct, frozen=True, kw_only=True):
    """Calls a task over time: by meeting, by stretch, and by pairs of a class's first meeting with its later ones.

    `chance` is how often as many classes would take fewer calls if learning did nothing, by the sign test.
    """

    tasks: int = 0
    classes: int = 0
    meetings: tuple[Meeting, ...] = ()
    points: tuple[Point, ...] = ()
    fewer: int = 0
    same: int = 0
    more: int = 0
    saved: Mean | None = None
    chance: float | None = None


class Report(Struct, frozen=True, kw_only=True):
    """All of it; `withheld` is how many exposures were withheld as controls.

    `together` is the mean, over all lessons that were followed and have anything to compare with, of what each gains in reward.
    """

    now: datetime
    sessions: int = 0
    debts: tuple[Open, ...] = ()
    signals: dict[str, int] = {}
    reviews: Reviews = Reviews()
    proposals: Proposals = Proposals()
    effects: tuple[Effect, ...] = ()
    together: Mean | None = None
    trend: Trend = Trend()
    outcomes: int = 0
    followed: int = 0
    withheld: int = 0


def report(rows: Sequence[Row], *, now: datetime, day_share: float, texts: Mapping[str, str] = NONE) -> Report:
    """The report of a ledger; `texts` are what the entries of memory say, by their id."""
    debts = Debts()
    debts.take(rows)
    tasks = _latest(facts_of(Task, rows), lambda one: (one.session, one.turn))
    found = _latest(facts_of(Outcome, rows), lambda one: (one.session, one.turn, one.target, one.name, one.how))
    items = tuple(reversed(inbox(rows)))
    open_ = [
        Open(session=one.session, weight=one.weight, signals=one.debts) for one in debts.sessions.values() if one.debts
    ]
    effects = tuple(_effects(rows, tasks, found, texts or {}))
    return Report(
        now=now,
        sessions=len({one.session for one in tasks}),
        debts=tuple(sorted(open_, key=lambda one: -one.weight)),
        signals=dict(Counter(one.signal for one in facts_of(Debt, rows)).most_common()),
        reviews=_reviews(rows, items, now=now, allowed=day_share),
        proposals=_proposals(items),
        effects=effects,
        together=_together(effects),
        trend=_trend(tasks),
        outcomes=len(found),
        followed=sum(one.credited for one in found),
        withheld=sum(one.arm == "control" for one in found),
    )


def _latest(rows: Iterable[T], key: Callable[[T], object]) -> list[T]:
    """Each thing as it was told last, in the order in which it was told first."""
    return list({key(one): one for one in rows}.values())


# ---- reviews and proposals -------------------------------------------------------------------------------------------


def _reviews(rows: Sequence[Row], items: Sequence[Item], *, now: datetime, allowed: float) -> Reviews:
    found = _latest(facts_of(Review, rows), lambda one: one.id)
    share = Share(allowed)
    share.take(rows)
    paid = [one for one in found if one.usage.total]
    priced = [one.usd for one in paid if one.usd is not None]
    return Reviews(
        rows=tuple(reversed(found)),
        by_status=dict(Counter(one.status for one in found)),
        proposed=dict(Counter(item.proposal.review for item in items if item.proposal.review)),
        tokens=sum(weight(one.usage) for one in found),
        usd=sum(priced) if priced else None,
        unpriced=len(paid) - len(priced),
        week=share.week(now),
        allowed=allowed,
    )


def _proposals(items: Sequence[Item]) -> Proposals:
    stopped = Counter(
        verdict.gate
        for item in items
        for verdict in [next((one for one in item.proposal.verdicts if not one.ok or one.needs_person), None)]
        if verdict and item.proposal.status != "trial"
    )
    return Proposals(
        by_state=dict(Counter(item.state for item in items)), stopped=dict(stopped.most_common()), rows=tuple(items)
    )  # fmt: skip


# ---- effects ---------------------------------------------------------------------------------------------------------


def _effects(
    rows: Sequence[Row], tasks: Sequence[Task], found: Sequence[Outcome], texts: Mapping[str, str]
) -> list[Effect]:
    """Each skill and entry of memory that was ever shown, the most followed first."""
    shown = _shown(rows)
    uses: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for one in found:
        uses[one.target, one.name].append(one)
    made: list[Effect] = []
    for target, name in {**dict.fromkeys(uses), **dict.fromkeys(shown)}:
        counts = shown.get((target, name), Counter[str]())
        bare = Effect(
            target="skill" if target == "skill" else "memory", name=name, text=texts.get(name, ""),
            listed=counts["listed"], suggested=counts["retrieved"], loaded=counts["loaded"] + counts["pinned"],
        )  # fmt: skip
        made.append(_judged(_compared(bare, uses.get((target, name), []), tasks)))
    return sorted(made, key=lambda one: (-one.followed.number, -one.loaded, -one.listed, one.target, one.name))


def _shown(rows: Sequence[Row]) -> dict[tuple[str, str], Counter[str]]:
    """How often each was shown, and how, by what was told of exposures."""
    lists: dict[str, Sequence[Any]] = {}
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter[str])
    for row in rows:
        if row["kind"] == "skill.exposure":
            here = lists.setdefault(row["list"], row.get("skills", ())) if row.get("list") else row.get("skills", ())
            how = "listed" if row["how"] == "index" else str(row["how"])
            for name, *_ in here:
                found["skill", name][how] += 1
        elif row["kind"] == "memory.exposure":
            for name, *_ in row.get("entries", ()):
                found["memory", name]["listed"] += 1
    return found


def _compared(bare: Effect, uses: Sequence[Outcome], tasks: Sequence[Task]) -> Effect:
    """With what came of the uses that followed it, beside tasks of the same classes without it."""
    credited = [one for one in uses if one.credited]
    measured = any(one.followed is not None for one in uses) or bool(taught(bare.text))
    if not credited:
        return structs.replace(bare, measured=measured)
    classes = {one.task for one in credited}
    begun = {(one.session, one.turn) for one in credited}
    held = {(one.session, one.turn) for one in uses if one.arm == "control"}
    first = next((place for place, one in enumerate(tasks) if (one.session, one.turn) in begun), 0)
    without = [
        one
        for place, one in enumerate(tasks)
        if one.task in classes and (place < first or (one.session, one.turn) in held)
    ]
    models = Counter(one.model for one in credited)
    gain, better = _difference([one.reward for one in credited], [one.reward for one in without])
    return structs.replace(
        bare, measured=measured, followed=_used(credited), without=_used(without), gain=gain, better=better,
        models=tuple(_used([one for one in credited if one.model == model], model) for model, _ in models.most_common()),
    )  # fmt: skip


def _used(cases: Sequence[Outcome | Task], model: str = "") -> Used:
    if not cases:
        return Used(model=model)
    return Used(
        model=model, number=len(cases), reward=_mean([one.reward for one in cases]),
        calls=_average(one.calls for one in cases), done=_average(one.done for one in cases),
        corrected=_average(one.corrected for one in cases),
    )  # fmt: skip


def _average(values: Iterable[float]) -> float:
    found = list(values)
    return round(fmean(found), 4) if found else 0.0


def _spread(values: Sequence[float]) -> float:
    """The variance of a mean."""
    middle = fmean(values)
    return (sum((value - middle) ** 2 for value in values) + DOUBT) / len(values) ** 2


def _mean(values: Sequence[float], *, spread: float | None = None, value: float | None = None) -> Mean:
    middle = fmean(values) if value is None else value
    wide = QUANTILE * math.sqrt(_spread(values) if spread is None else spread)
    return Mean(number=len(values), value=round(middle, 4), low=round(middle - wide, 4), high=round(middle + wide, 4))


def _difference(these: Sequence[float], others: Sequence[float]) -> tuple[Mean | None, float | None]:
    """How much better these are, and how sure it is that they are; nothing where either are too few."""
    if len(these) < ENOUGH or len(others) < CONTROLS:
        return None, None
    spread = _spread(these) + _spread(others)
    gain = fmean(these) - fmean(others)
    return _mean(these, spread=spread, value=gain), round(NormalDist().cdf(gain / math.sqrt(spread)), 4)


def _together(effects: Sequence[Effect]) -> Mean | None:
    gains = [
        one.followed.reward.value - one.without.reward.value
        for one in effects
        if one.followed.reward and one.without.reward
    ]  # fmt: skip
    return _mean(gains) if gains else None


def _judged(one: Effect) -> Effect:
    """With a verdict in plain words."""
    word, text = _verdict(one)
    return structs.replace(one, judged=word, verdict=text)


def _verdict(one: Effect) -> tuple[Judged, str]:
    many = one.followed.number  # what was loaded once may be followed in several turns
    used = max(many, one.loaded) if one.target == "skill" else one.listed
    thing = "use" if one.target == "skill" else "session"
    uses = f"{used:,} {thing}{'' if used == 1 else 's'}"
    if many >= ENOUGH:
        return _weighed(one)
    if many:
        return "too_few", f"{uses}, {many} followed: too few to say ({ENOUGH} are needed)"
    if not used:
        return "not_used", "never loaded: nothing can be said"
    if one.measured:
        return "not_followed", f"{uses}, none followed: found for the wrong work, or not heeded"
    return "no_commands", f"{uses}; it teaches nothing that can be seen in a call: neither credit nor blame"


def _weighed(one: Effect) -> tuple[Judged, str]:
    """The verdict on a lesson that was followed often enough."""
    with_it, without = one.followed, one.without
    reward = f"reward {with_it.reward.value if with_it.reward else 0:+.2f}"
    if one.better is None or without.reward is None:
        return (
            "no_controls",
            f"{with_it.number} followed, {reward}; {without.number} to compare with: too few to say ({CONTROLS} are needed)",
        )
    against = f"{reward} against {without.reward.value:+.2f} in {without.number} without it"
    calls = f"{with_it.calls:.1f} calls a task for {without.calls:.1f}"
    if one.better >= SURE:
        return "helps", f"helps: {against}; {calls}; P {one.better:.2f}"
    if one.better <= 1 - SURE:
        return "harms", f"harms: {against}; {calls}; P {1 - one.better:.2f}"
    return "no_difference", f"no difference that can be told: {against}; {calls}"


# ---- calls a task ----------------------------------------------------------------------------------------------------


def _trend(tasks: Sequence[Task]) -> Trend:
    met: dict[str, list[tuple[Task, bool]]] = defaultdict(list)
    seen: set[tuple[str, str]] = set()
    classed = [one for one in tasks if one.task]
    for one in classed:
        met[one.task].append((one, (one.session, one.task) not in seen))
        seen.add((one.session, one.task))
    pairs = [(found[0][0].work, fmean(one.work for one, _ in found[1:])) for found in met.values() if len(found) > 1]
    fewer, more = sum(later < first for first, later in pairs), sum(later > first for first, later in pairs)
    spans = {
        "first": (0, 1),
        "second": (1, SECOND),
        "third and fourth": (SECOND, FIFTH - 1),
        "fifth and later": (FIFTH - 1, None),
    }
    return Trend(
        tasks=len(classed),
        classes=len(met),
        meetings=tuple(
            _meeting(label, [one for found in met.values() for one in found[first:end]])
            for label, (first, end) in spans.items()
        ),
        points=tuple(_points(classed)),
        fewer=fewer,
        same=len(pairs) - fewer - more,
        more=more,
        saved=_mean([first - later for first, later in pairs]) if pairs else None,
        chance=_sign_test(fewer, more),
    )


def _meeting(label: str, cases: Sequence[tuple[Task, bool]]) -> Meeting:
    tasks, fresh = [one for one, _ in cases], [one for one, afresh in cases if afresh]
    return Meeting(
        label=label, tasks=len(tasks), calls=_average(one.calls for one in tasks),
        work=_average(one.work for one in tasks), done=_average(one.done for one in tasks),
        corrected=_average(one.corrected for one in tasks), afresh=len(fresh),
        afresh_work=_average(one.work for one in fresh),
    )  # fmt: skip


def _points(tasks: Sequence[Task]) -> Iterable[Point]:
    step = max(1, math.ceil(len(tasks) / POINTS))
    for at in range(0, len(tasks), step):
        part = tasks[at : at + step]
        yield Point(
            first=at + 1, last=at + len(part), work=_average(one.work for one in part),
            corrected=_average(one.corrected for one in part),
        )  # fmt: skip


def _sign_test(fewer: int, more: int) -> float | None:
    """How often chance alone would bring at least so many with fewer calls."""
    number = fewer + more
    if not number:
        return None
    return sum(math.comb(number, count) for count in range(fewer, number + 1)) / 2**number
