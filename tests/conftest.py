"""What every test gets: a home of its own, no keys, no proxy, and no process left behind."""

import contextlib
import ctypes
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

STRICT_VARIABLE = "MELETE_CI_STRICT"
HALF_VARIABLE, OUTSIDE = "MELETE_TESTS_HALF", ("crash", "story")
"""Which half of the tests to run: 1 is what drives the product from outside, in these folders, and 2 the rest."""
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
PR_SET_CHILD_SUBREAPER = 36

settings.register_profile(
    "melete",
    deadline=None,  # timings are never asserted
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("melete")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --live, which runs the tests that talk to real providers."""
    parser.addoption("--live", action="store_true", help="run tests that need a provider's key")


def pytest_configure() -> None:
    """Adopt orphans, so that a process that a test leaves behind is seen as a child of this one."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the other half out, where two processes share the tests."""
    if half := os.environ.get(HALF_VARIABLE):
        outside = half == "1"
        others = [item for item in items if (item.path.parent.name in OUTSIDE) != outside]
        items[:] = [item for item in items if (item.path.parent.name in OUTSIDE) == outside]
        config.hook.pytest_deselected(items=others)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what cannot run here; in strict CI a missing program is a failure instead."""
    if item.get_closest_marker("live") and not item.config.getoption("--live"):
        pytest.skip("needs a provider's key: run with --live")
    lacking = [
        f"needs {name} on the PATH"
        for marker in item.iter_markers("needs")
        for name in marker.args
        if shutil.which(name) is None
    ]
    lacking += [
        f"needs the package {name}"
        for marker in item.iter_markers("needs_package")
        for name in marker.args
        if find_spec(name) is None
    ]
    for reason in lacking:
        if os.environ.get(STRICT_VARIABLE) == "1":
            pytest.fail(f"{reason}, and {STRICT_VARIABLE}=1 allows no skips", pytrace=False)
        pytest.skip(reason)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test an empty home of its own, and take away keys, proxies and settings."""
    for name in list(os.environ):
        mine = name.startswith("MELETE_") and name != STRICT_VARIABLE
        if mine or name.endswith("_API_KEY") or name.lower() in PROXY_VARIABLES:
            monkeypatch.delenv(name)
    home = tmp_path / "user-home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MELETE_HOME", str(home / ".melete"))
    monkeypatch.setenv("MELETE_LEARNING", "false")  # what is told of learning switches it on
    monkeypatch.setenv("MELETE_ENV", "local")  # what is told of the sandbox asks for it by name
    return home


@pytest.fixture(autouse=True, scope="module")
def no_process_left_behind() -> Iterator[None]:
    """Fail the module whose tests leave a process running, and end that process."""
    before = _children()
    yield
    left = _wait_until_gone(before)
    for pid in left:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):  # it may end by itself meanwhile
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    assert not left, f"processes left behind: {left}"


def _wait_until_gone(before: dict[int, str]) -> dict[int, str]:
    """Return the children that are still there after two seconds of grace."""
    until = time.monotonic() + 2
    while True:
        left = {pid: line for pid, line in _children().items() if pid not in before}
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.02)


def _children() -> dict[int, str]:
    """Return this process's living children (pid → command line), reaping adopted dead ones."""
    found: dict[int, str] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_text(errors="replace")
            line = (entry / "cmdline").read_bytes()
        except OSError:  # it ended while we looked
            continue
        state, parent = stat.rpartition(")")[2].split()[:2]
        if int(parent) != os.getpid():
            continue
        pid = int(entry.name)
        if state == "Z":
            _reap(pid)
        else:
            found[pid] = line.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def _reap(pid: int) -> None:
    """Collect a dead child; somebody else may have done so already."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
