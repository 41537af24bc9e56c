"""`melete sessions import`: exports, and conversations of other programs."""

import asyncio
import sys
import time
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, cast

import click
import msgspec

from melete.app.imports import Import, Imported, prepare
from melete.app.wire import Melete
from melete.core.errors import StorageError, UsageError
from melete.surfaces.cli.options import json_option, settings
from melete.surfaces.cli.output import err, is_terminal, one_line, out
from melete.surfaces.cli.running import run_with_app
from melete.surfaces.cli.stdin import next_piece

LINES = 20
"""Troubles that are shown."""
FROM_STDIN = "-"


@click.command("import")
@click.argument("file")
@click.option("--strict", is_flag=True, help="Write nothing if a line makes no sense.")
@json_option
def import_(file: str, strict: bool, as_json: bool) -> int:
    """Take in the sessions of FILE (- for standard input), packed by gzip or not.

    FILE holds what `sessions export` wrote, or a JSON object a line for each message: session, role, content, and where known
    title, at (ISO time, or seconds since 1970) and ref. A session that is here already is left as it is.
    """
    loaded = settings()
    source = _opened(file)

    async def work(app: Melete) -> int:
        ticker = _Ticker()
        job = Import(app, on_progress=ticker.show)
        try:
            with ExitStack() as stack:
                seekable = stack.enter_context(source)
                if not source.seekable():
                    seekable = stack.enter_context(TemporaryFile(dir=app.loaded.home.folder(app.loaded.home.state)))
                    ticker.say("reading to the end of standard input")
                    await _keep(source.fileno(), seekable)
                await job.take(seekable, strict=strict)
            ticker.clear()
            _tell(job.result, app, as_json=as_json)
            if job.result.sessions:
                ticker.say("making them searchable")
                await prepare(app)
        except asyncio.CancelledError:
            ticker.clear()
            err(
                "melete: stopped; the sessions that were written are complete, and are skipped when this is done again\n"
            )
            raise
        finally:
            ticker.clear()
        return 0 if job.result.whole else 1

    return run_with_app(loaded, work)


def _opened(file: str) -> BufferedReader:
    if file == FROM_STDIN:
        if sys.stdin is None or sys.stdin.closed:
            raise UsageError("there is no standard input", next="name a file")
        return cast("BufferedReader", sys.stdin.buffer)
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", next="check the path") from error


async def _keep(descriptor: int, file: IO[bytes]) -> None:
    """Read a pipe to its end into a file; a signal ends the waiting for more."""
    try:
        while data := await next_piece(descriptor):
            file.write(data)
        file.seek(0)
    except OSError as error:
        raise StorageError(
            f"standard input could not be kept: {error.strerror}", kept="nothing was imported", next="free some space"
        ) from error


class _Ticker:
    """How far it is, on a line that is taken back; nothing where standard error is no terminal."""

    def __init__(self) -> None:
        self._shows = is_terminal(sys.stderr)
        self._next = 0.0
        self._shown = False

    def show(self, lines: int, sessions: int) -> None:
        if self._shows and (now := time.monotonic()) >= self._next:
            self._next = now + 0.2
            self.say(f"{lines:,} lines read, {sessions:,} sessions written")

    def say(self, text: str) -> None:
        if self._shows:
            err(f"\r\x1b[K… {text}")
            self._shown = True

    def clear(self) -> None:
        if self._shown:
            err("\r\x1b[K")
            self._shown = False


def _tell(result: Imported, app: Melete, *, as_json: bool) -> None:
    for trouble in result.troubles[:LINES]:
        where = f"line {trouble.line:,}" if trouble.line else ""
        place = ", ".join(part for part in (where, f"session {trouble.session}" if trouble.session else "") if part)
        err(f"melete: {app.redact(one_line(f'{place}: {trouble.reason}'))}\n")
    if (more := result.bad + result.refused - LINES) > 0:
        err(f"melete: and {more:,} more\n")
    if as_json:
        out(app.redact(msgspec.json.encode(result).decode()) + "\n")
        return
    parts = [f"{_count(result.sessions, 'session')} with {_count(result.messages, 'message')} came in"]
    parts += [f"{result.skipped:,} {_was(result.skipped)} here already"] if result.skipped else []
    parts += [f"{result.refused:,} {_was(result.refused)} refused"] if result.refused else []
    parts += [f"{_count(result.bad, 'line')} {_was(result.bad)} left out"] if result.bad else []
    out(f"{'; '.join(parts)} ({result.seconds:.1f} s).\n")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _was(number: int) -> str:
    return "was" if number == 1 else "were"
