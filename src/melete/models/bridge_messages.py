"""Requests and answers in pydantic-ai's words, and back. Part: models, the extra `bridge`.

What a model said is kept as pydantic-ai's own serialised response, so that signatures and a vendor's own fields go back as they
came; an answer of any other wire is rebuilt from its parts.
"""

from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import msgspec
from pydantic_ai import messages as theirs
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings, ThinkingLevel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from melete.core.event import CallDelta, Delta, TextDelta, ThinkingDelta
from melete.core.message import Audio, File, Image, Message, Part, Text, Thinking, ToolCall, ToolResult, Usage, Wire
from melete.core.model import ModelRequest
from melete.models.encoder import EMPTY, ORPHAN, UNANSWERED, arguments_object, sound_text
from melete.models.spec import ModelSpec

WIRE = "bridge"
EFFORTS: dict[str, ThinkingLevel] = {
    "none": False,
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
TIERS: dict[str, Literal["auto", "default", "flex", "priority"]] = {
    "auto": "auto",
    "default": "default",
    "flex": "flex",
    "priority": "priority",
}


def settings(spec: ModelSpec, request: ModelRequest, model: Model) -> ModelSettings:
    """How the request is to be made; the vendor's library neither retries nor waits longer than we do."""
    times = spec.timeouts
    found: ModelSettings = {"timeout": max(times.first_token, times.between_tokens), "max_retries": 0}
    found["cache"] = spec.cache_ttl
    if request.max_output is not None:
        found["max_tokens"] = request.max_output
    if request.temperature is not None:
        found["temperature"] = request.temperature
    if request.tools and request.tool_choice != "auto":
        found["tool_choice"] = request.tool_choice
    if request.effort in EFFORTS:
        found["thinking"] = EFFORTS[request.effort]
    if spec.service_tier in TIERS:
        found["service_tier"] = TIERS[spec.service_tier]
    if spec.headers:
        found["extra_headers"] = dict(spec.headers)
    if spec.quirks.extra:
        found["extra_body"] = spec.quirks.extra
    for name in model.unsupported_settings & found.keys():
        del found[name]
    return found


def parameters(request: ModelRequest, model: Model) -> ModelRequestParameters:
    """Instructions, tools and the form of the answer."""
    instructions = [theirs.InstructionPart(content=_sound(block)) for block in request.system if block]
    if request.ephemeral:
        instructions.append(theirs.InstructionPart(content=_sound(request.ephemeral), dynamic=True))
    tools = [
        ToolDefinition(
            name=tool.name,
            description=tool.about,
            parameters_json_schema=msgspec.json.decode(tool.parameters),
            strict=False,  # the schema stays as it is
        )
        for tool in request.tools
    ]
    found = ModelRequestParameters(function_tools=tools, instruction_parts=instructions)
    if request.answer_schema is None:
        return found
    answer = OutputObjectDefinition(json_schema=msgspec.json.decode(request.answer_schema), name="answer")
    if model.profile.get("supports_json_schema_output"):
        return replace(found, output_mode="native", output_object=answer)
    return replace(found, output_mode="prompted", output_object=answer)


class History:
    """Turns conversations into pydantic-ai's messages; what it has turned once is kept for as long as it is used."""

    def __init__(self, spec: ModelSpec, system: str) -> None:
        self._spec = spec
        self._system = system
        self._kept: dict[int, tuple[Message, theirs.ModelResponse]] = {}

    def of(self, request: ModelRequest) -> list[theirs.ModelMessage]:
        """The prefilled messages and the conversation, each call followed by its result."""
        messages = (*request.prefill, *request.messages)
        kept, self._kept = self._kept, {}
        for message in messages:
            if message.role == "assistant":
                self._kept[id(message)] = kept.get(id(message)) or (message, self._said(message))
        return list(self._paired(messages))

    def _paired(self, messages: tuple[Message, ...]) -> Iterator[theirs.ModelMessage]:
        used: set[tuple[int, str]] = set()
        for place, message in enumerate(messages):
            if message.role == "assistant":
                yield self._kept[id(message)][1]
                if message.calls:
                    yield theirs.ModelRequest(
                        parts=[_result(messages, place, call, used=used) for call in message.calls]
                    )
                continue
            content = list(self._content(message, place, used)) or ([EMPTY] if message.role == "user" else [])
            words = [item for item in content if isinstance(item, str)]
            if content:
                said = "\n\n".join(words) if len(words) == len(content) else content
                yield theirs.ModelRequest(parts=[theirs.UserPromptPart(content=said)])

    def _content(self, message: Message, place: int, used: set[tuple[int, str]]) -> Iterator[theirs.UserContent]:
        """What a message says besides results: those that a call took are told there, others as a user's words."""
        for part in message.parts:
            if not isinstance(part, ToolResult):
                yield from self._item(part)
                continue
            if (place, part.call) not in used:
                yield _sound(f"{ORPHAN}\n\n{part.content}")
            if part.images:
                yield f"What {part.name} ({part.call}) returned as images:"
                for image in part.images:
                    yield from self._item(image)

    def _item(self, part: Part) -> Iterator[theirs.UserContent]:
        match part:
            case Text(text=text) if text:
                yield _sound(text)
            case Image() if not self._spec.can.images:
                yield "(an image was left out: this model takes none)"
            case Image(data="", url=url):
                yield theirs.ImageUrl(url=url)
            case Image(data=data, media_type=kind) | Audio(data=data, media_type=kind):
                yield theirs.BinaryContent(data=b64decode(data), media_type=kind)
            case File(data=data, media_type=kind, name=name):
                yield theirs.BinaryContent(data=b64decode(data), media_type=kind, identifier=name)
            case _:
                pass

    def _said(self, message: Message) -> theirs.ModelResponse:
        wire = message.wire
        if wire is not None and wire.name == WIRE and wire.provider in ("", self._system) and self._spec.quirks.replay:
            found = theirs.ModelMessagesTypeAdapter.validate_json(bytes(wire.body))[0]
            if isinstance(found, theirs.ModelResponse):
                return replace(found, parts=[_mended(part) for part in found.parts] or [theirs.TextPart(EMPTY)])
        parts: list[theirs.ModelResponsePart] = []
        for part in message.parts:
            if isinstance(part, Text) and part.text:
                parts.append(theirs.TextPart(_sound(part.text)))
            elif isinstance(part, ToolCall):
                parts.append(_mended(theirs.ToolCallPart(part.name, part.arguments, tool_call_id=part.id)))
        return theirs.ModelResponse(parts=parts or [theirs.TextPart(EMPTY)])


class Deltas:
    """Turns the events of one answer into deltas, and numbers its calls."""

    def __init__(self) -> None:
        self._calls: dict[int, int] = {}

    def of(self, event: object) -> Delta | None:
        """What is new in an event; None when it brings nothing to show."""
        if isinstance(event, theirs.PartStartEvent):
            part = event.part
            if isinstance(part, theirs.ToolCallPart):
                return self._call(event.index, part.tool_call_id, part.tool_name, arguments=part.args)
            return _words(part.content, part) if isinstance(part, theirs.TextPart | theirs.ThinkingPart) else None
        if not isinstance(event, theirs.PartDeltaEvent):
            return None
        delta = event.delta
        if isinstance(delta, theirs.ToolCallPartDelta):
            return self._call(event.index, "", delta.tool_name_delta or "", arguments=delta.args_delta)
        if isinstance(delta, theirs.TextPartDelta | theirs.ThinkingPartDelta):
            return _words(delta.content_delta or "", delta)
        return None

    def _call(self, index: int, call_id: str, name: str, *, arguments: object) -> CallDelta:
        number = self._calls.setdefault(index, len(self._calls))
        return CallDelta(index=number, id=call_id, name=name, arguments=_text(arguments))


def message(response: theirs.ModelResponse, *, system: str, taken: set[str]) -> Message:
    """The message that a response is, its calls under ids that are unique; pydantic-ai's own form inside."""
    parts: list[Part] = []
    own: list[theirs.ModelResponsePart] = []
    for part in response.parts:
        if isinstance(part, theirs.ThinkingPart) and part.content:
            parts.append(Thinking(text=part.content))
        elif isinstance(part, theirs.TextPart) and part.content:
            parts.append(Text(text=part.content))
        elif isinstance(part, theirs.ToolCallPart):
            call = ToolCall(id=_unique(part.tool_call_id, taken), name=part.tool_name, arguments=_text(part.args))
            taken.add(call.id)
            parts.append(call)
            part = replace(part, tool_call_id=call.id)
        own.append(part)
    body = theirs.ModelMessagesTypeAdapter.dump_json([replace(response, parts=own)])
    return Message(role="assistant", parts=tuple(parts), wire=Wire(name=WIRE, body=msgspec.Raw(body), provider=system))


def counted(usage: RequestUsage) -> Usage:
    """The five classes; pydantic-ai counts what the cache did into the input."""
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    details = usage.details
    return Usage(
        input=max(0, usage.input_tokens - cached),
        output=usage.output_tokens,
        cache_read=usage.cache_read_tokens,
        cache_write=usage.cache_write_tokens,
        reasoning=usage.output_reasoning_tokens or details.get("reasoning_tokens", 0),
    )


def call_ids(request: ModelRequest) -> set[str]:
    """The ids of all calls in the conversation."""
    return {call.id for one in request.messages for call in one.calls}


def _result(
    messages: tuple[Message, ...], place: int, call: ToolCall, *, used: set[tuple[int, str]]
) -> theirs.ToolReturnPart:
    """The result of a call, wherever it stands before the next calls; one that says that there is none otherwise."""
    for later in range(place + 1, len(messages)):
        for part in messages[later].parts:
            if isinstance(part, ToolResult) and part.call == call.id and (later, call.id) not in used:
                used.add((later, call.id))
                return theirs.ToolReturnPart(call.name, _sound(part.content or EMPTY), tool_call_id=call.id)
        if messages[later].calls:
            break
    return theirs.ToolReturnPart(call.name, UNANSWERED, tool_call_id=call.id)


def _mended(part: theirs.ModelResponsePart) -> theirs.ModelResponsePart:
    """A call with arguments that servers take back: an object, without lone surrogates."""
    if not isinstance(part, theirs.ToolCallPart):
        return part
    text = _text(part.args)
    return replace(part, args="{}" if arguments_object(text) is None else _sound(text))


def _words(text: str, kind: object) -> Delta | None:
    if not text:
        return None
    thought = isinstance(kind, theirs.ThinkingPart | theirs.ThinkingPartDelta)
    return ThinkingDelta(text=text) if thought else TextDelta(text=text)


def _sound(text: str) -> str:
    return text if text.isascii() else sound_text(text)


def _text(arguments: object) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return msgspec.json.encode(arguments).decode()


def _unique(call_id: str, taken: set[str]) -> str:
    number, found = 1, call_id
    while not found or found in taken:
        number += 1
        found = f"{call_id or 'call'}_{number}"
    return found
