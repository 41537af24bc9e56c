"""Background processes: a rolling log each, at most 64, all ended in the end."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.core.environment import Place
from melete.core.errors import EnvironmentFailure
from melete.core.ports import Processes
from melete.core.tool import ToolError
from melete.environments.local import LocalEnvironment
from melete.environments.processes import MOST, Background
from melete.environments.records import KEPT
from melete.environments.rolling import RollingText
from melete.testing.clock import ManualClock
from tests.unit.environments.test_local_exec import VARIABLES, alive


def with_processes(folder: Path, test: Callable[[Background, ManualClock], Awaitable[None]]) -> None:
    async def main() -> None:
        env = LocalEnvironment(Place(cwd=str(folder), variables=VARIABLES))
        clock = ManualClock()
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            processes = Background(env, spawn=group.create_task, clock=clock)
            checked: Processes = processes
            assert checked.list() == []
            try:
                await test(processes, clock)
            finally:
                await processes.aclose()
                await env.aclose()

    asyncio.run(main())


def test_a_process_from_its_start_to_its_end(tmp_path: Path) -> None:
    async def test(processes: Background, clock: ManualClock) -> None:
        info = await processes.start("read x; echo got $x; exit 7")
        assert (info.status, info.cwd, info.command) == ("running", str(tmp_path), "read x; echo got $x; exit 7")
        clock.advance(5)
        assert processes.get(info.id).seconds == 5
        assert (await processes.wait(info.id, timeout=0.05)).status == "running"
        await processes.write(info.id, "ü\n")
        done = await processes.wait(info.id, timeout=20)
        assert (done.status, done.code, done.seconds) == ("exited", 7, 5)
        assert processes.output(info.id) == ("got ü\n", 0)
        assert processes.output(info.id, new=True) == ("got ü\n", 0)
        assert processes.output(info.id, new=True) == ("", 0)
        assert await processes.kill(info.id) == done

    with_processes(tmp_path, test)


def test_killing_and_closing(tmp_path: Path) -> None:
    async def test(processes: Background, clock: ManualClock) -> None:
        first = await processes.start("sleep 300")
        second = await processes.start("cat; echo over")
        assert [info.id for info in processes.list()] == [second.id, first.id]
        assert (await processes.kill(first.id)).status == "killed"
        assert not alive(first.pid)
        await processes.close_stdin(second.id)
        assert (await processes.wait(second.id, timeout=20)).code == 0
        assert processes.output(second.id)[0] == "over\n"

    with_processes(tmp_path, test)


def test_all_end_with_the_session(tmp_path: Path) -> None:
    pids: list[int] = []

    async def test(processes: Background, clock: ManualClock) -> None:
        commands = ("trap '' TERM; sleep 300; sleep 300", "sleep 300", "yes")
        pids.extend([(await processes.start(command)).pid for command in commands])

    with_processes(tmp_path, test)
    assert not any(alive(pid) for pid in pids)


def test_an_unknown_id_names_the_known_ones(tmp_path: Path) -> None:
    async def test(processes: Background, clock: ManualClock) -> None:
        info = await processes.start("true")
        with pytest.raises(ToolError, match="no background process 'p9'") as caught:
            processes.get("p9")
        assert caught.value.fields == {"known": [info.id]}
        with pytest.raises(EnvironmentFailure, match="does not exist"):
            await processes.start("true", cwd="nowhere")

    with_processes(tmp_path, test)


def test_finished_ones_make_room_and_go_after_half_an_hour(tmp_path: Path) -> None:
    async def test(processes: Background, clock: ManualClock) -> None:
        old = await processes.start("true")
        await processes.wait(old.id, timeout=20)
        clock.advance(KEPT.total_seconds() + 1)
        running = [await processes.start("sleep 300") for _ in range(MOST - 1)]
        assert old.id not in {info.id for info in processes.list()}
        short = await processes.start("true")
        await processes.wait(short.id, timeout=20)
        last = await processes.start("sleep 300")
        assert short.id not in {info.id for info in processes.list()}
        with pytest.raises(ToolError, match=f"{MOST} background processes run already"):
            await processes.start("true")
        assert len(processes.list()) == len(running) + 1
        assert processes.list()[0].id == last.id

    with_processes(tmp_path, test)


@given(st.lists(st.one_of(st.none(), st.text(max_size=30))), st.integers(1, 25))
def test_rolling_text_keeps_the_end_and_counts_the_rest(steps: list[str | None], size: int) -> None:
    rolling = RollingText(size)
    whole, seen = "", 0
    for step in steps:
        if step is None:
            text, lost = rolling.new()
            assert lost + len(text) == len(whole) - seen
            assert whole.endswith(text)
            assert len(text) == min(len(whole) - seen, size)
            seen = len(whole)
        else:
            rolling.add(step)
            whole += step
        assert rolling.all() == (whole[-size:], max(len(whole) - size, 0))
