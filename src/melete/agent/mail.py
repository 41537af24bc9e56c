"""What people say to a running session: the owner's side of the inbox. Layer 2.

Steering enters at the next step boundary, queued messages when the model would stop; both are facts that carry the inbox
message's id before the file is removed, so a crash between the two neither loses nor doubles them. Answers and cancels act at
once, from the watcher in run.py.
"""

from collections.abc import Sequence
from itertools import takewhile

from melete.core.event import Fact, Said, Steered
from melete.core.message import Message, Text
from melete.core.session import InboxMessage, Session


class Mail:
    """The messages that wait for a step boundary; `resting` is True when the model has nothing left to do."""

    def __init__(self, *, resting: bool) -> None:
        self.resting = resting

    async def deliver(self, session: Session) -> None:
        """Store every steer, and when resting the first queued message, as facts; then remove them from the inbox.

        What the runtime has queued, such as the ends of several processes, is stored together: it wants one answer.
        """
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
        if steers or not self.resting:
            return steers
        return list(takewhile(is_runtimes, queued)) or queued[:1]


def is_runtimes(message: InboxMessage) -> bool:
    """Whether no person said it."""
    return message.by is not None and message.by.kind == "runtime"


def as_fact(message: InboxMessage) -> Fact:
    """The fact that brings a steer or a queued message into the conversation."""
    plain = "tool" if is_runtimes(message) else "none"  # what a program printed
    taint = plain if message.taint == "none" else message.taint
    said = Message(role="user", parts=(Text(text=message.text, taint=taint),), by=message.by)
    if message.kind == "steer":
        return Steered(message=said, inbox=message.id)
    return Said(message=said, inbox=message.id)
