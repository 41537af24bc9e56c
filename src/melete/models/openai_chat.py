"""The `openai-chat` wire: POST …/chat/completions, streamed. Part: models; `open_model` is what the catalogue names."""

from melete.core.model import ModelClient
from melete.models.adapter import STRICTER, Complaint, Format, WireModel
from melete.models.openai_reply import ReplyAssembler
from melete.models.openai_request import WIRE, RequestEncoder
from melete.models.spec import ModelSpec, endpoint

PATH = "/chat/completions"

COMPLAINTS: tuple[Complaint, ...] = (
    (r"max_completion_tokens", "max_tokens", ("max_completion_tokens", "max_tokens")),
    (r"stream_options|include_usage", "stream_options", (False,)),
    (r"\btemperature\b", "temperature", (False,)),
    (r"\btool_choice\b", "tool_choice", (False,)),
    (r"\breasoning[_. ]?effort\b", "effort", ("none",)),
    (r"\bprompt_cache_key\b", "cache_key", (False,)),
    (r"\bcache_control\b", "cache_markers", (False,)),
    STRICTER,
    (r"tool.?call.?id\b.{0,160}\blength of 9", "short_ids", (True,)),
    (r"role .?user\W{1,3}after role .?tool\b", "bridged", (True,)),
    (
        r"\breasoning_content\b.{0,80}\b(missing|required|must be (passed|provided|included))|missing\W{1,3}reasoning_content\b",
        "reasoning_back",
        (True,),
    ),
    (r"\breasoning_content\b(?!.*\b(must be|missing|required)\b)", "reasoning_back", (False,)),
    (
        r"(extra|additional|unknown|unsupported|unrecognized|unexpected)\b.{0,60}\b(field|propert|input|parameter|argument)"
        r"|\bmessages\b.{0,80}(not permitted|not allowed|not supported|unsupported|forbidden)|extra_forbidden"
        r"|reasoning_(content|details)\b(?!.*\b(must be|missing|required)\b)",
        "replay",
        (False,),
    ),
)

FORMAT = Format(
    name=WIRE,
    url=lambda spec: endpoint(spec.base_url, PATH),
    encoder=RequestEncoder,
    assembler=lambda taken, provider: ReplyAssembler(taken=taken, provider=provider),
    complaints=COMPLAINTS,
)


def open_model(spec: ModelSpec) -> ModelClient:
    """An adapter for the model; connects at the first request. Raises ConfigError for a URL or key that cannot be used."""
    return WireModel(spec, FORMAT)
