"""`melete demo`: a job done the hard way, a lesson drawn from it, and the next one in a fraction of the calls. Composition root.

The model's words are written beforehand, those of the reviewer too; everything that they lead to happens: commands fail and work,
the review is a real one, its gates refuse and pass, the skill is a version that can be explained and taken back. The script looks
at what came back before it goes on, and so does the verdict.
"""

import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from melete.app.home import Home
from melete.app.learn_hand import Worked, review_one
from melete.app.learn_undo import Undone, meant, undo
from melete.app.opening import Options
from melete.app.service import Conversation, open_conversation
from melete.app.settings import Loaded, load
from melete.app.skills import library
from melete.app.wire import Melete, open_melete
from melete.core.errors import UsageError
from melete.core.event import RunEnded, Stop, ToolEnded, ToolStarted
from melete.core.message import Usage
from melete.learn.briefs import OPENING
from melete.learn.facts import Debt, facts_of
from melete.learn.facts import Proposed as Proposed
from melete.testing import Call, Calls, Fault, Reply, Say, ScriptedModel

ASSETS = Path(__file__).with_name("demo_project")
PROMPT = "Make the report of week 47."
AGAIN = "And now the report of week 48, please."
SKILL = "weekly-report"
FIRST, SECOND = Path("out", "2026-W47.md"), Path("out", "2026-W48.md")
COMMAND = "{python} report.py --week YEAR-WNN --round 15"
GUESSED = "With `--force` it also writes over a report that is there."
LEARNED = f"""---
name: {SKILL}
description: Makes the weekly report with report.py. Use when one is wanted.
---

## Steps

1. `{COMMAND}` writes `out/YEAR-WNN.md`.
2. `cat out/YEAR-WNN.md` shows it; it ends with the total.

## Pitfalls

- Error 17: a bare number. 18: a week without its year. 21: no `--round`.
"""
MODEL = "scripted-model"
COMMANDS = ("47", "--week 47", "--week 2026-W47", "--week 2026-W47 --round 15")


class DemoEnded(Struct, frozen=True, kw_only=True, tag="demo.ended"):
    """The verdict: `ok` when both reports are there, a lesson passed its gates, a guess did not, and undoing left nothing.

    `calls_first` and `calls_second` count tool calls, before and with the lesson; `refused` and `learned` count proposals.
    `problem` says what is not as it should be. `log` is empty where the folder was not kept.
    """

    ok: bool
    calls_first: int
    calls_second: int = 0
    refused: int = 0
    learned: int = 0
    undone: bool = False
    problem: str = ""
    session: str = ""
    log: str = ""
    usage: Usage = Usage()
    review: Usage = Usage()


class Lesson(Struct, frozen=True, kw_only=True):
    """What a review came to: what had drawn attention, and what was proposed, with the verdicts of the gates."""

    worked: Worked
    noticed: tuple[Debt, ...]
    proposed: tuple[Proposed, ...]

    @property
    def kept(self) -> Proposed | None:
        """The proposal that passed; None where none did."""
        return next((one for one in self.proposed if one.status == "trial"), None)


class Demo:
    """The demo's folder, with what is done in it one after the other."""

    def __init__(self, folder: Path, loaded: Loaded, app: Melete, options: Options) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.home: Home = loaded.home
        self.app = app
        self.sessions: list[str] = []
        self._options = options

    @asynccontextmanager
    async def conversation(self) -> AsyncGenerator[Conversation]:
        """A session of its own, which knows of others only what was learned from them."""
        async with open_conversation(self.app, self._options) as conversation:
            self.sessions.append(conversation.ref.id)
            yield conversation

    async def review(self) -> Lesson:
        """Look back on the first session: a real review, by the model that also did the work."""
        worked = await review_one(self.app, self.sessions[0])
        rows = self.app.ledger.read()
        proposed = {one.id: one for one in facts_of(Proposed, rows)}
        return Lesson(worked=worked, noticed=tuple(facts_of(Debt, rows)), proposed=tuple(proposed.values()))

    async def take_back(self) -> Undone:
        """Undo all that the first session has taught."""
        return await undo(self.app, await meant(self.app, session=self.sessions[0]))

    async def calls(self, number: int) -> int:
        """How many calls of tools a session took."""
        ref = await self.app.store.find(self.sessions[number])
        return sum(isinstance(fact, ToolEnded) for fact in await self.app.store.facts(ref))

    async def verdict(self, runs: Sequence[RunEnded], lesson: Lesson) -> DemoEnded:
        """Read from the log, the files and the ledger what really happened."""
        ref = await self.app.store.find(self.sessions[0])
        facts = await self.app.store.facts(ref)
        shell = {one.call.id for one in facts if isinstance(one, ToolStarted) and one.call.name == "terminal"}
        tried = [one.outcome for one in facts if isinstance(one, ToolEnded) and one.result.call in shell]
        refused = sum(one.status == "refused" for one in lesson.proposed)
        library(self.app).refresh()
        gone = SKILL not in library(self.app)
        checks = (
            (all(run.stop == Stop.DONE for run in runs), "a run did not come to its end"),
            ("error" in tried[:3] and tried[-1:] == ["ok"], "the first report was not found out the hard way"),
            ((self.project / FIRST).is_file() and (self.project / SECOND).is_file(), "a report is missing"),
            (refused == 1, "the guess was not refused"),
            (lesson.kept is not None, "no lesson passed its gates"),
            (gone, "the lesson is still there after it was undone"),
        )
        problem = next((text for right, text in checks if not right), "")
        usage = Usage()
        for run in runs:
            usage += run.usage
        spent = Usage()
        for one in lesson.worked.reviews:
            spent += one.usage
        return DemoEnded(
            ok=not problem,
            calls_first=await self.calls(0),
            calls_second=await self.calls(1),
            refused=refused,
            learned=int(lesson.kept is not None),
            undone=gone,
            problem=problem,
            session=ref.id,
            log=str(self.home.state / "sessions" / f"{ref.id}.log"),
            usage=usage,
            review=spent,
        )


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
        environ = {"MELETE_HOME": str(folder / "home"), "HOME": str(folder), "PATH": path}
        loaded = load(
            {"model.name": MODEL, "model.base_url": server.base_url, "skills.bundled": False}, environ=environ
        )
        options = Options(cwd=str(folder / "project"), toolsets=("terminal", "file", "skills"))
        async with open_melete(loaded) as app:
            yield Demo(folder, loaded, app, options)


def _make_project(folder: Path) -> None:
    project = folder / "project"
    try:
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty", kept="nothing was changed", next="give a new or an empty folder")
        (project / "hours").mkdir(parents=True)
        for asset in ASSETS.iterdir():
            week = asset.name.startswith("2026-")
            target = project / "hours" / asset.name if week else project / asset.name.removesuffix(".txt")
            target.write_bytes(asset.read_bytes())
    except OSError as error:
        raise UsageError(
            f"cannot use {folder}: {error.strerror}", next="give a folder that you can write to"
        ) from error


# ---- the scripted model ----------------------------------------------------------------------------------------------

Step = tuple[str, Say | Call | Calls]
"""What the last results must hold, and the reply to them."""


def script(python: str, *, pace: float = 0.0) -> Callable[[dict[str, Any], int], Reply]:
    """The model: one reply for each number of replies so far, none without looking at what the last call brought."""
    parts = {PROMPT: _first(python), OPENING: _review(python), AGAIN: _second(python)}

    def play(body: dict[str, Any], _index: int) -> Reply:
        messages = [cast("dict[str, Any]", message) for message in body["messages"]]
        asked, steps = max(
            ((at, parts[key]) for at, one in enumerate(messages) for key in parts if _says(one, key)),
            key=lambda found: found[0],
            default=(0, ()),
        )
        replied = [at for at in range(asked, len(messages)) if messages[at]["role"] == "assistant"]
        last = "\n".join(str(one.get("content", "")) for one in messages[replied[-1] + 1 :]) if replied else ""
        if len(replied) >= len(steps) or steps[len(replied)][0] not in last:
            return Say(text=f"This is not what I expected, so I stop here. The last result was: {last[:400]}")
        reply = steps[len(replied)][1]
        return Fault("slow", seconds=pace, reply=reply) if pace else reply

    return play


def _says(message: dict[str, Any], words: str) -> bool:
    return message["role"] == "user" and words in str(message.get("content", ""))


def _shell(command: str, text: str) -> Call:
    return Call("terminal", {"command": command}, text=text)


def _first(python: str) -> Sequence[Step]:
    run = partial("{} report.py {}".format, python)
    return (
        ("", Call("search_files", {"pattern": "*", "target": "files"}, text="I look at what is here.")),
        ("report.py", _shell(run(COMMANDS[0]), "report.py should do it. I try the plain way first.")),
        ("error 17", _shell(run(COMMANDS[1]), "Error 17, and no word more. Perhaps it wants an option.")),
        ("error 18", _shell(run(COMMANDS[2]), "Another number: the file's name has the year in it.")),
        (
            "error 21",
            Call("read_file", {"path": "report.py"}, text="21 now. I read the program instead of guessing on."),
        ),
        ("--round", _shell(run(COMMANDS[3]), "It rounds to 5 or 15 minutes, and wants to be told.")),
        ("wrote out", _shell(f"cat {FIRST}", "I look at what it wrote.")),
        (
            "Total: 39:15",
            Say(text=f"The report of week 47 is in `{FIRST}`: 39:15 hours in all, in steps of 15 minutes."),
        ),
    )


def _second(python: str) -> Sequence[Step]:
    command = COMMAND.format(python=python).replace("YEAR-WNN", "2026-W48")
    return (
        ("", Call("skill_view", {"name": SKILL}, text="There is a skill for that. I load it.")),
        ("--round 15", _shell(f"{command} && cat {SECOND}", "It says how, so I do just that, and look.")),
        ("Total: 38:15", Say(text=f"The report of week 48 is in `{SECOND}`: 38:15 hours.")),
    )


def _review(python: str) -> Sequence[Step]:
    text = LEARNED.format(python=python)
    guess = text.replace("shows it;", f"shows it. {GUESSED} As ever,")

    def create(content: str, words: str) -> Call:
        return Call("skill_manage", {"action": "create", "name": SKILL, "content": content}, text=words)

    return (
        ("", create(guess, "The way had to be found. It is worth a skill.")),
        ("--force", create(text, "That option was never tried. Without it, then.")),
        ("true", Say(text="Kept: how the weekly report is made, and how its errors read.")),
    )
