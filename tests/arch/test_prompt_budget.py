"""What every conversation pays before its first word: the default system prompt, the list of skills, the schemas of the tools."""

import asyncio
from pathlib import Path

import msgspec

from melete.app.context_report import Cost, report
from melete.testing import Say, ScriptedModel
from tests.talking import talk

LIMIT, LISTED = 12_200, 6_000
TOOLS = [
    "terminal", "process", "read_file", "write_file", "patch", "search_files", "todo", "clarify", "session_search",
    "skills_list", "skill_search", "skill_view", "skill_manage", "memory", "execute_code", "delegate_task",
    "web_extract",
]  # fmt: skip


def costs(folder: Path) -> tuple[list[Cost], bytes]:
    async def main() -> list[Cost]:
        async with talk(model, folder) as here:
            rows = await report(here.conversation)
            await here.say("Hi.")
            assert [row for row in await report(here.conversation) if row.group != "messages"] == rows
            return rows

    with ScriptedModel([Say("Hello.")]) as model:
        rows = asyncio.run(main())
    return rows, model.requests[0].body


def test_prompt_and_schemas_stay_within_their_bytes(tmp_path: Path) -> None:
    rows, body = costs(tmp_path / "work")
    assert [row.part for row in rows if row.group == "tools"] == TOOLS
    listed = sum(row.bytes for row in rows if row.part == "skills")
    assert 0 < listed <= LISTED
    assert sum(row.bytes for row in rows) - listed <= LIMIT, rows
    sent = msgspec.json.decode(body)
    assert len(msgspec.json.encode([sent["messages"][0], sent["tools"]])) <= LIMIT + listed


def test_the_report_counts_what_is_sent(tmp_path: Path) -> None:
    rows, body = costs(tmp_path / "work")
    sent = msgspec.json.decode(body)
    tools = [len(msgspec.json.encode(tool)) for tool in sent["tools"]]
    assert [row.bytes for row in rows if row.group == "tools"] == tools
    system = [row.bytes for row in rows if row.group == "system"]
    assert sum(system) + 2 * (len(system) - 1) == len(sent["messages"][0]["content"].encode())
    assert all(row.tokens == -(-row.bytes // 4) for row in rows)
