"""A script and a folder that change between the approval and the call: does anything else run than what was approved?

A process of its own swaps, as fast as it can, the text of a script (in place and by replacing it) and the folder that a link leads
to. Meanwhile the agent asks to run the script in that folder, and each question is answered with yes. A call counts as right when
it ran the script and the folder that its question showed, or nothing at all.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.report import Row, parser, say, show
from melete import load, user
from melete.app.opening import Options
from melete.app.reaching import inbox_message, send
from melete.app.service import open_conversation
from melete.app.wire import Melete, open_melete
from melete.core.event import Asked, Fact, ToolEnded
from melete.core.session import SessionRef
from melete.testing import Call, Reply, Say, ScriptedModel

EACH = 50
"""Calls in one session."""
SWAPPER = r"""
import os, sys
top = sys.argv[1]
text = {n: f"echo ran {n} in $(pwd -P)\n" for n in "AB"}
near = {n: text[n] + ': "$0"\n' for n in "AB"}  # asks where it lies: its copy stands beside it
n = 0
while True:
    n += 1
    which = "AB"[n % 2]
    for path, script in ((f"{top}/{f}/{s}.sh", t[which]) for f in ("one", "two") for s, t in (("job", text), ("near", near))):
        if n % 3:
            with open(path + ".new", "w") as file:
                file.write(script)
            os.replace(path + ".new", path)
        else:
            with open(path, "r+") as file:
                file.write(script)
    os.symlink(("one", "two")[n // 2 % 2], f"{top}/new")
    os.replace(f"{top}/new", f"{top}/link")
"""
RAN = re.compile(r"ran (?P<script>[AB]) in (?P<folder>\S+)")
SHOWN = re.compile(r"^in (?P<folder>\S+)$.*echo ran (?P<script>[AB]) in", re.DOTALL | re.MULTILINE)


@contextmanager
def swapping(top: Path) -> Generator[None]:
    """Swap for as long as the block lasts."""
    for name in ("one", "two"):
        (top / name).mkdir(parents=True)
        (top / name / "job.sh").write_text("echo ran A in $(pwd -P)\n")
        (top / name / "near.sh").write_text('echo ran A in $(pwd -P)\n: "$0"\n')
    (top / "link").symlink_to("one")
    with subprocess.Popen([sys.executable, "-c", SWAPPER, str(top)]) as process:
        try:
            yield
        finally:
            process.kill()


def script(body: dict[str, Any], _: int) -> Reply:
    """One call after another."""
    done = sum(message["role"] == "tool" for message in body["messages"])
    if done == EACH:
        return Say("Done.")
    return Call(
        "terminal",
        {"command": f"bash {('job', 'near')[done % 2]}.sh; find . -name none{done} -delete", "workdir": "link"},
    )


def told(call: ToolEnded, asked: Asked | None) -> str:
    """What became of one call: `approved`, `nothing`, or what else ran."""
    ran = RAN.search(msgspec.json.decode(call.result.content).get("output", ""))
    if ran is None:
        return "nothing"
    shown = SHOWN.search(asked.question.detail) if asked else None
    if shown is None:
        return "never shown"
    wrong = [name for name in ("script", "folder") if ran[name] != shown[name]]
    return f"another {' and '.join(wrong)}" if wrong else "approved"


async def session(app: Melete, top: Path, env: str) -> Counter[str]:
    """One session of calls, each approved as soon as it is asked about."""
    questions: dict[str, Asked] = {}

    async def answer(ref: SessionRef, question: str) -> None:
        await send(app, ref, inbox_message(app, "answer", text="once", question=question))

    def hear(ref: SessionRef, fact: Fact) -> None:
        if isinstance(fact, Asked):
            questions[fact.question.call] = fact
            app.group.create_task(answer(ref, fact.question.id))

    app.listeners.append(hear)
    try:
        async with open_conversation(app, Options(cwd=str(top), env=env, attended=True)) as conversation:
            await conversation.run(user("Go."))
            facts = await app.store.facts(conversation.ref)
    finally:
        app.listeners.remove(hear)
    calls = [fact for fact in facts if isinstance(fact, ToolEnded)]
    return Counter(told(call, questions.get(call.result.call)) for call in calls)


async def measured(top: Path, home: Path, *, env: str, calls: int) -> Counter[str]:
    """What became of so many calls in an environment."""
    found: Counter[str] = Counter()
    with ScriptedModel(script) as model, swapping(top):
        variables = {"MELETE_HOME": str(home), "MELETE_BASE_URL": model.base_url, "MELETE_MODEL": "scripted"}
        loaded = load({"agent.loop_guard": False}, environ={**os.environ, **variables})
        async with open_melete(loaded) as app:
            while found.total() < calls:
                found += await session(app, top, env)
                say(f"  {env}: {found.total()} calls, {dict(found)}")
    return found


def main() -> None:
    options = parser(__doc__ or "", rounds=1)
    options.add_argument("--calls", type=int, default=1_000, help="how many calls in each environment")
    options.add_argument("--env", action="append", help="local and sandbox, or those named")
    given = options.parse_args()
    rows: list[Row] = []
    wrong = 0
    for env in given.env or ["local", "sandbox"]:
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            found = asyncio.run(measured(Path(folder, "work"), Path(folder, "home"), env=env, calls=given.calls))
            taken = (time.perf_counter() - began) / found.total()
        good = {"approved", "nothing"}
        wrong += sum(count for what, count in found.items() if what not in good)
        figures = {"calls": found.total(), **found, "right": sum(found[what] for what in good)}
        rows += [
            Row(what=f"{env}: {k}", unit="", values={"melete": v}, less_is_better=None, digits=0)
            for k, v in figures.items()
        ]
        rows.append(Row(what=f"{env}: a call", unit="ms", values={"melete": taken * 1000}, less_is_better=None))
    show(rows, {"melete": given.melete or Path(sys.executable).with_name("melete")}, as_json=given.json)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
