"""A run that goes round in circles is warned first, then ended with a summing-up; a setting switches that off."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from melete.core.event import RunEnded
from melete.testing import Call, Say, ScriptedModel
from melete.testing.replies import Reply
from tests.talking import talk

LAST = "I was going round in circles."
SAME_FAILURE = [Call("read_file", {"path": "none.txt"})]
MANY_FAILURES = [Call("read_file", {"path": f"none{n}.txt"}) for n in range(40)]
NO_PROGRESS = [Call("terminal", {"command": "echo same"})]
A_B = [Call("terminal", {"command": "echo a"}), Call("terminal", {"command": "echo b"})]
A_B_C_D = [*A_B, Call("todo"), Call("search_files", {"pattern": "x"})]


def run(tmp_path: Path, calls: Sequence[Reply], **settings: object) -> tuple[RunEnded, list[dict[str, Any]]]:
    def script(request: dict[str, Any], index: int) -> Reply:
        return Say(LAST) if request.get("tool_choice") == "none" or index == 30 else calls[index % len(calls)]

    async def main() -> tuple[RunEnded, list[dict[str, Any]]]:
        async with talk(model, tmp_path / "work", settings=settings) as here:
            return await here.say("Go."), await here.results()

    with ScriptedModel(script) as model:
        return asyncio.run(main())


@pytest.mark.parametrize(
    ("calls", "first_warning", "words"),
    [
        (SAME_FAILURE, 2, "This exact call has failed"),
        (MANY_FAILURES, 3, "read_file has failed"),
        (NO_PROGRESS, 3, "The same call has given the same result"),
        (A_B, 4, "The same 2 calls have gone round"),
        (A_B_C_D, 8, "The same 4 calls have gone round"),
    ],
)
def test_it_is_warned_and_then_stopped(tmp_path: Path, calls: Sequence[Reply], first_warning: int, words: str) -> None:
    ended, results = run(tmp_path, calls)
    warned = [number for number, result in enumerate(results, 1) if "warning" in result]
    assert warned[0] == first_warning
    assert words in results[first_warning - 1]["warning"]
    assert results[-1]["warning"].endswith("The run is being stopped.")
    assert len(warned) > 1
    assert (ended.stop, ended.text) == ("looping", LAST)
    assert len(results) < 20


def test_progress_is_no_circle(tmp_path: Path) -> None:
    growing = [Call("terminal", {"command": f"echo {n}"}) for n in range(40)]
    ended, results = run(tmp_path, growing)
    assert ended.stop == "done"
    assert not [result for result in results if "warning" in result]


def test_the_guard_can_be_switched_off(tmp_path: Path) -> None:
    ended, results = run(tmp_path, SAME_FAILURE, **{"agent.loop_guard": "false"})
    assert ended.stop == "done"
    assert len(results) == 30
    assert not [result for result in results if "warning" in result]
