"""What the slash command does that sums a conversation up."""

import re
from collections.abc import Mapping

from melete.app.compacting import compress
from melete.core.errors import UsageError
from melete.surfaces.cli.talk import Handler, Talk

_WORDS = re.compile(r"(?:here(?:\s+(?P<keep>\d{1,4}))?)?\s*(?:focus\s+(?P<focus>.+))?", re.DOTALL)
PREVIEW = "--preview"


async def _compress(talk: Talk, words: str) -> bool:
    preview = PREVIEW in words.split()
    rest = " ".join(word for word in words.split() if word != PREVIEW)
    found = _WORDS.fullmatch(rest)
    if found is None:
        raise UsageError(f"{rest!r} is not understood", next="write /compress [here N] [focus WHAT] [--preview]")
    here = int(found["keep"] or 1) if rest.startswith("here") else None
    done = await compress(talk.conversation, keep=here, focus=found["focus"] or "", preview=preview)
    if not done.how:
        talk.say("There is nothing to sum up: what would fall out of view is too little.")
        return False
    verb = "Would be" if preview else "Shortened:"
    talk.say(
        f"{verb} {done.messages_before} → {done.messages_after} messages, about {done.tokens_before:,} → {done.tokens_after:,} "
        f"tokens ({done.how}). The log keeps every word."
    )
    for note in done.notes:
        talk.say(note)
    return False


COMPRESS: Mapping[str, Handler] = {"compress": _compress}
