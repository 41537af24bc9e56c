"""A model that lets code call its tools reads what the code prints; every call inside is a fact all the same."""

from pathlib import Path

import msgspec
import pytest

from melete.testing import Call, Say, ScriptedModel
from tests.story.cli import lines, melete
from tests.story.homes import of_type

CODE = """
from melete_tools import read_file, search_files, terminal
total = 0
for name in sorted(terminal("ls *.csv")["output"].split()):
    rows = [line.partition("|")[2] for line in read_file(name)["content"].splitlines()]
    total += sum(int(row) for row in rows)
print("the sum is", total)
"""


@pytest.mark.parametrize("where", ["local", pytest.param("sandbox", marks=pytest.mark.needs("bwrap"))])
def test_many_files_are_read_and_one_line_comes_back(tmp_path: Path, where: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for number in range(10):
        (work / f"{number}.csv").write_text(f"{number}\n{number * 100}\n")
    with ScriptedModel([Call("execute_code", {"code": CODE}), Say("It is 4545.")]) as model:
        done = melete("run", "--json", "--env", where, "Add it all up.", model=model, cwd=work)
    assert done.returncode == 0, done.stderr
    ended = of_type(lines(done.stdout), "tool.ended")
    assert [event["result"]["name"] for event in ended] == ["terminal", *["read_file"] * 10, "execute_code"]
    messages = model.requests[1].json["messages"]
    (shown,) = [message["content"] for message in messages if message["role"] == "tool"]
    assert msgspec.json.decode(shown) == {"output": "the sum is 4545\n", "exit_code": 0}
