"""Which tools a request shows: all, or some behind tool_search, or few in few words; and that a stored frame stays."""

from typing import Any

import msgspec
import pytest
from msgspec import structs

from melete.app.toolsets import BRIEF, SEARCH, is_small, schema_bytes, toolbox
from melete.core.event import ToolSchema
from melete.core.tool import Tool, ToolContext, tool
from melete.tools.clarify import ClarifyTools
from melete.tools.files import FileTools
from melete.tools.sessions import SessionTools
from melete.tools.terminal import TerminalTools
from melete.tools.todo import TodoTools

NINE: tuple[Tool, ...] = (
    *TerminalTools.tools, *FileTools.tools, *TodoTools.tools, *ClarifyTools.tools, *SessionTools.tools,
)  # fmt: skip
WIDE = 128_000


@tool()
async def extra(ctx: ToolContext, *, what: str = "") -> dict[str, Any]:
    """One tool more."""
    return {}


@tool(deferred=True)
async def hidden(ctx: ToolContext) -> dict[str, Any]:
    """Shown only when asked for."""
    return {}


def more(count: int) -> tuple[Tool, ...]:
    """Tools with schemas of about 500 bytes each."""
    return tuple(structs.replace(extra, name=f"more_{n}", about="It does much. " * 25) for n in range(count))


def names(tools: tuple[ToolSchema, ...] | tuple[Tool, ...]) -> list[str]:
    return [one.name for one in tools]


def test_few_tools_are_all_shown() -> None:
    box = toolbox((*NINE, extra), window=WIDE)
    assert box.shown == tuple(one.shown for one in (*NINE, extra))
    assert names(box.tools) == names(box.shown)


def test_a_tool_that_is_deferred_stands_behind_the_search() -> None:
    box = toolbox((*NINE, hidden), window=WIDE)
    assert names(box.shown) == [*names(NINE), SEARCH]
    assert names(box.tools) == [*names(NINE), "hidden", SEARCH]
    assert "- hidden: Shown only when asked for" in box.shown[-1].about


@pytest.mark.parametrize(("count", "window"), [(40, WIDE), (10, 20_000)])
def test_too_many_bytes_defer_all_but_the_usual_tools(count: int, window: int) -> None:
    box = toolbox((*more(count), *NINE), window=window)
    assert names(box.shown) == [*names(NINE), SEARCH]
    assert set(names(box.tools)) == {*names(NINE), *names(more(count)), SEARCH}
    assert len(box.shown[-1].about.encode()) <= 4_000
    assert all(f"more_{n}" in box.shown[-1].about for n in range(count))


def test_the_usual_tools_are_never_deferred() -> None:
    assert names(toolbox(NINE, window=17_000).shown) == names(NINE)


def test_few_tools_in_few_words_for_a_small_window() -> None:
    box = toolbox(NINE, window=8_192, small=True)
    assert names(box.shown) == ["terminal", "read_file", "write_file", "patch", "search_files"]
    assert sum(map(schema_bytes, box.shown)) <= 1_600
    assert names(box.tools) == names(NINE)
    assert {one.limit for one in box.tools} == {3_932}
    for schema in box.shown:
        brief, real = BRIEF[schema.name], next(one for one in NINE if one.name == schema.name)
        fields = msgspec.json.decode(schema.parameters)
        assert list(fields["properties"]) == [*brief.required, *brief.optional]
        assert fields["required"] == list(brief.required)
        assert set(fields["properties"]) <= set(real.arguments.__struct_fields__)


def test_a_persons_own_tools_are_shown_or_found_in_a_small_window() -> None:
    few = toolbox((*NINE, extra), window=8_192, small=True)
    assert names(few.shown) == [*BRIEF, "extra"]
    many = toolbox((*NINE, *more(12)), window=8_192, small=True)
    assert names(many.shown) == [*BRIEF, SEARCH]
    assert len(many.shown[-1].about.encode()) <= 600
    assert sum(map(schema_bytes, many.shown)) <= 2_400
    assert names(toolbox((*NINE, hidden), window=8_192, small=True).shown) == [*BRIEF, SEARCH]


def test_without_any_of_the_usual_tools_a_small_window_shows_what_there_is() -> None:
    assert names(toolbox((*TodoTools.tools, extra), window=8_192, small=True).shown) == ["todo", "extra"]


def test_a_stored_frame_stays_where_it_leads_to_every_tool() -> None:
    for small in (False, True):
        plain = toolbox(NINE, window=8_192, small=small).shown
        for now in (False, True):  # another window meanwhile
            assert toolbox(NINE, window=WIDE, small=now, stored=plain).shown is plain
        found = toolbox((*NINE, hidden), window=8_192, small=small).shown
        box = toolbox((*NINE, hidden, extra, *more(3)), window=8_192, small=small, stored=found)
        assert box.shown is found
        assert {"extra", "more_2", SEARCH} <= set(names(box.tools))


def test_a_stored_frame_gives_way_where_it_does_not() -> None:
    plain = toolbox(NINE, window=WIDE).shown
    assert names(toolbox((*NINE, extra), window=WIDE, stored=plain).shown) == [*names(NINE), "extra"]
    assert names(toolbox(NINE[1:], window=WIDE, stored=plain).shown) == names(NINE[1:])
    found = toolbox((*NINE, hidden), window=WIDE).shown
    assert names(toolbox(NINE[1:], window=WIDE, stored=found).shown) == names(NINE[1:])
    assert toolbox(NINE, window=WIDE, stored=found).shown is found


def test_results_leave_room_in_the_window() -> None:
    for window, longest in ((WIDE, 100_000), (32_768, 26_214), (1_024, 1_500)):
        box = toolbox((*NINE, hidden), window=window)
        assert max(one.limit for one in box.tools) == longest
        assert next(one for one in box.tools if one.name == SEARCH).limit == longest


@pytest.mark.parametrize(
    ("profile", "window", "small"),
    [("auto", 16_384, True), ("auto", 16_385, False), ("full", 8_192, False), ("small", 128_000, True)],
)
def test_the_profile_decides_what_a_small_window_is(profile: str, window: int, small: bool) -> None:
    assert is_small(profile, window) is small
