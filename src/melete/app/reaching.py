"""How a session is reached that runs elsewhere: messages for its inbox, and what a line means that a person has typed."""

from typing import Literal
from uuid import uuid4

from melete.app.wire import Melete
from melete.core.event import Question
from melete.core.message import Origin
from melete.core.session import InboxMessage, Receipt, SessionRef

Kind = Literal["steer", "queue", "answer", "cancel"]


async def send(app: Melete, ref: SessionRef, message: InboxMessage, *, wait: float = 5.0) -> Receipt:
    """Put a message into a session's inbox, whichever process runs it, and say what became of it."""
    return await app.store.send(ref, message, wait=wait)


def inbox_message(
    app: Melete, kind: Kind, *, text: str = "", question: str = "", surface: str = "cli", who: str = ""
) -> InboxMessage:
    """A message for a session: `steer`, `queue`, `answer` (to `question`) or `cancel`."""
    by = Origin(kind="person", who=who, surface=surface)
    return InboxMessage(id=uuid4().hex, kind=kind, text=text, question=question, by=by, at=app.clock.now())


def choice(question: Question, line: str) -> str | None:
    """The answer that a line means: a number stands for its choice; None for a line that is none of the choices.

    Only an approval insists on its choices; to any other question a person may say something else.
    """
    if not question.choices:
        return line
    if line.isdecimal():
        return question.choices[int(line) - 1] if 1 <= int(line) <= len(question.choices) else None
    found = [c for c in question.choices if line and c.lower().startswith(line.lower())]
    if len(found) == 1:
        return found[0]
    if question.kind == "approval":
        return {"y": "once", "yes": "once", "n": "deny", "no": "deny"}.get(line.lower())
    return line or None
