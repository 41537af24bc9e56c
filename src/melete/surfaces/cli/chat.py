"""`melete chat`: a line at a time, with the answer as it is written, approvals, and slash commands."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from melete import __version__
from melete.app.commands import is_command, parse, words
from melete.app.learning import learning, leave_behind
from melete.app.opening import Options
from melete.app.prompts import prompt_message
from melete.app.service import Conversation, open_conversation
from melete.app.settings import Loaded
from melete.app.wire import Melete
from melete.core.errors import MeleteError
from melete.core.event import Learned, Stop
from melete.core.message import Message
from melete.surfaces.cli.chat_commands import HANDLERS
from melete.surfaces.cli.keyboard import Keyboard, LineCleared, LineWithdrawn
from melete.surfaces.cli.main import innermost
from melete.surfaces.cli.options import Asked, attended, conversation_options, settings
from melete.surfaces.cli.output import err, one_line, out, visible
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.progress import Progress
from melete.surfaces.cli.render import news, notes
from melete.surfaces.cli.running import opened
from melete.surfaces.cli.talk import Talk
from melete.surfaces.cli.watch import forget_if_empty, run_watched

PROMPT = "> "
MORE = "… "
OFFERED = 200


@click.command()
@conversation_options
def chat(**given: Any) -> int:
    """Talk with the agent.

    /help lists the commands there; a line that ends in a backslash goes on in the next.
    """
    asked = Asked(**given)
    loaded = settings(asked)
    keyboard = Keyboard(words("cli"))
    status = keyboard.run(lambda: _Chat(loaded, asked, keyboard).run())
    if not (asked.ephemeral or asked.no_learn):
        leave_behind(loaded)
    return status


class _Chat:
    """A chat from its first session to its last."""

    def __init__(self, loaded: Loaded, asked: Asked, keyboard: Keyboard) -> None:
        self._loaded = loaded
        self._asked = asked
        self._keyboard = keyboard
        self._paint = Paint(sys.stdout, loaded.variables)
        self._begun = ""
        self._learned: list[Learned] = []

    async def run(self) -> int:
        options: Options | None = self._asked.options(attended=attended())
        async with (
            opened(self._loaded, ephemeral=self._asked.ephemeral, as_of=self._asked.then(self._loaded)) as app,
            learning(app, show=self._learn) as learned,
        ):
            images = tuple(Path(name) for name in self._asked.images)
            while options is not None:
                async with open_conversation(app, options) as conversation:
                    options = await self._talk(conversation, images)
                    await forget_if_empty(conversation)
                if learned:
                    learned.closed(conversation.ref.id)
                images = ()
        return 0

    async def _talk(self, conversation: Conversation, images: tuple[Path, ...]) -> Options | None:
        """Talk in one session; return how to open the next, None to leave."""
        talk = Talk(conversation, self._paint, ask=self._ask)
        self._keyboard.words = [*words("cli"), *_skill_words(conversation)]
        self._keyboard.interrupt = conversation.cancel
        conversation.waking.idle = self._keyboard.withdraw
        self._keyboard.sessions = partial(_ids, conversation.app)
        await self._greet(conversation)
        cleared = 0
        while talk.going:
            self._tell()
            try:
                if await self._woken(talk):
                    continue
                line = await self._line()
            except LineWithdrawn:
                out("\n")
                continue
            except EOFError:
                out("\n")
                return None
            except LineCleared:
                cleared, self._begun = cleared + 1, ""
                if cleared > 1:
                    out("\n")
                    return None
                out("\n" + self._paint("dim", "Ctrl-C again, or Ctrl-D, to leave.") + "\n")
                continue
            cleared = 0
            if is_command(line) and not _calls_skill(conversation, line):
                await self._command(talk, line)
            elif line.strip():
                await self._answer(talk, prompt_message(line, images))
                images = ()
        return talk.next

    def _learn(self, line: Learned) -> None:
        """Something was learned: it is shown now, or when the answer that is being written has ended; beside a pipe's answers."""
        if self._paint.terminal:
            self._learned.append(line)
            self._keyboard.withdraw()
        else:
            err("".join(f"{shown}\n" for shown in notes(line, self._paint)))

    def _tell(self) -> None:
        """Show what was learned meanwhile."""
        lines, self._learned = self._learned, []
        for line in (shown for fact in lines for shown in notes(fact, self._paint)):
            out(f"{line}\n")

    async def _line(self) -> str:
        """One entry: a line, and those after it while each ends in a backslash; what is there of one is kept meanwhile."""
        while True:
            prompt = MORE if self._begun else PROMPT
            line = self._begun + await self._keyboard.line(prompt if self._paint.terminal else "")
            if not line.endswith("\\"):
                self._begun = ""
                return line
            self._begun = f"{line[:-1]}\n"

    async def _ask(self, question: str) -> str:
        """The line that answers a question; empty where nobody wants to."""
        try:
            return await self._keyboard.line(question)
        except (EOFError, LineCleared, LineWithdrawn):
            out("\n")
            return ""

    async def _woken(self, talk: Talk) -> bool:
        """Answer what background processes have said meanwhile; whether there was anything."""
        try:
            due = await talk.conversation.waking.due()
        except MeleteError as error:
            out(self._paint("red", visible(str(error))) + "\n")
            return False
        if due:
            await self._answer(talk, None)
        return due

    async def _greet(self, conversation: Conversation) -> None:
        if not self._paint.terminal:
            return
        for line in news(self._loaded, self._paint):
            out(f"{line}\n")
        model = conversation.model
        names = [f"{model.provider}/{model.name}", f"in {conversation.env.name}", f"session {conversation.ref.id}"]
        parts = [f"Melete {__version__}", *names, "/help"]
        out(self._paint("dim", self._paint.fit(" · ".join(parts))) + "\n")
        state = await conversation.transcript()
        if state.messages:
            last = next((m.text for m in reversed(state.messages) if m.role == "assistant" and m.text), "")
            out(self._paint("dim", self._paint.fit(f"{one_line(state.title)} · {len(state.messages)} messages")) + "\n")
            out(f"{visible(conversation.app.redact(last))}\n" if last else "")

    async def _command(self, talk: Talk, line: str) -> None:
        try:
            command, rest = parse(line, "cli")
            prompted = await HANDLERS[command.name](talk, rest)
        except MeleteError as error:
            out(self._paint("red", visible(str(error))) + "\n")
            return
        if prompted:
            await self._answer(talk, None)

    async def _answer(self, talk: Talk, prompt: Message | None) -> None:
        """Run, and show it; what goes wrong is said and the chat goes on."""
        conversation = talk.conversation
        progress = Progress(
            self._paint, conversation.app.redact, verbose=self._asked.verbose, streaming=True, write=out
        )
        asking = progress if conversation.options.attended else None
        try:
            ended = await run_watched(conversation, prompt, shows=[progress.show], asking=asking, paint=self._paint)
        except* MeleteError as errors:
            progress.pause()
            out(self._paint("red", visible(str(innermost(errors)))) + "\n")
        else:
            if ended.stop == Stop.FAILED:
                out(self._paint("dim", "/retry tries again.") + "\n")


def _skill_words(conversation: Conversation) -> Sequence[str]:
    """The skills of this session as they are called."""
    skills = conversation.skills
    return [f"/{one.name}" for one in skills.library.index(skills.here)[:OFFERED]] if skills.library else []


def _calls_skill(conversation: Conversation, line: str) -> bool:
    """Whether a line calls for skills, none of which is called as a command is."""
    return line.split()[0] not in words("cli") and any(conversation.skills.calls(line))


async def _ids(app: Melete) -> Sequence[str]:
    """Sessions that may be named, the last changed first."""
    return [row.id for row in await app.store.list(limit=OFFERED)]
