"""`melete sessions`: the past, and what runs now."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence

import click
import msgspec

from melete.app.service import Kind, inbox_message, send
from melete.app.settings import Loaded
from melete.app.wire import Melete
from melete.core.errors import UsageError
from melete.core.event import Fact, RunEnded, ToolStarted
from melete.core.session import Receipt, SessionInfo, SessionRef
from melete.core.transcript import Transcript
from melete.surfaces.cli.options import json_option, painter, settings
from melete.surfaces.cli.output import err, is_terminal, one_line, out
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.questions import choice
from melete.surfaces.cli.render import facts, redacted, usage_text
from melete.surfaces.cli.running import run_with_app
from melete.surfaces.cli.table import table
from melete.surfaces.cli.tables import session_table

LOOK = 0.5
"""Seconds between two looks at whether the process that runs a session is still there."""
PATIENCE: Mapping[Kind, float] = {"steer": 1.5, "queue": 0.5, "answer": 5.0, "cancel": 5.0}
"""Seconds to wait for what becomes of a message: a step may last long, answers and cancels act at once."""

Work = Callable[[Melete, SessionRef], Awaitable[int]]


@click.group()
def sessions() -> None:
    """The past, and what runs now."""


@sessions.command("list")
@click.option("-n", "--limit", default=50, show_default=True, type=click.IntRange(min=1), help="Rows at most.")
@json_option
def list_(limit: int, as_json: bool) -> int:
    """List the sessions, the last changed first."""
    loaded = settings()

    async def work(app: Melete) -> int:
        rows = await app.store.list(limit=limit)
        if as_json:
            for row in rows:
                out(app.redact(msgspec.json.encode(row).decode()) + "\n")
        elif not rows:
            err("There are no sessions yet.\n")
        else:
            out(session_table(rows, painter(loaded), now=app.clock.now(), redact=app.redact))
        return 0

    return run_with_app(loaded, work)


@sessions.command()
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

    return _with_session(loaded, session, work)


@sessions.command()
@click.argument("query", nargs=-1, required=True)
@click.option("-n", "--limit", default=10, show_default=True, type=click.IntRange(min=1), help="Results at most.")
@json_option
def search(query: tuple[str, ...], limit: int, as_json: bool) -> int:
    """Search what was said; any text is a valid query."""
    loaded = settings()

    async def work(app: Melete) -> int:
        hits = await app.store.search(" ".join(query), limit=limit)
        if as_json:
            for hit in hits:
                out(app.redact(msgspec.json.encode(hit).decode()) + "\n")
        elif not hits:
            err("Nothing was found.\n")
        else:
            cells = [(hit.session, str(hit.seq), hit.role, app.redact(hit.snippet)) for hit in hits]
            out(table(("SESSION", "SEQ", "ROLE", "TEXT"), cells, painter(loaded), right=("SEQ",)))
        return 0

    return run_with_app(loaded, work)


@sessions.command()
@click.argument("session")
@click.argument("text", nargs=-1, required=True)
@click.option("--queue", is_flag=True, help="Deliver it when the model would stop, not at the next step.")
@json_option
def steer(session: str, text: tuple[str, ...], queue: bool, as_json: bool) -> int:
    """Say something to a session that runs, without stopping it."""

    async def work(app: Melete, ref: SessionRef) -> int:
        return await _deliver(app, ref, "queue" if queue else "steer", text=" ".join(text), as_json=as_json)

    return _with_session(settings(), session, work)


@sessions.command()
@click.argument("session")
@click.argument("question_and_value", nargs=-1, required=True, metavar="[QUESTION] VALUE")
@json_option
def answer(session: str, question_and_value: tuple[str, ...], as_json: bool) -> int:
    """Answer an open question; QUESTION may be left out when only one is open."""

    async def work(app: Melete, ref: SessionRef) -> int:
        state = Transcript(await app.store.facts(ref))
        question, value = _chosen(state, question_and_value)
        if (known := state.questions.get(question)) is not None:
            value = choice(known, value) or value
        return await _deliver(app, ref, "answer", text=value, question=question, as_json=as_json)

    return _with_session(settings(), session, work)


@sessions.command()
@click.argument("session")
@json_option
def cancel(session: str, as_json: bool) -> int:
    """Stop what a session is doing."""

    async def work(app: Melete, ref: SessionRef) -> int:
        return await _deliver(app, ref, "cancel", as_json=as_json)

    return _with_session(settings(), session, work)


@sessions.command()
@click.argument("session")
@click.argument("title", nargs=-1, required=True)
def rename(session: str, title: tuple[str, ...]) -> int:
    """Give a session a title."""

    async def work(app: Melete, ref: SessionRef) -> int:
        await app.store.rename(ref, " ".join(title))
        return 0

    return _with_session(settings(), session, work)


@sessions.command()
@click.argument("session")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def delete(session: str, yes: bool) -> int:
    """Remove a session for good."""

    async def work(app: Melete, ref: SessionRef) -> int:
        info = await app.store.info(ref)
        if not yes:
            if not is_terminal(sys.stdin):
                raise UsageError("nobody can be asked here", kept="nothing was deleted", next="pass --yes to delete")
            title = f" ({one_line(info.title)})" if info.title else ""
            click.confirm(f"Delete session {ref.id}{title} with {info.messages} messages?", abort=True, err=True)
        await app.store.delete(ref)
        err(f"Deleted {ref.id}.\n")
        return 0

    return _with_session(settings(), session, work)


# ---- how it is done --------------------------------------------------------------------------------------------------


def _with_session(loaded: Loaded, name: str, work: Work) -> int:
    async def body(app: Melete) -> int:
        return await work(app, await app.store.find(name))

    return run_with_app(loaded, body)


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


def _chosen(state: Transcript, words: Sequence[str]) -> tuple[str, str]:
    """The question that is meant and the answer; raises UsageError when it is not clear which."""
    matching = [name for name in state.questions if name.startswith(words[0])]
    if len(words) > 1 and len(matching) == 1:
        return matching[0], " ".join(words[1:])
    if len(words) == 1 and len(state.questions) == 1:
        return next(iter(state.questions)), words[0]
    if len(words) == 1:
        listed = "".join(f"\n  {name}  {one_line(q.text)}" for name, q in state.questions.items())
        count = f"{len(state.questions)} questions are open" if state.questions else "no question is open"
        raise UsageError(count, kept="nothing was sent", next=f"name one: answer ID QUESTION VALUE{listed}")
    return words[0], " ".join(words[1:])


async def _deliver(
    app: Melete, ref: SessionRef, kind: Kind, *, text: str = "", question: str = "", as_json: bool = False
) -> int:
    message = inbox_message(app, kind, text=text, question=question)
    receipt = await send(app, ref, message, wait=PATIENCE[kind])
    if as_json:
        out(msgspec.json.encode(receipt).decode() + "\n")
    else:
        runs = receipt.status == "queued" and (await app.store.info(ref)).running
        out(f"{receipt.status}: {_explained(kind, receipt, runs=runs)}\n")
    return 0 if receipt.status in ("accepted", "queued") else 1


def _explained(kind: Kind, receipt: Receipt, *, runs: bool) -> str:
    match receipt.status:
        case "accepted":
            return f"it is fact {receipt.seq} of the session"
        case "queued" if runs and kind in ("steer", "queue"):
            return (
                f"the session runs and will read it {'at its next step' if kind == 'steer' else 'when it would stop'}"
            )
        case "queued" if kind in ("steer", "queue"):
            return "nothing runs in the session now; it waits in its inbox for the next run"
        case "queued":
            return "it waits in the session's inbox; the process that runs the session has not taken it yet"
        case "lost":
            return "somebody else answered first"
        case _:
            return "nothing runs in the session now" if kind == "cancel" else "the question is no longer open"
