"""What a session is shown of memory: each file with how full it is, and doubts beside what they are about. Part of the memory."""

from collections.abc import Sequence
from typing import Final

from melete.core.memory import WITHHELD, MemoryEntry, Target
from melete.memory.files import MARK, joined
from melete.memory.plan import excerpt

NAMES: Final[dict[Target, tuple[str, str]]] = {
    "memory": ("Your notes", "MEMORY.md"),
    "user": ("About the person", "USER.md"),
}


def withheld(entry: MemoryEntry) -> bool:
    """Whether an entry may not be shown to a model."""
    return any(mark.startswith(WITHHELD) for mark in entry.marks)


def shown(target: Target, entries: Sequence[MemoryEntry], *, limit: int) -> str:
    """One file as the model reads it, empty where nothing is in it; of what is withheld the rule alone.

    Of a file that somebody has made longer than its limit the beginning is shown.
    """
    used = len(joined([entry.text for entry in entries]))
    if not used:
        return ""
    fit = fitting(entries, limit=limit)
    rows = [_row(entry, limit) for entry in fit]
    if more := len(entries) - len(fit):
        rows.append(f"[{more} more do not fit into what is shown: merge or remove some]")
    what, name = NAMES[target]
    head = f"{what} ({name}, target {target}, {used:,} of {limit:,} characters used; {MARK} parts entries)"
    return f"{head}\n" + f"\n{MARK}\n".join(rows)


def fitting(entries: Sequence[MemoryEntry], *, limit: int) -> Sequence[MemoryEntry]:
    """The first entries of a file, as many as are shown."""
    room = limit
    for number, entry in enumerate(entries):
        room -= len(entry.text)
        if room < 0 and number:
            return entries[:number]
    return entries


def _row(entry: MemoryEntry, limit: int) -> str:
    if withheld(entry):
        return f"[an entry is {entry.marks[0].partition(':')[0]}]"
    text = entry.text if len(entry.text) <= limit else entry.text[:limit] + "…"
    return f"{text} [doubtful: {excerpt('; '.join(entry.marks))}]" if entry.marks else text
