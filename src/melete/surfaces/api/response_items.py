"""The items of a response's input: read into a prompt and what stands before it, and listed again from the log.

They are turned into the messages of a chat completion, whose reader (`chat_history.py`) does the rest.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct

from melete.core.event import Fact, Reply, RunStarted, Said, ToolEnded
from melete.core.message import File, Image, Message, Part, Text
from melete.surfaces.api.chat_history import PERSON, facts_of, part
from melete.surfaces.api.chat_types import (
    AssistantMessage,
    CallMade,
    ChatMessage,
    DeveloperMessage,
    Document,
    FilePart,
    FunctionCall,
    InputImage,
    InputText,
    OutputText,
    Refusal,
    TextPart,
    ToolMessage,
    UserMessage,
    UserPart,
)
from melete.surfaces.api.errors import ApiError
from melete.surfaces.api.response_types import (
    AskedFile,
    AskedImage,
    AskedPart,
    AskedText,
    EarlierCall,
    EarlierOutput,
    InputItem,
    InputMessage,
    ItemList,
    ItemPage,
    OutputTextPart,
)

T = TypeVar("T")
WHERE = re.compile(r"messages\[(\d+)\]")
SILENT = ("reasoning", "mcp_list_tools", "compaction")
"""Items that say nothing to another model: thoughts belong to the one that had them."""

# ---- as they come ----------------------------------------------------------------------------------------------------


class _FileItem(Struct, frozen=True, tag="input_file"):
    file_data: str = ""
    filename: str = "document.pdf"
    file_url: str | None = None
    file_id: str | None = None


class _ImageItem(Struct, frozen=True, tag="input_image"):
    image_url: str | None = None
    file_id: str | None = None


_Words = InputText | OutputText | TextPart | Refusal


class _Spoken(Struct, frozen=True):
    content: str | list[_Words]


class _Asked(Struct, frozen=True):
    content: str | list[InputText | TextPart | OutputText | _ImageItem | _FileItem]


class _Call(Struct, frozen=True):
    name: str
    call_id: str = ""
    id: str | None = None
    arguments: str = ""
    input: str = ""
    output: str | None = None
    error: Any = None


class _Output(Struct, frozen=True):
    output: str | list[Any]
    call_id: str | None = None
    name: str | None = None


class Input(Struct, frozen=True, kw_only=True):
    """An input that was read: its instructions, the facts that stand before the prompt in a new session, and the prompt.

    `folded` is all of it as one message, for a session that has messages already; `prompt` is None where a new session ends with
    what a call returned.
    """

    instructions: str
    history: tuple[Fact, ...]
    prompt: Message | None
    folded: Message


def read_input(given: Any, *, most: int) -> Input:
    """Read an input of at most `most` parts; raises ApiError that names the item which cannot be taken."""
    if isinstance(given, str):
        messages, places = [UserMessage(content=given)], [-1]
    elif isinstance(given, list):
        messages, places = _messages(cast("list[Any]", given), most=most)
    else:
        raise ApiError(400, "invalid_request", "Expected `str | array`", param="input")
    try:
        parted = part(messages, most=most)
        history = tuple(facts_of(parted.earlier))
        folded = _folded(messages, most=most) if parted.earlier else parted.prompt
    except ApiError as error:
        raise _elsewhere(error, places) from error
    empty = Message(role="user", parts=(), by=PERSON)
    return Input(instructions=parted.instructions, history=history, prompt=parted.prompt, folded=folded or empty)


def _elsewhere(error: ApiError, places: Sequence[int]) -> ApiError:
    """The error with the place of the item in the input instead of that of the message."""
    found = WHERE.match(error.param)
    where = "input"
    if found is not None and (place := places[int(found[1])]) >= 0:
        where = f"input[{place}]{error.param[found.end() :]}"
    return ApiError(error.status, error.code, error.what, param=where, next=error.next)


def _folded(messages: Sequence[ChatMessage], *, most: int) -> Message | None:
    """Everything but instructions as one message of the user; what others said is marked as theirs."""
    told = [one for message in messages if (one := _as_user(message)) is not None]
    parts: list[UserPart] = []
    for one in told:
        parts += [TextPart(text=one.content)] if isinstance(one.content, str) else one.content
    return part([UserMessage(content=tuple(parts))], most=most + len(told)).prompt


def _as_user(message: ChatMessage) -> UserMessage | None:
    match message:
        case UserMessage():
            return message
        case AssistantMessage(content=content, tool_calls=calls):
            texts = [content] if isinstance(content, str) else []
            texts += [f"{call.function.name}({call.function.arguments})" for call in calls or ()]
            return UserMessage(content="\n".join(("[assistant]", *texts)))
        case ToolMessage(content=str(text)):
            return UserMessage(content=f"[tool]\n{text}")
        case _:
            return None


# ---- items as messages -----------------------------------------------------------------------------------------------


def _messages(items: Sequence[Any], *, most: int) -> tuple[list[ChatMessage], list[int]]:
    """The messages that the items are, and for each the place of its item."""
    if len(items) > most:
        what = f"the input has {len(items)} items, and {most} are allowed"
        raise ApiError(400, "too_many_parts", what, param="input", next="send fewer (server.max_parts)")
    reader = _Items()
    for place, item in enumerate(items):
        reader.take(item, place)
    if not reader.messages:
        raise ApiError(400, "empty_input", "the input says nothing", param="input", next="say something as the user")
    return reader.messages, reader.places


class _Items:
    """Reads items one by one; calls that follow one another belong to one message of the model."""

    def __init__(self) -> None:
        self.messages: list[ChatMessage] = []
        self.places: list[int] = []
        self._open: set[str] = set()

    def take(self, item: Any, place: int) -> None:
        where = f"input[{place}]"
        if not isinstance(item, dict):
            raise ApiError(400, "invalid_request", "Expected `object`", param=where)
        fields = cast("dict[str, Any]", item)
        match fields.get("type", "message"):
            case "message" | None:
                self._add(_message(fields, where), place)
            case "function_call" | "custom_tool_call" | "mcp_call":
                self._call(_as(_Call, fields, where), place)
            case "function_call_output" | "custom_tool_call_output":
                self._output(_as(_Output, fields, where), place)
            case "item_reference":
                what = "items cannot be referred to by their id"
                raise ApiError(400, "unsupported_item", what, param=where, next="use previous_response_id")
            case kind if kind in SILENT:
                pass
            case str(kind) if kind:
                text = msgspec.json.encode(fields).decode()
                self._add(AssistantMessage(content=f"[{kind}]\n{text}"), place)
            case _:
                raise ApiError(400, "invalid_request", "Expected `str`", param=f"{where}.type")

    def _add(self, message: ChatMessage, place: int) -> None:
        self.messages.append(message)
        self.places.append(place)

    def _call(self, call: _Call, place: int) -> None:
        id_ = call.call_id or call.id or f"call_{place}"
        made = CallMade(id=id_, function=FunctionCall(name=call.name, arguments=call.arguments or call.input))
        last = self.messages[-1] if self.messages else None
        if isinstance(last, AssistantMessage) and not any(made.id == one.id for one in last.tool_calls or ()):
            self.messages[-1] = msgspec.structs.replace(last, tool_calls=(*(last.tool_calls or ()), made))
        else:
            self._add(AssistantMessage(tool_calls=(made,)), place)
        self._open.add(made.id)
        if call.output is not None or call.error is not None:
            output = call.output if call.output is not None else msgspec.json.encode(call.error).decode()
            self._output(_Output(call_id=made.id, output=output), place)

    def _output(self, output: _Output, place: int) -> None:
        text = output.output if isinstance(output.output, str) else msgspec.json.encode(output.output).decode()
        id_ = output.call_id or ""
        if id_ in self._open:
            self._open.discard(id_)
            self._add(ToolMessage(tool_call_id=id_, content=text), place)
        else:  # of a call that is not here: the client tells what it found out
            self._add(UserMessage(content=f"[output of {output.name or id_ or 'a call'}]\n{text}"), place)


def _message(fields: Mapping[str, Any], where: str) -> ChatMessage:
    match fields.get("role"):
        case "user":
            return UserMessage(content=_asked(_as(_Asked, fields, where), where))
        case "assistant":
            return AssistantMessage(content=_spoken(_as(_Spoken, fields, where)))
        case "system" | "developer":
            return DeveloperMessage(content=_spoken(_as(_Spoken, fields, where)))
        case _:
            what = "a message has one of the roles user, assistant, system and developer"
            raise ApiError(400, "invalid_request", what, param=f"{where}.role")


def _spoken(message: _Spoken) -> str:
    if isinstance(message.content, str):
        return message.content
    return "\n\n".join(one.refusal if isinstance(one, Refusal) else one.text for one in message.content)


def _asked(message: _Asked, where: str) -> str | tuple[UserPart, ...]:
    if isinstance(message.content, str):
        return message.content
    return tuple(_asked_part(one, f"{where}.content[{n}]") for n, one in enumerate(message.content))


def _asked_part(one: InputText | TextPart | OutputText | _ImageItem | _FileItem, where: str) -> UserPart:
    match one:
        case _ImageItem(image_url=str(url)):
            return InputImage(image_url=url)
        case _FileItem(file_data=data, filename=name) if data:
            return FilePart(file=Document(file_data=data, filename=name))
        case _ImageItem() | _FileItem():
            what = "files are neither stored here nor fetched from elsewhere"
            raise ApiError(400, "unsupported_file", what, param=where, next="send it as a data URL")
        case _:
            return InputText(text=one.text)


def _as(kind: type[T], fields: Mapping[str, Any], where: str) -> T:
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        raise ApiError(400, "invalid_request", what, param=where + path.rstrip("`")) from error


# ---- listed again ----------------------------------------------------------------------------------------------------


def input_items(facts: Sequence[Fact], run: str, *, said: str) -> Sequence[InputItem]:
    """What a run was asked with: `said` as instructions, what came with it into a new session, its prompt."""
    made: list[InputItem] = []

    def name(kind: str) -> str:
        return f"{kind}_{run}_in{len(made)}"

    if said:
        made.append(InputMessage(id=name("msg"), role="developer", content=(AskedText(text=said),)))
    for fact in _asked_facts(facts, run):
        match fact:
            case Said(message=message):
                made.append(InputMessage(id=name("msg"), role="user", content=tuple(_parts(message.parts))))
            case Reply(message=message):
                if message.text:
                    words = OutputTextPart(text=message.text)
                    made.append(InputMessage(id=name("msg"), role="assistant", content=(words,)))
                for call in message.calls:
                    one = EarlierCall(id=name("fc"), call_id=call.id, name=call.name, arguments=call.arguments)
                    made.append(one)
            case ToolEnded(result=result):
                made.append(EarlierOutput(id=name("fco"), call_id=result.call, output=result.content))
            case _:
                pass
    return made


def _asked_facts(facts: Sequence[Fact], run: str) -> Iterator[Fact]:
    """What stood before the first run of a session, where this is the one; then what this run began with."""
    before: list[Fact] = []
    mine = False
    for fact in facts:
        if isinstance(fact, RunStarted) and not mine:
            mine = fact.run == run
            yield from before if mine else ()
            before = []
        elif mine and isinstance(fact, Said) and fact.run == run:
            yield fact
            return
        elif mine and isinstance(fact, Reply | RunStarted):
            return
        elif not mine and not fact.run:
            before.append(fact)


def _parts(parts: Sequence[Part]) -> Iterator[AskedPart]:
    for one in parts:
        match one:
            case Text(text=text):
                yield AskedText(text=text)
            case Image(media_type=kind, data=data, url=url):
                yield AskedImage(image_url=url or f"data:{kind};base64,{data}")
            case File(media_type=kind, data=data, name=name):
                yield AskedFile(filename=name, file_data=f"data:{kind};base64,{data}")
            case _:
                pass


def page_of(items: Sequence[InputItem], page: ItemPage) -> ItemList:
    """A page of the items; raises ApiError for an `after` that is none of them."""
    ordered = list(items) if page.order == "asc" else list(reversed(items))
    if page.after:
        at = next((n for n, item in enumerate(ordered) if item.id == page.after), None)
        if at is None:
            raise ApiError(404, "item_not_found", f"there is no item {page.after!r}", param="after")
        ordered = ordered[at + 1 :]
    shown = tuple(ordered[: page.limit])
    return ItemList(
        data=shown,
        first_id=shown[0].id if shown else None,
        last_id=shown[-1].id if shown else None,
        has_more=len(ordered) > len(shown),
    )
