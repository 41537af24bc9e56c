"""Whether what a review is due for is said already by a lesson of this home, which was not found. Part of the composition root."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from melete.app.memory import remembered
from melete.app.skills import library
from melete.app.wire import Melete
from melete.core.errors import SessionNotFoundError
from melete.core.tool import ToolError
from melete.learn.debts import Due
from melete.learn.taught import said_already

MEMORY = "memory"


async def taught_already(app: Melete, due: Due) -> Sequence[str]:
    """The names of the home's own skills, and `memory`, that say all to which the signals led; empty where there is something new.

    A skill whose use did harm says nothing. Raises StoreError.
    """
    if not any(one.signal == "fixed" for one in due.signals):
        return ()
    try:
        facts = await app.store.facts(await app.store.find(due.session))
    except SessionNotFoundError:
        return ()
    texts: dict[str, str] = {}
    if app.loaded.settings.memory.enabled:
        texts[MEMORY] = "\n".join(one.text for one in await remembered(app).entries() if one.state == "active")
    if app.loaded.settings.skills.enabled:
        texts |= await asyncio.to_thread(_own, app, {one.verb for one in due.signals if one.signal == "fixed"})
    return await asyncio.to_thread(said_already, due.signals, facts, texts)


def _own(app: Melete, verbs: set[str]) -> dict[str, str]:
    """The texts of own skills that name one of these verbs."""
    keeper, found = library(app), dict[str, str]()
    keeper.refresh()
    for name in keeper.on("user"):
        if keeper.reward(name) >= 0:
            with suppress(ToolError):  # what cannot be read teaches nothing
                text = keeper.text(name)
                found |= {name: text} if any(verb in text for verb in verbs) else {}
    return found
