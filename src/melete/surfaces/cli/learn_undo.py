"""`melete learn undo`: what was learned is taken back, with what came of it; a person's own edits stay."""

from collections.abc import Iterator

import click
import msgspec

from melete.app.learn_undo import Effect, Undone, meant, undo
from melete.app.wire import Melete
from melete.core.errors import UsageError
from melete.surfaces.cli.completing import complete_lesson, complete_session
from melete.surfaces.cli.one_skill import diff_text
from melete.surfaces.cli.options import json_option, painter, settings
from melete.surfaces.cli.output import err, one_line, out
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.running import run_with_app

SHOWN = 10
MARKS = {
    "back": ("green", "↶"), "merged": ("green", "↶"), "archived": ("green", "↶"), "changed": ("green", "↶"),
    "stays": ("yellow", "?"),
}  # fmt: skip


@click.command("undo")
@click.argument("name", default="", metavar="[N]", shell_complete=complete_lesson)
@click.option(
    "--session",
    default="",
    metavar="ID",
    help="Everything that came from this session.",
    shell_complete=complete_session,
)
@click.option("--dry-run", "dry", is_flag=True, help="Only say what would be taken back.")
@json_option
def undo_(name: str, session: str, dry: bool, as_json: bool) -> int:
    """Take back the lesson, change or undo of number N, or all that a session has taught, with what was made of it.

    What it replaced comes back; what you edited yourself stays. An undo has a number too, and is taken back by it.
    """
    if bool(name) == bool(session):
        what = "name a number or --session, not both" if name else "nothing is named to be taken back"
        raise UsageError(what, next="melete learn log lists what was learned, with its numbers")

    async def work(app: Melete) -> int:
        done = await undo(app, await meant(app, session=session, name=name), dry=dry)
        if as_json:
            out(app.redact(msgspec.json.encode(done).decode()) + "\n")
        else:
            out(app.redact("".join(_told(done, painter(app.loaded)))))
            err(_last(done))
        return 0

    return run_with_app(settings(), work)


def _told(done: Undone, paint: Paint) -> Iterator[str]:
    for one in done.effects:
        style, sign = MARKS[one.did]
        yield f"{paint(style, sign)} {paint('bold', one_line(one.name))}: {_what(one, dry=done.dry)}\n"
        if one.target == "memory":
            yield from (f"    {one_line(line)}\n" for line in one.said)
        if done.dry and one.diff:
            yield diff_text(one.diff, paint, owner="user")
    if done.closed:
        numbers = ", ".join(map(str, done.closed))
        yield f"{numbers} {'would not wait' if done.dry else 'does not wait'} in the inbox any more\n"


def _what(one: Effect, *, dry: bool) -> str:
    if one.did == "stays":
        waits = f"; the rest waits for you: melete learn show {one.proposal}" if one.proposal else ""
        return f"stays as it is. {one_line('; '.join(one.said))}{waits}"
    if one.did == "changed":
        return ("would change" if dry else "changed") if one.taken else "nothing is left of it"
    if not one.taken:
        return "is so already"
    many = f"{len(one.taken)} change{'s' * (len(one.taken) != 1)} taken back"
    is_ = "would be" if dry else "is"
    how = {
        "archived": f"{is_} archived",
        "merged": f"{is_} without it, your own edits kept, as {one.version[:SHOWN]}",
        "back": f"{is_} as it was in {one.version[:SHOWN]}",
    }[one.did]
    return f"{how} ({many})"


def _last(done: Undone) -> str:
    if done.dry:
        return "Nothing was changed.\n"
    if not done.number:
        return f"What came from {done.about} was taken back before.\n"
    if not (done.closed or any(one.taken for one in done.effects)):
        return "Nothing was taken back.\n"
    return f"Taken back: {done.about}. This brings it back: melete learn undo {done.number}\n"
