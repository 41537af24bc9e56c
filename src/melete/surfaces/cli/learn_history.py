"""`melete learn log`, `why`, `blame`, `diff` and `revert`: where what is known came from, what came of it, and back."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime

import click
import msgspec

from melete.app.learn_history import MEMORY, Line, Step, Story, blame, changed, history, put_back, story
from melete.app.skills import library
from melete.app.wire import Melete
from melete.core.errors import UsageError
from melete.core.tool import ToolError
from melete.surfaces.cli.completing import complete_lesson, complete_session, complete_skill
from melete.surfaces.cli.learn_shown import STATES, evidence_lines, gate_lines
from melete.surfaces.cli.one_memory import person_option
from melete.surfaces.cli.one_skill import diff_text
from melete.surfaces.cli.options import json_option, painter, settings
from melete.surfaces.cli.output import err, one_line, out, visible
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.running import run_with_app
from melete.surfaces.cli.table import table
from melete.surfaces.cli.tables import ago

SHOWN = 10
"""Characters of a version that are shown."""
MOST = 8
TIMES = 5
OUTSIDE = {"web": "text from the web", "import": "imported text"}
BY = {"user": "you", "agent": "the agent, in its work", "review": "a review"}


def with_history(work: Callable[[Melete], Awaitable[int]]) -> int:
    """Run `work`; what it is refused is raised as UsageError, in one line."""

    async def body(app: Melete) -> int:
        try:
            return await work(app)
        except ToolError as error:
            raise UsageError(app.redact(one_line(str(error))), kept="nothing was changed") from error

    return run_with_app(settings(), body)


@click.command()
@click.argument("name", default="", metavar="[NAME]", shell_complete=complete_skill)
@click.option(
    "--session", default="", metavar="ID", help="Only what came from this session.", shell_complete=complete_session
)
@click.option("-n", "most", type=click.IntRange(min=1), default=20, help="So many at most; 20 without it.")
@json_option
def log(name: str, session: str, most: int, as_json: bool) -> int:
    """List what was learned, proposed and taken back, the latest first; of one skill, or of `memory` or `user`."""

    async def work(app: Melete) -> int:
        whole = (await app.store.find(session)).id if session else ""
        steps = [*reversed(history(app, name, session=whole))][:most]
        if as_json:
            out(app.redact("".join(f"{msgspec.json.encode(one).decode()}\n" for one in steps)))
        elif steps:
            head = ("N", "WHEN", "WHAT", "", "STATE", "BY", "SESSION")
            out(
                app.redact(
                    table(head, [_row(one, app.clock.now()) for one in steps], painter(app.loaded), right=("N",))
                )
            )
        else:
            err(f"Nothing was learned of {one_line(name)}.\n" if name else "Nothing was learned yet.\n")
        return 0

    return with_history(work)


def _row(one: Step, now: datetime) -> tuple[str, ...]:
    state = STATES[one.state][2] if one.state in STATES else one.state
    return (
        str(one.number),
        _when(one.at, now),
        one.name,
        one.did,
        state or "-",
        ("you" if one.author == "user" else one.author) or "-",
        one.session or "-",
    )


def _when(at: str, now: datetime) -> str:
    return ago(datetime.fromisoformat(at), now) if at else "-"


# ---- why -------------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("name", metavar="NAME|N", shell_complete=complete_lesson)
@json_option
def why(name: str, as_json: bool) -> int:
    """Tell the story of a skill, of `memory` or `user`, of an entry by its id, or of the lesson or change N.

    What was asked, what the work showed, what was changed, what the gates said, where it was used since, and what came of it.
    """

    async def work(app: Melete) -> int:
        if as_json:
            out(app.redact(msgspec.json.encode(await story(app, name)).decode()) + "\n")
        else:
            out("".join(await story_lines(app, name, painter(app.loaded))))
        return 0

    return with_history(work)


async def story_lines(app: Melete, name: str, paint: Paint, *, brief: bool = False) -> list[str]:
    """The story of what `melete learn why` takes, as lines with their ends, `brief` without the change; raises UsageError."""
    return [app.redact(line) for line in told(await story(app, name), app.clock.now(), paint, brief=brief)]


def told(one: Story, now: datetime, paint: Paint, *, brief: bool = False) -> Iterator[str]:
    """A story as text, in the order in which it happened."""
    yield from _head(one, paint)
    yield from _part(paint, "asked", ", ".join(part for part in _where(one) if part))
    yield from evidence_lines(one.evidence, paint, said=one.said, brief=brief) if one.step.session else ()
    if one.taint in OUTSIDE:
        yield f"  {paint('yellow', '!')} the session had read {OUTSIDE[one.taint]}\n"
    yield from _noticed(one, paint)
    yield from _part(paint, "changed" if one.step.version else "proposed", _how(one, now))
    if not brief:
        yield diff_text(one.diff, paint, owner="agent" if one.taint not in OUTSIDE else "hub")
    if one.lesson:
        yield from _part(paint, "gates")
        yield from gate_lines(one.verdicts, paint)
    yield from (f"  {one_line(_decided(did.did, did.by, did.reason))}, {_day(did.at)}\n" for did in one.decisions)
    yield from _part(paint, "used since")
    yield from _used(one)
    yield from _part(paint, "what came of it") if one.effects else ()
    yield from _came(one)
    yield from _part(paint, "since then") if one.since else ()
    yield from (f"  {_day(step.at)}  {one_line(_then(step))}\n" for step in one.since[-MOST:])
    if one.step.version and one.step.state not in ("undone", "rejected"):
        yield f"\n{paint('dim', f'melete learn undo {one.lesson or one.step.number} takes it back')}\n"


def _head(one: Story, paint: Paint) -> Iterator[str]:
    step = one.step
    style, sign, state = STATES.get(step.state, ("green", "✓", step.state))
    number = f"lesson {one.lesson}" if one.lesson else f"change {step.number}"
    parts = (paint("bold", one_line(step.name)), step.did, state, number)
    yield f"{paint(style, sign)} {' · '.join(part for part in parts if part)}\n"


def _part(paint: Paint, name: str, *rest: str) -> Iterator[str]:
    yield f"\n{paint('bold', name)}{''.join(f'  {visible(one)}' for one in rest if one)}\n"


def _where(one: Story) -> Sequence[str]:
    if not one.step.session:
        return ("outside of a session",)
    where = f"in session {one.step.session}"
    many = f"in {len(one.turns)} turns of session {one.step.session}"
    return _day(one.evidence.at) if one.evidence.at else "", many if len(one.turns) > 1 else where


def _noticed(one: Story, paint: Paint) -> Iterator[str]:
    """What was found worth a review, and the review."""
    if not (one.signals or one.review):
        return
    yield from _part(paint, "noticed")
    for debt in one.signals[-MOST:]:
        yield f"  +{debt.weight} {one_line(debt.what)}\n"
    if review := one.review:
        cost = f"{review.usage.total:,} tokens{f', in session {review.log}' if review.log else ''}"
        yield f"  so it was looked at: {one_line(review.why)}, {_day(review.at)}, {cost}\n"


def _how(one: Story, now: datetime) -> str:
    by = BY.get(one.step.author, one.step.author)
    version = f"version {one.step.version[:SHOWN]}" if one.step.target == "skill" and one.step.version else ""
    reason = "" if one.lesson else one.step.reason
    parts = (
        f"{_day(one.step.at)} ({_when(one.step.at, now)})",
        f"by {by}" if by else "",
        one.model and f"with {one.model}",
        version,
        reason,
    )
    return ", ".join(one_line(part) for part in parts if part)


def _day(at: str) -> str:
    """A time as people read it, in their zone."""
    return f"{datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M}" if at else "at some time"


def _decided(did: str, by: str, reason: str) -> str:
    return f"{did} by {BY.get(by, by)}{f': {reason}' if reason else ''}"


def _used(one: Story) -> Iterator[str]:
    sessions = list({use.session: use for use in one.uses}.values())
    how = {"loaded": "loaded", "shown": "shown in the prompt"}[one.uses[0].how] if one.uses else ""
    if not sessions:
        yield "  not yet\n"
        return
    many = f"{len(one.uses)} time{'s' * (len(one.uses) != 1)}"
    yield f"  {how} {many}, in {len(sessions)} session{'s' * (len(sessions) != 1)}\n"
    yield from (f"  {_day(use.at)}  {one_line(use.session)}\n" for use in sessions[-TIMES:])


def _came(one: Story) -> Iterator[str]:
    for effect in one.effects:
        parts = [
            f"with {effect.model or 'a model'}: reward {effect.reward:+.2f} over {effect.uses} use{'s' * (effect.uses != 1)}",
            f"followed in {effect.followed}",
            f"corrected in {effect.corrected}" if effect.corrected else "",
            f"{effect.calls:.1f} calls a task{f', before {effect.before:.1f}' if effect.before else ''}",
        ]
        yield f"  {one_line(', '.join(part for part in parts if part))}\n"


def _then(step: Step) -> str:
    by = BY.get(step.author, step.author)
    where = f", in session {step.session}" if step.session else ""
    return f"{step.did} by {by or 'somebody'}{f': {step.reason}' if step.reason else ''}{where} ({step.number})"


# ---- blame -----------------------------------------------------------------------------------------------------------


@click.command("blame")
@click.argument("name", metavar="SKILL|memory|user", shell_complete=complete_skill)
@click.option("--file", "path", default="SKILL.md", metavar="PATH", help="Another file of the skill.")
@person_option
@json_option
def blame_(name: str, path: str, who: str, as_json: bool) -> int:
    """Show for each line which change brought it, by whom, and the words or the call that it came from."""

    async def work(app: Melete) -> int:
        lines = await blame(app, name, path=path, who=who)
        if as_json:
            out(app.redact("".join(f"{msgspec.json.encode(one).decode()}\n" for one in lines)))
        else:
            out(app.redact("".join(_blamed(lines, app.clock.now(), painter(app.loaded)))))
        if not lines:
            err("There is nothing in it.\n")
        return 0

    return with_history(work)


def _blamed(lines: Sequence[Line], now: datetime, paint: Paint) -> Iterator[str]:
    """The lines, each run of one change under its head."""
    before: Line | None = None
    for one in lines:
        if before is None or (one.number, one.session) != (before.number, before.session):
            where = f"session {one.session}" if one.session else ""
            parts = (str(one.number), one.version[:SHOWN], BY.get(one.author, one.author), _when(one.at, now), where)
            yield f"{paint('yellow', ' · '.join(part for part in parts if part))}\n"
        yield f"  {one.line:>3} {visible(one.text)}\n"
        if one.source:
            yield f"      {paint('dim', paint.fit('← ' + one_line(one.source), taken=6))}\n"
        before = one


# ---- what changed, and back ------------------------------------------------------------------------------------------


@click.command()
@click.argument("name", metavar="NAME|N", shell_complete=complete_lesson)
@click.argument("old", default="")
@click.argument("new", default="")
def diff(name: str, old: str, new: str) -> int:
    """Show what the lesson, change or undo N changed, or a skill's last change, or what it changed from version OLD up to NEW."""

    async def work(app: Melete) -> int:
        versions = library(app).versions
        named = versions.history(name)
        if not named and name in MEMORY:
            raise UsageError(
                f"{name} is looked at entry by entry", next="see: melete learn log memory, melete learn diff N"
            )
        found = versions.diff(name, old=old, new=new) if named else changed(app, name)
        out(app.redact(diff_text(found, painter(app.loaded), owner=named[-1].owner if named else "user")))
        if not found:
            err("Nothing differs.\n")
        return 0

    return with_history(work)


@click.command()
@click.argument("name", metavar="SKILL|VERSION", shell_complete=complete_skill)
@click.argument("version", default="")
@click.option("-m", "--reason", default="", metavar="TEXT", help="Why, for the history.")
def revert(name: str, version: str, reason: str) -> int:
    """Make a skill what it was before its last change, or in VERSION; or an entry of memory what it was in its VERSION."""

    async def work(app: Melete) -> int:
        said, _, shown = (await put_back(app, name, version, reason=reason)).partition("\n")
        out(app.redact(diff_text(shown, painter(app.loaded), owner="user")))
        err(app.redact(f"{one_line(said)}\n"))
        return 0

    return with_history(work)
