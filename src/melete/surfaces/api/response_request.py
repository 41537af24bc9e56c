"""A response that is asked for: read, checked, and turned into what a run needs."""

import logging

import msgspec
from msgspec import Struct
from starlette.requests import Request

from melete.app import unstored
from melete.app.answers import AnswerSchema
from melete.app.opening import Options
from melete.core.errors import MeleteError
from melete.surfaces.api.answers import body_of, server_of, who_of
from melete.surfaces.api.chat_history import SURFACE
from melete.surfaces.api.chat_request import model_named, schema_of
from melete.surfaces.api.errors import ApiError
from melete.surfaces.api.response_items import Input, read_input
from melete.surfaces.api.response_store import Target
from melete.surfaces.api.response_types import ConversationId, JsonObject, JsonSchema, NewResponse, PlainText, Wish

WITHOUT_EFFECT = ("include", "parallel_tool_calls", "service_tier", "tools", "top_p", "truncation")
LOGPROBS = "message.output_text.logprobs"
log = logging.getLogger("melete.responses")
FORM = "text.format.schema"


class Asked(Struct, frozen=True, kw_only=True):
    """A request that was understood: what is said, how it is to be answered, and how that is to be told.

    `ignored` are the fields that were given and have no effect.
    """

    input: Input
    wish: Wish
    stream: bool
    options: Options
    ignored: tuple[str, ...] = ()

    @property
    def schema(self) -> AnswerSchema | None:
        """What the answer has to be."""
        return self.options.answer

    def options_for(self, target: Target) -> Options:
        """The options for going on there."""
        extra = "\n\n".join(filter(None, (self.wish.instructions, target.developer, self.wish.said)))
        return msgspec.structs.replace(self.options, session=target.session, extra=extra)

    def wish_for(self, target: Target) -> Wish:
        """What is to be kept of the request when it goes on there."""
        developer = "\n\n".join(filter(None, (target.developer, self.wish.said)))
        return msgspec.structs.replace(self.wish, developer=developer)


async def understood(request: Request) -> Asked:
    """What the request asks for; raises ApiError for what cannot be had."""
    server = server_of(request)
    body = await body_of(request, NewResponse)
    _refuse_unsupported(body)
    _refuse_contradictions(body)
    given = read_input(body.input, most=server.app.loaded.settings.server.max_parts)
    wish = _wish(body, said=given.instructions)
    options = Options(
        owner=who_of(request).owner,
        surface=SURFACE if wish.store else unstored.SOURCE,
        attended=True,
        shares=True,
        model=await model_named(server, body.model or ""),
        temperature=body.temperature,
        max_output=body.max_output_tokens,
        effort=(body.reasoning and body.reasoning.effort) or "",
        answer=await _schema(wish),
        keeps_extra=False,
    )
    ignored = tuple(name for name in WITHOUT_EFFECT if getattr(body, name) not in (None, [], {}))
    return Asked(input=given, wish=wish, stream=bool(body.stream), options=options, ignored=ignored)


def _wish(body: NewResponse, *, said: str) -> Wish:
    named = body.conversation
    return Wish(
        instructions=body.instructions,
        previous=body.previous_response_id or "",
        conversation=(named.id if isinstance(named, ConversationId) else named) or "",
        background=bool(body.background),
        store=body.store is not False,
        metadata=body.metadata or {},
        format=(body.text and body.text.format) or PlainText(),
        effort=body.reasoning.effort if body.reasoning else None,
        summary=body.reasoning.summary if body.reasoning else None,
        temperature=body.temperature,
        top_p=body.top_p,
        max_output_tokens=body.max_output_tokens,
        truncation=body.truncation or "disabled",
        parallel_tool_calls=body.parallel_tool_calls is not False,
        user=body.user,
        safety_identifier=body.safety_identifier,
        prompt_cache_key=body.prompt_cache_key,
        said=said,
    )


def _refuse_unsupported(body: NewResponse) -> None:
    """Raise ApiError for what was asked for and cannot be had; what has merely no effect passes."""
    wrong = {
        "tool_choice": body.tool_choice not in (None, "none", "auto"),
        "max_tool_calls": body.max_tool_calls is not None,
        "top_logprobs": bool(body.top_logprobs),
        "include": LOGPROBS in (body.include or ()),
        "prompt": body.prompt is not None,
        "moderation": body.moderation is not None,
    }
    for name in (name for name, there in wrong.items() if there):
        what = (
            "tools run on the server's side: none can be insisted on"
            if name == "tool_choice"
            else "it is not supported"
        )
        raise ApiError(400, "unsupported_parameter", f"{name}: {what}", param=name, next="leave it out")


def _refuse_contradictions(body: NewResponse) -> None:
    """Raise ApiError for parameters that exclude one another."""
    store, conversation = body.store is not False, body.conversation
    if conversation and body.previous_response_id:
        what = "a response goes on from a response or in a conversation, not both"
        raise ApiError(400, "mutually_exclusive_parameters", what, param="conversation", next="leave one of them out")
    if body.background and not store:
        what = "what goes on in the background has to be stored, or nobody could ask for it"
        raise ApiError(400, "background_requires_store", what, param="background", next="leave store out")
    if conversation and not store:
        what = "in a session that is kept, an answer is stored"
        raise ApiError(400, "conversation_requires_store", what, param="store", next="use previous_response_id")


async def _schema(wish: Wish) -> AnswerSchema | None:
    """What the answer has to be, None for words; raises ApiError for what is no schema."""
    match wish.format:
        case JsonObject():
            return await schema_of({"type": "object"}, FORM)
        case JsonSchema(schema=schema):
            return await schema_of(schema, FORM)
        case _:
            return None


async def stored_schema(wish: Wish) -> AnswerSchema | None:
    """What an answer had to be, None for words and for a schema that is none any more."""
    try:
        return await _schema(wish)
    except MeleteError as error:
        log.warning("the schema of a stored response cannot be used: %s", error)
        return None
