"""`melete sessions show`: what happened in a session, step by step, and what happens in it now."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import click
import msgspec
from msgspec import Struct

from melete.app.wire import Melete
from melete.core.errors import SessionNotFoundError, UsageError
from melete.core.event import Fact, RunEnded
from melete.core.plugin import Lazy
from melete.core.segments import Segment, segment_named, segments
from melete.core.session import SessionRef, Which
from melete.core.steps import Step, steps
from melete.core.transcript import Transcript
from melete.surfaces.cli.one_session import session_argument, with_session
from melete.surfaces.cli.options import json_option, painter, settings
from melete.surfaces.cli.output import err, out
from melete.surfaces.cli.session_head import Whole, head_lines, segment_lines
from melete.surfaces.cli.session_view import SessionView
from melete.surfaces.cli.step_span import facts_of, span

LOOK = 0.5
"""Seconds between two looks at whether the process that runs a session is still there."""
CHAIN = 1_000
_tree: "Lazy[Callable[[Melete, SessionRef, SessionView], Awaitable[int]]]" = Lazy(
    "melete.surfaces.cli.children_tree:show_tree"
)


@click.command()
@session_argument
@click.option("--step", default="", metavar="A[:B]", help="Only this step, or these.")
@click.option("--segment", default="", metavar="N|ID", help="Only this part of a conversation that was shortened.")
@click.option("--segments", "parts", is_flag=True, help="List the parts of a conversation that was shortened.")
@click.option("--tail", type=click.IntRange(min=1), metavar="N", help="Only the last N steps.")
@click.option("--full", is_flag=True, help="With the arguments and results of calls.")
@click.option("--pager", is_flag=True, help="A page at a time, on a terminal.")
@click.option("-f", "--follow", is_flag=True, help="Go on as it happens, until the run ends.")
@click.option("--tree", is_flag=True, help="Only the children that it handed work to, and theirs, and how each ended.")
@json_option
def show(session: str, *, full: bool, pager: bool, follow: bool, as_json: bool, **asked: Any) -> int:
    """Show what happened in a session: each step under its number, which --step here and --at of `fork` take."""
    wanted = _Wanted(**asked)
    wanted.check(follow=follow)
    loaded = settings()
    paint = painter(loaded)

    async def work(app: Melete, ref: SessionRef) -> int:
        pages: list[str] | None = [] if pager and paint.terminal and not (follow or as_json) else None
        view = SessionView(paint, app.redact, write=out if pages is None else pages.append, full=full, as_json=as_json)
        if wanted.tree:
            return await _tree.load()(app, ref, view)
        stored = await app.store.facts(ref)
        found = steps(stored)
        if wanted.parts:
            return _parts(view, segments(stored, ref.id), found)
        first, last = wanted.facts(found, stored, ref.id)
        view.step = sum(step.reply < first for step in found)
        if not as_json:
            await _head(app, ref, view, Whole(info=await app.store.info(ref), facts=stored, steps=found))
        if follow:
            return await _follow(app, ref, view, after=first - 1)
        for fact in stored:
            if fact.seq >= first and (not last or fact.seq <= last):
                view.show(fact)
        if pages is not None:
            click.echo_via_pager(pages, color=paint.colours)
        if not last:
            view.questions(Transcript(stored), ref.id)
        return 0

    return with_session(loaded, session, work)


class _Wanted(Struct, frozen=True, kw_only=True):
    """What is to be shown: some steps, a segment, or, with `parts`, a list of the segments; all steps by default."""

    step: str
    segment: str
    parts: bool
    tail: int | None
    tree: bool

    def check(self, *, follow: bool) -> None:
        """Raise UsageError for options that contradict each other."""
        if (self.step or self.segment) and (self.tail or follow or (self.step and self.segment)):
            raise UsageError(
                "--step and --segment choose what is over; --tail and --follow look at the end", next="give one of them"
            )

    def facts(self, found: Sequence[Step], stored: Sequence[Fact], session: str) -> tuple[int, int]:
        """The numbers of the first and the last fact to be shown; 0 as the last means all."""
        if self.segment:
            return _facts_of_segment(segments(stored, session), self.segment)
        if self.step:
            first, last = span(found, self.step)
        else:
            first, last = max(1, len(found) - (self.tail or len(found)) + 1), len(found)
        return facts_of(found, stored, first=first, last=last)


def _facts_of_segment(found: Sequence[Segment], name: str) -> tuple[int, int]:
    """The facts of a segment; raises UsageError, which says what there is."""
    one = segment_named(found, name)
    if one is None:
        many = "it was never shortened" if len(found) == 1 else f"it has segments 1 to {len(found)}"
        raise UsageError(f"this session has no segment {name!r}", next=f"{many}: `--segments` lists them")
    return one.first, 0 if one is found[-1] else one.last


def _parts(view: SessionView, found: Sequence[Segment], numbered: Sequence[Step]) -> int:
    """List the segments, a line each; of a conversation that was never shortened only as JSON."""
    if view.as_json:
        for one in found:
            view.write(view.redact(msgspec.json.encode(one).decode()) + "\n")
        return 0
    for line in segment_lines(found, numbered, most=len(found)):
        view.write(f"{view.paint.fit(view.redact(line))}\n")
    if len(found) == 1:
        err("This conversation was never shortened: it is one segment.\n")
    return 0


async def _head(app: Melete, ref: SessionRef, view: SessionView, whole: Whole) -> None:
    kin = await app.store.list(owner=ref.owner, which=Which(chain=ref.id), limit=CHAIN)
    whole = msgspec.structs.replace(whole, kin=kin)
    for line in head_lines(whole, view.paint, now=app.clock.now(), redact=app.redact):
        view.write(f"{line}\n")
    view.write("\n")


async def _follow(app: Melete, ref: SessionRef, view: SessionView, *, after: int) -> int:
    """Show what is stored behind `after` and what comes, until the run that goes on now is over; the status to end with."""
    try:
        await _followed(app, ref, view, after=after)
    except* SessionNotFoundError:
        err(f"melete: the session {ref.id} was deleted meanwhile; what is above is all that is left of it\n")
    else:
        return 0
    return 1


async def _followed(app: Melete, ref: SessionRef, view: SessionView, *, after: int) -> None:
    last, over = after, False
    running, stored = await _runs(app, ref), (await app.store.facts(ref))[-1].seq

    async def read(done: asyncio.Event) -> None:
        nonlocal last, over
        async for fact in app.store.follow(ref, after=after):
            view.show(fact)
            last, over = fact.seq, isinstance(fact, RunEnded)
            if over and fact.seq >= stored and not await _runs(app, ref):
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
                running = await _runs(app, ref)
        reader.cancel()
    for fact in await app.store.facts(ref, after=last):
        view.show(fact)
        last, over = fact.seq, isinstance(fact, RunEnded)
    if not over and last:
        err(
            f"melete: no process runs this session now; its last run has no end yet. Go on with: melete run -s {ref.id}\n"
        )


async def _runs(app: Melete, ref: SessionRef) -> bool:
    """Whether a process owns the session; not when it was deleted."""
    try:
        return (await app.store.info(ref)).running
    except SessionNotFoundError:
        return False
