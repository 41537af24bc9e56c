"""Keys that the agent has are not among the variables of the commands and the code that it runs, wherever they run."""

from pathlib import Path

import pytest

from melete.testing import Call, Say, ScriptedModel
from tests.story.cli import melete
from tests.story.homes import configure, keys

TOKEN = "ghp_Zq7wz2Lr9fXo4TbV1s"
PLACES = pytest.mark.parametrize("where", ["local", pytest.param("sandbox", marks=pytest.mark.needs("bwrap"))])
SHOW = [
    Call("terminal", {"command": "env > seen.txt"}),
    Call("terminal", {"command": "env > behind.txt", "background": True}),
    Call("execute_code", {"code": "import os\nopen('coded.txt', 'w').write(repr(dict(os.environ)))"}),
    Call("process", {"action": "wait", "session_id": "p1"}),
    Say("Done."),
]


def seen(folder: Path, home: Path, *, where: str) -> str:
    work = folder / "work"
    work.mkdir()
    keys(home, OPENAI_API_KEY="sk-0123456789abcdef", WEBHOOK="https://hooks.test/T0/0123456789")
    with ScriptedModel(SHOW) as model:
        done = melete(
            "run", "--yolo", "--env", where, "Show me.", model=model, cwd=work, MY_TOKEN=TOKEN, HARMLESS=f"x {TOKEN} y",
            WEBHOOK="https://hooks.test/T0/0123456789", EDITOR="ed",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return "".join((work / name).read_text() for name in ("seen.txt", "behind.txt", "coded.txt"))


@PLACES
def test_no_key_is_seen(tmp_path: Path, own_home: Path, where: str) -> None:
    found = seen(tmp_path, own_home, where=where)
    assert found.count("EDITOR") == 3
    for hidden in (TOKEN, "MY_TOKEN", "HARMLESS", "hooks.test", "sk-0123456789abcdef"):
        assert hidden not in found


@PLACES
def test_what_passthrough_names_is_seen(tmp_path: Path, own_home: Path, where: str) -> None:
    configure(own_home, env={"passthrough": ["MY_TOKEN"]})
    found = seen(tmp_path, own_home, where=where)
    assert found.count(TOKEN) >= 3
    assert "hooks.test" not in found
