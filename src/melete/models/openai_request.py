"""Requests of the `openai-chat` wire as bytes: canonical, stable, and each message encoded once. Part: models.

The body is `{"model", "tools", "messages", …the rest}`: what grows with the conversation comes first and only grows at its
end, so that a provider's prompt cache holds. `prefix` gives exactly that part.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from melete.core.event import ToolSchema
from melete.core.message import Audio, File, Image, Message, Text, ToolCall, ToolResult
from melete.core.model import ModelRequest
from melete.core.plugin import Lazy
from melete.models.spec import ModelSpec, Quirks

WIRE = "openai-chat"
EMPTY = "(empty)"
UNANSWERED = '{"error":"this call was never carried out; its outcome is unknown"}'
SPARE = 2000

_CONTROL = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]"


class Encoded(Struct, frozen=True, kw_only=True):
    """One message as bytes: its own objects in `body`, a tool message's results in `results` by call id, `after` follows them."""

    message: Message
    body: tuple[bytes, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: Mapping[str, bytes] = {}
    after: tuple[bytes, ...] = ()


class RequestEncoder:
    """Turns requests into bodies; keeps the bytes of messages that it has met, for as long as it is used with them."""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec
        self.quirks = spec.quirks
        self._messages: dict[int, Encoded] = {}
        self._sent: tuple[tuple[Message, ...], bytearray] = ((), bytearray())
        self._tools: tuple[tuple[ToolSchema, ...], bytes] = ((), b"[]")
        self._ids: tuple[tuple[Message, ...], set[str]] = ((), set())

    def adopt(self, quirks: Quirks) -> None:
        """Use another dialect from now on; everything is encoded anew."""
        self.quirks = quirks
        self._messages.clear()
        self._sent = ((), bytearray())
        self._tools = ((), b"[]")

    def body(self, request: ModelRequest) -> bytes:
        """The whole body of a streaming request."""
        rest = self._encode(self._rest(request))
        return b"".join((b'{"model":', self._encode(request.model), b",", *self._pieces(request), b"],", rest[1:]))

    def prefix(self, request: ModelRequest) -> bytes:
        """Tools, system and messages: the bytes that the next request of the conversation starts with."""
        return b"".join(self._pieces(request))

    def call_ids(self, request: ModelRequest) -> set[str]:
        """The ids of all calls in the conversation; what the last request held is not walked through again."""
        done, ids = self._ids
        if request.messages[: len(done)] != done:
            done, ids = (), set[str]()
        for message in request.messages[len(done) :]:
            ids.update(call.id for call in self._encoded(message).calls)
        self._ids = (request.messages, ids)
        return set(ids)

    def _pieces(self, request: ModelRequest) -> Iterator[bytes | bytearray]:
        """The prefix in pieces: a long conversation is copied once a request, into the body."""
        if request.tools:
            yield b'"tools":'
            yield self._tool_bytes(request.tools)
            yield b","
        head, messages = self._head(request), self._joined_messages(request.messages)
        yield b'"messages":['
        yield head
        yield b"," if head and messages else b""
        yield messages

    def _head(self, request: ModelRequest) -> bytes:
        """The system message and the prefilled ones."""
        parts: list[bytes] = []
        blocks = [*request.system, request.ephemeral]
        if system := "\n\n".join(block for block in blocks if block):
            parts.append(self._encode({"role": "system", "content": system}))
        parts += _paired([self._encoded(message) for message in request.prefill])[0]
        return b",".join(parts)

    def _joined_messages(self, messages: tuple[Message, ...]) -> bytearray:
        """The conversation; what the last request held already is not touched again, so that a long run stays flat."""
        done, joined = self._sent
        if not done or messages[: len(done)] != done:
            done, joined = (), bytearray()
        parts, whole = _paired([self._encoded(message) for message in messages[len(done) :]])
        if not whole:
            joined = joined.copy()
        for part in parts:
            if joined:
                joined += b","
            joined += part
        if whole:
            self._sent = (messages, joined)
        if len(self._messages) > 2 * len(messages) + SPARE:
            kept = map(self._messages.get, map(id, messages))
            self._messages = {id(one.message): one for one in kept if one is not None}
        return joined

    def _rest(self, request: ModelRequest) -> dict[str, Any]:
        quirks = self.quirks
        rest: dict[str, Any] = {"stream": True}
        if quirks.stream_options:
            rest["stream_options"] = {"include_usage": True}
        if request.tools and request.tool_choice != "auto" and quirks.tool_choice:
            rest["tool_choice"] = request.tool_choice
        if request.max_output is not None:
            rest[quirks.max_tokens] = request.max_output
        if request.temperature is not None and quirks.temperature:
            rest["temperature"] = request.temperature
        if request.effort and quirks.effort == "reasoning":
            rest["reasoning"] = {"effort": request.effort}
        elif request.effort and quirks.effort == "reasoning_effort":
            rest["reasoning_effort"] = request.effort
        if request.answer_schema is not None:
            answer = {"name": "answer", "schema": request.answer_schema}
            rest["response_format"] = {"type": "json_schema", "json_schema": answer}
        if request.cache_key and quirks.cache_key:
            rest["prompt_cache_key"] = request.cache_key
        return rest | quirks.extra

    def _tool_bytes(self, tools: tuple[ToolSchema, ...]) -> bytes:
        if self._tools[0] is not tools:
            listed = [
                {"type": "function", "function": {"name": t.name, "description": t.about, "parameters": t.parameters}}
                for t in tools
            ]
            self._tools = (tools, self._encode(listed))
        return self._tools[1]

    def _encoded(self, message: Message) -> Encoded:
        found = self._messages.get(id(message))
        if found is None:
            found = self._messages[id(message)] = self._new(message)
        return found

    def _new(self, message: Message) -> Encoded:
        if message.role == "assistant":
            return Encoded(message=message, body=(self._assistant(message),), calls=message.calls)
        if message.role == "tool":
            return self._tool(message)
        content = list(self._content(message.parts))
        if all(item["type"] == "text" for item in content):
            said: Any = "\n\n".join(item["text"] for item in content) or EMPTY
        else:
            said = content
        return Encoded(message=message, body=(self._encode({"role": "user", "content": said}),))

    def _tool(self, message: Message) -> Encoded:
        results: dict[str, bytes] = {}
        images: list[dict[str, Any]] = []
        for part in message.parts:
            if not isinstance(part, ToolResult):
                images += self._content((part,))
                continue
            results[part.call] = self._encode(
                {"role": "tool", "tool_call_id": part.call, "content": part.content or EMPTY}
            )
            if part.images:
                images.append({"type": "text", "text": f"What {part.name} ({part.call}) returned as images:"})
                images += self._content(part.images)
        after = (self._encode({"role": "user", "content": images}),) if images else ()
        return Encoded(message=message, results=results, after=after)

    def _content(self, parts: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
        """The content items of parts that people and tools send; what the model cannot take is named in its place."""
        for part in parts:
            match part:
                case Text(text=text) if text:
                    yield {"type": "text", "text": text}
                case Image() if not self._spec.can.images:
                    yield {"type": "text", "text": "(an image was left out: this model takes none)"}
                case Image(data=data, media_type=kind, url=url):
                    yield {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}" if data else url}}
                case Audio(data=data, media_type=kind):
                    sound = {"data": data, "format": kind.rpartition("/")[2].removeprefix("x-")}
                    yield {"type": "input_audio", "input_audio": sound}
                case File(data=data, media_type=kind, name=name):
                    yield {"type": "file", "file": {"filename": name, "file_data": f"data:{kind};base64,{data}"}}
                case _:
                    pass

    def _assistant(self, message: Message) -> bytes:
        wire = message.wire
        if wire is None or wire.name != WIRE or not self.quirks.replay:
            return self._encode(_rebuilt(message))
        sound = bool(message.calls or message.text) and all(_is_object(c.arguments) for c in message.calls)
        if sound and not self.quirks.ascii:
            return bytes(wire.body)
        return self._encode(_mended(msgspec.json.decode(wire.body)))

    def _encode(self, value: Any) -> bytes:
        try:
            data = msgspec.json.encode(value)
        except UnicodeEncodeError:
            data = msgspec.json.encode(_sound_text(msgspec.to_builtins(value, builtin_types=(msgspec.Raw,))))
        if not self.quirks.ascii:
            return data
        plain = _sound_text(msgspec.json.decode(data), drop=_CONTROL)
        dumps = Lazy[Callable[..., str]]("json:dumps").load()
        return dumps(plain, ensure_ascii=True, separators=(",", ":")).encode()


def _paired(messages: list[Encoded]) -> tuple[list[bytes], bool]:
    """The messages' bytes in order, each call followed by its result; and whether every call had one.

    A call without a result gets one that says so, a result that stands further down moves up, and one without a call is
    told as a user's words: servers refuse anything else.
    """
    parts: list[bytes] = []
    used: set[tuple[int, str]] = set()
    whole = True
    for place, one in enumerate(messages):
        parts += one.body
        for call in one.calls:
            result = _result(messages, place, call, used=used)
            whole = whole and result is not None
            parts.append(result or _unanswered(call))
        for call_id, result in one.results.items():
            if (place, call_id) not in used:
                parts.append(_orphan(result))
        parts += one.after
    return parts, whole


def _result(messages: list[Encoded], place: int, call: ToolCall, *, used: set[tuple[int, str]]) -> bytes | None:
    for later in range(place + 1, len(messages)):
        one = messages[later]
        if call.id in one.results and (later, call.id) not in used:
            used.add((later, call.id))
            return one.results[call.id]
        if one.calls:
            break
    return None


def _unanswered(call: ToolCall) -> bytes:
    return msgspec.json.encode({"role": "tool", "tool_call_id": call.id, "content": UNANSWERED})


def _orphan(result: bytes) -> bytes:
    content = msgspec.json.decode(result)["content"]
    return msgspec.json.encode({"role": "user", "content": f"(result of a call that is not shown)\n\n{content}"})


def _rebuilt(message: Message) -> dict[str, Any]:
    body: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    calls = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": _arguments(c.arguments)}}
        for c in message.calls
    ]
    if calls:
        body["tool_calls"] = calls
    elif not message.text:
        body["content"] = EMPTY
    return body


def _mended(body: dict[str, Any]) -> dict[str, Any]:
    """A provider's message as servers take it back: never empty, and with arguments that are JSON objects."""
    for call in body.get("tool_calls") or ():
        call["function"]["arguments"] = _arguments(call["function"]["arguments"])
    if not body.get("tool_calls") and not body.get("content"):
        body["content"] = EMPTY
    return body


def _arguments(text: str) -> str:
    return text if _is_object(text) else "{}"


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False


def _sound_text(value: Any, *, drop: str = "") -> Any:
    """The value with every lone surrogate stripped from its texts, pairs joined, and what matches `drop` left out."""
    if isinstance(value, str):
        text = value.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")
        return re.sub(drop, "", text) if drop else text
    if isinstance(value, dict):
        items: dict[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return {_sound_text(k, drop=drop): _sound_text(v, drop=drop) for k, v in items.items()}
    if isinstance(value, list):
        return [_sound_text(v, drop=drop) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return value
