"""`melete sessions show`: what happened in a session, and what happens in it now."""

import asyncio
from collections.abc import Callable

import click
import msgspec

from melete.app.wire import Melete
from melete.core.event import Fact, RunEnded, ToolStarted
from melete.core.session import SessionInfo, SessionRef
from melete.core.transcript import Transcript
from melete.surfaces.cli.one_session import with_session
from melete.surfaces.cli.options import json_option, painter, settings
from melete.surfaces.cli.output import err, one_line, out
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.render import facts, redacted, usage_text

LOOK = 0.5
"""Seconds between two looks at whether the process that runs a session is still there."""


@click.command()
@click.argument("session")
@click.option("-f", "--follow", is_flag=True, help="Go on as it happens, until the run ends.")
@json_option
def show(session: str, follow: bool, as_json: bool) -> int:
    """Show what happened in a session."""
    loaded = settings()
    view = _View(painter(loaded), as_json=as_json)

    async def work(app: Melete, ref: SessionRef) -> int:
        if follow:
            return await _follow(app, ref, view)
        stored = await app.store.facts(ref)
        if not as_json:
            view.head(await app.store.info(ref), app.redact)
        for fact in stored:
            view.show(fact, app.redact)
        view.questions(Transcript(stored), ref.id)
        return 0

    return with_session(loaded, session, work)


class _View:
    """Shows the facts of a session: as JSON lines, or as people read them."""

    def __init__(self, paint: Paint, *, as_json: bool) -> None:
        self._paint = paint
        self._as_json = as_json
        self._started: dict[str, ToolStarted] = {}

    def head(self, info: SessionInfo, redact: Callable[[str], str]) -> None:
        """What is known of the session as a whole."""
        title = redact(one_line(info.title)) or "untitled"
        out(f"{self._paint('bold', self._paint.fit(title))}\n")
        parts = [info.id, info.cwd, f"{info.messages} messages", usage_text(info.usage)]
        out(self._paint("dim", " · ".join(one_line(part) for part in parts if part)) + "\n")

    def show(self, fact: Fact, redact: Callable[[str], str]) -> None:
        """One fact."""
        if self._as_json:
            out(redact(msgspec.json.encode(fact).decode()) + "\n")
            return
        event = redacted(fact, redact)
        if isinstance(event, ToolStarted):
            self._started[event.call.id] = event
        for line in facts(event, self._paint, started=self._started):
            out(f"{line}\n")

    def questions(self, state: Transcript, session: str) -> None:
        """The open questions, with the command that answers them."""
        if self._as_json or not state.running:
            return
        for question in state.questions.values():
            err(f"open: {one_line(question.text)}; melete sessions answer {session} {question.id} VALUE\n")


async def _follow(app: Melete, ref: SessionRef, view: _View) -> int:
    """Show what is stored and what comes, until the run that goes on now is over."""
    last, over = 0, False
    running = (await app.store.info(ref)).running

    async def read(done: asyncio.Event) -> None:
        nonlocal last, over
        async for fact in app.store.follow(ref):
            view.show(fact, app.redact)
            last, over = fact.seq, isinstance(fact, RunEnded)
            if over and not (await app.store.info(ref)).running:
                break
        done.set()

    done = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        reader = group.create_task(read(done))
        while running and not done.is_set():
            try:
                async with asyncio.timeout(LOOK):
                    await done.wait()
            except TimeoutError:
                running = (await app.store.info(ref)).running
        reader.cancel()
    for fact in await app.store.facts(ref, after=last):
        view.show(fact, app.redact)
        over = isinstance(fact, RunEnded)
    if not over and last:
        err("melete: no process runs this session now; its last run has no end yet. Go on with: melete run -s ID\n")
    return 0
