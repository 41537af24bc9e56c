"""Requests of the `openai-chat` wire: `{"model", "tools", "messages", …the rest}`. Part: models."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from melete.core.event import ToolSchema
from melete.core.message import Audio, File, Image, Message, Text, Thinking, ToolCall, ToolResult
from melete.core.model import ModelRequest
from melete.core.plugin import Lazy
from melete.models.encoder import EMPTY, ORPHAN, UNANSWERED, Encoded, Encoder, arguments_object, marked, valid_name

WIRE = "openai-chat"
MARKER = {"type": "ephemeral"}
INSIDE = len(b"}]}")
TOLD, ASKED = b'{"role":"tool"', b'{"role":"user"'
BRIDGE = b'{"role":"assistant","content":"(the results are noted)"}'
REASONING = ("reasoning_content", "reasoning", "reasoning_details")
NO_THOUGHT = " "
"""What stands in the place of a thought that there is none of: servers that insist on one refuse an empty text."""
_SHORT = r"[A-Za-z0-9]{9}"


class RequestEncoder(Encoder):
    """Turns requests into bodies of this wire."""

    wire = WIRE

    def body(self, request: ModelRequest) -> bytes:
        """The whole body of a streaming request."""
        rest = self.encode(self._rest(request))
        model = self.encode(request.model)
        return b"".join((b'{"model":', model, b",", *self._pieces(request, mark=self._marks), b"],", rest[1:]))

    def prefix(self, request: ModelRequest) -> bytes:
        """Tools, system and messages: the bytes that the next request of the conversation starts with."""
        return b"".join(self._pieces(request, mark=False))

    @property
    def _marks(self) -> bool:
        return self.quirks.cache_markers

    @property
    def _marker(self) -> dict[str, str]:
        return MARKER if self.spec.cache_ttl == "5m" else {**MARKER, "ttl": self.spec.cache_ttl}

    def _pieces(self, request: ModelRequest, *, mark: bool) -> Iterator[bytes | bytearray | memoryview]:
        """The prefix in pieces: a long conversation is copied once a request, into the body."""
        if request.tools:
            yield b'"tools":'
            yield self.tool_bytes(request.tools)
            yield b","
        head, messages = self._head(request, mark=mark), self.joined(request.messages)
        yield b'"messages":['
        yield head
        yield b"," if head and messages.data else b""
        if mark:
            yield from marked(messages, b',"cache_control":' + msgspec.json.encode(self._marker), inside=INSIDE)
        else:
            yield messages.data

    def _head(self, request: ModelRequest, *, mark: bool) -> bytes:
        """The system message and the prefilled ones."""
        parts: list[bytes] = []
        if self._marks:
            blocks: list[dict[str, Any]] = [{"type": "text", "text": block} for block in request.system if block]
            if blocks and mark:
                blocks[-1]["cache_control"] = self._marker
            if request.ephemeral:
                blocks.append({"type": "text", "text": request.ephemeral})
            system: Any = blocks
        else:
            system = "\n\n".join(block for block in (*request.system, request.ephemeral) if block)
        if system:
            parts.append(self.encode({"role": "system", "content": system}))
        parts += [data for data, _ in self.paired([self.encoded(message) for message in request.prefill])[0]]
        return b",".join(parts)

    def _rest(self, request: ModelRequest) -> dict[str, Any]:
        quirks = self.quirks
        rest: dict[str, Any] = {"stream": True}
        if quirks.stream_options:
            rest["stream_options"] = {"include_usage": True}
        if request.tools and request.tool_choice != "auto" and quirks.tool_choice:
            rest["tool_choice"] = request.tool_choice
        if request.max_output is not None and quirks.max_tokens != "none":
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
        if self.spec.service_tier:
            rest["service_tier"] = self.spec.service_tier
        return rest | quirks.extra

    def declared(self, tool: ToolSchema) -> dict[str, Any]:
        """A tool as a function."""
        function = {"name": tool.name, "description": tool.about, "parameters": tool.parameters}
        return {"type": "function", "function": function}

    def new(self, message: Message) -> Encoded:
        """One message as this wire has it."""
        if message.role == "assistant":
            return Encoded(message=message, body=(self._assistant(message),), calls=message.calls)
        if message.role == "tool":
            return self._tool(message)
        content = list(self._content(message.parts))
        if self._marks:
            said: Any = content or [{"type": "text", "text": EMPTY}]
        elif all(item["type"] == "text" for item in content):
            said = "\n\n".join(item["text"] for item in content) or EMPTY
        else:
            said = content
        return Encoded(message=message, body=(self.encode({"role": "user", "content": said}),), markable=True)

    def _tool(self, message: Message) -> Encoded:
        results: dict[str, bytes] = {}
        images: list[dict[str, Any]] = []
        for part in message.parts:
            if not isinstance(part, ToolResult):
                images += self._content((part,))
                continue
            results[part.call] = self._result(part.call, part.content or EMPTY)
            if part.images:
                images.append({"type": "text", "text": f"What {part.name} ({part.call}) returned as images:"})
                images += self._content(part.images)
        after = (self.encode({"role": "user", "content": images}),) if images else ()
        return Encoded(message=message, results=results, after=after)

    def _result(self, call: str, text: str) -> bytes:
        content = [{"type": "text", "text": text}] if self._marks else text
        return self.encode({"role": "tool", "tool_call_id": self._id(call), "content": content})

    def _id(self, call: str) -> str:
        """The call's id as the server takes it; the same id always gives the same one."""
        if not self.quirks.short_ids or re.fullmatch(_SHORT, call):
            return call
        digest = Lazy[Callable[[bytes], Any]]("hashlib:sha256").load()(call.encode("utf-8", "replace"))
        return digest.hexdigest()[:9]

    def between(self, before: bytes, after: bytes) -> bytes:
        """A message of the model's between a result and a user's words, for servers that refuse those side by side."""
        return BRIDGE if self.quirks.bridged and before.startswith(TOLD) and after.startswith(ASKED) else b""

    def unanswered(self, call: ToolCall) -> bytes:
        """A tool message that says that there was no result."""
        return self._result(call.id, UNANSWERED)

    def orphan(self, result: bytes) -> bytes:
        """The result as a user's words."""
        content: Any = msgspec.json.decode(result)["content"]
        text = content if isinstance(content, str) else content[0]["text"]
        told = f"{ORPHAN}\n\n{text}"
        return self.encode({"role": "user", "content": [{"type": "text", "text": told}] if self._marks else told})

    def _content(self, parts: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
        """The content items of parts that people and tools send; what the model cannot take is named in its place."""
        for part in parts:
            match part:
                case Text(text=text) if text:
                    yield {"type": "text", "text": text}
                case Image() if not self.takes_images:
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
        body, quirks = self.replayable(message), self.quirks
        if body is None:
            return self.encode(self._put(_rebuilt(message), message))
        sound = bool(message.calls or message.text) and all(
            arguments_object(c.arguments) is not None and c.name == valid_name(c.name) for c in message.calls
        )
        if sound and not (quirks.ascii or quirks.reasoning_back or quirks.short_ids):
            return bytes(body)
        return self.encode(self._put(_mended(msgspec.json.decode(body)), message))

    def _put(self, body: dict[str, Any], message: Message) -> dict[str, Any]:
        """The model's message as this server insists on it: with the thoughts that led to it, and ids of its form."""
        if self.quirks.reasoning_back and not any(body.get(name) for name in REASONING):
            thoughts = "\n\n".join(p.text for p in message.parts if isinstance(p, Thinking))
            body["reasoning_content"] = thoughts if thoughts.strip() else NO_THOUGHT
        for call in body.get("tool_calls") or ():
            call["id"] = self._id(call["id"])
        return body


def _rebuilt(message: Message) -> dict[str, Any]:
    body: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    calls = [
        {"id": c.id, "type": "function", "function": {"name": valid_name(c.name), "arguments": _arguments(c.arguments)}}
        for c in message.calls
    ]
    if calls:
        body["tool_calls"] = calls
    elif not message.text:
        body["content"] = EMPTY
    return body


def _mended(body: dict[str, Any]) -> dict[str, Any]:
    """A provider's message as servers take it back: never empty, names in the alphabet, arguments JSON objects."""
    for call in body.get("tool_calls") or ():
        function = call["function"]
        function |= {"name": valid_name(function["name"]), "arguments": _arguments(function["arguments"])}
    if not body.get("tool_calls") and not body.get("content"):
        body["content"] = EMPTY
    return body


def _arguments(text: str) -> str:
    return "{}" if arguments_object(text) is None else text
