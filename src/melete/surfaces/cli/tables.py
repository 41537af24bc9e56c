"""The tables that more than one command shows."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime

from melete.app.commands import CommandDef
from melete.app.context_report import Cost
from melete.app.settings import Loaded
from melete.app.vendors import vendors
from melete.core.session import SessionInfo
from melete.core.tool import Tool
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.table import table

FIRST_WORDS = re.compile(r"[.;:](?:\s|$)")
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def session_table(rows: Sequence[SessionInfo], paint: Paint, *, now: datetime, redact: Callable[[str], str]) -> str:
    """Sessions, a row each; titles are redacted before they are wrapped."""
    cells = [
        (
            row.id,
            "running" if row.running else row.stop.replace("_", " ") or "-",
            ago(row.updated, now),
            str(row.messages),
            row.model or "-",
            redact(row.title) or "-",
        )
        for row in rows
    ]
    return table(("ID", "STATE", "CHANGED", "MSGS", "MODEL", "TITLE"), cells, paint, right=("MSGS",))


def ago(at: datetime, now: datetime) -> str:
    """How long ago something was, in the largest unit that fits."""
    seconds = max(0, int((now - at).total_seconds()))
    for size, unit in UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def context_table(rows: Sequence[Cost], paint: Paint) -> str:
    """The parts of a request with their sizes, sums last."""
    cells = [(row.group, row.part, f"{row.bytes:,}", f"{row.tokens:,}") for row in rows]
    for group in dict.fromkeys(row.group for row in rows):
        mine = [row for row in rows if row.group == group]
        cells.append(("sum", group, f"{sum(r.bytes for r in mine):,}", f"{sum(r.tokens for r in mine):,}"))
    cells.append(("sum", "all", f"{sum(r.bytes for r in rows):,}", f"{sum(r.tokens for r in rows):,}"))
    return table(("GROUP", "PART", "BYTES", "~TOKENS"), cells, paint, right=("BYTES", "~TOKENS"))


def model_table(loaded: Loaded, paint: Paint) -> str:
    """The vendors of the catalogue, and for which of them a key is set."""
    cells = [
        (name, vendor.wire, vendor.base_url, _key(vendor.key, loaded, local=vendor.local))
        for name, vendor in vendors().items()
    ]
    return table(("PROVIDER", "WIRE", "ADDRESS", "KEY"), cells, paint)


def _key(variable: str, loaded: Loaded, *, local: bool) -> str:
    if loaded.variables.get(variable, "").strip():
        return f"{variable} is set"
    return "needs none" if local else f"{variable} is not set"


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
