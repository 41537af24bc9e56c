"""What a shell is offered for an argument: sessions by id with their titles, skills, environments, approvals."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from melete.app.clock import SystemClock
from melete.app.grants import GrantFile
from melete.app.places import AUTO, names
from melete.app.plugins import registry
from melete.app.settings import load
from melete.app.wire import open_melete
from melete.core.errors import MeleteError
from melete.core.plugin import Lazy
from melete.core.session import SessionInfo
from melete.surfaces.cli.output import one_line

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from melete.app.learn_inbox import Inbox

MOST = 200
_here: Lazy[Callable[..., Any]] = Lazy("melete.app.skill_shelf:here")
_archived: Lazy[Callable[..., list[str]]] = Lazy("melete.app.skill_shelf:archived")
_inbox: "Lazy[Callable[..., Inbox]]" = Lazy("melete.app.learn_inbox:Inbox")
WAITS, IN_USE = ("waiting",), ("trial", "accepted")
WANTED = {"accept": WAITS, "edit": WAITS, "reject": WAITS, "undo": IN_USE}
"""The commands that take the numbers of some lessons only, by where these stand."""
ASKS = ("why", "diff")
"""The commands that take the name of a skill as well."""
SHORT = 12
"""Characters of a digest that are shown; any beginning that fits one grant only will do."""
_item: Lazy["Callable[..., CompletionItem]"] = Lazy("click.shell_completion:CompletionItem")


def complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":  # noqa: ARG001 - click's signature
    """Sessions whose id or title begins so, the last changed first; none when they cannot be read: nobody asked for an error."""
    profile = ctx.find_root().params.get("profile") or ""
    try:
        rows = asyncio.run(_latest(str(profile)))
    except (MeleteError, OSError):
        return []
    begun = incomplete.casefold()
    return [
        _item.load()(row.id, help=title or row.cwd)
        for row, title in rows
        if row.id.startswith(begun) or title.casefold().startswith(begun)
    ]


def complete_environment(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":  # noqa: ARG001 - click's signature
    """Environments whose name begins so."""
    return [_item.load()(name) for name in (*names(registry()), AUTO) if name.startswith(incomplete)]


def complete_skill(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Skills whose name begins so, archived ones for `restore`; none when they cannot be read."""
    profile = ctx.find_root().params.get("profile") or ""
    try:
        rows = asyncio.run(_skills(str(profile), archived=ctx.info_name == "restore"))
    except (MeleteError, OSError):
        return []
    given = ctx.params.get(param.name or "") or ()
    return [_item.load()(name, help=about) for name, about in rows if name.startswith(incomplete) and name not in given]


async def _skills(profile: str, *, archived: bool) -> Sequence[tuple[str, str]]:
    async with open_melete(load(None, profile=profile)) as app:
        keeper = _here.load()(app)
        if archived:
            return [(name, "") for name in _archived.load()(keeper)]
        return [(skill.name, one_line(app.redact(skill.description))) for skill in keeper.all()]


def complete_lesson(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The numbers of lessons, the latest first: those that the command can do something about, with skills where it takes them."""
    profile, name = ctx.find_root().params.get("profile") or "", ctx.info_name
    try:
        rows = asyncio.run(_lessons(str(profile), WANTED.get(name or "", ())))
    except (MeleteError, OSError):
        return []
    given = ctx.params.get(param.name or "") or ()
    found = [(number, about) for number, about in rows if number.startswith(incomplete) and number not in given]
    return [
        *(_item.load()(number, help=about) for number, about in found[:MOST]),
        *(complete_skill(ctx, param, incomplete) if name in ASKS else ()),
    ]


async def _lessons(profile: str, states: Sequence[str]) -> Sequence[tuple[str, str]]:
    async with open_melete(load(None, profile=profile)) as app:
        items = reversed(_inbox.load()(app).items(everything=True))
        return [
            (str(one.number), app.redact(one_line(f"{one.proposal.name} ({one.proposal.did}), {one.state}")))
            for one in items
            if one.state in (states or (one.state,))
        ]


def complete_grant(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":  # noqa: ARG001 - click's signature
    """Approvals for good whose digest begins so; none when they cannot be read."""
    profile = ctx.find_root().params.get("profile") or ""
    try:
        found = GrantFile(load(None, profile=str(profile)).home.grants, clock=SystemClock()).read()
    except (MeleteError, OSError):
        return []
    return [
        _item.load()(one.digest[:SHORT], help=one_line(f"{one.tool}: {one.shown}"))
        for one in found
        if one.digest.startswith(incomplete)
    ]


async def _latest(profile: str) -> Sequence[tuple[SessionInfo, str]]:
    async with open_melete(load(None, profile=profile)) as app:
        return [(row, one_line(app.redact(row.title))) for row in await app.store.list(limit=MOST)]
