"""Which facts of a session belong to which of its steps, for commands that show some of them."""

import re
from collections.abc import Sequence

from melete.core.errors import UsageError
from melete.core.event import Compacted, Fact, Framed, Retried, RunStarted, Said, Steered
from melete.core.steps import Step

OPENING = (Framed, RunStarted, Said, Steered, Compacted, Retried)
"""Facts that belong to the reply that comes after them."""
_SPAN = re.compile(r"(\d*)(?:(:)(\d*))?")


def step_of(found: Sequence[Step], seq: int) -> int:
    """The number of the step that the fact belongs to: what is said to the model belongs to the reply that follows.

    0 when there are no steps.
    """
    for step in found:
        if seq <= step.end:
            return step.number
    return found[-1].number if found else 0


def span(found: Sequence[Step], text: str) -> tuple[int, int]:
    """The first and last step that `7`, `3:5`, `3:` or `:5` names; raises UsageError, which says what there is."""
    match = _SPAN.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise UsageError(f"{text!r} names no steps", next="write --step 7, --step 3:5, --step 3: or --step :5")
    first = int(match[1] or 1)
    last = int(match[3] or len(found)) if match[2] else first
    if not found:
        raise UsageError("no model has answered in this session yet, so it has no steps", next="leave --step out")
    if not 1 <= first <= last or first > len(found):
        many = f"steps 1 to {len(found)}" if len(found) > 1 else "one step"
        raise UsageError(f"there is no step {text.strip()}", next=f"the session has {many}")
    return first, min(last, len(found))


def facts_of(found: Sequence[Step], facts: Sequence[Fact], *, first: int, last: int) -> tuple[int, int]:
    """The numbers of the first and last of the facts that belong to these steps; 0 as the last means all that follow."""
    return _begin(found, facts, first), _begin(found, facts, last + 1) - 1 if last < len(found) else 0


def _begin(found: Sequence[Step], facts: Sequence[Fact], number: int) -> int:
    """Where a step begins: with what was said before its reply, or the run that made it."""
    if number == 1:
        return 1
    before, reply = found[number - 2].end, found[number - 1].reply
    return next((fact.seq for fact in facts if before < fact.seq < reply and isinstance(fact, OPENING)), reply)
