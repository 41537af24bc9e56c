"""clarify: a question with choices or free text, and what to do when nobody answers."""

from pathlib import Path

import pytest

from melete.core.tool import ToolError
from melete.tools.clarify import clarify
from tests.unit.tools.context import Context, call, within


def test_the_answer_comes_back(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        ctx.answers = ["blue", "a long story"]
        asked = await call(clarify, ctx, question=" Which? ", choices=["red", " blue", ""])
        assert asked == {"success": True, "answered": True, "answer": "blue"}
        assert (await call(clarify, ctx, question="Why?"))["answer"] == "a long story"
        first, second = ctx.asked
        assert (first.kind, first.text, first.choices, first.call) == ("clarify", "Which?", ("red", "blue"), "call-1")
        assert second.choices == ()
        assert first.id != second.id  # although providers may use the id of a call twice
        assert first.call == second.call

    within(tmp_path, test)


def test_without_an_answer_the_model_decides_and_says_so(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        ctx.answers = [None]
        silent = await call(clarify, ctx, question="Which?")
        assert (silent["success"], silent["answered"]) == (False, False)
        assert "decide yourself" in silent["note"]

    within(tmp_path, test)


def test_bad_questions(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        with pytest.raises(ToolError, match="question is empty"):
            await call(clarify, ctx, question=" ")
        with pytest.raises(ToolError, match="at most 4 choices, not 5"):
            await call(clarify, ctx, question="Which?", choices=list("abcde"))

    within(tmp_path, test)
