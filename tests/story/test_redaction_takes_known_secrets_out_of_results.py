"""A key that the home knows never reaches the log, the model or a reader through a result, wherever in it it stands."""

import asyncio
import base64
from pathlib import Path
from typing import Any

from melete.core.tool import ToolContext, ToolError, tool
from melete.testing import Call, Calls, Say, ScriptedModel
from tests.talking import Talk, talk

SECRET = "sk-proj-4f8a1c77e0"


@tool()
async def tells(ctx: ToolContext) -> dict[str, Any]:
    """Tells it as a value, in a list, as a name and as progress."""
    ctx.say(f"found {SECRET}")
    return {"value": f"key={SECRET}", "list": [{"inner": SECRET}], SECRET: 1, "long": f"{SECRET}\n" * 9_000}


@tool()
async def fails(ctx: ToolContext) -> dict[str, Any]:
    """Fails with it."""
    raise ToolError(f"cannot use {SECRET}", near=[SECRET], more={"deep": [SECRET]})


@tool()
async def breaks(ctx: ToolContext) -> dict[str, Any]:
    """Breaks with it."""
    raise RuntimeError(f"bad key {SECRET}")


def test_nothing_of_it_is_stored_sent_or_shown(tmp_path: Path) -> None:
    calls = [Call("tells"), Call("fails"), Call("breaks"), Call("read_file", {"path": "env.txt"})]

    async def listen(here: Talk, seen: list[str]) -> None:
        with here.conversation.hub.subscribe() as events:
            seen.extend([repr(event) async for event in events])

    async def main() -> None:
        folder = tmp_path / "work"
        folder.mkdir()
        (folder / "AGENTS.md").write_text(f"Log in with {SECRET}.")
        (folder / "env.txt").write_text(f"A={SECRET}\nB={base64.b64encode(SECRET.encode()).decode()}\n")
        seen: list[str] = []
        async with talk(model, folder, tools=[tells, fails, breaks], variables={"ACME_API_KEY": SECRET}) as here:
            reader = here.app.group.create_task(listen(here, seen))
            await asyncio.sleep(0)
            await here.say("Go.")
            here.conversation.hub.close()
            await reader
            state = here.app.loaded.home.root
        assert any("[redacted:ACME_API_KEY]" in line for line in seen)
        assert not [line for line in seen if SECRET in line]
        stored = [path for path in state.rglob("*") if path.is_file()]
        assert any("spill" in path.parts for path in stored)
        canary = base64.b64encode(SECRET.encode()).rstrip(b"=")
        assert not [path for path in stored if SECRET.encode() in path.read_bytes() or canary in path.read_bytes()]
        assert SECRET.encode() not in model.requests[-1].body

    with ScriptedModel([Calls(calls), Say("Done.")]) as model:
        asyncio.run(main())
