"""After its cool-down the wanted model is asked again in the same process; until then its stand-in is, at once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from melete.core.event import Reply, Retried
from melete.testing import Fault, ScriptedModel
from tests.story.homes import at, configure
from tests.talking import Talk, talk

NOT_SET = {"MELETE_MODEL": "", "MELETE_BASE_URL": ""}


def settings(first: ScriptedModel, second: ScriptedModel, name: str, cooldown: float) -> dict[str, Any]:
    fallback = at(second, name=name, wire="openai-chat" if name == "wanted" else "gemini")
    return {"model": {**at(first, name="wanted"), "fallbacks": [fallback], "fallback_cooldown": cooldown}}


@pytest.mark.parametrize("name", ["stand-in", "wanted"], ids=["another model", "the same name on another server"])
def test_it_rests_and_comes_back(name: str, tmp_path: Path, own_home: Path) -> None:
    async def main() -> None:
        async with talk(first, tmp_path, variables=NOT_SET) as here:
            await told(here, "one", "Stand-in.")
            await told(here, "two", "Stand-in again.")
            assert (len(first.requests), len(second.requests)) == (1, 2)
            assert len(await here.facts(Retried)) == 1
            await asyncio.sleep(1.0)  # the rest is over
            await told(here, "three", "Back.")
            names = [reply.message.wire.name for reply in await here.facts(Reply) if reply.message.wire]
            assert names[-1] == "openai-chat"

    async def told(here: Talk, text: str, answer: str) -> None:
        assert (await here.say(text)).text == answer

    with ScriptedModel([Fault("quota"), "Back."]) as first, ScriptedModel(["Stand-in.", "Stand-in again."]) as second:
        configure(own_home, **settings(first, second, name, 1.0))
        asyncio.run(main())
    assert len(first.requests) == 2
    texts = first.requests[1].body
    assert all(word in texts for word in (b"one", b"Stand-in again.", b"three"))
