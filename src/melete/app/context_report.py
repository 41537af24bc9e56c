"""What the next request costs, part by part. Part of the composition root; `melete context` shows it."""

from msgspec import Struct, json

from melete.agent.prompt import build, names
from melete.app.frame import layers, shown
from melete.app.service import Conversation
from melete.core.event import ToolSchema
from melete.core.message import Message

CHARACTERS_PER_TOKEN = 4


class Cost(Struct, frozen=True, kw_only=True):
    """One part of a request: `group` is system, tools or messages; `tokens` is an estimate, bytes / 4."""

    group: str
    part: str
    bytes: int

    @property
    def tokens(self) -> int:
        """About how many tokens the part takes."""
        return -(-self.bytes // CHARACTERS_PER_TOKEN)


async def report(conversation: Conversation) -> list[Cost]:
    """The parts of the session's next request, in the order in which they are sent; nothing is sent or stored."""
    app = conversation.app
    made = await layers(app, conversation.env, surface=conversation.options.surface, extra=conversation.options.extra)
    transcript = await conversation.transcript()
    frame = transcript.frame
    system = frame.system if frame else build(made)
    parts = names(made) if len(names(made)) == len(system) else tuple(f"block {n}" for n in range(1, len(system) + 1))
    tools = frame.tools if frame else shown(conversation.tools)
    rows = [Cost(group="system", part=part, bytes=len(text.encode())) for part, text in zip(parts, system, strict=True)]
    rows += [Cost(group="tools", part=tool.name, bytes=schema_bytes(tool)) for tool in tools]
    for role in ("user", "assistant", "tool"):
        said = [m for m in transcript.messages if m.role == role]
        if said:
            rows.append(Cost(group="messages", part=f"{len(said)} {role}", bytes=sum(map(message_bytes, said))))
    return rows


def schema_bytes(tool: ToolSchema) -> int:
    """The size of a tool's schema in compact JSON, as the field's function format has it."""
    function = {"name": tool.name, "description": tool.about, "parameters": tool.parameters}
    return len(json.encode({"type": "function", "function": function}))


def message_bytes(message: Message) -> int:
    """The size of a message: the provider's own bytes where there are any."""
    return len(message.wire.body) if message.wire else len(json.encode(message.parts))
