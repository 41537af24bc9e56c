"""`melete sessions replay`: recorded runs made again without a model, compared with their log byte for byte."""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from melete.app.replay import ReplayEnded, Runs, ended
from melete.app.requests import RequestLines
from melete.app.wire import Melete
from melete.core.errors import StoreError, UsageError
from melete.core.event import Fact
from melete.core.session import SessionRef
from melete.core.steps import Step, steps
from melete.surfaces.cli.completing import complete_session
from melete.surfaces.cli.options import json_option, painter, settings
from melete.surfaces.cli.output import err, is_terminal, one_line, out
from melete.surfaces.cli.running import run_with_app
from melete.surfaces.cli.session_view import SessionView
from melete.surfaces.cli.step_span import facts_of, span

LONGEST_PAUSE = 2.0
PAGE = 500
EVERY = 0.2
"""Seconds between two looks at how far it is."""


class Wanted(Struct, frozen=True, kw_only=True):
    """What is to be made again, and how it is shown; `speed` 0 is at once."""

    run: str = ""
    step: str = ""
    speed: float = 0.0
    quiet: bool = False
    requests: str = ""
    as_json: bool = False


@click.command()
@click.argument("session", required=False, default="", shell_complete=complete_session)
@click.option("--all", "everything", is_flag=True, help="Every session; only what came of it is shown.")
@click.option("--run", default="", metavar="RUN", help="Only this run (id or the beginning of one).")
@click.option("--step", default="", metavar="A[:B]", help="Only the runs that made these steps; only these are shown.")
@click.option(
    "--speed", default=0.0, type=click.FloatRange(min=0), metavar="X", help="Show it X times as fast as it was."
)
@click.option("--requests", default="", metavar="FILE", help="Write each request, rebuilt from the log, to this file.")
@click.option("-q", "--quiet", is_flag=True, help="Show only what came of it.")
@json_option
def replay(session: str, *, everything: bool, **given: Any) -> int:
    """Make recorded runs again, offline, and compare them with the log byte for byte.

    No model is asked and no tool runs: both answer out of the log. Ends with status 1 where something does not come out equal.
    """
    wanted = Wanted(**given)
    if bool(session) == everything:
        raise UsageError("it is not clear which sessions are meant", next="name one, or pass --all")
    if wanted.run and wanted.step:
        raise UsageError("--run and --step both choose runs", next="give one of them")
    if everything and (wanted.run or wanted.step or wanted.speed):
        raise UsageError("--run, --step and --speed go with one session", next="name it")
    loaded = settings()

    async def work(app: Melete) -> int:
        with ExitStack() as stack:
            lines = _request_lines(app, wanted, stack)
            player = Player(
                app, SessionView(painter(loaded), app.redact, write=out, as_json=wanted.as_json), wanted, lines
            )
            total = await (player.all() if everything else player.one(await app.store.find(session)))
        return 0 if total.equal else 1

    return run_with_app(loaded, work)


def _request_lines(app: Melete, wanted: Wanted, stack: ExitStack) -> RequestLines | None:
    """What writes the rebuilt requests to the file that was named; raises UsageError where it cannot be written."""
    if not wanted.requests:
        return None
    path = Path(wanted.requests)

    def failed(error: OSError) -> UsageError:
        return UsageError(f"cannot write {path}: {error.strerror}", next="choose another file")

    try:
        file = stack.enter_context(path.open("wb", buffering=0))
    except OSError as error:
        raise failed(error) from error

    def write(line: str) -> None:
        rest = memoryview(line.encode())
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError as error:
            raise failed(error) from error

    return RequestLines(write, app.redact)


class Player:
    """Makes runs again and tells what came of it."""

    def __init__(self, app: Melete, view: SessionView, wanted: Wanted, lines: RequestLines | None) -> None:
        self._app = app
        self._view = view
        self._wanted = wanted
        self._lines = lines

    async def one(self, ref: SessionRef) -> ReplayEnded:
        """One session, shown as it goes."""
        facts = await self._app.store.facts(ref)
        runs, found = Runs(facts), steps(facts)
        chosen, shown = self._chosen(runs, found, facts)
        if not chosen:
            raise _nothing(ref, runs)
        total = msgspec.structs.replace(ReplayEnded(), session=ref.id, sessions=1, copied=runs.copied)
        async for played in runs.play(chosen, on_request=self._lines and self._lines.add):
            total += ended(played)
            seen = [fact for fact in played.facts if shown(fact)]
            if seen and not self._wanted.quiet:
                self._view.step = sum(step.reply < seen[0].seq for step in found)
                await self._show(seen)
        self._tell(total, runs)
        return total

    async def all(self) -> ReplayEnded:
        """Every session, one line for each that does not come out equal."""
        refs = await self._refs()
        total, shows, due = ReplayEnded(), is_terminal(sys.stderr), 0.0
        for number, ref in enumerate(refs, 1):
            if shows and (now := time.monotonic()) >= due:
                due = now + EVERY
                err(f"\r\x1b[K… {number:,} of {len(refs):,} sessions")
            total += await self._quietly(ref)
        if shows:
            err("\r\x1b[K")
        self._tell(total, None)
        return total

    async def _quietly(self, ref: SessionRef) -> ReplayEnded:
        try:
            runs = Runs(await self._app.store.facts(ref))
        except StoreError as error:  # deleted or damaged meanwhile: the others are made again all the same
            err(f"melete: {ref.id} cannot be read: {one_line(str(error))}\n")
            return ReplayEnded(session=ref.id, sessions=1, equal=False)
        found = msgspec.structs.replace(ReplayEnded(), session=ref.id, sessions=1, copied=runs.copied)
        async for played in runs.play(on_request=self._lines and self._lines.add):
            found += ended(played)
        if self._wanted.as_json:
            self._line(found)
        elif found.first_difference:
            out(f"{ref.id}: ")
            self._difference(found, runs)
        return found

    async def _refs(self) -> Sequence[SessionRef]:
        refs: dict[str, SessionRef] = {}
        while rows := await self._app.store.list(limit=PAGE, offset=len(refs)):
            before = len(refs)
            refs |= {row.id: SessionRef(id=row.id, owner=row.owner) for row in rows}
            if len(refs) == before:
                break
        return list(refs.values())

    def _chosen(
        self, runs: Runs, found: Sequence[Step], facts: Sequence[Fact]
    ) -> tuple[Sequence[str], Callable[[Fact], bool]]:
        """The runs that are meant, and which of their facts are shown."""
        if self._wanted.run:
            return [runs.named(self._wanted.run)], _any
        if not self._wanted.step:
            return runs.names, _any
        first, last = span(found, self._wanted.step)
        meant = {step.run for step in found[first - 1 : last]}
        start, stop = facts_of(found, facts, first=first, last=last)
        return [
            run for run in runs.names if run in meant
        ], lambda fact: start <= fact.seq and (not stop or fact.seq <= stop)

    async def _show(self, facts: Sequence[Fact]) -> None:
        before: datetime | None = None
        for fact in facts:
            if self._wanted.speed and before:
                await asyncio.sleep(
                    min(LONGEST_PAUSE, max(0.0, (fact.at - before).total_seconds()) / self._wanted.speed)
                )
            before = fact.at
            self._view.show(fact)

    def _tell(self, total: ReplayEnded, runs: Runs | None) -> None:
        if self._wanted.as_json:
            self._line(total)
            return
        paint = self._view.paint
        counted = {"step": total.steps, "fact": total.facts, "request": total.requests}
        if runs is None:
            counted = {"session": total.sessions, **counted}
        what = ", ".join(f"{count:,} {name}{'' if count == 1 else 's'}" for name, count in counted.items())
        if total.equal:
            out(paint("green", f"replayed {what}: equal byte for byte") + "\n")
        elif runs:
            out(paint("red", f"replayed {what}, and then it differs: "))
            self._difference(total, runs)
        else:
            out(paint("red", f"replayed {what}: not all of it is equal") + "\n")
        for note in _notes(total):
            out(paint("dim", f"· {note}") + "\n")

    def _difference(self, total: ReplayEnded, runs: Runs) -> None:
        found = total.first_difference
        if found is None:
            return
        where = f" at {found.field}" if found.field and found.field != "asked" else ""
        out(self._safe(f"fact {found.seq} ({found.type}){where}: {found.what}") + "\n")
        if found.recorded or found.replayed:
            out(f"  recorded: {self._safe(found.recorded)}\n  replayed: {self._safe(found.replayed)}\n")
        if found.field == "asked" and runs.opened.about.get("imported"):
            out("  This session was imported: an export takes known secrets out, unless it is made with --raw.\n")

    def _safe(self, text: str) -> str:
        return one_line(self._app.redact(text))

    def _line(self, total: ReplayEnded) -> None:
        out(self._app.redact(msgspec.json.encode(total).decode()) + "\n")


def _notes(total: ReplayEnded) -> list[str]:
    """What a person should know about what was compared and what was not."""
    open_runs = "a run has no end: it was" if total.open == 1 else f"{total.open:,} runs have no end: they were"
    copies, them = ("a run is a copy", "it") if total.copied == 1 else (f"{total.copied:,} runs are copies", "them")
    notes = {
        f"{open_runs} made again as far as the recording goes": total.open,
        f"{total.unrecorded:,} requests were not compared: the log holds no checksum of them": total.unrecorded,
        f"{copies} that a fork holds: replay the original, while it is there, to make {them} again": total.copied,
    }
    return [note for note, count in notes.items() if count]


def _nothing(ref: SessionRef, runs: Runs) -> UsageError:
    if runs.copied:
        return UsageError(
            f"the runs of {ref.id} are copies",
            next=f"replay the original: melete sessions replay {runs.opened.forked_from}",
        )
    return UsageError(f"the session {ref.id} holds no run", next="see `melete sessions show` for what it holds")


def _any(fact: Fact) -> bool:  # noqa: ARG001 - all facts
    return True
