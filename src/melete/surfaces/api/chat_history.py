"""The messages of a chat completion taken apart: instructions, what was said before, and the prompt; and sessions found again.

A client of this API sends the whole conversation each time. Where it sends just what a session has said, the session goes on, with
all that it knows beside; any other history is put into a new session.
"""

import re
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import cast

import msgspec
from msgspec import Struct

from melete.core.event import Fact, Learned, Notice, Reply, Said, Titled, ToolEnded
from melete.core.message import Audio, File, Image, Message, Origin, Part, Text, ToolCall, ToolResult
from melete.surfaces.api.chat_types import (
    AssistantMessage,
    AssistantPart,
    AudioPart,
    ChatMessage,
    DeveloperMessage,
    FilePart,
    ImagePart,
    ImageUrl,
    InputImage,
    InputText,
    OutputText,
    PlainPart,
    Refusal,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)
from melete.surfaces.api.errors import ApiError

SURFACE = "api"
PERSON = Origin(kind="person", surface=SURFACE)
BEFORE = Origin(kind="import", surface=SURFACE)
GO_ON = "Your last message was cut off here. Go on exactly where it ends, without repeating any of it."
LOST = '{"success":false,"error":"The result of this call was not kept."}'
KEPT = 8_192
"""Conversations that are known by what was said in them."""
HARMLESS = (Titled, Notice, Learned)
"""What may have come to a session since without making it another conversation."""
_IMAGE = re.compile(r"data:(image/(?:png|jpe?g|gif|webp));base64,(.*)", re.DOTALL | re.IGNORECASE)
_PDF = re.compile(r"data:(application/pdf);base64,(.*)", re.DOTALL | re.IGNORECASE)


class Parted(Struct, frozen=True, kw_only=True):
    """A conversation taken apart.

    `earlier` are the messages before the prompt, numbered. `prompt` is None where the model is to go on without one, `asked` says
    that it is the person's own last message. `before` is a fingerprint of all that stands before it, empty where nothing was said
    yet; `so_far` one of everything.
    """

    instructions: str
    earlier: tuple[tuple[int, ChatMessage], ...]
    prompt: Message | None
    asked: bool
    before: bytes
    so_far: bytes


def part(messages: Sequence[ChatMessage], *, most: int, salt: Sequence[str] = ()) -> Parted:
    """Take the messages apart; `salt` keeps conversations of several people apart. Raises ApiError for what cannot be taken."""
    said = [message for message in messages if not isinstance(message, SystemMessage | DeveloperMessage)]
    _check(messages, said, most=most)
    asked = isinstance(said[-1], UserMessage)
    before, so_far = _fingerprints(messages, salt)
    numbered = list(enumerate(messages))
    last = next(n for n, message in reversed(numbered) if message is said[-1])
    earlier = tuple((n, message) for n, message in numbered if n != last or not asked)
    return Parted(
        instructions=_instructions(messages),
        earlier=earlier,
        prompt=_prompt(said[-1], last),
        asked=asked,
        before=before if asked and len(said) > 1 else b"",
        so_far=so_far if asked else b"",
    )


def _check(messages: Sequence[ChatMessage], said: Sequence[ChatMessage], *, most: int) -> None:
    parts = sum(len(m.content) if isinstance(m.content, tuple) else 1 for m in messages)
    if parts > most:
        what = f"the messages have {parts} parts, and {most} are allowed"
        raise ApiError(400, "too_many_parts", what, param="messages", next="send fewer (server.max_parts)")
    if not any(isinstance(message, UserMessage) for message in said):
        next_ = "end with one of the role `user`"
        raise ApiError(400, "no_user_message", "there is no message of a user", param="messages", next=next_)


def _instructions(messages: Sequence[ChatMessage]) -> str:
    """Every instruction of the client, in order."""
    given = (m for m in messages if isinstance(m, SystemMessage | DeveloperMessage))
    return "\n\n".join(text for m in given if (text := _plain(m.content).strip()))


def _prompt(last: ChatMessage, number: int) -> Message | None:
    match last:
        case UserMessage():
            message = _user(last, number, by=PERSON)
            if message is None:
                where = f"messages[{number}].content"
                raise ApiError(400, "empty_input", "the last message says nothing", param=where)
            return message
        case AssistantMessage(tool_calls=None | ()):
            return Message(role="user", parts=(Text(text=GO_ON),), by=Origin(kind="runtime", surface=SURFACE))
        case _:
            return None


# ---- what was said before ------------------------------------------------------------------------------------------------


def facts_of(messages: Sequence[tuple[int, ChatMessage]]) -> Iterator[Fact]:
    """Numbered messages as facts; each call is followed by its result. Raises ApiError for what cannot be taken."""
    calls: dict[str, ToolCall] = {}
    for number, message in messages:
        if isinstance(message, UserMessage | AssistantMessage):
            yield from _unanswered(calls)
        match message:
            case UserMessage():
                if said := _user(message, number, by=BEFORE):
                    yield Said(message=said)
            case AssistantMessage():
                reply = _assistant(message)
                calls = {call.id: call for call in reply.message.calls}
                if reply.message.parts:
                    yield reply
            case ToolMessage(tool_call_id=id, content=content):
                yield _result(calls.pop(id, None), _plain(content))
            case _:
                pass
    yield from _unanswered(calls)


def _unanswered(calls: dict[str, ToolCall]) -> Iterator[Fact]:
    while calls:
        call = calls.pop(next(iter(calls)))
        result = ToolResult(call=call.id, name=call.name, content=LOST, error=True, taint="import")
        yield ToolEnded(result=result, outcome="unknown")


def _result(call: ToolCall | None, text: str) -> Fact:
    if call is None:  # it answers nothing that stands here
        return Said(message=Message(role="user", parts=(Text(text=f"[tool]\n{text}", taint="import"),), by=BEFORE))
    return ToolEnded(result=ToolResult(call=call.id, name=call.name, content=text, taint="import"))


def _assistant(message: AssistantMessage) -> Reply:
    text = _plain(message.content) or message.refusal or ""
    parts: list[Part] = [Text(text=text, taint="import")] if text.strip() else []
    seen: set[str] = set()
    for call in message.tool_calls or ():
        if call.id not in seen:
            seen.add(call.id)
            parts.append(ToolCall(id=call.id, name=call.function.name, arguments=call.function.arguments))
    stop = "tool_calls" if seen else "end"
    return Reply(message=Message(role="assistant", parts=tuple(parts), by=BEFORE), stop=stop)


def _user(message: UserMessage, number: int, *, by: Origin) -> Message | None:
    """A user's message; None when it says nothing. Raises ApiError for a part that cannot be taken."""
    content = (TextPart(text=message.content),) if isinstance(message.content, str) else message.content
    where = f"messages[{number}].content"
    parts = [_part(one, f"{where}[{n}]") for n, one in enumerate(content)]
    found = tuple(p for p in parts if not isinstance(p, Text) or p.text.strip())
    if not found:
        return None
    return Message(role="user", parts=found, by=msgspec.structs.replace(by, who=message.name or ""))


def _part(part: object, where: str) -> Part:
    match part:
        case TextPart(text=text) | InputText(text=text):
            return Text(text=text)
        case ImagePart(image_url=ImageUrl(url=url)) | InputImage(image_url=url):
            return _image(url, where)
        case ImagePart(image_url=str(url)):
            return _image(url, where)
        case AudioPart(input_audio=sound):
            return Audio(media_type=f"audio/{sound.format}", data=_checked(sound.data, f"{where}.input_audio.data"))
        case FilePart(file=file):
            found = _PDF.fullmatch(file.file_data)
            if found is None:
                raise ApiError(
                    400, "unsupported_file", "only PDFs as data URLs are read", param=f"{where}.file.file_data"
                )
            data = _checked(found[2], f"{where}.file.file_data")
            return File(media_type=found[1].lower(), name=file.filename, data=data)
        case _:
            raise ApiError(400, "invalid_request", "this part is not known", param=where)


def _image(url: str, where: str) -> Image:
    found = _IMAGE.fullmatch(url)
    if found is None:
        elsewhere = url.lower().startswith(("http://", "https://"))
        what = "pictures are not fetched from other addresses" if elsewhere else "this is no picture that models read"
        next_ = "send it as data:image/png;base64,… (PNG, JPEG, GIF or WebP)"
        raise ApiError(400, "unsupported_image", what, param=f"{where}.image_url", next=next_)
    kind = found[1].lower().replace("jpg", "jpeg")
    return Image(media_type=kind, data=_checked(found[2], f"{where}.image_url"))


def _checked(data: str, where: str) -> str:
    """Base64 without spaces, filled up to whole bytes."""
    plain = "".join(data.split())
    plain += "=" * (-len(plain) % 4)
    try:
        if plain and b64decode(plain, validate=True):
            return plain
    except ValueError:
        pass
    raise ApiError(400, "invalid_base64", "this is not base64, or it is empty", param=where)


def _plain(content: str | tuple[PlainPart | AssistantPart, ...] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n\n".join(one.refusal if isinstance(one, Refusal) else one.text for one in content)


# ---- conversations found again -------------------------------------------------------------------------------------------


class Place(Struct, frozen=True, kw_only=True):
    """A session, and the number of its last fact when its answer was given."""

    session: str
    seq: int


class Recent:
    """Sessions by the fingerprint of what was said in them, the latest ones."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._places: OrderedDict[bytes, Place] = OrderedDict()

    def add(self, fingerprint: bytes, place: Place) -> None:
        """Remember where a conversation stands."""
        self._places[fingerprint] = place
        self._places.move_to_end(fingerprint)
        if len(self._places) > self._most:
            self._places.popitem(last=False)

    def take(self, fingerprint: bytes) -> Place | None:
        """Where the conversation stands, for one caller: whoever asks next makes a session of its own."""
        return self._places.pop(fingerprint, None) if fingerprint else None


def answered(so_far: bytes, text: str) -> bytes:
    """The fingerprint of a conversation with the model's answer behind it; empty where there was none."""
    return _on(so_far, ("assistant", text.strip())) if so_far and text.strip() else b""


def unmoved(facts: Sequence[Fact]) -> bool:
    """Whether what came to a session since then leaves the conversation as it was."""
    return all(isinstance(fact, HARMLESS) for fact in facts)


def _fingerprints(messages: Sequence[ChatMessage], salt: Sequence[str]) -> tuple[bytes, bytes]:
    """Those of everything before the last message of a user, and of everything."""
    here = _on(b"", tuple(salt))
    before = here
    for message in messages:
        if isinstance(message, UserMessage):
            before = here
        if (line := _line(message)) is not None:
            here = _on(here, line)
    return before, here


def _on(before: bytes, value: object) -> bytes:
    return blake2b(before + msgspec.msgpack.encode(value), digest_size=24).digest()


def _line(message: ChatMessage) -> tuple[object, ...] | None:
    """What of a message makes the conversation; clients change spaces at the ends, and how they write words."""
    match message:
        case SystemMessage() | DeveloperMessage():
            text = _plain(message.content).strip()
            return ("system", text) if text else None
        case UserMessage(content=str(text)):
            return ("user", (text.strip(),))
        case UserMessage(content=content):
            return ("user", tuple(_words(cast("object", one)) for one in content))
        case AssistantMessage(tool_calls=calls):
            text = _plain(message.content).strip()
            made = tuple((call.id, call.function.name, call.function.arguments) for call in calls or ())
            return ("assistant", text, made) if made else ("assistant", text)
        case ToolMessage():
            return ("tool", message.tool_call_id, _plain(message.content))


def _words(part: object) -> object:
    match part:
        case TextPart(text=text) | InputText(text=text) | OutputText(text=text):
            return text.strip()
        case ImagePart(image_url=ImageUrl(url=url)) | InputImage(image_url=url):
            return ("image", url)
        case ImagePart(image_url=str(url)):
            return ("image", url)
        case _:
            return part
