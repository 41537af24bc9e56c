"""Every environment does what every environment must do: the same checks for all, each in a new one, and nothing is left behind."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from melete.core.environment import Environment
from melete.core.errors import EnvironmentFailure
from melete.testing import suites
from melete.testing.checking import until
from tests.places.row import Row
from tests.places.rows import ROWS

LONGEST = 240


def marked(row: Row, *values: object, id: str) -> Any:
    marks = [pytest.mark.needs(*row.needs)] if row.needs else []
    marks += [pytest.mark.needs_package(*row.packages)] if row.packages else []
    return pytest.param(row, *values, marks=marks, id=id)


def checks_of(row: Row) -> list[Any]:
    sized = (suites.big_file(row.megabytes_of_file), suites.big_output(row.megabytes_of_output))
    checks = (*suites.ENVIRONMENT, *suites.MACHINE, *sized)
    return [
        marked(row, check, id=f"{row.name}-{check.__name__}") for check in checks if check.__name__ not in row.without
    ]


def rows(*, only: Callable[[Row], object] = lambda _: True) -> list[Any]:
    return [marked(row, id=row.name) for row in ROWS if only(row)]


def run(row: Row, given: Any, folder: Path, check: Callable[[Environment], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(LONGEST), row.open(folder, given) as place:
            await check(place)

    asyncio.run(main())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "empty"
    made.mkdir()
    return made


@pytest.mark.parametrize(("row", "check"), [one for row in ROWS for one in checks_of(row)])
def test_every_environment(row: Row, check: suites.Check, given: Any, folder: Path) -> None:
    run(row, given, folder, check)


@pytest.mark.parametrize("row", rows(only=lambda row: row.cut))
def test_what_breaks_in_use_is_told_and_the_next_command_starts_anew(row: Row, given: Any, folder: Path) -> None:
    async def check(place: Environment) -> None:
        assert row.cut is not None
        await place.write("kept", b"")

        async def begun() -> bool:
            return await place.stat("begun") is not None

        async with asyncio.TaskGroup() as group:
            running = group.create_task(outcome(place.exec(["bash", "-c", "touch begun; sleep 3218"])))
            await until(begun, "the start of the command")
            started = await place.start(["sleep", "3219"])
            await row.cut(place, given)
        failure = running.result()
        assert isinstance(failure, EnvironmentFailure), failure
        assert failure.what
        assert failure.next
        async with asyncio.timeout(60):
            assert await started.wait() != 0
        done = await place.exec(["echo", "on"])
        assert (done.code, done.output) == (0, b"on\n")

    run(row, given, folder, check)


async def outcome(doing: Awaitable[Any]) -> Any:
    try:
        return await doing
    except EnvironmentFailure as failure:
        return failure


@pytest.mark.parametrize("row", rows(only=lambda row: row.small))
def test_a_full_disk_is_an_error_and_the_environment_goes_on(row: Row, given: Any, folder: Path) -> None:
    async def check(place: Environment) -> None:
        big = f"{row.small}/big"
        done = await place.exec(["bash", "-c", f"head -c 200000000 /dev/zero > {big}"])
        assert done.code
        assert b"o space left" in done.output
        with pytest.raises(OSError, match="o space left"):
            await place.write(f"{row.small}/other", b"x" * 100_000_000)
        assert await place.stat(f"{row.small}/other") is None
        assert (await place.exec(["echo", "on"])).output == b"on\n"
        await place.remove(big)
        await place.write(f"{row.small}/other", b"fits")
        assert await place.read(f"{row.small}/other") == b"fits"

    run(row, given, folder, check)


@pytest.mark.parametrize("row", rows())
def test_commands_see_no_variable_that_was_not_given(
    row: Row, given: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUITE_SECRET", "9f2c-do-not-show")

    async def check(place: Environment) -> None:
        assert os.environ["SUITE_SECRET"].encode() not in (await place.exec(["env"])).output
        started = await place.start(["env"])
        said = b""
        while piece := await started.read():
            said += piece
        assert b"SUITE_WORD" in said
        assert os.environ["SUITE_SECRET"].encode() not in said

    run(row, given, folder, check)


@pytest.mark.parametrize("row", rows())
def test_many_who_come_first_open_it_once(row: Row, given: Any, folder: Path) -> None:
    async def check(place: Environment) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(place.exec(["echo", str(number)])) for number in range(5)]
            temps = [group.create_task(place.temp()) for _ in range(3)]
        assert [task.result().output for task in tasks] == [b"%d\n" % number for number in range(5)]
        assert len({task.result() for task in temps}) == 1

    run(row, given, folder, check)


@pytest.mark.parametrize("row", rows())
def test_an_environment_that_was_never_used_closes_at_once(row: Row, given: Any, folder: Path) -> None:
    async def check(place: Environment) -> None:
        assert place.name
        assert place.cwd.startswith("/")

    run(row, given, folder, check)


@pytest.mark.parametrize("row", rows())
def test_a_process_that_was_left_running_ends_with_its_environment(row: Row, given: Any, folder: Path) -> None:
    async def check(place: Environment) -> None:
        await place.exec(["bash", "-c", "nohup sleep 3220 >/dev/null 2>&1 &"])
        await place.start(["bash", "-c", "trap '' TERM HUP; sleep 3221; sleep 3222"])
        await place.start(["sleep", "3223"], pty=True)

    run(row, given, folder, check)  # what is left behind is counted for every test here


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("row", rows())
def test_output_that_is_left_out_takes_no_memory(row: Row, given: Any, folder: Path) -> None:
    async def check(place: Environment) -> None:
        size = min(row.megabytes_of_output, 300) * 1_000_000
        await place.exec(["true"])
        Path("/proc/self/clear_refs").write_text("5")  # the highest mark of memory is now that of this moment
        before = most_memory()
        done = await place.exec(["head", "-c", str(size), "/dev/zero"], limit=10_000)
        assert done.dropped > size - 11_000
        assert most_memory() - before < 64 << 20

    run(row, given, folder, check)


def most_memory() -> int:
    """The most bytes of memory that this process had since the mark was put back."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) << 10
