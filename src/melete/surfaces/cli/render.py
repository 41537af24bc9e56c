"""Facts as lines for people, the same for a run that is watched and for one that is read later."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from melete.app.learning import text as learned_text
from melete.app.learning import unseen
from melete.app.settings import Loaded
from melete.core.event import (
    Answered,
    Asked,
    CancelAsked,
    ChildNow,
    Compacted,
    Delegated,
    Event,
    Learned,
    Notice,
    Question,
    Reply,
    Retried,
    RunEnded,
    RunStarted,
    Said,
    Steered,
    Stop,
    Titled,
    ToolEnded,
    ToolStarted,
)
from melete.core.message import Image, Message, Thinking, Usage
from melete.surfaces.cli.output import one_line, visible
from melete.surfaces.cli.paint import Paint, columns

MAIN_ARGUMENTS = ("command", "path", "pattern", "query", "question", "url", "name", "action")
MARKS = {"ok": ("green", "✓"), "denied": ("yellow", "⊘"), "cancelled": ("yellow", "⊘"), "not_run": ("yellow", "⊘")}
FAILED = ("red", "✗")
CHILDREN = {
    "running": ("dim", "→"), "completed": ("green", "✓"), "interrupted": ("yellow", "⊘"), "timeout": ("yellow", "⊘"),
}  # fmt: skip
LEVELS = {"info": ("dim", "·"), "warning": ("yellow", "!"), "error": ("red", "!")}
STOPS = {
    Stop.DONE: "done",
    Stop.OUT_OF_STEPS: "the limit of steps was reached",
    Stop.OUT_OF_BUDGET: "the budget is used up",
    Stop.CONTEXT_FULL: "the conversation no longer fits the model's window",
    Stop.LOOPING: "it went round in circles",
    Stop.CANCELLED: "cancelled",
    Stop.FAILED: "failed",
}
RAISE = {
    Stop.OUT_OF_STEPS: "--max-steps or agent.max_steps raises it",
    Stop.OUT_OF_BUDGET: "--budget or budget.run and budget.day raise it",
    Stop.CONTEXT_FULL: "begin a new session, or use a model with a longer window",
    Stop.LOOPING: "say what to do differently",
}


def redacted(event: Event, redact: Callable[[str], str]) -> Event:
    """The event without secrets in any text: what is cut to a width afterwards cannot show the beginning of one."""
    text = msgspec.json.encode(event).decode()
    clean = redact(text)
    return event if clean == text else msgspec.json.decode(clean, type=Event)


def facts(
    fact: Event, paint: Paint, *, started: Mapping[str, ToolStarted] | None = None, step: int = 0
) -> Iterator[str]:
    """Lines, without their ends, that show a fact; none for what only the program needs.

    `started` finds a call's arguments; with `step` a reply begins with that number.
    """
    match fact:
        case Said() | Steered():
            yield from _said(fact, paint)
        case Reply() if step:
            yield from _step(fact, paint, step)
        case Reply():
            yield from _reply(fact, paint)
        case ToolEnded():
            yield tool_line(fact, (started or {}).get(fact.result.call), paint)
        case RunEnded():
            yield ended_line(fact, paint)
        case Delegated():
            yield child_line(fact, paint)
        case _:
            yield from notes(fact, paint)


def notes(fact: object, paint: Paint) -> Iterator[str]:
    """What happens beside the conversation: a line each, more for a question."""
    match fact:
        case RunStarted():
            model = f"{fact.provider}/{fact.model}" if fact.provider else fact.model
            where = f" · in {fact.env}" if fact.env else ""
            yield paint("dim", paint.fit(one_line(f"· run {fact.run} · {model}{where} · {fact.at:%Y-%m-%d %H:%M:%S}")))
        case Asked():
            yield from question_lines(fact.question, paint)
        case Answered():
            yield paint("dim", paint.fit(f"· {answer_text(fact)}"))
        case CancelAsked():
            yield paint("dim", f"· cancel: {fact.status}")
        case Retried():
            again = f"; again in {fact.delay:.1f} s" if fact.delay else ""
            text = f"↻ {one_line(fact.reason)}{again}"
            yield paint("yellow", paint.fit(text))
        case Compacted():
            how = f" ({one_line(fact.how)})" if fact.how else ""
            text = f"· shortened: {fact.tokens_before:,} → {fact.tokens_after:,} tokens{how} · segment {one_line(fact.segment)}"
            yield paint("dim", paint.fit(text))
        case Titled():
            yield paint("dim", paint.fit(f"· title: {one_line(fact.title)}"))
        case Learned():
            yield paint("green", f"★ {one_line(learned_text(fact))}")  # whole: it ends in a command
        case Notice():
            style, mark = LEVELS[fact.level]
            yield paint(style, f"{mark} {one_line(fact.text)}")
        case _:
            return


def news(loaded: Loaded, paint: Paint) -> Iterator[str]:
    """What was learned since somebody looked last, a line each; they come once."""
    for line in unseen(loaded):
        yield paint("green", f"★ {one_line(line)}")


def answer_text(fact: Answered) -> str:
    """What became of a question, in words."""
    if fact.status == "timeout":
        return f"nobody answered {fact.question} in time"
    by = f", by {one_line(fact.by.surface or fact.by.who)}" if fact.by and (fact.by.surface or fact.by.who) else ""
    how = {"lost": "answered too late", "expired": "answered when nothing was asked"}.get(fact.status, "answered")
    return f"{how}: {one_line(fact.value) or '(nothing)'}{by} ({one_line(fact.question)})"


def tool_line(fact: ToolEnded, started: ToolStarted | None, paint: Paint) -> str:
    """A call on one line: outcome, name, main argument, seconds, and what went wrong."""
    style, mark = MARKS.get(fact.outcome, FAILED)
    end = f"  {fact.seconds:.1f} s" if fact.seconds else ""
    if fact.outcome != "ok":
        end += f"  {_why(fact)}"
    name = one_line(fact.result.name)
    argument = short_argument(started.call.arguments if started else "")
    room = paint.width - columns(name) - columns(end) - 4
    shown = f" {paint.fit(argument, taken=paint.width - room)}" if argument and room > len(name) else ""
    return f"{paint(style, mark)} {paint('bold', name)}{shown}{paint('dim', paint.fit(end))}"


def child_line(fact: Delegated | ChildNow, paint: Paint) -> str:
    """A child that begins or has ended, on one line: outcome, goal, steps, tokens, price, seconds."""
    now = fact if isinstance(fact, ChildNow) else None
    style, mark = CHILDREN.get(fact.status, FAILED)
    tokens = now.tokens if now else fact.usage.total if isinstance(fact, Delegated) else 0
    parts = [] if fact.status in ("running", "completed") else [fact.status]
    if fact.status != "running":
        parts += [f"{fact.steps} step{'' if fact.steps == 1 else 's'}", f"{tokens:,} tokens"]
        parts += [f"${fact.usd:.4f}"] if fact.usd is not None else []
        parts.append(f"{fact.seconds:.1f} s")
    elif isinstance(fact, Delegated) and fact.background:
        parts.append("in the background")
    end = "".join(f" · {part}" for part in parts)
    head = f"{'  ' * (fact.depth - 1)}child"
    goal = paint.fit(one_line(fact.goal) or fact.child, taken=columns(head) + columns(end) + 3)
    return f"{paint(style, mark)} {paint('bold', head)} {goal}{paint('dim', end)}"


def _why(fact: ToolEnded) -> str:
    outcome = fact.outcome.replace("_", " ")
    try:
        fields = msgspec.json.decode(fact.result.content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return outcome
    if isinstance(error := fields.get("error"), str):
        return f"{outcome}: {one_line(error)}"
    code = fields.get("exit_code")
    return outcome if code is None else f"exit status {code}"


def short_argument(arguments: str) -> str:
    """The argument of a call that says most, on one line."""
    try:
        fields = msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return one_line(arguments)
    texts = {name: value for name, value in fields.items() if isinstance(value, str) and value}
    for name in MAIN_ARGUMENTS:
        if name in texts:
            return one_line(texts[name])
    return one_line(next(iter(texts.values()), ""))


def ended_line(fact: RunEnded, paint: Paint) -> str:
    """How a run ended, on one line."""
    parts = [STOPS.get(fact.stop, one_line(fact.stop))]
    if fact.error:
        parts.append(one_line(fact.error))
    parts += [f"{fact.steps} step{'' if fact.steps == 1 else 's'}", usage_text(fact.usage)]
    if fact.cost_usd is not None:
        parts.append(f"${fact.cost_usd:.4f}")
    parts.append(f"{fact.seconds:.1f} s")
    return paint("red" if fact.stop == Stop.FAILED else "dim", f"· {' · '.join(parts)}")


def usage_text(usage: Usage) -> str:
    """Tokens in words: all that were read, and how many of them, in percent, from a cache; all that were written."""
    read = usage.input + usage.cache_read + usage.cache_write
    cached = f" ({usage.cache_read:,} cached, {percent(usage.cache_read / read)})" if usage.cache_read else ""
    return f"{read:,} tokens in{cached}, {usage.output:,} out"


def percent(share: float) -> str:
    """A share in whole percent, rounded down: 100 % is all of it, and never nearly."""
    return f"{int(share * 100 + 1e-9)}%"


def question_lines(question: Question, paint: Paint) -> Iterator[str]:
    """A question whole: its id, what it is about word for word, and its choices numbered."""
    yield f"{paint('yellow', f'? {visible(question.text)}')} {paint('dim', f'({one_line(question.id)})')}"
    for line in visible(question.detail).splitlines():
        yield f"    {line}"
    for number, choice in enumerate(question.choices, 1):
        yield f"  {number}  {one_line(choice)}"


def _said(fact: Said | Steered, paint: Paint) -> Iterator[str]:
    by = fact.message.by
    name = "you" if by is None or by.kind == "person" else by.kind
    how = " (steering)" if isinstance(fact, Steered) else ""
    yield ""
    yield f"{paint('cyan', f'> {name}{how}')} {paint('dim', f'{fact.at:%H:%M:%S}')}"
    yield from _text(fact.message)


def _reply(fact: Reply, paint: Paint) -> Iterator[str]:
    yield from _thoughts(fact, paint)
    if fact.message.text:
        yield ""
        yield _by(fact, paint)
        yield from _text(fact.message)


def _step(fact: Reply, paint: Paint, number: int) -> Iterator[str]:
    yield ""
    yield f"{paint('cyan', f'[{number}]')} {_by(fact, paint)}"
    yield from _thoughts(fact, paint)
    yield from _text(fact.message)


def _by(fact: Reply, paint: Paint) -> str:
    return f"{paint('green', '● ' + (one_line(fact.model) or 'model'))} {paint('dim', f'{fact.at:%H:%M:%S}')}"


def _thoughts(fact: Reply, paint: Paint) -> Iterator[str]:
    for part in fact.message.parts:
        if isinstance(part, Thinking):
            yield from (paint("dim", line) for line in visible(part.text).splitlines())


def _text(message: Message) -> Iterator[str]:
    yield from visible(message.text).splitlines()
    pictures = sum(isinstance(part, Image) for part in message.parts)
    if pictures:
        yield f"[{pictures} picture{'' if pictures == 1 else 's'}]"
