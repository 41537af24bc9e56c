"""`melete sessions list --tree`: which sessions came from which, and at which step a fork left."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from melete.app.figures import plural
from melete.app.wire import Melete
from melete.core.event import Opened
from melete.core.segments import segments
from melete.core.session import SessionInfo, SessionRef
from melete.core.steps import steps
from melete.surfaces.cli.output import one_line
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.session_head import segment_lines
from melete.surfaces.cli.tables import ago, state_of

GOES_ON, LAST, BELOW, NOTHING = "├─ ", "└─ ", "│  ", "   "


async def forest(app: Melete, rows: Sequence[SessionInfo], paint: Paint) -> str:
    """The sessions as trees; one whose parent is not among them stands by itself."""
    now = app.clock.now()
    left_at = {row.id: await _step(app, row) for row in rows if row.forked_from}
    lines: list[str] = []
    for branch, row in branches(rows):
        parts = [state_of(row), ago(row.updated, now), f"{row.messages} {plural(row.messages, 'message')}", row.model]
        if row.forked_from:
            parts.insert(0, f"fork at step {left_at[row.id]}")
        title = app.redact(one_line(row.title))
        told = " · ".join(app.redact(one_line(part)) for part in parts if part and part != "-")
        text = paint.fit(f"{branch}{row.id}  {title or 'untitled'}")
        head = f"{branch}{row.id}"
        lines.append(
            paint("dim", text[: len(branch)]) + paint("bold", text[len(branch) : len(head)]) + text[len(head) :]
        )
        below = branch.replace(GOES_ON, BELOW).replace(LAST, NOTHING)
        lines.append(paint("dim", paint.fit(f"{below}{NOTHING}{told}")))
        lines += [paint("dim", paint.fit(f"{below}{NOTHING}{app.redact(one)}")) for one in await _segments(app, row)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def branches(rows: Sequence[SessionInfo]) -> Iterator[tuple[str, SessionInfo]]:
    """The rows with the lines that lead to them, each parent before what came from it; the order of the rows among equals."""
    known = {row.id: row for row in rows}
    below: defaultdict[str, list[SessionInfo]] = defaultdict(list)
    for row in rows:
        below[_link(row)].append(row)
    seen: set[str] = set()
    for row in rows:
        yield from _under(_top(row, known), below, seen)


def _link(row: SessionInfo) -> str:
    return row.forked_from or row.parent


def _top(row: SessionInfo, known: Mapping[str, SessionInfo]) -> SessionInfo:
    """The first of the known sessions above one; in a circle, the one before it begins anew."""
    passed = {row.id}
    while (link := _link(row)) in known and link not in passed:
        passed.add(link)
        row = known[link]
    return row


def _under(
    top: SessionInfo, below: Mapping[str, Sequence[SessionInfo]], seen: set[str]
) -> Iterator[tuple[str, SessionInfo]]:
    waiting = [("", "", top)]
    while waiting:
        branch, inner, row = waiting.pop()
        if row.id in seen:
            continue
        seen.add(row.id)
        yield branch, row
        children = [child for child in below.get(row.id, ()) if child.id not in seen]
        for place, child in enumerate(reversed(children)):
            waiting.append((inner + (GOES_ON if place else LAST), inner + (BELOW if place else NOTHING), child))


async def _segments(app: Melete, row: SessionInfo) -> list[str]:
    """The parts of a conversation that was shortened."""
    if not row.compactions:
        return []
    facts = await app.store.facts(SessionRef(id=row.id, owner=row.owner))
    return list(segment_lines(segments(facts, row.id), steps(facts)))[1:]


async def _step(app: Melete, row: SessionInfo) -> int:
    """The step of the original at which a fork left it: a fork keeps the numbers of what it copied."""
    facts = await app.store.facts(SessionRef(id=row.id, owner=row.owner))
    opened = next((fact for fact in facts if isinstance(fact, Opened)), Opened())
    return len(steps(fact for fact in facts if fact.seq <= opened.copied))
