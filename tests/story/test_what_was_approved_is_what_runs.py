"""A yes covers what was shown: the call, its folder, its scripts and what the session's shell makes of it, and nothing else."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from melete.app.grants import GrantFile
from melete.app.reaching import inbox_message, send
from melete.core.event import Answered, Asked, ToolEnded, ToolStarted
from melete.core.message import Origin
from melete.core.session import InboxMessage
from melete.testing import Call, Reply, Say, ScriptedModel
from tests.talking import Talk, content, is_question, talk, until

DONE = Say("Done.")


def shell(command: str, **more: Any) -> Call:
    return Call("terminal", {"command": command, **more})


async def _answers(here: Talk, values: list[str], before: Callable[[], object]) -> None:
    """Answer the questions in turn; `before` happens between a question and its answer."""
    seen: set[str] = set()
    for value in values:
        asked = await until(here.conversation, lambda e: isinstance(e, Asked) and e.question.id not in seen)
        assert isinstance(asked, Asked)
        seen.add(asked.question.id)
        before()
        message = inbox_message(here.app, "answer", text=value, question=asked.question.id)
        assert (await send(here.app, here.conversation.ref, message)).status == "accepted"


def play(
    folder: Path,
    script: list[Reply],
    answers: list[str],
    *,
    before: Callable[[], object] = lambda: None,
    **options: Any,
) -> tuple[list[ToolEnded], list[ToolStarted], list[Asked]]:
    async def main() -> tuple[list[ToolEnded], list[ToolStarted], list[Asked]]:
        async with talk(model, folder, **{"attended": True, "env": "local", **options}) as here:
            task = here.app.group.create_task(_answers(here, answers, before))
            assert (await here.say("Go.")).stop == "done"
            await task
            return await here.facts(ToolEnded), await here.facts(ToolStarted), await here.facts(Asked)

    with ScriptedModel(script) as model:
        return asyncio.run(main())


def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "build").mkdir(parents=True, exist_ok=True)
    return folder


def test_a_script_that_changes_while_it_is_asked_about_runs_as_it_was(tmp_path: Path) -> None:
    folder = work(tmp_path)
    script = folder / "clean.sh"
    script.write_text("echo approved\n")
    ended, started, asked = play(
        folder,
        [shell("bash clean.sh; find . -name none -delete"), DONE],
        ["once"],
        before=lambda: script.write_text("echo swapped\n"),
    )
    assert content(ended[0])["output"] == "approved\n"
    assert "clean.sh runs as a sealed copy: 14 bytes, sha256 " in asked[0].question.detail
    assert "clean.sh: echo approved" in asked[0].question.detail.replace(":\n  |", ":")
    assert "bash clean.sh" in started[0].call.arguments
    decision = started[0].decision
    assert decision is not None
    assert (decision.by, decision.scope, decision.who) == ("person", "once", "cli")
    assert len(decision.digest) == 32


def test_a_grant_for_good_holds_in_another_session_until_something_differs(tmp_path: Path) -> None:
    folder = work(tmp_path)
    script = folder / "clean.sh"
    script.write_text("echo one\n")
    call = shell("bash clean.sh; find . -name none -delete")
    _, _, asked = play(folder, [call, call, DONE], ["always"])
    assert asked[0].question.choices == ("once", "session", "always", "deny")
    ended, started, asked = play(folder, [call, DONE], [], attended=False)
    assert (ended[0].outcome, asked) == ("ok", [])
    decision = started[0].decision
    assert decision is not None
    assert (decision.by, decision.scope) == ("grant", "always")
    script.write_text("echo two\n")
    ended, _, _ = play(folder, [call, DONE], [], attended=False)
    assert ended[0].outcome == "denied"
    script.write_text("echo one\n")
    changed = [shell("export VIRTUAL_ENV=/nowhere"), call, DONE]
    ended, _, _ = play(folder, changed, [], attended=False)
    assert [fact.outcome for fact in ended] == ["ok", "denied"]


def test_a_damaged_file_of_grants_grants_nothing(tmp_path: Path) -> None:
    folder = work(tmp_path)
    call = shell("find . -name none -delete")
    play(folder, [call, DONE], ["always"])
    (file,) = tmp_path.rglob("grants.json")
    assert len(GrantFile(file, clock=None).read()) == 1  # pyright: ignore[reportArgumentType]
    file.write_text("{")
    ended, _, _ = play(folder, [call, DONE], [], attended=False)
    assert ended[0].outcome == "denied"
    assert file.read_text() == "{"


def test_a_refusal_says_who_said_no_and_to_what(tmp_path: Path) -> None:
    call = shell("find . -name none -delete")
    ended, _, _ = play(work(tmp_path), [call, shell("rm -rf /"), DONE], ["deny"])
    person, policy = [fact.decision for fact in ended]
    assert person is not None and policy is not None
    assert (person.by, person.allowed, person.rule, person.who) == ("person", False, "remove-many", "cli")
    assert (policy.by, policy.allowed, policy.who) == ("policy", False, "")
    assert len(person.digest) == len(policy.digest) == 32
    (nobody,), _, _ = play(work(tmp_path), [call, DONE], [], attended=False)
    assert nobody.decision is not None
    assert (nobody.decision.by, nobody.decision.digest) == ("nobody", person.digest)


def test_an_interpreter_alone_is_never_granted_for_longer(tmp_path: Path) -> None:
    _, _, asked = play(work(tmp_path), [shell("sudo env bash"), DONE], ["deny"])
    assert asked[0].question.choices == ("once", "deny")


def test_what_cannot_be_shown_whole_cannot_be_approved(tmp_path: Path) -> None:
    ended, _, asked = play(work(tmp_path), [shell(f"find . -name none -delete # {'x' * 20_000}"), DONE], [])
    assert not asked
    assert "more than can be shown whole" in content(ended[0])["error"]


def test_a_question_shows_what_a_terminal_would_hide(tmp_path: Path) -> None:
    _, _, asked = play(work(tmp_path), [shell("find . -name none -delete\n# \u202e\x1b[8m\u200bok"), DONE], ["deny"])
    assert "  | # ⟦U+202E⟧⟦U+001B⟧[8m⟦U+200B⟧ok" in asked[0].question.detail.splitlines()


def test_an_answer_of_somebody_who_was_not_asked_does_not_count(tmp_path: Path) -> None:
    folder = work(tmp_path)

    async def others(here: Talk) -> list[str]:
        asked = await until(here.conversation, is_question)
        assert isinstance(asked, Asked)
        found: list[str] = []
        for by in (Origin(kind="person", who="eve", surface="api"), Origin(kind="runtime"), Origin(kind="child")):
            message = InboxMessage(
                id=f"m{len(found)}",
                kind="answer",
                text="once",
                question=asked.question.id,
                by=by,
                at=here.app.clock.now(),
            )
            found.append((await send(here.app, here.conversation.ref, message)).status)
        mine = inbox_message(here.app, "answer", text="deny", question=asked.question.id, surface="api", who="ann")
        found.append((await send(here.app, here.conversation.ref, mine)).status)
        return found

    async def main() -> tuple[list[str], list[str]]:
        async with talk(model, folder, attended=True, env="local", owner="ann") as here:
            task = here.app.group.create_task(others(here))
            await here.say("Go.")
            return await task, [fact.status for fact in await here.facts(Answered)]

    with ScriptedModel([shell("find . -name none -delete"), DONE]) as model:
        statuses, facts = asyncio.run(main())
    assert statuses == facts == ["refused", "refused", "refused", "accepted"]
    assert (folder / "build").is_dir()
