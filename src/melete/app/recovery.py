"""What becomes of runs that the end of a server cut off: each is closed with a fact that says so, and goes on if it may.

Part of the composition root. Nothing is done twice: a call whose outcome is unknown is reported to the model as unknown.
"""

import logging
from collections.abc import Sequence

from msgspec import Struct

from melete.agent.results import close_open_calls
from melete.app.opening import Options
from melete.app.runs import Runs, Wanted
from melete.core.errors import MeleteError, SessionBusyError
from melete.core.event import RunEnded, RunStarted, Stop
from melete.core.session import SessionRef

log = logging.getLogger("melete.recovery")
SURFACES = ("api",)
MOST = 2
"""How often in a row a run is taken up again: whatever ends the server each time is left alone then."""


class Recovered(Struct, frozen=True, kw_only=True):
    """A run that was cut off, and the run that goes on with it; empty when it was only closed."""

    run: str
    ref: SessionRef
    goes_on_as: str = ""


async def recover(runs: Runs, *, resume: bool, surfaces: Sequence[str] = SURFACES) -> Sequence[Recovered]:
    """Close every run of a server that is no more, and with `resume` go on with it; returns what was found."""
    found: list[Recovered] = []
    for ref, run in await runs.app.store.unfinished(surfaces):
        try:
            begun = await _close(runs, ref, run)
            if begun is None:
                continue
            new = await _resume(runs, ref, begun) if resume else ""
        except SessionBusyError:
            continue  # somebody else goes on with it at this moment
        except MeleteError as error:
            log.warning("the run %s that was cut off cannot go on: %s", run, error)
            new = ""
        log.warning("run %s was cut off by the end of the server%s", run, f"; it goes on as {new}" if new else "")
        found.append(Recovered(run=run, ref=ref, goes_on_as=new))
    return found


async def _close(runs: Runs, ref: SessionRef, run: str) -> RunStarted | None:
    """Store the end of the run and return its beginning; None when somebody else has closed it."""
    async with runs.app.store.claim(ref) as session:
        state = session.transcript
        if state.run is None or state.run.run != run or not state.running:
            return None
        spent = state.spent_in(run)
        session.begin(run)
        await close_open_calls(session)
        end = RunEnded(
            stop=Stop.FAILED,
            text=state.answer,
            steps=spent.requests,
            usage=spent.usage,
            cost_usd=spent.usd,
            error="the server was stopped before the run had ended; what was stored is kept",
        )
        await session.record(end, durable=True)
        return state.run


async def _resume(runs: Runs, ref: SessionRef, begun: RunStarted) -> str:
    """Go on with a run in the way in which it was asked for; the new run's id, empty when that was tried often enough."""
    about = begun.about
    tried = int(about.get("attempt", "0"))
    if tried >= MOST:
        return ""
    options = Options(
        session=ref.id,
        owner=ref.owner,
        surface=begun.surface,
        attended=True,
        shares=True,
        model=about.get("model", ""),
        toolsets=tuple(filter(None, about.get("toolsets", "").split(","))),
        budget_usd=float(about["budget_usd"]) if "budget_usd" in about else None,
        max_steps=int(about["max_steps"]) if "max_steps" in about else None,
        extra=about.get("extra", ""),
    )
    again = {**about, "resumes": begun.run, "attempt": str(tried + 1)}
    return (await runs.start(None, options, Wanted(about=again))).run
