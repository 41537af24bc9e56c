"""`todo`: the plan of the work, kept with the session and found again in its transcript after a restart."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from melete.core.message import ToolResult
from melete.core.tool import ToolContext, ToolError, tool
from melete.tools.group import Group

KEY = "todo"


class Todo(Struct, frozen=True, kw_only=True):
    """One item of the plan."""

    id: str
    content: str
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"


class Kept(Struct, frozen=True, kw_only=True):
    """What an earlier result of `todo` says; everything else in it is not needed."""

    todos: list[Todo]


@tool(effect="read", limit=20_000)
async def todo(ctx: ToolContext, *, todos: list[Todo] | None = None, merge: bool = False) -> dict[str, Any]:
    """The plan for work of several steps: give the whole list, or with merge only the items to add or
    change; without todos it is returned. Keep one item in_progress."""
    plan = _known(ctx)
    if todos is not None:
        ids = [item.id for item in todos]
        if twice := next((name for name in ids if ids.count(name) > 1), None):
            raise ToolError(f"two items have the id {twice!r}")
        plan = {**plan, **{item.id: item for item in todos}} if merge else {item.id: item for item in todos}
    ctx.state[KEY] = plan
    items = list(plan.values())
    counts = {status: sum(item.status == status for item in items) for status in {item.status: 0 for item in items}}
    return {"success": True, "todos": msgspec.to_builtins(items), "counts": counts}


def _known(ctx: ToolContext) -> dict[str, Todo]:
    kept: dict[str, Todo] | None = ctx.state.get(KEY)
    return kept if kept is not None else _from_transcript(ctx)


def _from_transcript(ctx: ToolContext) -> dict[str, Todo]:
    for message in reversed(ctx.session.messages):
        results: Sequence[ToolResult] = [part for part in message.parts if isinstance(part, ToolResult)]
        for result in reversed(results):
            if result.name != "todo" or result.error:
                continue
            try:
                items = msgspec.json.decode(result.content, type=Kept).todos
            except msgspec.DecodeError:  # shortened, or written by another version: an older one may do
                continue
            return {item.id: item for item in items}
    task = ctx.session.transcript.task  # the result itself may be out of view
    return msgspec.convert({step.id: msgspec.to_builtins(step) for step in task.plan}, dict[str, Todo]) if task else {}


class TodoTools(Group):
    """The plan."""

    name = "todo"
    tools = (todo,)
