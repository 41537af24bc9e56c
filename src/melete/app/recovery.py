"""What becomes of runs that the end of a server cut off: each is closed with a fact that says so, and goes on if it may.

Part of the composition root. Nothing is done twice: a call whose outcome is unknown is reported to the model as unknown.
"""

import logging
from collections.abc import Sequence

from msgspec import Struct

from melete.agent.results import close_open_calls
from melete.app import unstored
from melete.app.child_background import FOLDER, left_behind
from melete.app.child_report import settle_calls
from melete.app.opening import Options, asked_for, number
from melete.app.runs import Runs, Wanted
from melete.core.delegation import SUBAGENT
from melete.core.errors import MeleteError, SessionBusyError, SessionNotFoundError
from melete.core.event import Answered, CancelAsked, RunEnded, RunStarted, Stop
from melete.core.session import SessionRef
from melete.core.transcript import Transcript

log = logging.getLogger("melete.recovery")
SURFACES = ("api", "cron")
RESUMED = frozenset({"api"})
"""Whose runs go on; an occurrence of a job is seen to by the job, which must not be done twice."""
CUT = "the server was stopped before the run had ended; what was stored is kept"
MOST = 2
"""How often in a row a run is taken up again: whatever ends the server each time is left alone then."""


class Recovered(Struct, frozen=True, kw_only=True):
    """A run that was cut off, and the run that goes on with it; empty when it was only closed."""

    run: str
    ref: SessionRef
    goes_on_as: str = ""


class Cut(Struct, frozen=True, kw_only=True):
    """A run that was closed; `cancelled` when somebody had asked for its end before the server's came."""

    begun: RunStarted
    cancelled: bool


async def recover(runs: Runs, *, resume: bool, surfaces: Sequence[str] = SURFACES) -> Sequence[Recovered]:
    """Close every run of a server that is no more, and with `resume` go on with it; returns what was found."""
    found: list[Recovered] = []
    try:
        await unstored.forget_left(runs.app)
        unfinished = await runs.app.store.unfinished(surfaces)
        runs.leave(ref.id for ref, _ in unfinished)
        for ref, run in unfinished:
            if (one := await _recover(runs, ref, run, resume=resume)) is not None:
                found.append(one)
            runs.seen_to(ref.id)
        await _take_up(runs)
    except MeleteError as error:
        log.warning("what an earlier server left unfinished stays as it is: %s", error)
    finally:
        runs.settled = True
        runs.leave(())
    return found


async def _take_up(runs: Runs) -> None:
    """Open the sessions whose children were at work in the background: they go on, and report to it."""
    if runs.app.ephemeral or not (runs.app.loaded.home.state / FOLDER).is_dir():
        return
    for parent in {record.parent: record for record in left_behind(runs.app)}.values():
        try:
            opened = Transcript(await runs.app.store.facts(SessionRef(id=parent.parent, owner=parent.owner))).opened
            if opened and opened.source == SUBAGENT:
                continue  # it goes on with its own parent only, as less than a conversation
            held = await runs.hold(Options(session=parent.parent, owner=parent.owner, surface="api", shares=True))
        except SessionBusyError:
            continue  # its run has taken them up
        except MeleteError as error:
            log.warning("the children of %s do not go on: %s", parent.parent, error)
        else:
            log.info("the children of %s go on", held.ref.id)


async def _recover(runs: Runs, ref: SessionRef, run: str, *, resume: bool) -> Recovered | None:
    """Close one run and go on with it; None where somebody else does or did so. What goes wrong with it concerns no other."""
    new = ""
    try:
        cut = await _close(runs, ref, run)
        if cut is None:
            return None
        if resume and not cut.cancelled and cut.begun.surface in RESUMED:
            runs.seen_to(ref.id)
            new = await _resume(runs, ref, cut.begun)
    except (SessionBusyError, SessionNotFoundError):
        return None
    except MeleteError as error:
        log.warning("the run %s that was cut off cannot go on: %s", run, error)
    except Exception:
        log.exception("the run %s that was cut off cannot go on", run)
    log.warning("run %s was cut off by the end of the server%s", run, f"; it goes on as {new}" if new else "")
    return Recovered(run=run, ref=ref, goes_on_as=new)


async def _close(runs: Runs, ref: SessionRef, run: str) -> Cut | None:
    """Store the end of the run; None when somebody else has closed it."""
    store = runs.app.store
    async with store.claim(ref) as session:
        state = session.transcript
        if state.run is None or state.run.run != run or not state.running:
            return None
        facts = [fact for fact in await store.facts(ref) if fact.run == run]
        asked = [message for message in session.pending() if message.kind == "cancel"]
        cancelled = bool(asked) or any(isinstance(f, CancelAsked) and f.status == "accepted" for f in facts)
        spent = state.spent_in(run)
        session.begin(run)
        await settle_calls(runs.app, session)
        await close_open_calls(session)
        await session.record(*(Answered(question=question, status="expired") for question in [*state.questions]))
        await session.record(*(CancelAsked(by=message.by, inbox=message.id) for message in asked))
        end = RunEnded(
            stop=Stop.CANCELLED if cancelled else Stop.FAILED,
            text=state.answer,
            steps=spent.requests,
            usage=spent.usage,
            cost_usd=spent.usd,
            error=None if cancelled else CUT,
            seconds=max(0.0, (facts[-1].at - state.run.at).total_seconds()),
        )
        await session.record(end, durable=True)
        for message in asked:
            session.settle(message.id)
        return Cut(begun=state.run, cancelled=cancelled)


async def _resume(runs: Runs, ref: SessionRef, begun: RunStarted) -> str:
    """Go on with a run in the way in which it was asked for; the new run's id, empty when that was tried often enough."""
    tried = number(begun.about, "attempt", int) or 0
    if tried >= MOST:
        return ""
    again = {**begun.about, "resumes": begun.run, "attempt": str(tried + 1)}
    return (await runs.start(None, asked_for(begun, ref), how=Wanted(about=again))).run
