"""A tool of your own: one decorated function whose signature is the schema, in a toolset, under a name."""

import asyncio
from contextlib import nullcontext
from tempfile import TemporaryDirectory

from melete import Options, Tool, ToolContext, load, open_conversation, open_melete, tool, user
from melete.testing import Call, ScriptedModel


@tool(effect="read", parallel=True)
async def dice(_ctx: ToolContext, *, sides: int = 6) -> dict[str, int]:
    """Throw a die (a loaded one)."""
    return {"thrown": sides}


class Games:
    """A toolset: a name, whether it can be used here, and its tools for as long as a session is open."""

    name = "games"

    def available(self) -> bool:  # noqa: D102
        return True

    def open(self) -> nullcontext[list[Tool]]:  # noqa: D102
        return nullcontext([dice])


async def main(home: str, base_url: str) -> None:  # noqa: D103
    loaded = load({"model.name": "scripted", "model.base_url": base_url}, environ={"MELETE_HOME": home})
    async with open_melete(loaded) as app:
        app.registry.add("tools", "games", Games)
        async with open_conversation(app, Options(cwd=home, toolsets=("games",))) as conversation:
            print((await conversation.run(user("Throw a die with 20 sides."))).text)


if __name__ == "__main__":
    with TemporaryDirectory() as folder, ScriptedModel([Call("dice", {"sides": 20}), "A 20!"]) as model:
        asyncio.run(main(folder, model.base_url))
