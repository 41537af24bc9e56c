"""`melete run`: one answer on standard output, and nothing else there."""

import os
import select
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from melete.app.learning import leave_behind
from melete.app.opening import exit_code
from melete.app.prompts import prompt_message
from melete.app.service import Conversation, open_conversation
from melete.app.settings import Loaded
from melete.app.skills import PIPED
from melete.core.errors import UsageError
from melete.core.event import Event, Notice, Retried, RunEnded, Stop
from melete.core.message import Message
from melete.surfaces.cli.options import Asked, attended, conversation_options, json_option, settings
from melete.surfaces.cli.output import ReaderLeft, err, is_terminal, one_line, out, visible
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.progress import Progress
from melete.surfaces.cli.render import RAISE, STOPS, news
from melete.surfaces.cli.running import Interrupts, opened, run_async
from melete.surfaces.cli.watch import Show, forget_if_empty, run_watched

LARGEST_INPUT = 10_000_000
SILENT_SECONDS = 5.0
FROM_STDIN = "-"


@click.command()
@click.argument("prompt", nargs=-1)
@json_option
@conversation_options
def run(prompt: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """Answer PROMPT.

    Standard output gets the answer and nothing else.

    A last word - reads standard input to its end. Text on a pipe beside a PROMPT belongs to it. With -c or -s and no PROMPT the
    session goes on where it stopped.
    """
    asked = Asked(**given)
    loaded = settings(asked)
    text = whole_prompt(prompt)
    goes_on = bool(asked.session or asked.latest)
    images = [Path(name) for name in asked.images]
    if not text.strip() and not images and not goes_on:
        raise UsageError("there is no prompt", next='write: melete run "…"')
    message = prompt_message(text, images, surface=surface(prompt)) if text.strip() or images else None
    if not as_json and (asked.verbose or is_terminal(sys.stderr)):
        for line in news(loaded, Paint(sys.stderr, loaded.variables)):
            err(f"{line}\n")
    status = run_async(lambda interrupts: answer(loaded, asked, message, as_json=as_json, interrupts=interrupts))
    if not (asked.ephemeral or asked.no_learn):
        leave_behind(loaded)
    return status


async def answer(loaded: Loaded, asked: Asked, prompt: Message | None, *, as_json: bool, interrupts: Interrupts) -> int:
    """Answer in the session that is asked for, as `melete run` does, and return the exit status."""
    async with (
        opened(loaded, ephemeral=asked.ephemeral, as_of=asked.then(loaded)) as app,
        open_conversation(app, msgspec.structs.replace(asked.options(attended=attended()), waits=True)) as conversation,
    ):
        if prompt is None and not await _unfinished(conversation, tell=not as_json):
            err(f"melete: session {conversation.ref.id} has nothing left to do; give it a prompt to go on\n")
            return 0
        interrupts.stop = conversation.cancel
        try:
            ended, left = await _run(conversation, asked, prompt, as_json=as_json)
        except BaseException:
            if not (asked.session or asked.latest):
                await forget_if_empty(conversation)
            raise
        if left:
            raise ReaderLeft
        if not as_json:
            schema = conversation.options.answer
            text = schema.read(ended.text) if schema and ended.stop == Stop.DONE else ended.text
            _show(ended, app.redact(text), session=conversation.ref.id, stored=not asked.ephemeral)
        return exit_code(ended)


async def _run(
    conversation: Conversation, asked: Asked, prompt: Message | None, *, as_json: bool
) -> tuple[RunEnded, bool]:
    """Run with what is to be shown shown; the second value says that nobody reads standard output any more."""
    redact = conversation.app.redact
    paint = Paint(sys.stderr, conversation.app.loaded.variables)
    progress = Progress(paint, redact, verbose=asked.verbose)
    left = False

    def print_event(event: Event) -> None:
        nonlocal left
        if left:
            return
        try:
            out(redact(msgspec.json.encode(event).decode()) + "\n")
        except ReaderLeft:  # stop the work too; its results are stored
            left = True
            conversation.cancel()

    shows: list[Show] = [print_event] if as_json else []
    if asked.verbose or (is_terminal(sys.stderr) and not as_json):
        shows.append(progress.show)
    elif not as_json:
        shows.append(lambda event: _warn(event, redact))
    asking = progress if conversation.options.attended else None
    return await run_watched(conversation, prompt, shows=shows, asking=asking, paint=paint), left


def _warn(event: Event, redact: Callable[[str], str]) -> None:
    """Say what a person should know even where nothing else of the run is shown."""
    if isinstance(event, Notice) and event.level != "info":
        err(f"melete: {event.level}: {redact(one_line(event.text))}\n")
    elif isinstance(event, Retried) and not event.delay:  # in another way, or another model
        err(f"melete: warning: {redact(one_line(event.reason))}\n")


async def _unfinished(conversation: Conversation, *, tell: bool) -> bool:
    """Whether the session still owes something: an answer, results of calls, a message that waits, or the end of its run.

    What was found wrong when its log was opened is shown with `tell`: the run that follows finds it mended.
    """
    app, ref = conversation.app, conversation.ref
    seen = (await conversation.transcript()).seq
    async with app.store.claim(ref) as session:
        messages = session.messages
        waiting = any(message.kind in ("steer", "queue") for message in session.pending())
        owes = bool(messages) and (messages[-1].role != "assistant" or bool(messages[-1].calls))
        unfinished = session.transcript.running or waiting or owes
    for fact in await app.store.facts(ref, after=seen) if tell else ():
        _warn(fact, app.redact)
    return unfinished


def _show(ended: RunEnded, text: str, *, session: str, stored: bool) -> None:
    """The answer on standard output, and on standard error why there is none or why it stopped early."""
    kept = f"; go on with: melete run -s {session}" if stored else ""
    if text and (ended.stop == Stop.DONE or ended.stop in Stop.LIMITS):
        shown = visible(text) if is_terminal(sys.stdout) else text
        out(shown if shown.endswith("\n") else f"{shown}\n")
    if ended.stop == Stop.FAILED:
        err(f"melete: {one_line(ended.error or 'the run failed')}{kept}\n")
    elif ended.stop == Stop.CANCELLED:
        err(f"melete: cancelled{kept}\n")
    elif ended.stop in Stop.LIMITS:
        why = f" ({one_line(ended.error)})" if ended.error else ""
        err(f"melete: {STOPS[ended.stop]}{why}; {RAISE[ended.stop]}{kept}\n")


# ---- the prompt ------------------------------------------------------------------------------------------------------


def whole_prompt(words: Sequence[str]) -> str:
    """The prompt from the command line and standard input together; raises UsageError for one that is too long."""
    told = bool(words) and words[-1] == FROM_STDIN
    text = " ".join(words[:-1] if told else words)
    piped = _read_stdin(patient=told or not text) if told or _is_piped(inherited=not text) else ""
    if text and piped.strip():
        return f"{text}\n\n<stdin>\n{piped.rstrip()}\n</stdin>"
    return text or piped


def surface(words: Sequence[str]) -> str:
    """Where a prompt came from: the command line, or standard input alone."""
    return PIPED if tuple(words) in ((), (FROM_STDIN,)) else "cli"


def _is_piped(*, inherited: bool) -> bool:
    """Whether something may come through standard input: a pipe, a file or a socket, no terminal and no device.

    What the parent process has as its own standard input was not opened for this command; it counts only with `inherited`.
    """
    try:
        own = os.fstat(sys.stdin.fileno())
    except (OSError, ValueError, AttributeError):  # closed, or none at all
        return False
    if not (stat.S_ISFIFO(own.st_mode) or stat.S_ISREG(own.st_mode) or stat.S_ISSOCK(own.st_mode)):
        return False
    try:
        return inherited or not os.path.samestat(own, Path(f"/proc/{os.getppid()}/fd/0").stat())
    except OSError:  # no such view of processes here, or the parent is gone or another person's
        return True


def _read_stdin(*, patient: bool) -> str:
    """Standard input to its end. Without patience a silent pipe, which may be open by accident, is given up."""
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError("there is no standard input to read the prompt from", next="give it as an argument") from error
    if not patient and not select.select([descriptor], [], [], SILENT_SECONDS)[0]:
        err(
            f"melete: warning: standard input is open but silent for {SILENT_SECONDS:.0f} s; going on without it "
            "(close it with </dev/null, or use `melete run -` to wait)\n"
        )
        return ""
    data = bytearray()
    while piece := os.read(descriptor, 1 << 20):
        data += piece
        if len(data) > LARGEST_INPUT:
            raise UsageError(
                f"standard input holds more than {LARGEST_INPUT // 1_000_000} MB",
                next="put it into a file and name the file in the prompt",
            )
    return data.decode("utf-8", "replace")
