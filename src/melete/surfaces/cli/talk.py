"""A chat as its slash commands see it."""

from collections.abc import Awaitable, Callable

import msgspec

from melete.app.opening import Options
from melete.app.service import Conversation
from melete.surfaces.cli.output import out
from melete.surfaces.cli.paint import Paint


class Talk:
    """A session that is being talked in; `going` ends with a command that leaves it, `next` opens another one.

    `ask` puts a question to the person and gives the line that they type.
    """

    def __init__(self, conversation: Conversation, paint: Paint, *, ask: Callable[[str], Awaitable[str]]) -> None:
        self.conversation = conversation
        self.paint = paint
        self.ask = ask
        self.going = True
        self.next: Options | None = None

    def say(self, text: str) -> None:
        """Write a line."""
        out(f"{self.conversation.app.redact(text)}\n")

    def move(self, session: str) -> None:
        """Leave for another session, a new one where no name is given."""
        self.going = False
        self.next = msgspec.structs.replace(self.conversation.options, session=session, latest=False)


Handler = Callable[[Talk, str], Awaitable[bool]]
"""Does a command with what follows its name; True asks for a run without a new prompt."""
