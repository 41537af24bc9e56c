"""`melete sessions export`: sessions as files, for other homes and for people."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from melete.app.export import Export, Form, Format, chosen
from melete.app.wire import Melete
from melete.core.errors import UsageError
from melete.core.session import SessionRef
from melete.surfaces.cli.completing import complete_session
from melete.surfaces.cli.options import json_option, settings
from melete.surfaces.cli.output import err, is_terminal, one_line, out, out_bytes, visible
from melete.surfaces.cli.running import run_with_app
from melete.surfaces.cli.which import Meant, which_options

STDOUT = "-"


@click.command()
@click.argument("session", nargs=-1, shell_complete=complete_session)
@click.option("--all", "everything", is_flag=True, help="All sessions.")
@which_options
@click.option("--format", "form", type=click.Choice(get_args(Format)), default="jsonl", show_default=True)
@click.option("-o", "--output", default="", metavar="FILE|DIR|-", help="Where to; a folder gets a file each.")
@click.option("--raw", is_flag=True, help="jsonl: byte for byte, secrets included.")
@click.option("--full", is_flag=True, help="md, html: long arguments and results whole.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@json_option
def export(
    *,
    session: tuple[str, ...],
    everything: bool,
    form: Format,
    output: str,
    raw: bool,
    full: bool,
    force: bool,
    as_json: bool,
    **meant: Any,
) -> int:
    """Write sessions as JSON lines, Markdown, or pages of HTML.

    JSON lines can be imported again. Known secrets are taken out. Without -o it goes to standard output, one page of HTML to a file
    in this folder when that is a terminal.
    """
    wanted = Meant(**meant)
    filtered = wanted != Meant()
    if bool(session) == (everything or filtered):
        raise UsageError(
            "it is not clear which sessions are meant", next="name them, or pass --all or a filter such as --since 7d"
        )
    if raw and form != "jsonl":
        raise UsageError("--raw is for JSON lines", next="leave it out, or pass --format jsonl")
    loaded = settings()

    async def work(app: Melete) -> int:
        which = None if session else wanted.which(app.clock.now())
        refs = await chosen(app, session, which)
        ticker = _Ticker(len(refs), shows=output not in ("", STDOUT))
        job = Export(app, Form(format=form, exact=raw, full=full), on_progress=ticker.show)
        if raw:
            err("melete: warning: --raw keeps secrets that stand in the sessions; give the file to nobody\n")
        target = output or _usual(refs, form)
        try:
            await _write(job, refs, target, force=force, several=form != "jsonl")
        finally:
            ticker.clear()
        if target != STDOUT:
            _tell(job, as_json=as_json)
        return 0

    return run_with_app(loaded, work)


def _usual(refs: Sequence[SessionRef], form: Format) -> str:
    """Where an export goes that was not told: a page is of no use on a terminal."""
    return f"{refs[0].id}.html" if form == "html" and len(refs) == 1 and is_terminal(sys.stdout) else STDOUT


async def _write(job: Export, refs: Sequence[SessionRef], target: str, *, force: bool, several: bool) -> None:
    path = Path(target)
    if target.endswith("/"):
        _make(path)
    if target == STDOUT:
        if several and len(refs) > 1:
            raise UsageError(f"{len(refs)} sessions make as many pages", next="name a folder for them with -o DIR")
        await job.to_stream(refs, _show if is_terminal(sys.stdout) else out_bytes)
    elif path.is_dir():
        await job.to_folder(refs, path, force=force)
    elif several and len(refs) > 1:
        raise UsageError(
            f"{target} is no folder, and {len(refs)} sessions make as many pages",
            next=f"write {target}/ to make it one",
        )
    else:
        await job.to_file(refs, path, force=force)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {folder}: {error.strerror}", next="choose another place") from error


def _show(data: bytes) -> None:
    out(visible(data.decode()))


class _Ticker:
    """How far it is, on a line that is taken back; nothing where standard error is no terminal."""

    def __init__(self, total: int, *, shows: bool) -> None:
        self._total = total
        self._shows = shows and total > 1 and is_terminal(sys.stderr)
        self._next = 0.0

    def show(self, done: int) -> None:
        """So many sessions are done."""
        if self._shows and (now := time.monotonic()) >= self._next:
            self._next = now + 0.2
            err(f"\r\x1b[K… {done:,} of {self._total:,} sessions")

    def clear(self) -> None:
        """Take the line back."""
        if self._shows:
            err("\r\x1b[K")


def _tell(job: Export, *, as_json: bool) -> None:
    result = job.result
    if as_json:
        out(msgspec.json.encode(result).decode() + "\n")
        return
    gone = f"; {result.gone:,} were deleted meanwhile" if result.gone else ""
    sessions = f"{result.sessions:,} session{'' if result.sessions == 1 else 's'}"
    out(f"{sessions} in {one_line(result.path)}, {result.bytes:,} bytes{gone}.\n")
