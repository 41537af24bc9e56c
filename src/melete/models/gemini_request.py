"""Requests of the `gemini` wire: `{"tools", "systemInstruction", "contents", …the rest}`. Part: models."""

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from melete.core.event import ToolSchema
from melete.core.message import Audio, File, Image, Message, Text, ToolCall, ToolResult
from melete.core.model import ModelRequest
from melete.core.plugin import Lazy
from melete.models.encoder import EMPTY, OPENING, ORPHAN, UNANSWERED, Encoded, Encoder, arguments_object, valid_name

Json = dict[str, Any]
WIRE = "gemini"
UNNAMED = "unnamed_call_"
"""How ids begin that are ours: the API gave the call none, and is sent none."""
UNSIGNED = "skip_thought_signature_validator"
"""What the API takes in the place of the signature of a call that another model made."""
LONGEST_NAME = 128
MODES = {"none": "NONE", "required": "ANY"}
LEVELS = {"none": "minimal"}
BUDGETS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24_576, "xhigh": 24_576}
OWN_CHOICE = -1
BUDGET_MODELS = "gemini-2.5"
ANSWER = "When you are done, answer with nothing but JSON that fits this JSON Schema: "

reduced = Lazy[Any]("melete.models.gemini_schema:reduced")


class RequestEncoder(Encoder):
    """Turns requests into bodies of this wire."""

    wire = WIRE

    def body(self, request: ModelRequest) -> bytes:
        """The whole body of a request; that it is streamed is said in the URL."""
        rest = self.encode(self._rest(request))
        return b"".join((b"{", *self._pieces(request), b"]", b"," if len(rest) > len(b"{}") else b"", rest[1:]))

    def prefix(self, request: ModelRequest) -> bytes:
        """Tools, system and messages: the bytes that the next request of the conversation starts with."""
        return b"".join(self._pieces(request))

    def _pieces(self, request: ModelRequest) -> Iterator[bytes | bytearray]:
        """The prefix in pieces: a long conversation is copied once a request, into the body."""
        if request.tools:
            yield b'"tools":[{"functionDeclarations":'
            yield self.tool_bytes(request.tools)
            yield b"}],"
        if system := list(self._system(request)):
            yield b'"systemInstruction":'
            yield self.encode({"parts": system})
            yield b","
        messages = self.joined(request.messages).data
        head = self._head(request)
        yield b'"contents":['
        yield head
        yield b"," if head and messages else b""
        yield messages

    def _head(self, request: ModelRequest) -> bytes:
        """The prefilled messages. A conversation begins with a user's words, whatever is left of it."""
        first = next(iter((*request.prefill, *request.messages)), None)
        parts = [self._user([{"text": OPENING}])] if first is not None and first.role == "assistant" else []
        parts += [data for data, _ in self.paired([self.encoded(message) for message in request.prefill])[0]]
        return b",".join(parts)

    def _system(self, request: ModelRequest) -> Iterator[Json]:
        """The system text, block by block; what this request alone says comes last."""
        for block in request.system:
            if block:
                yield {"text": block}
        if request.answer_schema is not None and not self._schema_apart(request):
            yield {"text": ANSWER + bytes(request.answer_schema).decode("utf-8", "replace")}
        if request.ephemeral:
            yield {"text": request.ephemeral}

    def _schema_apart(self, request: ModelRequest) -> bool:
        """Whether a schema for the answer has its own field: some models take it only where there are no tools."""
        return not request.tools or self.quirks.schema_beside_tools

    def _rest(self, request: ModelRequest) -> Json:
        rest: Json = {}
        if request.tools and request.tool_choice != "auto" and self.quirks.tool_choice:
            rest["toolConfig"] = {"functionCallingConfig": {"mode": MODES[request.tool_choice]}}
        if generation := self._generation(request):
            rest["generationConfig"] = generation
        if self.spec.service_tier:
            rest["serviceTier"] = self.spec.service_tier
        for name, value in self.quirks.extra.items():
            known: Any = rest.get(name)
            rest[name] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
        return rest

    def _generation(self, request: ModelRequest) -> Json:
        quirks, made = self.quirks, Json()
        if request.max_output is not None:
            # the API names the first number that is too many
            most = quirks.most_output - 1 if quirks.most_output else request.max_output
            made["maxOutputTokens"] = min(request.max_output, most)
        if request.temperature is not None and quirks.temperature:
            made["temperature"] = request.temperature
        if thinking := self._thinking(request.effort):
            made["thinkingConfig"] = thinking
        if request.answer_schema is not None and self._schema_apart(request):
            made["responseMimeType"] = "application/json"
            if quirks.schemas == "openapi":
                made["responseSchema"] = reduced.load()(request.answer_schema)
            else:
                made["responseJsonSchema"] = request.answer_schema
        return made

    def _thinking(self, effort: str) -> Json:
        """How hard to think, in the words of the model's generation, and that the thoughts shall be shown."""
        way = self.quirks.effort
        if way == "none":
            return {}
        if not effort:
            return {"includeThoughts": True}
        if way == "thinking_budget" or (way != "thinking_level" and BUDGET_MODELS in self.spec.model):
            budget = BUDGETS.get(effort, OWN_CHOICE)
            shown = {"includeThoughts": True} if budget else {}  # refused where nothing is thought
            return {**shown, "thinkingBudget": budget}
        return {"includeThoughts": True, "thinkingLevel": LEVELS.get(effort, effort)}

    def declared(self, tool: ToolSchema) -> Json:
        """A function with its schema, in the form that the API takes."""
        declared: Json = {"name": tool.name, "description": tool.about}
        if self.quirks.schemas != "openapi":
            return {**declared, "parametersJsonSchema": tool.parameters}
        parameters: Json = reduced.load()(tool.parameters)
        return {**declared, "parameters": parameters} if parameters.get("properties") else declared

    # ---- messages -------------------------------------------------------------------------------------------------

    def new(self, message: Message) -> Encoded:
        """One message as this wire has it."""
        if message.role == "assistant":
            return Encoded(message=message, body=(self._model(message),), calls=message.calls)
        if message.role == "tool":
            return self._tool(message)
        return Encoded(message=message, body=(self._user(list(self._content(message.parts))),))

    def _user(self, parts: list[Json]) -> bytes:
        return self.encode({"role": "user", "parts": parts or [{"text": EMPTY}]})

    def _tool(self, message: Message) -> Encoded:
        results: dict[str, bytes] = {}
        others: list[Json] = []
        for part in message.parts:
            if not isinstance(part, ToolResult):
                others += self._content((part,))
                continue
            shown = arguments_object(part.content)
            told = {"error" if part.error else "result": part.content or EMPTY} if shown is None else shown
            images = map(self.encode, self._content(part.images))
            results[part.call] = b",".join((self._result(part.call, part.name, told), *images))
        return Encoded(message=message, results=results, after=(self._user(others),) if others else ())

    def _result(self, call: str, name: str, response: Json) -> bytes:
        return self.encode({"functionResponse": {**self._id(call), "name": _name(name), "response": response}})

    def _id(self, call: str) -> Json:
        """The field that names a call; a dialect that takes no message back as it came knows calls by their order."""
        return {"id": call} if self.quirks.replay and not call.startswith(UNNAMED) else {}

    def grouped(self, results: list[bytes]) -> list[bytes]:
        """All results of one message, with the images that belong to them, as one content."""
        return [b'{"role":"user","parts":[' + b",".join(results) + b"]}"]

    def unanswered(self, call: ToolCall) -> bytes:
        """A function response that says that there was no result."""
        return self._result(call.id, call.name, msgspec.json.decode(UNANSWERED))

    def orphan(self, result: bytes) -> bytes:
        """The result as a user's words."""
        answer, *images = msgspec.json.decode(b"[" + result + b"]", type=list[Json])
        told = msgspec.json.encode(answer["functionResponse"]["response"]).decode()
        return self._user([{"text": f"{ORPHAN}\n\n{told}"}, *images])

    def _content(self, parts: tuple[Any, ...]) -> Iterator[Json]:
        """The parts that people and tools send; what the model cannot take is named in its place."""
        for part in parts:
            match part:
                case Text(text=text) if text:
                    yield {"text": text}
                case Image() if not self.takes_images:
                    yield {"text": "(an image was left out: this model takes none)"}
                case Image(data="", media_type=kind, url=url):
                    yield {"fileData": {"mimeType": kind, "fileUri": url}}
                case File(data=data, media_type=kind, name=name):
                    yield {"text": f"The file {name}:"}
                    yield {"inlineData": {"mimeType": kind, "data": data}}
                case Image(data=data, media_type=kind) | Audio(data=data, media_type=kind):
                    yield {"inlineData": {"mimeType": kind, "data": data}}
                case _:
                    pass

    def _model(self, message: Message) -> bytes:
        """A model's message: its own bytes where they may go back as they are."""
        body, quirks = self.replayable(message), self.quirks
        if body is None:
            content: Json = {"role": "model", "parts": list(self._rebuilt(message))}
        elif (
            not (quirks.ascii or quirks.dummy_signatures)
            and (message.calls or message.text)
            and all(arguments_object(c.arguments) is not None and c.name == _name(c.name) for c in message.calls)
        ):
            return bytes(body)
        else:
            content = msgspec.json.decode(body)
        return self.encode(_mended(content, sign=quirks.dummy_signatures))

    def _rebuilt(self, message: Message) -> Iterator[Json]:
        for part in message.parts:
            if isinstance(part, ToolCall):
                args = arguments_object(part.arguments) or {}
                yield {"functionCall": {**self._id(part.id), "name": _name(part.name), "args": args}}
            else:
                yield from self._content((part,))


def _mended(content: Json, *, sign: bool) -> Json:
    """A model's content as the API takes it back.

    It is never empty, names are in its alphabet, arguments objects, and the first call is signed if need be.
    """
    parts = cast(list[Json], content["parts"])
    for part in parts:
        if not isinstance(call := part.get("functionCall"), dict):
            continue
        call = cast(Json, call)
        call["name"] = _name(str(call.get("name") or ""))
        if not isinstance(call.get("args", {}), dict):
            call["args"] = {}
        if sign:
            part.setdefault("thoughtSignature", UNSIGNED)
        sign = False
    if not any(map(_says, parts)):
        parts.append({"text": EMPTY})
    return content


def _name(name: str) -> str:
    return valid_name(name, most=LONGEST_NAME, also=".:")


def _says(part: Json) -> bool:
    """Whether a part is more than a thought or a signature."""
    return not part.get("thought") and bool(part.get("text") or part.keys() - {"text", "thought", "thoughtSignature"})
