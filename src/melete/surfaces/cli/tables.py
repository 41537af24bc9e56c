"""The tables that more than one command shows."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from melete.app.catalog import known_providers
from melete.app.commands import CommandDef
from melete.app.settings import Loaded
from melete.app.sizes import size_text
from melete.app.vendors import Vendor, key_set
from melete.core.session import SessionInfo
from melete.core.tool import Tool
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.table import table

if TYPE_CHECKING:
    from melete.app.context_report import Cost

FIRST_WORDS = re.compile(r"[.;:](?:\s|$)")
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def session_table(
    rows: Sequence[SessionInfo], paint: Paint, *, now: datetime, redact: Callable[[str], str], also: str = ""
) -> str:
    """Sessions, a row each; texts are redacted before they are wrapped. `also` adds a column: `cost`, `tokens` or `size`."""
    cells = [
        (
            row.id,
            redact(state_of(row)),
            ago(row.updated, now),
            str(row.messages),
            *([AMOUNTS[also](row)] if also else ()),
            redact(row.model) or "-",
            redact(row.title) or "-",
        )
        for row in rows
    ]
    more = (also.upper(),) if also else ()
    return table(("ID", "STATE", "CHANGED", "MSGS", *more, "MODEL", "TITLE"), cells, paint, right=("MSGS", *more))


def state_of(row: SessionInfo) -> str:
    """Whether a session runs, or how its last run ended."""
    return "running" if row.running else row.stop.replace("_", " ") or "-"


def _cost(row: SessionInfo) -> str:
    if row.cost_usd is None:
        return "unknown" if row.usage.total else "-"
    return f"{'≥' if row.cost_status == 'partial' else ''}${row.cost_usd:.4f}"


AMOUNTS: Mapping[str, Callable[[SessionInfo], str]] = {
    "cost": _cost,
    "tokens": lambda row: f"{row.usage.total:,}",
    "size": lambda row: size_text(row.size),
}


def ago(at: datetime, now: datetime) -> str:
    """How long ago something was, in the largest unit that fits."""
    seconds = max(0, int((now - at).total_seconds()))
    for size, unit in UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def context_table(rows: "Sequence[Cost]", paint: Paint) -> str:
    """The parts of a request with their sizes, sums last."""
    cells = [(row.group, row.part, f"{row.bytes:,}", f"{row.tokens:,}") for row in rows]
    for group in dict.fromkeys(row.group for row in rows):
        mine = [row for row in rows if row.group == group]
        cells.append(("sum", group, f"{sum(r.bytes for r in mine):,}", f"{sum(r.tokens for r in mine):,}"))
    cells.append(("sum", "all", f"{sum(r.bytes for r in rows):,}", f"{sum(r.tokens for r in rows):,}"))
    return table(("GROUP", "PART", "BYTES", "~TOKENS"), cells, paint, right=("BYTES", "~TOKENS"))


def model_table(loaded: Loaded, paint: Paint, *, counts: Mapping[str, int] | None = None) -> str:
    """The providers that are known, how many of their models are known, and for which of them a key is set."""
    known = known_providers(loaded)
    if counts is None:
        cells = [(name, v.wire, v.base_url, _key(v, loaded)) for name, v in known.items()]
        return table(("PROVIDER", "WIRE", "ADDRESS", "KEY"), cells, paint)
    numbered = [(name, f"{counts.get(name, 0):,}", v.wire, v.base_url, _key(v, loaded)) for name, v in known.items()]
    return table(("PROVIDER", "MODELS", "WIRE", "ADDRESS", "KEY"), numbered, paint, right=("MODELS",))


def _key(vendor: Vendor, loaded: Loaded) -> str:
    if name := key_set(vendor, loaded.variables):
        return f"{name} is set"
    return f"{vendor.key} is not set" if vendor.key and not vendor.local else "needs none"


def command_table(commands: Sequence[CommandDef], paint: Paint) -> str:
    """Slash commands, how they are written first."""
    cells = [
        (command.usage, f"{command.about} {_aliases(command)}".rstrip(), command.category.lower())
        for command in commands
    ]
    return table(("COMMAND", "WHAT IT DOES", "GROUP"), cells, paint)


def _aliases(command: CommandDef) -> str:
    return f"(also {', '.join(f'/{alias}' for alias in command.aliases)})" if command.aliases else ""


def tool_table(tools: Sequence[Tool], paint: Paint) -> str:
    """The tools and what they may change."""
    cells = [(tool.name, tool.effect, FIRST_WORDS.split(tool.about, maxsplit=1)[0]) for tool in tools]
    return table(("TOOL", "EFFECT", "WHAT IT DOES"), cells, paint)
