"""tool_search: what it finds, what it runs, and that its description stays within its bytes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from melete.core.event import Framed
from melete.core.tool import Tool, ToolContext, ToolError, tool
from melete.tools.files import FileTools
from melete.tools.find import HOW, ROOM, ranked, searching, words
from tests.unit.tools.context import Context, call, within


@tool()
async def create_issue(ctx: ToolContext, *, title: str, labels: list[str] | None = None) -> dict[str, Any]:
    """Open a new issue in a repository. The title is one line."""
    return {}


@tool()
async def listIssues(ctx: ToolContext, *, state: str = "open") -> dict[str, Any]:
    """The issues of a repository, the newest first."""
    return {}


@tool()
async def weather(ctx: ToolContext, *, city: Annotated[str, msgspec.Meta(description="A town.")]) -> dict[str, Any]:
    """Tells temperature and rain for the next days."""
    return {}


@tool()
async def play_music(ctx: ToolContext) -> dict[str, Any]:
    """Plays songs."""
    return {}


TOOLS = (create_issue, listIssues, weather, play_music)


def many(count: int, about: str = "Does something that takes a while to say.") -> list[Tool]:
    return [structs.replace(play_music, name=f"tool_number_{n}", about=about) for n in range(count)]


def test_words_find_names_descriptions_and_parameters() -> None:
    found: Callable[[str], list[str]] = lambda query: [one.name for one in ranked(TOOLS, query)]  # noqa: E731
    assert found("issue")[0] in ("create_issue", "listIssues")
    assert found("create an issue")[0] == "create_issue"
    assert found("list issues")[0] == "listIssues"
    assert found("how warm is it in which city") == ["weather"]
    assert found("town") == ["weather"]
    assert found("labels") == ["create_issue"]
    assert found("music")[0] == found("play song")[0] == "play_music"
    assert set(found("repositories")) == {"create_issue", "listIssues"}
    assert found("LISTISSUES")[0] == "listIssues"
    assert found("payroll") == found("") == found("?!") == []


def test_names_fall_apart_into_words() -> None:
    assert words("readFile read_file HTTPServer äöü 3 files, classes") == [
        "read", "file", "read", "file", "httpserver", "äöü", "3", "file", "classe",
    ]  # fmt: skip


def test_a_query_shows_schemas(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        found = await call(searching(TOOLS), ctx, query="create an issue")
        assert found["success"]
        best = found["tools"][0]
        assert (best["name"], best["description"]) == ("create_issue", create_issue.about)
        assert msgspec.json.encode(best["parameters"]) == bytes(create_issue.schema)
        (shown,) = (await call(searching(TOOLS), ctx, name="weather"))["tools"]
        assert shown["name"] == "weather"

    within(tmp_path, test)


def test_what_matches_nothing_says_so_and_no_words_list_the_names(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        nothing = await call(searching(TOOLS), ctx, query="payroll")
        assert (nothing["tools"], nothing["success"]) == ([], True)
        names = await call(searching(TOOLS), ctx)
        assert names["names"] == ["create_issue", "listIssues", "play_music", "weather"]

    within(tmp_path, test)


def test_matches_stay_within_the_result(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        long = many(30, about="Something about music. " * 40)
        found = await call(searching(long, limit=4_000), ctx, query="music")
        assert len(msgspec.json.encode(found)) < 4_000
        assert 1 <= len(found["tools"]) <= 3
        assert found["others"]
        (only,) = (await call(searching(long, limit=100), ctx, query="music"))["tools"]
        assert only["description"] == long[0].about

    within(tmp_path, test)


class Calling(Context):
    """A context whose tool calls are kept."""

    calls: list[tuple[str, Mapping[str, Any]]]

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        self.calls.append((name, arguments))
        return {"success": False, "error": "It rains."}


def test_name_and_arguments_run_a_tool(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        calling = Calling(ctx.env, ctx.processes, ctx.store, ctx.session)
        calling.calls = []
        find = searching(TOOLS)
        assert await call(find, calling, name="weather", arguments={"city": "Bonn"}) == {
            "success": False,
            "error": "It rains.",
        }
        await call(find, calling, name="play_music", arguments={})
        assert calling.calls == [("weather", {"city": "Bonn"}), ("play_music", {})]
        await ctx.session.record(Framed(system=(), tools=(FileTools.tools[0].shown,)))
        await call(find, calling, name=FileTools.tools[0].name, arguments={})
        assert calling.calls[-1] == (FileTools.tools[0].name, {})

    within(tmp_path, test)


def test_an_unknown_name_gets_the_nearest_ones(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        find = searching(TOOLS)
        for arguments in ({"name": "create_isue", "arguments": {}}, {"name": "issue_create"}):
            with pytest.raises(ToolError, match="create_issue") as raised:
                await call(find, ctx, **arguments)
            assert "create_issue" in raised.value.fields["nearest"]  # pyright: ignore[reportOperatorIssue]
        with pytest.raises(ToolError, match="There is no tool 'x'"):
            await call(find, ctx, name="x", arguments={})
        with pytest.raises(ToolError, match="does not run itself"):
            await call(find, ctx, name="tool_search", arguments={})
        with pytest.raises(ToolError, match="There is no tool"):
            await call(searching(()), ctx, name="x")

    within(tmp_path, test)


def test_the_description_lists_a_line_each_then_names_then_a_count() -> None:
    lines = searching(TOOLS).about.split("\n")
    assert lines == [
        HOW,
        "- create_issue: Open a new issue in a repository",
        "- listIssues: The issues of a repository, the newest first",
        "- weather: Tells temperature and rain for the next days",
        "- play_music: Plays songs",
    ]
    names = searching(many(120)).about
    assert len(names.encode()) <= ROOM
    assert "tool_number_119" in names
    assert "Does something" not in names
    counted = searching(many(1000)).about
    assert len(counted.encode()) <= ROOM
    assert "1000 tools, among them: tool_number_0, tool_number_1" in counted
    assert counted.endswith(" more")
    assert searching(()).about == HOW


@given(abouts=st.lists(st.text(max_size=300), max_size=60), room=st.integers(500, 4_000))
def test_no_description_takes_more_than_its_room(abouts: Sequence[str], room: int) -> None:
    tools = [structs.replace(play_music, name=f"t{n}", about=about) for n, about in enumerate(abouts)]
    assert len(searching(tools, room=room).about.encode("utf-8", "replace")) <= room
