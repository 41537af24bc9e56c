"""Runs one process to its end and says what it took."""

import os
import resource
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

DEADLINE = 600.0


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One finished process: `started` on the monotonic clock, times in seconds, `rss` the peak in bytes."""

    started: float
    wall: float
    cpu: float
    rss: int
    code: int
    output: str


def run(command: list[str], *, env: dict[str, str], cwd: Path, deadline: float = DEADLINE) -> Ran:
    """Run a command with no terminal; raises RuntimeError with its output when it fails or passes its deadline."""
    with tempfile.TemporaryFile() as output:
        started = time.monotonic()
        process = subprocess.Popen(
            command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        killer = threading.Timer(deadline, process.kill)
        killer.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - started
        killer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode} after {wall:.1f} s:\n{text[-3000:]}")
    return Ran(started=started, wall=wall, cpu=usage.ru_utime + usage.ru_stime, rss=_bytes(usage), code=0, output=text)


def spawn_seconds(times: int = 40) -> float:
    """The median time that this machine takes now to run `bash -c true` and collect its output."""
    taken: list[float] = []
    for _ in range(times):
        before = time.perf_counter()
        subprocess.run(["bash", "-c", "true"], stdin=subprocess.DEVNULL, capture_output=True, check=True)
        taken.append(time.perf_counter() - before)
    return sorted(taken)[times // 2]


def _bytes(usage: resource.struct_rusage) -> int:
    return usage.ru_maxrss * (1024 if os.uname().sysname == "Linux" else 1)
