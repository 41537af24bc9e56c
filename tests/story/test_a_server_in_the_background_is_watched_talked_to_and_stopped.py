"""A development server: started in the background, watched until it listens, talked to by another command, stopped."""

import re
from pathlib import Path
from typing import Any

import pytest

from melete.testing import Call, Reply, Say, ScriptedModel
from tests.story.cli import lines, melete
from tests.story.homes import of_type

SERVER = "python3 -u -m http.server 0 --bind 127.0.0.1"
TALK = "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{}/hello.txt').read().decode())\""


def work(body: dict[str, Any], index: int) -> Reply | str:
    """A model that does one thing after the other, as what it is told says."""
    last = str(body["messages"][-1]["content"])
    if index == 0:
        told = {"background": True, "watch_patterns": ["serving http"]}
        return Call(name="terminal", arguments={"command": SERVER, **told})
    if index == 1:
        return Say(text="It is being started.")
    if found := re.search(r"> Serving HTTP on \S+ port (\d+)", last):
        return Call(name="terminal", arguments={"command": TALK.format(found[1])})
    if "Hello from the folder" in last:
        return Call(name="process", arguments={"action": "kill", "session_id": "p1"})
    if '"status":"killed"' in last:
        return Call(name="terminal", arguments={"command": "echo gone"})
    return Say(text=f"Seen, and stopped: {last}")


@pytest.mark.parametrize("place", ["local", pytest.param("sandbox", marks=pytest.mark.needs("bwrap"))])
def test_the_whole_job(tmp_path: Path, place: str) -> None:
    (tmp_path / "hello.txt").write_text("Hello from the folder\n")
    with ScriptedModel(work) as model:
        done = melete("run", "--json", "--env", place, "serve this folder", model=model, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    events = lines(done.stdout)
    (ended,) = of_type(events, "run.ended")
    assert ended["stop"] == "done"
    assert '"output":"gone' in ended["text"]
    assert [e["outcome"] for e in of_type(events, "tool.ended")] == ["ok"] * 4
    waiting, *_ = [e["text"] for e in of_type(events, "notice") if e["about"] == "background"]
    assert waiting == f"waiting for p1 ({SERVER})"
    (woken,) = [e["message"] for e in of_type(events, "message") if e.get("inbox")]
    assert woken["by"]["kind"] == "runtime"
    assert woken["parts"][0]["taint"] == "tool"
