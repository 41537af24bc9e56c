"""A recorded run made again, offline: the real loop over the recording, and what came of the comparison. Layer 2."""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct

from melete.agent.difference import Difference
from melete.agent.recording import Recording
from melete.agent.tape import Encode, SoFar, Tape
from melete.agent.taped import taped_run
from melete.core.errors import StoreError
from melete.core.event import Fact, Reply
from melete.core.model import ModelRequest

OnRequest = Callable[[ModelRequest, Reply], None]
"""Is told each request, rebuilt from the log, with the reply that was recorded for it."""


class Played(Struct, frozen=True, kw_only=True):
    """A run that was made again: `facts` are those that came out equal, up to the first that did not.

    `requests` counts the requests whose bytes were checked, `unrecorded` those of which the log holds no checksum. A run
    without an end is not `whole`: it was made again as far as its recording goes.
    """

    run: str
    facts: tuple[Fact, ...]
    steps: int
    requests: int
    unrecorded: int = 0
    whole: bool = True
    difference: Difference | None = None


async def replay(
    facts: Sequence[Fact], so_far: SoFar, *, encode: Encode, on_request: OnRequest | None = None
) -> Played:
    """Make the run of these facts again behind what is `so_far`, which goes on with the facts that came out equal.

    `encode` gives the bytes in which a fact is stored; two facts are equal when these are.
    """
    tape = Tape(Recording(facts), so_far, encode=encode)
    requests: list[tuple[ModelRequest, Reply]] = []
    async with asyncio.TaskGroup() as group:
        await tape.see_to_the_end(group.create_task(_run(tape, requests if on_request else None)))
    if on_request:  # not before: the loop would take its failure for the model's
        for request, reply in requests:
            on_request(request, reply)
    if tape.next is not None:
        tape.differ("the loop ends before this fact")
    return Played(
        run=tape.recording.run,
        facts=tuple(tape.facts),
        steps=sum(isinstance(fact, Reply) for fact in tape.facts),
        requests=tape.requests,
        unrecorded=tape.unrecorded,
        whole=tape.recording.whole,
        difference=tape.difference,
    )


async def _run(tape: Tape, requests: list[tuple[ModelRequest, Reply]] | None) -> None:
    recording = tape.recording
    try:
        await taped_run(tape, requests).execute(recording.prompt, opening=recording.opening)
    except (
        StoreError
    ):  # the recording is over or was left, or its run could not store what came next: the tape knows which
        return
