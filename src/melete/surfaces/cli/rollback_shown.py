"""Checkpoints and what a rollback did, in words for a terminal."""

from collections.abc import Callable, Sequence
from datetime import datetime

from melete.core.environment import Checkpoint, Restored
from melete.surfaces.cli.output import one_line
from melete.surfaces.cli.paint import Paint, cut
from melete.surfaces.cli.table import table

LONGEST = 60
MOST = 20
Redact = Callable[[str], str]


def checkpoint_table(rows: Sequence[Checkpoint], paint: Paint, *, now: datetime, redact: Redact) -> str:
    """The checkpoints, the newest first, numbered as a rollback takes them."""
    if not rows:
        return "There are no checkpoints.\n"
    shown: list[tuple[str, str, str]] = []
    for row in rows:
        ago = int((now - row.at).total_seconds())
        said = cut(one_line(redact(row.label)), LONGEST) or "(no text)"
        more = f" ({row.left_out} files too large)" if row.left_out else ""
        shown.append((str(row.number), _ago(ago), said + more))
    return table(("N", "made", "before"), shown, paint)


def _ago(seconds: int) -> str:
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            many = seconds // length
            return f"{many} {unit}{'s' * (many > 1)} ago"
    return "just now"


def restored_text(done: Restored) -> str:
    """What a rollback did."""
    lines = [f"{len(done.changed) + len(done.removed)} files are as they were before that turn."]
    for what, paths in (
        ("Put back", done.changed),
        ("Removed, for it was not there", done.removed),
        ("Kept, for somebody else changed it since (--force rolls it back)", done.kept),
        ("Kept, for it was not part of the checkpoint", done.untold),
        ("Could not be put back", done.failed),
    ):
        lines += [f"  {what}: {one_line(path)}" for path in paths[:MOST]]
        if len(paths) > MOST:
            lines.append(f"  {what}: {len(paths) - MOST} more")
    if not (done.changed or done.removed):
        lines[0] = "Nothing was changed: there is nothing of that turn to take back."
    if done.undo:
        lines.append("Roll back once more to undo this.")
    return "\n".join(lines) + "\n"
