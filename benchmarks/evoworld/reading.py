"""What a request says to the policy: the conversation in order, and what came of each call of `w` in it."""

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from benchmarks.evoworld.words import CALL, ITEM, PROMPT, WRONG, command, lines

OUTCOME = re.compile(r"w: (done|so far|error (\d+))")
LISTED = re.compile(r"^\s*- ([a-z0-9][\w-]*): (.*)$", re.MULTILINE)
"""A skill as a prompt lists it."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """A message of the person."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Called:
    """A call with its result."""

    name: str
    arguments: Mapping[str, Any]
    result: str
    refused: bool = False
    """Whether the result says that nothing was done."""

    @property
    def command(self) -> str:
        return str(self.arguments.get("command", ""))

    @cached_property
    def tries(self) -> Sequence[tuple[str, str, str]]:
        """What was called of `w`, as (verb, options in one text, outcome)."""
        if self.name != "terminal":
            return ()
        outcomes = [match[1] for match in OUTCOME.finditer(self.result)]
        return [(one["verb"], one["rest"].strip(), said) for one, said in zip(CALL.finditer(self.command), outcomes)]  # noqa: B905 - what follows a failed call did not run


Event = Said | Called


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A task in the conversation, with all that followed until the next."""

    verb: str
    noun: str
    item: str
    needs: str
    prompt: str
    events: tuple[Event, ...] = ()

    @property
    def turn(self) -> int:
        """How often the person has spoken about it."""
        return 1 + sum(isinstance(event, Said) for event in self.events)

    @property
    def answering(self) -> Sequence[Called]:
        """What was called since the person spoke last."""
        return [event for event in _after_last_said(self.events) if isinstance(event, Called)]

    @property
    def tries(self) -> Sequence[tuple[str, str]]:
        """What was tried with `w`, as (options in one text, outcome)."""
        called = (event for event in self.events if isinstance(event, Called))
        return [(options, said) for call in called for verb, options, said in call.tries if verb == self.verb]

    @property
    def finished(self) -> bool:
        """Whether what was called last went through."""
        called = self.answering
        return bool(called) and bool(called[-1].tries) and called[-1].tries[-1][2] == "done"

    @property
    def learned(self) -> str:
        """The line that worked, for any item; empty when none did."""
        if not self.finished:
            return ""
        if self.needs == "steps":
            return command(self.verb, ITEM, [options for options, said in self.tries if said in ("done", "so far")])
        return command(self.verb, ITEM, [self.tries[-1][0]] if self.tries[-1][0] else [])


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request as far as the policy can read."""

    system: str
    events: tuple[Event, ...]
    tools: frozenset[str]
    pieces: tuple[Piece, ...] = field(default=())

    @property
    def last_said(self) -> str:
        return next((event.text for event in reversed(self.events) if isinstance(event, Said)), "")

    def listed(self) -> Mapping[str, str]:
        """The skills that can be seen, name and description."""
        texts = [self.system, *(event.text for event in self.events if isinstance(event, Said))]
        return {name: about for text in texts for name, about in LISTED.findall(text)}

    def viewed(self) -> Mapping[str, str]:
        """The skills that were loaded, with their texts."""
        calls = (event for event in self.events if isinstance(event, Called) and event.name == "skill_view")
        return {str(call.arguments.get("name", "")): call.result for call in calls}


def read(body: Mapping[str, Any]) -> Request:
    """A request's body in the openai-chat form."""
    system: list[str] = []
    events: list[Event] = []
    open_calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for message in body.get("messages", ()):
        text = _text(message.get("content"))
        match message["role"]:
            case "system" | "developer":
                system.append(text)
            case "user":
                events.append(Said(text=text))
            case "assistant":
                for call in message.get("tool_calls") or ():
                    function = call["function"]
                    open_calls[call["id"]] = (function["name"], json.loads(function["arguments"] or "{}"))
            case _:
                name, arguments = open_calls.get(message.get("tool_call_id", ""), ("", {}))
                said = _read(text)
                refused = isinstance(said, dict) and said.get("success") is False
                events.append(Called(name=name, arguments=arguments, result="\n".join(_strings(said)), refused=refused))
    tools = frozenset(tool["function"]["name"] for tool in body.get("tools") or ())
    return Request(system="\n".join(system), events=tuple(events), tools=tools, pieces=tuple(_pieces(events)))


def upto(request: Request, briefs: tuple[str, ...]) -> tuple[Request, Sequence[Called]]:
    """The conversation before the last message, which begins with one of the briefs, and what was called since."""
    last = max(
        place for place, one in enumerate(request.events) if isinstance(one, Said) and one.text.startswith(briefs)
    )
    before, after = request.events[:last], request.events[last + 1 :]
    earlier = Request(system=request.system, events=before, tools=request.tools, pieces=tuple(_pieces(before)))
    return earlier, [event for event in after if isinstance(event, Called)]


def shuffled(values: Sequence[str], *seed: object) -> list[str]:
    """The values in the order of a seed."""
    return random.Random(" ".join(map(str, seed))).sample(list(values), len(values))


def known(request: Request, verb: str) -> Sequence[str]:
    """The lines for a verb that the conversation holds, the newest first: corrections, texts that were read, what worked."""
    found: list[str] = []
    for piece in request.pieces:
        for event in piece.events:
            if isinstance(event, Said) and event.text.startswith(WRONG):
                found += (line for _, line in lines(event.text, verb))
            elif isinstance(event, Called) and not event.tries:
                found += (line for _, line in reversed(lines(event.result, verb)))
        if piece.verb == verb and piece.learned:
            found.append(piece.learned)
    return list(dict.fromkeys(reversed(found)))


def remembered(request: Request, verb: str) -> Sequence[str]:
    """The lines for a verb that stand in the prompt itself."""
    return list(dict.fromkeys(line for _, line in lines(request.system, verb)))


def _pieces(events: Sequence[Event]) -> Iterator[Piece]:
    begun: tuple[re.Match[str], str] | None = None
    held: list[Event] = []
    for event in events:
        match = PROMPT.search(event.text) if isinstance(event, Said) else None
        if match is None:
            held.append(event)
            continue
        if begun:
            yield _piece(*begun, held)
        begun, held = (match, event.text if isinstance(event, Said) else ""), []
    if begun:
        yield _piece(*begun, held)


def _piece(match: re.Match[str], text: str, events: Sequence[Event]) -> Piece:
    needs = {"flags and a mode": "mode", "a site": "site", "nothing else": "nothing"}.get(
        match["needs"], match["needs"]
    )
    return Piece(
        verb=match["verb"], noun=match["noun"], item=match["item"], needs=needs, prompt=text, events=tuple(events)
    )


def _after_last_said(events: Sequence[Event]) -> Sequence[Event]:
    last = max((place for place, event in enumerate(events) if isinstance(event, Said)), default=-1)
    return events[last + 1 :]


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content or ""


def _read(text: str) -> Any:
    """A result that is JSON as what it says, another one as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _strings(value: Any) -> Iterator[str]:
    """The strings in a value; in a result they are a line each."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
