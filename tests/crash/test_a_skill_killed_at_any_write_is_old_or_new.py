"""Kill -9 at every system call that changes the disk while a skill is made and mended: what was promised is there, whole."""

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from melete.core.ports import Change
from melete.core.tool import ToolError
from melete.skills.versions import tree_of
from tests.crash.skill_worker import SCRIPT, STEPS
from tests.crash.test_killed_at_every_write import ROOT, at_every_point
from tests.unit.skills.kept import keeper, text

pytestmark = pytest.mark.needs("strace")
STATES: list[dict[str, bytes]] = [
    {},
    *({"SKILL.md": text("demo", body).encode()} for body in STEPS[:2]),
    {"SKILL.md": text("demo", STEPS[1]).encode(), SCRIPT: b"echo go\n"},
    {"SKILL.md": text("demo", STEPS[2]).encode(), SCRIPT: b"echo 2\n", "references/a.md": b"a\n"},
]


def test_what_was_promised_is_there_and_nobody_else_is_taken_for_its_author(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def once(calls: str, number: int) -> bool:
        home = tmp_path / f"{calls.strip('?').partition(',')[0]}-{number}"
        home.mkdir()
        ran = subprocess.run(
            [
                *("strace", "-f", "-qqq", "-e", "signal=none", "-o", os.devnull),
                *("-e", f"trace={calls}", "-e", f"inject={calls}:signal=SIGKILL:when={number}"),
                *(sys.executable, "-B", "-m", "tests.crash.skill_worker", str(home)),
            ],
            cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        promised = ran.stdout.splitlines()
        survived = "done" in promised
        assert survived == (ran.returncode == 0), ran.stderr
        asyncio.run(check(home, len([line for line in promised if line.startswith("step")])))
        return survived

    count = at_every_point(2, once)
    with capsys.disabled():
        print(f"[skill killed at {count} points]", end=" ")
    assert count > 15


async def check(home: Path, promised: int) -> None:
    """The files are those of a step, not of an earlier one than was promised; the history can be read, and it goes on."""
    kept = keeper(home)
    with suppress(ToolError):  # whoever looks finishes what was left half done
        await kept.read("demo")
    there = tree_of(home / "skills/user/demo")
    assert there in STATES
    assert STATES.index(there) >= promised
    if "demo" in kept:
        assert kept.get("demo").owner == "agent"
        read = await kept.read("demo")
        assert (
            await kept.apply(Change(name="demo", files={"references/b.md": "b\n"}, base=read.version, author="agent"))
        ).ok
    else:
        assert (await kept.apply(Change(name="demo", files={"SKILL.md": text("demo")}, author="agent"))).ok
    assert not list((home / "skills").rglob(".*.new"))
    history = kept.versions.history("demo")
    assert all(kept.versions.tree(one) for one in history)
    assert kept.get("demo").owner == "agent"
