"""The `gemini` wire: POST …/v1beta/models/NAME:streamGenerateContent?alt=sse. Part: models; the catalogue names `open_model`.

A server that overlooks `alt=sse` answers with a JSON list of the same chunks: it is read as well, but shows nothing before
its end.
"""

import re
from urllib.parse import quote, urlsplit, urlunsplit

from melete.core.model import ModelClient
from melete.models.adapter import STRICTER, Complaint, Format, WireModel
from melete.models.gemini_reply import ReplyAssembler
from melete.models.gemini_request import WIRE, RequestEncoder
from melete.models.spec import ModelSpec, endpoint

METHOD = ":streamGenerateContent"
PLACES = ("models/", "tunedModels/", "publishers/")
_VERSION = r"/v\d\w*(/|$)"

COMPLAINTS: tuple[Complaint, ...] = (
    (r"missing (a )?`?thought_?signature", "dummy_signatures", (True,)),
    (r"thought.?signature", "replay", (False,)),
    (r"thinking.?level", "effort", ("thinking_budget", "none")),
    (r"\bthinking|include_?thoughts", "effort", ("none",)),
    (r"with a response mime type", "schema_beside_tools", (False,)),
    (
        r"(parameters|response)_?json_?schema|function_?declarations?\b.{0,120}\b(schema|parameters|propert)",
        "schemas",
        ("openapi",),
    ),
    (r"\btemperature\b", "temperature", (False,)),
    (r"function.?calling.?(config|mode)|tool_?config", "tool_choice", (False,)),
    (r"max_?output_?tokens.{0,200}?\bto (?P<limit>\d+)", "most_output", ()),
    STRICTER,
    (r"unknown name \W*\w+\W* at \W*contents", "replay", (False,)),
)


def url(spec: ModelSpec) -> str:
    """Where the model answers; `models/` goes before a name that does not say where it stands itself."""
    name = spec.model if spec.model.startswith(PLACES) else f"models/{spec.model}"
    version = "" if re.search(_VERSION, urlsplit(spec.base_url).path) else "/v1beta"
    parts = urlsplit(endpoint(spec.base_url, f"/{quote(name, safe='/@')}{METHOD}", version=version))
    wanted = "" if "alt=" in parts.query else "alt=sse"
    query = "&".join(filter(None, (parts.query, wanted)))
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))


FORMAT = Format(
    name=WIRE,
    url=url,
    encoder=RequestEncoder,
    assembler=lambda taken, provider: ReplyAssembler(taken=taken, provider=provider),
    complaints=COMPLAINTS,
    key_header="x-goog-api-key",
)


def open_model(spec: ModelSpec) -> ModelClient:
    """An adapter for the model; connects at the first request. Raises ConfigError for a URL or key that cannot be used."""
    return WireModel(spec, FORMAT)
