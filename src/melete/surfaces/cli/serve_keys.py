"""`melete serve keys`: who may use the server, and for what."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click
import msgspec
from msgspec import Struct

from melete.app.audit import PERSON, Act, Audit
from melete.app.clock import clock_from
from melete.app.key_file import FORMS, SCOPES, KeyFile, NamedKey, ends_at, lifetime
from melete.app.key_strength import own_keys
from melete.app.settings import Loaded, find_home
from melete.core.errors import MeleteError
from melete.core.plugin import Lazy
from melete.surfaces.cli.options import json_option, painter, settings
from melete.surfaces.cli.output import ReaderLeft, err, one_line, out
from melete.surfaces.cli.table import table
from melete.surfaces.cli.tables import ago
from melete.surfaces.cli.which import listed

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

GRACE = "24h"
_item: Lazy["Callable[..., CompletionItem]"] = Lazy("click.shell_completion:CompletionItem")


class Row(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key as JSON shows it; `key` is there once, when it was made."""

    name: str
    key: str = ""
    scopes: tuple[str, ...]
    created: datetime
    rotated: datetime | None = None
    expires: datetime | None = None
    used: datetime | None = None
    old_until: datetime | None = None
    active: bool


def complete_key(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":  # noqa: ARG001 - click's signature
    """Names of keys that begin so, with what they may do; none when they cannot be read: nobody asked for an error."""
    try:
        keys = KeyFile(find_home(profile=str(ctx.find_root().params.get("profile") or ""))).read()
    except (MeleteError, OSError):
        return []
    return [_item.load()(key.name, help=", ".join(key.scopes)) for key in keys if key.name.startswith(incomplete)]


name_argument = click.argument("name", shell_complete=complete_key)


@click.group()
def keys() -> None:
    """Keys for others: who may use the server, and for what.

    The key in server.api_key (MELETE_SERVER_KEY) is your own: it opens everything. Each key made here has a name, scopes, and
    sessions that no other named key sees.
    """


@keys.command("list")
@json_option
def list_(as_json: bool) -> int:
    """List the keys; the secrets themselves are not kept anywhere."""
    loaded = settings()
    file, now = KeyFile(loaded.home), _now(loaded)
    used = file.used()
    rows = [_row(key, now, used=used.get(key.name)) for key in file.read()]
    if as_json:
        for row in rows:
            _print(row)
        return 0
    if rows:
        cells = [_cells(row, now) for row in rows]
        out(table(("NAME", "SCOPES", "MADE", "LAST USED", "ENDS", "REPLACED KEY ENDS"), cells, painter(loaded)))
    else:
        err("There are no named keys; `melete serve keys add NAME` makes one.\n")
    if count := len(own_keys(loaded.settings.server.api_key)):
        where = loaded.origin("server.api_key").where
        err(f"Your own key{'' if count == 1 else f's ({count})'} from {one_line(where)} opens the server as well.\n")
    return 0


@keys.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="|".join(SCOPES),
    help="What it may do, several with commas (default: chat). "
    + " ".join(f"{name}: {what}." for name, what in SCOPES.items()),
)
@click.option("--expires", default="", metavar="TIME", help=f"When it ends: {FORMS} from now, or a date.")
@json_option
def add(name: str, scopes: tuple[str, ...], expires: str, as_json: bool) -> int:
    """Make a key and print it, this once, on standard output."""
    loaded = settings()
    file, now = KeyFile(loaded.home), _now(loaded)
    end = ends_at(expires, now, where="--expires") if expires else None
    first = not file.read() and not own_keys(loaded.settings.server.api_key)
    secret = file.add(name, scopes=listed(scopes) or ("chat",), now=now, expires=end)
    _audit(loaded, "add", name, at=now)
    status = _hand_over(file, name, secret, now=now, as_json=as_json)
    if first:
        env = loaded.home.display(loaded.home.env)
        err(
            f"From now on the server asks everybody for a key. You have none of your own: put MELETE_SERVER_KEY into {env}\n"
        )
    return status


@keys.command()
@name_argument
@click.option(
    "--grace",
    default=GRACE,
    show_default=True,
    metavar="TIME",
    help=f"How long the old key still works: {FORMS}, or 0.",
)
@click.option("--expires", default="", metavar="TIME", help="Give the new key another end.")
@json_option
def rotate(name: str, grace: str, expires: str, as_json: bool) -> int:
    """Give a key a new secret and print it, this once; the old one works for a while longer."""
    loaded = settings()
    file, now = KeyFile(loaded.home), _now(loaded)
    end = ends_at(expires, now, where="--expires") if expires else None
    secret = file.rotate(name, now=now, grace=lifetime(grace, where="--grace"), expires=end)
    _audit(loaded, "rotate", name, at=now)
    return _hand_over(file, name, secret, now=now, as_json=as_json)


@keys.command()
@name_argument
@json_option
def remove(name: str, as_json: bool) -> int:
    """Take a key away: it opens nothing from now on. Its sessions stay."""
    loaded = settings()
    now = _now(loaded)
    left = KeyFile(loaded.home).remove(name)
    _audit(loaded, "remove", name, at=now)
    if as_json:
        out(msgspec.json.encode({"removed": name, "left": len(left)}).decode() + "\n")
    err(f"Removed the key {name}. Its sessions stay; a new key of this name would see them.\n")
    if not left and not own_keys(loaded.settings.server.api_key):
        err("There is no key any more: a server that is started on loopback now asks for none.\n")
    return 0


def _hand_over(file: KeyFile, name: str, secret: str, *, now: datetime, as_json: bool) -> int:
    """Print the key; say so, and how to get another, when nobody was there to take it."""
    key = next((key for key in file.read() if key.name == name), None)
    try:
        if as_json and key is not None:
            _print(_row(key, now, secret=secret))
        else:
            out(f"{secret}\n")
    except (ReaderLeft, MeleteError):
        err(
            f"melete: the key {name} was made but could not be shown; `melete serve keys rotate {name}` makes another\n"
        )
        return 1
    if key is not None:
        err(f"This is the key {name}, for {', '.join(key.scopes)}. It is shown this once and kept nowhere.\n")
        if key.expires:
            err(f"It ends on {_day(key.expires)}.\n")
        if key.old:
            err(f"The key before works until {_day(max(old.until for old in key.old))}.\n")
    return 0


def _row(key: NamedKey, now: datetime, *, used: datetime | None = None, secret: str = "") -> Row:
    old = [replaced.until for replaced in key.old if replaced.until > now]
    return Row(
        name=key.name,
        key=secret,
        scopes=key.scopes,
        created=key.created,
        rotated=key.rotated,
        expires=key.expires,
        used=used if used is not None and used >= key.created else None,  # else it was another key of this name
        old_until=max(old, default=None),
        active=key.expires is None or key.expires > now,
    )


def _cells(row: Row, now: datetime) -> Sequence[str]:
    ends = _day(row.expires) if row.expires else "never"
    return (
        row.name,
        ", ".join(row.scopes),
        ago(row.rotated or row.created, now),
        ago(row.used, now) if row.used else "never",
        ends if row.active else f"{ends} (over)",
        _day(row.old_until) if row.old_until else "-",
    )


def _day(at: datetime) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M")


def _print(row: Row) -> None:
    out(msgspec.json.encode(row).decode() + "\n")


def _now(loaded: Loaded) -> datetime:
    return clock_from(loaded.variables.get("MELETE_CLOCK", "")).now()


def _audit(loaded: Loaded, command: str, name: str, *, at: datetime) -> None:
    audit = Audit(loaded.home)
    audit.write(Act(at=at, who=PERSON, came_from="terminal", method="command", route=f"serve keys {command}", key=name))
    audit.close()
