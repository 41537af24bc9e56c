"""What a lesson rests on: the person's words and the calls in the turns that it cites, read from their log. Composition root."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from melete.app.wire import Melete
from melete.core.errors import SessionNotFoundError
from melete.core.event import Fact, RunStarted, Said, Steered, ToolEnded, ToolStarted
from melete.core.session import SessionRef
from melete.learn.gate_evidence import REFLECTING
from melete.learn.results import fields_of, result_of
from melete.learn.signals import SHELL, spoken

LONGEST = 400
"""Characters of a message, a call or what it gave back."""
MOST = 20


class Call(Struct, frozen=True, kw_only=True):
    """A call as a person reads it: what was asked of the tool, how it ended, and what it said."""

    seq: int
    tool: str
    asked: str
    status: Literal["ok", "failed", "answer", "none"]
    said: str


class Evidence(Struct, frozen=True, kw_only=True):
    """What the cited turns hold, the first of which began `at`.

    `left_out` counts the earlier calls that are not among the `calls`, `gone` says that the session was deleted.
    """

    said: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    left_out: int = 0
    at: str = ""
    gone: bool = False


async def evidence(app: Melete, session: str, turns: Sequence[int]) -> Evidence:
    """What these turns of a session hold, each named by any fact in it; secrets are taken out."""
    try:
        facts = await app.store.facts(SessionRef(id=session)) if session and turns else ()
    except SessionNotFoundError:
        return Evidence(gone=True)
    begun = [0, *(fact.seq for fact in facts if isinstance(fact, Said) and spoken(fact.message) is not None)]
    runs = {fact.seq for fact in facts if isinstance(fact, RunStarted)}  # the words that it answers stand behind it
    cited = {max(one for one in begun if one <= turn + (turn in runs)) for turn in turns}
    within = [fact for fact in facts if max(one for one in begun if one <= fact.seq) in cited]
    calls = tuple(_calls(app, within))
    return Evidence(
        said=tuple(_said(app, within)),
        calls=calls[-MOST:],
        left_out=max(0, len(calls) - MOST),
        at=within[0].at.isoformat() if within else "",
    )


def _said(app: Melete, facts: Sequence[Fact]) -> Iterator[str]:
    for fact in facts:
        if isinstance(fact, Said | Steered) and (text := spoken(fact.message)):
            yield _cut(app, text)


def _calls(app: Melete, facts: Sequence[Fact]) -> Iterator[Call]:
    asked: dict[str, str] = {}
    for fact in facts:
        if isinstance(fact, ToolStarted):
            given = fields_of(fact.call.arguments)
            asked[fact.call.id] = str(given["command"]) if "command" in given else fact.call.arguments
        elif isinstance(fact, ToolEnded) and fact.result.name not in REFLECTING:
            name, text = fact.result.name, asked.pop(fact.result.call, "")
            fields = fields_of(fact.result.content)
            said = [str(fields[key]) for key in ("error", "output", "content") if fields.get(key)]
            status = result_of(fact, text if name == SHELL else "")
            code = f"exit {status.code}" if status.code else ""
            shown = [one for one in (code, *(said or ([] if fields else [fact.result.content]))) if one]
            yield Call(
                seq=fact.seq, tool=name, asked=_cut(app, text), status=status.status, said=_cut(app, ": ".join(shown))
            )


def _cut(app: Melete, text: str) -> str:
    line = " ".join(app.redact(text).split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
