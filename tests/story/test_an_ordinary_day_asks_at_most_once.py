"""A page is read, a file edited, tests run, a commit made: one answer covers the day, and behind walls none may be needed."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

from melete.app.reaching import inbox_message, send
from melete.core.event import Asked, ToolEnded, ToolStarted
from melete.core.tool import Output, ToolContext, tool
from melete.testing import Call, Reply, Say, ScriptedModel
from tests.talking import Talk, content, talk

TEST = "import add\nassert add.add(1, 2) == 3\nprint('passed')\n"
GIT = "git -c user.name=a -c user.email=a@example.test"


def shell(command: str) -> Call:
    return Call("terminal", {"command": command})


DAY: list[Reply] = [
    Call("fetch", {}),
    Call("read_file", {"path": "add.py"}),
    Call("patch", {"path": "add.py", "old_string": "a - b", "new_string": "a + b"}),
    Call("write_file", {"path": "test_add.py", "content": TEST}),
    shell("python3 test_add.py"),
    shell("python3 -m compileall -q . && python3 test_add.py"),
    Call("execute_code", {"code": "import add\nprint(add.add(2, 2))"}),
    shell("git status --short; git diff"),
    shell(f"git add -A && {GIT} commit -qm 'Add adds'"),
    shell("git log --oneline | head -3"),
    Say("Done."),
]


@tool()
async def fetch(ctx: ToolContext) -> Output:
    """A page."""
    return Output(fields={"success": True, "text": "add returns the sum of its arguments"}, taint="web")


def project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "add.py").write_text("def add(a, b):\n    return a - b\n")
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    return folder


async def answering(here: Talk, value: str) -> None:
    with here.conversation.hub.subscribe() as events:
        async for event in events:
            if isinstance(event, Asked):
                await send(
                    here.app, here.conversation.ref,
                    inbox_message(here.app, "answer", text=value, question=event.question.id),
                )  # fmt: skip


def play(
    folder: Path, script: list[Reply], env: str, *, answer: str = "", **options: Any
) -> tuple[list[ToolEnded], list[Asked], list[ToolStarted]]:
    async def main() -> tuple[list[ToolEnded], list[Asked], list[ToolStarted]]:
        async with talk(model, folder, tools=[fetch], env=env, attended=bool(answer), **options) as here:
            listening = asyncio.create_task(answering(here, answer))
            await asyncio.sleep(0)
            assert (await here.say("Go.")).stop == "done"
            listening.cancel()
            return await here.facts(ToolEnded), await here.facts(Asked), await here.facts(ToolStarted)

    with ScriptedModel(script) as model:
        return asyncio.run(main())


def test_behind_walls_nothing_asks_where_that_is_wished_even_where_nobody_is_there(tmp_path: Path) -> None:
    settings = {"approvals.after_untrusted": "walls"}
    ended, asked, _ = play(project(tmp_path / "work"), DAY, "sandbox", settings=settings)
    assert [fact.outcome for fact in ended] == ["ok"] * 10, [content(fact) for fact in ended]
    assert not asked


def test_behind_walls_one_answer_covers_commands_and_files_need_none(tmp_path: Path) -> None:
    ended, asked, started = play(project(tmp_path / "work"), DAY, "sandbox", answer="session")
    assert [fact.outcome for fact in ended] == ["ok"] * 10, [content(fact) for fact in ended]
    assert [fact.question.text.partition(":")[0] for fact in asked] == ["terminal"]
    assert [fact.decision.by for fact in started if fact.decision] == ["person", *["grant"] * 3]


def test_without_walls_one_answer_covers_the_day(tmp_path: Path) -> None:
    ended, asked, started = play(project(tmp_path / "work"), DAY, "local", answer="session")
    assert [fact.outcome for fact in ended] == ["ok"] * 10, [content(fact) for fact in ended]
    assert len(asked) == 1
    assert asked[0].question.choices == ("once", "session", "deny")
    assert "session covers every command and change of files" in asked[0].question.detail
    by = [fact.decision.by for fact in started if fact.decision]
    assert by == ["person", *["grant"] * 5]


def test_what_sends_asks_each_time_whatever_was_said_about_the_rest(tmp_path: Path) -> None:
    push = shell("git push origin main")
    script = [Call("fetch", {}), shell("touch a"), push, shell("git push origin other"), push, Say("Done.")]
    _, asked, _ = play(project(tmp_path / "work"), script, "local", answer="session")
    assert [fact.question.choices for fact in asked] == [
        ("once", "session", "deny"),
        ("once", "session", "always", "deny"),
        ("once", "session", "always", "deny"),
    ]


REACH = "import urllib.request\ntry:\n    urllib.request.urlopen('http://host.invalid')\nexcept OSError as error:\n    print(error)"


def test_a_script_is_kept_from_the_network_and_asks_for_it_when_it_is_run_again(tmp_path: Path) -> None:
    run = shell("python3 reach.py")
    script = [run, Call("fetch", {}), run, shell("python3 test_add.py"), run, Say("Done.")]
    folder = project(tmp_path / "work")
    (folder / "reach.py").write_text(REACH)
    (folder / "test_add.py").write_text("print('passed')")
    settings = {"sandbox.allow": ["host.invalid"], "approvals.after_untrusted": "walls"}
    ended, asked, _ = play(folder, script, "sandbox", answer="once", settings=settings)
    before, _, kept, passed, allowed = [content(fact) for fact in ended]
    assert "text from outside was read" not in str(before)
    assert "refused host.invalid:80: text from outside was read" in kept["note"]
    assert passed["output"] == "passed\n"
    assert "text from outside was read" not in str(allowed)
    assert [fact.question.choices for fact in asked] == [("once", "session", "always", "deny")]
