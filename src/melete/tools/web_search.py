"""Services that search the web, each a `WebSearch`: SearXNG, Brave, Tavily and Exa by their JSON, DuckDuckGo by its library.

Part: tools. A service with an interface of its own is a row: how it is asked, and where in its answer the hits stand.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from melete.core.errors import ConfigError
from melete.core.plugin import Lazy
from melete.core.ports import Fetched, Fetcher, Found
from melete.core.tool import ToolError

_ddgs: Lazy[Callable[..., Any]] = Lazy("ddgs:DDGS", extra="search")
LONGEST = 600
"""Characters of a hit's text."""
REFUSED = (401, 403)
BUSY = 429


class Service(Struct, frozen=True, kw_only=True):
    """How a service is asked: `query` and `count` are its names for both, `key_header` carries the key, after `key_prefix`.

    With `more` it is a POST of JSON that holds those fields too. `hits` is the path to the list in its answer, `text` the fields
    that may hold a hit's text, the best first.
    """

    url: str
    query: str
    count: str
    hits: tuple[str, ...]
    text: tuple[str, ...]
    most: int = 20
    key_header: str = ""
    key_prefix: str = ""
    fixed: Mapping[str, str] = {}
    more: Mapping[str, Any] | None = None


SERVICES: Mapping[str, Service] = {
    "searxng": Service(
        url="/search", query="q", count="", hits=("results",), text=("content",), fixed={"format": "json"}
    ),
    "brave": Service(
        url="https://api.search.brave.com/res/v1/web/search", query="q", count="count", hits=("web", "results"),
        text=("description",), key_header="X-Subscription-Token", fixed={"text_decorations": "false"},
    ),
    "tavily": Service(
        url="https://api.tavily.com/search", query="query", count="max_results", hits=("results",), text=("content",),
        key_header="Authorization", key_prefix="Bearer ", more={"search_depth": "basic"},
    ),
    "exa": Service(
        url="https://api.exa.ai/search", query="query", count="numResults", hits=("results",),
        text=("summary", "highlights", "text"), key_header="x-api-key", more={"contents": {"highlights": True}},
    ),
}  # fmt: skip


class JsonSearch:
    """A service of the table; `base` is its address where it is not the usual one, up to where the table's begins."""

    def __init__(self, name: str, fetch: Callable[[], Fetcher], *, key: str = "", base: str = "") -> None:
        self.name = name
        self._fetch = fetch
        self._key = key
        self._service = SERVICES[name]
        self._url = _below(base, self._service.url) if base else self._service.url

    async def search(self, query: str, *, limit: int) -> Sequence[Found]:
        """At most `limit` hits, the best first; raises ToolError."""
        answer = await self._asked(query, min(limit, self._service.most))
        if answer.status != 200:  # noqa: PLR2004 - what these services answer with
            raise ToolError(self._complaint(answer.status))
        try:
            node: Any = msgspec.json.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            hint = "; its settings must allow the format json" if self.name == "searxng" else ""
            raise ToolError(f"{self.name} answered with something that is no JSON{hint}") from error
        for step in self._service.hits:
            node = cast("dict[str, Any]", node).get(step) if isinstance(node, dict) else None
        rows = cast("list[Any]", node) if isinstance(node, list) else []
        return [found for row in rows if (found := self._found(row))][:limit]

    async def _asked(self, query: str, count: int) -> Fetched:
        service = self._service
        headers = {"accept": "application/json"}
        if service.key_header:
            headers[service.key_header] = service.key_prefix + self._key
        fields: dict[str, Any] = {service.query: query, **({service.count: count} if service.count else {})}
        if service.more is None:
            return await self._fetch().get(f"{self._url}?{urlencode({**fields, **service.fixed})}", headers=headers)
        headers["content-type"] = "application/json"
        body = msgspec.json.encode({**fields, **service.more})
        return await self._fetch().get(self._url, headers=headers, body=body)

    def _found(self, row: Any) -> Found | None:
        if not isinstance(row, dict):
            return None
        fields = cast("dict[str, Any]", row)
        url = fields.get("url")
        if not isinstance(url, str) or not url:
            return None
        text = next((fields[name] for name in self._service.text if fields.get(name)), "")
        joined = " … ".join(map(str, cast("list[Any]", text))) if isinstance(text, list) else str(text)
        return Found(title=_line(str(fields.get("title") or "")), url=url, text=_line(joined))

    def _complaint(self, status: int) -> str:
        if status in REFUSED:
            fix = "its settings must allow the format json" if self.name == "searxng" else "its key is not accepted"
        else:
            fix = "it has been asked too often; wait, or search less" if status == BUSY else "try again later"
        return f"{self.name} answers with status {status}: {fix}"


class DuckDuckGo:
    """DuckDuckGo through its library, which has a client of its own: it connects to that search engine only."""

    name = "duckduckgo"

    def __init__(self, *, proxy: str = "") -> None:
        self._proxy = proxy or None

    async def search(self, query: str, *, limit: int) -> Sequence[Found]:
        """At most `limit` hits, the best first; raises ToolError."""
        return await asyncio.to_thread(self._search, query, limit)

    def _search(self, query: str, limit: int) -> Sequence[Found]:
        try:
            with _ddgs.load()(proxy=self._proxy, timeout=15) as client:
                rows: list[dict[str, Any]] = client.text(query, backend="duckduckgo", max_results=limit)
        except ConfigError as error:
            raise ToolError(str(error)) from error
        except Exception as error:  # the library raises what its transport raises
            if "No results" in str(error):
                return []
            raise ToolError(f"duckduckgo could not be searched: {error}") from error
        return [
            Found(title=_line(row.get("title", "")), url=row["href"], text=_line(row.get("body", "")))
            for row in rows
            if row.get("href")
        ]


def _below(base: str, url: str) -> str:
    """The path of a service's usual address below another one, which may end with it already."""
    path = re.sub(r"^https://[^/]+", "", url)
    return base.rstrip("/").removesuffix(path) + path


def _line(text: str) -> str:
    """A text on one line, without markup, cut where it is long."""
    plain = " ".join(re.sub(r"</?[a-zA-Z][^>]{0,200}>", "", text).split())
    return plain if len(plain) <= LONGEST else plain[:LONGEST] + "…"
