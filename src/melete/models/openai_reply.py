"""Putting an answer of the `openai-chat` wire together, piece by piece, whichever dialect the server speaks. Part: models.

Two things grow side by side: what the loop reads (text, thinking, calls) and the provider's own message, with every field
that came, to be sent back as it is.
"""

from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from melete.core.event import CallDelta, Delta, TextDelta, ThinkingDelta
from melete.core.message import Message, Part, Text, Thinking, Usage, Wire
from melete.models.loose import Json, Stop, as_count, as_object, as_word
from melete.models.openai_calls import CallAssembler
from melete.models.openai_request import WIRE
from melete.models.restated import Growing

STREAMED = ("content", "refusal", "reasoning", "reasoning_content")
THINKING = ("reasoning_content", "reasoning")
LISTED = ("content", "reasoning_details")
"""What grows item by item; a value of another form says nothing."""
STOPS: dict[str, Stop] = {
    "stop": "end",
    "end_turn": "end",
    "eos": "end",
    "stop_sequence": "end",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "refusal": "content_filter",
}


class ReplyAssembler:
    """Takes the chunks of one answer in order, gives back deltas, and at the end the message."""

    def __init__(self, *, taken: set[str], provider: str = "") -> None:
        self.finish = ""
        self.began = False
        self.model = ""
        self.id = ""
        self.usage = Usage()
        self._provider = provider
        self._body: Json = {"role": "assistant", "content": None}
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._thinking_field = ""
        self._streams: dict[str, Growing] = {}
        self._detailed: dict[Any, Growing] = {}
        self._calls = CallAssembler(taken=taken)

    def told(self, name: str, value: Json) -> Any:
        """The error in a chunk, wherever servers put it."""
        told: Any = value.get("error")
        if not told:
            for choice in map(as_object, _list(value.get("choices"))):
                if choice.get("finish_reason") == "error":
                    told = choice.get("error") or "the provider broke off"
        return told or (value if name == "error" else None)

    def document(self, value: Json) -> Iterable[Delta] | None:
        """Take a whole answer; None without `choices`."""
        if not isinstance(value.get("choices"), list):
            return None
        deltas = list(self.feed(value))
        self.finish = self.finish or "stop"
        return deltas

    def feed(self, value: Json) -> Iterator[Delta]:
        """Take one chunk and yield what is new in it."""
        self.model = as_word(value.get("model")) or self.model
        self.id = as_word(value.get("id")) or self.id
        self._count(value)
        choices = _list(value.get("choices"))
        if not choices:
            return
        self.began = True
        choice = as_object(choices[0])
        self._count(choice)
        delta = as_object(choice.get("delta")) or as_object(choice.get("message"))
        yield from self._delta(delta)
        self.finish = as_word(choice.get("finish_reason")) or self.finish

    @property
    def empty(self) -> bool:
        """Whether neither text nor a call has come."""
        return not self._calls and not "".join(self._text).strip()

    @property
    def refused(self) -> bool:
        """Whether the server gave its content filter as the reason to stop."""
        return STOPS.get(self.finish.lower()) == "content_filter"

    def message(self) -> Message:
        """The finished message with the provider's own inside."""
        for name, stream in self._streams.items():
            self._body[name] = stream.text
        calls = self._calls.finished()
        if calls:
            self._body["tool_calls"] = [body for _, body in calls]
        text, thinking = "".join(self._text), "".join(self._thinking)
        parts: list[Part] = []
        if thinking:
            parts.append(Thinking(text=thinking))
        if text:
            parts.append(Text(text=text))
        parts += [call for call, _ in calls]
        body = msgspec.Raw(msgspec.json.encode(self._body))
        return Message(role="assistant", parts=tuple(parts), wire=Wire(name=WIRE, body=body, provider=self._provider))

    @property
    def stop(self) -> Stop:
        """The reason to stop in our words, calls left aside."""
        return STOPS.get(self.finish.lower(), "other")

    def _delta(self, delta: Json) -> Iterator[Delta]:
        for name, value in delta.items():
            if value is None or name == "role":
                continue
            if name == "tool_calls":
                yield from self._call_deltas(value)
            elif name in STREAMED and isinstance(value, str):
                yield from self._streamed(name, value)
            elif name == "content" and isinstance(value, list):
                yield from self._items(value)  # pyright: ignore[reportUnknownArgumentType]
            elif name == "reasoning_details" and isinstance(value, list):
                yield from self._details(value)  # pyright: ignore[reportUnknownArgumentType]
            elif name not in LISTED:
                self._body[name] = value

    def _streamed(self, name: str, text: str) -> Iterator[Delta]:
        if not text:
            return
        if name == "content" and self._body["content"] is not None:
            yield from self._items([{"type": "text", "text": text}])
            return
        stream = self._streams.setdefault(name, Growing())
        new = stream.add(text)
        if name in THINKING:
            yield from self._think(name, new, stream=stream)
        elif new:
            self._text.append(new)
            if stream.anew:
                self._text = [stream.text]
            yield TextDelta(text=new)

    def _think(self, field: str, text: str, *, stream: Growing | None = None) -> Iterator[Delta]:
        """Show reasoning once: servers send the same words under several names."""
        self._thinking_field = self._thinking_field or field
        if text and field == self._thinking_field:
            self._thinking.append(text)
            if stream and stream.anew:
                self._thinking = [stream.text]
            yield ThinkingDelta(text=text)

    def _items(self, items: list[Any]) -> Iterator[Delta]:
        """Content that comes as a list of typed items, thinking among them."""
        if self._body["content"] is None:
            before = self._streams.pop("content", Growing()).text
            self._body["content"] = [{"type": "text", "text": before}] if before else []
        kept: list[Json] = self._body["content"]
        for item in map(as_object, items):
            text = as_word(item.get("text"))
            thought = "".join(
                as_word(i if isinstance(i, str) else as_object(i).get("text")) for i in _list(item.get("thinking"))
            )
            _merge(kept, item, joined=("text", "thinking"))
            if thought:
                yield from self._think("content", thought)
            elif text:
                self._text.append(text)
                yield TextDelta(text=text)

    def _details(self, details: list[Any]) -> Iterator[Delta]:
        kept: list[Json] = self._body.setdefault("reasoning_details", [])
        for detail in map(as_object, details):
            field = next((name for name in ("text", "summary") if as_word(detail.get(name))), "")
            stream = self._detailed.setdefault((detail.get("index"), detail.get("type")), Growing())
            new = stream.add(detail[field]) if field else ""
            if stream.anew and (one := _continued(kept, detail)):
                one[field] = stream.text.removesuffix(new)
            _merge(kept, {**detail, field: new} if field else detail, joined=("text", "summary", "data"))
            yield from self._think("reasoning_details", new, stream=stream)

    def _call_deltas(self, value: Any) -> Iterator[CallDelta]:
        for piece in map(as_object, _list(value)):
            delta = self._calls.feed(piece)
            if delta is not None:
                yield delta

    def _count(self, holder: Json) -> None:
        usage = as_object(holder.get("usage")) or as_object(as_object(holder.get("x_groq")).get("usage"))
        if usage:
            self.usage = counted(usage)


def counted(usage: Json) -> Usage:
    """The five classes out of a server's usage object, whichever names it uses."""
    prompt = as_count(usage.get("prompt_tokens")) or as_count(usage.get("input_tokens"))
    details = as_object(usage.get("prompt_tokens_details")) or as_object(usage.get("input_tokens_details"))
    read = as_count(details.get("cached_tokens")) or as_count(usage.get("prompt_cache_hit_tokens"))
    read = read or as_count(usage.get("cached_tokens")) or as_count(usage.get("cache_read_input_tokens"))
    write = as_count(details.get("cache_creation_tokens")) or as_count(details.get("cache_write_tokens"))
    write = write or as_count(usage.get("cache_creation_input_tokens"))
    spoken = as_object(usage.get("completion_tokens_details")) or as_object(usage.get("output_tokens_details"))
    output = as_count(usage.get("completion_tokens")) or as_count(usage.get("output_tokens"))
    thought = as_count(spoken.get("reasoning_tokens"))
    if thought and as_count(usage.get("total_tokens")) == prompt + output + thought:
        output += thought  # some servers count reasoning beside the completion
    return Usage(
        input=max(0, prompt - read - write),
        output=output,
        cache_read=read,
        cache_write=write,
        reasoning=thought,
    )


def _merge(kept: list[Json], piece: Json, *, joined: tuple[str, ...]) -> None:
    """Add a streamed item to those there are, or to the one that it continues."""
    one = _continued(kept, piece)
    if one is None:
        kept.append(dict(piece))
        return
    for name, value in piece.items():
        old: Any = one.get(name)
        if name in joined and isinstance(old, str | list) and type(old) is type(value):  # pyright: ignore
            one[name] = cast(Any, old) + value
        elif value is not None:
            one[name] = value


def _continued(kept: list[Json], piece: Json) -> Json | None:
    """The item that a piece belongs to: same index and type; without an index the last one, if both are text."""
    index, kind, name = piece.get("index"), piece.get("type"), piece.get("id")
    if index is None:
        same = bool(kept) and kept[-1].get("type") == kind and not {"text", "thinking", "summary"}.isdisjoint(piece)
        found = kept[-1] if same else None
    else:
        found = next((k for k in reversed(kept) if k.get("index") == index and k.get("type") == kind), None)
    if found is not None and name and found.get("id") and found["id"] != name:
        return None
    return found


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
