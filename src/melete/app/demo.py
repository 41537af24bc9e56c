"""`melete demo`: a small real job that a scripted model gets done with the real loop, tools and log. Composition root.

It keeps what it learned as a skill, and is shorter about it when the job comes back, in another session. The model's words are
written beforehand; everything that they lead to happens: files are read and changed, tests fail and pass. The script looks at
what came back before it goes on, and so does the verdict.
"""

import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from difflib import unified_diff
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, structs

from melete.app.home import Home
from melete.app.opening import Options
from melete.app.service import Conversation, open_conversation
from melete.app.settings import Loaded, load
from melete.app.skills import library
from melete.app.wire import open_melete
from melete.core.errors import UsageError
from melete.core.event import RunEnded, Stop, ToolEnded, ToolStarted
from melete.core.message import Usage
from melete.core.skill import Version
from melete.testing import Call, Calls, Fault, Reply, Say, ScriptedModel

ASSETS = Path(__file__).with_name("demo_project")
PROMPT = "The tests fail. Find out why, fix the bug, and check that they pass."
AGAIN = "An old branch was merged, and the tests of the timesheet fail again. Mend that."
SKILL = "mend-timesheet"
LEARNED = f"""---
name: {SKILL}
description: Mends times that come out wrong in the timesheet, such as 1:5 for 1:05. Use when its tests fail.
---

## Steps

1. Look at how `total` in $1 writes the minutes: without `:02d` their leading zero is lost.

## Check

`python -m unittest` ends with OK.
"""
LACKED = "their leading zero is lost."
BETTER = f"{LACKED}\n2. It came back with a merge once: tell the person, so that the old branch is mended too."
BROKEN = '    return f"{whole // 60}:{whole % 60}"'
MENDED = '    return f"{whole // 60}:{whole % 60:02d}"'
FILES = ("README.md", "timesheet.py", "test_timesheet.py")
MODEL = "scripted-model"


class DemoEnded(Struct, frozen=True, kw_only=True, tag="demo.ended"):
    """The verdict: `ok` when the tests failed before and pass now, else `problem` says why not.

    `calls_first` and `calls_second` count tool calls, without and with the skill, of which there are `versions`.

    `log` is empty where the folder was not kept.
    """

    ok: bool
    calls_first: int
    calls_second: int = 0
    versions: int = 0
    problem: str = ""
    session: str = ""
    log: str = ""
    facts: int = 0
    usage: Usage = Usage()


class Demo:
    """The demo's folder and its conversation, the second one from `again` on."""

    def __init__(self, folder: Path, loaded: Loaded, conversation: Conversation) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.home: Home = loaded.home
        self.conversation = conversation

    @property
    def log(self) -> Path:
        """The session's log."""
        return self.home.state / "sessions" / f"{self.conversation.ref.id}.log"

    def diff(self) -> list[str]:
        """What became of the program, as lines of a unified diff."""
        before = (ASSETS / "timesheet.py.txt").read_text(encoding="utf-8").splitlines()
        after = (self.project / "timesheet.py").read_text(encoding="utf-8").splitlines()
        return list(unified_diff(before, after, "timesheet.py before", "timesheet.py after", lineterm="", n=1))

    @asynccontextmanager
    async def again(self) -> AsyncGenerator[Conversation]:
        """Have the bug come back, and open a session that knows nothing of the first one but the skill."""
        (self.project / "timesheet.py").write_bytes((ASSETS / "timesheet.py.txt").read_bytes())
        async with open_conversation(self.conversation.app, self.conversation.options) as conversation:
            self.conversation = conversation
            yield conversation

    async def verdict(self, ended: RunEnded, first: "DemoEnded | None" = None) -> DemoEnded:
        """Read from the log what really happened; with the verdict on the `first` session, in both."""
        app, ref = self.conversation.app, self.conversation.ref
        stored = await app.store.facts(ref)
        commands = {f.call.id for f in stored if isinstance(f, ToolStarted) and f.call.name == "terminal"}
        tests = [f.outcome for f in stored if isinstance(f, ToolEnded) and f.result.call in commands]
        problem = ""
        if ended.stop != Stop.DONE:
            problem = ended.error or f"the run ended with {ended.stop}"
        elif first is None and (tests[:1] == ["ok"] or len(tests) < 2):  # noqa: PLR2004 - before and after
            problem = "the tests did not fail before the bug was mended"
        elif tests[-1:] != ["ok"]:
            problem = "the tests still fail"
        elif not self.diff():
            problem = "the program was not changed"
        calls = sum(isinstance(f, ToolEnded) for f in stored)
        seen = DemoEnded(
            ok=not problem,
            calls_first=calls,
            problem=problem,
            session=ref.id,
            log=str(self.log),
            facts=len(stored),
            usage=ended.usage,
        )
        if first is None:
            return seen
        versions = len(self.history())
        if not problem and versions != 2:  # noqa: PLR2004 - made, and mended
            problem = "the skill was not made and mended"
        return structs.replace(
            seen,
            ok=first.ok and not problem,
            problem=first.problem or problem,
            calls_first=first.calls_first,
            calls_second=calls,
            versions=versions,
            usage=first.usage + ended.usage,
        )

    def history(self) -> Sequence[Version]:
        """The versions of the skill, the first one first."""
        return library(self.conversation.app).versions.history(SKILL)

    def learned(self) -> list[str]:
        """The lines of the skill that its last version changed, as a unified diff has them."""
        lines = library(self.conversation.app).versions.diff(SKILL).splitlines()
        return [line for line in lines if line[:1] in ("+", "-")]


@asynccontextmanager
async def open_demo(folder: Path, *, pace: float = 0.0) -> AsyncGenerator[Demo]:
    """Make project and home in `folder`, which must be empty or not exist, and start the scripted model.

    `pace` is seconds between two pieces of the model's text, for people who watch. Raises UsageError, StorageError.
    """
    _make_project(folder)
    python = Path(sys.executable)
    with ScriptedModel(script(python.name, pace=pace), model=MODEL) as server:
        # An environment of its own: nobody's keys, settings or sessions come near the demo.
        path = os.pathsep.join([str(python.parent), *os.get_exec_path()])
        environ = {
            "MELETE_HOME": str(folder / "home"),
            "HOME": str(folder),
            "PATH": path,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        loaded = load(
            {"model.name": MODEL, "model.base_url": server.base_url, "skills.bundled": False}, environ=environ
        )
        options = Options(cwd=str(folder / "project"), toolsets=("terminal", "file", "skills"))
        async with open_melete(loaded) as app, open_conversation(app, options) as conversation:
            yield Demo(folder, loaded, conversation)


def _make_project(folder: Path) -> None:
    project = folder / "project"
    try:
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty", kept="nothing was changed", next="give a new or an empty folder")
        project.mkdir(parents=True)
        for name in FILES:
            asset = ASSETS / name if name.endswith(".md") else ASSETS / f"{name}.txt"
            (project / name).write_bytes(asset.read_bytes())
    except OSError as error:
        raise UsageError(
            f"cannot use {folder}: {error.strerror}", next="give a folder that you can write to"
        ) from error


# ---- the scripted model ----------------------------------------------------------------------------------------------


def script(python: str, *, pace: float = 0.0) -> Callable[[dict[str, Any], int], Reply]:
    """The model: one reply for each number of replies so far, none without looking at what the last call brought."""
    tests = f"{python} -m unittest"
    replies: tuple[Say | Call | Calls, ...] = (
        Call("search_files", {"pattern": "*", "target": "files"}, text="I look at the project first."),
        Calls(
            [Call("read_file", {"path": "timesheet.py"}), Call("read_file", {"path": "test_timesheet.py"})],
            text="A module and its tests. I read both, side by side.",
        ),
        Call("terminal", {"command": tests}, text="Now I see the failure with my own eyes before I change anything."),
        Call(
            "patch",
            {"path": "timesheet.py", "old_string": BROKEN, "new_string": MENDED},
            text="One test fails: 65 minutes come out as 1:5 instead of 1:05. The minutes lack their leading zero; "
            "that is one format code in `total`.",
        ),
        Call("terminal", {"command": tests}, text="Mended. I run the tests again to be sure."),
        Call(
            "skill_manage",
            {"action": "create", "name": SKILL, "content": LEARNED},
            text="They pass. Whoever meets this again should not have to search for it: I keep what I learned as a skill.",
        ),
        Say(
            text="The tests pass now. `total` in timesheet.py wrote the minutes without a leading zero, so 65 minutes became "
            "1:5; they are written with two digits now (`:02d`). I changed that one line and nothing else."
        ),
    )
    expected = ("", "timesheet.py", "whole % 60", "FAILED", "", "OK", "true")
    replies_again: tuple[Say | Call | Calls, ...] = (
        Call("skill_view", {"name": SKILL, "args": "timesheet.py"}, text="There is a skill for this. I load it."),
        Call(
            "patch",
            {"path": "timesheet.py", "old_string": BROKEN, "new_string": MENDED},
            text="It says where to look, so I mend that line at once.",
        ),
        Call("terminal", {"command": tests}, text="And check, as it says."),
        Call(
            "skill_manage",
            {"action": "patch", "name": SKILL, "old_string": LACKED, "new_string": BETTER},
            text="The skill did not know that the bug can come back with a merge. I add that.",
        ),
        Say(
            text="Mended: the merge had brought back the old line. Please mend the old branch as well. The skill says so now."
        ),
    )
    expected_again = ("", "`total` in timesheet.py", "", "OK", "true")

    def play(body: dict[str, Any], _index: int) -> Reply:
        said = [cast("dict[str, Any]", message) for message in body["messages"]]
        replied = [number for number, message in enumerate(said) if message["role"] == "assistant"]
        step, again = len(replied), AGAIN in str(said)
        lines, wanted = (replies_again, expected_again) if again else (replies, expected)
        last = "\n".join(str(message.get("content", "")) for message in said[replied[-1] + 1 :]) if replied else ""
        if step >= len(lines) or wanted[step] not in last:
            return Say(text=f"This is not what I expected, so I stop here. The last result was: {last[:400]}")
        return Fault("slow", seconds=pace, reply=lines[step]) if pace else lines[step]

    return play
