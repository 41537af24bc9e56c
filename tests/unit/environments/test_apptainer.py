"""Commands in an instance of Apptainer: what it is called with, and what commands do behind a program like it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from melete.core.environment import Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import ApptainerOptions
from melete.environments.apptainer import Apptainer
from melete.testing import suites
from tests.apptainer_stub import Stub


@pytest.fixture
def stub(tmp_path: Path) -> Stub:
    return Stub(tmp_path / "stub")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def make(stub: Stub, folder: Path, **options: Any) -> Apptainer:
    given = ApptainerOptions(**{"image": "image.sif", "variables": tuple(suites.VARIABLES), **options})
    variables = {"PATH": stub.path, "SECRET": "never", **suites.VARIABLES}
    scratch = str(folder.parent / "scratch")
    return Apptainer(Place(cwd=str(folder), variables=variables, options=given, key="a:key", scratch=scratch))


def with_env(env: Apptainer, test: Callable[[Apptainer], Awaitable[None]]) -> None:
    async def main() -> None:
        try:
            async with asyncio.timeout(300):
                await test(env)
        finally:
            await env.aclose()

    asyncio.run(main())


def test_one_instance_a_session_behind_all_walls(stub: Stub, folder: Path) -> None:
    async def test(env: Apptainer) -> None:
        assert stub.calls() == []
        for _ in range(2):
            assert (await env.exec(["sh", "-c", 'echo "$SECRET$SUITE_WORD"'])).code == 0
        [start] = stub.calls("instance", "start")
        name = stub.instances()[0]
        assert start[2:] == [
            "--containall", "--cleanenv", "--bind", f"{folder}:{folder}", "--bind", "/data:/data:ro", "--net", "--network",
            "none", "--writable-tmpfs", "--cpus", "2.5", "--memory", "1024M", "--userns", "--nv", "image.sif", name,
        ]  # fmt: skip
        calls = stub.calls("exec")
        assert [call[:5] for call in calls] == [["exec", "--cleanenv", "--pwd", "/", f"instance://{name}"]] * 2
        assert "SECRET" not in "".join(word for call in calls for word in call[7:8])
        assert "two words" not in "".join("".join(call) for call in calls)

    options = {"volumes": ("/data:/data:ro",), "cpus": 2.5, "memory_mb": 1024, "userns": True, "extra": ("--nv",)}
    with_env(make(stub, folder, **options), test)
    assert stub.instances() == []
    assert len(stub.calls("instance", "stop")) == 1


def test_the_network_and_an_overlay_are_a_matter_of_settings(stub: Stub, folder: Path) -> None:
    async def test(env: Apptainer) -> None:
        await env.exec(["true"])
        [start] = stub.calls("instance", "start")
        assert "--net" not in start
        overlay = start[start.index("--overlay") + 1]
        assert Path(overlay).is_dir()
        assert overlay == str(folder.parent / "scratch/apptainer/a_key")
        assert "--writable-tmpfs" not in start

    with_env(make(stub, folder, network="on", keep=True), test)


def test_what_is_not_supported_here_is_done_without_and_told(stub: Stub, folder: Path) -> None:
    stub.fail("limits", "container creation failed: cgroups v2 with systemd is needed")
    stub.fail("overlay", "while setting overlay: not supported")

    async def test(env: Apptainer) -> None:
        notes = (await env.exec(["true"])).notes
        assert len(notes) == 2
        assert "not kept" in notes[0]
        assert "without limits" in notes[1]
        assert (await env.exec(["true"])).notes == ()
        last = stub.calls("instance", "start")[-1]
        assert "--memory" not in last
        assert "--writable-tmpfs" in last

    with_env(make(stub, folder, keep=True), test)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("while pulling docker image: no route", "could not be fetched"),
        ("could not open image /x.sif: failed to retrieve path", "could not be opened"),
        ("write: no space left on device", "the disk is full"),
        ("failed to create user namespace: not allowed", "needs user namespaces"),
        ("something else entirely", "could not be started: something else entirely"),
    ],
)
def test_a_container_that_does_not_start_says_why(stub: Stub, folder: Path, said: str, told: str) -> None:
    stub.fail("image", said)

    async def test(env: Apptainer) -> None:
        with pytest.raises(EnvironmentFailure, match=told) as failure:
            await env.exec(["true"])
        assert failure.value.next
        (stub.folder / "fail-image").unlink()
        assert (await env.exec(["echo", "on"])).output == b"on\n"

    with_env(make(stub, folder), test)


def test_an_instance_that_was_stopped_is_told_and_started_anew(stub: Stub, folder: Path) -> None:
    async def test(env: Apptainer) -> None:
        running = asyncio.ensure_future(env.exec(["sh", "-c", "echo begun > begun; sleep 4401; sleep 4401"]))
        while not (folder / "begun").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
        before = stub.instances()
        await asyncio.to_thread(stub.stop, before[0])
        with pytest.raises(EnvironmentFailure, match="ended while the command ran"):
            await running
        done = await env.exec(["echo", "on"])
        assert (done.output, stub.instances() != before) == (b"on\n", True)
        await asyncio.to_thread(stub.stop, stub.instances()[0])
        done = await env.exec(["echo", "again"])
        assert done.output == b"again\n"
        assert "in a new one" in done.notes[0]

    with_env(make(stub, folder), test)


def test_instances_of_dead_agents_are_stopped_and_others_are_left(stub: Stub, folder: Path) -> None:
    for name in ("melete-999999999-1-abc", "melete-1-not-mine", "somebody-elses"):
        (stub.folder / "instances" / name).mkdir(parents=True)

    async def test(env: Apptainer) -> None:
        await env.exec(["true"])

    with_env(make(stub, folder), test)
    assert sorted(stub.instances()) == ["somebody-elses"]


def test_what_cannot_work_is_refused_at_once(stub: Stub, folder: Path, tmp_path: Path) -> None:
    missing = Apptainer.missing(Place(variables={"PATH": "/nowhere"}))
    assert missing is not None
    assert missing.fix
    with pytest.raises(EnvironmentFailure, match="not installed"):
        Apptainer(Place(cwd=str(folder), variables={"PATH": "/nowhere"}))
    for wrong in ({"image": "--evil"}, {"volumes": ("relative",)}, {"volumes": ("/a:/b,/c:/d",)}):
        with pytest.raises(EnvironmentFailure) as failure:
            make(stub, folder, **wrong)
        assert failure.value.next
    odd = tmp_path / "a:b"
    odd.mkdir()
    with pytest.raises(EnvironmentFailure, match="colon"):
        make(stub, odd)
    with pytest.raises(FileNotFoundError):
        make(stub, tmp_path / "gone")


def test_a_program_in_the_working_folder_is_not_used(stub: Stub) -> None:
    place = Place(
        cwd=str(stub.folder), variables={"PATH": f"{stub.folder}:."}, options=ApptainerOptions(image="image.sif")
    )
    assert Apptainer.missing(place) is not None
    with pytest.raises(EnvironmentFailure, match="not installed"):
        Apptainer(place)
    assert stub.calls() == []


def test_the_note_says_where_commands_run(stub: Stub, folder: Path) -> None:
    env = make(stub, folder)
    assert "image.sif" in env.note
    assert "no network" in env.note
    assert asyncio.run(env.about())["network"] == ["none"]


def test_a_working_folder_with_melete_s_own_in_it_is_refused(stub: Stub, folder: Path) -> None:
    own = folder / ".melete"
    own.mkdir()
    place = structs.replace(make(stub, folder).place, hidden=(str(own),))
    with pytest.raises(EnvironmentFailure, match="Melete's own"):
        Apptainer(place)
    own.rmdir()
    Apptainer(place)
    (folder / ".netrc").touch()
    with pytest.raises(EnvironmentFailure, match="secrets in it"):
        Apptainer(structs.replace(place, variables={**place.variables, "HOME": str(folder)}))
