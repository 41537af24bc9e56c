"""`.env` taken away or broken in mid-run: the run goes on with the keys that it has read."""

import subprocess
from pathlib import Path

import pytest

from melete.testing import Call, Say, ScriptedModel
from tests.story.cli import melete
from tests.story.homes import at, configure, keys

KEY = "sk-aaa-0123456789abcdef"


@pytest.mark.parametrize("harm", ["rm $f", "rm $f; mkdir $f", "printf '\\377\\376' > $f", "echo no-equals-sign > $f"])
def test_the_key_is_still_known(harm: str, tmp_path: Path, own_home: Path) -> None:
    def reply(_: object, __: int) -> Call:
        subprocess.run(["bash", "-c", f"f={own_home}/.melete/.env; {harm}"], check=True)
        return Call("terminal", {"command": "true"})

    with ScriptedModel([reply, Say("Done.")]) as model:
        keys(own_home, MINE_API_KEY=KEY)
        home = configure(own_home, model={"name": "mine/m"}, providers={"mine": at(model, wire="openai-chat")})
        done = melete("run", "--yolo", "go", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert [KEY in str(request.headers) for request in model.requests] == [True, True]
    assert not (home / ".env").is_file() or KEY not in (home / ".env").read_bytes().decode("latin-1")
