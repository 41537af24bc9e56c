"""Which walls a sandbox has here is found out by trying, and remembered until something changes."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from melete.app.home import Home
from melete.app.places import choose, place_of
from melete.app.sections import Settings
from melete.app.settings import Loaded
from melete.app.usable import Usable, usable_walls, why_no_sandbox
from melete.core.places import SandboxOptions
from melete.environments import landlock

REFUSING = "#!/bin/sh\necho x >> $0.log\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
WORKING = "#!/bin/sh\necho x >> $0.log\nexit 0\n"


def here(folder: Path, script: str, **options: Any) -> Loaded:
    (folder / "home/state").mkdir(parents=True, exist_ok=True)
    (folder / "bin").mkdir(exist_ok=True)
    if script:
        (folder / "bin/bwrap").write_text(script)
        (folder / "bin/bwrap").chmod(0o755)
    settings = Settings(sandbox=SandboxOptions(**options))
    environ = {"PATH": f"{folder}/bin"}
    return Loaded(settings=settings, home=Home(root=folder / "home"), environ=environ, variables=environ, origins={})


def tries(folder: Path) -> int:
    log = folder / "bin/bwrap.log"
    return len(log.read_text().split()) if log.exists() else 0


def test_what_works_is_tried_once_and_again_when_the_program_changes(tmp_path: Path) -> None:
    loaded = here(tmp_path, WORKING)
    assert [usable_walls(loaded) for _ in range(3)] == [Usable(walls="bwrap")] * 3
    assert tries(tmp_path) == 1
    os.utime(tmp_path / "bin/bwrap", (1, 1))
    assert usable_walls(loaded).walls == "bwrap"
    assert tries(tmp_path) == 2
    assert choose(loaded, "auto").remark == ""


def test_what_does_not_work_is_tried_again_each_time(tmp_path: Path) -> None:
    loaded = here(tmp_path, REFUSING, walls="bwrap")
    assert why_no_sandbox(loaded) == "bwrap: No permissions to create new namespace"
    chosen = choose(loaded, "auto")
    assert (chosen.name, "No permissions" in chosen.remark) == ("local", True)
    assert tries(tmp_path) == 2


def test_looking_makes_no_home(tmp_path: Path) -> None:
    loaded = here(tmp_path, WORKING)
    shutil.rmtree(tmp_path / "home")
    assert why_no_sandbox(loaded) == ""
    assert not (tmp_path / "home").exists()


def test_a_note_that_cannot_be_read_is_written_anew(tmp_path: Path) -> None:
    loaded = here(tmp_path, WORKING)
    note = tmp_path / "home/state/sandbox-works"
    for text in (b"", b"\xff\xff", b"one line", b"a\nb\nc"):
        note.write_bytes(text)
        assert usable_walls(loaded).walls == "bwrap"
    assert note.read_text().split("\n")[1] == "bwrap"


@pytest.mark.skipif(landlock.abi() < landlock.NEEDED, reason="this kernel has no Landlock that would do")
@pytest.mark.parametrize("script", [REFUSING, ""])
def test_the_second_kind_of_walls_is_taken_with_a_remark_and_told_to_the_sandbox(tmp_path: Path, script: str) -> None:
    loaded = here(tmp_path, script)
    chosen = choose(loaded, "auto")
    assert (chosen.name, "lesser sandbox, without a network" in chosen.remark) == ("sandbox", True)
    assert place_of(loaded, "sandbox", cwd=str(tmp_path)).options.walls == "landlock"
    wanted = here(tmp_path, script, walls="landlock")
    assert choose(wanted, "auto").remark == ""
