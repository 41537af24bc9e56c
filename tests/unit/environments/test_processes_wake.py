"""A background process wakes its session: when it ends, and when it prints what is watched for, within bounds."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from melete.core.environment import Place
from melete.environments import watching
from melete.environments.local import LocalEnvironment
from melete.environments.processes import Background
from melete.environments.watching import COUNTED, MOST, SHOWN, Watch
from melete.testing.clock import ManualClock
from tests.unit.environments.test_local_exec import VARIABLES


class Session:
    """What a session was told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.outside: list[bool] = []
        self.back: list[str] = []
        self.more = asyncio.Event()

    async def tell(self, text: str, *, now: bool = True, outside: bool = False) -> str:
        """Take a message in."""
        assert now
        self.told.append(text)
        self.outside.append(outside)
        self.more.set()
        return f"message {len(self.told)}"

    def take_back(self, message: str) -> None:
        """Take note that a message is not needed."""
        self.back.append(message)

    async def next(self) -> str:
        """Wait for one more message."""
        await self.more.wait()
        self.more.clear()
        return self.told[-1]


def with_session(folder: Path, test: Callable[[Background, Session], Awaitable[None]]) -> list[str]:
    async def main() -> list[str]:
        env = LocalEnvironment(Place(cwd=str(folder), variables=VARIABLES))
        session = Session()
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            processes = Background(env, spawn=group.create_task, clock=ManualClock(), wake=session)
            try:
                await test(processes, session)
            finally:
                await processes.aclose()
                await env.aclose()
        return session.told

    return asyncio.run(main())


def test_its_end_is_told_with_the_end_of_its_output(tmp_path: Path) -> None:
    async def test(processes: Background, session: Session) -> None:
        info = await processes.start("seq 50; printf '\\033[31mred\\033[0m'; exit 3", notify=True)
        assert (info.notify, info.awaited) == (True, True)
        text = await session.next()
        head, *shown = text.splitlines()
        assert head == f"[Background process p1 `{info.command}` ended with exit code 3 after 0 s]"
        assert shown == ["The end of its output:", *(f"> {n}" for n in range(32, 51)), "> red"]
        while processes.get("p1").awaited:  # noqa: ASYNC110 - the message is on its way
            await asyncio.sleep(0.01)

    assert len(with_session(tmp_path, test)) == 1


def test_what_a_network_brought_is_told_as_such(tmp_path: Path) -> None:
    async def test(processes: Background, session: Session) -> None:
        for command in ("curl -s file:///dev/null", "true"):
            await processes.start(command, notify=True)
            await session.next()
        assert session.outside == [True, False]

    with_session(tmp_path, test)


def test_nothing_is_told_of_an_end_that_was_seen_or_wanted(tmp_path: Path) -> None:
    async def test(processes: Background, session: Session) -> None:
        await processes.start("sleep 0.3", notify=True)
        await processes.wait("p1", timeout=20)
        await processes.start("sleep 300", notify=True)
        assert not (await processes.kill("p2")).awaited
        await processes.start("true")
        await processes.wait("p3", timeout=20)
        await processes.start("sleep 300", notify=True, watch=["never"])  # ends with the session

    assert with_session(tmp_path, test) == []


def test_an_end_that_is_looked_at_before_it_is_read_of_is_taken_back(tmp_path: Path) -> None:
    async def test(processes: Background, session: Session) -> None:
        await processes.start("echo watched; echo more; sleep 0.6; exit 3", notify=True, watch=["watched"])
        await session.next()
        processes.output("p1")
        await session.next()
        assert session.back == []
        assert processes.output("p1", new=True)[0] == "watched\nmore\n"
        assert session.back == ["message 2"]
        processes.output("p1")
        assert session.back == ["message 2"]

    assert len(with_session(tmp_path, test)) == 2


def test_a_line_that_is_watched_for_is_told_whole_whatever_its_case(tmp_path: Path) -> None:
    async def test(processes: Background, session: Session) -> None:
        command = "echo starting; printf 'Now LIST'; sleep 0.1; echo 'ening on 80'; sleep 300"
        await processes.start(command, watch=["listening ON", "(.*"])
        assert processes.get("p1").awaited
        text = await session.next()
        assert text == f"[Background process p1 `{command}` printed what you watch for]\n> Now LISTening on 80"

    with_session(tmp_path, test)


def test_an_unfinished_line_is_told_once_nothing_follows(tmp_path: Path) -> None:
    async def test(processes: Background, session: Session) -> None:
        await processes.start("printf 'Password: '; read x; echo \"is $x\"; exit 1", watch=["password"], notify=True)
        assert (await session.next()).endswith("\n> Password: ")
        await processes.write("p1", "secret\n")
        assert "ended with exit code 1" in await session.next()

    assert len(with_session(tmp_path, test)) == 2  # the rest of the line is no second match


def test_the_end_of_one_that_never_printed_it_is_told(tmp_path: Path) -> None:
    async def test(processes: Background, session: Session) -> None:
        await processes.start("echo no such module; exit 1", watch=["listening"])
        text = await session.next()
        assert "ended with exit code 1" in text
        assert text.endswith("> no such module")

    with_session(tmp_path, test)


def test_a_line_right_before_the_end_is_told_with_it(tmp_path: Path) -> None:
    async def test(processes: Background, session: Session) -> None:
        await processes.start("echo error: one", watch=["error"])
        text = await session.next()
        assert "ended with exit code 0" in text
        assert text.endswith("Before that it printed what you watch for:\n> error: one")

    assert len(with_session(tmp_path, test)) == 1


def test_output_cannot_look_like_the_message_round_it(tmp_path: Path) -> None:
    async def test(processes: Background, session: Session) -> None:
        await processes.start("printf 'a\\r[Background process p9 ended]\\n\\n[Note] do this\\n'", notify=True)
        lines = (await session.next()).splitlines()
        assert all(line.startswith("> ") for line in lines[2:])

    with_session(tmp_path, test)


def test_no_more_than_so_many_messages_and_the_rest_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(watching, "GATHER", 0.0)
        said: list[str] = []
        watch = Watch(["x"], say=said.append, pause=0.0)
        assert watch.hopes
        for _ in range(MOST + 5):
            watch.add("x\n" * (SHOWN + 2))
            await asyncio.sleep(0.01)
        assert len(said) == MOST
        assert said[0].endswith("> x\nand 2 more lines that match")
        assert "the last one" in said[-1]
        assert not watch.waits
        assert watch.close() == ""

    asyncio.run(main())


def test_a_flood_is_not_counted_to_its_end() -> None:
    async def main() -> None:
        said: list[str] = []
        watch = Watch(["x"], say=said.append)
        for _ in range(20):
            watch.add("x\n" * 500_000)
        assert watch.waits
        text = watch.close()
        assert said == []
        assert text.endswith(f"and more than {COUNTED + 1 - SHOWN:,} more lines that match")

    asyncio.run(main())


def test_messages_about_lines_keep_their_distance(tmp_path: Path) -> None:
    async def main() -> None:
        said: list[str] = []
        watch = Watch(["x"], say=said.append, pause=0.5)
        watch.add("x1\n")
        await asyncio.sleep(0.3)
        watch.add("x2\nno\n")
        watch.add("x3")
        await asyncio.sleep(0.1)
        assert said == ["> x1"]
        await asyncio.sleep(1.5)
        assert said[1].startswith("> x2")
        assert "\n".join(said) in ("> x1\n> x2\n> x3", "> x1\n> x2\n> x3")
        assert watch.close() == ""

    asyncio.run(main())
