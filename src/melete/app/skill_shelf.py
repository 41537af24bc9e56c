"""What a person does with the skills of their home: look at them, edit, pin, archive, bring back. Composition root."""

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from melete.app.skills import OURS, VOUCHED, is_set, library
from melete.app.variables import SERVER_ALONE
from melete.app.wire import Melete
from melete.core.plugin import Lazy
from melete.core.ports import Applied, Change
from melete.core.skill import MAIN, Skill, Variable
from melete.core.tool import ToolError
from melete.security.visible import visible

if TYPE_CHECKING:
    from melete.skills.manage import Keeper

_tree_of: Lazy[Callable[[Path], Mapping[str, bytes]]] = Lazy("melete.skills.versions:tree_of")
escaped = visible
"""A text from somebody else, with everything spelt out that hides or deceives."""


class Use(Struct, frozen=True, kw_only=True):
    """How a skill was used: how often it was loaded, listed and suggested, and the tokens that loading it took."""

    name: str
    loaded: int = 0
    suggested: int = 0
    listed: int = 0
    tokens: int = 0
    last: datetime | None = None


async def noticed(keeper: "Keeper", name: str) -> str:
    """The version that a skill's files are now, kept if somebody has edited them since; raises ToolError."""
    skill = keeper.get(name)
    tree = await asyncio.to_thread(_tree_of.load(), Path(skill.folder))
    return (await keeper.versions.notice(skill, tree)).version


async def write(
    keeper: "Keeper", name: str, text: str, *, base: str = "", category: str = "", reason: str = ""
) -> Applied:
    """Make a person's text the SKILL.md of a skill: a new one, or an edit of the version `base`."""
    change = Change(name=name, files={MAIN: text}, base=base, author="user", category=category, reason=reason)
    return await keeper.apply(change)


async def archive(keeper: "Keeper", name: str) -> Applied:
    """Move a skill into the archive; raises ToolError."""
    if keeper.get(name).root == "hub":
        raise ToolError(f"{name} came from elsewhere; take it away with: melete skills uninstall {name}")
    base = await noticed(keeper, name)
    return await keeper.apply(Change(name=name, files={MAIN: None}, base=base, author="user", reason="archived"))


async def restore(keeper: "Keeper", name: str) -> Applied:
    """Bring an archived skill back as it was; raises ToolError."""
    if name in keeper:
        raise ToolError(f"{name} is not archived")
    return await revert(keeper, name, reason="brought back from the archive")


async def revert(keeper: "Keeper", name: str, *, version: str = "", reason: str = "") -> Applied:
    """Make a skill what it was in an earlier version; raises ToolError, also for one of others that was uninstalled."""
    head = keeper.versions.head(name)
    if name not in keeper and head and head.owner == "hub":
        raise ToolError(f"{name} came from elsewhere and was uninstalled; install it again")
    return await keeper.revert(name, version, reason=reason)


def archived(keeper: "Keeper") -> list[str]:
    """The names of the skills that were archived and not brought back; those of others are uninstalled and not among them."""
    rows = [row for row in keeper.versions.facts("skill.state") if row.get("state") == "archived"]
    return sorted({row["skill"] for row in rows if row.get("owner") != "hub" and row["skill"] not in keeper})


async def pin(keeper: "Keeper", name: str, *, on: bool) -> None:
    """List a skill first in every session from now on, or where its use puts it again; raises ToolError."""
    skill = keeper.get(name)
    await noticed(keeper, skill.name)
    await keeper.versions.mark(skill.name, reason="pinned" if on else "unpinned", pinned=on, owner=skill.owner)


def on_trial(skill: Skill) -> bool:
    """Whether the agent wrote a skill and no person has vouched for it."""
    return skill.owner == "agent" and skill.trust < VOUCHED


async def vouch(keeper: "Keeper", name: str) -> None:
    """Have a skill of the agent's count as one that a person has read and agreed to."""
    await keeper.versions.mark(name, reason="vouched for by a person", owner="agent", trust=VOUCHED, state="active")


def missing(app: Melete, skill: Skill) -> Sequence[Variable]:
    """The variables that a skill needs and that have no value, less those that a skill cannot have."""
    variables = app.loaded.variables
    return [one for one in skill.variables if may_ask(one) and not is_set(variables, one.name)]


def may_ask(variable: Variable) -> bool:
    """Whether a skill is handed a variable of this name."""
    return not variable.name.startswith(OURS) and variable.name not in SERVER_ALONE


def stats(app: Melete, names: Collection[str] = ()) -> list[Use]:
    """How the skills were used, the most loaded first; only these where any are named."""
    found: dict[str, dict[str, Any]] = {}
    lists: dict[str, Any] = {}
    for fact in app.ledger.read(kind="skill.exposure"):
        mark = fact.get("list", "")
        lists[mark] = fact.get("skills") or lists.get(mark, ())
        how = {"index": "listed", "retrieved": "suggested"}.get(fact["how"], "loaded")
        for name, _, _, tokens in lists[mark]:
            row = found.setdefault(name, {})
            row[how] = row.get(how, 0) + 1
            if how == "loaded":
                row["tokens"] = row.get("tokens", 0) + tokens
                row["last"] = datetime.fromisoformat(fact["at"])
    uses = [Use(name=name, **row) for name, row in found.items() if not names or name in names]
    return sorted(uses, key=lambda use: (-use.loaded, -use.suggested, -use.listed, use.name))


def here(app: Melete) -> "Keeper":
    """The skills that a session of this folder would have."""
    return library(app, os.getcwd())  # noqa: PTH109 - as the person's shell names it
