"""`melete memory show` and `history`: what is remembered, who said so and when, and what it said before."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click
import msgspec

from melete.app.memory import FILES, filled
from melete.app.memory_provider import look
from melete.app.wire import Melete
from melete.core.memory import MemoryEntry, MemoryProposal
from melete.surfaces.cli.one_memory import person_option, user_option, with_memory
from melete.surfaces.cli.options import json_option, painter
from melete.surfaces.cli.output import err, one_line, out, visible
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.table import entry, table
from melete.surfaces.cli.tables import ago

if TYPE_CHECKING:
    from melete.app.memory import Notes

INDENT = 16


@click.command()
@user_option
@click.option("--why", is_flag=True, help="Where each comes from: who said it, when, in which session.")
@click.option("--problems", is_flag=True, help="What is not used as it is, and what to do about it.")
@click.option("--proposals", is_flag=True, help="What waits for your yes.")
@person_option
@json_option
def show(about_user: bool, why: bool, problems: bool, proposals: bool, who: str, as_json: bool) -> int:
    """Show what is remembered about the work and about you."""

    async def work(app: Melete, notes: "Notes") -> int:
        paint = painter(app.loaded)
        if problems:
            found = await notes.problems(who)
            rows = [(app.loaded.home.display(app.loaded.home.memories / one.path), one.what, one.next) for one in found]
            text = table(("FILE", "WHAT IS WRONG", "WHAT TO DO"), rows, paint) if rows else ""
        elif proposals:
            found = await notes.proposals(who)
            text = "".join(_proposed(one, app.clock.now(), paint) for one in found)
        else:
            found = await notes.entries(who, "user" if about_user else None)
            text = "".join(files(app, found, paint, why=why or about_user))
            if provider := app.loaded.settings.memory.provider:
                why_not = look(app.loaded)
                text += f"{paint('bold', 'Beside them')}  the memory {provider}{f': {why_not}' if why_not else ''}\n"
        if as_json:
            text = "".join(f"{msgspec.json.encode(one).decode()}\n" for one in found)
        out(app.redact(text))
        if not found:
            err(
                "No problem was found.\n"
                if problems
                else "Nothing waits.\n"
                if proposals
                else "Nothing is remembered.\n"
            )
        if not (problems or proposals) and (wrong := await notes.problems(who)):
            named = ", ".join(dict.fromkeys(one.path.rpartition("/")[2] for one in wrong))
            err(f"Not all of {named} is used as it is; see melete memory show --problems\n")
        return 0

    return with_memory(work)


def files(app: Melete, found: Sequence[MemoryEntry], paint: Paint, *, why: bool = False) -> Iterator[str]:
    """The entries of each file with how full it is, as text; with `why` also where they come from."""
    for target, name in FILES.items():
        entries = [one for one in found if one.target == target]
        if not entries:
            continue
        used, limit = filled(app, target, entries)
        yield f"{paint('bold', name)}  {used:,} of {limit:,} characters ({used / limit:.0%})\n"
        for one in entries:
            texts = [*visible(one.text).splitlines(), *(f"[{mark}]" for mark in one.marks)]
            texts += told(one, app.clock.now()) if why else ()
            yield entry(("yellow", "?") if one.marks else ("green", "•"), one.id, texts, paint=paint, indent=INDENT)


def told(one: MemoryEntry, now: datetime) -> Iterator[str]:
    """Where an entry comes from, a line for each thing that is known."""
    by = {"user": "you", "agent": "the agent"}.get(one.author, one.author)
    where = f" in session {one.session}" if one.session else ""
    yield f"noted {ago(one.at, now) if one.at else 'at some time'} by {by}{where}{f' with {one.model}' if one.model else ''}"
    if one.said:
        yield f"said: “{one_line(one.said)}”"
    if one.confirmed and one.confirmed != one.at:
        yield f"confirmed {ago(one.confirmed, now)}"
    if one.taint in ("web", "import"):
        yield f"the session had read text from outside ({one.taint})"
    if one.until:
        yield f"holds until {one.until}"
    if one.anchor:
        yield f"rests on {one.anchor}"


def _proposed(one: MemoryProposal, now: datetime, paint: Paint) -> str:
    """A proposal with its steps, as a person has to see it before a yes."""
    change = one.change
    steps = [
        f"{step.action} {step.old_text}{' → ' if step.old_text and step.content else ''}{step.content}".strip()
        for step in change.operations
    ]
    head = f"{FILES[change.target]}, {ago(one.at, now) if one.at else ''}: {change.reason or change.author}"
    said = [f"said: “{one_line(change.said)}”"] if change.said else []
    return entry(
        ("yellow", "?"), one.id, [one_line(text) for text in (head, *steps, *said)], paint=paint, indent=INDENT
    )


@click.command()
@click.argument("entry_id", default="", metavar="[ENTRY]")
@person_option
@json_option
def history(entry_id: str, who: str, as_json: bool) -> int:
    """List what happened to what is remembered, or to one ENTRY, the latest first."""

    async def work(app: Melete, notes: "Notes") -> int:
        found = list(reversed(await notes.history(entry_id, who)))
        if as_json:
            out(app.redact("".join(f"{msgspec.json.encode(one).decode()}\n" for one in found)))
            return 0
        now = app.clock.now()
        rows = [
            (
                one.version or "-",
                f"@{one.number}",
                one.entry,
                ago(one.at, now) if one.at else "-",
                one.author,
                one.did,
                one.text or one.before,
            )
            for one in found
        ]
        if rows:
            out(
                app.redact(
                    table(("VERSION", "CHANGE", "ENTRY", "WHEN", "BY", "WHAT", "TEXT"), rows, painter(app.loaded))
                )
            )
        else:
            err("Nothing was ever noted.\n")
        return 0

    return with_memory(work)
