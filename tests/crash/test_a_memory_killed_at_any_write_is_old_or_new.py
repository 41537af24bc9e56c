"""Kill -9 at every system call that changes the disk while memory is changed: what was promised is there, nothing is half done."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from melete.memory.files import drafts, parted
from tests.crash.memory_worker import MET, STEPS
from tests.crash.test_killed_at_every_write import ROOT, at_every_point
from tests.unit.memory.kept import add, main_file, note, notes, texts

pytestmark = pytest.mark.needs("strace")


@pytest.mark.parametrize(
    ("role", "states"), [("alone", STEPS), ("met", MET)], ids=["alone", "while an editor saves in the middle"]
)
def test_what_was_promised_is_there_and_nobody_else_is_taken_for_its_author(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], role: str, states: list[list[str]]
) -> None:
    def once(calls: str, number: int) -> bool:
        home = tmp_path / f"{calls.strip('?').partition(',')[0]}-{number}"
        home.mkdir()
        ran = subprocess.run(
            [
                *("strace", "-f", "-qqq", "-e", "signal=none", "-o", os.devnull),
                *("-e", f"trace={calls}", "-e", f"inject={calls}:signal=SIGKILL:when={number}"),
                *(sys.executable, "-B", "-m", "tests.crash.memory_worker", role, str(home)),
            ],
            cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        promised = ran.stdout.splitlines()
        survived = "done" in promised
        assert survived == (ran.returncode == 0), ran.stderr
        asyncio.run(check(home, states, len([line for line in promised if line.startswith("step")])))
        return survived

    count = at_every_point(3, once)
    with capsys.disabled():
        print(f"[memory killed at {count} points]", end=" ")
    assert count > 8


async def check(home: Path, states: list[list[str]], promised: int) -> None:
    """The entries are those of a step, not of an earlier one than was promised; only what was written by hand is a person's."""
    kept = notes(home)
    there = await texts(kept)
    assert sorted(there) in [sorted(state) for state in states]
    assert [sorted(state) for state in states].index(sorted(there)) >= promised
    path = main_file(home)
    assert parted(path.read_text() if path.exists() else "") == there
    assert {entry.text: entry.author for entry in await kept.entries()} == {
        text: "user" if "by hand" in text else "agent" for text in there
    }
    assert not drafts(path)
    assert (await note(kept, add("and on"))).ok
    assert await texts(notes(home)) == [*there, "and on"]
    history = await kept.history()
    assert len({(step.did, step.entry, step.text) for step in history}) == len(history)
    assert not [
        step for step in history if step.author == "user" and {"uno", "zwei", "four"} & {step.text, step.before}
    ]
