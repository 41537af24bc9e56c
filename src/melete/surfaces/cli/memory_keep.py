"""`melete memory add`, `edit`, `revert`, `forget`, `accept` and `reject`: a person's own hand on what is remembered."""

import subprocess
from typing import TYPE_CHECKING

import click

from melete.app.config_edit import open_in
from melete.app.wire import Melete
from melete.core.errors import UsageError
from melete.core.memory import Noting, Operation, Target
from melete.surfaces.cli.config import editor
from melete.surfaces.cli.one_memory import done, person_option, user_option, with_memory
from melete.surfaces.cli.output import err, one_line, visible

if TYPE_CHECKING:
    from melete.app.memory import Notes


@click.command()
@click.argument("text")
@user_option
@click.option("--until", default="", metavar="DATE", help="The last day on which it holds, as YYYY-MM-DD.")
@person_option
def add(text: str, about_user: bool, until: str, who: str) -> int:
    """Remember TEXT, about the work or with --user about you."""

    async def work(app: Melete, notes: "Notes") -> int:
        step = Operation(action="add", content=text, until=until)
        change = Noting(target="user" if about_user else "memory", operations=(step,), who=who, author="user")
        return done(app, await notes.apply(change), "Remembered; sessions that begin from now on are shown it.")

    return with_memory(work)


@click.command()
@user_option
@person_option
def edit(about_user: bool, who: str) -> int:
    """Open MEMORY.md, or with --user USER.md, in your editor; a line with § alone stands between two entries."""

    async def work(app: Melete, notes: "Notes") -> int:
        await notes.entries(who)  # what was changed before is noted before
        before = len(await notes.history("", who))
        path = notes.path("user" if about_user else "memory", who)
        home = app.loaded.home
        home.folder(path.parent)
        open_in(editor(app.loaded.variables), path, subprocess.call, shown=home.display(path))
        await notes.entries(who)
        for one in (await notes.history("", who))[before:]:
            err(f"{one.did} {one.entry}: {app.redact(one_line(one.text or one.before))}\n")
        for one in await notes.problems(who):
            err(f"melete: warning: {visible(one.what)}; {visible(one.next)}\n")
        return 0

    return with_memory(work)


@click.command()
@click.argument("version")
@person_option
def revert(version: str, who: str) -> int:
    """Put back what an entry said in VERSION, or with @NUMBER everything that one change did; see `history`."""

    async def work(app: Melete, notes: "Notes") -> int:
        return done(app, await notes.revert(version, who), "It is put back.")

    return with_memory(work)


@click.command()
@click.argument("entries", nargs=-1, metavar="[ENTRY]...")
@user_option
@click.option("--session", default="", metavar="ID", help="Everything that was noted in this session.")
@click.option("--dry-run", "dry", is_flag=True, help="Only say what would be forgotten.")
@person_option
def forget(entries: tuple[str, ...], about_user: bool, session: str, dry: bool, who: str) -> int:
    """Forget entries, by id or by a part of their text, or what a session left; `revert` brings it back."""
    if bool(entries) == bool(session):
        raise UsageError("nothing is named to be forgotten" if not entries else "name entries or --session, not both")

    async def work(app: Melete, notes: "Notes") -> int:
        verb = "Would be forgotten" if dry else "Forgotten"
        if session:
            noted = await notes.forget(session, who, dry=dry)
            return done(app, noted, f"{verb}: what session {session} noted.")
        named = [one.target for one in await notes.entries(who) if entries[0] == one.id or entries[0] in one.text]
        target: Target = "user" if about_user or set(named) == {"user"} else "memory"
        steps = tuple(Operation(action="remove", old_text=one) for one in entries)
        change = Noting(target=target, operations=steps, who=who, author="user")
        noted = await (notes.check(change) if dry else notes.apply(change))
        return done(app, noted, f"{verb}: {', '.join(entries)}.")

    return with_memory(work)


@click.command()
@click.argument("proposal")
@person_option
def accept(proposal: str, who: str) -> int:
    """Do what a proposal says."""

    async def work(app: Melete, notes: "Notes") -> int:
        return done(app, await notes.accept(proposal, who), f"{proposal} is done.")

    return with_memory(work)


@click.command()
@click.argument("proposal")
@person_option
def reject(proposal: str, who: str) -> int:
    """Let a proposal be."""

    async def work(app: Melete, notes: "Notes") -> int:
        await notes.reject(proposal, who)
        err(f"{app.redact(proposal)} is let be.\n")
        return 0

    return with_memory(work)
