"""`web_search` and `web_extract`: the web through the one judged client. Part: tools.

What they bring is marked as coming from the web, and each text stands beside the address that it came from.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from melete.core.plugin import Lazy
from melete.core.ports import Fetched, Fetcher, WebSearch
from melete.core.tool import Output, Tool, ToolContext, ToolError, tool
from melete.security.taint import spilled_name

if TYPE_CHECKING:
    from melete.tools.web_text import Page

_readable: "Lazy[Callable[[Fetched], Page]]" = Lazy("melete.tools.web_text:readable")
MOST_URLS = 10
MOST_HITS = 20
USUAL, FEWEST = 20_000, 500
"""Characters of a page: without a `char_limit`, and at least."""
SHARE = 0.75
"""Of a result's longest, what pages may fill: JSON writes some characters as two."""
NAMED = 300
OK = range(200, 300)
Open = Callable[[], Fetcher]


def web_extract(fetch: Open | None, *, limit: int, timeout: float) -> Tool:
    """The tool `web_extract` over a client, which is opened when it is first needed; without one it only shows its schema."""

    @tool(name="web_extract", parallel=True, limit=100_000, deadline=120.0, reaches=_reached)
    async def extract(ctx: ToolContext, *, urls: list[str], char_limit: int = 0) -> Output:
        """Read web pages and PDFs as Markdown, several at once. char_limit: most characters of each."""
        wanted = list(dict.fromkeys(url.strip() for url in urls if url.strip()))
        if not 0 < len(wanted) <= MOST_URLS:
            raise ToolError(f"give 1 to {MOST_URLS} urls, not {len(wanted)}")
        if fetch is None:
            raise ToolError("the web is not to be had here")
        room = int(ctx.tool.limit * SHARE) // len(wanted)
        most = max(FEWEST, min(char_limit if char_limit > 0 else USUAL, room))
        client = fetch()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_page(client, url, limit=limit, timeout=timeout)) for url in wanted]
        rows = [
            await _shown(ctx, url, task.result(), most=most, number=number)
            for number, (url, task) in enumerate(zip(wanted, tasks, strict=True), 1)
        ]
        good = any("error" not in row for row in rows)
        return Output(fields={"success": good, "results": rows}, taint="web", failed=not good)

    return extract


def web_search(search: WebSearch | None) -> Tool:
    """The tool `web_search` over a service; without one it only shows its schema."""

    @tool(name="web_search", parallel=True, limit=30_000, deadline=60.0)
    async def find(ctx: ToolContext, *, query: str, limit: int = 5) -> Output:  # noqa: ARG001 - as every tool
        """Search the web; read what looks useful with web_extract."""
        if not query.strip():
            raise ToolError("query is empty")
        if search is None:
            raise ToolError("no service to search the web is configured")
        hits = await search.search(query.strip(), limit=min(max(limit, 1), MOST_HITS))
        rows = [{"title": hit.title, "url": hit.url, "snippet": hit.text} for hit in hits]
        none = {} if rows else {"hint": "nothing was found: use other or fewer words"}
        return Output(fields={"success": True, "source": search.name, "results": rows, **none}, taint="web")

    return find


def _reached(arguments: Any) -> Sequence[str]:
    return [url.strip() for url in arguments.urls]


class WebTools:
    """The web: reading pages, and searching where a service is configured. Without arguments it only shows its schemas."""

    name = "web"

    def __init__(
        self,
        fetch: Open | None = None,
        search: WebSearch | None = None,
        *,
        limit: int = 10_000_000,
        timeout: float = 30.0,
    ) -> None:
        self._extract = web_extract(fetch, limit=limit, timeout=timeout)
        self._search = web_search(search) if search is not None or fetch is None else None

    def available(self) -> bool:
        """Always: what an address or a service lacks, the result says."""
        return True

    def open(self) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """The tools; nothing has to be started or ended for them."""
        return nullcontext([tool for tool in (self._search, self._extract) if tool])


async def _page(fetch: Fetcher, url: str, *, limit: int, timeout: float) -> "tuple[Fetched, Page] | ToolError":
    """A page and what can be read of it, or why there is none."""
    try:
        fetched = await fetch.get(url, limit=limit, timeout=timeout)
        if fetched.status not in OK:
            return ToolError(f"the server answers with status {fetched.status}")
        return fetched, await asyncio.to_thread(_readable.load(), fetched)
    except ToolError as error:
        return error


async def _shown(
    ctx: ToolContext, url: str, page: "tuple[Fetched, Page] | ToolError", *, most: int, number: int
) -> dict[str, Any]:
    """A page as the model reads it: the beginning, and where the rest is."""
    if isinstance(page, ToolError):
        return {"url": url[:NAMED], "error": str(page)}
    fetched, read = page
    row: dict[str, Any] = {"url": url, "title": read.title[:NAMED], "content": read.text[:most]}
    if fetched.url != url:
        row["came_from"] = fetched.url
    if read.note:
        row["note"] = read.note
    if len(read.text) > most:
        path = await ctx.spill(spilled_name(f"{ctx.call_id}-{number}-page.md", "web"), read.text)
        row["more"] = f"{most} of {len(read.text)} characters; all of it is in {path}"
    return row
