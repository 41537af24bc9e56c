"""`melete learn bench`: a person measures whether learning pays, without a key and without a network."""

import signal
import time
import tomllib
from pathlib import Path

import msgspec

from melete.app.learn_bench import ARMS, HARNESS, KEYS
from tests.story.cli import PATIENCE, melete, start

ROOT = Path(__file__).resolve().parents[2]


def test_three_arms_are_measured_shown_and_gone_on_with(tmp_path: Path) -> None:
    words = ["learn", "bench", "--tasks", "4", "--sessions", "4", "--mode", "long", "--keep", str(tmp_path)]
    done = melete(*words, "--json")
    assert not done.returncode, done.stderr
    ended = msgspec.json.decode(done.stdout.splitlines()[-1])
    assert set(KEYS) <= set(ended)
    assert set(ended["arms"]) == set(ARMS)
    assert ended["calls_per_task"] == ended["arms"]["learning"]["calls_per_task"]
    assert (ended["wrong_facts"], ended["junk"], ended["secrets_stored"], ended["poison_obeyed"]) == (0, 0, 0, 0)
    assert ended["arms"]["oracle"]["calls_per_task"] < ended["arms"]["none"]["calls_per_task"]
    assert Path(ended["picture"]).read_bytes().startswith(b"\x89PNG")
    asked = (tmp_path / "none" / "requests.jsonl").read_bytes()
    again = melete(*words)
    assert not again.returncode, again.stderr
    assert "terminal calls a task" in again.stdout
    assert again.stdout.startswith("calls in tasks")
    assert (tmp_path / "none" / "requests.jsonl").read_bytes() == asked


def test_nothing_goes_on_when_it_is_interrupted(tmp_path: Path) -> None:
    process = start("learn", "bench", "--keep", str(tmp_path))
    until = time.monotonic() + PATIENCE
    while not all((tmp_path / arm / "requests.jsonl").exists() for arm in ARMS):
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert not out
    while here := _running(tmp_path):
        assert time.monotonic() < until + PATIENCE, here
        time.sleep(0.05)


def test_a_wheel_brings_the_harness_along() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert built["force-include"] == {str(HARNESS.parent): f"melete/_bench/{HARNESS.parent}"}
    assert (ROOT / HARNESS).is_file()


def _running(folder: Path) -> list[str]:
    """The processes that name a folder."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has just ended
            continue
        if str(folder) in words:
            found.append(words)
    return found
