"""Daytona's own library against a service with its API on loopback: what is sent, what is kept, and what goes wrong."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from melete.core.environment import Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import DaytonaOptions
from melete.environments.daytona import Daytona, open_daytona
from tests import fake_daytona
from tests.fake_daytona import KEY

pytestmark = pytest.mark.needs_package("daytona")
SEE = "see whether the network and the service are up, then try again"


def place(service: fake_daytona.Daytona, folder: Path, *, key: str = KEY, **options: Any) -> Place:
    defaults: dict[str, Any] = {"keep": False, "sync": False}
    given = DaytonaOptions(api_url=f"{service.url}/api", workspace=str(folder), **(defaults | options))
    secrets = {"DAYTONA_API_KEY": key}
    return Place(options=given, key="session-1", cwd=str(folder.parent), secret=lambda name: secrets.get(name, ""))


def run(check: Callable[[fake_daytona.Daytona], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(120), fake_daytona.serving() as service:
            await check(service)

    asyncio.run(main())


async def failure(doing: Awaitable[Any]) -> EnvironmentFailure:
    with pytest.raises(EnvironmentFailure) as caught:
        await doing
    assert caught.value.next
    return caught.value


def test_without_a_key_it_says_where_to_put_one(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="DAYTONA_API_KEY is not set"):
        open_daytona(Place(options=DaytonaOptions(), cwd=str(tmp_path)))


def test_a_key_that_is_refused_is_named(tmp_path: Path) -> None:
    async def check(service: fake_daytona.Daytona) -> None:
        env = Daytona(place(service, tmp_path / "w", key="wrong"))
        try:
            assert "refused the key" in (await failure(env.exec(["true"]))).what
        finally:
            await env.aclose()

    run(check)


@pytest.mark.parametrize(
    ("status", "said"),
    [(403, "Daytona does not allow it: .*quota"), (429, "limit is reached"), (500, "could not make")],
)
def test_what_the_service_refuses_is_told_and_the_next_try_works(tmp_path: Path, status: int, said: str) -> None:
    async def check(service: fake_daytona.Daytona) -> None:
        env = Daytona(place(service, tmp_path / "w"))
        service.refuse.append((status, "Total CPU quota exceeded"))
        try:
            with pytest.raises(EnvironmentFailure, match=said):
                await env.exec(["true"])
            assert (await env.exec(["echo", "on"])).output == b"on\n"
        finally:
            await env.aclose()

    run(check)


def test_a_service_that_is_away_is_told(tmp_path: Path) -> None:
    async def check(service: fake_daytona.Daytona) -> None:
        service.url = "http://127.0.0.1:9"
        env = Daytona(place(service, tmp_path / "w"))
        told = await failure(env.exec(["true"]))
        assert "did not answer" in told.what
        assert told.next == SEE
        await env.aclose()

    run(check)


def test_a_command_outlives_requests_that_fail(tmp_path: Path) -> None:
    async def check(service: fake_daytona.Daytona) -> None:
        env = Daytona(place(service, tmp_path / "w"))
        try:
            process = await env.start(["sh", "-c", "echo one; sleep 1; echo two"])
            service.cut = 2
            said = b""
            while piece := await process.read():
                said += piece
            assert said == b"one\ntwo\n"
        finally:
            await env.aclose()

    run(check)


def test_input_whose_answer_is_lost_comes_once(tmp_path: Path) -> None:
    async def check(service: fake_daytona.Daytona) -> None:
        env = Daytona(place(service, tmp_path / "w"))
        process = await env.start(["cat"])
        for piece in (b"one ", b"two ", b"three"):
            service.cut = 1
            await process.write(piece)
        await process.close_stdin()
        said = b""
        while piece := await process.read():
            said += piece
        assert said == b"one two three"
        await env.aclose()

    run(check)


def test_a_result_whose_answer_is_lost_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("melete.environments.hosted.HOLD", 1.0)  # so that a request is underway when the command ends

    async def check(service: fake_daytona.Daytona) -> None:
        env = Daytona(place(service, tmp_path / "w"))
        await env.exec(["true"])
        before = len(service.calls)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(env.exec(["sh", "-c", "sleep 4; echo once >> log; cat log"]))
            while len(service.calls) < before + 2:  # noqa: ASYNC110 - the service sets no Event
                await asyncio.sleep(0.05)
            service.cut = 3
        assert running.result().output == b"once\n"
        assert service.cut == 0
        await env.aclose()

    run(check)


def test_a_service_that_goes_away_in_mid_command_is_told(tmp_path: Path) -> None:
    async def check(service: fake_daytona.Daytona) -> None:
        env = Daytona(place(service, tmp_path / "w"))
        await env.exec(["true"])
        service.cut = 1000
        told = await failure(env.exec(["true"]))
        assert "did not answer" in told.what
        assert told.kept == "the command may go on there"
        service.cut = 0
        assert (await env.exec(["echo", "on"])).output == b"on\n"
        await env.aclose()

    run(check)


def test_a_sandbox_that_is_kept_is_stopped_and_found_again(tmp_path: Path) -> None:
    async def check(service: fake_daytona.Daytona) -> None:
        for said in (b"", b"from before\n"):
            env = Daytona(place(service, tmp_path / "w", keep=True))
            done = await env.exec(["sh", "-c", "cat note 2>/dev/null; echo from before > note"])
            assert done.output == said
            await env.aclose()
            assert [box.state for box in service.boxes.values()] == ["stopped"]
        asked = [call for call in service.calls if call.endswith(("/start", "/stop")) or call == "POST /api/sandbox"]
        assert [call.rpartition("/")[2] for call in asked] == ["sandbox", "stop", "start", "stop"]

    run(check)


def test_a_sandbox_that_is_not_kept_is_deleted(tmp_path: Path) -> None:
    async def check(service: fake_daytona.Daytona) -> None:
        env = Daytona(place(service, tmp_path / "w"))
        await env.exec(["true"])
        assert len(service.boxes) == 1
        await env.aclose()
        assert not service.boxes

    run(check)


def test_a_sandbox_that_was_stopped_meanwhile_is_started_again(tmp_path: Path) -> None:
    async def check(service: fake_daytona.Daytona) -> None:
        env = Daytona(place(service, tmp_path / "w", keep=True))
        await env.write("note", b"kept")
        for box in service.boxes.values():
            box.end("stopped")
        told = await failure(env.exec(["true"]))
        assert "is stopped" in told.what
        assert await env.read("note") == b"kept"
        await env.aclose()

    run(check)


def test_settings_reach_the_service_and_keys_do_not_reach_the_sandbox(tmp_path: Path) -> None:
    async def check(service: fake_daytona.Daytona) -> None:
        given = place(service, tmp_path / "w", network="off", image="debian:12", cpus=2, idle_minutes=7)
        env = Daytona(given)
        said = (await env.exec(["env"])).output
        assert KEY.encode() not in said
        await env.aclose()
        asked = service.bodies[0]
        assert asked["networkBlockAll"] is True
        assert "debian:12" in asked["buildInfo"]["dockerfileContent"]
        assert (asked["cpu"], asked["memory"], asked["autoStopInterval"], asked["autoDeleteInterval"]) == (2, 5, 7, 0)
        assert KEY not in str(asked)

    run(check)


def test_a_folder_that_cannot_be_made_names_the_setting(tmp_path: Path) -> None:
    async def check(service: fake_daytona.Daytona) -> None:
        env = Daytona(place(service, Path("/proc/nowhere")))
        told = await failure(env.exec(["true"]))
        assert "/proc/nowhere" in told.what
        assert "daytona.workspace" in told.next
        await env.aclose()

    run(check)


def test_the_working_folder_goes_there_and_what_changes_comes_back(tmp_path: Path) -> None:
    async def check(service: fake_daytona.Daytona) -> None:
        here, there = tmp_path / "here", tmp_path / "there"
        here.mkdir()
        (here / "mine.txt").write_text("mine\n")
        given = place(service, there, sync=True)
        env = open_daytona(Place(options=given.options, key=given.key, cwd=str(here), secret=given.secret))
        done = await env.exec(["sh", "-c", "cat mine.txt; echo theirs > theirs.txt"])
        assert done.output == b"mine\n"
        assert (here / "theirs.txt").read_text() == "theirs\n"
        await env.exec(["sh", "-c", "echo late > late.txt; rm mine.txt"])
        await env.aclose()
        assert sorted(path.name for path in here.iterdir()) == ["late.txt", "theirs.txt"]

    run(check)


def test_a_sandbox_that_is_lost_takes_nothing_here_with_it(tmp_path: Path) -> None:
    async def check(service: fake_daytona.Daytona) -> None:
        here, there = tmp_path / "here", tmp_path / "there"
        here.mkdir()
        (here / "precious.txt").write_text("mine\n")
        given = place(service, there, sync=True)
        env = open_daytona(Place(options=given.options, key=given.key, cwd=str(here), secret=given.secret))
        assert (await env.exec(["cat", "precious.txt"])).output == b"mine\n"
        for number in range(2):
            await service.stop_all()
            there.rename(tmp_path / f"lost-{number}")  # the next sandbox has a disk of its own
            await failure(env.exec(["true"]))
            done = await env.exec(["cat", "precious.txt"])
            assert (done.code, done.output) == (0, b"mine\n")
            assert any("copied to it again" in note for note in done.notes)
            assert (here / "precious.txt").read_text() == "mine\n"
        await env.aclose()
        assert [path.name for path in here.iterdir()] == ["precious.txt"]

    run(check)


def test_a_sandbox_that_is_lost_before_a_round_of_copies_takes_nothing_here_with_it(tmp_path: Path) -> None:
    async def check(service: fake_daytona.Daytona) -> None:
        here, there = tmp_path / "here", tmp_path / "there"
        here.mkdir()
        (here / "precious.txt").write_text("mine\n")
        given = place(service, there, sync=True)
        env = open_daytona(Place(options=given.options, key=given.key, cwd=str(here), secret=given.secret))
        await env.exec(["true"])
        await service.stop_all()
        there.rename(tmp_path / "lost")
        with pytest.raises(EnvironmentFailure, match="was not copied back"):
            await env.aclose()
        assert (here / "precious.txt").read_text() == "mine\n"

    run(check)
