"""What `/v1/responses` takes and gives, as OpenAI has it; fields that are not listed have no effect.

The items of an `input` are kept as they came: `response_items.py` reads them.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from melete.core.event import Question
from melete.surfaces.api.chat_types import LEFT_OUT, DataUrl, Tokens

MOST = 2**31 - 1
ID = r"^resp_[0-9a-f]{16}$"
WORDS = {"type": "string", "pattern": r"\S"}
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]
ONLY_NULL = Meta(extra_json_schema={"enum": [None]})

# ---- what is asked ---------------------------------------------------------------------------------------------------

_USER_PARTS: list[dict[str, Any]] = [
    {
        "type": "object",
        "properties": {"type": {"const": "input_text"}, "text": WORDS},
        "required": ["type", "text"],
    },
    {
        "type": "object",
        "properties": {
            "type": {"const": "input_image"},
            "image_url": msgspec.json.schema(DataUrl),
        },
        "required": ["type", "image_url"],
    },
    {
        "type": "object",
        "properties": {
            "type": {"const": "input_file"},
            "filename": {"type": "string"},
            "file_data": {"type": "string", "pattern": r"^data:application/pdf;base64,([A-Za-z0-9+/]{4})+$"},
        },
        "required": ["type", "file_data"],
    },
]


def _message(roles: list[str], content: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {"type": {"enum": ["message", None]}, "role": {"enum": roles}, "content": content}
    return {"type": "object", "properties": properties, "required": ["role", "content"]}


def _plain(*kinds: str) -> dict[str, Any]:
    part: dict[str, Any] = {
        "type": "object",
        "properties": {"type": {"enum": list(kinds)}, "text": {"type": "string"}},
        "required": ["type", "text"],
    }
    return {"anyOf": [{"type": "string"}, {"type": "array", "items": part}]}


def _item(kind: str, *needed: str, **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"type": {"const": kind}, **fields}, "required": ["type", *needed]}


_TEXT = {"type": "string"}
_MAYBE = {"type": ["string", "null"]}
_OUTPUT = {"type": ["string", "array"]}
_USER = _message(["user"], {"anyOf": [WORDS, {"type": "array", "minItems": 1, "items": {"anyOf": _USER_PARTS}}]})
KNOWN = ("message", "function_call", "function_call_output", "mcp_call", "reasoning", "item_reference")
INPUT_SCHEMA: dict[str, Any] = {
    "description": (
        "What is said: a text, or items, of which the last is the prompt and the others stand before it. Calls and outputs "
        "of earlier turns are read; items of other types are shown to the model as JSON."
    ),
    "anyOf": [
        WORDS,
        {
            "type": "array",
            "minItems": 1,
            "contains": _USER,
            "items": {
                "anyOf": [
                    _USER,
                    _message(["assistant"], _plain("output_text")),
                    _message(["system", "developer"], _plain("input_text")),
                    _item("function_call", "name", call_id=_TEXT, name=_TEXT, arguments=_TEXT),
                    _item("function_call_output", "output", call_id=_MAYBE, output=_OUTPUT),
                    _item("mcp_call", "name", id=_MAYBE, name=_TEXT, arguments=_TEXT, output=_MAYBE),
                    _item("reasoning"),
                    _item("other")
                    | {"properties": {"type": {"type": "string", "minLength": 1, "not": {"enum": KNOWN}}}},
                ]
            },
        },
    ],
}


class PlainText(Struct, frozen=True, tag="text"):
    """An answer in words."""


class JsonObject(Struct, frozen=True, tag="json_object"):
    """An answer that is a JSON object."""


class JsonSchema(Struct, frozen=True, kw_only=True, tag="json_schema", omit_defaults=True):
    """An answer that follows a JSON Schema; `name` and `strict` have no effect: the answer is always checked."""

    schema: dict[str, Any]
    name: str = "answer"
    description: str | None = None
    strict: bool | None = None


class TextConfig(Struct, frozen=True, kw_only=True):
    """The form of the answer."""

    format: PlainText | JsonObject | JsonSchema | None = None


class Reasoning(Struct, frozen=True, kw_only=True):
    """How hard the model thinks; what it shows of its thoughts is always told."""

    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


class ConversationId(Struct, frozen=True, kw_only=True):
    """A session as the conversation that a response belongs to."""

    id: str


class NewResponse(Struct, frozen=True, kw_only=True):
    """What to answer, and how. Tools run on the server's side: those of a request are left out of account."""

    input: Annotated[Any, Meta(extra_json_schema=INPUT_SCHEMA)]
    model: Annotated[
        str | None, Meta(description="`melete`, or nothing, is the server's own; else `[PROVIDER/]NAME`.")
    ] = None
    instructions: Annotated[str | None, Meta(description="For this answer only: the next one does not have them.")] = (
        None
    )
    previous_response_id: Annotated[
        str | None,
        Meta(description="The response to go on from. A second one that goes on from it makes a branch of its own."),
    ] = None
    conversation: Annotated[
        str | ConversationId | None, Meta(description="A session to go on in, whoever began it. Excludes the former.")
    ] = None
    stream: bool | None = None
    background: Annotated[bool | None, Meta(description="Answer at once, and finish without the client.")] = None
    store: Annotated[bool | None, Meta(description="False: nothing is kept once it is answered.")] = None
    metadata: (
        Annotated[dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]], Meta(max_length=16)]
        | None
    ) = None
    text: TextConfig | None = None
    reasoning: Reasoning | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_output_tokens: Tokens | None = None
    truncation: Literal["auto", "disabled"] | None = None
    parallel_tool_calls: bool | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    include: list[str] | None = None
    service_tier: str | None = None
    tools: Annotated[list[Any] | None, LEFT_OUT] = None
    tool_choice: Annotated[Any, Meta(extra_json_schema={"enum": ["none", "auto", None]})] = None
    max_tool_calls: Annotated[Any, ONLY_NULL] = None
    top_logprobs: Annotated[int | None, Meta(extra_json_schema={"enum": [None, 0]})] = None
    prompt: Annotated[Any, ONLY_NULL] = None
    moderation: Annotated[Any, ONLY_NULL] = None


class Wish(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was asked for beside the input, as the log keeps it: empty where it was not a response that was asked for.

    `said` are the instructions among the items of the input; `developer` are these and those of the responses before.
    """

    instructions: str | None = None
    previous: str = ""
    conversation: str = ""
    background: bool = False
    store: bool = True
    metadata: dict[str, str] = {}
    format: PlainText | JsonObject | JsonSchema = PlainText()
    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    truncation: Literal["auto", "disabled"] = "disabled"
    parallel_tool_calls: bool = True
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    said: str = ""
    developer: str = ""


class Retrieve(Struct, frozen=True, kw_only=True):
    """How a stored response is to be told."""

    stream: Annotated[bool, Meta(description="As the events that it was, or is, made of.")] = False
    starting_after: Annotated[
        Annotated[int, Meta(ge=0, le=2**53)] | None,
        Meta(description="The `sequence_number` of the last event that was read; only for streams."),
    ] = None
    include_obfuscation: Annotated[bool, Meta(description="Has no effect.")] = False


class ItemPage(Struct, frozen=True, kw_only=True):
    """Which items to list."""

    limit: Annotated[int, Meta(ge=1, le=100, description="Items in one answer at most.")] = 20
    order: Annotated[Literal["asc", "desc"], Meta(description="`asc` as they were said, `desc` the last first.")] = (
        "desc"
    )
    after: Annotated[str, Meta(description="The id of an item: the list begins behind it.")] = ""


# ---- items -----------------------------------------------------------------------------------------------------------


class OutputTextPart(Struct, frozen=True, kw_only=True, tag="output_text"):
    """Words of an answer."""

    text: str
    annotations: tuple[()] = ()
    logprobs: tuple[()] = ()


class OutputMessage(Struct, frozen=True, kw_only=True, tag="message"):
    """Something that the model said; `phase` tells remarks on the way from the answer, null while that is not known."""

    id: str
    status: ItemStatus
    content: tuple[OutputTextPart, ...]
    role: Literal["assistant"] = "assistant"
    phase: Literal["commentary", "final_answer"] | None = None


class SummaryText(Struct, frozen=True, kw_only=True, tag="summary_text"):
    """What a model shows of its thoughts."""

    text: str


class ReasoningItem(Struct, frozen=True, kw_only=True, tag="reasoning"):
    """Thoughts of the model, as far as it shows them."""

    id: str
    summary: tuple[SummaryText, ...]
    status: ItemStatus = "completed"
    encrypted_content: None = None


class ErrorText(Struct, frozen=True, kw_only=True):
    """A piece of what a failed call returned."""

    text: str
    type: Literal["text"] = "text"


class ToolFailure(Struct, frozen=True, kw_only=True):
    """What a call returned that failed."""

    content: tuple[ErrorText, ...]
    type: Literal["mcp_tool_execution_error"] = "mcp_tool_execution_error"


class ToolItem(Struct, frozen=True, kw_only=True, tag="mcp_call"):
    """A tool that the server ran, in the form of a call that asks nothing of the client; `output` is what the model read."""

    id: str
    name: str
    arguments: str
    status: Literal["in_progress", "completed", "failed", "incomplete"]
    output: str | None = None
    error: ToolFailure | None = None
    server_label: Literal["melete"] = "melete"
    approval_request_id: None = None


OutputItem = OutputMessage | ReasoningItem | ToolItem


class AskedText(Struct, frozen=True, kw_only=True, tag="input_text"):
    """Words that were said to the model."""

    text: str


class AskedImage(Struct, frozen=True, kw_only=True, tag="input_image"):
    """A picture that was shown to the model."""

    image_url: str
    detail: Literal["auto"] = "auto"
    file_id: None = None


class AskedFile(Struct, frozen=True, kw_only=True, tag="input_file"):
    """A document that was given to the model."""

    filename: str
    file_data: str


AskedPart = AskedText | AskedImage | AskedFile | OutputTextPart


class InputMessage(Struct, frozen=True, kw_only=True, tag="message"):
    """Something that was said to the model, or by it in an earlier turn."""

    id: str
    role: Literal["user", "assistant", "developer"]
    content: tuple[AskedPart, ...]
    status: Literal["completed"] = "completed"


class EarlierCall(Struct, frozen=True, kw_only=True, tag="function_call"):
    """A call of an earlier turn that the client told of."""

    id: str
    call_id: str
    name: str
    arguments: str
    status: Literal["completed"] = "completed"


class EarlierOutput(Struct, frozen=True, kw_only=True, tag="function_call_output"):
    """What a call of an earlier turn returned."""

    id: str
    call_id: str
    output: str
    status: Literal["completed"] = "completed"


InputItem = InputMessage | EarlierCall | EarlierOutput


class ItemList(Struct, frozen=True, kw_only=True):
    """Items of a request, in the order that was asked for."""

    data: tuple[InputItem, ...]
    first_id: str | None
    last_id: str | None
    has_more: bool
    object: Literal["list"] = "list"


# ---- a response ------------------------------------------------------------------------------------------------------


class InputDetails(Struct, frozen=True, kw_only=True):
    """Of the tokens that were read: those that the provider had cached, and those that it cached then."""

    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputDetails(Struct, frozen=True, kw_only=True):
    """Of the tokens that were written, those of the model's reasoning."""

    reasoning_tokens: int = 0


class ResponseUsage(Struct, frozen=True, kw_only=True):
    """Tokens of every request to the model that the response took, its tools' turns included."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseFailure(Struct, frozen=True, kw_only=True):
    """Why there is no answer."""

    code: str
    message: str


class Incomplete(Struct, frozen=True, kw_only=True):
    """Why the answer is not whole."""

    reason: Literal["max_output_tokens", "max_messages", "content_filter"]


class ResponseRun(Struct, frozen=True, kw_only=True):
    """What Melete tells beside OpenAI's fields: the session, the last run, why it stopped, and the questions that are open."""

    session: str
    run: str
    stop: str | None = None
    steps: int = 0
    cost_usd: float | None = None
    error: str | None = None
    questions: tuple[Question, ...] = ()


class Response(Struct, frozen=True, kw_only=True):
    """A response: what was asked, how far it is, and what came of it."""

    id: str
    created_at: int
    completed_at: int | None
    status: Status
    background: bool
    error: ResponseFailure | None
    incomplete_details: Incomplete | None
    instructions: str | None
    max_output_tokens: int | None
    model: str
    output: tuple[OutputItem, ...]
    parallel_tool_calls: bool
    previous_response_id: str | None
    conversation: ConversationId | None
    reasoning: Reasoning
    store: bool
    temperature: float | None
    text: TextConfig
    top_p: float | None
    truncation: Literal["auto", "disabled"]
    usage: ResponseUsage | None
    user: str | None
    safety_identifier: str | None
    prompt_cache_key: str | None
    metadata: dict[str, str]
    melete: ResponseRun
    tool_choice: Literal["auto"] = "auto"
    tools: tuple[()] = ()
    service_tier: Literal["default"] = "default"
    object: Literal["response"] = "response"


class DeletedResponse(Struct, frozen=True, kw_only=True):
    """A response that cannot be had any more."""

    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True
