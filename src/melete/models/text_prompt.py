"""Tools for models that know none: described in words, their calls and results told as text. Part: models; pure.

The same request always gives the same words, and a longer conversation begins with those of the shorter one, so that what a
server has read already stays read.
"""

from typing import Any, cast

import msgspec
from msgspec import structs

from melete.core.event import ToolSchema
from melete.core.message import Message, Part, Text, ToolCall, ToolResult
from melete.core.model import ModelRequest
from melete.models.encoder import arguments_object

SPARE = 2000
HOW = """You act by calling tools. A call is written as text, on a line of its own:
<tool_call>{"name": "NAME", "arguments": {"PARAMETER": VALUE}}</tool_call>
Strings are JSON strings: a line break inside one is \\n. Stop after your calls: the results come in the next message, as \
<tool_result>. Never write a result yourself. A reply without a call is your final answer.

The tools, with their parameters (? may be left out):"""


class Described:
    """Rewrites the requests of one model; keeps what it made, for as long as the conversation goes on."""

    def __init__(self) -> None:
        self._tools: tuple[tuple[ToolSchema, ...], str] = ((), "")
        self._messages: dict[int, tuple[Message, Message]] = {}
        self._last: tuple[tuple[Message, ...], tuple[Message, ...]] = ((), ())

    def rewritten(self, request: ModelRequest) -> ModelRequest:
        """The request without tools: they stand in the last system block, calls and results in the messages' texts."""
        if self._tools[0] is not request.tools:
            self._tools = (request.tools, described(request.tools))
        return structs.replace(
            request,
            system=(*request.system, self._tools[1]),
            tools=(),
            tool_choice="auto",
            messages=self._told(request.messages),
            prefill=tuple(map(told, request.prefill)),
        )

    def _told(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages as text; what the last request held is not walked through again."""
        known, made = self._last
        if messages[: len(known)] != known:
            known, made = (), ()
        self._last = (messages, made + tuple(map(self._one, messages[len(known) :])))
        if len(self._messages) > 2 * len(messages) + SPARE:
            kept = {id(message) for message in messages}
            self._messages = {key: pair for key, pair in self._messages.items() if key in kept}
        return self._last[1]

    def _one(self, message: Message) -> Message:
        """The message as text, the same object for the same message: encoders keep bytes by it."""
        found = self._messages.get(id(message))
        if found is None:
            found = self._messages[id(message)] = (message, told(message))
        return found[1]


def described(tools: tuple[ToolSchema, ...]) -> str:
    """How to call, and every tool with its parameters."""
    return "\n".join((HOW, *map(_tool, tools)))


def told(message: Message) -> Message:
    """The message with its calls or results as text; a message without any stays as it is."""
    if message.role == "tool":
        return _results(message)
    if not message.calls:
        return message
    text = "\n".join((*([message.text] if message.text else ()), *map(_call, message.calls)))
    return Message(role="assistant", parts=(Text(text=text),), by=message.by)


def _results(message: Message) -> Message:
    """A user's message, because a model that knows no tools knows no results either."""
    parts: list[Part] = []
    for part in message.parts:
        if not isinstance(part, ToolResult):
            parts.append(part)
            continue
        content = part.content.replace("</", "<\\/")  # the same JSON, and nothing in it ends the result
        text = f'<tool_result name="{part.name}" call="{part.call}">\n{content}\n</tool_result>'
        parts += (Text(text=text, taint=part.taint), *part.images)
    return Message(role="user", parts=tuple(parts), by=message.by)


def _call(call: ToolCall) -> str:
    name = msgspec.json.encode(call.name).decode()
    arguments = call.arguments if arguments_object(call.arguments) is not None else "{}"
    return f'<tool_call>{{"name": {name}, "arguments": {arguments}}}</tool_call>'


def _tool(tool: ToolSchema) -> str:
    schema: Any = msgspec.json.decode(tool.parameters)
    lines = (f"- {tool.name}({_fields(schema)}): {tool.about}", *_hints(schema))
    return "\n  ".join("\n".join(lines).split("\n"))


def _fields(schema: dict[str, Any]) -> str:
    """The properties of an object: `name: type`, with a question mark where they may be left out."""
    required = schema.get("required", ())
    properties = cast("dict[str, Any]", schema.get("properties") or {})
    return ", ".join(
        f"{name}{'' if name in required else '?'}: {_type(field)}{_default(field)}"
        for name, field in properties.items()
    )


def _type(field: Any) -> str:
    """A type in a few characters: `string`, `"a"|"b"`, `string[]`, `{id: string}`."""
    if not isinstance(field, dict):
        return "any"
    schema = cast("dict[str, Any]", field)
    if "enum" in schema:
        return "|".join(msgspec.json.encode(value).decode() for value in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return "|".join(map(_type, schema[key]))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"{_type(schema.get('items'))}[]"
    if kind == "object" and schema.get("properties"):
        return f"{{{_fields(schema)}}}"
    return "|".join(map(str, cast("list[Any]", kind))) if isinstance(kind, list) else str(kind)


def _default(field: Any) -> str:
    value: Any = cast("dict[str, Any]", field).get("default") if isinstance(field, dict) else None
    return "" if value is None else f" = {msgspec.json.encode(value).decode()}"


def _hints(schema: dict[str, Any]) -> list[str]:
    properties = cast("dict[str, Any]", schema.get("properties") or {})
    return [
        f"{name}: {field['description']}"
        for name, field in properties.items()
        if isinstance(field, dict) and "description" in field
    ]
