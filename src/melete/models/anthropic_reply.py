"""Putting an answer of the `anthropic-messages` wire together, block by block. Part: models.

The provider's blocks grow as they are, known or not, to be sent back verbatim; what the loop reads (text, thinking, calls) is
taken out of them.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from melete.core.event import CallDelta, Delta, Reply, TextDelta, ThinkingDelta
from melete.core.message import Message, Part, Text, Thinking, ToolCall, Usage, Wire
from melete.models.anthropic_request import WIRE
from melete.models.encoder import arguments_object

Stop = Literal["end", "tool_calls", "length", "content_filter", "other"]
Json = dict[str, Any]

MOST_TOKENS = 1_000_000_000
"""A larger count is none: some servers send what a number below zero becomes without a sign."""
BEGUN_BY = {"text_delta": "text", "thinking_delta": "thinking"}
"""The blocks that may begin without having been announced."""
STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "stop": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "pause_turn": "other",
}


class _Block:
    """One block of the answer as far as it has come; `place` counts the calls."""

    def __init__(self, body: Json, *, place: int) -> None:
        self.body = body
        self.place = place
        self.json: list[str] = []
        self._pieces: dict[str, list[str]] = {}

    @property
    def kind(self) -> str:
        return _word(self.body.get("type"))

    @property
    def arguments(self) -> str:
        """The input as the model wrote it; an object that came whole is as good."""
        written = "".join(self.json)
        return written if written.strip() else msgspec.json.encode(_object(self.body.get("input"))).decode()

    @property
    def unsigned(self) -> bool:
        """Whether this is thinking that broke off before its signature."""
        return self.kind == "thinking" and not self.body.get("signature")

    def said(self, field: str) -> str:
        """A text field, its pieces joined."""
        pieces = self._pieces.get(field)
        return _word(self.body.get(field)) if pieces is None else "".join(pieces)

    def grow(self, field: str, value: Any) -> None:
        """Add a piece to a field: texts and lists are continued, anything else is replaced."""
        old = self.body.get(field)
        if isinstance(value, str) and (old is None or isinstance(old, str)):
            self._pieces.setdefault(field, [old or ""]).append(value)
        elif isinstance(value, list) and isinstance(old, list):
            self.body[field] = old + value
        else:
            self.body[field] = value

    def finished(self) -> Json:
        """The whole block as the provider would take it back."""
        body = self.body | {field: "".join(pieces) for field, pieces in self._pieces.items()}
        if self.json or self.kind == "tool_use":
            arguments = self.arguments
            known = arguments_object(arguments) is not None
            body["input"] = msgspec.Raw(arguments.encode()) if known else {}
        return body


class ReplyAssembler:
    """Takes the events of one answer in order, gives back deltas, and at the end the message."""

    def __init__(self, *, taken: set[str], provider: str = "") -> None:
        self.finish = ""
        self.began = False
        self.model = ""
        self.id = ""
        self._taken = taken
        self._provider = provider
        self._usage: Json = {}
        self._blocks: list[_Block] = []
        self._at: dict[Any, _Block] = {}

    def told(self, name: str, value: Json) -> Any:
        """The error in an event."""
        told: Any = value.get("error")
        return told or (value if name == "error" or value.get("type") == "error" else None)

    def document(self, value: Json) -> Iterable[Delta] | None:
        """Take a whole message; None without `content`."""
        if not isinstance(value.get("content"), list | str):
            return None
        deltas = list(self._message(value))
        self.finish = self.finish or "end_turn"
        return deltas

    def feed(self, value: Json) -> Iterator[Delta]:
        """Take one event and yield what is new in it; pings and events that nobody knows say nothing."""
        match value.get("type"):
            case "message_start":
                yield from self._message(_object(value.get("message")))
            case "content_block_start":
                yield from self._start(value.get("index"), _object(value.get("content_block")))
            case "content_block_delta":
                self.began = True
                yield from self._delta(value.get("index"), _object(value.get("delta")))
            case "content_block_stop":
                self._at.pop(value.get("index"), None)
            case "message_delta":
                self.began = True
                self._count(value)
                self.finish = _word(_object(value.get("delta")).get("stop_reason")) or self.finish
            case "message_stop":
                self.finish = self.finish or ("end_turn" if self.began else "")
            case "message":
                yield from self.document(value) or ()
            case _:
                pass

    @property
    def empty(self) -> bool:
        """Whether neither text nor a call has come."""
        return not any(block.kind == "tool_use" or self._text(block).strip() for block in self._blocks)

    @property
    def refused(self) -> bool:
        """Whether the model was stopped from answering."""
        return STOPS.get(self.finish) == "content_filter"

    def message(self) -> Message:
        """The finished message with the provider's own blocks inside."""
        parts: list[Part] = []
        content: list[Json] = []
        taken = set(self._taken)
        before = ""
        for number, block in enumerate(self._blocks):
            body = block.finished()
            if block.kind == "tool_use":
                body["id"] = unique(_word(body.get("id")), taken)
                name = body["name"] = _word(body.get("name"))
                parts.append(ToolCall(id=body["id"], name=name, arguments=block.arguments))
            elif text := self._text(block):
                _say(parts, text, joined=before == "text")
            elif block.kind == "thinking" and (thought := block.said("thinking")):
                parts.append(Thinking(text=thought))
            before = block.kind
            if not (block.unsigned and number == len(self._blocks) - 1):
                content.append(body)
        raw = msgspec.Raw(msgspec.json.encode({"role": "assistant", "content": content}))
        return Message(role="assistant", parts=tuple(parts), wire=Wire(name=WIRE, body=raw, provider=self._provider))

    def reply(self, *, provider: str, request_id: str, seconds: float, first_token_seconds: float) -> Reply:
        """The finished answer; the caller has made sure that it is whole."""
        message = self.message()
        return Reply(
            message=message,
            stop=self._stop(message.calls),
            usage=counted(self._usage),
            model=self.model,
            provider=provider,
            request_id=request_id or self.id,
            seconds=seconds,
            first_token_seconds=first_token_seconds,
        )

    def _stop(self, calls: tuple[ToolCall, ...]) -> Stop:
        stop = STOPS.get(self.finish, "other")
        return "tool_calls" if calls and stop in ("end", "other") else stop

    def _text(self, block: _Block) -> str:
        return block.said("text") if block.kind == "text" else ""

    def _message(self, message: Json) -> Iterator[Delta]:
        """The message's own fields, and its blocks where they are there already."""
        self.began = True
        self.model = _word(message.get("model")) or self.model
        self.id = _word(message.get("id")) or self.id
        self._count(message)
        content: Any = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for block in map(_object, content or ()):
            yield from self._start(None, block)
        self.finish = _word(message.get("stop_reason")) or self.finish

    def _start(self, index: Any, body: Json) -> Iterator[Delta]:
        """A block begins. One that comes under a number in use is another block: some servers count badly."""
        self.began = True
        block = self._begin(index, dict(body))
        if block.kind == "tool_use":
            given = msgspec.json.encode(body["input"]).decode() if body.get("input") else ""
            name = _word(body.get("name"))
            yield CallDelta(index=block.place, id=_word(body.get("id")), name=name, arguments=given)
        elif block.kind in ("text", "thinking"):
            yield from _shown(block.kind, block.said(block.kind))

    def _begin(self, index: Any, body: Json) -> _Block:
        block = _Block(body, place=sum(known.kind == "tool_use" for known in self._blocks))
        self._blocks.append(block)
        if index is not None:
            self._at[index] = block
        return block

    def _delta(self, index: Any, delta: Json) -> Iterator[Delta]:
        kind = _word(delta.get("type"))
        block = self._at.get(index)
        if block is None and (begun := BEGUN_BY.get(kind)):
            block = self._begin(index, {"type": begun, begun: ""})
        elif block is None:
            return
        match kind:
            case "input_json_delta":
                piece = _word(delta.get("partial_json"))
                block.json.append(piece)
                if piece and block.kind == "tool_use":
                    yield CallDelta(index=block.place, arguments=piece)
            case "signature_delta":
                block.body["signature"] = delta.get("signature")
            case "citations_delta":
                block.body["citations"] = [*(block.body.get("citations") or ()), delta.get("citation")]
            case _:
                for field, value in delta.items():
                    if field != "type" and value is not None:
                        block.grow(field, value)
                        yield from _shown(block.kind, value) if field == block.kind else ()

    def _count(self, holder: Json) -> None:
        """Take over counts: they are totals so far, and a nought where there was a number is a count left out."""
        self._usage.update((name, value) for name, value in _object(holder.get("usage")).items() if value)


def counted(usage: Json) -> Usage:
    """The five classes out of the API's usage object, whose input leaves out what was cached."""
    created = sum(_count(value) for value in _object(usage.get("cache_creation")).values())
    return Usage(
        input=_count(usage.get("input_tokens")),
        output=_count(usage.get("output_tokens")),
        cache_read=_count(usage.get("cache_read_input_tokens")),
        cache_write=_count(usage.get("cache_creation_input_tokens")) or created,
        reasoning=_count(_object(usage.get("output_tokens_details")).get("thinking_tokens")),
    )


def unique(call: str, taken: set[str]) -> str:
    """The id, or one like it that is not taken; it is taken from then on."""
    found, number = call or "call_1", 2
    while found in taken:
        found, number = f"{call or 'call'}_{number}", number + 1
    taken.add(found)
    return found


def _say(parts: list[Part], text: str, *, joined: bool) -> None:
    """Add text; an answer with citations comes in many blocks that are one text."""
    last = parts[-1] if parts else None
    if joined and isinstance(last, Text):
        parts[-1] = Text(text=last.text + text)
    else:
        parts.append(Text(text=text))


def _shown(kind: str, text: Any) -> Iterator[Delta]:
    """A piece of text or thinking as what surfaces show."""
    if not isinstance(text, str) or not text:
        return
    if kind == "text":
        yield TextDelta(text=text)
    elif kind == "thinking":
        yield ThinkingDelta(text=text)


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and 0 < value <= MOST_TOKENS else 0
