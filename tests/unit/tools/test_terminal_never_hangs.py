"""Commands that would hang a shell that lasts: each ends, the loop goes on meanwhile, and the next command works."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from melete.tools.process import process
from melete.tools.terminal import SUDO, terminal
from tests.unit.tools.context import Context, call, output, within

PLACES = pytest.mark.parametrize("where", ["local", pytest.param("sandbox", marks=pytest.mark.needs("bwrap"))])
HANGS = {
    "waits for input": ('read answer; echo "got [$answer]"', "got []", False),
    "waits for input in a program": (
        "cat; python3 -c 'input()' 2>&1 | tail -1",
        "EOFError: EOF when reading a line",
        False,
    ),
    "waits for a terminal": ("exec < /dev/tty && read answer", "", False),
    "prints for ever": ("yes", "", True),
    "prints for ever and ignores the end": ("trap '' TERM INT HUP PIPE; while :; do echo y; done", "", True),
    "forks a daemon": (
        "(setsid sh -c 'echo $$ > daemon; exec sleep 300' > /dev/null 2>&1 &); echo begun",
        "begun",
        False,
    ),
    "forks a daemon that holds its output": ("sleep 300 & echo begun", "begun", False),
    "closes its output": ("exec > /dev/null 2>&1; sleep 300", "", True),
    "closes its output and ends": ("exec >&- 2>&-; :", "", False),
    "ignores SIGTERM": ("trap '' TERM; sleep 300; sleep 300", "", True),
    "stops itself": ("kill -STOP $$", "", True),
    "never ends": ("while :; do :; done", "", True),
    "opens a FIFO that nobody writes": ("mkfifo f; cat f", "", True),
}


@asynccontextmanager
async def beating(counted: list[int]) -> AsyncIterator[None]:
    """Count while the loop goes round."""

    async def beat() -> None:
        while True:
            counted.append(1)
            await asyncio.sleep(0.01)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()


@PLACES
@pytest.mark.parametrize("kind", HANGS)
def test_it_ends_and_the_next_command_works(tmp_path: Path, where: str, kind: str) -> None:
    command, shown, late = HANGS[kind]

    async def test(ctx: Context) -> None:
        await call(terminal, ctx, command="x=kept")
        beats: list[int] = []
        async with beating(beats):
            done = await call(terminal, ctx, command=command, timeout=1 if late else 60)
        assert done.get("timed_out", False) is late
        assert shown in done["output"]
        assert not late or len(beats) > 10
        assert (await call(terminal, ctx, command="echo $x"))["output"] == "kept\n"
        await call(terminal, ctx, command="[ ! -e daemon ] || kill -KILL $(cat daemon)")

    within(tmp_path, test, where=where)


def test_output_without_end_is_bounded(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        done = await call(terminal, ctx, command="head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last")
        assert done["exit_code"] == 0
        assert len(done["output"]) < 1_100_000
        assert "bytes left out here" in done["output"]
        assert done["output"].endswith("last\n")

    within(tmp_path, test)


@pytest.mark.parametrize("pty", [False, True])
def test_sudo_that_asks_for_a_password_fails_at_once(tmp_path: Path, pty: bool) -> None:
    """A program that says and does what sudo would: with a terminal it asks there and waits, without one it complains."""
    sudo = tmp_path / "sudo"
    sudo.write_text(
        "#!/bin/bash\nif [ -t 0 ]; then printf '[sudo] password for me: '; read -rs answer; exit 1; fi\n"
        "echo 'sudo: a terminal is required to read the password; either use the -S option' >&2; exit 1\n"
    )
    sudo.chmod(0o755)

    async def test(ctx: Context) -> None:
        done = await output(terminal, ctx, command="./sudo true", pty=pty)
        assert done.failed
        assert SUDO in (done.fields["error"] if pty else done.fields["note"])
        assert not done.fields.get("timed_out")

    within(tmp_path, test)


def test_a_server_in_the_background_is_talked_to_and_stopped(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        (tmp_path / "site").mkdir()
        (tmp_path / "site/hello.txt").write_text("hello from the server")
        await call(terminal, ctx, command="cd site; port_file=../port")
        server = (
            "python3 -u -c \"import http.server as h; s = h.ThreadingHTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler);"
            " print('port', s.server_port, file=open('$port_file', 'w'), flush=True); s.serve_forever()\""
        )
        started = await call(terminal, ctx, command=server, background=True)
        ask = (
            "until [ -s $port_file ]; do sleep 0.05; done; read -r _ port < $port_file; "
            "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:$port/hello.txt').read().decode())\""
        )
        assert "hello from the server" in (await call(terminal, ctx, command=ask))["output"]
        ended: dict[str, Any] = await call(process, ctx, action="kill", session_id=started["session_id"])
        assert ended["status"] == "killed"
        assert "GET /hello.txt" in ended["output"]

    within(tmp_path, test)
