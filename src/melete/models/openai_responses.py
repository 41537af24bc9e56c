"""The `openai-responses` wire: POST …/responses, streamed, nothing stored. Part: models; the catalogue names `open_model`."""

from melete.core.model import ModelClient
from melete.models.adapter import STRICTER, Complaint, Format, WireModel
from melete.models.responses_reply import ReplyAssembler
from melete.models.responses_request import WIRE, RequestEncoder
from melete.models.spec import ModelSpec, endpoint

PATH = "/responses"

COMPLAINTS: tuple[Complaint, ...] = (
    (
        r"max_(?:output_|completion_)?tokens\b.*?(?:at most|<=|less than or equal to|maximum)\D{0,20}(?P<limit>\d[\d,]*)",
        "most_output",
        (),
    ),
    (
        r"(unsupported|unknown|unrecognized|not supported|unexpected)\b.{0,60}\bmax_output_tokens",
        "max_tokens",
        ("none",),
    ),
    (r"reasoning\.(generate_)?summary|reasoning summar", "summary", (False,)),
    (r"reasoning[._]?effort|(parameter|argument|field)\w*\W{1,3}reasoning\b", "effort", ("none",)),
    (
        r"encrypted content is not supported|reasoning\.encrypted_content"
        r"|(parameter|argument|field)\w*\W{1,3}include\b|'include(\[\d+\])?'",
        "encrypted",
        (False,),
    ),
    (r"\btemperature\b", "temperature", (False,)),
    (r"\btool_choice\b", "tool_choice", (False,)),
    (r"\bprompt_cache_key\b", "cache_key", (False,)),
    (
        r"output of tool call|function_call_output.{0,80}(string|text|image|content|support)|\binput\[\d+\]\.output\b"
        r"|invalid type for 'input'",
        "result_images",
        (False,),
    ),
    STRICTER,
    (
        r"\bitems? .{0,120}(not found|not persisted|required|duplicate)|duplicate item|\binput\[\d+\]\.id\b",
        "item_ids",
        (False,),
    ),
    (
        r"encrypted.content|\brs_\w+|\bof type '?reasoning\b|\breasoning (item|content|block)|signature"
        r"|(extra|additional|unknown|unsupported|unrecognized|unexpected)\b.{0,60}\b(field|propert|input|parameter|argument)"
        r"|\binput\[\d+\]|\bitem\[|type of 'item'|invalid type for 'input|extra_forbidden",
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
