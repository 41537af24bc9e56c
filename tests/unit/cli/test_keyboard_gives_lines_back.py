"""A line that is being typed can be taken back at any moment: what was typed stands in the next one, and none is lost."""

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
import time

TYPIST = """
import asyncio, random, sys
from melete.surfaces.cli.keyboard import Keyboard, LineWithdrawn

keyboard = Keyboard()

async def work():
    got, back = [], 0
    async with asyncio.TaskGroup() as group:
        async def take():
            while True:
                await asyncio.sleep(random.random() * 0.05)
                keyboard.withdraw()

        taking = group.create_task(take())
        while not got or got[-1] != "end":
            try:
                got.append(await keyboard.line("> "))
            except LineWithdrawn:
                back += 1
        taking.cancel()
    right = got[:-1] == [f"line {n}" for n in range(20)]
    print(got if not right else "", flush=True)
    print("TAKEN BACK", back, right, flush=True)
    return 0

sys.exit(keyboard.run(work))
"""


def test_no_line_is_lost_however_often_it_is_taken_back() -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 100))
    process = subprocess.Popen(
        [sys.executable, "-c", TYPIST],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=dict(os.environ) | {"TERM": "xterm"},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    try:
        shown = _read(ours, 30.0, until=b"> ")
        for text in [*(f"line {n}\r" for n in range(20)), "end\r"]:
            for key in text:
                os.write(ours, key.encode())
                shown += _read(ours, 0.01)
        shown += _read(ours, 30.0, until=b"TAKEN BACK", whole=True)
        process.wait(30)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert b"TAKEN BACK" in shown, (process.returncode, shown.decode()[-3000:])
    _, back, right = shown[shown.index(b"TAKEN BACK") :].split(b"\r\n")[0].rsplit(b" ", 2)
    assert int(back) > 5
    assert right == b"True", shown.decode()


def _read(descriptor: int, seconds: float, *, until: bytes = b"", whole: bool = False) -> bytes:
    """What is shown within so many seconds, or up to a text, or up to its whole line."""
    data, end = b"", time.monotonic() + seconds
    while True:
        at = data.find(until) if until else -1
        if at >= 0 and (not whole or b"\n" in data[at:]):
            return data
        if not select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
            return data
        try:
            data += os.read(descriptor, 65_536)
        except OSError:  # the other side is closed
            return data
