"""todo: the plan is kept, merged, and found again after a restart."""

from pathlib import Path

import msgspec
import pytest

from melete.core.event import Reply, ToolEnded
from melete.core.message import Message, ToolCall, ToolResult
from melete.core.tool import ToolError
from melete.tools.todo import todo
from tests.unit.tools.context import Context, call, within

A = {"id": "a", "content": "look", "status": "completed"}
B = {"id": "b", "content": "mend", "status": "pending"}


def test_the_plan_is_set_merged_and_read(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        assert await call(todo, ctx) == {"success": True, "todos": [], "counts": {}}
        done = await call(todo, ctx, todos=[A, {"id": "b", "content": "mend"}])
        assert done == {"success": True, "todos": [A, B], "counts": {"completed": 1, "pending": 1}}
        changed = {**B, "status": "in_progress"}
        new = {"id": "c", "content": "test", "status": "pending"}
        assert (await call(todo, ctx, todos=[changed, new], merge=True))["todos"] == [A, changed, new]
        assert (await call(todo, ctx))["todos"] == [A, changed, new]
        assert (await call(todo, ctx, todos=[]))["todos"] == []
        assert (await call(todo, ctx))["todos"] == []

    within(tmp_path, test)


def test_two_items_of_one_id_are_an_error(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        with pytest.raises(ToolError, match="two items have the id 'a'"):
            await call(todo, ctx, todos=[A, A])

    within(tmp_path, test)


def test_after_a_restart_the_last_good_result_counts(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        for number, content in enumerate((msgspec.json.encode({"todos": [A, B]}).decode(), '{"todos": [{"id"… cut')):
            made = ToolCall(id=f"t{number}", name="todo", arguments="{}")
            result = ToolResult(call=made.id, name="todo", content=content)
            await ctx.session.record(Reply(message=Message(role="assistant", parts=(made,))), ToolEnded(result=result))
        assert (await call(todo, ctx))["todos"] == [A, B]
        assert (await call(todo, ctx, todos=[{**A, "content": "new"}], merge=True))["todos"] == [
            {**A, "content": "new"},
            B,
        ]

    within(tmp_path, test)
