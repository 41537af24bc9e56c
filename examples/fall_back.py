"""A model of another wire takes over when the first one fails; the events say so, and the conversation loses nothing."""

import asyncio
from tempfile import TemporaryDirectory

from melete import Options, load, open_conversation, open_melete, user
from melete.core.event import Retried
from melete.testing import Fault, ScriptedModel


async def main(home: str, first: str, second: str) -> None:
    """Ask twice; before the second answer the first model's account is empty."""
    stand_in = {"name": "steady", "base_url": second, "wire": "anthropic-messages"}
    settings = {"model.name": "wanted", "model.base_url": first, "model.fallbacks": [stand_in]}
    async with (
        open_melete(load(settings, environ={"MELETE_HOME": home, "PATH": "/bin"})) as app,
        open_conversation(app, Options(cwd=home)) as conversation,
    ):
        print((await conversation.run(user("Who are you?"))).text)
        print((await conversation.run(user("And now?"))).text)
        for fact in await app.store.facts(conversation.ref):
            if isinstance(fact, Retried):
                print(fact.reason)


if __name__ == "__main__":
    with (
        TemporaryDirectory() as folder,
        ScriptedModel(["The first.", Fault("quota")]) as one,
        ScriptedModel(["The second."]) as two,
    ):
        asyncio.run(main(folder, one.base_url, two.base_url))
        assert b"The first." in two.requests[0].body
