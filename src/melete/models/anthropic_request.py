"""Requests of the `anthropic-messages` wire: `{"model", "tools", "system", "messages", …the rest}`. Part: models."""

import binascii
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from melete.core.event import ToolSchema
from melete.core.message import Audio, File, Image, Message, Part, Text, ToolCall, ToolResult
from melete.core.model import ModelRequest
from melete.models.encoder import (
    EMPTY,
    OPENING,
    ORPHAN,
    UNANSWERED,
    Encoded,
    Encoder,
    arguments_object,
    marked,
    valid_name,
)

WIRE = "anthropic-messages"
Json = dict[str, Any]

INSIDE = len(b"}]}")
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
THOUGHTS = ("thinking", "redacted_thinking")
CHOICES = {"none": {"type": "none"}, "required": {"type": "any"}}
EFFORTS = {"minimal": "low"}
BUDGETS = {"minimal": 1024, "low": 4096, "medium": 10_000, "high": 24_000, "xhigh": 32_000, "max": 48_000}
LEAST_BUDGET = 1024
MOST_OUTPUT = 32_000
"""How much is asked for at most where nothing is known; the API wants a number in every request."""

GO_ON = "Go on."
ANSWER_AS = "Answer with one JSON document that fits this JSON Schema, and with nothing before or after it:\n"

_ID = r"[a-zA-Z0-9_-]{1,200}"
LONGEST_NAME = 128
_STRANGE = r"[^a-zA-Z0-9_-]"


class RequestEncoder(Encoder):
    """Turns requests into bodies of this wire."""

    wire = WIRE

    def body(self, request: ModelRequest) -> bytes:
        """The whole body of a streaming request."""
        mark = self.quirks.cache_markers
        model, rest = self.encode(request.model), self.encode(self._rest(request))
        pieces = self._pieces(request, mark=mark)
        return b"".join((b'{"model":', model, b",", *pieces, self._tail(request), b"],", rest[1:]))

    def prefix(self, request: ModelRequest) -> bytes:
        """Tools, system and messages: the bytes that the next request of the conversation starts with."""
        return b"".join(self._pieces(request, mark=False))

    # ---- the prefix -------------------------------------------------------------------------------------------------

    def _pieces(self, request: ModelRequest, *, mark: bool) -> Iterator[bytes | bytearray | memoryview]:
        """The prefix in pieces: a long conversation is copied once a request, into the body."""
        marker = b',"cache_control":' + msgspec.json.encode(self._marker) if mark else b""
        blocks = [block for block in request.system if block.strip()]
        if request.tools:
            tools = self.tool_bytes(request.tools)
            yield b'"tools":'
            yield tools if blocks else tools[:-2] + marker + b"}]"
            yield b","
        yield self._system(request, blocks, mark=mark)
        head, messages = self._head(request), self.joined(request.messages)
        yield b'"messages":['
        yield head
        yield b"," if head and messages.data else b""
        if mark:
            yield from marked(messages, marker, inside=INSIDE)
        else:
            yield messages.data

    @property
    def _marker(self) -> dict[str, str]:
        """What says that the prompt up to here shall be cached."""
        return {"type": "ephemeral"} | ({"ttl": "1h"} if self.spec.cache_ttl == "1h" else {})

    def _system(self, request: ModelRequest, blocks: list[str], *, mark: bool) -> bytes:
        """The system's blocks: a mark behind the last lasting one caches the tools as well."""
        listed: list[Json] = [_text(block) for block in blocks]
        if listed and mark:
            listed[-1]["cache_control"] = self._marker
        listed += [_text(block) for block in (request.ephemeral, self._asked_form(request)) if block.strip()]
        return b'"system":' + self.encode(listed) + b"," if listed else b""

    def _asked_form(self, request: ModelRequest) -> str:
        """The form of the answer in words, for servers that take no schema."""
        if request.answer_schema is None or self.quirks.answer != "prompt":
            return ""
        return ANSWER_AS + bytes(request.answer_schema).decode("utf-8", "replace")

    def _head(self, request: ModelRequest) -> bytes:
        """The prefilled messages. A conversation begins with a user's words, whatever is left of it."""
        first = next(iter((*request.prefill, *request.messages)), None)
        parts = [_user([_text(OPENING)])] if first is not None and first.role == "assistant" else []
        parts += [data for data, _ in self.paired([self.encoded(message) for message in request.prefill])[0]]
        return b",".join(parts)

    def _tail(self, request: ModelRequest) -> bytes:
        """What makes the conversation end with a user's words: newer models continue no answer of their own."""
        last = request.messages[-1] if request.messages else None
        unanswerable = last is not None and last.role == "assistant" and not last.calls
        return b"," + _user([_text(GO_ON)]) if unanswerable else b""

    def declared(self, tool: ToolSchema) -> Json:
        """A tool with its name, its words and its schema."""
        return {"name": tool.name, "description": tool.about, "input_schema": tool.parameters}

    # ---- the rest ---------------------------------------------------------------------------------------------------

    def _rest(self, request: ModelRequest) -> Json:
        quirks = self.quirks
        most = self._most_output(request)
        rest: Json = {"max_tokens": most, "stream": True}
        forced = bool(request.tools) and request.tool_choice != "auto" and quirks.tool_choice
        if forced:
            rest["tool_choice"] = CHOICES[request.tool_choice]
        thinking = {} if forced and request.tool_choice == "required" else self._thinking(request, most)
        if thinking:
            rest["thinking"] = thinking
        output = self._output(request)
        if output:
            rest["output_config"] = output
        still = not thinking or thinking["type"] == "disabled"
        if request.temperature is not None and quirks.temperature and still:
            rest["temperature"] = request.temperature
        if self.spec.service_tier:
            rest["service_tier"] = self.spec.service_tier
        return rest | quirks.extra

    def _most_output(self, request: ModelRequest) -> int:
        """The number of tokens that is asked for: never more than is known to be taken, and room for the prompt."""
        can = self.spec.can
        wanted = request.max_output or min(can.max_output or MOST_OUTPUT, max(can.context // 4, 1))
        return min(limit for limit in (wanted, can.max_output, self.quirks.most_output) if limit)

    def _thinking(self, request: ModelRequest, most: int) -> Json:
        mode = self.quirks.effort
        if not request.effort or mode == "none":
            return {}
        if request.effort == "none":
            return {"type": "disabled"}
        if mode == "thinking_budget":
            budget = min(BUDGETS.get(request.effort, BUDGETS["medium"]), most // 2)
            sound = budget >= LEAST_BUDGET and self._thought(request.messages)
            return {"type": "enabled", "budget_tokens": budget} if sound else {}
        # Without `display` newer models think in silence, which looks like a server that hangs.
        return {"type": "adaptive"} | ({} if mode == "adaptive_bare" else {"display": "summarized"})

    def _thought(self, messages: Sequence[Message]) -> bool:
        """Whether the running turn may go on with a budget: the model's first message of it must begin with thinking."""
        first: Message | None = None
        for message in reversed(messages):
            if message.role == "user":
                break
            first = message if message.role == "assistant" else first
        if first is None:
            return True
        content = msgspec.json.decode(self.encoded(first).body[0])["content"]
        return content[0].get("type") in THOUGHTS

    def _output(self, request: ModelRequest) -> Json:
        output: Json = {}
        if request.effort not in ("", "none") and self.quirks.effort == "adaptive":
            output["effort"] = EFFORTS.get(request.effort, request.effort)
        if request.answer_schema is not None and self.quirks.answer == "schema":
            output["format"] = {"type": "json_schema", "schema": request.answer_schema}
        return output

    # ---- messages ---------------------------------------------------------------------------------------------------

    def new(self, message: Message) -> Encoded:
        """One message as this wire has it."""
        if message.role == "assistant":
            return Encoded(message=message, body=(self._assistant(message),), calls=message.calls)
        if message.role == "tool":
            results = {p.call: self._result(p) for p in message.parts if isinstance(p, ToolResult)}
            others = list(self._content(message.parts))
            after = (self._said(others),) if others else ()
            return Encoded(message=message, results=results, after=after)
        return Encoded(message=message, body=(self._said(list(self._content(message.parts))),), markable=True)

    def grouped(self, results: list[bytes]) -> list[bytes]:
        """All results of one message's calls in one user message, as the API wants it."""
        return [b'{"role":"user","content":[' + b",".join(results) + b"]}"]

    def unanswered(self, call: ToolCall) -> bytes:
        """A result that says that there was none."""
        block = {"type": "tool_result", "tool_use_id": valid_id(call.id), "content": UNANSWERED, "is_error": True}
        return self.encode(block)

    def orphan(self, result: bytes) -> bytes:
        """The result as a user's words, its images behind them."""
        content: Any = msgspec.json.decode(result)["content"]
        blocks: list[Json] = [_text(content)] if isinstance(content, str) else content
        return self._said([_text(f"{ORPHAN}\n\n{blocks[0]['text']}"), *blocks[1:]])

    def _said(self, content: list[Json]) -> bytes:
        return self.encode({"role": "user", "content": content or [_text(EMPTY)]})

    def _result(self, part: ToolResult) -> bytes:
        words = part.content if part.content.strip() else EMPTY
        content: Any = [_text(words), *self._content(part.images)] if part.images else words
        block = {"type": "tool_result", "tool_use_id": valid_id(part.call), "content": content}
        return self.encode(block | ({"is_error": True} if part.error else {}))

    def _content(self, parts: Sequence[Part]) -> Iterator[Json]:
        """The blocks of parts that people and tools send; what the model cannot take is named in its place."""
        for part in parts:
            match part:
                case Text(text=text) if text.strip():
                    yield _text(text)
                case Image():
                    yield self._image(part)
                case Audio(media_type=kind):
                    yield _text(f"(a sound of the type {kind} was left out: this API takes none)")
                case File():
                    yield _document(part)
                case _:
                    pass

    def _image(self, image: Image) -> Json:
        if not self.takes_images:
            return _text("(an image was left out: this model takes none)")
        if not image.data:
            return {"type": "image", "source": {"type": "url", "url": image.url}}
        if image.media_type not in IMAGES:
            return _text(f"(an image of the type {image.media_type} was left out: this API takes none such)")
        source = {"type": "base64", "media_type": image.media_type, "data": image.data}
        return {"type": "image", "source": source}

    def _assistant(self, message: Message) -> bytes:
        body = self.replayable(message)
        if body is None:
            return self.encode({"role": "assistant", "content": _rebuilt(message)})
        content: list[Json] = msgspec.json.decode(body)["content"]
        mended = _mended(content)
        if mended == content and not self.quirks.ascii:
            return bytes(body)
        return self.encode({"role": "assistant", "content": mended})


def valid_id(call: str) -> str:
    """The call's id in the alphabet that the API takes; the same id gives the same one, different ids different ones."""
    if re.fullmatch(_ID, call):
        return call
    return f"{re.sub(_STRANGE, '_', call)[:100]}_{zlib.crc32(call.encode('utf-8', 'surrogatepass')):08x}"


def _rebuilt(message: Message) -> list[Json]:
    """A message from its parts. Thinking is left out: only the provider that signed it takes it back."""
    blocks: list[Json] = []
    for part in message.parts:
        match part:
            case Text(text=text) if text.strip():
                blocks.append(_text(text))
            case ToolCall(id=call, name=name, arguments=arguments):
                known = arguments_object(arguments) is not None
                given: Any = msgspec.Raw(arguments.encode()) if known else {}
                valid = valid_name(name, most=LONGEST_NAME)
                blocks.append({"type": "tool_use", "id": valid_id(call), "name": valid, "input": given})
            case _:
                pass
    return blocks or [_text(EMPTY)]


def _mended(content: list[Json]) -> list[Json]:
    """A provider's blocks as the API takes them back: no blank text, never nothing but thinking, ids and names in its alphabet."""
    blocks = [
        block | {"id": valid_id(block["id"]), "name": valid_name(block["name"], most=LONGEST_NAME)}
        if block.get("type") == "tool_use"
        else block
        for block in content
        if block.get("type") != "text" or str(block.get("text", "")).strip()
    ]
    if not blocks or blocks[-1].get("type") in THOUGHTS:
        blocks.append(_text(EMPTY))
    return blocks


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _user(content: list[Json]) -> bytes:
    return msgspec.json.encode({"role": "user", "content": content})


def _document(file: File) -> Json:
    """A PDF or a text as a document; anything else is only named."""
    title = {"title": file.name[:200]} if file.name else {}
    if file.media_type == "application/pdf":
        source = {"type": "base64", "media_type": file.media_type, "data": file.data}
        return {"type": "document", "source": source, **title}
    if file.media_type.startswith("text/") or file.media_type == "application/json":
        try:
            text = binascii.a2b_base64(file.data, strict_mode=True).decode("utf-8", "replace")
        except binascii.Error:
            return _text(f"(the file {file.name!r} was left out: its data is no base64)")
        source = {"type": "text", "media_type": "text/plain", "data": text if text.strip() else EMPTY}
        return {"type": "document", "source": source, **title}
    return _text(f"(the file {file.name!r} was left out: this API takes none of the type {file.media_type})")
