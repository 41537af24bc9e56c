"""Neighbouring reads share the clock, writes queue, and the model reads the results in the order of its calls."""

import asyncio
from pathlib import Path
from typing import Any

from melete.core.event import ToolEnded
from melete.core.tool import Tool, ToolContext, tool
from melete.testing import Call, Calls, Say, ScriptedModel
from tests.talking import content, talk


def probes(trail: list[str]) -> list[Tool]:
    """Reads that end only when three of them run at once, the last begun first; writes that note who else is there."""
    gate = asyncio.Barrier(3)
    ended = {n: asyncio.Event() for n in range(1, 5)}
    ended[4].set()

    @tool(parallel=True)
    async def look(ctx: ToolContext, *, number: int) -> dict[str, Any]:
        """Read something."""
        await gate.wait()
        await ended[number + 1].wait()
        ended[number].set()
        trail.append(f"look {number}")
        return {"number": number}

    @tool(effect="write")
    async def change(ctx: ToolContext, *, number: int) -> dict[str, Any]:
        """Write something."""
        trail.append(f"change {number} begins")
        await asyncio.sleep(0.01)
        trail.append(f"change {number} ends")
        return {"number": number}

    return [look, change]


def test_order_and_company(tmp_path: Path) -> None:
    calls = [
        *(Call("look", {"number": n}) for n in (1, 2, 3)),
        *(Call("change", {"number": n}) for n in (4, 5)),
    ]

    async def main() -> None:
        trail: list[str] = []
        async with talk(model, tmp_path / "work", tools=probes(trail)) as here:
            assert (await here.say("Go.")).stop == "done"
            ended = [content(fact)["number"] for fact in await here.facts(ToolEnded)]
        assert trail[:3] == ["look 3", "look 2", "look 1"]
        assert trail[3:] == ["change 4 begins", "change 4 ends", "change 5 begins", "change 5 ends"]
        assert ended == [3, 2, 1, 4, 5]
        shown = [message["content"] for message in here.messages() if message["role"] == "tool"]
        assert shown == [f'{{"number":{n}}}' for n in (1, 2, 3, 4, 5)]

    with ScriptedModel([Calls(calls), Say("Done.")]) as model:
        asyncio.run(main())
