"""A run with people watching: every event goes to those who show it, and questions to whoever can answer."""

import asyncio
from collections.abc import Callable, Sequence

from melete.app.service import Conversation
from melete.core.event import CallDelta, Event, Lagged, RunEnded, TextDelta, ThinkingDelta, ToolProgress
from melete.core.message import Message
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.progress import Progress
from melete.surfaces.cli.questions import Questions

Show = Callable[[Event], None]
DELTAS = (TextDelta, ThinkingDelta, CallDelta, ToolProgress)


async def run_watched(
    conversation: Conversation,
    prompt: Message | None,
    *,
    shows: Sequence[Show],
    asking: Progress | None = None,
    paint: Paint | None = None,
) -> RunEnded:
    """Run to the end with every event handed to `shows`; with `asking`, open questions are put to the person at the terminal."""
    if not shows and asking is None:
        return await conversation.run(prompt)
    with conversation.hub.subscribe() as events:
        async with asyncio.TaskGroup() as group:
            questions = Questions(conversation, paint, progress=asking, group=group) if asking and paint else None
            watchers = [questions.see, *shows] if questions else list(shows)
            if asking:
                asking.asked_elsewhere = True

            async def follow() -> None:
                seen = 0
                async for event in events:
                    for each in await _caught_up(conversation, event):
                        if isinstance(event, DELTAS) or each.seq > seen:
                            seen = each.seq
                            for show in watchers:
                                show(each)
                    if isinstance(event, RunEnded):
                        return

            group.create_task(follow())
            try:
                return await conversation.run(prompt)
            finally:
                if questions:
                    questions.close()


async def forget_if_empty(conversation: Conversation) -> None:
    """Take a session away in which nothing was said and nothing ran."""
    state = await conversation.transcript()
    if not state.messages and state.run is None:
        await conversation.app.store.delete(conversation.ref)


async def _caught_up(conversation: Conversation, event: Event) -> Sequence[Event]:
    """The event, or for one who fell behind the facts that were missed."""
    if not isinstance(event, Lagged):
        return (event,)
    return await conversation.app.store.facts(conversation.ref, after=event.seq)
