"""Trying the models that are set: one tiny real request to each, streamed, with a tool to call. Part of the composition root."""

import time
from contextlib import aclosing
from typing import Literal, get_args

import msgspec
from msgspec import Struct, structs

from melete.agent.budget import price
from melete.app.catalog import choose, choose_other
from melete.app.plugins import add_installed, registry
from melete.app.sections import Fallback
from melete.app.settings import Loaded
from melete.core.errors import MeleteError, NoModelError
from melete.core.event import Reply, ToolSchema
from melete.core.message import Usage, user
from melete.core.model import BadRequestError, EmptyReplyError, ModelClient, ModelRequest, Role
from melete.models.spec import ModelSpec

PROMPT = "Call the tool `ready` once, with the word `yes`. Without tools, answer with that word."
TOOL = ToolSchema(
    name="ready",
    about="Say that you are ready.",
    parameters=msgspec.Raw(
        b'{"type":"object","properties":{"word":{"type":"string"}},"required":["word"],"additionalProperties":false}'
    ),
)
ENOUGH = 1024
"""Tokens of output at most: room for some thinking before the call."""


class Candidate(Struct, frozen=True, kw_only=True):
    """A model that is set, and what for; an empty `name` is the one that the settings choose."""

    role: str
    name: str = ""
    fallback: Fallback | None = None


class Trial(Struct, frozen=True, kw_only=True):
    """How a model did; times in seconds, `usd` None where its price is not known.

    `tools`: `called` as asked, written `as text`, `ignored` in favour of words, `refused` by the server, empty when there was
    no answer at all.
    """

    role: str
    model: str
    provider: str = ""
    wire: str = ""
    ok: bool = False
    tools: Literal["called", "as text", "ignored", "refused", ""] = ""
    first_token_seconds: float = 0.0
    seconds: float = 0.0
    usage: Usage = Usage()
    usd: float | None = None
    cause: str = ""
    fix: str = ""


def candidates(loaded: Loaded) -> tuple[Candidate, ...]:
    """Every model that the settings name, with the role it has; the main model comes first."""
    settings = loaded.settings
    found = [Candidate(role="main")]
    for item in settings.model.fallbacks:
        whole = item if isinstance(item, Fallback) else None
        found.append(Candidate(role="fallback", name=item.name if isinstance(item, Fallback) else item, fallback=whole))
    if settings.model.routing.enabled and settings.model.routing.model:
        found.append(Candidate(role="routing", name=settings.model.routing.model))
    found += [Candidate(role=r, name=name) for r in get_args(Role) if (name := getattr(settings.auxiliary, r, ""))]
    return tuple(found)


async def attempt(loaded: Loaded, candidate: Candidate) -> Trial:
    """Try a candidate; what goes wrong is told in the trial and not raised, but for NoModelError."""
    name = candidate.name or loaded.settings.model.name
    try:
        client = _opened(_chosen(loaded, candidate))
    except NoModelError:
        raise
    except MeleteError as error:
        return Trial(role=candidate.role, model=name, cause=error.what, fix=_fix(error))
    try:
        return await _ask(client, candidate.role)
    finally:
        await client.aclose()


def _chosen(loaded: Loaded, candidate: Candidate) -> ModelSpec:
    other = candidate.fallback or candidate.name
    return (choose_other(loaded, other) if other else choose(loaded)).spec


def _opened(spec: ModelSpec) -> ModelClient:
    """The model alone: nothing is tried again, and no other model or key stands in for it."""
    known = registry()
    add_installed(known, "models", [spec.wire])
    return known.get("models", spec.wire)(spec)


async def _ask(client: ModelClient, role: str) -> Trial:
    trial = Trial(role=role, model=client.name, provider=client.provider, wire=client.wire)
    most = min(ENOUGH, client.can.max_output or ENOUGH)
    asked = ModelRequest(model=client.name, messages=(user(PROMPT),), tools=(TOOL,), max_output=most)
    try:
        try:
            first, whole, reply = await _answer(client, asked)
        except BadRequestError as error:
            if "tool" not in str(error).lower() and "function" not in str(error).lower():
                raise
            first, whole, reply = await _answer(client, structs.replace(asked, tools=()))
            tools = "refused"
        else:
            tools = _use_of_tools(reply)
    except MeleteError as error:
        return structs.replace(trial, cause=error.what, fix=_fix(error))
    return structs.replace(
        trial,
        ok=True,
        tools=tools,
        first_token_seconds=first,
        seconds=whole,
        usage=reply.usage,
        usd=price(client.can, reply.usage),
    )


async def _answer(client: ModelClient, request: ModelRequest) -> tuple[float, float, Reply]:
    """Seconds to the first token and to the end, with any loading, and the reply.

    Raises ModelError when none came, or an empty one.
    """
    started, first = time.monotonic(), 0.0
    async with aclosing(client.stream(request)) as stream:
        async for item in stream:
            if not isinstance(item, Reply):
                first = first or time.monotonic() - started
            elif item.message.calls or item.message.text.strip() or item.stop == "length":
                return first or item.first_token_seconds, time.monotonic() - started, item
    raise EmptyReplyError(f"{client.name} answered with neither text nor a tool call", next="try again")


def _use_of_tools(reply: Reply) -> Literal["called", "as text", "ignored"]:
    if any(call.name == TOOL.name for call in reply.message.calls):
        return "called"
    text = reply.message.text
    return "as text" if TOOL.name in text and "{" in text else "ignored"


def _fix(error: MeleteError) -> str:
    return "; ".join(part for part in (error.kept, error.next) if part)
