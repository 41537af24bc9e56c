"""What the tools of the web are given: the client, and the service that searches. Part of the composition root."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit

from melete.app.settings import Loaded
from melete.app.sizes import size_of
from melete.app.vendors import proxy_for
from melete.core.errors import ConfigError
from melete.core.plugin import Lazy
from melete.core.ports import Fetcher, WebSearch

_fetcher: Lazy[Callable[..., Fetcher]] = Lazy("melete.net.fetch:PinnedFetcher")
_dialer: Lazy[Callable[..., Any]] = Lazy("melete.net.dial:dialer_for")
_json: Lazy[Callable[..., WebSearch]] = Lazy("melete.tools.web_search:JsonSearch")
_duckduckgo: Lazy[Callable[..., WebSearch]] = Lazy("melete.tools.web_search:DuckDuckGo")
_networks: Lazy[Callable[..., tuple[list[Any], list[str]]]] = Lazy("melete.security.urls:networks")
SETTING = "web.private_networks"
KEYS = {"brave": "BRAVE_API_KEY", "tavily": "TAVILY_API_KEY", "exa": "EXA_API_KEY"}
"""The variable that holds a service's key."""


def fetcher(loaded: Loaded, *own: str) -> Callable[[], Fetcher]:
    """Opens the one client of the web; `own` are beginnings of addresses that the person named. Raises ConfigError."""
    web = loaded.settings.web
    trusted, unreadable = _networks.load()(web.private_networks) if web.private_networks else ([], [])
    if unreadable:
        raise ConfigError(
            f"{SETTING} holds {unreadable[0]!r}, which is no network", next="write ADDRESS or ADDRESS/BITS"
        )

    @cache
    def opened() -> Fetcher:
        dial = _dialer.load()(loaded.environ, web.private_networks, setting=SETTING)
        certificates = loaded.variables.get("SSL_CERT_FILE", "")
        return _fetcher.load()(dial, trusted=trusted, own=own, ca_file=certificates)

    return opened


def web_parts(loaded: Loaded) -> dict[str, Any]:
    """The arguments of `WebTools`; raises ConfigError for a service that is chosen and cannot be used, or a wrong network."""
    web = loaded.settings.web
    return {
        "fetch": fetcher(loaded),
        "search": _search(loaded, partial(fetcher, loaded)),
        "limit": size_of(web.max_size, where="web.max_size"),
        "timeout": web.timeout,
    }


def _search(loaded: Loaded, opener: Callable[[str], Callable[[], Fetcher]]) -> WebSearch | None:
    """The service that is chosen, else the first for which there is an address or a key."""
    web, variables = loaded.settings.web, loaded.variables
    address = web.search_url or variables.get("SEARXNG_URL", "")
    if address and not address.startswith(("http://", "https://")):
        raise ConfigError(
            f"the address of the search service, {address!r}, is no URL", next="such as http://127.0.0.1:8888"
        )
    name = web.search
    if name == "auto":
        keyed = next((name for name, variable in KEYS.items() if variables.get(variable, "").strip()), "off")
        name = "searxng" if address else keyed
    if name == "off":
        return None
    if name == "duckduckgo":
        return _duckduckgo.load()(proxy=proxy_for(urlsplit("https://duckduckgo.com"), variables))
    if name == "searxng":
        if not address:
            raise ConfigError("web.search is searxng, but its address is not known", next="set web.search_url")
        return _json.load()(name, opener(address), base=address)
    key = variables.get(KEYS[name], "").strip()
    if not key:
        raise ConfigError(f"web.search is {name}, but its key is missing", next=f"set {KEYS[name]} in .env")
    return _json.load()(name, opener(web.search_url), key=key, base=web.search_url)
