"""Ask one question from a program: the same loop, tools and log as the command line."""

import asyncio
from tempfile import TemporaryDirectory

from melete import Options, load, open_conversation, open_melete, user
from melete.testing import Call, ScriptedModel


async def main(home: str, base_url: str) -> None:
    """Open a session in a folder, run one prompt, print the answer."""
    # Leave both arguments out to use your own settings: load()
    loaded = load({"model.name": "scripted", "model.base_url": base_url}, environ={"MELETE_HOME": home, "PATH": "/bin"})
    async with open_melete(loaded) as app, open_conversation(app, Options(cwd=home)) as conversation:
        ended = await conversation.run(user("Say hello through a shell."))
        print(f"{ended.stop} after {ended.steps} steps: {ended.text}")
        assert ended.text == "The shell says hello."


if __name__ == "__main__":
    script = [Call("terminal", {"command": "echo hello"}), "The shell says hello."]
    with TemporaryDirectory() as folder, ScriptedModel(script) as model:
        asyncio.run(main(folder, model.base_url))
