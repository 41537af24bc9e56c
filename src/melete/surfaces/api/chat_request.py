"""A chat completion that is asked for: read, checked, and turned into what a run needs."""

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request

from melete.app.answers import LARGEST, AnswerSchema
from melete.app.opening import Options
from melete.app.serve import Server
from melete.core.errors import ConfigError, MeleteError, NoModelError, SessionNotFoundError
from melete.core.event import Fact
from melete.surfaces.api.answers import body_of, server_of, who_of
from melete.surfaces.api.chat_history import SURFACE, Parted, facts_of, part
from melete.surfaces.api.chat_types import WITHOUT_EFFECT, ChatRequest, JsonFormat, SchemaFormat
from melete.surfaces.api.errors import ApiError

OWN = "melete"
"""The name under which the server's own model is asked for."""
SESSION = "X-Melete-Session-Id"
SESSION_HEADERS = (SESSION, "X-Hermes-Session-Id")
CHAT_HEADERS = ("x-openwebui-chat-id", "x-openwebui-user-id")
"""What front ends say of the conversation that they show, where they say it."""


class Asked(Struct, frozen=True, kw_only=True):
    """A request that was understood: `parted` and `options` say what is to be done, the rest how it is to be told.

    `history` is what stands before the prompt of a new session. With `counted`, a stream ends with the usage. `ignored` are the
    fields that were given and have no effect.
    """

    parted: Parted
    history: tuple[Fact, ...]
    options: Options
    stream: bool
    counted: bool
    ignored: tuple[str, ...] = ()

    def read(self, text: str) -> str:
        """The answer in the form that was asked for; a limit's last words may have none."""
        if self.options.answer is None:
            return text
        try:
            return self.options.answer.read(text)
        except ValueError:
            return text


async def understood(request: Request) -> Asked:
    """What the request asks for; raises ApiError for what cannot be had."""
    server, owner = server_of(request), who_of(request).owner
    body = await body_of(request, ChatRequest)
    refuse_unsupported(body)
    told = (body.user, body.safety_identifier, body.prompt_cache_key, *map(request.headers.get, CHAT_HEADERS))
    most = server.app.loaded.settings.server.max_parts
    parted = part(body.messages, most=most, salt=(owner, *(text or "" for text in told)))
    session = await _session(request)
    if session and not parted.asked:
        what = "a session goes on with a message of the user, and the last one is none"
        raise ApiError(400, "no_user_message", what, param="messages", next="put it at the end")
    options = Options(
        session=session,
        owner=owner,
        surface=SURFACE,
        attended=True,
        shares=True,
        model=await model_named(server, body.model or ""),
        extra=parted.instructions,
        temperature=body.temperature,
        max_output=body.max_completion_tokens or body.max_tokens,
        effort=body.reasoning_effort or "",
        answer=await _schema(body),
    )
    counted = bool(body.stream_options and body.stream_options.include_usage)
    history = () if session else tuple(facts_of(parted.earlier))
    return Asked(
        parted=parted,
        history=history,
        options=options,
        stream=bool(body.stream),
        counted=counted,
        ignored=tuple(name for name in WITHOUT_EFFECT if getattr(body, name) not in (None, (), [], {})),
    )


def refuse_unsupported(body: ChatRequest) -> None:
    """Raise ApiError for what was asked for and cannot be had; what has merely no effect passes."""
    wrong = {
        "tool_choice": body.tool_choice not in (None, "none", "auto"),
        "function_call": body.function_call not in (None, "none", "auto"),
        "n": body.n not in (None, 1),
        "stop": bool(body.stop),
        "logprobs": bool(body.logprobs),
        "top_logprobs": bool(body.top_logprobs),
        "logit_bias": bool(body.logit_bias),
        "modalities": bool(body.modalities) and tuple(body.modalities or ()) != ("text",),
        "audio": body.audio is not None,
        "web_search_options": body.web_search_options is not None,
    }
    for name in (name for name, there in wrong.items() if there):
        tools = name in ("tool_choice", "function_call", "web_search_options")
        what = "tools run on the server's side; a request brings none of its own" if tools else "it is not supported"
        raise ApiError(400, "unsupported_parameter", f"{name}: {what}", param=name, next="leave it out")


async def model_named(server: Server, name: str) -> str:
    """The model that a client names, empty for the server's own; raises ApiError for one that cannot be opened."""
    plain = name.strip()
    if plain in ("", OWN):
        return ""
    try:
        await server.app.models.close(server.app.models.shared(plain))
    except NoModelError:
        raise
    except ConfigError as error:
        raise ApiError(404, "model_not_found", error.what, param="model", next=error.next) from error
    return plain


async def _session(request: Request) -> str:
    """The session that a header names; raises ApiError for one that is not there, or not this key's."""
    names = {value for name in SESSION_HEADERS if (value := request.headers.get(name, "").strip())}
    if not names:
        return ""
    if len(names) > 1:
        raise ApiError(400, "invalid_session", "two headers name two sessions", param=SESSION)
    name = names.pop()
    try:
        found = (await server_of(request).app.store.find(name, owner=who_of(request).owner)).id
    except SessionNotFoundError:
        found = ""
    if found != name:
        next_ = "leave the header out to begin a new one"
        raise ApiError(404, "session_not_found", "there is no session of this id", param=SESSION, next=next_)
    return found


async def _schema(body: ChatRequest) -> AnswerSchema | None:
    """What the answer has to be, None for words; raises ApiError for what is no schema."""
    where = "response_format.json_schema.schema"
    match body.response_format:
        case JsonFormat():
            return await schema_of({"type": "object"}, where)
        case SchemaFormat(json_schema=named):
            return await schema_of(named.schema, where)
        case _:
            return None


async def schema_of(schema: Mapping[str, Any], where: str) -> AnswerSchema:
    """The JSON Schema that the field `where` holds; raises ApiError for what is none."""
    data = msgspec.json.encode(schema)
    if len(data) > LARGEST:
        raise ApiError(400, "invalid_schema", f"the schema is larger than {LARGEST // 1000} kB", param=where)
    try:
        return await asyncio.to_thread(_compiled, data)
    except MeleteError as error:
        raise ApiError(400, "invalid_schema", error.what, param=where) from error


@lru_cache(maxsize=64)
def _compiled(data: bytes) -> AnswerSchema:
    return AnswerSchema(msgspec.json.decode(data), name="the schema of the answer")
