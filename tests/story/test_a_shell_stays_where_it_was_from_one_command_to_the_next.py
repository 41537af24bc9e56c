"""A model that changes the folder, sets a variable and activates an environment finds it so at its next command."""

from pathlib import Path

import msgspec
import pytest

from melete.testing import Call, Say, ScriptedModel
from tests.story.cli import lines, melete
from tests.story.homes import of_type


@pytest.mark.parametrize("where", ["local", pytest.param("sandbox", marks=pytest.mark.needs("bwrap"))])
def test_the_folder_and_the_variables_last_and_files_stay_where_they_are(tmp_path: Path, where: str) -> None:
    work = tmp_path / "work"
    (work / "inner").mkdir(parents=True)
    (work / "here.txt").write_text("in the working folder")
    script = [
        Call("terminal", {"command": "cd inner && export GREETING=hello && greet() { echo $GREETING $1; }"}),
        Call("terminal", {"command": "pwd; greet you > said.txt"}),
        Call("read_file", {"path": "here.txt"}),
        Call("terminal", {"command": "sleep 60", "timeout": 1}),
        Call("terminal", {"command": "cat said.txt; cd ..; rm -r inner/../inner 2>/dev/null || echo refused"}),
        Say("Done."),
    ]
    with ScriptedModel(script) as model:
        done = melete("run", "--json", "--yolo", "--env", where, "Go on.", model=model, cwd=work)
    assert done.returncode == 0, done.stderr
    results = [
        msgspec.json.decode(event["result"]["content"], type=dict[str, object])
        for event in of_type(lines(done.stdout), "tool.ended")
    ]
    assert results[0]["cwd"] == results[1]["cwd"] == str(work / "inner")
    assert results[1]["output"] == f"{work}/inner\n"
    assert "in the working folder" in str(results[2]["content"])
    assert results[3]["timed_out"] is True
    assert results[4]["output"] == "hello you\n"
    assert "cwd" not in results[4]
