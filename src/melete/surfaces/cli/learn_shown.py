"""A proposed lesson as a person must see it: what would change, what it rests on, what the gates said, its price, the way back."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from melete.app.learn_evidence import Evidence
from melete.app.learn_inbox import TAKEN_BACK, Item, Look, Proposed, Verdict
from melete.surfaces.cli.models_shown import usd
from melete.surfaces.cli.one_skill import STYLES, diff_text
from melete.surfaces.cli.output import one_line, visible
from melete.surfaces.cli.paint import Paint, cut
from melete.surfaces.cli.table import table
from melete.surfaces.cli.tables import ago

DIVIDES = re.compile(r"(?:--- |\+\+\+ |[+-](?:---|name: .*)?$)")
"""Lines of a diff that say nothing in a list."""
SHOWN = 8
"""Lines of a diff in a list."""
BRIEF = 66
"""Columns of what is shown of a call in brief."""
MARKS = {"ok": ("green", "✓"), "failed": ("red", "✗"), "answer": ("green", "✓"), "none": ("dim", "·")}
STATES = {
    "waiting": ("yellow", "?", "waits for you"),
    "trial": ("green", "✓", "in use, as a trial"),
    "accepted": ("green", "✓", "accepted, in use as a trial"),
    "refused": ("red", "✗", "refused"),
    "rejected": ("red", "✗", "rejected"),
    "undone": ("dim", "↶", "taken back"),
    "replaced": ("dim", "→", "replaced"),
}
PASSED = {
    "form": "has the right form and length",
    "grounding": "what it says was done with success, or said by you",
    "safety": "no secret, no order to its reader, nothing that does harm",
    "ownership": "nothing of yours is overwritten",
    "duplicates": "nothing that is there says the same",
}


def head(item: Item, now: datetime, paint: Paint) -> str:
    """A lesson in a line: its number, what it changes, where it stands and since when."""
    style, sign, state = STATES[item.state]
    state = "accepted" if (item.state, item.proposal.did) == ("accepted", TAKEN_BACK) else state
    when = ago(datetime.fromisoformat(item.at), now) if item.at else ""
    name = f"{paint('bold', str(item.number))}  {one_line(item.proposal.name)} ({one_line(item.proposal.did)})"
    return f"{paint(style, sign)} {' · '.join(one for one in (name, state, when) if one)}\n"


def brief(look: Look, now: datetime, paint: Paint) -> Iterator[str]:
    """A lesson in a list: why it stands where it does, the person's sentence, what it changes, what it cost."""
    item = look.item
    yield head(item, now, paint)
    rows = [("why", look.hindrance or item.reason)]
    if item.state == "waiting":
        rows += [("you said", f"“{look.evidence.said[0]}”" if look.evidence.said else item.said)]
        rows += [("rests on", _calls_counted(look.evidence)), ("cost", cost(item.proposal))]
    for name, text in rows:
        if text:
            yield f"    {paint('dim', f'{name}:')} {paint.fit(one_line(text), taken=6 + len(name))}\n"
    if item.state == "waiting":
        changed = [line for line in look.diff.splitlines() if line[:1] in ("+", "-") and not DIVIDES.match(line)]
        yield from (f"    {paint(STYLES[line[0]], paint.fit(visible(line), taken=4))}\n" for line in changed[:SHOWN])
        if len(changed) > SHOWN:
            yield f"    {paint('dim', f'… and {len(changed) - SHOWN} more lines')}\n"


def whole(look: Look, now: datetime, paint: Paint) -> Iterator[str]:
    """A lesson with all that there is to say about it."""
    item, made = look.item, look.item.proposal
    yield head(item, now, paint)
    by = f"session {made.session}" if made.session else ""
    rows = [
        ("because", item.reason),
        ("cannot be accepted now", look.hindrance),
        ("edited since", "yes: both edits are put together below" if look.moved else ""),
        ("learned from", ", ".join(one for one in (by, look.due) if one)),
        ("kind", made.class_),
        ("had read", "text from outside" if made.taint not in ("none", "tool") else ""),
        ("cost", cost(made)),
        ("id", made.id),
    ]
    yield table(("", ""), [row for row in rows if row[1]], paint)
    yield f"\n{paint('bold', 'What changed' if item.version else 'What would change')}\n"
    yield diff_text(look.diff, paint, owner="agent" if made.taint in ("none", "tool") else "hub")
    yield f"\n{paint('bold', 'What it rests on')}\n"
    yield from evidence_lines(look.evidence, paint, said=item.said)
    yield f"\n{paint('bold', 'What the gates say')}\n"
    yield from gate_lines(made.verdicts, paint)
    yield f"\n{paint('bold', 'What you can do')}\n"
    yield from (f"  {line}\n" for line in ways(item))


def evidence_lines(found: Evidence, paint: Paint, *, said: str = "", brief: bool = False) -> Iterator[str]:
    """The person's words and the calls of the cited turns, each with its outcome, of which `brief` leaves the beginning."""
    for text in found.said or ((said,) if said else ()):
        yield f"  {paint('cyan', 'you said')} “{one_line(text)}”\n"
    if found.left_out:
        yield f"  {paint('dim', f'… {found.left_out} earlier calls')}\n"
    for one in found.calls:
        style, sign = MARKS[one.status]
        yield f"  {paint(style, sign)} {one.seq} {paint('bold', one.tool)} {visible(one.asked)}\n"
        if one.said:
            yield f"      {paint('dim', cut(visible(one.said), BRIEF) if brief else visible(one.said))}\n"
    if found.gone:
        yield "  its session was deleted\n"
    elif not (found.said or found.calls or said):
        yield "  no turn of a session is cited\n"


def gate_lines(verdicts: Sequence[Verdict], paint: Paint) -> Iterator[str]:
    """What each gate says, in plain words, with the lines that it is about."""
    for one in verdicts:
        style, sign = ("red", "✗") if not one.ok else ("yellow", "?") if one.needs_person else ("green", "✓")
        yield f"  {paint(style, sign)} {one.gate:<10} {visible(one.reason or PASSED[one.gate])}\n"
        yield from (f"      {paint('dim', visible(one_line(line)))}\n" for line in one.lines)
    if not verdicts:
        yield "  none was asked: the scan looks at it when you accept\n"


def cost(made: Proposed) -> str:
    """What the review that proposed it has taken, this lesson's share of it."""
    if not made.tokens:
        return f"not counted apart{f', with {made.model}' if made.model else ''}"
    price = "price unknown" if made.usd is None else f"${usd(made.usd)}"
    return f"{made.tokens:,} tokens, {price}{f', with {made.model}' if made.model else ''}"


def ways(item: Item) -> Iterator[str]:
    """What a person can do about a lesson now."""
    number = item.number
    if item.state == "accepted" and item.proposal.did == TAKEN_BACK:
        yield f"melete skills history {one_line(item.proposal.name)}    lists what it was before"
    elif item.state in ("trial", "accepted"):
        yield f"melete learn undo {number}    takes it back, with what came of it"
    elif item.state == "waiting" or (item.state in ("refused", "rejected") and item.by_a_person):
        waits = item.state == "waiting"
        does = "takes it away" if item.proposal.did == TAKEN_BACK else f"makes it usable; undo {number} takes it back"
        yield f"melete learn accept {number}{'' if waits else ' --anyway'}    {does}"
        if item.proposal.did != TAKEN_BACK:
            yield f"melete learn edit {number}    opens it in your editor, and accepts what you save"
        if item.state != "rejected":
            yield f"melete learn reject {number} --reason WHY    turns it down; it is not proposed again"
    elif item.state == "refused":
        yield "nothing: what is not safe, or cannot be made, stays out"
    else:
        yield "nothing is in use of it"


def row(look: Look, *, everything: bool = True) -> dict[str, Any]:
    """A lesson as an object of JSON, always with the same keys; without `everything` what was not looked up is null."""
    item = look.item
    fields: dict[str, Any] = msgspec.to_builtins(item.proposal)
    fields |= {
        "number": item.number,
        "at": item.at,
        "state": item.state,
        "reason": item.reason,
        "version": item.version,
    }
    fields |= {"decision": msgspec.to_builtins(item.decision), "by_a_person": item.by_a_person, "source": item.source}
    found = {
        "evidence": msgspec.to_builtins(look.evidence),
        "moved": look.moved,
        "hindrance": look.hindrance,
        "due": look.due,
    }
    return fields | {"diff": look.diff} | (found if everything else dict.fromkeys(found))


def _calls_counted(found: Evidence) -> str:
    failed = sum(one.status == "failed" for one in found.calls)
    many = len(found.calls) + found.left_out
    return f"{many} call{'s' * (many != 1)}, {failed} of them failed" if many else ""
