"""A risky call waits for a person: the first answer decides, a second is lost, a late one expired, silence is a no."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from melete.app.clock import SystemClock
from melete.app.reaching import inbox_message
from melete.core.event import Answered, Asked, ToolEnded, ToolStarted
from melete.core.policy import Verdict, Whereabouts
from melete.core.tool import Tool, ToolContext, tool
from melete.store import open_store
from melete.testing import Call, Say, ScriptedModel
from melete.testing.replies import Reply
from tests.talking import Talk, content, is_question, talk, until

RISKY = Call("danger", {"what": "files"})
DONE = Say("Done.")


def danger(ran: list[str]) -> Tool:
    def judge(arguments: Any, _: Whereabouts) -> Verdict:
        if arguments.what == "everything":
            return Verdict(verdict="forbid", rule="all", reason="deletes everything")
        if arguments.what == "nothing":
            return Verdict()
        return Verdict(verdict="ask", rule="some", reason="deletes files")

    @tool(effect="outside", judge=judge, name="danger")
    async def dangerous(ctx: ToolContext, *, what: str) -> dict[str, Any]:
        """Deletes things."""
        ran.append(what)
        return {"success": True}

    return dangerous


async def answer(here: Talk, question: str, text: str) -> str:
    store = open_store(here.app.loaded.home.state, clock=SystemClock())
    try:
        message = inbox_message(here.app, "answer", text=text, question=question)
        return (await store.send(here.conversation.ref, message)).status
    finally:
        await store.aclose()


Beside = Callable[[Talk, str], Coroutine[Any, Any, None]]


def conversation(
    tmp_path: Path, script: list[Reply], beside: Beside | None = None, *, timeout: float = 30, **options: Any
) -> tuple[list[str], list[ToolEnded], list[Answered], list[Asked]]:
    ran: list[str] = []
    prompts = sum(isinstance(reply, Say) for reply in script)

    async def main() -> tuple[list[ToolEnded], list[Answered], list[Asked]]:
        async with talk(
            model, tmp_path / "work", settings={"approvals.timeout": timeout}, tools=[danger(ran)], **options
        ) as here:

            async def person(act: Beside) -> None:
                asked = await until(here.conversation, is_question)
                assert isinstance(asked, Asked)
                await act(here, asked.question.id)

            task = here.app.group.create_task(person(beside)) if beside else None
            await asyncio.sleep(0)
            for _ in range(prompts):
                assert (await here.say("Go.")).stop == "done"
            if task:
                await task
            return await here.facts(ToolEnded), await here.facts(Answered), await here.facts(Asked)

    with ScriptedModel(script) as model:
        return (ran, *asyncio.run(main()))


@pytest.mark.parametrize(
    ("text", "runs"),
    [("once", True), ("Yes", True), ("deny", False), ("n", False), ("1", True), ("4", False), ("not now", False)],
)
def test_an_answer_decides(tmp_path: Path, text: str, runs: bool) -> None:
    async def person(here: Talk, question: str) -> None:
        assert await answer(here, question, text) == "accepted"

    ran, ended, answered, asked = conversation(tmp_path, [RISKY, DONE], person, attended=True)
    assert ran == (["files"] if runs else [])
    assert ended[0].outcome == ("ok" if runs else "denied")
    assert [(fact.status, fact.value) for fact in answered] == [("accepted", text)]
    assert asked[0].question.text == "danger: deletes files"
    assert asked[0].question.detail == "what: files"
    if text == "not now":
        assert content(ended[0])["error"].endswith("They said: not now")


def test_of_two_answers_the_second_is_lost(tmp_path: Path) -> None:
    async def person(here: Talk, question: str) -> None:
        first = await answer(here, question, "deny")
        assert (first, await answer(here, question, "once")) == ("accepted", "lost")

    script: list[Reply] = [RISKY, Call("terminal", {"command": "sleep 1.5"}), DONE]
    ran, ended, answered, _ = conversation(tmp_path, script, person, attended=True)
    assert not ran
    assert ended[0].outcome == "denied"
    assert [fact.status for fact in answered] == ["accepted", "lost"]


def test_silence_is_a_no_and_a_late_answer_is_expired(tmp_path: Path) -> None:
    async def person(here: Talk, question: str) -> None:
        await until(here.conversation, lambda e: isinstance(e, Answered))
        assert await answer(here, question, "once") == "expired"

    script: list[Reply] = [RISKY, Call("terminal", {"command": "sleep 1.5"}), DONE]
    ran, ended, answered, _ = conversation(tmp_path, script, person, timeout=0.3, attended=True)
    assert not ran
    assert "counts as a no. Do it in a safer way" in content(ended[0])["error"]
    assert [fact.status for fact in answered] == ["timeout", "expired"]


def test_an_answer_to_nothing_is_expired(tmp_path: Path) -> None:
    async def person(here: Talk, question: str) -> None:
        assert await answer(here, "no-such-question", "once") == "expired"
        assert await answer(here, question, "once") == "accepted"

    ran, _, _, _ = conversation(tmp_path, [RISKY, DONE], person, attended=True)
    assert ran == ["files"]


def test_yes_for_the_session_covers_the_same_call_however_it_is_written(tmp_path: Path) -> None:
    async def person(here: Talk, question: str) -> None:
        await answer(here, question, "session")

    again = Call("danger", '{"what":"files"}')
    ran, _, _, asked = conversation(tmp_path, [RISKY, again, DONE, again, DONE], person, attended=True)
    assert ran == ["files"] * 3
    assert len(asked) == 1


def test_what_was_refused_is_not_asked_about_again_in_that_run(tmp_path: Path) -> None:
    async def person(here: Talk, question: str) -> None:
        await answer(here, question, "deny")

    ran, ended, _, asked = conversation(tmp_path, [RISKY, RISKY, DONE], person, attended=True)
    assert (ran, len(asked)) == ([], 1)
    assert "not asked twice in one run" in content(ended[1])["error"]
    assert ended[1].decision is not None
    assert (ended[1].decision.by, ended[1].decision.who) == ("person", "cli")


def test_without_a_person_it_is_denied_with_a_reason(tmp_path: Path) -> None:
    ran, ended, _, asked = conversation(tmp_path, [RISKY, Call("danger", {"what": "nothing"}), DONE])
    assert ran == ["nothing"]
    assert not asked
    assert ended[0].outcome == "denied"
    assert "deletes files, some) and nobody is there to give it" in content(ended[0])["error"]


def test_yolo_lets_it_pass_but_never_what_is_forbidden(tmp_path: Path) -> None:
    forbidden = Call("danger", {"what": "everything"})
    ran, ended, _, asked = conversation(tmp_path, [RISKY, forbidden, DONE], yolo=True)
    assert ran == ["files"]
    assert not asked
    assert [fact.outcome for fact in ended] == ["ok", "denied"]
    assert content(ended[1])["error"].startswith("Forbidden, whatever the settings: deletes everything")


def test_a_person_cannot_allow_what_is_forbidden(tmp_path: Path) -> None:
    ran, ended, _, asked = conversation(tmp_path, [Call("danger", {"what": "everything"}), DONE], attended=True)
    assert (ran, asked, ended[0].outcome) == ([], [], "denied")


def test_a_call_that_was_refused_was_never_begun(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work", tools=[danger([])]) as here:
            await here.say("Go.")
            assert not await here.facts(ToolStarted)

    with ScriptedModel([RISKY, DONE]) as model:
        asyncio.run(main())


def test_a_question_of_the_model_is_answered_or_not(tmp_path: Path) -> None:
    async def person(here: Talk, question: str) -> None:
        await answer(here, question, "the blue one")

    asks = Call("clarify", {"question": "Which?", "choices": ["red", "blue"]})
    _, ended, _, asked = conversation(tmp_path, [asks, DONE], person, attended=True)
    assert content(ended[0])["answer"] == "the blue one"
    assert asked[0].question.choices == ("red", "blue")
    _, ended, _, asked = conversation(tmp_path, [asks, DONE])
    assert content(ended[0])["answered"] is False
    assert not asked
