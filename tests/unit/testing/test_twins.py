"""The twins pass the suites that the real ones pass, and each suite can fail."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.memory.kept import notes
from tests.unit.skills.kept import keeper

from melete.app.clock import SystemClock
from melete.core.channel import Channel, Outgoing
from melete.core.environment import Place
from melete.core.errors import EnvironmentFailure
from melete.core.memory import Noted, Noting
from melete.core.ports import Applied, Change, Clock, Completed, Environment, Memory, SkillLibrary
from melete.core.tool import ToolError
from melete.environments.local import LocalEnvironment
from melete.testing import ManualClock, MemoryChannel, MemoryEnvironment, MemoryNotes, MemorySkills, checking, suites
from melete.testing.environment import Ended, MemoryProcess

Make = Callable[[Path], Environment]


def local(folder: Path) -> Environment:
    return LocalEnvironment(Place(cwd=str(folder), variables={"PATH": os.environ["PATH"]}))


def memory(_: Path) -> Environment:
    return MemoryEnvironment()


def run_check(check: suites.Check, environment: Callable[[], Environment]) -> None:
    async def main() -> None:
        place = environment()
        try:
            await check(place)
        finally:
            await place.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("make", [local, memory])
@pytest.mark.parametrize("check", suites.ENVIRONMENT, ids=lambda check: check.__name__)
def test_environments(check: suites.Check, make: Make, tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "empty"
    folder.mkdir()
    run_check(check, lambda: make(folder))


class Broken(MemoryEnvironment):
    """Does everything a little wrong."""

    async def exec(self, argv: Any, **options: Any) -> Completed:
        return Completed(code=0, output=b"same for all", seconds=0.0)

    async def start(self, argv: Any, **options: Any) -> MemoryProcess:
        return await super().start(["echo", "same for all"])

    async def read(self, path: str, *, offset: int = 0, limit: int = -1) -> bytes:
        return b"same for all"

    async def stat(self, path: str) -> None:
        return None


@pytest.mark.parametrize("check", [*suites.ENVIRONMENT[:6], *suites.ENVIRONMENT[8:]], ids=lambda check: check.__name__)
def test_the_suite_finds_a_broken_environment(check: suites.Check) -> None:
    with pytest.raises(AssertionError):
        run_check(check, Broken)


@pytest.mark.parametrize(
    "check",
    [check for check in suites.MACHINE if check.__name__ != "a_working_folder_that_is_gone"] + [suites.big_file(1)],
    ids=lambda check: check.__name__,
)
def test_the_suite_for_machines_finds_a_broken_environment(
    check: suites.Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "PATIENCE", 0.1)
    with pytest.raises((AssertionError, EnvironmentFailure, ExceptionGroup)):
        run_check(check, Broken)


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock(), ManualClock(step=0.5)])
@pytest.mark.parametrize("check", suites.CLOCK, ids=lambda check: check.__name__)
def test_clocks(check: Callable[[Clock], Awaitable[None]], clock: Clock) -> None:
    asyncio.run(check(clock))  # type: ignore[arg-type]


def test_a_clock_stands_still_until_it_is_told() -> None:
    clock = ManualClock(datetime(2026, 5, 1, tzinfo=UTC))
    assert clock.now() == clock.now() == datetime(2026, 5, 1, tzinfo=UTC)
    assert clock.advance(90) == clock.now() == datetime(2026, 5, 1, 0, 1, 30, tzinfo=UTC)


def test_a_clock_with_a_step_moves_on_after_each_look() -> None:
    clock = ManualClock(step=2)
    assert clock.now() + timedelta(seconds=2) == clock.now()


def test_a_clock_needs_a_zone() -> None:
    with pytest.raises(ValueError, match="zone"):
        ManualClock(datetime(2026, 5, 1))  # noqa: DTZ001


def test_the_suite_finds_a_clock_that_runs_back() -> None:
    with pytest.raises(AssertionError, match="order"):
        asyncio.run(suites.clock_does_not_run_back(ManualClock(step=-1)))


@pytest.mark.parametrize("check", suites.CHANNEL, ids=lambda check: check.__name__)
def test_channels(check: Callable[[Channel, suites.Deliver, Clock], Awaitable[None]]) -> None:
    async def main() -> None:
        channel = MemoryChannel()
        await check(channel, channel.deliver, ManualClock())

    asyncio.run(main())


@pytest.mark.parametrize("make", [keeper, lambda _: MemorySkills()], ids=["real", "memory"])
@pytest.mark.parametrize("check", suites.SKILLS, ids=lambda check: check.__name__)
def test_libraries_of_skills(
    check: Callable[[SkillLibrary], Awaitable[None]], make: Callable[[Path], SkillLibrary], tmp_path: Path
) -> None:
    asyncio.run(check(make(tmp_path)))  # type: ignore[arg-type]


class Forgetful(MemorySkills):
    """Makes nothing."""

    async def apply(self, change: Change) -> Applied:
        return await self.check(change)


@pytest.mark.parametrize("check", suites.SKILLS, ids=lambda check: check.__name__)
def test_the_suite_finds_a_library_that_forgets(check: Callable[[SkillLibrary], Awaitable[None]]) -> None:
    with pytest.raises((AssertionError, ToolError)):
        asyncio.run(check(Forgetful()))  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [notes, lambda _: MemoryNotes()], ids=["real", "memory"])
@pytest.mark.parametrize("check", suites.MEMORY, ids=lambda check: check.__name__)
def test_memories(check: Callable[[Memory], Awaitable[None]], make: Callable[[Path], Memory], tmp_path: Path) -> None:
    asyncio.run(check(make(tmp_path)))  # type: ignore[arg-type]


class Absent(MemoryNotes):
    """Keeps nothing."""

    async def apply(self, change: Noting) -> Noted:
        return await self.check(change)


@pytest.mark.parametrize("check", suites.MEMORY, ids=lambda check: check.__name__)
def test_the_suite_finds_a_memory_that_keeps_nothing(check: Callable[[Memory], Awaitable[None]]) -> None:
    if check is not suites.memory_keeps_no_harm:
        with pytest.raises((AssertionError, IndexError, ToolError)):
            asyncio.run(check(Absent()))  # type: ignore[arg-type]


def test_a_channel_keeps_what_was_sent_once_for_each_key_and_fails_when_told() -> None:
    async def main() -> None:
        channel = MemoryChannel()
        channel.fail(ConnectionError("the platform is down"))
        with pytest.raises(ConnectionError):
            await channel.send("here", Outgoing(text="one", key="k"))
        first = await channel.send("here", Outgoing(text="one", key="k"))
        assert await channel.send("here", Outgoing(text="one", key="k")) == first
        assert [sent.what.text for sent in channel.sent] == ["one"]
        channel.close()
        assert [message async for message in channel.receive()] == []

    asyncio.run(main())


def test_an_environment_in_memory_has_files_and_programs_of_its_own() -> None:
    async def main() -> None:
        place = MemoryEnvironment(
            files={"a.txt": "text", "/elsewhere/b": b"bytes"},
            programs={"count": lambda given: Ended(code=3, output=str(len(given.argv)).encode())},
        )
        assert await place.read("a.txt") == b"text"
        assert await place.read("/elsewhere/b") == b"bytes"
        done = await place.exec(["bash", "-c", "count 'a b' c"])
        assert (done.code, done.output) == (3, b"3")
        assert place.commands == [("bash", "-c", "count 'a b' c")]

    asyncio.run(main())
