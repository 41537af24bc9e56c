"""Programs with their streams open."""

import asyncio
import os
from pathlib import Path

import pytest

from melete.core.errors import EnvironmentFailure
from melete.core.ports import RunningProcess
from melete.environments.child import Child, Spec
from melete.environments.host import launch
from melete.environments.local import LocalEnvironment
from tests.unit.environments.test_local_exec import VARIABLES, alive, bash, with_env


async def read_all(process: RunningProcess) -> bytes:
    pieces: list[bytes] = []
    while piece := await process.read():
        pieces.append(piece)
    return b"".join(pieces)


async def read_until(process: RunningProcess, mark: bytes) -> bytes:
    got = b""
    while mark not in got:
        piece = await process.read()
        assert piece, got
        got += piece
    return got


def test_a_conversation_with_a_program(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        process = await env.start(["cat"])
        await process.write(b"one\n")
        assert await read_until(process, b"one\n") == b"one\n"
        await process.close_stdin()
        assert await read_all(process) == b""
        assert await process.wait() == 0
        with pytest.raises(EnvironmentFailure, match="closed"):
            await process.write(b"two\n")

    with_env(tmp_path, test)


def test_writing_waits_for_a_slow_reader_and_keeps_every_byte(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        process = await env.start(bash("sleep 0.2; wc -c"))
        await process.write(b"x" * 1_000_000)
        await process.close_stdin()
        assert int(await read_all(process)) == 1_000_000

    with_env(tmp_path, test)


def test_a_program_waits_when_nobody_reads_it(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        process = await env.start(bash("head -c 8000000 /dev/zero; echo done > finished"))
        await asyncio.sleep(0.3)
        assert not (tmp_path / "finished").exists()
        assert len(await read_all(process)) == 8_000_000
        assert await process.wait() == 0

    with_env(tmp_path, test)


def test_writing_to_a_program_that_ended_says_so(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        process = await env.start(["true"])
        await process.wait()
        with pytest.raises(EnvironmentFailure, match="closed"):
            await process.write(b"x")

    with_env(tmp_path, test)


def test_killing_ends_the_whole_tree(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        process = await env.start(bash("sleep 300 & echo $!; wait"))
        child = int(await read_until(process, b"\n"))
        await process.kill()
        assert await process.wait() < 0
        assert not alive(child)
        assert not alive(process.pid)

    with_env(tmp_path, test)


def test_a_terminal_is_a_terminal(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        process = await env.start(bash("test -t 0 && test -t 1 && tty < /dev/tty && read x && echo got:$x"), pty=True)
        assert b"/dev/" in await read_until(process, b"\n")
        await process.write(b"word\n")
        assert b"got:word" in await read_all(process)
        assert await process.wait() == 0

    with_env(tmp_path, test)


def test_the_end_of_a_terminals_input(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        process = await env.start(["cat"], pty=True)
        await process.close_stdin()
        assert await process.wait() == 0

    with_env(tmp_path, test)


def test_a_program_that_lets_go_of_its_terminal_first_ends_in_its_own_way(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        process = await env.start(bash("echo on; exec <&- >&- 2>&-; sleep 0.3; exit 5"), pty=True)
        assert b"on" in await read_all(process)
        assert await process.wait() == 5

    with_env(tmp_path, test)


def test_ctrl_c_on_a_terminal_interrupts(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        process = await env.start(bash("echo on; sleep 300"), pty=True)
        await read_until(process, b"on")
        await process.write(b"\x03")
        assert await process.wait() != 0

    with_env(tmp_path, test)


def test_the_environment_ends_what_was_started(tmp_path: Path) -> None:
    started: list[int] = []

    async def test(env: LocalEnvironment) -> None:
        started.append((await env.start(bash("trap '' TERM; sleep 300; sleep 300"))).pid)

    with_env(tmp_path, test)
    assert not alive(started[0])


def test_without_pidfd_a_thread_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    got: list[bytes] = []

    async def main() -> None:
        variables = {os.fsencode(k): os.fsencode(v) for k, v in VARIABLES.items()}
        child = Child(launch(Spec(argv=bash("echo hi; exit 5"), cwd=str(tmp_path)), variables), got.append)
        await asyncio.wait([child.done], timeout=20)
        child.close()
        assert child.done.result() == 5

    asyncio.run(main())
    assert b"".join(got) == b"hi\n"
