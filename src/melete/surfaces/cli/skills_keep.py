"""`melete skills edit`, `scan`, `pin`, `archive`, `restore` and `setup`: a person's own hand on their skills."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from melete.app.checks import How, SkillRow, check_skill
from melete.app.env_edit import set_variable
from melete.app.skill_shelf import (
    archive,
    escaped,
    missing,
    noticed,
    on_trial,
    pin,
    restore,
    vouch,
    write,
)
from melete.app.wire import Melete
from melete.core.errors import UsageError
from melete.core.skill import Skill, Variable
from melete.surfaces.cli.check import skill_text
from melete.surfaces.cli.completing import complete_skill
from melete.surfaces.cli.config import editor
from melete.surfaces.cli.one_skill import agree, diff_text, done, skill_argument, with_skills
from melete.surfaces.cli.options import attended, json_option, painter
from melete.surfaces.cli.output import err, one_line, out, visible

if TYPE_CHECKING:
    from melete.app.skill_shelf import Keeper


@click.command()
@skill_argument
@click.option("-m", "--reason", default="", metavar="TEXT", help="Why, for the history.")
def edit(name: str, reason: str) -> int:
    """Open a skill's SKILL.md in your editor; what you save is checked, and becomes a version."""

    async def work(app: Melete, keeper: "Keeper") -> int:
        skill = keeper.get(name)
        base, text = await noticed(keeper, skill.name), keeper.text(skill.name)
        new = edited(app, text)
        if new is None or new == text:
            err("Nothing was changed.\n")
            return 0
        applied = await write(keeper, skill.name, new, base=base, reason=reason)
        if not applied.ok:
            raise UsageError(applied.reason, kept=f"what you wrote is in {aside(app, skill.name, new)}", next="mend it")
        out(app.redact(diff_text(applied.diff, painter(app.loaded), owner=skill.owner)))
        await warn(keeper, skill.name)
        return done(applied, f"{skill.name} is changed.")

    return with_skills(work)


def edited(app: Melete, text: str) -> str | None:
    """The text as a person has left it in their editor, None where they did not save it; raises UsageError without an editor."""
    if not (command := editor(app.loaded.variables)):
        raise UsageError("no editor is set", kept="nothing was changed", next="set EDITOR")
    try:
        return click.edit(text, editor=command, extension=".md")
    except click.ClickException as error:
        raise UsageError(error.message, kept="nothing was changed", next="set EDITOR to an editor") from error


async def warn(keeper: "Keeper", name: str) -> None:
    """Say what the scan finds in a skill that a person has just written, which is loaded all the same."""
    skill = keeper.get(name)
    found = await asyncio.to_thread(check_skill, SkillRow(dir=skill.folder, trust="user"), How())
    if found["verdict"] != "safe":
        first = found["findings"][0]
        err(
            f"melete: warning: the scan calls {name} {found['verdict']}: {visible(first['file'])} {visible(first['reason'])}\n"
        )


def aside(app: Melete, name: str, text: str) -> Path:
    """Keep what could not be made a version, so that nothing that was typed is lost."""
    path = app.loaded.home.folder(app.loaded.home.state / "drafts") / f"{name}.md"
    path.write_text(text, encoding="utf-8")
    return path


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME|DIR]...", shell_complete=complete_skill)
@json_option
def scan(names: tuple[str, ...], as_json: bool) -> int:
    """Scan skills, all of them without a name, or a folder that is not installed; 1 when one may not be loaded.

    What you wrote yourself is loaded whatever the scan says.
    """

    async def work(app: Melete, keeper: "Keeper") -> int:
        paint, status = painter(app.loaded), 0
        for label, folder, owner in [_meant(keeper, name) for name in names] or [_place(one) for one in keeper.all()]:
            found = await asyncio.to_thread(check_skill, SkillRow(dir=folder, trust=owner), How())
            found["allowed"] |= owner == "user"
            status |= not found["allowed"]
            if as_json:
                out(app.redact(msgspec.json.encode({"name": label, **found}).decode()) + "\n")
            elif names or found["verdict"] == "dangerous" or not found["allowed"]:
                out(app.redact(f"{paint('bold', label)}  {skill_text(found, owner, paint)}"))
        if not (names or as_json or status):
            err(f"All {len(keeper.all())} skills may be loaded.\n")
        return status

    return with_skills(work)


def _place(skill: Skill) -> tuple[str, str, str]:
    return skill.name, skill.folder, skill.owner


def _meant(keeper: "Keeper", name: str) -> tuple[str, str, str]:
    if name not in keeper and Path(name).is_dir():
        return name, name, "community"
    return _place(keeper.get(name))


@click.command("pin")
@skill_argument
def pin_(name: str) -> int:
    """List a skill first in every session from now on."""
    return _pin(name, on=True)


@click.command()
@skill_argument
def unpin(name: str) -> int:
    """List a skill where its use puts it again."""
    return _pin(name, on=False)


def _pin(name: str, *, on: bool) -> int:
    async def work(app: Melete, keeper: "Keeper") -> int:  # noqa: ARG001 - as all of them
        await pin(keeper, name, on=on)
        err(f"{name} is {'pinned' if on else 'not pinned any more'}.\n")
        return 0

    return with_skills(work)


@click.command("archive")
@skill_argument
def archive_(name: str) -> int:
    """Take a skill out of use; `restore` brings it back with its history."""

    async def work(app: Melete, keeper: "Keeper") -> int:  # noqa: ARG001
        applied = await archive(keeper, name)
        return done(applied, f"{name} is {applied.diff}; `melete skills restore {name}` brings it back.")

    return with_skills(work)


@click.command("restore")
@skill_argument
def restore_(name: str) -> int:
    """Bring an archived skill back as it was."""

    async def work(app: Melete, keeper: "Keeper") -> int:  # noqa: ARG001
        return done(await restore(keeper, name), f"{name} is in use again.")

    return with_skills(work)


@click.command()
@skill_argument
def setup(name: str) -> int:
    """Ask for the variables that a skill needs and put them into the home's .env; what is typed is not shown."""

    async def work(app: Melete, keeper: "Keeper") -> int:
        skill = keeper.get(name)
        wanted, home = missing(app, skill), app.loaded.home
        if skill.root == "project" and wanted:
            raise UsageError(
                f"{name} came with this folder, and such skills are given no variables", next="install it first"
            )
        if wanted and not attended():
            names = ", ".join(one.name for one in wanted)
            raise UsageError(
                f"{name} needs {names}, and nobody can be asked here", next=f"put them into {home.display(home.env)}"
            )
        if on_trial(skill) and skill.variables:
            names = ", ".join(one.name for one in skill.variables)
            question = f"The agent wrote {name}. Have you read it, and may its commands see {names}?"
            agree(question, yes=False, otherwise="it is on trial, and its commands see no such variables")
            await vouch(keeper, name)
        if skill.setup and wanted:
            err(f"{escaped(one_line(skill.setup))}\n")
        for one in wanted:
            if value := _asked(one):
                set_variable(home, one.name, value)
                err(f"{one.name} is in {home.display(home.env)} now.\n")
        if not wanted:
            err(f"{name} has all the variables that it needs.\n")
        return 0

    return with_skills(work)


def _asked(variable: Variable) -> str:
    for text in (variable.required_for and f"for {variable.required_for}", variable.help):
        if text:
            err(f"  {escaped(one_line(text))}\n")
    label = f"{variable.name} ({escaped(one_line(variable.prompt))})" if variable.prompt else variable.name
    return str(click.prompt(f"{label}, empty to leave it", default="", show_default=False, hide_input=True, err=True))
