"""The steps of a session: one reply of the model with the calls that it made, numbered from 1 over all its runs. Layer 0, pure.

A log is only ever added to, so a step keeps its number; a fork keeps the numbers of what it copied.
"""

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from melete.core.event import Fact, Reply, ToolEnded


class Step(Struct, frozen=True, kw_only=True):
    """One step: `reply` is the number of the fact that holds the model's message, `end` of the last outcome of its calls.

    `whole` is False while a call has no outcome; the facts up to `end` of a whole step are a conversation to go on from.
    """

    number: int
    run: str
    reply: int
    end: int
    at: datetime
    model: str = ""
    tools: tuple[str, ...] = ()
    whole: bool = True


def steps(facts: Iterable[Fact]) -> list[Step]:
    """The steps among the facts of one session, in order."""
    found: list[Step] = []
    reply: Reply | None = None
    end = 0
    waiting: set[str] = set()

    def close() -> None:
        if reply is not None:
            found.append(
                Step(
                    number=len(found) + 1,
                    run=reply.run,
                    reply=reply.seq,
                    end=end,
                    at=reply.at,
                    model=reply.model,
                    tools=tuple(call.name for call in reply.message.calls),
                    whole=not waiting,
                )
            )

    for fact in facts:
        if isinstance(fact, Reply):
            close()
            reply, end, waiting = fact, fact.seq, {call.id for call in fact.message.calls}
        elif isinstance(fact, ToolEnded) and fact.result.call in waiting:
            waiting.remove(fact.result.call)
            end = fact.seq
    close()
    return found
