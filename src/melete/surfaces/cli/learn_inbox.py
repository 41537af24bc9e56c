"""`melete learn inbox`, `show`, `accept`, `reject` and `edit`: a person decides about what was proposed."""

from collections.abc import Awaitable, Callable, Sequence

import click
import msgspec

from melete.app.learn_inbox import TAKEN_BACK, Done, Inbox, Item, Look
from melete.app.wire import Melete
from melete.core.errors import MeleteError, UsageError
from melete.core.skill import MAIN
from melete.core.tool import ToolError
from melete.surfaces.cli.completing import complete_lesson
from melete.surfaces.cli.learn_shown import brief, row, whole
from melete.surfaces.cli.one_memory import person_option
from melete.surfaces.cli.options import json_option, painter, settings
from melete.surfaces.cli.output import err, one_line, out, visible
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.running import run_with_app
from melete.surfaces.cli.skills_keep import aside, edited

Work = Callable[[Melete, Inbox], Awaitable[int]]
EMPTY = "Nothing waits for you. `melete learn inbox --all` shows what was decided; {}.\n"
WAYS = "melete learn show N tells all; accept N, edit N, reject N"
NEVER = "Nothing was proposed yet; {}.\n"
NOW = "finished work is looked at by itself, or now with `melete learn work`"
OFF = "learning is off, `melete config set learning.enabled true` turns it on"


def with_inbox(work: Work, who: str) -> int:
    """Run `work` with the lessons of the home; raises UsageError for what it is refused."""

    async def body(app: Melete) -> int:
        try:
            return await work(app, Inbox(app, who))
        except ToolError as error:
            raise UsageError(app.redact(one_line(str(error))), kept="nothing was changed") from error

    return run_with_app(settings(), body)


@click.command("inbox")
@click.option("--all", "everything", is_flag=True, help="Also what was decided, is in use, or was refused.")
@person_option
@json_option
def inbox_(everything: bool, who: str, as_json: bool) -> int:
    """List what waits for your word: what each would change, what it rests on, and what it cost."""

    async def work(app: Melete, box: Inbox) -> int:
        items = box.items(everything=everything)
        if as_json:
            looks = [await _glance(box, item) for item in items]
            rows = (row(look, everything=look.item.state == "waiting") for look in looks)
            out(app.redact("".join(f"{msgspec.json.encode(one).decode()}\n" for one in rows)))
        else:
            out(app.redact(await listing(box, items, painter(app.loaded))))
        if not items:
            how = NOW if app.loaded.settings.learning.enabled else OFF
            err((NEVER if everything else EMPTY).format(how))
        return 0

    return with_inbox(work, who)


async def listing(box: Inbox, items: Sequence[Item], paint: Paint) -> str:
    """The lessons of a list as text, with what to do about those that wait."""
    parts: list[str] = []
    for item in items:
        parts += brief(await _glance(box, item), box.now(), paint)
    if any(item.state == "waiting" for item in items):
        parts.append(f"\n{paint('dim', paint.fit(WAYS))}\n")
    return "".join(parts)


async def _glance(box: Inbox, item: Item) -> Look:
    """All about what waits, what is in the ledger about the rest."""
    return await box.look(item) if item.state == "waiting" else Look(item=item, diff=item.proposal.diff)


@click.command()
@click.argument("number", metavar="N", shell_complete=complete_lesson)
@person_option
@json_option
def show(number: str, who: str, as_json: bool) -> int:
    """Show a lesson: what it changes, what it rests on, what the gates say, what it cost, how to undo it."""

    async def work(app: Melete, box: Inbox) -> int:
        look = await box.look(box.find(number))
        text = "".join(whole(look, box.now(), painter(app.loaded)))
        out(app.redact(f"{msgspec.json.encode(row(look)).decode()}\n" if as_json else text))
        return 0

    return with_inbox(work, who)


@click.command()
@click.argument("numbers", nargs=-1, required=True, metavar="N...", shell_complete=complete_lesson)
@click.option(
    "--anyway", is_flag=True, help="Also what a gate refused by judgement, or you rejected; never what is not safe."
)
@person_option
@json_option
def accept(numbers: tuple[str, ...], anyway: bool, who: str, as_json: bool) -> int:
    """Make lessons usable, as a trial."""

    async def work(app: Melete, box: Inbox) -> int:
        async def one(item: Item) -> None:
            told(app, await box.accept(item, anyway=anyway), as_json=as_json)

        return await each(app, box, numbers, one)

    return with_inbox(work, who)


@click.command()
@click.argument("numbers", nargs=-1, required=True, metavar="N...", shell_complete=complete_lesson)
@click.option("-m", "--reason", default="", metavar="TEXT", help="Why; the next review is told.")
@person_option
@json_option
def reject(numbers: tuple[str, ...], reason: str, who: str, as_json: bool) -> int:
    """Turn lessons down; what they say is not proposed again."""

    async def work(app: Melete, box: Inbox) -> int:
        async def one(item: Item) -> None:
            await box.reject(item, reason)
            if as_json:
                out(f"{msgspec.json.encode({'number': item.number, 'state': 'rejected'}).decode()}\n")
            else:
                err(f"{item.number} {one_line(item.proposal.name)} is turned down and will not be proposed again.\n")

        return await each(app, box, numbers, one)

    return with_inbox(work, who)


async def each(app: Melete, box: Inbox, names: Sequence[str], work: Callable[[Item], Awaitable[None]]) -> int:
    """Decide about several lessons; what goes wrong with one is said, and stops none of the others. The status to end with."""
    status = 0
    for name in dict.fromkeys(names):
        try:
            await work(box.find(name))
        except MeleteError as error:
            if len(names) == 1:
                raise
            err(f"melete: {app.redact(visible(f'{name}: {error}'))}\n")
            status = error.exit_code
    return status


def told(app: Melete, done: Done, *, as_json: bool = False) -> None:
    """Say that a lesson is usable."""
    name, number = one_line(done.item.proposal.name), done.item.number
    if as_json:
        fields = {
            "number": number,
            "name": name,
            "state": "accepted",
            "version": done.version,
            "receipts": done.receipts,
        }
        out(app.redact(f"{msgspec.json.encode(fields).decode()}\n"))
        return
    for line in (accepted(done), *done.receipts):
        err(f"{app.redact(one_line(line))}\n")


def accepted(done: Done) -> str:
    """That a lesson is usable, and how it is taken back."""
    number, made = done.item.number, done.item.proposal
    if made.did == TAKEN_BACK:
        gone = made.change.get("files", {}).get(MAIN, "") is None
        back = f"skills restore {one_line(made.name)}" if gone else f"learn undo {number}"
        return f"{number} {one_line(made.name)} is without it now. To have it again: melete {back}"
    since = (
        "usable from now on, as a trial"
        if made.target == "skill"
        else "remembered; sessions that begin now are shown it"
    )
    return f"{number} {one_line(made.name)} is {since}. To take it back: melete learn undo {number}"


@click.command()
@click.argument("number", metavar="N", shell_complete=complete_lesson)
@person_option
@json_option
def edit(number: str, who: str, as_json: bool) -> int:
    """Open a lesson in your editor; what you save is checked, and accepted."""

    async def work(app: Melete, box: Inbox) -> int:
        item = box.find(number)
        texts = dict(box.texts(item))
        new = {path: edited(app, text) for path, text in texts.items()}
        changed = {path: text for path, text in new.items() if text is not None and text.strip() != texts[path].strip()}
        if not changed:
            err(f"Nothing was changed, and {item.number} is as it was.\n")
            return 0
        try:
            reworded = await box.reword(item, changed)
        except (UsageError, ToolError) as error:
            kept = [
                str(aside(app, f"{item.number}-{path.replace('/', '-').removesuffix('.md')}", text))
                for path, text in changed.items()
            ]
            raise UsageError(str(error), kept=f"what you wrote is in {', '.join(kept)}") from error
        told(app, await box.accept(reworded), as_json=as_json)
        return 0

    return with_inbox(work, who)
