"""Tokens, money and time of a run and of a day are bounded: the request that would pass a limit is not sent."""

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from melete.app.opening import exit_code
from melete.core.event import RunEnded
from melete.core.message import Usage
from melete.testing import Call, Fault, Say, ScriptedModel
from tests.talking import environ, talk

BIG = Usage(input=1_000, output=50)


def run(
    tmp_path: Path,
    model: ScriptedModel,
    settings: Mapping[str, object],
    prices: tuple[float, float] | None = None,
    **options: Any,
) -> RunEnded:
    async def main() -> RunEnded:
        given = {"skills.enabled": False, **settings}  # the list of skills would be counted
        async with talk(model, tmp_path / "work", settings=given, prices=prices, **options) as here:
            return await here.say("Go.")

    return asyncio.run(main())


def test_tokens_of_a_run(tmp_path: Path) -> None:
    with ScriptedModel([Call("todo", usage=BIG), Call("todo", usage=BIG), Say("never")]) as model:
        ended = run(tmp_path, model, {"budget.run.tokens": "7000"})
    assert (ended.stop, ended.steps, ended.usage.total) == ("out_of_budget", 2, 2_100)
    assert len(model.requests) == 2
    assert exit_code(ended) == 3
    assert ended.error is not None
    assert "2,100 of 7,000" in ended.error
    assert "budget.run.tokens" in ended.error
    assert "everything so far is stored" in ended.error


def test_money_of_a_run(tmp_path: Path) -> None:
    with ScriptedModel([Call("todo", usage=BIG), Call("todo", usage=BIG), Say("never")]) as model:
        ended = run(tmp_path, model, {}, (10.0, 20.0), budget_usd=0.11)
    assert (ended.stop, ended.steps) == ("out_of_budget", 2)
    assert ended.cost_usd is not None
    assert abs(ended.cost_usd - 0.022) < 1e-9
    assert ended.error is not None
    assert "$0.0220 of $0.11" in ended.error
    assert "--budget" in ended.error


def test_without_prices_money_is_unknown_and_stops_nothing(tmp_path: Path) -> None:
    with ScriptedModel([Say("fine", usage=BIG)]) as model:
        ended = run(tmp_path, model, {}, budget_usd=0.000001)
    assert (ended.stop, ended.cost_usd) == ("done", None)


def test_time_of_a_run_ends_it_with_a_summing_up(tmp_path: Path) -> None:
    slow = Call("terminal", {"command": "sleep 1.2"})
    with ScriptedModel([slow, Say("Time is over.")]) as model:
        ended = run(tmp_path, model, {"budget.run.seconds": "1"})
    assert (ended.stop, ended.text) == ("out_of_budget", "Time is over.")
    assert model.requests[1].json["tool_choice"] == "none"


OTHER = """
import asyncio, sys
from melete import Options, load, open_conversation, open_melete, user

async def main():
    async with open_melete(load({"budget.day.tokens": "9000", "skills.enabled": False})) as app:
        async with open_conversation(app, Options(cwd=sys.argv[1])) as conversation:
            ended = await conversation.run(user("Go."))
            print(ended.stop, ended.error)

asyncio.run(main())
"""


def test_the_tokens_of_a_day_are_shared_by_all_processes(tmp_path: Path) -> None:
    usage = Usage(input=2_000, output=100)
    with ScriptedModel([Say("one", usage=usage), Say("two", usage=usage), Say("never")]) as model:

        def elsewhere() -> str:
            return subprocess.run(
                [sys.executable, "-c", OTHER, str(tmp_path)],
                env=environ(model), capture_output=True, text=True, check=True, timeout=60,
            ).stdout  # fmt: skip

        first = run(tmp_path, model, {"budget.day.tokens": "9000"})
        second = elsewhere()
        third = elsewhere()
        fourth = run(tmp_path, model, {"budget.day.tokens": "9000"})
    assert first.stop == "done"
    assert second == "done None\n"
    assert third.startswith("out_of_budget the day's budget of 9000 tokens does not allow this: 4200 spent")
    assert fourth.stop == "out_of_budget"
    assert len(model.requests) == 2


def test_a_request_that_failed_costs_nothing(tmp_path: Path) -> None:
    with ScriptedModel([Fault("unauthorized")] * 3 + [Say("Fine.")]) as model:
        settings = {"budget.day.tokens": "8000"}
        for _ in range(3):
            ended = run(tmp_path, model, settings)
            assert ended.stop == "failed"
        assert run(tmp_path, model, settings).stop == "done"
