"""Watch a run as it happens: every surface reads this one stream of events."""

import asyncio
from tempfile import TemporaryDirectory

from melete import Options, RunEnded, load, open_conversation, open_melete, user
from melete.testing import Call, ScriptedModel


async def main(home: str, base_url: str) -> None:
    """Run and read beside it; a reader that is slow never holds the run up."""
    loaded = load({"model.name": "scripted", "model.base_url": base_url}, environ={"MELETE_HOME": home, "PATH": "/bin"})
    async with open_melete(loaded) as app, open_conversation(app, Options(cwd=home)) as conversation:
        with conversation.hub.subscribe() as events:
            async with asyncio.TaskGroup() as group:
                running = group.create_task(conversation.run(user("List the files.")))
                async for event in events:
                    print(f"{event.seq:>3} {type(event).__name__}")
                    if isinstance(event, RunEnded):
                        break
        assert running.result().stop == "done"


if __name__ == "__main__":
    with TemporaryDirectory() as folder, ScriptedModel([Call("terminal", {"command": "ls"}), "None."]) as model:
        asyncio.run(main(folder, model.base_url))
