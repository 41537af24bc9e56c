"""Putting an answer of the `anthropic-messages` wire together, block by block. Part: models.

The provider's blocks grow as they are, known or not, to be sent back verbatim; what the loop reads (text, thinking, calls) is
taken out of them.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from melete.core.event import CallDelta, Delta, TextDelta, ThinkingDelta
from melete.core.message import Message, Part, Text, Thinking, ToolCall, Usage, Wire
from melete.models.anthropic_request import WIRE
from melete.models.encoder import arguments_object
from melete.models.loose import Json, Stop, as_count, as_list, as_object, as_word

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
        return as_word(self.body.get("type"))

    @property
    def arguments(self) -> str:
        """The input as the model wrote it; an object that came whole is as good."""
        written = "".join(self.json)
        return written if written.strip() else msgspec.json.encode(as_object(self.body.get("input"))).decode()

    @property
    def unsigned(self) -> bool:
        """Whether this is thinking that broke off before its signature."""
        return self.kind == "thinking" and not self.body.get("signature")

    def said(self, field: str) -> str:
        """A text field, its pieces joined."""
        pieces = self._pieces.get(field)
        return as_word(self.body.get(field)) if pieces is None else "".join(pieces)

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
        self._at: dict[int, _Block] = {}

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
                yield from self._message(as_object(value.get("message")))
            case "content_block_start":
                yield from self._start(_number(value.get("index")), as_object(value.get("content_block")))
            case "content_block_delta":
                self.began = True
                yield from self._delta(_number(value.get("index")), as_object(value.get("delta")))
            case "content_block_stop":
                self._at.pop(_number(value.get("index")), None)
            case "message_delta":
                self.began = True
                self._count(value)
                self.finish = as_word(as_object(value.get("delta")).get("stop_reason")) or self.finish
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
                body["id"] = unique(as_word(body.get("id")), taken)
                name = body["name"] = as_word(body.get("name"))
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

    @property
    def stop(self) -> Stop:
        """The reason to stop in our words, calls left aside."""
        return STOPS.get(self.finish, "other")

    @property
    def usage(self) -> Usage:
        """The five classes out of the latest counts."""
        return counted(self._usage)

    def _text(self, block: _Block) -> str:
        return block.said("text") if block.kind == "text" else ""

    def _message(self, message: Json) -> Iterator[Delta]:
        """The message's own fields, and its blocks where they are there already."""
        self.began = True
        self.model = as_word(message.get("model")) or self.model
        self.id = as_word(message.get("id")) or self.id
        self._count(message)
        content: Any = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for block in map(as_object, as_list(content)):
            yield from self._start(None, block)
        self.finish = as_word(message.get("stop_reason")) or self.finish

    def _start(self, index: int | None, body: Json) -> Iterator[Delta]:
        """A block begins. One that comes under a number in use is another block: some servers count badly."""
        self.began = True
        block = self._begin(index, dict(body))
        if block.kind == "tool_use":
            given = msgspec.json.encode(body["input"]).decode() if body.get("input") else ""
            name = as_word(body.get("name"))
            yield CallDelta(index=block.place, id=as_word(body.get("id")), name=name, arguments=given)
        elif block.kind in ("text", "thinking"):
            yield from _shown(block.kind, block.said(block.kind))

    def _begin(self, index: int | None, body: Json) -> _Block:
        block = _Block(body, place=sum(known.kind == "tool_use" for known in self._blocks))
        self._blocks.append(block)
        if index is not None:
            self._at[index] = block
        return block

    def _delta(self, index: int, delta: Json) -> Iterator[Delta]:
        kind = as_word(delta.get("type"))
        block = self._at.get(index)
        if block is None and (begun := BEGUN_BY.get(kind)):
            block = self._begin(index, {"type": begun, begun: ""})
        elif block is None:
            return
        match kind:
            case "input_json_delta":
                piece = as_word(delta.get("partial_json"))
                block.json.append(piece)
                if piece and block.kind == "tool_use":
                    yield CallDelta(index=block.place, arguments=piece)
            case "signature_delta":
                block.body["signature"] = delta.get("signature")
            case "citations_delta":
                block.body["citations"] = [*as_list(block.body.get("citations")), delta.get("citation")]
            case _:
                for field, value in delta.items():
                    if field != "type" and value is not None:
                        block.grow(field, value)
                        yield from _shown(block.kind, value) if field == block.kind else ()

    def _count(self, holder: Json) -> None:
        """Take over counts: they are totals so far, and a nought where there was a number is a count left out."""
        self._usage.update((name, value) for name, value in as_object(holder.get("usage")).items() if value)


def counted(usage: Json) -> Usage:
    """The five classes out of the API's usage object, whose input leaves out what was cached."""
    created = sum(as_count(value) for value in as_object(usage.get("cache_creation")).values())
    return Usage(
        input=as_count(usage.get("input_tokens")),
        output=as_count(usage.get("output_tokens")),
        cache_read=as_count(usage.get("cache_read_input_tokens")),
        cache_write=as_count(usage.get("cache_creation_input_tokens")) or created,
        reasoning=as_count(as_object(usage.get("output_tokens_details")).get("thinking_tokens")),
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


def _number(value: Any) -> int:
    """A block's number; a server that gives none means the block that began last."""
    return value if isinstance(value, int) else -1
