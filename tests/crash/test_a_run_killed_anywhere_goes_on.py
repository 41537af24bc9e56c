"""The whole program under kill -9: `melete run` dies as its N-th disk-changing system call begins, and `run -c` goes on.

What standard output had shown as stored is in the log exactly once, no lock stays, every call has one result, and no
command has run twice without the model having been told that the first outcome is unknown.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from melete.store.log import is_locked
from melete.testing import Call, Say, ScriptedModel

pytestmark = pytest.mark.needs("strace")

FULL = os.environ.get("MELETE_CRASH_FULL") == "1"
STRIDE = 1 if FULL else 6
CALLS = (
    "write",
    "fdatasync,fsync",
    "ftruncate,flock",
    "?rename,?renameat,?renameat2",
    "?unlink,?unlinkat,?mkdir,?mkdirat",
)
STEPS = (
    Call("terminal", {"command": "echo one >> effects.txt"}),
    Call("write_file", {"path": "two.txt", "content": "two\n"}),
    Call("terminal", {"command": "echo three >> effects.txt"}),
)


def play(request: dict[str, Any], index: int) -> Call | Say:
    """The next step after the results that the request shows; a step whose outcome is unknown is not repeated."""
    done = sum(message["role"] == "tool" for message in request["messages"])
    return STEPS[done] if done < len(STEPS) else Say("All three are done.")


def melete(*words: str, cwd: Path, strace: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*strace, sys.executable, "-B", "-m", "melete", *words],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def killed_at(calls: str, number: int) -> tuple[str, ...]:
    """A strace that kills the traced program or what it started, as the N-th call of these begins in a thread."""
    inject = f"inject={calls}:signal=SIGKILL:when={number}"
    return ("strace", "-f", "-qqq", "-e", "signal=none", "-o", os.devnull, "-e", f"trace={calls}", "-e", inject)


def at_every_point(once: Callable[[str, int], bool]) -> int:
    count = 0
    for calls in CALLS:
        number = 1
        while not once(calls, number):
            count += 1
            number += STRIDE
    return count


def test_a_run_killed_anywhere_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedModel(play) as model:
        monkeypatch.setenv("MELETE_BASE_URL", model.base_url)
        monkeypatch.setenv("MELETE_MODEL", "scripted")

        def once(calls: str, number: int) -> bool:
            folder = tmp_path / f"{calls.strip('?').partition(',')[0]}-{number}"
            folder.mkdir()
            monkeypatch.setenv("MELETE_HOME", str(folder / "home"))
            return killed_and_continued(folder, calls, number)

        count = at_every_point(once)
    with capsys.disabled():
        print(f"[run killed at {count} points]", end=" ")
    assert count >= 12


def killed_and_continued(folder: Path, calls: str, number: int) -> bool:
    """One kill and what follows; True when the run was not reached by it."""
    where = f"{calls} {number}"
    ran = melete("run", "--json", "do the three things", cwd=folder, strace=killed_at(calls, number))
    shown = [json.loads(line) for line in ran.stdout.splitlines() if line.endswith("}")]
    logs = list((folder / "home" / "state" / "sessions").glob("*.log"))
    assert not any(is_locked(log) for log in logs), where
    went_on = melete("run", "--json", *(("-c",) if acknowledged(shown) else ("do the three things",)), cwd=folder)
    assert went_on.returncode == 0, (where, went_on.stderr)
    checked = melete("verify", "--json", cwd=folder)
    assert checked.returncode == 0, (where, checked.stdout, checked.stderr)
    session = newest(folder)
    facts = [json.loads(line) for line in melete("sessions", "show", session, "--json", cwd=folder).stdout.splitlines()]
    check_facts(facts, shown, where)
    effects = folder / "effects.txt"
    lines = effects.read_text().split() if effects.exists() else []
    assert len(lines) == len(set(lines)), (where, lines)
    return ran.returncode == 0


def acknowledged(shown: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The facts that the killed run had shown; whoever saw one may rely on the session."""
    return [event for event in shown if "sub" not in event]


def newest(folder: Path) -> str:
    listed = [json.loads(line) for line in melete("sessions", "list", "--json", cwd=folder).stdout.splitlines()]
    return listed[0]["id"]


def check_facts(facts: list[dict[str, Any]], shown: list[dict[str, Any]], where: str) -> None:
    assert [fact["seq"] for fact in facts] == list(range(1, len(facts) + 1)), where
    for event in acknowledged(shown):
        same = facts[event["seq"] - 1]
        assert (same["type"], same["at"]) == (event["type"], event["at"]), (where, event)
    calls = [
        part["id"]
        for fact in facts
        if fact["type"] == "reply"
        for part in fact["message"]["parts"]
        if part["type"] == "tool_call"
    ]
    results = [fact["result"]["call"] for fact in facts if fact["type"] == "tool.ended"]
    assert sorted(calls) == sorted(results), where
    assert facts[-1]["type"] == "run.ended", where
