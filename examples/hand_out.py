"""Hand parts of the work to children, watch them, and read what their reports are worth."""

import asyncio
import json
from tempfile import TemporaryDirectory
from typing import Any

from melete import Options, load, open_conversation, open_melete, user
from melete.core.event import Delegated, ToolEnded
from melete.testing import Call, ScriptedModel


def reply(request: dict[str, Any], _: int) -> Call | str:
    """Two children for the parent; one says what is so, the other claims a file that is not there."""
    said, done = str(request["messages"]), request["messages"][-1]["role"] == "tool"
    if "You are a subagent" not in said:
        return "One of the two is done." if done else Call("delegate_task", {"tasks": [{"goal": "A"}, {"goal": "B"}]})
    if "Your goal: B" in said:
        return "I wrote `b.txt`."
    return "I wrote `a.txt`." if done else Call("write_file", {"path": "a.txt", "content": "a"})


async def main(work: str, home: str, base_url: str) -> None:
    """Run one prompt, and print what became of the children."""
    loaded = load({"model.name": "scripted", "model.base_url": base_url}, environ={"MELETE_HOME": home, "PATH": "/bin"})
    async with open_melete(loaded) as app, open_conversation(app, Options(cwd=work)) as conversation:
        await conversation.run(user("Write a and b."))
        facts = await app.store.facts(conversation.ref)
        print(*(f"{fact.goal}: {fact.status}" for fact in facts if isinstance(fact, Delegated)), sep="\n")
        told = json.loads(next(fact for fact in facts if isinstance(fact, ToolEnded)).result.content)
        verdicts = [one["checked"][0]["verdict"] for one in told["results"]]
        print(verdicts)
        assert verdicts == ["verified", "false"]


if __name__ == "__main__":
    with TemporaryDirectory() as work, TemporaryDirectory() as home, ScriptedModel(reply) as model:
        asyncio.run(main(work, home, model.base_url))
