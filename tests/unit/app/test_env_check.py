"""What is said of environments: built in or installed, working or not, and whatever they do when they are tried."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from melete.app.env_check import Known, Step, attempt, known, look, of_name, use
from melete.app.places import names
from melete.app.plugins import registry
from melete.app.settings import Loaded, load
from melete.core.errors import ConfigError, EnvironmentFailure

PLUGIN = '''
"""Environments of every temper."""

from melete.core.environment import Missing
from melete.core.errors import EnvironmentFailure
from melete.environments.local import LocalEnvironment


class Sound(LocalEnvironment):
    """Works, and has something to say."""

    @staticmethod
    def missing(place):
        return None if place.variables.get("SOUND") else Missing(why="the variable SOUND is not set", fix="set SOUND")

    async def about(self):
        return {"network": ["one.example", "two.example"], "hidden": []}


class Refuses:
    """Cannot be made."""

    def __init__(self, place):
        raise EnvironmentFailure("the key is missing", next="set the key")


class Breaks(LocalEnvironment):
    """Breaks when it is used."""

    async def exec(self, argv, **options):
        raise EnvironmentFailure("the line is dead", kept="nothing ran", next="see to the line")


class Forgets(LocalEnvironment):
    """Loses what is written."""

    async def read(self, path, **options):
        return b""
'''


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loaded]:
    """The settings of an empty home, with a plugin installed that brings four environments."""
    site = tmp_path / "site"
    info = site / "acme_places-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "acme_places.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme_places\nVersion: 1.0\n")
    targets = "".join(
        f"{name.lower()} = acme_places:{name}\n" for name in ("Sound", "Refuses", "Breaks", "Forgets", "Gone")
    )
    (info / "entry_points.txt").write_text(f"[melete.environments]\n{targets}")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.chdir(tmp_path)
    yield load(environ=variables())
    sys.modules.pop("acme_places", None)


def variables(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "MELETE_ENV": "local", **more}


def rows(loaded: Loaded) -> dict[str, Known]:
    return {row.name: row for row in known(loaded)}


def tried(loaded: Loaded, name: str) -> list[Step]:
    async def main() -> list[Step]:
        return [step async for step in attempt(loaded, name)]

    return asyncio.run(main())


def test_installed_environments_stand_beside_those_that_are_built_in(loaded: Loaded) -> None:
    listed = names(registry())
    assert listed[:2] == ["local", "sandbox"]
    assert {"sound", "refuses", "breaks", "forgets"} <= set(listed)
    assert of_name("sound") == "sound"
    with pytest.raises(ConfigError, match=r"did you mean sound.*known: local, sandbox, .*, auto"):
        of_name("sund")


def test_each_says_itself_what_it_lacks(loaded: Loaded) -> None:
    found = rows(loaded)
    assert (found["sound"].works, found["sound"].why, found["sound"].fix) == (
        False,
        "the variable SOUND is not set",
        "set SOUND",
    )
    assert look(load(environ=variables(SOUND="1")), "sound") is None
    assert (found["refuses"].works, found["refuses"].why, found["refuses"].fix) == (
        False,
        "the key is missing",
        "set the key",
    )
    assert not found["gone"].works  # its module has no such name
    assert [name for name, row in found.items() if row.default] == ["local"]


def test_a_try_shows_what_it_has_to_say_and_leaves_nothing(loaded: Loaded, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    steps = tried(load(environ=variables(SOUND="1")), "sound")
    assert [step.name for step in steps] == ["here", "start", "shell", "folder", "files", "network"]
    assert {step.status for step in steps} == {"ok"}
    assert steps[-1].text == "one.example\ntwo.example"
    assert [path for path in sorted(tmp_path.rglob("*")) if "__pycache__" not in str(path)] == before


@pytest.mark.parametrize(
    ("name", "last", "said", "fix"),
    [
        ("refuses", "here", "the key is missing", "set the key"),
        ("breaks", "try", "the line is dead", "nothing ran; see to the line"),
        ("forgets", "files", "a file did not come back", "report"),
        ("nobody", "here", "there is no environment 'nobody'", "known: "),
    ],
)
def test_a_try_ends_with_what_is_wrong(loaded: Loaded, name: str, last: str, said: str, fix: str) -> None:
    step = tried(loaded, name)[-1]
    assert (step.name, step.status) == (last, "fail")
    assert said in step.text
    assert fix in step.fix


def test_what_does_not_work_is_not_made_the_default(loaded: Loaded) -> None:
    with pytest.raises(
        EnvironmentFailure, match=r"the line is dead.*nothing was changed.*config set env.default breaks"
    ):
        asyncio.run(use(loaded, "breaks"))
    assert not loaded.home.config.exists()
    asyncio.run(use(loaded, "local"))
    assert loaded.home.config.read_text() == "env:\n  default: local\n"


def test_a_folder_that_can_only_be_read_is_worth_a_word(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/proc")
    steps = {step.name: step for step in tried(loaded, "local")}
    assert (steps["folder"].status, steps["files"].status) == ("warn", "ok")


def test_a_working_folder_that_is_gone_is_called_so(
    loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert {row.why for row in rows(loaded).values() if row.name in {"local", "breaks"}} == {
        "the folder in which this was started is gone"
    }
    assert tried(loaded, "local")[-1].fix == "go to another, or give --cwd"
    assert look(loaded, "local", cwd=str(tmp_path)) is None
    missing = look(loaded, "local", cwd=str(gone))
    assert missing is not None
    assert missing.why == f"--cwd {gone} is no folder"
