"""The `anthropic-messages` wire: POST …/v1/messages, streamed. Part: models; `open_model` is what the catalogue names."""

import msgspec

from melete.core.model import ModelClient
from melete.models.adapter import STRICTER, Complaint, Format, WireModel
from melete.models.anthropic_reply import ReplyAssembler
from melete.models.anthropic_request import WIRE, RequestEncoder
from melete.models.spec import ModelSpec, Quirks, endpoint

PATH = "/messages"
VERSION = "2023-06-01"
"""Newer versions refuse fields that older models and other servers of this wire still want; this one is kept working."""

# A later row is reached where an earlier one has nothing new to try; what is most exact comes first.
COMPLAINTS: tuple[Complaint, ...] = (
    (r"\btemperature\b", "temperature", (False,)),
    (
        r"max_tokens\b.{0,80}?(?:>|<=|at most|less than or equal to|maximum (?:value )?(?:is|of)|up to|\[1, ?)"
        r"\s*(?P<limit>\d[\d,]*)",
        "most_output",
        (),
    ),
    (r"\btool_choice\b", "tool_choice", (False,)),
    (r"\bcache_control\b", "cache_markers", (False,)),
    STRICTER,
    (r"expected .?thinking.{0,60}but found", "effort", ("none",)),
    (
        r"\bsignature\b|blocks?\b.{0,80}cannot be modified"
        r"|messages\.\d+\.content\.\d+.{0,120}(extra inputs|not permitted|unexpected|input tag|unknown variant)",
        "replay",
        (False,),
    ),
    (r"thinking\.type\.enabled\W{0,3}\s*is not supported|use \W?thinking\.type\.adaptive", "effort", ("adaptive",)),
    (
        r"output_config\.format|output_format|json_schema|structured outputs?|compiled grammar",
        "answer",
        ("prompt",),
    ),
    (r"\bdisplay\b|\beffort\b|\boutput_config\b", "effort", ("adaptive_bare", "thinking_budget", "none")),
    (r"\badaptive\b|\bthinking\b|\bbudget_tokens\b", "effort", ("thinking_budget", "none")),
    (r"\boutput_config\b", "answer", ("prompt",)),
)

FORMAT = Format(
    name=WIRE,
    url=lambda spec: endpoint(spec.base_url, PATH, version="/v1"),
    encoder=RequestEncoder,
    assembler=lambda taken, provider: ReplyAssembler(taken=taken, provider=provider),
    complaints=COMPLAINTS,
    key_header="x-api-key",
    headers={"anthropic-version": VERSION},
)


def open_model(spec: ModelSpec) -> ModelClient:
    """An adapter for the model; connects at the first request. Raises ConfigError for a URL or key that cannot be used."""
    return WireModel(msgspec.structs.replace(spec, quirks=_own(spec.quirks)), FORMAT)


def _own(quirks: Quirks) -> Quirks:
    """The dialect with what is usual on this wire in place of what is usual elsewhere: it caches only what is marked."""
    effort = quirks.effort if quirks.effort in ("adaptive_bare", "thinking_budget", "none") else "adaptive"
    return msgspec.structs.replace(quirks, effort=effort, cache_markers=True)
