"""Sessions that are reviewed: a program that has to be found out about, a scripted model that works and then reviews."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from melete.app.reviewing import Job, review
from melete.app.skills import library
from melete.core.event import Fact, ToolEnded
from melete.core.session import SessionRef
from melete.learn.facts import Proposed, Review, facts_of
from melete.testing import Call, Reply, Say, ScriptedModel
from tests.talking import Talk, content, talk
from tests.unit.skills.kept import text

PROGRAM = """#!/bin/sh
case "$*" in *--fast*) echo shipped;; *) echo "error 4" >&2; exit 4;; esac
"""
HARD = [
    Call("terminal", {"command": "./w ship --item k1"}),
    Call("terminal", {"command": "./w ship --item k1 --fast"}),
    Say("Shipped."),
]
"""A job that is done the hard way."""
RIGHT = "1. Run `./w ship --item ITEM --fast`.\n\n## Pitfalls\n\n- `./w ship --item ITEM` alone gives error 4.\n"
ABOUT = "How to ship an item with ./w ship. Use it to ship."
NAME = "ship-items"
Check = Callable[[Talk], Awaitable[None]]


def create(name: str = NAME, body: str = RIGHT, about: str = ABOUT) -> Call:
    """A new skill."""
    return Call("skill_manage", {"action": "create", "name": name, "content": text(name, body, description=about)})


def view(name: str = NAME) -> Call:
    """A skill is read."""
    return Call("skill_view", {"name": name})


def patch(old: str, new: str, name: str = NAME) -> Call:
    """A part of a skill is changed."""
    return Call("skill_manage", {"action": "patch", "name": name, "old_string": old, "new_string": new})


def keep(words: str, **more: Any) -> Call:
    """An entry of memory."""
    return Call("memory", {"target": "memory", "content": words, **more})


def workshop(folder: Path) -> Path:
    """A working folder with the program in it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "w").write_text(PROGRAM)
    (folder / "w").chmod(0o755)
    return folder


async def reviewed(here: Talk, **given: Any) -> Review:
    """Review all of the session as it is now."""
    last = (await here.log())[-1].seq
    job = Job(**{"id": "r1", "session": here.conversation.ref.id, "after": 0, "upto": last, **given})
    return await review(here.app, job)


def proposals(here: Talk) -> list[Proposed]:
    """What was proposed, as it stands."""
    rows = here.app.ledger.read(kind=Proposed.kind)
    return list({one.id: one for one in facts_of(Proposed, rows)}.values())


async def log_of(here: Talk, ended: Review) -> Sequence[Fact]:
    """What happened in a review."""
    return await here.app.store.facts(SessionRef(id=ended.log))


async def answers(here: Talk, ended: Review) -> list[tuple[str, dict[str, Any]]]:
    """What the reviewer was told of each of its calls: how it ended, and the words."""
    return [(one.outcome, content(one)) for one in await log_of(here, ended) if isinstance(one, ToolEnded)]


def names(here: Talk) -> set[str]:
    """The skills that can be loaded."""
    found = library(here.app)
    found.refresh()
    return {skill.name for skill in found.all() if skill.root == "user"}


def session(script: Sequence[Reply | str], work: Path, check: Check, *said: str, **given: Any) -> ScriptedModel:
    """A session with these prompts, and what is done after it, against a model that plays the script."""

    async def main() -> None:
        async with talk(model, workshop(work), **given) as here:
            for words in said or ("Ship k1.",):
                ended = await here.say(words)
                assert ended.stop == "done", ended
            await check(here)

    with ScriptedModel(list(script)) as model:
        asyncio.run(main())
    return model
