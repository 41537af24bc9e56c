"""What an adapter is told about the model behind it: values that settings and the catalogue fill in. Part: models."""

import re
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from melete.core.model import Capabilities

LOCAL_WINDOW = 8192
"""The window in tokens of a model in this process, where none is set: the cache of a larger one takes memory, used or not."""


class Timeouts(Struct, frozen=True, kw_only=True):
    """The watchdogs of one request, in seconds.

    `first_token` and `between_tokens` bound the silence before and after the first token. A server that sends keep-alives
    instead of tokens is not silent; `patience` bounds how long that may go on. `tail` is the wait for the end of a stream
    whose answer is already complete.
    """

    connect: float = 10.0
    first_token: float = 120.0
    between_tokens: float = 60.0
    patience: float = 900.0
    tail: float = 5.0


class Quirks(Struct, frozen=True, kw_only=True):
    """How a server's dialect of the wire differs from the common one.

    `replay` sends a model's own messages back with every field that came with them; without it they are rebuilt from
    their parts. `ascii` escapes all other characters and drops control characters. `extra` is added to every request.
    `key_header` names the header of the key where it is not the wire's own; `authorization` takes the key as a bearer token.
    `cache_markers` marks what the server shall cache, for servers that do so only when told. Without `images` a note stands in
    the place of each. `most_output` is the most tokens
    of output that may be asked for, 0 for no such limit. The Responses API alone knows these: `summary` asks for readable
    reasoning along with an effort, `encrypted` for the sealed form of it, `item_ids` replays items under the ids that the
    server gave them, `result_images` puts a result's images into the result. Gemini alone knows these: `thinking_level` and
    `thinking_budget` as ways to say the effort, `schemas` in full or cut down to OpenAPI's, `schema_beside_tools` gives an
    answer's schema its own field even where there are tools, `dummy_signatures` signs calls that another model made.
    Chat Completions alone knows these: `reasoning_back` puts the field `reasoning_content` into each of the model's messages,
    `short_ids` names calls by nine letters and digits, `bridged` puts a message of the model between a result and a user's.
    The Messages API alone knows `adaptive` thinking (`adaptive_bare` with no field beside it), and `answer`, which asks for a
    structured answer by its schema or in words.
    """

    max_tokens: Literal["max_tokens", "max_completion_tokens", "none"] = "max_tokens"
    effort: Literal[
        "reasoning_effort", "reasoning", "thinking_level", "thinking_budget", "none", "adaptive", "adaptive_bare"
    ] = "reasoning_effort"
    answer: Literal["schema", "prompt"] = "schema"
    cache_key: bool = False
    stream_options: bool = True
    temperature: bool = True
    tool_choice: bool = True
    replay: bool = True
    ascii: bool = False
    key_header: str = ""
    cache_markers: bool = False
    images: bool = True
    most_output: int = 0
    summary: bool = True
    encrypted: bool = True
    item_ids: bool = True
    result_images: bool = True
    schemas: Literal["json", "openapi"] = "json"
    schema_beside_tools: bool = True
    dummy_signatures: bool = False
    reasoning_back: bool = False
    short_ids: bool = False
    bridged: bool = False
    extra: dict[str, Any] = {}


class ModelSpec(Struct, frozen=True, kw_only=True):
    """One model at one address.

    `key_variable` is the variable that a message about a wrong key names; `proxy` is the URL of the proxy for this address,
    empty for none; `ca_file` holds further certificates to trust. `cache_ttl` is how long a marked prompt stays cached, where
    the wire lets us choose; `service_tier` is passed through.
    """

    model: str
    base_url: str
    provider: str = ""
    wire: str = "openai-chat"
    api_key: str = ""
    key_variable: str = "MELETE_API_KEY"
    headers: dict[str, str] = {}
    can: Capabilities = Capabilities()
    timeouts: Timeouts = Timeouts()
    quirks: Quirks = Quirks()
    proxy: str = ""
    ca_file: str = ""
    cache_ttl: Literal["5m", "1h"] = "5m"
    service_tier: str = ""

    @property
    def vendor(self) -> str:
        """The provider's name, or the host of the base URL where there is none."""
        return self.provider or urlsplit(self.base_url).hostname or self.base_url

    @property
    def via(self) -> str:
        """The proxy's URL; one that was given without a scheme is an http proxy, as everywhere."""
        return self.proxy if not self.proxy or "://" in self.proxy else f"http://{self.proxy}"


def endpoint(base_url: str, path: str, *, version: str = "") -> str:
    """The URL of `path` under a base URL; a base URL that already ends with the path stays, a query is kept.

    `version`, such as `/v1`, goes in between unless the base URL ends with a version of its own.
    """
    parts = urlsplit(base_url.strip())
    root = parts.path.rstrip("/")
    if not root.endswith(path):
        own = re.search(r"/v\d+\w*$", root)
        root += path if own else version + path
    return urlunsplit((parts.scheme, parts.netloc, root, parts.query, ""))


def shown(url: str) -> str:
    """The URL as messages may show it: without user, password, query and fragment, where keys hide."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
