"""The text of a session's messages, one line a fact, for scrolling and searching. Part of the store."""

from collections.abc import Sequence

from msgspec import structs

from melete.core.event import Fact, Reply, Said, Steered, ToolEnded
from melete.core.message import Message, Taint, Thinking, ToolCall
from melete.core.session import Line
from melete.security.taint import UNTRUSTED


def of(facts: Sequence[Fact]) -> list[Line]:
    """The messages among the facts; a message without text, such as one of calls only, shows the calls."""
    lines = [(fact, line) for fact in facts if (line := of_fact(fact)) is not None]
    taint: Taint = "tool"
    made: list[Line] = []
    for fact, line in lines:
        taint = _outside(fact) or taint
        made.append(structs.replace(line, taint=taint))
    return made


def _outside(fact: Fact) -> Taint | None:
    parts = (
        (fact.result,)
        if isinstance(fact, ToolEnded)
        else fact.message.parts
        if isinstance(fact, Said | Steered | Reply)
        else ()
    )
    found = (part.taint for part in parts if not isinstance(part, Thinking | ToolCall))
    return next((taint for taint in found if taint in UNTRUSTED), None)


def of_fact(fact: Fact) -> Line | None:
    """The fact's message as a line, or None when it holds none."""
    match fact:
        case Said() | Steered() | Reply():
            role, text = fact.message.role, _text(fact.message)
        case ToolEnded():
            role, text = "tool", fact.result.content
        case _:
            return None
    return Line(session=fact.session, seq=fact.seq, role=role, text=text, at=fact.at)


def around(lines: Sequence[Line], seq: int, window: int) -> list[Line]:
    """The line of fact `seq`, or the nearest before it, with `window` lines on each side."""
    before = [index for index, line in enumerate(lines) if line.seq <= seq]
    middle = before[-1] if before else 0
    return list(lines[max(0, middle - window) : middle + window + 1])


def _text(message: Message) -> str:
    calls = [f"{call.name}({call.arguments})" for call in message.calls]
    return "\n\n".join(part for part in (message.text, *calls) if part)
