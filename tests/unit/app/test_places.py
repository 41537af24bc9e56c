"""What an environment is given by the home in which it is opened."""

from pathlib import Path

import pytest

from melete.app.places import place_of
from melete.app.settings import load


@pytest.mark.parametrize("profile", ("", "work"))
def test_the_homes_of_all_profiles_are_hidden_from_commands(tmp_path: Path, profile: str) -> None:
    root = tmp_path / "own"
    (root / "profiles/work").mkdir(parents=True)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "MELETE_HOME": str(root), "MELETE_PROFILE": profile}
    loaded = load(environ=environ)
    assert loaded.home.root == (root / "profiles/work" if profile else root)
    for name in ("sandbox", "docker"):
        assert place_of(loaded, name, cwd=str(tmp_path)).hidden == (str(root),)
