"""What counts as going round in circles, and what does not."""

import msgspec
import pytest

from melete.agent.loopwatch import TOOL_FAILURES, LoopWatch
from melete.agent.results import failure
from melete.core.event import ToolEnded
from melete.core.message import ToolCall, ToolResult


def ok(name: str, arguments: str = "{}", result: str = "{}") -> tuple[ToolCall, ToolEnded]:
    call = ToolCall(id="c", name=name, arguments=arguments)
    return call, ToolEnded(result=ToolResult(call="c", name=name, content=result))


def bad(name: str, arguments: str = "{}", error: str = "no") -> tuple[ToolCall, ToolEnded]:
    call = ToolCall(id="c", name=name, arguments=arguments)
    return call, failure(call, error)


def noted(*rounds: tuple[ToolCall, ToolEnded]) -> tuple[list[bool], str]:
    """Which outcomes came back with a warning, and why the run must end."""
    watch = LoopWatch()
    return ["warning" in watch.note(*one).result.content for one in rounds], watch.tripped


def test_a_success_between_failures_of_a_tool_starts_its_count_anew() -> None:
    rounds = [*(bad("t", str(n)) for n in range(2)), ok("t"), *(bad("t", str(n)) for n in range(10, 12))]
    assert noted(*rounds) == ([False] * 5, "")


def test_the_same_call_that_fails_in_other_ways_is_another_failure() -> None:
    warned, _ = noted(bad("t", error="one"), bad("t", error="two"))
    assert warned == [False, False]


def test_the_same_failure_counts_with_other_work_between() -> None:
    warned, tripped = noted(*(one for n in range(5) for one in (bad("t"), ok("u", str(n)))))
    assert warned[::2] == [False, True, True, True, True]
    assert "5 times in the same way" in tripped


@pytest.mark.parametrize("length", [2, 3, 4])
def test_a_cycle_whose_results_repeat_is_stopped_in_its_fourth_round(length: int) -> None:
    rounds = [ok(f"t{n % length}") for n in range(length * 4)]
    assert not noted(*rounds[:-1])[1]
    assert "gone round 4 times" in noted(*rounds)[1]


def test_a_cycle_whose_results_change_is_work() -> None:
    rounds = [ok(f"t{n % 2}", result=f'{{"n":{n}}}') for n in range(40)]
    assert noted(*rounds) == ([False] * 40, "")


def commands(*lines: str) -> list[tuple[ToolCall, ToolEnded]]:
    return [bad("terminal", msgspec.json.encode({"command": line}).decode()) for line in lines]


def test_one_command_with_ever_other_options_is_a_search() -> None:
    tried = [f"pack box --seal {word} {'--dry ' * (n % 2)}-v" for n, word in enumerate("abcdefghijklmn")]
    assert noted(*commands(*tried)) == ([False] * len(tried), "")
    assert noted(*commands(*(f"pack box --depth={n}" for n in range(40)))) == ([False] * 40, "")


@pytest.mark.parametrize(
    "tried",
    [
        [f"cat none{n}.txt" for n in range(8)],
        [f"cat -n none{n}.txt" for n in range(8)],
        [f"pack --file none{n}.txt" for n in range(8)],
        [f"tool{n} --seal" for n in range(8)],
        ["pack --seal", "pack --dry", "pack --seal --dry", "pack --dry --seal", *["pack --dry  --seal"] * 7],
        ["pack --seal", "pack  --seal", "pack   --seal", *(f"pack {' ' * n}--seal" for n in range(3, 8))],
    ],
)
def test_other_operands_and_options_that_were_tried_are_none(tried: list[str]) -> None:
    assert noted(*commands(*tried))[1]
    assert len(tried) >= TOOL_FAILURES.stop


def test_what_never_ran_counts_for_nothing() -> None:
    call = ToolCall(id="c", name="t", arguments="{}")
    rounds = [(call, failure(call, "no", outcome=outcome)) for outcome in ("not_run", "cancelled") for _ in range(20)]
    assert noted(*rounds) == ([False] * 40, "")


def test_the_warning_stands_beside_the_result() -> None:
    watch = LoopWatch()
    for _ in range(2):
        watch.note(*ok("t", result='{"a":1}'))
    ended = watch.note(*ok("t", result='{"a":1}'))
    assert ended.result.content.startswith('{"a":1,"warning":"The same call has given the same result 3 times.')
