"""What stands open in each session and which review is due: a fold over the home's ledger. Pure.

A debt is paid by the review that covers its facts, wherever that ran. What a review began and did not end is gone on with under its
own id; one that fails again and again is given up.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from msgspec import Struct, structs

from melete.learn.facts import Brief, Debt, ReadUpTo, Review, facts_of

ENOUGH: Final = 6
"""The debt at which a session is reviewed while it goes on, and ended sessions together."""
AT_END: Final = 3
"""The debt at which a session is reviewed once it has ended."""
APART: Final = 10
"""Turns between two reviews of a session that goes on."""
TRIES: Final = 3
AGAIN: Final = timedelta(hours=1)
"""How often a review is begun that does not come to its end, and how long after a failure."""
LESSONS: Final = frozenset({"remember"})
"""Signals that are about what is to be remembered, and nothing else."""
WORDS: Final = frozenset({"remember", "corrected"})


class Rule(Struct, frozen=True, kw_only=True):
    """When a review is due, as the settings say; `steps` and `turns` are those of the plain counters."""

    trigger: Literal["debt", "counters"] = "debt"
    steps: int = 10
    turns: int = 10


class Standing(Struct, frozen=True, kw_only=True):
    """A session: read up to the fact `seq` at the time `at`, reviewed up to `paid`; `debts` are those that are open.

    `steps` and `turns` count since the last review or use of `skill_manage`, `apart` are turns since the last review alone.
    `review` is the last one, begun `tries` times so far.
    """

    session: str
    seq: int = 0
    at: str = ""
    over: bool = False
    steps: int = 0
    turns: int = 0
    apart: int = 0
    paid: int = 0
    debts: tuple[Debt, ...] = ()
    review: Review | None = None
    tries: int = 0

    @property
    def weight(self) -> int:
        """What is open."""
        return sum(debt.weight for debt in self.debts)

    @property
    def unended(self) -> Review | None:
        """The review that was begun, or put off, and has not come to its end."""
        return self.review if self.review and self.review.upto > self.paid else None


class Due(Struct, frozen=True, kw_only=True):
    """A review that is due: of the facts behind `after` up to `upto`, because of `signals`; `before` is what was begun of it."""

    session: str
    after: int
    upto: int
    why: str
    brief: Brief
    signals: tuple[Debt, ...] = ()
    before: Review | None = None


class Debts:
    """Takes in the ledger's rows in their order; `sessions` is how each stands, `known` what `Signals` wants of other sessions."""

    def __init__(self) -> None:
        self.sessions: dict[str, Standing] = {}
        self.logs: set[str] = set()
        self.known: set[str] = set()
        self.number = 0

    def take(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take in further rows."""
        for row in rows:
            self.number = max(self.number, int(row.get("number", 0)))
            for kind, act in ((Debt, self._owe), (ReadUpTo, self._read), (Review, self._review)):
                for fact in facts_of(kind, (row,)):
                    act(fact)  # pyright: ignore[reportArgumentType] - each its own kind

    def of(self, session: str) -> Standing:
        """How a session stands; one that was never read stands at its beginning."""
        return self.sessions.get(session) or Standing(session=session)

    def _set(self, session: str, **changes: Any) -> None:
        self.sessions[session] = structs.replace(self.of(session), **changes)

    def _owe(self, debt: Debt) -> None:
        if debt.signal == "sequence":
            self.known.add(debt.verb)
        stands = self.of(debt.session)
        same = (debt.signal, debt.turn, debt.facts)
        if last(debt) > stands.paid and all((one.signal, one.turn, one.facts) != same for one in stands.debts):
            self._set(debt.session, debts=(*stands.debts, debt))

    def _read(self, read: ReadUpTo) -> None:
        apart = int(read.state.get("apart", read.turns))
        counted = {"steps": read.steps, "turns": read.turns, "apart": apart}
        self._set(read.session, seq=read.upto, at=read.at, over=read.over, **counted)

    def _review(self, review: Review) -> None:
        stands = self.of(review.session)
        self.logs.add(review.log)
        same = stands.review is not None and stands.review.id == review.id
        begun = review.status == "begun" and not review.log  # told again with its log
        tries = (stands.tries if same else 0) + begun - (review.status == "cancelled")  # nobody's fault
        log = review.log or (stands.review.log if stands.review and same else "")
        self._set(review.session, review=structs.replace(review, log=log), tries=tries)
        if review.status == "ended" or (review.status == "failed" and tries >= TRIES):
            open_ = tuple(debt for debt in stands.debts if last(debt) > review.upto)
            self._set(
                review.session, paid=max(stands.paid, review.upto), debts=open_, steps=0, turns=0, apart=0, tries=0
            )

    def due(self, rule: Rule, *, now: datetime) -> Sequence[Due]:
        """The reviews that are due now: first what was begun, then the heaviest."""
        left = [(one, one.unended) for one in self.sessions.values()]
        begun = [_go_on(one, review) for one, review in left if review and _may(review, now)]
        fresh = [one for one in self.sessions.values() if one.unended is None]
        heaviest = sorted(fresh, key=lambda one: -one.weight)
        chosen = _counted(heaviest, rule) if rule.trigger == "counters" else _owed(heaviest)
        return (*begun, *chosen)


def last(debt: Debt) -> int:
    """The latest fact that a signal is about."""
    return max(debt.facts, default=debt.turn)


def whole(one: Standing, why: str) -> Due:
    """A review of all that was not reviewed yet, whatever it weighs."""
    brief = brief_of(debt.signal for debt in one.debts if debt.weight)
    return Due(session=one.session, after=one.paid, upto=one.seq, why=why, brief=brief, signals=one.debts)


def brief_of(signals: Iterable[str]) -> Brief:
    """What the reviewer is to look for: a person's words tell of memory as well, what was done of skills alone."""
    found = {*signals}
    if not found or found & (WORDS - LESSONS) or (found & LESSONS and found - LESSONS):
        return "both"
    return "memory" if found <= LESSONS else "skills"


def _go_on(one: Standing, review: Review) -> Due:
    """What was begun, under its own id; where it was cancelled before its first step, with all that has come since."""
    if review.status == "cancelled" and not review.steps:
        return structs.replace(whole(one, review.why), before=structs.replace(review, log=""))
    signals = tuple(debt for debt in one.debts if last(debt) <= review.upto)
    return Due(
        session=one.session,
        after=review.after,
        upto=review.upto,
        why=review.why,
        brief=review.brief,
        signals=signals,
        before=review,
    )


def _may(review: Review, now: datetime) -> bool:
    """Whether a review that did not end may be begun again by now."""
    return review.status != "failed" or now - datetime.fromisoformat(review.at) >= AGAIN


def _owed(fresh: Sequence[Standing]) -> list[Due]:
    ended = sum(one.weight for one in fresh if one.over)
    found: list[Due] = []
    for one in fresh:
        if one.over and one.weight >= AT_END:
            found.append(whole(one, f"the session ended with a debt of {one.weight}"))
        elif one.over and one.weight and ended >= ENOUGH:
            found.append(whole(one, f"ended sessions together have a debt of {ended}"))
        elif one.weight >= ENOUGH and (not one.paid or one.apart >= APART):
            found.append(whole(one, f"a debt of {one.weight}"))
    return found


def _counted(fresh: Sequence[Standing], rule: Rule) -> list[Due]:
    found: list[Due] = []
    for one in fresh:
        why: dict[Brief, str] = {}
        if rule.steps and one.steps >= rule.steps:
            why["skills"] = f"{one.steps} steps"
        if rule.turns and one.turns >= rule.turns:
            why["memory"] = f"{one.turns} turns"
        if why:
            brief: Brief = "both" if len(why) > 1 else next(iter(why))
            found.append(structs.replace(whole(one, " and ".join(why.values())), brief=brief))
    return found


def only(brief: Brief, kinds: Collection[Brief]) -> Brief | None:
    """The brief as far as these of `skills` and `memory` are to be learned; None where nothing is left of it."""
    if brief == "both" and not {"skills", "memory"} <= {*kinds}:
        return "skills" if "skills" in kinds else "memory" if "memory" in kinds else None
    return brief if brief in kinds else None
