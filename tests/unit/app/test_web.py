"""What the web's tools are given: the service that is chosen or for which there is an address or a key, and clear refusals."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.talking import talk

from melete import load
from melete.app.web import web_parts
from melete.core.errors import ConfigError
from melete.core.event import ToolEnded
from melete.core.tool import ToolError
from melete.testing import Call, Say, ScriptedModel

AUTO: Mapping[str, Any] = {}


def parts(home: Path, variables: Mapping[str, str] = AUTO, **flags: Any) -> dict[str, Any]:
    given = {f"web.{name}": value for name, value in flags.items()}
    return web_parts(load(given, environ={"HOME": str(home), **variables}))


@pytest.mark.parametrize(
    ("variables", "flags", "name"),
    (
        ({}, {}, ""),
        ({"BRAVE_API_KEY": "k"}, {}, "brave"),
        ({"TAVILY_API_KEY": "k"}, {}, "tavily"),
        ({"EXA_API_KEY": "k", "BRAVE_API_KEY": " "}, {}, "exa"),
        ({"EXA_API_KEY": "k", "SEARXNG_URL": "http://127.0.0.1:8888"}, {}, "searxng"),
        ({"EXA_API_KEY": "k", "BRAVE_API_KEY": "k"}, {"search": "exa"}, "exa"),
        ({"BRAVE_API_KEY": "k"}, {"search": "off"}, ""),
        ({}, {"search_url": "http://127.0.0.1:8888"}, "searxng"),
        ({}, {"search": "duckduckgo"}, "duckduckgo"),
    ),
)
def test_a_service_is_chosen_or_is_the_one_that_is_configured(
    tmp_path: Path, variables: Mapping[str, str], flags: Mapping[str, Any], name: str
) -> None:
    search = parts(tmp_path, variables, **flags)["search"]
    assert (search.name if search else "") == name


@pytest.mark.parametrize(
    ("flags", "told"),
    (
        ({"search": "brave"}, "BRAVE_API_KEY"),
        ({"search": "searxng"}, r"web\.search_url"),
        ({"search_url": "127.0.0.1:8888"}, "is no URL"),
        ({"private_networks": ["10.1.0.0/99"]}, "is no network"),
        ({"max_size": "many"}, "max_size"),
    ),
)
def test_what_cannot_be_used_is_said_at_the_start(tmp_path: Path, flags: Mapping[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        parts(tmp_path, **flags)


def test_a_private_page_is_refused_with_the_setting_that_opens_it(tmp_path: Path) -> None:
    fetcher = parts(tmp_path)["fetch"]()
    with pytest.raises(ToolError, match=r"web\.private_networks"):
        asyncio.run(fetcher.get("http://10.1.2.3/"))


def test_a_session_searches_where_a_server_is_named_and_its_results_are_marked(tmp_path: Path) -> None:
    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"results": [{"title": "T", "url": "https://one.example/", "content": "C"}]}'
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with talk(model, tmp_path / "work", settings={"web.search_url": url}) as here:
                await here.say("Look it up, and read http://127.0.0.1/ then.")
                found, read = await here.results()
                assert [fact.result.taint for fact in await here.facts(ToolEnded)] == ["web", "web"]
                assert found["results"] == [{"title": "T", "url": "https://one.example/", "snippet": "C"}]
                assert (read["success"], "this machine" in read["results"][0]["error"]) == (False, True)
                names = [tool["function"]["name"] for tool in model.requests[0].json["tools"]]
                assert names[-2:] == ["web_search", "web_extract"]

    calls = Call("web_search", {"query": "light"}), Call("web_extract", {"urls": ["http://127.0.0.1/"]})
    with ScriptedModel([*calls, Say("Done.")]) as model:
        asyncio.run(main())
