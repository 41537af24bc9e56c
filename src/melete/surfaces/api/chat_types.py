"""The bodies of `/v1/chat/completions` as OpenAI has them: what may be asked, and what is answered, whole or in chunks."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

MOST = 2**31 - 1
Tokens = Annotated[int, Meta(ge=1, le=MOST)]
Words = Annotated[str, Meta(extra_json_schema={"pattern": r"\S"})]
DataUrl = Annotated[
    str,
    Meta(
        description="`data:image/png;base64,…`: a PNG, JPEG, GIF or WebP. Addresses of pictures elsewhere are not fetched.",
        extra_json_schema={"pattern": r"^data:image/(png|jpeg|gif|webp);base64,([A-Za-z0-9+/]{4})+$"},
    ),
]
LEFT_OUT = Meta(description="Taken and left out of account: tools run on the server's side.")
WITHOUT_EFFECT = (
    "frequency_penalty", "functions", "metadata", "parallel_tool_calls", "prediction", "presence_penalty", "prompt_cache_retention",
    "seed", "service_tier", "store", "tools", "top_p", "verbosity",
)  # fmt: skip
"""Fields of OpenAI's that are taken and change nothing; an answer names those that were given."""

# ---- what is asked -----------------------------------------------------------------------------------------------------------


class TextPart(Struct, frozen=True, tag="text"):
    """Words."""

    text: Words


class InputText(Struct, frozen=True, tag="input_text"):
    """Words, as the Responses API calls them."""

    text: Words


class OutputText(Struct, frozen=True, tag="output_text"):
    """The model's words, as the Responses API calls them."""

    text: str


class Refusal(Struct, frozen=True, tag="refusal"):
    """The model's words when it refused."""

    refusal: str


class ImageUrl(Struct, frozen=True):
    """A picture; `detail` has no effect."""

    url: DataUrl
    detail: str | None = None


class ImagePart(Struct, frozen=True, tag="image_url"):
    """A picture."""

    image_url: ImageUrl | DataUrl


class InputImage(Struct, frozen=True, tag="input_image"):
    """A picture, as the Responses API calls it."""

    image_url: DataUrl
    detail: str | None = None


class Sound(Struct, frozen=True):
    """A sound as base64."""

    data: Annotated[str, Meta(extra_json_schema={"pattern": r"^([A-Za-z0-9+/]{4})+$"})]
    format: Literal["wav", "mp3"]


class AudioPart(Struct, frozen=True, tag="input_audio"):
    """A sound, for models that listen."""

    input_audio: Sound


class Document(Struct, frozen=True):
    """A document as a data URL; files that were uploaded before are not known here."""

    file_data: Annotated[str, Meta(extra_json_schema={"pattern": r"^data:application/pdf;base64,([A-Za-z0-9+/]{4})+$"})]
    filename: str = "document"


class FilePart(Struct, frozen=True, tag="file"):
    """A document, for models that read them."""

    file: Document


UserPart = TextPart | InputText | ImagePart | InputImage | AudioPart | FilePart
AssistantPart = TextPart | OutputText | Refusal
PlainPart = TextPart | InputText


class SystemMessage(Struct, frozen=True, tag_field="role", tag="system"):
    """Instructions, wherever they stand: all of them are joined and go into the system prompt."""

    content: str | tuple[PlainPart, ...]


class DeveloperMessage(Struct, frozen=True, tag_field="role", tag="developer"):
    """Instructions, as newer clients call them."""

    content: str | tuple[PlainPart, ...]


class UserMessage(Struct, frozen=True, tag_field="role", tag="user"):
    """What the person said; `name` tells several apart."""

    content: Words | Annotated[tuple[UserPart, ...], Meta(extra_json_schema={"minItems": 1})]
    name: str | None = None


class FunctionCall(Struct, frozen=True):
    """A function's name, and its arguments as JSON text."""

    name: str
    arguments: str = ""


class CallMade(Struct, frozen=True):
    """A call that the model made in an earlier turn."""

    id: str
    function: FunctionCall
    type: Literal["function"] = "function"


class AssistantMessage(Struct, frozen=True, tag_field="role", tag="assistant"):
    """What the model said in an earlier turn."""

    content: str | tuple[AssistantPart, ...] | None = None
    refusal: str | None = None
    tool_calls: tuple[CallMade, ...] | None = None
    name: str | None = None


class ToolMessage(Struct, frozen=True, tag_field="role", tag="tool"):
    """What a call of an earlier turn returned."""

    tool_call_id: str
    content: str | tuple[PlainPart, ...]


ChatMessage = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage


class StreamOptions(Struct, frozen=True):
    """What a stream tells beside the answer."""

    include_usage: bool | None = None


class PlainFormat(Struct, frozen=True, tag="text"):
    """An answer in words."""


class JsonFormat(Struct, frozen=True, tag="json_object"):
    """An answer that is a JSON object."""


class NamedSchema(Struct, frozen=True):
    """A JSON Schema; `name` and `strict` have no effect: the answer is always checked."""

    schema: dict[str, Any]
    name: str = "answer"
    description: str | None = None
    strict: bool | None = None


class SchemaFormat(Struct, frozen=True, tag="json_schema"):
    """An answer that follows a JSON Schema."""

    json_schema: NamedSchema


class ChatRequest(Struct, frozen=True, kw_only=True):
    """A chat completion as OpenAI's clients ask for one. Fields without a bound below, and all that are not listed, have no effect.

    Tools run on the server's side: those of a request are left out of account.
    """

    messages: Annotated[
        tuple[ChatMessage, ...],
        Meta(
            extra_json_schema={
                "minItems": 1,
                "contains": {"properties": {"role": {"const": "user"}}, "required": ["role"]},
            }
        ),
    ]
    model: Annotated[
        str | None, Meta(description="`melete`, or nothing, is the server's own; else `[PROVIDER/]NAME`.")
    ] = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_completion_tokens: Tokens | None = None
    max_tokens: Tokens | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    response_format: PlainFormat | JsonFormat | SchemaFormat | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    n: Annotated[Any, Meta(extra_json_schema={"enum": [None, 1]})] = None
    tools: Annotated[tuple[Any, ...] | None, LEFT_OUT] = None
    functions: Annotated[tuple[Any, ...] | None, LEFT_OUT] = None
    tool_choice: Annotated[Any, Meta(extra_json_schema={"enum": ["none", "auto", None]})] = None
    function_call: Annotated[Any, Meta(extra_json_schema={"enum": ["none", "auto", None]})] = None
    stop: Annotated[str | tuple[str, ...] | None, Meta(extra_json_schema={"enum": [None, "", []]})] = None
    logprobs: Annotated[bool | None, Meta(extra_json_schema={"enum": [None, False]})] = None
    top_logprobs: Annotated[int | None, Meta(extra_json_schema={"enum": [None, 0]})] = None
    logit_bias: Annotated[dict[str, Any] | None, Meta(extra_json_schema={"maxProperties": 0})] = None
    modalities: Annotated[tuple[str, ...] | None, Meta(extra_json_schema={"enum": [None, ["text"]]})] = None
    audio: Annotated[Any, Meta(extra_json_schema={"enum": [None]})] = None
    web_search_options: Annotated[Any, Meta(extra_json_schema={"enum": [None]})] = None
    frequency_penalty: Any = None
    metadata: Any = None
    parallel_tool_calls: Any = None
    prediction: Any = None
    presence_penalty: Any = None
    prompt_cache_retention: Any = None
    seed: Any = None
    service_tier: Any = None
    store: Any = None
    top_p: Any = None
    verbosity: Any = None


# ---- what is answered --------------------------------------------------------------------------------------------------------


class PromptDetails(Struct, frozen=True, kw_only=True):
    """Of the tokens that were read, those that the provider had cached."""

    cached_tokens: int = 0
    audio_tokens: int = 0


class CompletionDetails(Struct, frozen=True, kw_only=True):
    """Of the tokens that were written, those of the model's reasoning."""

    reasoning_tokens: int = 0
    audio_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class ChatUsage(Struct, frozen=True, kw_only=True):
    """Tokens of every request to the model that the answer took, its tools' turns included."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails


class Ran(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What Melete tells beside OpenAI's fields: the run, why it stopped, and what it cost."""

    session: str
    run: str
    stop: str
    steps: int
    cost_usd: float | None = None
    error: str | None = None


class AnswerMessage(Struct, frozen=True, kw_only=True):
    """The answer; `reasoning_content` is what the model showed of its reasoning."""

    content: str
    role: Literal["assistant"] = "assistant"
    refusal: str | None = None
    reasoning_content: str | msgspec.UnsetType = msgspec.UNSET


Finish = Literal["stop", "length", "content_filter"]


class Choice(Struct, frozen=True, kw_only=True):
    """The one answer, and why it ends."""

    message: AnswerMessage
    finish_reason: Finish
    index: int = 0
    logprobs: None = None


class ChatCompletion(Struct, frozen=True, kw_only=True):
    """A whole answer."""

    id: str
    created: int
    model: str
    choices: tuple[Choice, ...]
    usage: ChatUsage
    melete: Ran
    object: Literal["chat.completion"] = "chat.completion"


class Delta(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a chunk adds."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None


class ChunkChoice(Struct, frozen=True, kw_only=True):
    """What a chunk adds to the one answer; the last has the reason why it ends."""

    delta: Delta
    finish_reason: Finish | None = None
    index: int = 0
    logprobs: None = None


class Happened(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something beside the text: the `type` of an event and its `seq`, under which `/v1/runs/{id}/events` has all of it.

    With `text.void`, the last `void` characters that were sent do not count any more; with `run.ended`, `ran` says how it went.
    """

    type: str
    seq: int
    call: str = ""
    name: str = ""
    arguments: str = ""
    outcome: str = ""
    seconds: float | None = None
    question: str = ""
    text: str = ""
    choices: tuple[str, ...] = ()
    void: int = 0
    ran: Ran | None = None


class ChatChunk(Struct, frozen=True, kw_only=True):
    """A piece of a streamed answer; `melete` is there where something else happened, and in the last one."""

    id: str
    created: int
    model: str
    choices: tuple[ChunkChoice, ...]
    usage: ChatUsage | msgspec.UnsetType | None = msgspec.UNSET
    melete: Happened | msgspec.UnsetType = msgspec.UNSET
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
