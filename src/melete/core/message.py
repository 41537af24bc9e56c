"""Messages and their parts: what a model reads and says. Layer 0.

A message keeps two things: its `parts`, which every wire can be built from, and, for a model's own words, `wire`: the
provider's bytes, replayed verbatim to the same wire, so that signatures and blocks that we do not know survive.
"""

from typing import Literal

import msgspec
from msgspec import Struct

Role = Literal["user", "assistant", "tool"]
Taint = Literal["none", "tool", "web", "import"]
"""Where a text came from, as far as trust goes: the person or model, a tool, the web, an import."""


class Text(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="text"):
    """Plain text."""

    text: str
    taint: Taint = "none"


class Thinking(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="thinking"):
    """A model's reasoning as readable text; its signed or encrypted form lives in the message's wire."""

    text: str


class Image(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="image"):
    """A picture: base64 `data` with its media type, or a `url`."""

    media_type: str = "image/png"
    data: str = ""
    url: str = ""
    taint: Taint = "none"


class Audio(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="audio"):
    """A sound: base64 `data` with its media type."""

    media_type: str
    data: str
    taint: Taint = "none"


class File(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="file"):
    """A document: base64 `data` with its media type and name."""

    media_type: str
    name: str
    data: str
    taint: Taint = "none"


class ToolCall(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="tool_call"):
    """A model's wish to run a tool; `arguments` is the JSON text exactly as the model wrote it."""

    id: str
    name: str
    arguments: str


class ToolResult(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="tool_result"):
    """The answer to one call; `content` is the text that the model reads, a JSON object."""

    call: str
    name: str
    content: str
    error: bool = False
    taint: Taint = "tool"
    images: tuple[Image, ...] = ()


Part = Text | Thinking | Image | Audio | File | ToolCall | ToolResult


class Wire(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The provider's own message: `name` of the wire, its JSON `body` kept byte for byte, and the `provider` that sent it.

    Another provider of the same wire gets the message rebuilt: signatures and own fields mean nothing to it. An empty provider
    is one that was not noted.
    """

    name: str
    body: msgspec.Raw
    provider: str = ""


class Origin(Struct, frozen=True, kw_only=True):
    """Who put a message into the conversation: a `person`, the `runtime` itself, a `child`, a `schedule` or an import."""

    kind: Literal["person", "runtime", "child", "schedule", "import"] = "person"
    who: str = ""
    surface: str = ""


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a conversation, in the form that every wire can be built from."""

    role: Role
    parts: tuple[Part, ...]
    wire: Wire | None = None
    by: Origin | None = None

    @property
    def text(self) -> str:
        """The message's plain text, parts joined by a blank line."""
        return "\n\n".join(p.text for p in self.parts if isinstance(p, Text) and p.text)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls that the message asks for, in order."""
        return tuple(p for p in self.parts if isinstance(p, ToolCall))


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one or several requests in five classes; `input` excludes cached reads and writes, `output` includes reasoning."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        """All tokens that were read or written."""
        return self.input + self.output + self.cache_read + self.cache_write

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            reasoning=self.reasoning + other.reasoning,
        )


def user(text: str, *, by: Origin | None = None) -> Message:
    """A user message of plain text."""
    return Message(role="user", parts=(Text(text=text),), by=by)
