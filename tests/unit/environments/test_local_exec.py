"""Commands on the machine itself: each ends, whatever it does, and what it said is kept within bounds."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.core.environment import Place
from melete.core.errors import EnvironmentFailure
from melete.core.ports import Environment
from melete.environments.clipped import Clipped
from melete.environments.local import LocalEnvironment

VARIABLES = {"PATH": os.environ["PATH"], "GREETING": "hello"}
SOON = 8.0  # far above what it takes, far below the sleeps in the commands


def with_env(folder: Path, test: Callable[[LocalEnvironment], Awaitable[None]]) -> None:
    async def main() -> None:
        env = LocalEnvironment(Place(cwd=str(folder), variables=VARIABLES))
        checked: Environment = env
        assert (checked.name, checked.cwd) == ("local", str(folder))
        try:
            async with asyncio.timeout(60):
                await test(env)
        finally:
            await env.aclose()

    asyncio.run(main())


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def bash(command: str) -> list[str]:
    return ["bash", "-c", command]


def test_output_of_both_streams_comes_in_order_with_the_exit_status(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        done = await env.exec(bash("echo a; echo b >&2; echo c; exit 3"))
        assert (done.output, done.code, done.timed_out, done.dropped) == (b"a\nb\nc\n", 3, False, 0)

    with_env(tmp_path, test)


def test_a_command_sees_the_given_variables_and_folder_only(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        (tmp_path / "inner").mkdir()
        done = await env.exec(bash("echo $GREETING $HOME; pwd"), cwd="inner")
        assert done.output.decode().split() == ["hello", str(tmp_path / "inner")]

    with_env(tmp_path, test)


@pytest.mark.parametrize("stdin", [b"", b"some\0bytes", b"x" * 3_000_000])
def test_standard_input_is_what_is_given_and_then_ends(tmp_path: Path, stdin: bytes) -> None:
    async def test(env: LocalEnvironment) -> None:
        assert (await env.exec(["cat"], stdin=stdin, limit=4_000_000)).output == stdin
        assert (await env.exec(["true"], stdin=stdin)).code == 0

    with_env(tmp_path, test)


def test_the_deadline_ends_a_command_that_ignores_being_asked(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        done = await env.exec(bash("trap '' TERM; echo $$; sleep 300 & echo $!; wait; sleep 300"), timeout=0.4)
        assert (done.timed_out, done.code) == (True, None)
        assert not any(alive(int(pid)) for pid in done.output.split())

    with_env(tmp_path, test)


def test_the_deadline_ends_what_moved_to_another_session_too(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        done = await env.exec(bash("setsid bash -c 'echo $$; sleep 300' & sleep 300"), timeout=0.5)
        assert done.timed_out
        assert not alive(int(done.output))

    with_env(tmp_path, test)


def test_a_command_may_clean_up_when_its_time_is_over(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        done = await env.exec(bash("trap 'echo cleaned; exit 0' TERM; echo on; sleep 300 & wait"), timeout=0.4)
        assert done.output == b"on\ncleaned\n"

    with_env(tmp_path, test)


def test_a_stopped_command_ends_as_well(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        done = await env.exec(bash("trap 'echo woken; exit 0' TERM; kill -STOP $$"), timeout=0.4)
        assert (done.timed_out, done.output) == (True, b"woken\n")

    with_env(tmp_path, test)


def test_a_daemon_that_holds_the_output_is_not_waited_for_and_ends_with_the_environment(tmp_path: Path) -> None:
    pids: list[int] = []

    async def test(env: LocalEnvironment) -> None:
        begun = time.monotonic()
        done = await env.exec(bash("sleep 300 & echo $!"))
        assert time.monotonic() - begun < SOON
        assert (done.code, done.timed_out) == (0, False)
        pids.append(int(done.output))
        assert alive(pids[0])

    with_env(tmp_path, test)
    assert not alive(pids[0])


def test_a_command_that_closes_its_output_is_waited_for(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        assert (await env.exec(bash("exec >&- 2>&-; sleep 0.3; exit 4"))).code == 4

    with_env(tmp_path, test)


def test_a_command_that_prints_for_ever_ends_with_its_deadline(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        done = await env.exec(["yes"], timeout=0.3, limit=1000)
        assert done.timed_out
        assert done.dropped > 100_000
        assert 1000 <= len(done.output) < 1100

    with_env(tmp_path, test)


def test_head_and_tail_of_long_output_are_kept(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        done = await env.exec(bash("echo first; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo last"), limit=2000)
        assert done.output.startswith(b"first\nxxx")
        assert done.output.endswith(b"xxx\nlast\n")
        left_out = int(done.output.partition(b"[")[2].partition(b" bytes")[0])
        assert left_out == done.dropped == 50_000_012 - 2000

    with_env(tmp_path, test)


def test_a_signal_is_a_negative_code(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        assert (await env.exec(bash("kill -9 $$"))).code == -9

    with_env(tmp_path, test)


def test_cancelling_ends_the_command(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        task = asyncio.ensure_future(env.exec(bash("echo $$ > pid; sleep 300")))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not alive(int((tmp_path / "pid").read_text()))

    with_env(tmp_path, test)


def test_what_cannot_start_says_why(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        with pytest.raises(EnvironmentFailure, match="no-such-program could not be started: No such file"):
            await env.exec(["no-such-program"])
        with pytest.raises(EnvironmentFailure, match=r"working folder .*nowhere does not exist"):
            await env.exec(["true"], cwd="nowhere")
        with pytest.raises(EnvironmentFailure, match="null"):
            await env.exec(["echo", "a\0b"])
        (tmp_path / "plain").write_text("text")
        with pytest.raises(EnvironmentFailure, match="Permission denied"):
            await env.exec(["./plain"])

    with_env(tmp_path, test)


def test_many_commands_at_once_leave_no_descriptor_open(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        await env.exec(["true"])
        before = len(list(Path("/proc/self/fd").iterdir()))
        done = await asyncio.gather(*(env.exec(bash(f"echo {n}")) for n in range(30)))
        assert [int(d.output) for d in done] == list(range(30))
        assert len(list(Path("/proc/self/fd").iterdir())) == before

    with_env(tmp_path, test)


def test_a_closed_environment_runs_nothing(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        await env.aclose()
        with pytest.raises(EnvironmentFailure, match="closed"):
            await env.exec(["true"])

    with_env(tmp_path, test)


@given(st.lists(st.binary(max_size=40)), st.integers(2, 60))
def test_clipped_output_keeps_both_ends_and_counts_the_rest(pieces: list[bytes], limit: int) -> None:
    whole = b"".join(pieces)
    clipped = Clipped(limit)
    for piece in pieces:
        clipped.add(piece)
    kept, dropped = clipped.result()
    if len(whole) <= limit:
        assert (kept, dropped) == (whole, 0)
        return
    head, _, tail = kept.partition(b"\n[%d bytes left out here]\n" % dropped)
    assert len(head) + len(tail) + dropped == len(whole)
    assert len(whole) - limit <= dropped <= len(whole) - limit + 7
    assert whole.startswith(head)
    assert whole.endswith(tail)


def test_clipping_cuts_no_character_in_two() -> None:
    clipped = Clipped(9)
    clipped.add("ééééééééé".encode())
    kept, dropped = clipped.result()
    assert kept.decode() == f"éé\n[{dropped} bytes left out here]\néé"
