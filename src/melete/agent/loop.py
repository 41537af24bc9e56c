"""The loop: ask the model, run what it calls, repeat. Layer 2; the page to read first.

Everything it needs hangs on `agent` (agent.py). Facts go through `session.record`, which stores them before anybody sees
them; deltas go through `emit` and may be lost.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing

from melete.agent.agent import Agent
from melete.agent.mail import Mail
from melete.agent.results import close_open_calls
from melete.core.event import Delta, Reply, Retried, Stop, ToolProgress
from melete.core.model import ContextOverflowError, MalformedReplyError
from melete.core.session import Session

log = logging.getLogger("melete.loop")
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
            return last
        mail.resting = not reply.message.calls
        if mail.resting and not mail.waiting(session):
            return Stop.DONE
    return Stop.OUT_OF_STEPS


async def ask(agent: Agent, session: Session, emit: Emit, *, calls_off: bool = False) -> Reply:
    """One reply of the model, stored; its deltas are emitted as they come.

    The request is the previous one's bytes plus what is new. Only the compactor may change that: before a request that
    would nearly fill the window, and once more when the provider says that it did not fit.
    """
    await agent.compactor.fit(session)
    while True:
        try:
            async with aclosing(agent.model.stream(agent.request(session, calls_off=calls_off))) as stream:
                async for item in stream:
                    match item:
                        case Reply():
                            await session.record(item, agent.spent(item), *agent.remarks(item))
                            return item
                        case Retried():
                            log.warning("the model is asked again: %s", item.reason)
                            await session.record(item)
                        case _:
                            emit(item)
        except ContextOverflowError:
            if not await agent.compactor.shrink(session):
                raise
        else:
            raise MalformedReplyError(f"{agent.model.name} ended its stream without a reply")


async def act(agent: Agent, session: Session, reply: Reply, *, calls_off: bool = False) -> None:
    """Run the reply's calls: neighbours that are marked parallel share the clock, the others queue.

    Each call gets exactly one result, stored as it ends, also when the run is cancelled in the middle.
    """
    refused = agent.refusal(reply, calls_off=calls_off)
    try:
        for batch in agent.dispatch.batches(reply.message.calls):
            async with asyncio.TaskGroup() as group:
                for call in batch:
                    group.create_task(agent.dispatch.run(call, refused=refused))
    finally:
        await close_open_calls(session)
