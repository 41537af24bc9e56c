"""A new session that begins as another one did: the same facts up to a step, its own from there on. Composition root.

`point` and `forked` are pure; `fork` makes the session. A fork is whole by itself: whatever becomes of the original, it goes on.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from melete.app.opening import PLACE
from melete.app.wire import Melete
from melete.core.errors import StorageError, UsageError
from melete.core.event import (
    Answered,
    CancelAsked,
    Compacted,
    Delegated,
    Fact,
    Learned,
    Notice,
    Opened,
    Reply,
    RunEnded,
    Spent,
    Stop,
    Titled,
    ToolEnded,
)
from melete.core.message import Message, ToolResult
from melete.core.session import SessionRef
from melete.core.steps import Step, steps
from melete.core.transcript import Transcript
from melete.store.names import new_session_id

MODEL = "model"
"""The key of `Opened.about` that pins a session to a model."""
BESIDE = (Answered, CancelAsked, Delegated, Learned, Notice, Spent, Titled)
"""What may stand between the last step of a run and its end."""
_SUFFIX = re.compile(r" \(fork at step \d+\)$")


class Point(Struct, frozen=True, kw_only=True):
    """Where a fork leaves the original: behind its step `step`, 0 for none, whose last fact to be copied is `seq`."""

    step: int
    seq: int


class Forked(Struct, frozen=True, kw_only=True):
    """A fork that was made; `facts` are those that it shares with the original."""

    ref: SessionRef
    forked_from: str
    step: int
    facts: int
    title: str = ""
    model: str = ""


def point(facts: Sequence[Fact], step: int | None = None) -> Point:
    """Where a fork at `step` is cut, at the last whole one if none is named; raises UsageError for one that is not there.

    Step 0 keeps what was said before the first reply. The end of a run belongs to its last step.
    """
    found = steps(facts)
    if step is None:
        step = max((one.number for one in found if one.whole), default=0)
    if step < 0 or step > len(found):
        there = f"its steps are 1 to {len(found)}" if found else "it has no steps yet"
        raise UsageError(f"the session has no step {step}", next=f"{there}; 0 keeps what comes before the first")
    if step == 0:
        return Point(step=0, seq=(found[0].reply - 1 if found else max((fact.seq for fact in facts), default=0)))
    last = found[step - 1]
    if not last.whole:
        raise UsageError(
            f"step {step} has calls without an outcome", next=f"fork at step {step - 1}, or wait until they are over"
        )
    return Point(step=step, seq=_end_of_run(facts, last))


def _end_of_run(facts: Sequence[Fact], step: Step) -> int:
    """The end of the run that the step was the last of, else the step's own end."""
    for fact in facts:
        if fact.seq <= step.end or isinstance(fact, BESIDE):
            continue
        return fact.seq if isinstance(fact, RunEnded) and fact.run == step.run else step.end
    return step.end


def forked(facts: Sequence[Fact], at: Point, opened: Opened) -> list[Fact]:
    """The facts of a fork: `opened` with its place filled in, copies up to the point, and the end of what was open there.

    What requests cost is not copied: it was paid once. `opened.title`, where it is not empty, becomes the title.
    """
    copies = [fact for fact in facts if fact.seq <= at.seq and not isinstance(fact, Opened | Spent)]
    first = structs.replace(opened, title="", forked_at=at.seq, copied=len(copies) + 1)
    made: list[Fact] = [first, *_renumbered(copies)]
    made += _closed(made, at, opened)
    if opened.title:
        made.append(Titled(title=opened.title, at=opened.at))
    return [structs.replace(fact, seq=number) for number, fact in enumerate(made, 1)]


def _renumbered(copies: Sequence[Fact]) -> Iterator[Fact]:
    """The facts with what they say of the numbers of others as those are in the fork, where the first one is new."""
    old = [fact.seq for fact in copies]
    for fact in copies:
        since = isinstance(fact, Compacted) and fact.since
        yield structs.replace(fact, since=bisect_left(old, since) + 2) if since else fact


def _closed(made: Sequence[Fact], at: Point, opened: Opened) -> Iterator[Fact]:
    """What ends a run that was going on at the point: its questions expire, and it has an end."""
    state = Transcript(made)
    if state.run is None or not state.running:
        return
    run = state.run.run
    for question in state.questions:
        yield Answered(question=question, status="expired", run=run, at=opened.at)
    yield RunEnded(
        stop=Stop.CANCELLED,
        text=state.answer,
        steps=state.spent_in(run).requests,
        error=f"this fork leaves the run of {opened.forked_from} at step {at.step}",
        run=run,
        at=opened.at,
    )


async def fork(
    app: Melete, ref: SessionRef, *, step: int | None = None, title: str = "", model: str = "", surface: str = "cli"
) -> Forked:
    """Make a session that goes on from a step of this one, the last whole one if none is named; the original stays as it is.

    With `model`, `[PROVIDER/]NAME`, the fork is answered by that one from now on. Raises UsageError for a step that is not there,
    ConfigError for a model that cannot be used, SessionNotFoundError.
    """
    if model:
        await app.open_model(model).aclose()
    facts = await app.store.facts(ref)
    state, at = Transcript(facts), point(facts, step)
    old = state.opened or Opened()
    now = app.clock.now()
    title = title or entitled(state.title, at.step)
    pinned = model or old.about.get(MODEL, "")
    opened = Opened(
        owner=old.owner,
        source=surface,
        cwd=old.cwd,
        forked_from=ref.id,
        title=title,
        about={name: old.about[name] for name in PLACE if name in old.about} | ({MODEL: pinned} if pinned else {}),
        at=now,
    )
    new = SessionRef(id=new_session_id(now), owner=old.owner)
    copies = forked(facts, at, opened)
    spilled = await _spilled(app, copies, old=ref, new=new)
    made = await app.store.add(list(_elsewhere(copies, spilled)), id=new.id)
    shared = sum(fact.seq <= at.seq and not isinstance(fact, Spent) for fact in facts)
    return Forked(ref=made, forked_from=ref.id, step=at.step, facts=shared, title=title, model=pinned)


def entitled(title: str, step: int) -> str:
    """The title of a fork of what is called so; empty where that has none."""
    return f"{_SUFFIX.sub('', title)} (fork at step {step})" if title else ""


# ---- long results that lie in files of their own ---------------------------------------------------------------------


async def _spilled(app: Melete, facts: Sequence[Fact], *, old: SessionRef, new: SessionRef) -> Mapping[str, str]:
    """Copy the files of long results, which go when the original is deleted; returns where each is now."""
    moved: dict[str, str] = {}
    for fact in facts:
        path = Path(fact.spilled) if isinstance(fact, ToolEnded) and fact.spilled else None
        if path is None or path.parent.name != old.id or str(path) in moved:
            continue
        try:
            text = path.read_bytes().decode("utf-8", "replace")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StorageError(
                f"{path} cannot be read: {error.strerror}", kept="no fork was made", next="check its permissions"
            ) from error
        moved[str(path)] = await app.store.spill(new, path.stem, text)
    return moved


def _elsewhere(facts: Sequence[Fact], moved: Mapping[str, str]) -> Iterator[Fact]:
    """The facts with the new places of long results.

    Replies behind the first of these answered other words than now stand there, so their checksums go.
    """
    changed = False
    for fact in facts:
        if isinstance(fact, Reply) and changed:
            yield structs.replace(fact, asked="")
            continue
        new = _with_places(fact, moved)
        changed = changed or new is not fact
        yield new


def _with_places(fact: Fact, moved: Mapping[str, str]) -> Fact:
    if isinstance(fact, ToolEnded):
        result, spilled = _result(fact.result, moved), moved.get(fact.spilled, fact.spilled)
        same = result is fact.result and spilled == fact.spilled
        return fact if same else structs.replace(fact, result=result, spilled=spilled)
    if isinstance(fact, Compacted):
        messages = tuple(_message(message, moved) for message in fact.messages)
        same = all(new is old for new, old in zip(messages, fact.messages, strict=True))
        return fact if same else structs.replace(fact, messages=messages)
    return fact


def _message(message: Message, moved: Mapping[str, str]) -> Message:
    parts = tuple(_result(part, moved) if isinstance(part, ToolResult) else part for part in message.parts)
    same = all(new is old for new, old in zip(parts, message.parts, strict=True))
    return message if same else structs.replace(message, parts=parts)


def _result(result: ToolResult, moved: Mapping[str, str]) -> ToolResult:
    content = result.content
    for old, new in moved.items():
        content = content.replace(_in_json(old), _in_json(new))
    return result if content == result.content else structs.replace(result, content=content)


def _in_json(text: str) -> str:
    """The text as it stands inside a JSON string."""
    return msgspec.json.encode(text).decode()[1:-1]
