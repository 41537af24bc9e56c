"""`clarify`: a question to the person, through whatever surface is there."""

from typing import Any
from uuid import uuid4

from melete.core.event import Question
from melete.core.tool import ToolContext, ToolError, tool
from melete.tools.group import Group

MOST_CHOICES = 4


@tool(effect="read", limit=20_000)
async def clarify(ctx: ToolContext, *, question: str, choices: list[str] | None = None) -> dict[str, Any]:
    """Ask the user something that you cannot find out yourself; up to 4 choices, or free text without any."""
    offered = tuple(choice.strip() for choice in choices or () if choice.strip())
    if not question.strip():
        raise ToolError("question is empty")
    if len(offered) > MOST_CHOICES:
        raise ToolError(f"at most {MOST_CHOICES} choices, not {len(offered)}")
    asked = Question(id=uuid4().hex[:12], kind="clarify", text=question.strip(), choices=offered, call=ctx.call_id)
    answer = await ctx.ask(asked)
    if answer is None:
        note = "nobody answered; decide yourself what is most likely wanted, and say in your answer that you did"
        return {"success": False, "answered": False, "note": note}
    return {"success": True, "answered": True, "answer": answer}


class ClarifyTools(Group):
    """Questions to the person."""

    name = "clarify"
    tools = (clarify,)
