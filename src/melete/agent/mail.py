"""What people say to a running session: the owner's side of the inbox. Layer 2.

Steering enters at the next step boundary, queued messages when the model would stop; both are facts that carry the inbox
message's id before the file is removed, so a crash between the two neither loses nor doubles them. Answers and cancels act at
once, from the watcher in run.py.
"""

from collections.abc import Sequence

from melete.core.event import Fact, Said, Steered
from melete.core.message import Message, Text
from melete.core.session import InboxMessage, Session


class Mail:
    """The messages that wait for a step boundary; `resting` is True when the model has nothing left to do."""

    def __init__(self, *, resting: bool) -> None:
        self.resting = resting

    async def deliver(self, session: Session) -> None:
        """Store every steer, and when resting the first queued message, as facts; then remove them from the inbox."""
        for message in self._due(session):
            await session.record(as_fact(message), durable=True)
            session.settle(message.id)
            self.resting = False

    def waiting(self, session: Session) -> bool:
        """Whether somebody has more to say."""
        return any(m.kind in ("steer", "queue") for m in session.pending())

    def _due(self, session: Session) -> Sequence[InboxMessage]:
        pending = session.pending()
        steers = [m for m in pending if m.kind == "steer"]
        queued = [m for m in pending if m.kind == "queue"]
        return steers or (queued[:1] if self.resting else [])


def as_fact(message: InboxMessage) -> Fact:
    """The fact that brings a steer or a queued message into the conversation."""
    said = Message(role="user", parts=(Text(text=message.text),), by=message.by)
    if message.kind == "steer":
        return Steered(message=said, inbox=message.id)
    return Said(message=said, inbox=message.id)
