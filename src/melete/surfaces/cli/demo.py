"""`melete demo`: watching Melete do a small real job, without a key and without a network."""

import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec

from melete.app.demo import AGAIN, PROMPT, SKILL, Demo, DemoEnded, open_demo
from melete.app.service import prompt_message
from melete.core.event import Event
from melete.surfaces.cli.options import json_option, variables_here
from melete.surfaces.cli.output import one_line, out, visible
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.progress import Progress
from melete.surfaces.cli.render import usage_text
from melete.surfaces.cli.running import Interrupts, run_async
from melete.surfaces.cli.watch import Show, run_watched

PACE = 0.03
STYLES = {"+": "green", "-": "red", "@": "cyan"}


@click.command()
@click.option("--keep", metavar="DIR", help="Work in DIR, new or empty, and keep it.")
@json_option
def demo(keep: str | None, as_json: bool) -> int:
    """Watch a small real job, scripted.

    A bug is found and mended, and comes back: what was learned is found again in another session. Needs no key and no network.
    """
    paint = Paint(sys.stdout, variables_here())
    with ExitStack() as stack:
        folder = Path(keep).absolute() if keep else Path(stack.enter_context(TemporaryDirectory(prefix="melete-demo-")))
        return run_async(lambda signals: _play(folder, paint, kept=bool(keep), as_json=as_json, signals=signals))


async def _play(folder: Path, paint: Paint, *, kept: bool, as_json: bool, signals: Interrupts) -> int:
    async with open_demo(folder, pace=PACE if paint.terminal and not as_json else 0.0) as demo:
        conversation = demo.conversation
        signals.stop = conversation.cancel
        if not as_json:
            _introduce(demo, paint)
        progress = Progress(paint, conversation.app.redact, verbose=False, streaming=True, write=out)
        show: Show = _print if as_json else progress.show
        ended = await run_watched(conversation, prompt_message(PROMPT), shows=[show])
        first = await demo.verdict(ended)
        if not as_json:
            _come_back(paint)
        async with demo.again() as second:
            signals.stop = second.cancel
            progress = Progress(paint, second.app.redact, verbose=False, streaming=True, write=out)
            show = _print if as_json else progress.show
            verdict = await demo.verdict(await run_watched(second, prompt_message(AGAIN), shows=[show]), first)
        if as_json:
            there = msgspec.structs.replace(verdict, log=verdict.log if kept else "")
            out(msgspec.json.encode(there).decode() + "\n")
        else:
            _conclude(demo, verdict, paint, kept=kept)
        return 0 if verdict.ok else 1


def _print(event: Event) -> None:
    out(msgspec.json.encode(event).decode() + "\n")


def _introduce(demo: Demo, paint: Paint) -> None:
    out(f"{paint('bold', 'Melete at work')}\n")
    out("The model is scripted: its words were written beforehand. All else is real:\n")
    out("the loop, the tools, the files, the tests that fail and then pass, and the log.\n\n")
    out(f"{paint('dim', 'folder')}  {visible(str(demo.project))}\n")
    out(f"{paint('cyan', '> you')}   {PROMPT}\n\n")


def _come_back(paint: Paint) -> None:
    out(f"\n{paint('bold', 'Another day')}\n")
    out("The bug is back. This session knows nothing of the first one but the skill.\n\n")
    out(f"{paint('cyan', '> you')}   {AGAIN}\n\n")


def _conclude(demo: Demo, verdict: DemoEnded, paint: Paint, *, kept: bool) -> None:
    out("\n")
    for line in (*demo.diff(), "", *demo.learned()):
        out(f"  {paint(STYLES.get(line[:1], 'dim'), visible(line))}\n")
    out("\n")
    if not verdict.ok:
        out(f"{paint('red', '✗')} It did not work: {one_line(verdict.problem)}\n")
    else:
        out(f"{paint('green', '✓')} The tests failed before and pass now: so says the log, not the model.\n")
        out(
            f"{paint('green', '✓')} It took {verdict.calls_first} tool calls, and {verdict.calls_second} with the skill; "
        )
        out(f"the skill has {verdict.versions} versions, and both can be had back.\n")
    out(f"  {usage_text(verdict.usage)}; no money was spent.\n")
    where = visible(verdict.log if kept else verdict.log.replace(str(demo.folder), "DIR"))
    out(
        f"  The log has {verdict.facts} facts"
        + (":" if kept else "; melete demo --keep DIR keeps it:")
        + f"\n  {where}\n"
    )
    home = f"MELETE_HOME={demo.home.root} " if kept else ""
    first = f"{home}melete sessions show {verdict.session}" if kept else "melete demo --keep DIR"
    out("\nWhat to try next:\n")
    for command, about in (
        (first, "read that session again" if kept else "keep the folder and its log"),
        (
            f"{home}melete skills why {SKILL}" if kept else "melete skills list",
            "see where a skill came from" if kept else "see the skills that come with Melete",
        ),
        ("melete doctor", "see whether everything is there for your own work"),
        ('melete run -m PROVIDER/NAME "What is in this folder?"', "ask a real model"),
    ):
        out(f"  {paint('bold', visible(command))}\n      {paint('dim', about)}\n")
