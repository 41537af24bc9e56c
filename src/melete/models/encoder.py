"""Requests as bytes, whatever the wire: canonical, stable, and each message encoded once. Part: models.

Every wire's body starts with what grows with the conversation and only grows at its end (tools, system, messages), so that a
provider's prompt cache holds; `prefix` gives exactly that part. A wire says how one message looks; this file keeps the bytes,
joins them, and sees to it that each call is followed by its result.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from melete.core.event import ToolSchema
from melete.core.message import Message, ToolCall
from melete.core.model import ModelRequest
from melete.core.plugin import Lazy
from melete.models.spec import ModelSpec, Quirks

EMPTY = "(empty)"
UNANSWERED = '{"error":"this call was never carried out; its outcome is unknown"}'
OPENING = "(the conversation goes on here)"
"""The words of a user before a conversation of which the beginning is gone, where one must begin with a user."""
ORPHAN = "(result of a call that is not shown)"
SPARE = 2000
MARKS = 3
"""How many of the last messages of a user or tool are marked for a cache that wants to be told."""

_CONTROL = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]"


class Encoded(Struct, frozen=True, kw_only=True):
    """One message as bytes: its own objects in `body`, a tool message's results in `results` by call id, `after` follows them.

    `markable` says that each of its objects may carry a cache marker.
    """

    message: Message
    body: tuple[bytes, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: Mapping[str, bytes] = {}
    after: tuple[bytes, ...] = ()
    markable: bool = False


class Joined:
    """The conversation so far as one array without its brackets; `marks` are the ends of its objects that may be marked."""

    def __init__(self, *, messages: tuple[Message, ...] = (), data: bytes = b"", marks: Sequence[int] = ()) -> None:
        self.messages = messages
        self.data = bytearray(data)
        self.marks = list(marks)
        self.last = b""

    def add(self, part: bytes, *, markable: bool) -> None:
        """Append an object."""
        if self.data:
            self.data += b","
        self.data += part
        self.last = part
        if markable:
            self.marks.append(len(self.data))
            del self.marks[:-MARKS]


class Encoder:
    """Turns requests into bodies; keeps the bytes of messages that it has met, for as long as it is used with them."""

    wire = ""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.quirks: Quirks = spec.quirks
        self._messages: dict[int, Encoded] = {}
        self._sent = Joined()
        self._tools: tuple[tuple[ToolSchema, ...], bytes] = ((), b"[]")
        self._ids: tuple[tuple[Message, ...], set[str]] = ((), set())

    # ---- what a wire says -------------------------------------------------------------------------------------------

    @abstractmethod
    def body(self, request: ModelRequest) -> bytes:
        """The whole body of a streaming request."""

    @abstractmethod
    def prefix(self, request: ModelRequest) -> bytes:
        """Tools, system and messages without markers: the bytes that the next request of the conversation starts with."""

    @abstractmethod
    def new(self, message: Message) -> Encoded:
        """One message as the wire has it."""

    @abstractmethod
    def declared(self, tool: ToolSchema) -> Any:
        """A tool as the wire has it."""

    @abstractmethod
    def unanswered(self, call: ToolCall) -> bytes:
        """The result of a call that has none, saying UNANSWERED."""

    @abstractmethod
    def orphan(self, result: bytes) -> bytes:
        """A result whose call is not in the conversation, told as a user's words that begin with ORPHAN."""

    def grouped(self, results: list[bytes]) -> list[bytes]:
        """The results of one message's calls as objects of the conversation; each is its own unless a wire says otherwise."""
        return results

    def between(self, before: bytes, after: bytes) -> bytes:  # noqa: ARG002
        """An object that a server wants between these two; empty for none."""
        return b""

    @property
    def takes_images(self) -> bool:
        """Whether images are sent; else a note stands in the place of each."""
        return self.spec.can.images and self.quirks.images

    # ---- what all wires share ---------------------------------------------------------------------------------------

    def adopt(self, quirks: Quirks) -> None:
        """Use another dialect from now on; everything is encoded anew."""
        self.quirks = quirks
        self._messages.clear()
        self._sent = Joined()
        self._tools = ((), b"[]")

    def tool_bytes(self, tools: tuple[ToolSchema, ...]) -> bytes:
        """The tools as one array, made anew only when they are others."""
        if self._tools[0] is not tools:
            self._tools = (tools, self.encode([self.declared(tool) for tool in tools]))
        return self._tools[1]

    def call_ids(self, request: ModelRequest) -> set[str]:
        """The ids of all calls in the conversation; what the last request held is not walked through again."""
        done, ids = self._ids
        if request.messages[: len(done)] != done:
            done, ids = (), set[str]()
        for message in request.messages[len(done) :]:
            ids.update(call.id for call in self.encoded(message).calls)
        self._ids = (request.messages, ids)
        return set(ids)

    def joined(self, messages: tuple[Message, ...]) -> Joined:
        """The conversation; what the last request held already is not touched again, so that a long run stays flat.

        What it returns is valid until the next call.
        """
        sent = self._sent
        if not sent.messages or messages[: len(sent.messages)] != sent.messages:
            sent = Joined()
        new = [self.encoded(message) for message in messages[len(sent.messages) :]]
        parts, whole = self.paired(new)
        if not whole:
            last, sent = sent.last, Joined(messages=sent.messages, data=bytes(sent.data), marks=sent.marks)
            sent.last = last
        for part, markable in parts:
            if bridge := self.between(sent.last, part):
                sent.add(bridge, markable=False)
            sent.add(part, markable=markable)
        sent.messages = messages
        if whole:
            self._sent = sent
        if len(self._messages) > 2 * len(messages) + SPARE:
            kept = map(self._messages.get, map(id, messages))
            self._messages = {id(one.message): one for one in kept if one is not None}
        return sent

    def encoded(self, message: Message) -> Encoded:
        """The message's bytes, made once."""
        found = self._messages.get(id(message))
        if found is None:
            found = self._messages[id(message)] = self.new(message)
        return found

    def replayable(self, message: Message) -> msgspec.Raw | None:
        """The provider's own bytes, where this very provider sent them over this wire and its dialect takes them back."""
        wire = message.wire
        if wire is None or wire.name != self.wire or not self.quirks.replay:
            return None
        return wire.body if wire.provider in ("", self.spec.vendor) else None

    def encode(self, value: Any) -> bytes:
        """The value as JSON without lone surrogates; in a strict dialect as ASCII without control characters."""
        try:
            data = msgspec.json.encode(value)
        except UnicodeEncodeError:
            data = msgspec.json.encode(sound_text(msgspec.to_builtins(value, builtin_types=(msgspec.Raw,))))
        if not self.quirks.ascii:
            return data
        plain = sound_text(msgspec.json.decode(data), drop=_CONTROL)
        dumps = Lazy[Callable[..., str]]("json:dumps").load()
        return dumps(plain, ensure_ascii=True, separators=(",", ":")).encode()

    def paired(self, messages: list[Encoded]) -> tuple[list[tuple[bytes, bool]], bool]:
        """The messages' objects in order, each call followed by its result; and whether every call had one.

        A call without a result gets one that says so, a result that stands further down moves up, and one without a call is
        told as a user's words: servers refuse anything else. Beside each object: whether it may be marked.
        """
        parts: list[tuple[bytes, bool]] = []
        used: set[tuple[int, str]] = set()
        whole = True
        for place, one in enumerate(messages):
            parts += [(data, one.markable) for data in one.body]
            results: list[bytes] = []
            for call in one.calls:
                result = _result(messages, place, call, used=used)
                whole = whole and result is not None
                results.append(result or self.unanswered(call))
            parts += [(data, True) for data in self.grouped(results)] if results else []
            parts += [(self.orphan(r), True) for call_id, r in one.results.items() if (place, call_id) not in used]
            parts += [(data, True) for data in one.after]
        return parts, whole


def marked(joined: Joined, marker: bytes, *, inside: int) -> Iterator[bytes | memoryview]:
    """The conversation with `marker` put into its last markable objects, `inside` bytes before the end of each."""
    view, begun = memoryview(joined.data), 0
    for end in joined.marks:
        yield view[begun : end - inside]
        yield marker
        begun = end - inside
    yield view[begun:]


def arguments_object(text: str) -> dict[str, Any] | None:
    """A call's arguments where they are a JSON object, else None."""
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


def valid_name(name: str, *, most: int = 64, also: str = "") -> str:
    """The tool's name in the alphabet that APIs take, and what one takes `also`; models make up names of other letters."""
    if re.fullmatch(rf"[A-Za-z0-9_{also}-]{{1,{most}}}", name):
        return name
    return re.sub(rf"[^A-Za-z0-9_{also}-]", "_", name)[:most] or "unknown"


def sound_text(value: Any, *, drop: str = "") -> Any:
    """The value with every lone surrogate stripped from its texts, pairs joined, and what matches `drop` left out."""
    if isinstance(value, str):
        text = value.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")
        return re.sub(drop, "", text) if drop else text
    if isinstance(value, dict):
        items: dict[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return {sound_text(k, drop=drop): sound_text(v, drop=drop) for k, v in items.items()}
    if isinstance(value, list):
        return [sound_text(v, drop=drop) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _result(messages: list[Encoded], place: int, call: ToolCall, *, used: set[tuple[int, str]]) -> bytes | None:
    for later in range(place + 1, len(messages)):
        one = messages[later]
        if call.id in one.results and (later, call.id) not in used:
            used.add((later, call.id))
            return one.results[call.id]
        if one.calls:
            break
    return None
