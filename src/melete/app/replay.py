"""Recorded runs of a session made again and compared with their log. Part of the composition root."""

import logging
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import Struct

from melete.agent.difference import Difference
from melete.agent.replay import OnRequest, Played, replay
from melete.agent.tape import SoFar
from melete.core.errors import UsageError
from melete.core.event import Fact, Opened, RunStarted
from melete.store.record import encode_fact

_replaying: ContextVar[bool] = ContextVar("replaying", default=False)


class ReplayEnded(Struct, frozen=True, kw_only=True, tag="replay.ended"):
    """What came of making runs again: how much was compared, and the first place that did not come out equal.

    `unrecorded` requests are those of which the log holds no checksum, `open` runs those without an end, `copied` the runs
    that a fork has from its original, where they are made again.
    """

    session: str = ""
    equal: bool = True
    sessions: int = 0
    runs: int = 0
    steps: int = 0
    facts: int = 0
    requests: int = 0
    unrecorded: int = 0
    open: int = 0
    copied: int = 0
    first_difference: Difference | None = None

    def __add__(self, other: "ReplayEnded") -> "ReplayEnded":
        return ReplayEnded(
            session=self.session,
            equal=self.equal and other.equal,
            sessions=self.sessions + other.sessions,
            runs=self.runs + other.runs,
            steps=self.steps + other.steps,
            facts=self.facts + other.facts,
            requests=self.requests + other.requests,
            unrecorded=self.unrecorded + other.unrecorded,
            open=self.open + other.open,
            copied=self.copied + other.copied,
            first_difference=self.first_difference or other.first_difference,
        )


def ended(played: Played) -> ReplayEnded:
    """What came of one run."""
    return ReplayEnded(
        equal=played.difference is None,
        runs=1,
        steps=played.steps,
        facts=len(played.facts),
        requests=played.requests,
        unrecorded=played.unrecorded,
        open=int(not played.whole),
        first_difference=played.difference,
    )


class Runs:
    """The runs of a session's facts, in order; those that a fork copied are counted in `copied` and left out.

    What bears a run's id and has no beginning, such as a conversation that came from another program, is no run.
    """

    def __init__(self, facts: Sequence[Fact]) -> None:
        self._facts = facts
        first = facts[0] if facts else None
        self.opened = first if isinstance(first, Opened) else Opened()
        self._spans: dict[str, tuple[int, int]] = {}
        begun = {fact.run for fact in facts if isinstance(fact, RunStarted)}
        for at, fact in enumerate(facts):
            if fact.run in begun:
                start, _ = self._spans.get(fact.run, (at, at))
                self._spans[fact.run] = (start, at + 1)
        copies = [run for run, (start, _) in self._spans.items() if facts[start].seq <= self.opened.copied]
        self.copied = len(copies)
        for run in copies:
            del self._spans[run]

    @property
    def names(self) -> list[str]:
        """The ids of the runs, in order."""
        return list(self._spans)

    def named(self, name: str) -> str:
        """The run with this id or beginning of one; raises UsageError that says which there are."""
        found = [run for run in self._spans if run.startswith(name)]
        if name in self._spans or len(found) == 1:
            return name if name in self._spans else found[0]
        what = f"{name!r} is the beginning of {len(found)} runs" if found else f"the session has no run {name!r}"
        raise UsageError(what, next=f"its runs: {', '.join(self._spans) or 'none'}")

    async def play(
        self, chosen: Sequence[str] | None = None, *, on_request: OnRequest | None = None
    ) -> AsyncGenerator[Played]:
        """Make the chosen runs again, all by default; each begins behind what the log holds before it."""
        so_far, done = SoFar(), 0
        for run, (start, end) in self._spans.items():
            if chosen is not None and run not in chosen:
                continue
            for fact in self._facts[done:start]:
                so_far.apply(fact)
            with _unlogged():
                played = await replay(self._facts[start:end], so_far, encode=encode_fact, on_request=on_request)
            done = end
            if played.difference:  # what follows is judged by what the log holds
                so_far, done = SoFar(), 0
            yield played


class _Unlogged(logging.Filter):
    """Keeps what a replay does out of the program's logs: it has happened, and was logged, before."""

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - where it comes from decides
        """Whether the record is one of a run that happens now."""
        return not _replaying.get()


@contextmanager
def _unlogged() -> Generator[None]:
    silence = _Unlogged()
    loggers = [logging.getLogger(f"melete.{name}") for name in ("run", "loop", "dispatch", "tools")]
    token = _replaying.set(True)
    for logger in loggers:
        logger.addFilter(silence)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(silence)
        _replaying.reset(token)
