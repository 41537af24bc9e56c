"""`isolation: worktree`: children work in copies of the repository, and hand over branches with a report of how they merge."""

import asyncio
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from melete.core.delegation import DELEGATE
from melete.core.event import ToolEnded
from melete.testing import Call, ScriptedModel
from tests.delegating import PARENT, Family, Line
from tests.talking import Talk, content, talk

pytestmark = pytest.mark.needs("git")
QUIET: dict[str, object] = {"skills.enabled": False}
HOOK = """#!/bin/sh
echo ran >> "$(dirname "$0")/../../hooked.log"
exit 1
"""
BODY = "".join(f"line {n}\n" for n in range(1, 21))


def git(folder: Path, *words: str) -> str:
    """What git prints; no hook runs, and it refreshes no index."""
    argv = ["git", "--no-optional-locks", "-c", "core.hooksPath=/dev/null", *words]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def shell(command: str) -> Call:
    return Call("terminal", {"command": command})


def repository(folder: Path) -> Path:
    """A repository in which much is uncommitted, with a stash, a hook that must not run, and a filter."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "Somebody")
    git(folder, "config", "user.email", "some@body")
    for name in ("a.txt", "b.txt", "gone.txt"):
        (folder / name).write_text(BODY)
    (folder / "sub").mkdir()
    (folder / "sub" / "c.txt").write_text("c\n")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    (folder / "a.txt").write_text("stashed\n")
    git(folder, "stash", "-q")
    (folder / "b.txt").write_text(BODY.replace("line 1\n", "staged\n"))
    git(folder, "add", "b.txt")
    (folder / "b.txt").write_text(BODY.replace("line 1\n", "staged\n").replace("line 20\n", "unstaged\n"))
    (folder / "gone.txt").unlink()
    (folder / "new.txt").write_text("untracked\n")
    (folder / "x.log").write_text("ignored\n")
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        (folder / ".git" / "hooks" / hook).write_text(HOOK)
        (folder / ".git" / "hooks" / hook).chmod(0o755)
    return folder


def state(folder: Path) -> list[str]:
    """All of a repository that no child may change."""
    seen = [git(folder, "rev-parse", "HEAD"), git(folder, "symbolic-ref", "HEAD"), git(folder, "stash", "list")]
    seen += [row for row in git(folder, "show-ref").splitlines() if "refs/heads/melete/" not in row]
    seen += [git(folder, "diff", "--cached"), git(folder, "diff"), git(folder, "status", "--porcelain", "--ignored")]
    seen += [git(folder, "worktree", "list"), (folder / ".git" / "config").read_text(), str(sorted(folder.iterdir()))]
    return [*seen, (folder / ".git" / "index").read_bytes().hex()]


def run(
    folder: Path, family: Family, settings: Mapping[str, object] | None = None, **more: Any
) -> list[dict[str, Any]]:
    """The entries of the children of the last delegation of a run."""

    async def main() -> list[dict[str, Any]]:
        with ScriptedModel(family) as model:
            async with talk(model, folder, settings={**QUIET, **(settings or {})}, **more) as here:
                await here.say(PARENT)
                return await entries(here)

    return asyncio.run(main())


async def entries(here: Talk) -> list[dict[str, Any]]:
    told = [content(fact) for fact in await here.facts(ToolEnded) if fact.result.name == DELEGATE]
    return told[-1]["results"]


def isolated(*goals: str, **more: Any) -> Call:
    return Call(DELEGATE, {"tasks": [{"goal": goal, "isolation": "worktree"} for goal in goals], **more})


def alone(*lines: Line, parent: Call | None = None) -> Family:
    return Family({PARENT: [parent or isolated("alone"), "all told"], "alone": lines})


def test_it_begins_as_the_files_are_and_leaves_a_branch(tmp_path: Path) -> None:
    repo = repository(tmp_path / "work")
    before = state(repo)
    looks = shell(
        "git status --porcelain; ls; head -1 b.txt; tail -1 b.txt; echo more >> new.txt; rm a.txt; echo 1 > sub/d.txt"
    )
    seen: list[str] = []

    def end(body: dict[str, Any]) -> str:
        seen.append(next(m["content"] for m in body["messages"] if m["role"] == "tool"))
        seen.append(body["messages"][0]["content"])
        return "I wrote sub/d.txt."

    entry = run(repo, alone(looks, end))[0]
    merge = entry["merge"]
    assert state(repo) == before
    assert not (repo / "hooked.log").exists()
    assert all(word in seen[0] for word in ("staged", "unstaged", "new.txt"))
    assert not any(word in seen[0] for word in ("gone.txt", "x.log", "??"))
    assert f"Work in {repo}/.melete-children/" in seen[1]
    assert f"a copy of {repo}" in seen[1]
    assert merge["files"] == {"a.txt": "+0 -20", "new.txt": "+1 -0", "sub/d.txt": "+1 -0"}
    assert merge["branch"] == f"melete/{entry['session']}"
    assert merge["applies_cleanly"]
    assert "conflicts" not in merge
    assert entry["checked"] == [{"claim": "sub/d.txt", "kind": "wrote", "verdict": "verified"}]
    subprocess.run(merge["take_over"], shell=True, cwd=repo, check=True)
    assert (repo / "new.txt").read_text() == "untracked\nmore\n"
    assert not (repo / "a.txt").exists()
    assert (repo / "sub" / "d.txt").read_text() == "1\n"


def test_two_that_change_the_same_line_are_told_of(tmp_path: Path) -> None:
    repo = repository(tmp_path / "work")
    before = state(repo)
    these = Family(
        {
            PARENT: [isolated("one", "two", "three"), "all told"],
            "one": [shell("sed -i 's/line 5$/one/' a.txt; ls > listed.txt"), "done"],
            "two": [shell("sleep 0.5; sed -i 's/line 5$/two/' a.txt; ls > other.txt"), "done"],
            "three": [shell("sed -i 's/line 15$/three/' a.txt"), "done"],
        }
    )
    merges = [entry["merge"] for entry in run(repo, these)]
    assert state(repo) == before
    assert all(merge["applies_cleanly"] for merge in merges)
    clashes = {i: merge["conflicts_with"] for i, merge in enumerate(merges) if "conflicts_with" in merge}
    assert clashes == {1: {merges[0]["branch"]: ["a.txt"]}}
    assert "other" not in git(repo, "show", f"{merges[0]['branch']}:listed.txt")
    subprocess.run(merges[0]["take_over"], shell=True, cwd=repo, check=True)
    subprocess.run(merges[2]["take_over"], shell=True, cwd=repo, check=True)
    assert "one\n" in (repo / "a.txt").read_text()
    assert "three\n" in (repo / "a.txt").read_text()


def test_one_that_commits_and_a_parent_that_has_moved_on(tmp_path: Path) -> None:
    repo = repository(tmp_path / "work")
    work = f"""
        sed -i 's/line 5$/child/' a.txt && git commit -qam 'mine' && git checkout -q -b beside && echo 1 > beside.txt &&
        echo 2 > forced.log && git add -f . && git commit -qm 'beside' && git checkout -q main && echo 3 > left.txt &&
        git remote && sed -i 's/line 5$/parent/' {shlex.quote(str(repo))}/a.txt"""
    entry = run(repo, alone(shell(work), "done"))[0]
    merge = entry["merge"]
    assert merge["files"] == {"a.txt": "+1 -1", "left.txt": "+1 -0"}
    assert merge["commits"] == 2
    assert not merge["applies_cleanly"]
    assert merge["conflicts"] == ["a.txt"]
    assert git(repo, "show", f"{merge['branch']}^3:forced.log") == "2"
    assert git(repo, "log", "--format=%s", "-1", f"{merge['branch']}^2") == "mine"
    assert git(repo, "stash", "list").count("\n") == 0
    subprocess.run(merge["take_over"], shell=True, cwd=repo, check=True)
    assert (repo / "left.txt").read_text() == "3\n"
    assert "parent" in (repo / "a.txt").read_text()


def test_file_tools_write_in_the_copy_only(tmp_path: Path) -> None:
    repo = repository(tmp_path / "work")
    before = state(repo)
    writes = [
        Call("write_file", {"path": str(repo / "stray.txt"), "content": "no"}),
        Call("write_file", {"path": "mine.txt", "content": "yes\n"}),
        "done",
    ]
    entry = run(repo, alone(*writes))[0]
    assert [one["status"] for one in entry["tool_trace"]] == ["error", "ok"]
    assert entry["merge"]["files"] == {"mine.txt": "+1 -0"}
    assert "files_changed" not in entry
    assert state(repo) == before


def test_what_it_sets_up_for_git_runs_nothing(tmp_path: Path) -> None:
    repo = repository(tmp_path / "work")
    ran = tmp_path / "ran"
    plant = f"""
        git config filter.x.clean 'touch {ran}; cat' && git config core.fsmonitor 'touch {ran}; false' &&
        git config diff.external 'touch {ran}' && git config core.alternateRefsCommand 'touch {ran}' &&
        git config uploadpack.packObjectsHook 'touch {ran}' && git config diff.x.textconv 'touch {ran}; cat' &&
        echo '* filter=x diff=x' > .gitattributes; mkdir -p .git/hooks; rm -f {ran}"""
    entry = run(repo, alone(shell(plant), "done"), yolo=True)[0]
    assert entry["merge"]["files"] == {".gitattributes": "+1 -0"}
    assert not ran.exists()


def test_a_repository_inside_stays_where_no_branch_can_hold_it(tmp_path: Path) -> None:
    repo = repository(tmp_path / "work")
    inner = "git init -q in && cd in && echo 1 > i.txt && git add . && git -c user.name=x -c user.email=y commit -qm in"
    entry = run(repo, alone(shell(inner), "done"))[0]
    assert "still stands in" in entry["merge"]["kept"]
    assert [*(repo / ".melete-children").glob("*/in/i.txt")]


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("deep", [False, True])
def test_in_the_sandbox(own_home: Path, deep: bool) -> None:
    """Also for the child of a child, each in a copy, in a home that the sandbox hides but for the working folder."""
    repo = repository(own_home / "project")
    before = state(repo)
    work = shell("head -1 b.txt; echo 1 > s.txt; git add s.txt; git commit -qm s && git log --oneline; echo 2 > t.txt")
    seen: list[str] = []

    def end(body: dict[str, Any]) -> str:
        seen.append(next(m["content"] for m in body["messages"] if m["role"] == "tool"))
        return "done"

    lines: dict[str, list[Line]] = {PARENT: [isolated("worker"), "all told"], "worker": [work, end]}
    if deep:
        lead = Call(DELEGATE, {"tasks": [{"goal": "leader", "isolation": "worktree", "role": "orchestrator"}]})
        lines[PARENT] = [lead, "all told"]
        lines["leader"] = [isolated("worker"), take_over, "led"]
    settings = {"delegation.max_spawn_depth": 2}
    entry = run(repo, Family(lines), settings, variables={"MELETE_ENV": "sandbox"})[0]
    assert entry["merge"]["files"] == {"s.txt": "+1 -0", "t.txt": "+1 -0"}
    assert entry["merge"]["applies_cleanly"]
    assert "staged" in seen[0]
    assert "first" in seen[0]
    assert state(repo) == before
    subprocess.run(entry["merge"]["take_over"], shell=True, cwd=repo, check=True)
    assert (repo / "t.txt").read_text() == "2\n"


def take_over(body: dict[str, Any]) -> Call:
    """What a leader does with what its child has left."""
    told = [m["content"] for m in body["messages"] if m["role"] == "tool"][-1]
    return shell(msgspec.json.decode(told)["results"][0]["merge"]["take_over"])


@pytest.mark.needs("bwrap")
def test_below_the_top_the_sandbox_has_none(own_home: Path) -> None:
    repo = repository(own_home / "project")
    entry = run(repo / "sub", alone("never"), variables={"MELETE_ENV": "sandbox"})[0]
    assert entry["status"] == "error"
    assert "nothing was begun" in entry["error"]


@pytest.mark.parametrize("committed", [False, True])
def test_nothing_changed_leaves_nothing(tmp_path: Path, committed: bool) -> None:
    repo = repository(tmp_path / "work")
    before = state(repo)
    git(repo, "update-ref", "refs/melete/0123456789ab", "HEAD")  # of a copy that is gone
    command = "echo 1 > x && rm x; echo 2 > more.log" + ("; git checkout -q HEAD^{}" if committed else "")
    entry = run(repo, alone(shell(command), "looked"), {"delegation.isolation": "worktree"})[0]
    assert entry["merge"] == {"note": "it changed no file: there is no branch"}
    assert state(repo) == before
    assert not git(repo, "branch", "--list", "melete/*")


def test_one_that_runs_out_of_time_and_goes_on(tmp_path: Path) -> None:
    repo = repository(tmp_path / "work")
    before = state(repo)
    first = shell(
        "echo half > half.txt; git add half.txt; git commit -qm half; (sleep 30; echo late > late.txt) & sleep 60"
    )
    these = alone(first, parent=isolated("alone"))

    async def main() -> tuple[dict[str, Any], dict[str, Any]]:
        with ScriptedModel(these) as model:
            async with talk(model, repo, settings=QUIET) as here:
                children = here.conversation.children
                assert children
                children._rules = type(children._rules)(timeout=2.0)
                await here.say(PARENT)
                began = (await entries(here))[0]
                assert state(repo) == before
                (repo / "a.txt").write_text("other by now\n")
                goes_on = shell("cat half.txt; grep -c other a.txt; git log --oneline | wc -l; echo rest > rest.txt")
                again = Call(DELEGATE, {"goal": "", "resume": began["session"]})
                these.lines = {PARENT: [*these.lines[PARENT], again, "end"], "alone": [first, goes_on, "whole"]}
                await here.say("And on.")
                return began, (await entries(here))[0]

    began, ended = asyncio.run(main())
    assert began["status"] == "timeout"
    assert began["merge"]["files"] == {"half.txt": "+1 -0"}
    assert ended["status"] == "completed"
    assert ended["merge"]["branch"] == began["merge"]["branch"]
    assert ended["merge"]["base"] == began["merge"]["base"]
    assert ended["merge"]["files"] == {"half.txt": "+1 -0", "rest.txt": "+1 -0"}
    assert not (repo / ".melete-children").exists()


def test_one_that_is_stopped_with_its_parent(tmp_path: Path) -> None:
    repo = repository(tmp_path / "work")
    before = state(repo)

    async def main() -> list[dict[str, Any]]:
        with ScriptedModel(alone(shell("echo half > half.txt; sleep 60"))) as model:
            async with talk(model, repo, settings=QUIET) as here:
                said = asyncio.create_task(here.say(PARENT))
                while not [*repo.glob(".melete-children/*/half.txt")]:  # noqa: ASYNC110 - nobody says it
                    await asyncio.sleep(0.02)
                here.conversation.cancel()
                await said
                return await entries(here)

    entry = asyncio.run(main())[0]
    assert entry["status"] == "interrupted"
    assert entry["merge"]["files"] == {"half.txt": "+1 -0"}
    assert state(repo) == before


def test_another_program_gets_one_too(tmp_path: Path) -> None:
    repo = repository(tmp_path / "work")
    before = state(repo)
    script = tmp_path / "agent"
    script.write_text("#!/bin/sh\ngrep -c 'a copy of'\npwd > where.txt\necho done\n")
    script.chmod(0o755)
    entry = run(repo, alone(), {"delegation.command": str(script)})[0]
    assert entry["summary"] == "1\ndone"
    assert entry["merge"]["files"] == {"where.txt": "+1 -0"}
    assert ".melete-children/" in git(repo, "show", f"{entry['merge']['branch']}:where.txt")
    assert state(repo) == before


def test_where_there_can_be_none_nothing_is_begun(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    (tmp_path / "plain").mkdir()
    taken = repository(tmp_path / "taken")
    git(taken, "branch", "melete")
    for folder, why in ((tmp_path / "plain", "git repository"), (empty, "no commit"), (taken, "named melete")):
        entry = run(folder, alone("never"))[0]
        assert entry["status"] == "error"
        assert why in entry["error"]
        assert "nothing was begun" in entry["error"]
        assert not (folder / ".melete-children").exists()


def test_a_folder_below_the_top(tmp_path: Path) -> None:
    repo = repository(tmp_path / "work")
    before = state(repo)
    entry = run(repo / "sub", alone(shell("pwd; echo 2 >> c.txt; echo 1 > ../top.txt"), "done"))[0]
    merge = entry["merge"]
    assert merge["files"] == {"sub/c.txt": "+1 -0", "top.txt": "+1 -0"}
    assert state(repo) == before
    subprocess.run(merge["take_over"], shell=True, cwd=repo / "sub", check=True)
    assert (repo / "top.txt").exists()


def test_in_the_background(tmp_path: Path) -> None:
    repo = repository(tmp_path / "work")
    before = state(repo)
    these = Family(
        {PARENT: [isolated("later", background=True), "begun", "heard"], "later": [shell("echo 1 > l.txt"), "done"]}
    )

    async def main() -> str:
        with ScriptedModel(these) as model:
            async with talk(model, repo, settings=QUIET, waits=True) as here:
                await here.say(PARENT)
                return here.messages()[-1]["content"]

    told = asyncio.run(main())
    assert '"l.txt": "+1 -0"' in told
    assert "take_over" in told
    assert state(repo) == before


def test_in_the_background_it_goes_on_in_its_folder(tmp_path: Path) -> None:
    repo = repository(tmp_path / "work")
    before = state(repo)
    work = [shell("echo 1 > l.txt"), shell("ls; echo 2 > m.txt"), "done"]
    these = Family({PARENT: [isolated("later", background=True), "begun", "heard"], "later": work}, slow={"later": 1.5})

    async def main() -> str:
        with ScriptedModel(these) as model:
            async with talk(model, repo, settings=QUIET) as here:
                await here.say(PARENT)
                session = here.conversation.ref.id
                while not [*(repo / ".melete-children").glob("*/l.txt")]:  # noqa: ASYNC110 - nobody says it
                    await asyncio.sleep(0.02)
            these.slow = {}
            async with talk(model, repo, settings=QUIET, session=session, waits=True) as here:
                children = here.conversation.children
                while children and children.awaited():  # noqa: ASYNC110 - nobody says it
                    await asyncio.sleep(0.02)
                await here.go_on()
                return here.messages()[-1]["content"]

    told = asyncio.run(main())
    assert '"l.txt": "+1 -0"' in told
    assert '"m.txt": "+1 -0"' in told
    assert state(repo) == before


KILLED = """
import asyncio, sys
from pathlib import Path
from tests.story.test_a_child_may_work_in_a_copy_of_its_own import QUIET
from tests.talking import talk
from tests.delegating import PARENT

class Model:
    base_url = sys.argv[1]

async def main():
    async with talk(Model(), Path(sys.argv[2]), settings=QUIET) as here:
        print(here.conversation.ref.id, flush=True)
        await here.say(PARENT)

asyncio.run(main())
"""


def test_a_kill_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    repo = repository(tmp_path / "work")
    before = state(repo)
    mark = tmp_path / "mark"
    first = shell(f"echo half > half.txt; echo > {mark}; while [ -e {mark} ]; do sleep 0.1; done")
    these = Family({PARENT: [isolated("alone"), "all told"], "alone": [first, "done"]})
    with ScriptedModel(these) as model:
        killed = subprocess.Popen(
            [sys.executable, "-c", KILLED, model.base_url, str(repo)], stdout=subprocess.PIPE, text=True
        )
        assert killed.stdout
        session = killed.stdout.readline().strip()
        until = time.monotonic() + 20
        while not mark.exists() and time.monotonic() < until:
            time.sleep(0.02)
        killed.kill()
        killed.communicate()
        mark.unlink()
        assert [*(repo / ".melete-children").glob("*/half.txt")]

        async def main() -> list[dict[str, Any]]:
            async with talk(model, repo, settings=QUIET, session=session) as here:
                await here.go_on()
                return await entries(here)

        merge = asyncio.run(main())[0]["merge"]
    assert merge["files"] == {"half.txt": "+1 -0"}
    assert state(repo) == before
