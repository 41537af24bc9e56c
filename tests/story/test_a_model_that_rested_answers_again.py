"""After its cool-down the wanted model is asked again in the same process; until then its stand-in is, at once."""

import asyncio
import time
from pathlib import Path

import pytest

from melete.core.event import Reply, Retried, Spent
from melete.testing import Fault, ScriptedModel
from tests.story.homes import at, configure
from tests.talking import Talk, talk

COOLDOWN = 3600.0
NOT_SET = {"MELETE_MODEL": "", "MELETE_BASE_URL": ""}


def later(here: Talk, seconds: float) -> None:
    """Let that much time pass for models that rest."""
    here.app.models._rests._now = lambda: time.monotonic() + seconds


@pytest.mark.parametrize("name", ["stand-in", "wanted"], ids=["another model", "the same name on another server"])
def test_it_rests_and_comes_back(name: str, tmp_path: Path, own_home: Path) -> None:
    async def main() -> None:
        async with talk(first, tmp_path, variables=NOT_SET) as here:
            assert (await here.say("one")).text == "Stand-in."
            assert (await here.say("two")).text == "Stand-in again."
            assert (len(first.requests), len(second.requests)) == (1, 2)
            assert len(await here.facts(Retried)) == 1
            later(here, COOLDOWN)
            assert (await here.say("three")).text == "Back."
            assert [row.model for row in await here.facts(Spent)] == [name, name, "wanted"]
            wires = [reply.message.wire for reply in await here.facts(Reply)]
            assert [wire.name for wire in wires if wire] == ["openai-chat" if name == "wanted" else "gemini"] * 2 + [
                "openai-chat"
            ]

    with ScriptedModel([Fault("quota"), "Back."]) as first, ScriptedModel(["Stand-in.", "Stand-in again."]) as second:
        fallback = at(second, name=name, wire="openai-chat" if name == "wanted" else "gemini")
        configure(own_home, model={**at(first, name="wanted"), "fallbacks": [fallback], "fallback_cooldown": COOLDOWN})
        asyncio.run(main())
    assert len(first.requests) == 2
    assert all(text in first.requests[1].body for text in (b"one", b"Stand-in again.", b"three"))
