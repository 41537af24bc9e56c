"""Driving the real command line: as a process with pipes, or on a terminal of its own."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import msgspec

from melete.testing import ScriptedModel

MELETE = (sys.executable, "-m", "melete")
PATIENCE = 30.0
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


def variables(model: ScriptedModel | None = None, **more: str) -> dict[str, str]:
    """The environment of a command, with the scripted model as its model."""
    found = dict(os.environ) | {"TERM": "xterm", "PYTHONUTF8": "1"}
    for name in ("NO_COLOR", "COLUMNS", "MELETE_MODEL", "MELETE_BASE_URL"):
        found.pop(name, None)
    if model:
        found |= {"MELETE_BASE_URL": model.base_url, "MELETE_MODEL": "scripted"}
    return found | more


def melete(
    *words: str, model: ScriptedModel | None = None, stdin: bytes | None = None, cwd: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; without `stdin` its standard input is empty."""
    done = subprocess.run(
        [*MELETE, *words],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        env=variables(model, **more),
        cwd=cwd,
        timeout=PATIENCE * 2,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def start(
    *words: str, model: ScriptedModel | None = None, cwd: Path | None = None, stdout: IO[bytes] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command with its output on pipes."""
    return subprocess.Popen(
        [*MELETE, *words],
        stdin=subprocess.DEVNULL,
        stdout=stdout or subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=variables(model),
        cwd=cwd,
    )


def lines(text: str) -> list[dict[str, Any]]:
    """JSON lines as objects."""
    return [msgspec.json.decode(line) for line in text.splitlines()]


class Terminal:
    """A command on a terminal: what it shows is read, lines are typed."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        model: ScriptedModel | None = None,
        cwd: Path | None = None,
        columns: int = 100,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self._data = b""
        self._seen = 0
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, columns))
        self.process = subprocess.Popen(
            [*MELETE, *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=variables(model, **(more or {})),
            cwd=cwd,
            start_new_session=True,
            preexec_fn=_own_terminal,
        )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    @property
    def raw(self) -> str:
        """Everything shown so far, colours and all."""
        return self._data.decode("utf-8", "replace")

    def read_until(self, wanted: str) -> str:
        """What is shown from the last find up to `wanted`, without colours; fails when it does not come."""
        until = time.monotonic() + PATIENCE
        while True:
            plain = CONTROL.sub("", self.raw)
            at = plain.find(wanted, self._seen)
            if at >= 0:
                found = plain[self._seen : at + len(wanted)]
                self._seen = at + len(wanted)
                return found
            assert self._more(until), f"{wanted!r} did not come; there is: {plain[self._seen :]!r}"

    def type(self, text: str) -> None:
        """Type, as a person would; end a line with \\r."""
        os.write(self._master, text.encode("utf-8", "surrogateescape"))

    def interrupt(self) -> None:
        """Press Ctrl-C, a moment after the last key, as a person does: Python loses one that comes at the same instant."""
        time.sleep(0.3)
        self.type("\x03")

    def end(self) -> int:
        """Read to the end and return the exit status."""
        until = time.monotonic() + PATIENCE
        while self._more(until):
            pass
        return self.process.wait(timeout=PATIENCE)

    def rest(self) -> str:
        """What was shown since the last find."""
        return CONTROL.sub("", self.raw)[self._seen :]

    def _more(self, until: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # the other side is closed
            return False
        self._data += data
        return bool(data)


def _own_terminal() -> None:
    with contextlib.suppress(OSError):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
