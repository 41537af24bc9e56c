"""What /memory does in a chat."""

from collections.abc import Mapping

from melete.app.memory import remembered
from melete.surfaces.cli.memory_show import files
from melete.surfaces.cli.talk import Handler, Talk


async def _memory(talk: Talk, words: str) -> bool:
    app, who = talk.conversation.app, talk.conversation.ref.owner
    notes = remembered(app)
    entries = await notes.entries(who)
    if words:
        matching = set(await notes.recall(words, who=who))
        entries = [one for one in entries if one.text in matching]
    talk.say("".join(files(app, entries, talk.paint)).rstrip("\n") or "Nothing is remembered of that.")
    return False


MEMORY: Mapping[str, Handler] = {"memory": _memory}
