"""Modal's own library against a service with its API on loopback: what is sent, what is kept, and what goes wrong."""

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from melete.core.environment import Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import ModalOptions
from melete.environments.modal import Modal, open_modal

pytestmark = pytest.mark.needs_package("modal")


def place(service: Any, tmp: Path, *, secret: str = "", **options: Any) -> Place:
    defaults: dict[str, Any] = {"keep": False, "sync": False, "mode": "managed", "gateway": service.url}
    given = ModalOptions(workspace=str(tmp / "disk" / "work"), **(defaults | options))
    keys = {"MODAL_GATEWAY_KEY": secret or ":".join(service.token)}
    return Place(
        options=given,
        key="session-1",
        cwd=str(tmp),
        scratch=str(tmp / "scratch"),
        secret=lambda name: keys.get(name, ""),
    )


def run(tmp: Path, check: Callable[[Any], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(120), import_module("tests.fake_modal").serving(tmp / "disk") as service:
            await check(service)

    asyncio.run(main())


async def failure(doing: Awaitable[Any]) -> EnvironmentFailure:
    with pytest.raises(EnvironmentFailure) as caught:
        await doing
    assert caught.value.next
    return caught.value


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "there is no token of Modal"),
        ({"mode": "managed"}, "modal.gateway is empty"),
        ({"mode": "managed", "gateway": "http://127.0.0.1:9"}, "MODAL_GATEWAY_KEY is not set"),
    ],
)
def test_what_is_missing_is_said_before_anything_starts(options: dict[str, Any], said: str) -> None:
    with pytest.raises(EnvironmentFailure, match=said):
        open_modal(Place(options=ModalOptions(**options)))


def test_a_token_that_is_refused_is_named(tmp_path: Path) -> None:
    async def check(service: Any) -> None:
        env = Modal(place(service, tmp_path, secret="ak-x:as-wrong"))
        assert "refused the token" in (await failure(env.exec(["true"]))).what
        await env.aclose()

    run(tmp_path, check)


def test_your_own_token_goes_to_the_librarys_own_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(service: Any) -> None:
        monkeypatch.setenv("MODAL_SERVER_URL", service.url)
        keys: dict[str, str] = dict(zip(("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"), service.token, strict=True))
        given = place(service, tmp_path, mode="direct", gateway="")
        env = Modal(Place(options=given.options, key="k", secret=lambda name: keys.get(name, "")))
        said = (await env.exec(["env"])).output
        assert b"HOME=" in said
        assert service.token[1].encode() not in said
        await env.aclose()

    run(tmp_path, check)


def test_a_service_that_is_away_is_told(tmp_path: Path) -> None:
    async def check(service: Any) -> None:
        env = Modal(place(service, tmp_path, gateway="http://127.0.0.1:9"))
        assert "did not answer" in (await failure(env.exec(["true"]))).what
        await env.aclose()

    run(tmp_path, check)


def test_a_limit_is_told_and_the_next_try_works(tmp_path: Path) -> None:
    async def check(service: Any) -> None:
        grpc = import_module("grpclib")
        service.refuse.append(grpc.GRPCError(grpc.Status.RESOURCE_EXHAUSTED, "too many sandboxes"))
        env = Modal(place(service, tmp_path))
        assert "limit is reached: too many sandboxes" in (await failure(env.exec(["true"]))).what
        assert (await env.exec(["echo", "on"])).output == b"on\n"
        await env.aclose()
        assert service.calls.count("SandboxTerminateV2") == 1

    run(tmp_path, check)


def test_files_are_kept_as_a_snapshot_for_when_the_session_goes_on(tmp_path: Path) -> None:
    async def check(service: Any) -> None:
        for said in (b"", b"from before\n"):
            env = Modal(place(service, tmp_path, keep=True))
            done = await env.exec(["sh", "-c", "cat note 2>/dev/null; echo from before > note"])
            assert (done.output, done.notes) == (said, ())
            await env.aclose()
            assert all(box.result is not None for box in service.boxes.values())

    run(tmp_path, check)


def test_a_snapshot_that_is_gone_is_told(tmp_path: Path) -> None:
    async def check(service: Any) -> None:
        env = Modal(place(service, tmp_path, keep=True))
        await env.write("note", b"x")
        await env.aclose()
        service.images.clear()
        env = Modal(place(service, tmp_path))
        done = await env.exec(["cat", "note"])
        assert done.code == 1
        assert any("snapshot" in note and "gone" in note for note in done.notes)
        assert (await env.exec(["true"])).notes == ()
        await env.aclose()

    run(tmp_path, check)


def test_a_sandbox_that_an_agent_left_running_is_found_by_its_name(tmp_path: Path) -> None:
    async def check(service: Any) -> None:
        first, second = Modal(place(service, tmp_path)), Modal(place(service, tmp_path))
        await first.write("note", b"x")
        assert await second.read("note") == b"x"
        assert len(service.boxes) == 1
        await second.aclose()
        await first.aclose()

    run(tmp_path, check)


def test_a_sandbox_that_has_ended_is_told_and_the_next_command_makes_another(tmp_path: Path) -> None:
    async def check(service: Any) -> None:
        env = Modal(place(service, tmp_path))
        process = await env.start(["sleep", "60"])
        service.end_all()
        told = await failure(env.exec(["true"]))
        assert "has ended" in told.what
        assert "modal.seconds" in told.next
        assert await process.wait() != 0
        assert (await env.exec(["echo", "on"])).output == b"on\n"
        await env.aclose()

    run(tmp_path, check)


def test_settings_reach_the_service(tmp_path: Path) -> None:
    async def check(service: Any) -> None:
        env = Modal(
            place(
                service, tmp_path, network="off", cpus=2, memory_mb=256, seconds=600, idle_minutes=3, image="debian:12"
            )
        )
        await env.exec(["true"])
        (box,) = service.boxes.values()
        asked = box.definition
        assert (asked.timeout_secs, asked.idle_timeout_secs, asked.name) == (600, 180, "melete-session-1")
        assert (asked.resources.milli_cpu, asked.resources.memory_mb) == (2000, 256)
        assert asked.network_access.network_access_type == asked.network_access.BLOCKED
        assert "FROM debian:12" in service.built
        await env.aclose()

    run(tmp_path, check)


def test_the_working_folder_goes_there_and_a_lost_sandbox_takes_nothing_with_it(tmp_path: Path) -> None:
    async def check(service: Any) -> None:
        here = tmp_path / "here"
        here.mkdir()
        (here / "precious.txt").write_text("mine\n")
        given = place(service, tmp_path, sync=True)
        env = open_modal(
            Place(options=given.options, key=given.key, cwd=str(here), scratch=given.scratch, secret=given.secret)
        )
        assert (await env.exec(["sh", "-c", "cat precious.txt; echo new > new.txt"])).output == b"mine\n"
        assert (here / "new.txt").read_text() == "new\n"
        service.end_all()
        await failure(env.exec(["true"]))
        done = await env.exec(["sh", "-c", "cat precious.txt new.txt"])
        assert done.output == b"mine\nnew\n"
        assert any("copied to it again" in note for note in done.notes)
        await env.aclose()
        assert sorted(path.name for path in here.iterdir()) == ["new.txt", "precious.txt"]

    run(tmp_path, check)
