"""Links, other names and programs by which commands would lead the next sandbox astray."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from melete.core.environment import Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import SandboxOptions
from melete.environments.rules import Rules
from melete.environments.sandbox import Sandbox
from melete.environments.walls import program
from tests.unit.environments.test_sandbox import PATH, home_of, said, with_sandbox

pytestmark = pytest.mark.needs("bwrap")


def test_what_is_hidden_in_the_working_folder_cannot_be_led_to_another_name(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    (home / "deep/.melete").mkdir(parents=True)
    (home / ".melete").rename(home / "deep/.melete/own")
    (home / ".melete").symlink_to("deep/.melete/own")

    async def test(env: Sandbox) -> None:
        moved = await said(
            env,
            "mv .config open; mv deep open; rm -r .config; cat */*/.env */gh/hosts; mkdir .config/new; ls -A .config",
        )
        assert "text of" not in moved
        assert moved.endswith("gh\nnew\n")
        await said(env, "rmdir .config/new")

    with_sandbox(home, test, home=home)
    with_sandbox(home, test, home=home)
    assert (home / ".config/gh/hosts").read_text() == "text of .config/gh/hosts"


def test_a_link_in_place_of_a_folder_of_the_settings_opens_no_secret(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    (home / "link").symlink_to(".ssh")
    variables = {"HOME": str(home), "PATH": PATH}
    options = SandboxOptions(show=(str(home / "link"),), write=(str(home / "link"),))
    rules = Rules(Place(variables=variables), options, cwd=str(home / "work"), thorough=False)
    assert rules.access(str(home / ".ssh/id")) in {"hide", "private"}
    assert len(rules.remarks) == 2
    rules = Rules(
        Place(cwd=str(home / "link"), variables=variables), SandboxOptions(), cwd=str(home / ".ssh"), thorough=False
    )
    assert rules.access(str(home / ".ssh/id")) in {"hide", "private"}
    named = Rules(
        Place(cwd=str(home / ".ssh"), variables=variables), SandboxOptions(), cwd=str(home / ".ssh"), thorough=False
    )
    assert named.access(str(home / ".ssh/id")) == "write"  # who goes there by name means it


def test_a_link_that_comes_into_the_way_of_the_working_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "one/work").mkdir(parents=True)
    (tmp_path / "two/work").mkdir(parents=True)

    async def test(env: Sandbox) -> None:
        (tmp_path / "one").rename(tmp_path / "three")
        (tmp_path / "one").symlink_to("two")
        with pytest.raises(EnvironmentFailure, match="has become a link"):
            await env.exec(["touch", "written"])
        with pytest.raises(EnvironmentFailure, match="has become a link"):
            await env.write("written", b"")
        (tmp_path / "one").unlink()
        (tmp_path / "three").rename(tmp_path / "one")
        assert await said(env, "echo works") == "works\n"

    with_sandbox(tmp_path / "one/work", test)
    assert not list((tmp_path / "two/work").iterdir())


def test_a_bubblewrap_in_the_working_folder_is_not_used(tmp_path: Path) -> None:
    fake = tmp_path / "venv/bin/bwrap"
    fake.parent.mkdir(parents=True)
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    (tmp_path / "link").symlink_to("venv")
    assert program(f"{tmp_path}/venv/bin", cwd=str(tmp_path / "other")) == str(fake)
    for path in (f"{tmp_path}/venv/bin", f"{tmp_path}/link/bin", "venv/bin", "."):
        assert program(path, cwd=str(tmp_path)) == ""
        assert program(f"{path}:{PATH}", cwd=str(tmp_path)) == program(PATH, cwd="/") != ""


FROM_AN_ENVIRONMENT = """
import asyncio, json, sys
from melete.core.environment import Place
from melete.core.places import SandboxOptions
from melete.environments.sandbox import Sandbox

async def main(work, home, path, write):
    options = SandboxOptions(network="off", walls="bwrap", write=tuple(write))
    env = Sandbox(Place(cwd=work, variables={"PATH": path, "HOME": home}, options=options))
    try:
        print(await env.about())
        await env.exec(["bash", "-c", "touch tools/env/bin/x; mv tools elsewhere; touch other/bin/y tools/z"])
    finally:
        await env.aclose()

asyncio.run(main(*json.loads(sys.argv[1])))
"""


@pytest.mark.parametrize("opened", [False, True])
def test_what_melete_runs_from_in_the_working_folder_is_changed_only_where_it_was_opened(
    tmp_path: Path, opened: bool
) -> None:
    work = tmp_path / "work"
    own, other = work / "tools/env", work / "other"
    for folder in (own, other):
        venv.create(folder, symlinks=True)
    given = [str(work), str(tmp_path), f"{other}/bin:{PATH}", [str(own)] if opened else []]
    variables = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [own / "bin/python", "-c", FROM_AN_ENVIRONMENT, json.dumps(given)]
    said = subprocess.run(argv, env=variables, capture_output=True, text=True, check=True).stdout
    assert (str(own) in said) is not opened
    made = {str(path.relative_to(work)) for name in "xyz" for path in work.rglob(name)}
    assert made == ({"elsewhere/env/bin/x", "other/bin/y"} if opened else {"other/bin/y", "tools/z"})
