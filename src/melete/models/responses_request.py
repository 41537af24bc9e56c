"""Requests of the `openai-responses` wire: `{"model", "tools", "instructions", "input", …the rest}`. Part: models.

Nothing is stored at the provider: every request carries the whole conversation, the model's own items among it as they came.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import msgspec

from melete.core.event import ToolSchema
from melete.core.message import Audio, File, Image, Message, Text, ToolCall, ToolResult
from melete.core.model import ModelRequest
from melete.core.plugin import Lazy
from melete.models.encoder import EMPTY, ORPHAN, UNANSWERED, Encoded, Encoder, arguments_object, valid_name
from melete.models.spec import ModelSpec, Quirks

WIRE = "openai-responses"
LEAST_OUTPUT = 16
"""The API refuses a smaller limit."""
ENCRYPTED = "reasoning.encrypted_content"
Json = dict[str, Any]

_ID = r"[!-~]{1,64}"


class RequestEncoder(Encoder):
    """Turns requests into bodies of this wire."""

    wire = WIRE

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self._own: set[str] = set()

    def adopt(self, quirks: Quirks) -> None:
        """Use another dialect from now on; everything is encoded anew."""
        super().adopt(quirks)
        self._own.clear()

    def body(self, request: ModelRequest) -> bytes:
        """The whole body of a streaming request."""
        rest = self.encode(self._rest(request))
        model = self.encode(request.model)
        return b"".join((b'{"model":', model, b",", *self._pieces(request), b"],", rest[1:]))

    def prefix(self, request: ModelRequest) -> bytes:
        """Tools, instructions and input: the bytes that the next request of the conversation starts with."""
        return b"".join(self._pieces(request))

    def _pieces(self, request: ModelRequest) -> Iterator[bytes | bytearray]:
        """The prefix in pieces: a long conversation is copied once a request, into the body."""
        if request.tools:
            yield b'"tools":'
            yield self.tool_bytes(request.tools)
            yield b","
        if system := "\n\n".join(block for block in (*request.system, request.ephemeral) if block):
            yield b'"instructions":'
            yield self.encode(system)
            yield b","
        yield b'"input":['
        prefill = b",".join(data for data, _ in self.paired([self.encoded(m) for m in request.prefill])[0])
        messages = self.joined(request.messages)
        yield prefill
        yield b"," if prefill and messages.data else b""
        yield messages.data

    def _rest(self, request: ModelRequest) -> Json:
        quirks = self.quirks
        rest: Json = {"stream": True, "store": False}
        if quirks.encrypted:
            rest["include"] = [ENCRYPTED]
        if request.tools and request.tool_choice != "auto" and quirks.tool_choice:
            rest["tool_choice"] = request.tool_choice
        if request.max_output is not None and quirks.max_tokens != "none":
            most = max(request.max_output, LEAST_OUTPUT)
            rest["max_output_tokens"] = min(most, quirks.most_output) if quirks.most_output else most
        if request.temperature is not None and quirks.temperature:
            rest["temperature"] = request.temperature
        if request.effort and quirks.effort != "none":
            rest["reasoning"] = {"effort": request.effort}
            if quirks.summary:
                rest["reasoning"]["summary"] = "auto"
        if request.answer_schema is not None:
            answer = {"type": "json_schema", "name": "answer", "schema": request.answer_schema}
            rest["text"] = {"format": answer}
        if request.cache_key and quirks.cache_key:
            rest["prompt_cache_key"] = request.cache_key
        if self.spec.service_tier:
            rest["service_tier"] = self.spec.service_tier
        return rest | quirks.extra

    def declared(self, tool: ToolSchema) -> Json:
        """A tool as a function; `strict` is said because the API assumes it otherwise, and refuses optional parameters then."""
        function = {"name": tool.name, "description": tool.about, "parameters": tool.parameters}
        return {"type": "function", **function, "strict": False}

    # ---- messages ---------------------------------------------------------------------------------------------------

    def new(self, message: Message) -> Encoded:
        """One message as this wire has it."""
        if message.role == "assistant":
            return Encoded(message=message, body=(self._assistant(message),), calls=message.calls)
        if message.role == "tool":
            return self._tool(message)
        return Encoded(message=message, body=(self._said(self._content(message.parts)),))

    def unanswered(self, call: ToolCall) -> bytes:
        """An output that says that there was no result."""
        return self._output(call.id, UNANSWERED)

    def orphan(self, result: bytes) -> bytes:
        """The result as a user's words."""
        output: Any = msgspec.json.decode(result)["output"]
        content = [_text(output)] if isinstance(output, str) else output
        return self._said([_text(ORPHAN), *content])

    def _said(self, content: Iterable[Json]) -> bytes:
        return self.encode({"type": "message", "role": "user", "content": [*content] or [_text(EMPTY)]})

    def _output(self, call: str, output: str | list[Json]) -> bytes:
        return self.encode({"type": "function_call_output", "call_id": self._id(call), "output": output})

    def _tool(self, message: Message) -> Encoded:
        results: dict[str, bytes] = {}
        after: list[Json] = []
        for part in message.parts:
            if not isinstance(part, ToolResult):
                after += self._content((part,))
                continue
            output: str | list[Json] = part.content or EMPTY
            if part.images and self.quirks.result_images and self.takes_images:
                output = [_text(output), *self._content(part.images)]
            elif part.images:
                after += [
                    _text(f"What {part.name} ({part.call}) returned as images:"),
                    *self._content(part.images),
                ]
            results[part.call] = self._output(part.call, output)
        return Encoded(message=message, results=results, after=(self._said(after),) if after else ())

    def _content(self, parts: Iterable[Any]) -> Iterator[Json]:
        """The content items of parts that people and tools send; what the model cannot take is named in its place."""
        for part in parts:
            match part:
                case Text(text=text) if text:
                    yield _text(text)
                case Image() if not self.takes_images:
                    yield _text("(an image was left out: this model takes none)")
                case Image(data=data, media_type=kind, url=url):
                    source = f"data:{kind};base64,{data}" if data else url
                    yield {"type": "input_image", "image_url": source, "detail": "auto"}
                case File(data=data, media_type=kind, name=name):
                    yield {"type": "input_file", "filename": name, "file_data": f"data:{kind};base64,{data}"}
                case Audio():
                    yield _text("(a sound was left out: this API takes none)")
                case _:
                    pass

    def _assistant(self, message: Message) -> bytes:
        """The model's own items as they came, or as far as the server takes them; else the message's parts as items."""
        body = self.replayable(message)
        if body is None:
            return self._joined(self._rebuilt(message))
        self._own.update(call.id for call in message.calls)
        items = cast("list[Json]", msgspec.json.decode(body))
        kept = [*self._mended(items)]
        same = len(kept) == len(items) and all(one is other for one, other in zip(kept, items, strict=True))
        return bytes(body)[1:-1] if same and not self.quirks.ascii else self._joined(kept)

    def _joined(self, items: Iterable[Json]) -> bytes:
        return self.encode([*items])[1:-1]

    def _rebuilt(self, message: Message) -> Iterator[Json]:
        if message.text or not message.calls:
            yield _assistant_text(message.text or EMPTY)
        for call in message.calls:
            arguments = _arguments(call.arguments)
            yield {
                "type": "function_call",
                "call_id": self._id(call.id),
                "name": valid_name(call.name),
                "arguments": arguments,
            }

    def _mended(self, items: list[Json]) -> Iterator[Json]:
        """The items that a server takes back: each that is sound is the same object as before.

        Reasoning that nothing follows is refused, so is a call whose arguments are no JSON object.
        """
        if not any(map(_speaks, items)):
            yield _assistant_text(EMPTY)
            return
        last = max((n for n, item in enumerate(items) if item.get("type") != "reasoning"), default=-1)
        for item in items[: last + 1]:
            if self.quirks.item_ids:
                yield _sound(item)
            elif item.get("type") != "reasoning" or item.get("encrypted_content"):
                yield {name: value for name, value in _sound(item).items() if name != "id"}

    def _id(self, call: str) -> str:
        """The call's id where the server gave it or takes it; any other is mapped, always to the same."""
        if call in self._own or re.fullmatch(_ID, call):
            return call
        digest = Lazy[Callable[[bytes], Any]]("hashlib:sha256").load()(call.encode("utf-8", "replace"))
        return f"call_{digest.hexdigest()[:32]}"


def _text(text: str) -> Json:
    return {"type": "input_text", "text": text}


def _assistant_text(text: str) -> Json:
    return {"type": "message", "role": "assistant", "content": text}


def _speaks(item: Json) -> bool:
    """Whether an item is what an answer may consist of: words, a call, or something else that is no reasoning."""
    if item.get("type") != "message":
        return item.get("type") != "reasoning"
    content: Any = item.get("content")
    if not isinstance(content, list):
        return bool(content)
    parts = [cast(Json, part) for part in cast("list[Any]", content) if isinstance(part, dict)]
    return any(part.get("text") or part.get("refusal") for part in parts)


def _sound(item: Json) -> Json:
    """The item itself; a call that a server would refuse comes mended."""
    if item.get("type") != "function_call":
        return item
    mended = {"arguments": _arguments(item["arguments"]), "name": valid_name(item["name"])}
    return item if mended.items() <= item.items() else {**item, **mended}


def _arguments(text: str) -> str:
    return "{}" if arguments_object(text) is None else text
