"""`delegate_task`: parts of the work for children that start blank and report back. Layer 2; an ordinary tool over `Runner`."""

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct, structs

from melete.agent.results import Stopped
from melete.core.delegation import Outcome, Rules, Runner, Task
from melete.core.message import Taint
from melete.core.tool import Effect, Output, Tool, ToolContext, ToolError, tool
from melete.security.taint import worst

KEY = "delegation.max_concurrent_children"
T = TypeVar("T")
ABOUT = """Hand work to children: agents with a context and a shell of their own, who work side by side and report back.
Worth it for a part that stands alone, takes much reading or thinking, would fill your context with what you need not keep, asks \
the person nothing, and can end in this turn. Not for one call, a script, or the whole task as it is.
A child knows nothing of this conversation: say in goal and context what is wanted, paths, errors, limits, the language of the \
report. {most}
toolsets: terminal+file for code, web for research. Reports are claims: for effects outside ask for something you can check \
(path, address, id, exit status). Always a list of results, in the order of the tasks. Synthesise them yourself."""

Isolated = Literal["none", "worktree"] | None
Toolsets = Annotated[list[str], Meta(description="Empty: all that you have.")]


class Part(Struct, frozen=True, kw_only=True):
    """One task."""

    goal: str
    context: str = ""
    toolsets: list[str] = []
    role: Literal["leaf", "orchestrator"] = "leaf"
    isolation: Isolated = None


class DelegationTools:
    """Delegation, where the session has a `runner` that can start children."""

    name = "delegation"

    def __init__(self, runner: Runner | None = None) -> None:
        self._runner = runner

    def available(self) -> bool:
        """Whether children may be begun here."""
        return self._runner is None or self._runner.rules.depth < self._runner.rules.deepest

    def open(self) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """The one tool; nothing has to be started for it."""
        return nullcontext((delegating(self._runner),))


def delegating(runner: Runner | None) -> Tool:
    """The tool for a session whose children `runner` starts; without one it is there to be looked at, and refuses."""
    rules = runner.rules if runner else Rules()
    # What programs do no guard of ours sees, so the call that begins them is guarded as one that changes things.
    effect: Effect = "outside" if rules.programs else "read"

    @tool(parallel=not rules.programs, effect=effect, limit=120_000, deadline=math.inf, at_most=rules.most)
    async def delegate_task(
        ctx: ToolContext,
        *,
        goal: str = "",
        context: str = "",
        toolsets: Toolsets = [],  # noqa: B006 - the schema's default, never changed
        tasks: Annotated[list[Part], Meta(description="Several at once, in place of the above.")] = [],  # noqa: B006
        role: Annotated[Literal["leaf", "orchestrator"], Meta(description="An orchestrator may delegate.")] = "leaf",
        resume: Annotated[str, Meta(description="The session of a child that goes on.")] = "",
        isolation: Annotated[Isolated, Meta(description="worktree: in a copy of the repository.")] = None,
        background: Annotated[bool | None, Meta(description="Go on meanwhile; a message brings the result.")] = None,
    ) -> Output:
        """What the model reads is ABOUT, with the limit of the settings in it."""
        if runner is None:
            raise ToolError("no children can be begun in this session")
        if tasks and resume:
            raise ToolError("a child goes on in a call of its own: nothing was begun. Send resume without tasks")
        one = Part(goal=goal, context=context, toolsets=toolsets, role=role, isolation=isolation)
        asked = _tasks(tasks or [one], resume="" if tasks else resume, rules=runner.rules)
        if rules.background if background is None else background:
            return Output(fields=await _begin(runner, ctx, asked))
        return await _wait(runner, ctx, asked)

    return structs.replace(delegate_task, about=ABOUT.format(most=f"At most {rules.most} at a time."))


def _tasks(parts: Sequence[Part], *, resume: str, rules: Rules) -> list[Task]:
    """The tasks as they may be run; raises ToolError for too many, for none, and for one without a goal."""
    if len(parts) > rules.most:
        raise ToolError(
            f"{len(parts)} tasks in one call, and {rules.most} may be ({KEY}): nothing was begun. Send at most {rules.most}, "
            "or put several parts into one task",
            tasks=len(parts),
            most=rules.most,
        )
    for number, part in enumerate(parts):
        if not part.goal.strip() and not resume:
            which = f"task {number} has no goal" if len(parts) > 1 else "there is neither a goal nor tasks"
            raise ToolError(f"{which}: nothing was begun. Say what the child is to do")
    nested = rules.orchestrators and rules.depth + 1 < rules.deepest
    return [
        Task(
            goal=part.goal.strip(),
            context=part.context.strip(),
            toolsets=tuple(dict.fromkeys(part.toolsets)),
            role=part.role if nested else "leaf",
            resume=resume,
            isolation=part.isolation or rules.isolation,
        )
        for part in parts
    ]


async def _begin(runner: Runner, ctx: ToolContext, tasks: Sequence[Task]) -> Mapping[str, Any]:
    begun = [begun if isinstance(begun, str) else begun.fields for begun in await runner.later(ctx, tasks)]
    rows = [{"status": "running", "session": row} if isinstance(row, str) else row for row in begun]
    note = (
        "those that run work in the background; go on with other work, or end your turn: each result comes as a message"
    )
    return {"results": [{"task_index": number, **row} for number, row in enumerate(rows)], "note": note}


async def _wait(runner: Runner, ctx: ToolContext, tasks: Sequence[Task]) -> Output:
    """Run the children to their ends; when the call is stopped, what they have goes along with the cancellation."""
    began = time.monotonic()
    running: list[asyncio.Task[Outcome]] = []
    try:
        async with asyncio.TaskGroup() as group:
            for number, (task, share) in enumerate(zip(tasks, runner.shares(ctx, tasks), strict=True)):
                running.append(group.create_task(runner.child(ctx, task, number=number, share=share)))
    except asyncio.CancelledError as stopped:
        if not all(one.done() and not one.cancelled() and one.exception() is None for one in running):
            raise
        raise Stopped(_fields([one.result() for one in running], began)) from stopped
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    outcomes = [one.result() for one in running]
    taint: Taint = worst([outcome.taint for outcome in outcomes])
    source = ", ".join(dict.fromkeys(outcome.source for outcome in outcomes if outcome.source))
    return Output(fields=_fields(outcomes, began), taint=taint, source=source)


def _fields(outcomes: Sequence[Outcome], began: float) -> dict[str, Any]:
    return {
        "results": [{"task_index": number, **outcome.fields} for number, outcome in enumerate(outcomes)],
        "total_duration_seconds": round(time.monotonic() - began, 2),
    }
