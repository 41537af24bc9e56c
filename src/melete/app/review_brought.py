"""What of others a session had before it without its facts showing it as such. Part of the composition root."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from melete.app.memory import remembered
from melete.app.wire import Melete
from melete.core.session import SessionRef
from melete.core.skill import OTHERS
from melete.core.tool import ToolError
from melete.learn.gate_evidence import Outside
from melete.security.taint import UNTRUSTED

if TYPE_CHECKING:
    from melete.skills.manage import Keeper


async def brought(app: Melete, session: SessionRef, skills: "Keeper | None") -> Sequence[Outside]:
    """Entries of memory and skills that came from outside before, so that what a session did by them is not its own finding.

    Entries are those of other sessions which an agent kept with a text from outside in view; skills those that the session
    loaded and that others wrote, or that were written like such entries.
    """
    found: list[Outside] = []
    if app.loaded.settings.memory.enabled:
        found += [
            Outside(name="an entry of memory", text=one.text, at=0)
            for one in await remembered(app).entries(session.owner)
            if one.taint in UNTRUSTED and one.author != "user" and one.session != session.id
        ]
    for name in await _loaded(app, session) if skills else ():
        last = skills.versions.history(name)[-1:] if skills and name in skills else ()
        if (
            skills
            and name in skills
            and (skills.get(name).root in OTHERS or any(one.taint in UNTRUSTED for one in last))
        ):
            with suppress(ToolError):  # it cannot be read any more
                found.append(Outside(name=f"the skill {name}", text=(await skills.read(name)).text, at=0))
    return found


async def _loaded(app: Melete, session: SessionRef) -> set[str]:
    rows = await asyncio.to_thread(app.ledger.read, kind="skill.exposure")
    mine = (row for row in rows if (row.get("session"), row.get("how")) == (session.id, "loaded"))
    return {one[0] for row in mine for one in row.get("skills", ())}
