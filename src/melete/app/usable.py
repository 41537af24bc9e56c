"""Whether the sandbox works on this machine: tried once, remembered until something changes. Part of the composition root."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from melete.app.settings import Loaded

TRYING = 5.0


def why_no_sandbox(loaded: Loaded) -> str:
    """Empty where the sandbox works; else the reason, in half a sentence."""
    if sys.platform != "linux":
        return "it needs Linux"
    program = shutil.which("bwrap", path=loaded.environ.get("PATH"))
    if program is None:
        return "bubblewrap (bwrap) is not installed"
    note = loaded.home.state / "sandbox-works"
    stamp = f"{program} {Path(program).stat().st_mtime_ns} {os.uname().release} {os.getuid()}"
    try:
        if note.read_text() == stamp:
            return ""
    except OSError:
        pass  # not tried yet
    argv = [
        program,
        "--unshare-all",
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "true",
    ]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=TRYING, check=False, stdin=subprocess.DEVNULL)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode:
        return (
            done.stderr.decode("utf-8", "replace").strip().splitlines()[-1] if done.stderr.strip() else "bwrap failed"
        )
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(stamp)
    except OSError:
        pass  # it will be tried again
    return ""
