"""Find what was said: any text is a valid query, in any language, and no model is asked."""

import asyncio
from tempfile import TemporaryDirectory

from melete import Options, load, open_conversation, open_melete, user
from melete.core.session import Query
from melete.testing import ScriptedModel


async def main(home: str, base_url: str) -> None:
    """Say something in two sessions, then look for it in both."""
    loaded = load({"model.name": "scripted", "model.base_url": base_url}, environ={"MELETE_HOME": home, "PATH": "/bin"})
    async with open_melete(loaded) as app:
        for prompt in ("Where does the exporter listen?", "出口服务在哪个端口?"):
            async with open_conversation(app, Options(cwd=home)) as conversation:
                await conversation.run(user(prompt))
        for question in ("Which port was it, where our exporters listened?", "端口"):
            hits = await app.store.search(Query(text=question, roles=("assistant",), limit=1))
            print(f"{question}\n  {hits[0].title}: {hits[0].snippet}")
            assert "9464" in hits[0].snippet


if __name__ == "__main__":
    with TemporaryDirectory() as folder, ScriptedModel(["It listens on port 9464.", "端口是9464。"]) as model:
        asyncio.run(main(folder, model.base_url))
