"""`melete demo`: watching Melete do a job, draw a lesson from it and be shorter about the next, without a key or a network."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec

from melete.app.demo import AGAIN, PROMPT, SKILL, Demo, DemoEnded, Lesson, Proposed, open_demo
from melete.app.prompts import prompt_message
from melete.core.event import Event, RunEnded
from melete.surfaces.cli.learn_history import story_lines
from melete.surfaces.cli.options import json_option, variables_here
from melete.surfaces.cli.output import one_line, out, visible
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.progress import Progress
from melete.surfaces.cli.render import usage_text
from melete.surfaces.cli.running import Interrupts, run_async
from melete.surfaces.cli.watch import Show, run_watched

PACE = 0.03
RULE = 76
STYLES = {"+": "green", "-": "red", "@": "cyan"}
BAR = 4
"""Characters of a bar for each call."""


@click.command()
@click.option("--keep", metavar="DIR", help="Work in DIR, new or empty, and keep it.")
@json_option
def demo(keep: str | None, as_json: bool) -> int:
    """Watch a small real job, scripted, and what is learned from it.

    It is done the hard way once; a lesson is proposed, checked against what happened, and used the next time. Then it is taken
    back. Needs no key and no network.
    """
    paint = Paint(sys.stdout, variables_here())
    with ExitStack() as stack:
        folder = Path(keep).absolute() if keep else Path(stack.enter_context(TemporaryDirectory(prefix="melete-demo-")))
        return run_async(lambda signals: _play(folder, _Stage(paint, kept=bool(keep), as_json=as_json), signals))


async def _play(folder: Path, stage: "_Stage", signals: Interrupts) -> int:
    async with open_demo(folder, pace=stage.pace) as demo:
        stage.introduce(demo)
        stage.act("1", "The hard way", "The program tells little. What it wants has to be found out.")
        runs = [await _run(demo, stage, PROMPT, signals)]
        stage.act(
            "2", "What is worth keeping?", "The answer is given. Only now is looked back, with a budget of its own."
        )
        lesson = await demo.review()
        stage.lesson(lesson)
        stage.act("3", "Another day", "A new session. It knows nothing of the first one but what was learned.")
        runs.append(await _run(demo, stage, AGAIN, signals))
        stage.act("4", "Why does it know that?", f"melete learn why {SKILL}")
        for line in await story_lines(demo.app, SKILL, stage.paint, brief=True) if lesson.kept else ():
            stage.say(line)
        stage.act("5", "And back", f"melete learn undo --session {demo.sessions[0]}")
        if lesson.kept:
            undone = await demo.take_back()
            for one in undone.effects:
                again = f"melete learn undo {undone.number}"
                stage.say(f"  {stage.paint('green', '↶')} {one.name}: {one.did}; it can be had again by {again}\n")
        verdict = await demo.verdict(runs, lesson)
        stage.conclude(demo, verdict)
        return 0 if verdict.ok else 1


async def _run(demo: Demo, stage: "_Stage", prompt: str, signals: Interrupts) -> RunEnded:
    stage.say(f"{stage.paint('cyan', '> you')}   {prompt}\n\n")
    async with demo.conversation() as conversation:
        signals.stop = conversation.cancel
        progress = Progress(stage.paint, demo.app.redact, verbose=False, streaming=True, write=out)
        show: Show = _print if stage.as_json else progress.show
        return await run_watched(conversation, prompt_message(prompt), shows=[show])


def _print(event: Event) -> None:
    out(msgspec.json.encode(event).decode() + "\n")


class _Stage:
    """Where the demo is seen: a terminal or a pipe, or nowhere but in JSON."""

    def __init__(self, paint: Paint, *, kept: bool, as_json: bool) -> None:
        self.paint = paint
        self.kept = kept
        self.as_json = as_json
        self.pace = PACE if paint.terminal and not as_json else 0.0

    def say(self, text: str) -> None:
        """Write text for a person; nothing in JSON."""
        if not self.as_json:
            out(text)

    def introduce(self, demo: Demo) -> None:
        """What this is, and what of it is real."""
        self.say(f"{self.paint('bold', 'Melete at work, and learning')}\n")
        self.say("The model is scripted: its words were written beforehand. All else is real:\n")
        self.say("the loop, the tools, what fails and works, the review, its gates, the way back.\n\n")
        self.say(f"{self.paint('dim', 'folder')}  {visible(str(demo.project))}\n")

    def act(self, number: str, title: str, about: str) -> None:
        """The head of a part."""
        line = "─" * max(4, RULE - len(title) - len(number) - 4)
        self.say(
            f"\n{self.paint('bold', f'{number}  {title}')} {self.paint('dim', line)}\n{self.paint('dim', about)}\n\n"
        )

    def lesson(self, lesson: Lesson) -> None:
        """What drew attention, what was proposed, and what the gates said."""
        for debt in lesson.noticed:
            self.say(f"  {self.paint('yellow', f'+{debt.weight}')} {one_line(debt.what)}\n")
        self.say(f"  {self.paint('dim', 'noticed in the log, without a model')}\n\n")
        for number, one in enumerate(lesson.proposed):
            again = "proposed again" if number else "proposed"
            self.say(f"  {again}: the skill {self.paint('bold', one.name)}\n")
            for line in self._gates(one):
                self.say(f"    {line}\n")
            if one.status == "trial":
                for line in _added(one):
                    self.say(f"    {self.paint('green', visible(line))}\n")
            self.say("\n")
        for line in lesson.worked.lines:
            self.say(f"  {self.paint('bold', one_line(line))}\n")

    def _gates(self, one: Proposed) -> Iterator[str]:
        passed = [verdict.gate for verdict in one.verdicts if verdict.ok]
        if passed:
            yield "  ".join(f"{self.paint('green', '✓')} {gate}" for gate in passed)
        for verdict in one.verdicts:
            if not verdict.ok:
                yield f"{self.paint('red', '✗')} {verdict.gate}: {one_line(verdict.reason)}"
        if one.status == "refused":
            yield self.paint("dim", "refused; the reviewer is told why")

    def conclude(self, demo: Demo, verdict: DemoEnded) -> None:
        """The verdict, and what to try next."""
        if self.as_json:
            told = verdict if self.kept else msgspec.structs.replace(verdict, log="")
            out(msgspec.json.encode(told).decode() + "\n")
            return
        paint = self.paint
        self.say("\n" + paint("dim", "─" * RULE) + "\n")
        if not verdict.ok:
            self.say(f"{paint('red', '✗')} It did not work: {one_line(verdict.problem)}\n")
        rows = (("before", verdict.calls_first, "yellow"), ("after", verdict.calls_second, "green"))
        for name, calls, style in rows:
            self.say(f"  {name:<7}{paint(style, '█' * (BAR * calls))} {calls} calls\n")
        if verdict.ok:
            self.say(
                f"{paint('green', '✓')} A guess was refused; what had worked was kept, used, explained and undone.\n"
            )
            self.say(f"{paint('green', '✓')} So say the log and the files, not the model.\n")
        self.say(f"  {usage_text(verdict.usage)}; the review {usage_text(verdict.review)}. No money was spent.\n")
        self._next(demo, verdict)

    def _next(self, demo: Demo, verdict: DemoEnded) -> None:
        home = f"MELETE_HOME={demo.home.root} " if self.kept else ""
        first = f"{home}melete sessions show {verdict.session}" if self.kept else "melete demo --keep DIR"
        self.say("\nWhat to try next:\n")
        for command, about in (
            (first, "read the first session again" if self.kept else "keep the folder, and look at all of it yourself"),
            (
                f"{home}melete learn report" if self.kept else "melete learn bench",
                "see what was learned and what it cost" if self.kept else "measure it yourself, in five minutes",
            ),
            ("melete doctor", "see whether everything is there for your own work"),
            ('melete run -m PROVIDER/NAME "What is in this folder?"', "ask a real model"),
        ):
            self.say(f"  {self.paint('bold', visible(command))}\n      {self.paint('dim', about)}\n")


def _added(one: Proposed) -> Iterator[str]:
    """The lines that a proposal adds, without the heads of its diff."""
    for line in one.diff.splitlines():
        if line.startswith("+") and not line.startswith("+++") and line.strip("+ "):
            yield line
