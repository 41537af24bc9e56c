"""The loop: ask the model, run what it calls, repeat. Layer 2; the page to read first.

Everything it needs hangs on `agent` (agent.py). Facts go through `session.record`, which stores them before anybody sees
them; deltas go through `emit` and may be lost.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing
from itertools import count

import msgspec

from melete.agent.agent import Agent
from melete.agent.mail import Mail
from melete.agent.results import close_open_calls
from melete.agent.whole import Whole
from melete.core.event import Delta, Notice, Reply, Retried, Stop, ToolProgress
from melete.core.model import ContextOverflowError, MalformedReplyError, TooLargeError
from melete.core.session import Session

log = logging.getLogger("melete.loop")
DOUBTS = 2
PAUSE = 0.25
"""How often, and after how many seconds, a server is asked again whose "too long" cannot be."""
LISTEN = 0.1
"""Seconds between two looks for what comes from the background."""
Emit = Callable[[Delta | ToolProgress], None]


async def converse(agent: Agent, session: Session, mail: Mail, emit: Emit) -> str:
    """Ask, act, repeat, until the model stops calling tools and nobody has more to say; returns a value of `Stop`."""
    for step in agent.limits.steps():
        await mail.deliver(session)  # steering lands only here
        if last := agent.wrap_up(step):  # the grace call: schemas stay in the request, calling them is off
            await session.append(agent.last_words(last))
        reply = await ask(agent, session, emit, calls_off=bool(last))
        await act(agent, session, reply, calls_off=bool(last))
        if last:
            await agent.doubt(reply, session, last=True)
            return last
        mail.resting = not reply.message.calls
        over = mail.resting and not mail.waiting(session)
        over = over and not await agent.send_back(reply, session) and not await agent.doubt(reply, session)
        if over and not await something_comes(agent, session, mail):
            return Stop.DONE
    return Stop.OUT_OF_STEPS


async def ask(agent: Agent, session: Session, emit: Emit, *, calls_off: bool = False) -> Reply:
    """One reply of the model, stored; its deltas are emitted as they come.

    The request is the previous one's bytes plus what is new. Only the compactor may change that: before a request that
    would nearly fill the window, and again for as long as the provider says that it did not fit and something is left to prune.
    """
    await agent.compactor.fit(session)
    await note(session, agent.before_request(session))
    doubts = count()
    whole = Whole(emit, agent.redact)
    while True:
        try:
            request = agent.request(session, calls_off=calls_off)
            async with aclosing(agent.model.stream(request)) as stream:
                async for item in stream:
                    match item:
                        case Reply():
                            whole.flush()
                            reply = agent.sealed(item, request, session)
                            await session.record(reply, agent.spent(reply), *agent.remarks(reply))
                            await note(session, agent.after_reply(session))
                            return reply
                        case Retried():
                            whole.flush()
                            told = msgspec.structs.replace(item, reason=agent.redact(item.reason))
                            log.warning("the model is asked again: %s", told.reason)
                            await session.record(told, *agent.thrown_away(told))
                        case _:
                            whole.put(item)
        except ContextOverflowError as error:
            if not await agent.compactor.shrink(session) and not await doubted(agent, session, error, next(doubts)):
                raise
        except TooLargeError:
            if not await agent.compactor.shrink(session, pictures=True):
                raise
        else:
            raise MalformedReplyError(f"{agent.model.name} ended its stream without a reply")


async def doubted(agent: Agent, session: Session, error: ContextOverflowError, doubts: int) -> bool:
    """Whether to ask again although nothing can be pruned: a conversation far smaller than the window is no overflow."""
    if doubts >= DOUBTS or not agent.compactor.roomy(agent.request(session)):
        return False
    reason = f"{agent.redact(error.what)}; but it is small beside that model's window: asked again"
    model, cause = agent.model, type(error).__name__
    again = Retried(
        attempt=doubts + 1, cause=cause, reason=reason, delay=PAUSE, model=model.name, provider=model.provider
    )
    await session.record(again)
    await agent.pause(PAUSE)
    return True


async def something_comes(agent: Agent, session: Session, mail: Mail) -> bool:
    """Wait for what programs in the background are to tell this run, within its time; False when nothing comes."""
    told: Sequence[str] = ()
    while not mail.waiting(session):
        names = agent.awaited()
        if not names or agent.late():
            return mail.waiting(session)
        if names != told:
            await note(session, [Notice(text=f"waiting for {', '.join(names)}", about="background")])
            told = names
        await agent.pause(LISTEN)
    return True


async def note(session: Session, notices: Sequence[Notice]) -> None:
    """Store what there is to say."""
    if notices:
        await session.record(*notices)


async def act(agent: Agent, session: Session, reply: Reply, *, calls_off: bool = False) -> None:
    """Run the reply's calls: neighbours that are marked parallel share the clock, the others queue.

    Each call gets exactly one result, stored as it ends, also when the run is cancelled in the middle.
    """
    refused = agent.refusal(reply, calls_off=calls_off)
    surplus = agent.dispatch.surplus(reply.message.calls)
    try:
        for batch in agent.dispatch.batches(reply.message.calls):
            async with asyncio.TaskGroup() as group:
                for call in batch:
                    group.create_task(agent.dispatch.run(call, refused=refused or surplus.get(call.id, "")))
    finally:
        await close_open_calls(session)
