"""What was said and done, in the form that GenAI spans have for it; used only where the settings ask for content. Composition root.

Every text is redacted and bounded. Pictures and files are named by their type and left out.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from melete.core.message import Message, Text, Thinking, ToolCall, ToolResult

LONGEST = 8_000
"""Characters of one text."""
Redact = Callable[[str], str]


def bounded(text: str, redact: Redact) -> str:
    """The text without secrets and without halves of characters, its end left out where it is long."""
    clean = redact(text).encode("utf-8", "replace").decode()
    return clean if len(clean) <= LONGEST else f"{clean[:LONGEST]}… ({len(clean) - LONGEST:,} more characters)"


def messages(given: Sequence[Message], redact: Redact, *, finish: str = "") -> str:
    """Messages as JSON in the conventions' form; with `finish` they are a model's, which ended so."""
    more = {"finish_reason": finish} if finish else {}
    found = [{"role": one.role, "parts": [_part(part, redact) for part in one.parts], **more} for one in given]
    return msgspec.json.encode(found).decode()


def _part(part: Any, redact: Redact) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "text", "content": bounded(part.text, redact)}
        case Thinking():
            return {"type": "reasoning", "content": bounded(part.text, redact)}
        case ToolCall():
            return {
                "type": "tool_call",
                "id": part.id,
                "name": part.name,
                "arguments": _structured(part.arguments, redact),
            }
        case ToolResult():
            return {"type": "tool_call_response", "id": part.call, "response": _structured(part.content, redact)}
        case _:
            return {"type": part.__struct_config__.tag, "mime_type": part.media_type}


def _structured(text: str, redact: Redact) -> Any:
    """The JSON value that a text holds, the text itself where that is none or too long to keep whole."""
    kept = bounded(text, redact)
    try:
        return msgspec.json.decode(kept)
    except msgspec.DecodeError:
        return kept
