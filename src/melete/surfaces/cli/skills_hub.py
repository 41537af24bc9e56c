"""`melete skills install`, `update`, `uninstall`, `sync` and `reset`: skills of others, and those that come with Melete."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from melete.app.bundled import bundled
from melete.app.skill_hub import hub, is_offered
from melete.app.skill_shelf import escaped
from melete.app.wire import Melete
from melete.core.errors import MeleteError, UsageError
from melete.surfaces.cli.completing import complete_skill
from melete.surfaces.cli.one_skill import VERDICTS, agree, diff_text, skill_argument, with_skills
from melete.surfaces.cli.options import painter
from melete.surfaces.cli.output import err, one_line, out
from melete.surfaces.cli.paint import Paint

if TYPE_CHECKING:
    from melete.app.skill_shelf import Keeper

SHOWN = 10
GAINS = {"tools": "tools", "variables": "secrets", "commands": "programs", "hosts": "hosts"}


def consent_options(function: Any) -> Any:
    """Add what answers the question before it is put."""
    options = (
        click.option("-n", "--dry-run", is_flag=True, help="Only show what would change."),
        click.option("-y", "--yes", is_flag=True, help="Do not ask."),
        click.option(
            "--accept-caution",
            is_flag=True,
            help="With --yes: also what the scan is wary of, and what an update gains.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@click.argument("source")
@consent_options
def install(source: str, dry_run: bool, yes: bool, accept_caution: bool) -> int:
    """Install a skill of somebody else, after showing what it holds and would use.

    SOURCE is a folder, an archive, a git or https address, or a NAME that a registry lists; SOURCE#FOLDER chooses one of several
    skills in it.
    """

    async def work(app: Melete, keeper: "Keeper") -> int:  # noqa: ARG001
        offer = await hub(app).offer(source)
        return await _take(app, offer, dry_run=dry_run, yes=yes, accept_caution=accept_caution)

    return with_skills(work, wrong=MeleteError)


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_skill)
@click.option("--theirs", is_flag=True, help="Give up edits of yours; they stay in the history.")
@consent_options
def update(names: tuple[str, ...], theirs: bool, dry_run: bool, yes: bool, accept_caution: bool) -> int:
    """Fetch installed skills again, all of them without a name, and show what would change before it does.

    Your edits are merged with what is new.
    """

    async def work(app: Melete, keeper: "Keeper") -> int:  # noqa: ARG001
        there = hub(app)
        wanted, status = names or tuple(there.installed()), 0
        if not wanted:
            err("No skill is installed from elsewhere.\n")
        for name in wanted:
            offer = await there.update(name, theirs=theirs)
            try:
                await _take(app, offer, dry_run=dry_run, yes=yes, accept_caution=accept_caution)
            except MeleteError as error:
                if isinstance(error, UsageError) or len(wanted) == 1:
                    raise
                err(f"melete: {escaped(str(error))}\n")
                status = 1
        return status

    return with_skills(work, wrong=MeleteError)


async def _take(app: Melete, offer: Any, *, dry_run: bool, yes: bool, accept_caution: bool) -> int:
    """Show an offer, ask, and carry it out; raises MeleteError for one that is refused."""
    if not offer.changed:
        err(f"{offer.name} is up to date.\n")
        return 0
    out(app.redact("".join(_told(offer, painter(app.loaded)))))
    if dry_run:
        err("Nothing was changed.\n")
        return 0
    if not (offer.refused or offer.conflicts):
        if offer.caution and yes and not accept_caution:
            await hub(app).install(offer)  # is refused, which is noted
        doing = "Install" if offer.new else "Update"
        question = f"{doing} {offer.name}{f', although {escaped(offer.caution)}' if offer.caution else ''}?"
        agree(question, yes=yes, otherwise="nothing was changed")
    made = await hub(app).install(offer, caution=bool(offer.caution))
    err(f"{'Installed' if offer.new else 'Updated'} {offer.name}, version {made.version[:SHOWN]}.\n")
    if not await is_offered(app, offer.name):
        err(
            "It is not offered to the agent by itself: your own skills or your memory teach the same commands in another way.\n"
            f"Call for it with /{offer.name}, or agree to it: melete skills pin {offer.name}\n"
        )
    return 0


def _told(offer: Any, paint: Paint) -> Iterator[str]:
    """An offer as a person must see it before a yes; nothing in it is taken at its word."""

    def line(text: str) -> str:
        return f"{escaped(one_line(text))}\n"

    revision = f" at {offer.revision[:SHOWN]}" if offer.revision else ""
    yield f"{paint('bold', offer.name)} {line(f'{offer.listed} from {offer.source}{revision}')}"
    yield line(offer.description)
    verdict = offer.report.verdict
    yield f"scan: {paint(VERDICTS[verdict], verdict)}\n"
    for one in offer.report.findings:
        yield f"  {line(f'{one.severity}  {one.file}:{one.line}  {one.rule}: {one.reason}')}"
    more = "would use" if offer.new else "would use beyond what it uses now"
    gains = [(word, getattr(offer.gains, field)) for field, word in GAINS.items() if getattr(offer.gains, field)]
    yield "".join((f"{more}:\n", *(f"  {word}: {line(', '.join(names))}" for word, names in gains))) if gains else ""
    for field, word in (("edited", "edited by you, which is kept"), ("conflicts", "changed by you and by its author")):
        if getattr(offer, field):
            yield f"{word}: {line(', '.join(getattr(offer, field)))}"
    yield "\n" + diff_text(offer.diff, paint, owner="hub")


@click.command()
@skill_argument
def uninstall(name: str) -> int:
    """Move an installed skill into the archive."""

    async def work(app: Melete, keeper: "Keeper") -> int:  # noqa: ARG001
        place = await hub(app).uninstall(name)
        err(f"Uninstalled {name}; it lies in {app.loaded.home.display(place)}.\n")
        return 0

    return with_skills(work)


@click.command()
@click.option("--off", "choice", flag_value="off", help="From now on leave the skills alone that come with Melete.")
@click.option("--on", "choice", flag_value="on", help="Keep them up to date again.")
def sync(choice: str | None) -> int:
    """Bring the skills that come with Melete up to date; what you edited or removed stays as you left it.

    This happens by itself at every start.
    """

    async def work(app: Melete, keeper: "Keeper") -> int:
        packaged = bundled(app.loaded)
        if choice:
            packaged.opt(out=choice == "off")
        done = await asyncio.to_thread(packaged.sync)
        if packaged.off:
            err("They are left alone; `melete skills sync --on` brings them up to date again.\n")
            return 0
        keeper.refresh()
        fields = ("new", "updated", "dropped") if done else ()
        for field in fields:
            if names := getattr(done, field):
                out(f"{field}: {', '.join(names)}\n")
        for word, names in (("edited, kept", packaged.modified()), ("removed, left so", packaged.deleted())):
            if names:
                out(f"{word}: {', '.join(names)}\n")
        err("They are up to date; `melete skills reset NAME` brings one back as it is packaged.\n")
        return 0

    return with_skills(work)


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_skill)
def reset(names: tuple[str, ...]) -> int:
    """Make skills what they are as they come with Melete, also removed ones; an edit stays in the history."""

    async def work(app: Melete, keeper: "Keeper") -> int:
        for name in names:
            version = await bundled(app.loaded).reset(name, keeper)
            err(f"{name} is as it is packaged, version {version[:SHOWN]}.\n")
        return 0

    return with_skills(work)
