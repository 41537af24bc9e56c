"""What the next request costs, and what caching made of the last ones. Part of the composition root; `melete context` shows it."""

from collections.abc import Callable, Sequence

from msgspec import Struct, json

from melete.agent.cachewatch import LIVES, Request, requests, saved
from melete.agent.prompt import build, names
from melete.app.frame import layers, tools_of
from melete.app.modelbook import capabilities
from melete.app.service import Conversation
from melete.core.event import ToolSchema
from melete.core.message import Message
from melete.core.model import Capabilities

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


class Caching(Struct, frozen=True, kw_only=True):
    """The requests of a session so far; `usd` is what caching saved in those whose prices are known, None where none are."""

    requests: Sequence[Request] = ()
    usd: float | None = None

    @property
    def prompt(self) -> int:
        """The tokens that all requests held."""
        return sum(request.prompt for request in self.requests)

    @property
    def cached(self) -> int:
        """How many of them came from a cache."""
        return sum(request.usage.cache_read for request in self.requests)

    @property
    def share(self) -> float:
        """The part of all prompts that came from a cache, from 0 to 1."""
        return self.cached / self.prompt if self.prompt else 0.0


async def caching(conversation: Conversation) -> Caching:
    """What the provider's cache did with each request of the session, and what broke it; read from the log."""
    life = LIVES[conversation.app.loaded.settings.model.cache_ttl]
    found = requests(await conversation.app.store.facts(conversation.ref), life=life)
    return Caching(requests=found, usd=saved_in(found, _prices(conversation)))


def saved_in(found: Sequence[Request], prices: Callable[[Request], Capabilities | None]) -> float | None:
    """USD that caching saved in the requests whose prices are known."""
    sums = [saved(can, request.usage) for request in found if (can := prices(request)) is not None]
    known = [usd for usd in sums if usd is not None]
    return sum(known) if known else None


def _prices(conversation: Conversation) -> Callable[[Request], Capabilities | None]:
    """What a request's model costs: as the open one says, else as the price list does."""
    model, home = conversation.model, conversation.app.loaded.home
    known: dict[tuple[str, str], Capabilities] = {}

    def of(request: Request) -> Capabilities:
        name = (request.provider, request.model)
        if name not in known:
            same = request.provider == model.provider and request.model in (model.name, "")
            known[name] = model.can if same else capabilities(home, *name)
        return known[name]

    return of


async def report(conversation: Conversation) -> list[Cost]:
    """The parts of the session's next request, in the order in which they are sent; nothing is sent or stored."""
    app = conversation.app
    options, window = conversation.options, conversation.model.can.context
    made = await layers(
        app,
        conversation.env,
        surface=options.surface,
        extra=options.extra,
        window=window,
        kept={
            "memory": await conversation.memory.block(conversation.tools, window),
            "skills": await conversation.skills.block(),
        },
    )
    transcript = await conversation.transcript()
    frame = transcript.frame
    system = frame.system if frame else build(made)
    parts = names(made) if len(names(made)) == len(system) else tuple(f"block {n}" for n in range(1, len(system) + 1))
    tools = frame.tools if frame else tools_of(app, conversation.tools, window=window).shown
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
