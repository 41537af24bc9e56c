"""Where things live, whose they are, and what is said when they cannot be written."""

import errno
import stat
from pathlib import Path

import pytest

from melete.app.home import Home, locate
from melete.core.errors import ConfigError, StorageError


def test_the_home_is_melete_home_or_a_folder_of_the_person(tmp_path: Path) -> None:
    assert locate(home="", user=str(tmp_path)).root == tmp_path / ".melete"
    assert locate(home="~/x/y", user=str(tmp_path)).root == tmp_path / "x" / "y"
    assert locate(home="~", user=str(tmp_path)).root == tmp_path
    assert locate(home="/srv/m", user=str(tmp_path)).root == Path("/srv/m")
    assert locate(home="rel", user=str(tmp_path)).root.is_absolute()


def test_every_path_has_its_name(tmp_path: Path) -> None:
    home = Home(root=tmp_path)
    names = {
        "config.yaml": home.config, ".env": home.env, "SOUL.md": home.soul, "memories": home.memories,
        "memories/MEMORY.md": home.memory_notes, "memories/USER.md": home.user_notes, "skills": home.skills,
        "state": home.state, "logs": home.logs, "cron": home.cron, "plugins": home.plugins, "hooks": home.hooks,
        "skins": home.skins, "plans": home.plans, "workspace": home.workspace, "home": home.child_home,
        "profiles": home.profiles,
    }  # fmt: skip
    assert {path.relative_to(tmp_path).as_posix() for path in names.values()} == set(names)
    assert not any(path.exists() for path in names.values())


def test_profiles_lie_side_by_side_and_the_first_is_called_default(tmp_path: Path) -> None:
    work = locate(home=str(tmp_path), user="", profile="work")
    assert work.root == tmp_path / "profiles" / "work"
    assert work.profiles == tmp_path / "profiles"
    assert locate(home=str(tmp_path), user="", profile="default").root == tmp_path


@pytest.mark.parametrize("name", ["..", "../x", "a/b", "A", "-a", ".a", "a b", "a\n", "x" * 65, "é"])
def test_a_profile_cannot_lead_elsewhere(name: str) -> None:
    with pytest.raises(ConfigError, match="is not the name of a profile"):
        locate(home="/h", user="", profile=name)


def test_paths_are_shown_as_people_write_them(tmp_path: Path) -> None:
    home = Home(root=tmp_path / ".melete", user=tmp_path)
    assert home.display(home.config) == "~/.melete/config.yaml"
    assert home.display(tmp_path) == "~"
    assert home.display(Path("/etc/x")) == "/etc/x"
    assert Home(root=tmp_path).display(tmp_path) == str(tmp_path)


def test_folders_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    home = Home(root=tmp_path / "a" / "b")
    assert home.folder(home.logs) == home.logs
    assert home.folder(home.logs).is_dir()
    for folder in (home.root.parent, home.root, home.logs):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_file_in_place_of_a_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "h").write_text("")
    home = Home(root=tmp_path / "h", user=tmp_path)
    for path in (home.root, home.logs):
        with pytest.raises(StorageError, match="move that file away"):
            home.folder(path)


@pytest.mark.parametrize(
    ("code", "fix"),
    [
        (errno.EROFS, "the disk is read-only: set MELETE_HOME"),
        (errno.ENOSPC, "free some space"),
        (errno.EACCES, "make ~/h yours"),
        (errno.EIO, "set MELETE_HOME to a folder that you can write to"),
    ],
)
def test_each_cause_has_its_fix(tmp_path: Path, code: int, fix: str) -> None:
    home = Home(root=tmp_path / "h", user=tmp_path)
    error = home.unusable(home.state, OSError(code, "Why It Failed"))
    assert str(error).startswith("cannot write ~/h/state: why It Failed; nothing was changed; ")
    assert fix in str(error)
