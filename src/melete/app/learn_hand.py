"""Learning by command: what is due is worked off, or one session is reviewed, and what came of it is told. Composition root."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from melete.app.learn_work import Worker
from melete.app.learning import BUSY, Telling, text
from melete.app.wire import Melete
from melete.core.errors import SessionNotFoundError, UsageError
from melete.core.event import Learned
from melete.learn.facts import Proposed, Review, facts_of

PATIENCE = 3
"""How often it is tried to say something in a session that is at work."""


class Worked(Struct, frozen=True, kw_only=True):
    """What was done: the reviews that ended, and `lines` that a person reads. `busy`: another process is at it."""

    busy: bool = False
    reviews: tuple[Review, ...] = ()
    lines: tuple[str, ...] = ()


async def work_off(app: Melete, *, shown: bool) -> Worked:
    """Review all that is due; what is `shown` now is not kept for later. Raises StoreError, UsageError where learning is off."""
    by = _By(app, shown=shown)
    busy = not await by.worker.turn()
    return await by.ended("another process is learning already" if busy else "nothing is due", busy=busy)


async def review_one(app: Melete, name: str) -> Worked:
    """Review a session, the latest one without a name; raises SessionNotFoundError, StoreError, UsageError."""
    by = _By(app, shown=True)
    ref = await (app.store.find(name) if name else app.store.latest())
    if ref is None:
        raise SessionNotFoundError("there is no session yet", next="start one with: melete run PROMPT")
    await by.worker.review(ref)
    return await by.ended("there is nothing new to review in it, or another process is learning")


class _By:
    """A worker, with what it has to tell."""

    def __init__(self, app: Melete, *, shown: bool) -> None:
        if not app.loaded.settings.learning.enabled:
            raise UsageError("learning is off (learning.enabled)", next="melete config set learning.enabled true")
        self._quiet = app.loaded.settings.learning.notify == "off"
        self._app = app
        self._reviews: list[Review] = []
        self._lines: list[str] = []
        self._telling = Telling(app, show=self._note if shown else None)
        self.worker = Worker(app, told=self._told)

    async def _told(self, review: Review) -> None:
        self._reviews.append(review)
        await self._telling.tell(review)

    def _note(self, line: Learned) -> None:
        self._lines.append(text(line))

    async def ended(self, else_: str, *, busy: bool = False) -> Worked:
        """What was done; what cannot be said in its session is kept for whoever comes next."""
        for _ in range(PATIENCE):
            if self._telling.waiting:
                await asyncio.sleep(BUSY)
                await self._telling.again()
        self._telling.leave()
        lines: Sequence[str] = self._lines or await asyncio.to_thread(self._results) or [else_]
        return Worked(busy=busy, reviews=tuple(self._reviews), lines=tuple(lines))

    def _results(self) -> list[str]:
        rows = self._app.ledger.read(kind=Proposed.kind) if self._reviews else ()
        refused = {fact.id: fact.review for fact in facts_of(Proposed, rows) if fact.status == "refused"}
        many = Counter(refused.values())
        return [_result(one, quiet=self._quiet, refused=many[one.id]) for one in self._reviews]


def _result(review: Review, *, quiet: bool, refused: int) -> str:
    """How a review ended that has nothing else to show; where nothing is to be said of lessons, not whether there are any."""
    said = f", {refused} refused: melete learn inbox --all" if refused else ""
    end = f": {review.error}" if review.error else "" if quiet else f"; nothing was kept{said}"
    return f"the review of {review.session} {review.status.replace('_', ' ')}{end}"
