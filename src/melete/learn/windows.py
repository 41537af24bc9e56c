"""What another model is shown of a session that it reviews: the turns round the signals, calls and results in short. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from melete.core.event import Fact, Reply, Said, Steered, ToolEnded, ToolStarted
from melete.learn.facts import Debt
from melete.learn.signals import spoken

WORDS: Final = 1_500
"""Characters of a message that are shown; of a call's arguments and of a result, fewer."""
CALL, RESULT = 800, 600
LEFT_OUT: Final = "[… left out …]"


def windows(facts: Sequence[Fact], signals: Sequence[Debt], *, after: int, room: int) -> str:
    """The turns that the signals cite, all behind `after` where there are none, in at most `room` characters: the latest ones."""
    begun = [one.seq for one in facts if isinstance(one, Said) and spoken(one.message) is not None] or [0]
    cited = [seq for one in signals for seq in (one.turn, *one.facts)] or [one.seq for one in facts if one.seq > after]
    turns = sorted({max((at for at in begun if at <= seq), default=begun[0]) for seq in cited})
    shown: list[str] = []
    for turn in reversed(turns):
        end = next((at for at in begun if at > turn), 1 << 60)
        rows = [row for one in facts if turn <= one.seq < end for row in _rows(one)]
        text = _cut("\n".join(rows), max(room // 2, room - sum(map(len, shown))))
        if shown and sum(map(len, shown)) + len(text) > room:
            shown.append(LEFT_OUT)
            break
        shown.append(text)
    return "\n\n".join(reversed(shown))


def _rows(fact: Fact) -> Iterator[str]:
    match fact:
        case Said() | Steered():
            who = "PERSON" if spoken(fact.message) is not None else "NOTE"
            yield f"{who}: {_cut(fact.message.text, WORDS)}"
        case Reply() if fact.message.text.strip():
            yield f"AGENT: {_cut(fact.message.text, WORDS)}"
        case ToolStarted():
            yield f"CALL {fact.call.name} {_cut(fact.call.arguments, CALL)}"
        case ToolEnded():
            yield f"RESULT ({fact.outcome}) {_cut(fact.result.content, RESULT)}"
        case _:
            pass


def _cut(text: str, most: int) -> str:
    """The text, or its head and its tail."""
    return text if len(text) <= most else f"{text[: most // 2]} {LEFT_OUT} {text[-most // 2 :]}"
