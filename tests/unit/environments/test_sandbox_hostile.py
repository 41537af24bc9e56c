"""Commands that want out get nothing, whoever runs the agent and whichever walls there are. The attempts stand in `hostile.py`."""

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

import melete
from melete.environments import landlock
from tests.unit.environments import hostile

pytestmark = [pytest.mark.needs("bwrap", "setpriv")]
NOBODY = 65534
ABLE = (
    "import os, subprocess, sys, melete.environments.sandbox;"
    " subprocess.run([os.path.realpath(sys.executable), '-c', ''], check=True)"
)
USERS = ("administrator", "user") if os.getuid() == 0 else ("user",)
ALWAYS = [*hostile.SHELL, *hostile.PYTHON, "write_by_the_file_tools", "large_file", "nothing_outside_changed"]


def drop() -> list[str]:
    return [] if os.getuid() else ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]


@functools.cache
def library() -> Path:
    """A folder that every user may read, with what is tested in it: a checkout and an environment may be private ones."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-library-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for package in (melete, msgspec):
        source = Path(str(package.__file__)).parent
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(hostile.__file__, folder / "hostile.py")
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
    return folder


def variables(home: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": home,
        "PYTHONPATH": str(library()),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@functools.cache
def interpreter(user: str) -> str:
    """A Python that the user may run and that can load what is tested; empty without."""
    if user == "administrator":
        return sys.executable
    for program in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        argv = [*drop(), program, "-c", ABLE]
        if Path(program).exists() and not subprocess.run(argv, env=variables("/"), capture_output=True).returncode:
            return program
    return ""


@functools.cache
def result(user: str, walls: str) -> dict[str, str]:
    """What each attempt got, all of them made once."""
    program = interpreter(user)
    if not program:
        pytest.skip("no Python here that an ordinary user may run has what Melete needs")
    folder = tempfile.mkdtemp(prefix="hostile-")
    try:
        if user == "user" and os.getuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        argv = [*(drop() if user == "user" else []), program, str(library() / "hostile.py"), walls, folder]
        done = subprocess.run(argv, env=variables(folder), capture_output=True, text=True, timeout=240)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("attempt", [*ALWAYS, *hostile.BWRAP_ONLY])
def test_a_hostile_command_gets_nothing(user: str, attempt: str) -> None:
    assert result(user, "bwrap")[attempt] == ""


@pytest.mark.skipif(landlock.abi() < landlock.NEEDED, reason="this kernel has no Landlock that would do")
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("attempt", ALWAYS)
def test_a_hostile_command_gets_nothing_behind_the_second_kind_of_walls(user: str, attempt: str) -> None:
    assert result(user, "landlock")[attempt] == ""
