"""What the model is told about the tools: few bytes, the right names, valid schemas."""

import asyncio
from typing import Any

import msgspec
import pytest

from melete.core.tool import Tool, Toolset
from melete.tools.clarify import ClarifyTools
from melete.tools.code import CodeTools
from melete.tools.files import FileTools
from melete.tools.sessions import SessionTools
from melete.tools.terminal import TerminalTools
from melete.tools.todo import TodoTools
from melete.tools.web import WebTools
from tests.unit.tools.context import names

SETS: tuple[Toolset, ...] = (
    TerminalTools(), FileTools(), TodoTools(), ClarifyTools(), SessionTools(), CodeTools(), WebTools(),
)  # fmt: skip
MOST_BYTES = 7_000
EXPECTED = {
    "terminal": ["terminal", "process"],
    "file": ["read_file", "write_file", "patch", "search_files"],
    "todo": ["todo"],
    "clarify": ["clarify"],
    "session_search": ["session_search"],
    "code_execution": ["execute_code"],
    "web": ["web_search", "web_extract"],
}
PARAMETERS = {
    "terminal": "command background timeout workdir pty notify_on_complete watch_patterns",
    "process": "action session_id data timeout offset limit",
    "read_file": "path offset limit",
    "write_file": "path content",
    "patch": "mode path old_string new_string replace_all patch",
    "search_files": "pattern target path file_glob limit offset output_mode context",
    "todo": "todos merge",
    "clarify": "question choices",
    "session_search": "query session_id around limit role since until source tool cwd sort",
    "execute_code": "code",
    "web_search": "query limit",
    "web_extract": "urls char_limit",
}


def all_tools() -> list[Tool]:
    async def main() -> list[Tool]:
        tools: list[Tool] = []
        for group in SETS:
            assert group.available()
            async with group.open() as found:
                assert names(found) == EXPECTED[group.name]
                tools.extend(found)
        return tools

    return asyncio.run(main())


def function(tool: Tool) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.about, "parameters": msgspec.json.decode(tool.schema)},
    }


def test_all_together_are_small() -> None:
    sizes = {tool.name: len(msgspec.json.encode(function(tool))) for tool in all_tools()}
    assert len(sizes) == 12
    assert sum(sizes.values()) <= MOST_BYTES, sizes


@pytest.mark.parametrize("tool", all_tools(), ids=lambda tool: tool.name)
def test_parameters_are_those_of_the_contract(tool: Tool) -> None:
    schema = msgspec.json.decode(tool.schema)
    assert list(schema["properties"]) == PARAMETERS[tool.name].split()
    assert tool.about
    assert tool.deadline > 0


def test_reading_may_share_the_clock_and_changing_may_not() -> None:
    tools = {tool.name: tool for tool in all_tools()}
    assert {name for name, tool in tools.items() if tool.parallel} == {
        "read_file", "search_files", "session_search", "web_search", "web_extract",
    }  # fmt: skip
    assert {name for name, tool in tools.items() if tool.effect == "write"} == {"write_file", "patch"}
    assert {name for name, tool in tools.items() if tool.effect == "outside"} == {"terminal", "process", "execute_code"}
