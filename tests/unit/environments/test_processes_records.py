"""What is known of background processes outlives the agent that started them, and says what is true."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from melete.core.environment import Place
from melete.core.errors import EnvironmentFailure
from melete.core.tool import ToolError
from melete.environments.local import LocalEnvironment
from melete.environments.processes import Background
from melete.environments.records import KEPT, Book, Record, Records, boot, see, sweep
from melete.testing.clock import ManualClock
from tests.unit.environments.test_local_exec import VARIABLES, alive

AGENT = """
import asyncio, sys
from pathlib import Path
from melete.core.environment import Place
from melete.environments.local import LocalEnvironment
from melete.environments.processes import Background
from melete.environments.records import Records
from melete.testing.clock import ManualClock

async def main():
    env = LocalEnvironment(Place(cwd=sys.argv[1], variables={"PATH": sys.argv[3]}))
    async with asyncio.TaskGroup() as group:
        made = Background(env, spawn=group.create_task, clock=ManualClock(), records=Records(Path(sys.argv[2])))
        for command in sys.argv[4:]:
            await made.start(command, notify=True)
        await asyncio.sleep(2)
        print("ready", flush=True)
        await asyncio.sleep(300)

asyncio.run(main())
"""


class Told:
    """What the session is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def tell(self, text: str, *, now: bool = True, outside: bool = False) -> str:
        """Take a message in that asks for no run."""
        assert not now
        self.texts.append(text)
        return "message"

    def take_back(self, message: str) -> None:
        """What has been looked at need not be told."""
        assert message == "message"


Test = Callable[[Background, ManualClock], Awaitable[None]]


def with_records(folder: Path, test: Test, *, told: Told | None = None, redact: Callable[[str], str] = str) -> None:
    async def main() -> None:
        work = folder / "work"
        work.mkdir(exist_ok=True)
        env = LocalEnvironment(Place(cwd=str(work), variables=VARIABLES))
        clock = ManualClock()
        records = Records(folder / "state" / "session", redact=redact)
        wake = told
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            processes = Background(env, spawn=group.create_task, clock=clock, records=records, wake=wake)
            try:
                await test(processes, clock)
            finally:
                await processes.aclose()
                await env.aclose()

    asyncio.run(main())


def killed_agent(folder: Path, *commands: str) -> int:
    """Start commands in an agent of its own, which is killed; returns its pid."""
    (folder / "work").mkdir(exist_ok=True)
    words = [sys.executable, "-c", AGENT, str(folder / "work"), str(folder / "state" / "session"), os.environ["PATH"]]
    agent = subprocess.Popen([*words, *commands], stdout=subprocess.PIPE)
    try:
        assert agent.stdout is not None
        assert agent.stdout.readline() == b"ready\n"
    finally:
        agent.kill()
        agent.wait()
        agent.stdout.close() if agent.stdout else None
    return agent.pid


def book(folder: Path) -> Book:
    return Records(folder / "state" / "session").read()


def test_a_record_is_there_before_the_start_is_acknowledged_and_says_how_it_ended(tmp_path: Path) -> None:
    async def test(processes: Background, clock: ManualClock) -> None:
        info = await processes.start("echo hello; read x; exit 4")
        found = book(tmp_path).find(info.id)
        assert found is not None
        assert (found.status, found.pid, found.agent) == ("running", info.pid, os.getpid())
        await processes.write(info.id, "\n")
        await processes.wait(info.id, timeout=20)
        found = book(tmp_path).find(info.id)
        assert found is not None
        assert (found.status, found.code) == ("exited", 4)
        assert found.ended == clock.now()

    with_records(tmp_path, test)
    for path in (tmp_path / "state").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_the_next_agent_shows_them_and_numbers_go_on(tmp_path: Path) -> None:
    async def first(processes: Background, clock: ManualClock) -> None:
        await processes.start("seq 3; exit 4")
        await processes.wait("p1", timeout=20)
        await processes.start("sleep 300")

    async def second(processes: Background, clock: ManualClock) -> None:
        shown = [(info.id, info.status, info.code, info.owned) for info in processes.list()]
        assert shown == [("p2", "killed", -15, False), ("p1", "exited", 4, False)]
        assert processes.output("p1") == ("1\n2\n3\n", 0)
        assert processes.output("p1", new=True) == ("1\n2\n3\n", 0)
        assert processes.output("p1", new=True) == ("", 0)
        assert (await processes.wait("p1", timeout=5)).code == 4
        assert (await processes.kill("p2")).status == "killed"
        with pytest.raises(EnvironmentFailure, match="it has ended"):
            await processes.write("p1", "x")
        assert (await processes.start("true")).id == "p3"

    with_records(tmp_path, first)
    with_records(tmp_path, second)


def test_one_that_outlived_its_agent_runs_and_can_be_waited_for_and_killed(tmp_path: Path) -> None:
    killed_agent(tmp_path, "echo up; sleep 300", "sleep 300 & echo $!; wait", "echo gone; exit 5")
    told = Told()

    async def test(processes: Background, clock: ManualClock) -> None:
        shown = {info.id: (info.status, info.owned) for info in processes.list()}
        assert shown == {"p1": ("running", False), "p2": ("running", False), "p3": ("exited", False)}
        first = processes.get("p1")
        assert "its agent ended before it" in first.note
        assert processes.output("p1") == ("up\n", 0)
        assert (await processes.wait("p1", timeout=0.2)).status == "running"
        with pytest.raises(EnvironmentFailure, match="nothing can be sent to it any more"):
            await processes.write("p1", "x")
        waiting = asyncio.ensure_future(processes.wait("p1", timeout=30))
        await asyncio.sleep(0.1)
        assert (await processes.kill("p1")).status == "killed"
        assert (await waiting).status in ("killed", "unknown")
        assert not alive(first.pid)
        child = int(processes.output("p2")[0])
        assert alive(child)
        children.append(child)

    children: list[int] = []
    with_records(tmp_path, test, told=told)
    assert not alive(children[0])  # what an earlier agent left ends with its session as well
    assert [text.partition(": ")[0] for text in sorted(told.texts)] == [
        "[Background process p1 `echo up; sleep 300` lost its agent] It still runs",
        "[Background process p2 `sleep 300 & echo $!; wait` lost its agent] It still runs",
    ]
    again = Told()

    async def nothing(processes: Background, clock: ManualClock) -> None:
        assert {info.status for info in processes.list()} == {"exited", "killed"}

    with_records(tmp_path, nothing, told=again)
    assert again.texts == []


def test_one_that_ended_after_its_agent_is_unknown(tmp_path: Path) -> None:
    killed_agent(tmp_path, "echo last words; exec sleep 300")
    found = book(tmp_path).find("p1")
    assert found is not None
    os.kill(found.pid, signal.SIGKILL)
    while alive(found.pid):
        time.sleep(0.01)

    async def test(processes: Background, clock: ManualClock) -> None:
        info = processes.get("p1")
        assert (info.status, info.code) == ("unknown", None)
        assert processes.output("p1") == ("last words\n", 0)
        assert (await processes.kill("p1")).status == "unknown"

    with_records(tmp_path, test)


def test_a_number_that_was_given_anew_is_not_taken_for_the_process(tmp_path: Path) -> None:
    mine = subprocess.Popen(["sleep", "300"])
    try:
        record = made(pid=mine.pid, born="1")
        assert see(record).status == "unknown"
        Records(tmp_path / "state" / "session").put(record)

        async def test(processes: Background, clock: ManualClock) -> None:
            assert (await processes.kill("p1")).status == "unknown"

        with_records(tmp_path, test)
        assert mine.poll() is None
    finally:
        mine.kill()
        mine.wait()


@pytest.mark.parametrize(
    ("environment", "started", "status", "note"),
    [
        ("sandbox", "", "killed", "ended with its sandbox"),
        ("docker", "", "unknown", "may still run in docker"),
        ("docker", "another start", "killed", "started anew"),
    ],
)
def test_what_ran_elsewhere_has_the_status_that_can_be_known(
    environment: str, started: str, status: str, note: str
) -> None:
    seen = see(made(pid=1, born="", environment=environment, boot=started or boot()))
    assert seen.status == status
    assert note in seen.note


def test_those_of_another_agent_that_lives_are_left_alone(tmp_path: Path) -> None:
    async def first(processes: Background, clock: ManualClock) -> None:
        info = await processes.start("sleep 300")
        told = Told()
        env = LocalEnvironment(Place(cwd=str(tmp_path), variables=VARIABLES))
        async with asyncio.TaskGroup() as group:
            records = Records(tmp_path / "state" / "session")
            other = Background(env, spawn=group.create_task, clock=clock, records=records, wake=told)
            (seen,) = other.list()
            assert (seen.status, seen.owned) == ("running", False)
            assert "belongs to another process of melete" in seen.note
            with pytest.raises(ToolError, match="cannot be killed from here"):
                await other.kill(info.id)
            assert (await other.start("true")).id == "p2"
            assert (await processes.start("true")).id == "p3"
            await other.aclose()
            await env.aclose()
        assert alive(info.pid)
        assert told.texts == []

    with_records(tmp_path, first)


def test_secrets_are_not_on_record(tmp_path: Path) -> None:
    async def test(processes: Background, clock: ManualClock) -> None:
        info = await processes.start("echo the word is hunter2")
        assert "hunter2" in info.command
        await processes.wait(info.id, timeout=20)
        assert "hunter2" in processes.output(info.id)[0]

    with_records(tmp_path, test, redact=lambda text: text.replace("hunter2", "[secret]"))
    for path in (tmp_path / "state").rglob("*"):
        assert not path.is_file() or b"hunter2" not in path.read_bytes()


def test_a_damaged_book_is_kept_aside_and_a_full_disk_ends_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "session"
    folder.mkdir(parents=True)
    (folder / "book.json").write_text("{")

    async def test(processes: Background, clock: ManualClock) -> None:
        assert processes.list() == []
        assert (folder / "book.damaged").read_text() == "{"
        (folder / "book.json").mkdir()  # nothing can be put in its place
        info = await processes.start("echo fine")
        assert (await processes.wait(info.id, timeout=20)).code == 0
        assert processes.output(info.id)[0] == "fine\n"
        assert [one.id for one in processes.list()] == ["p1"]

    with_records(tmp_path, test)


def test_old_records_are_swept_in_sessions_that_nobody_opens(tmp_path: Path) -> None:
    clock, root = ManualClock(), tmp_path / "state"
    records = Records(root / "one")
    records.put(made(status="exited", ended=clock.now()))
    records.keep_output("p1", "text")
    records.put(made(id="p2", status="running", born="1"))
    assert sweep(root, now=clock.now()) == ["one"]
    second = records.read().find("p2")
    assert second is not None
    assert second.status == "unknown"
    clock.advance(KEPT.total_seconds() + 1)
    (root / "strange").mkdir()
    (root / "strange" / "book.json").write_bytes(b"\xff")
    assert sweep(root, now=clock.now()) == ["one", "strange"]
    assert records.read() == Book(count=2)
    assert sorted(path.name for path in (root / "one").iterdir()) == [".lock", "book.json"]
    assert records.put(made()).id == "p3"
    assert sweep(tmp_path / "nowhere", now=clock.now()) == []


def made(**fields: object) -> Record:
    """A record of an agent that is gone."""
    usual = Record(
        id="", command="x", cwd="/", pid=999_999_999, born="1", environment="local", agent=999_999_998, agent_born="1",
        boot=boot(), status="running", started=ManualClock().now() - timedelta(seconds=1),
    )  # fmt: skip
    return msgspec.structs.replace(usual, **fields)
