"""Git remotes count as they were when a folder was first worked in; what a command adds later opens nothing."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from melete.environments.remotes import Remotes, server_of

CONFIG = '[core]\n\tbare = false\n[remote "origin"]\n\turl = {}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'


def repository(folder: Path, address: str) -> Path:
    config = folder / ".git" / "config"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(CONFIG.format(address))
    return config


def remotes(tmp_path: Path, folder: Path, *, home: Path | None = None) -> Remotes:
    return Remotes(str(folder), home=str(home or ""), scratch=str(tmp_path / "scratch"), now=time.time_ns())


def seen(tmp_path: Path, folder: Path) -> list[str]:
    return [str(entry) for entry in remotes(tmp_path, folder).first_seen()]


@pytest.mark.parametrize(
    ("address", "entry"),
    (
        ("https://host.example/me/it.git", "host.example"),
        ("https://me:word@host.example:8443/it", "host.example:8443"),
        ("http://Host.Example/", "host.example"),
        ("ssh://git@host.example/me/it", "host.example:22"),
        ("ssh://git@host.example:2222/me/it", "host.example:2222"),
        ("git@host.example:me/it.git", "host.example:22"),
        ("host.example:it", "host.example:22"),
        ("git://host.example/it", "host.example:9418"),
        ("ssh://git@[2606:4700::1111]/it", "[2606:4700::1111]:22"),
        ("/srv/git/it", None),
        ("../it", None),
        ("file:///srv/it", None),
        ("C:/it", None),
        ("https://127.0.0.1/it", None),
        ("git@localhost:it", None),
        ("https://10.0.0.7/it", None),
        ("ext::sh -c evil", None),
        ("https://host.example:99999/", None),
        ("", None),
    ),
)
def test_the_server_of_a_remote(address: str, entry: str | None) -> None:
    found = server_of(address)
    assert (str(found) if found else None) == entry


def test_the_remotes_of_a_folder_are_remembered_as_first_seen(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    config = repository(folder, "https://host.example/it")
    assert seen(tmp_path, folder) == ["host.example"]
    config.write_text(config.read_text() + '[remote "more"]\n\turl = https://evil.example/\n')
    assert seen(tmp_path, folder) == ["host.example"]
    assert [str(entry) for entry in remotes(tmp_path, folder).present()] == ["host.example", "evil.example"]
    kept = list((tmp_path / "scratch" / "remotes").iterdir())
    assert [path.stat().st_mode & 0o777 for path in kept] == [0o600]


def test_a_folder_without_a_repository_is_remembered_as_such(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    assert seen(tmp_path, folder) == []
    repository(folder, "https://evil.example/it")
    assert seen(tmp_path, folder) == []


def test_a_repository_that_commands_could_make_in_a_folder_below_is_not_believed(tmp_path: Path) -> None:
    above = tmp_path / "projects"
    old = repository(above / "old", "https://host.example/it")
    time.sleep(0.05)
    assert seen(tmp_path, above) == []
    repository(above / "new", "https://evil.example/it")
    assert seen(tmp_path, above / "new") == []
    assert seen(tmp_path, above / "old") == ["host.example"]
    os.utime(old, (1, 1))  # a time that commands can set counts for nothing
    forged = repository(above / "forged", "https://evil.example/it")
    os.utime(forged, (1, 1))
    assert seen(tmp_path, above / "forged") == []


def test_below_a_known_repository_its_known_remotes_still_count(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    config = repository(folder, "https://host.example/it")
    assert seen(tmp_path, folder) == ["host.example"]
    config.write_text(config.read_text() + '[remote "more"]\n\turl = https://evil.example/\n')
    (folder / "part").mkdir()
    assert seen(tmp_path, folder / "part") == ["host.example"]


def test_what_was_remembered_and_cannot_be_read_is_trusted_in_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    repository(folder, "https://host.example/it")
    seen(tmp_path, folder)
    for path in (tmp_path / "scratch" / "remotes").iterdir():
        path.write_text("{broken")
    assert seen(tmp_path, folder) == []


def test_without_a_place_to_remember_there_are_none(tmp_path: Path) -> None:
    repository(tmp_path, "https://host.example/it")
    assert Remotes(str(tmp_path), home="", scratch="", now=0).first_seen() == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"."):
        Remotes(str(tmp_path), home="", scratch=str(tmp_path / "file"), now=0).first_seen()


def test_the_owners_own_rewriting_counts(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    (home / ".gitconfig").write_text('[url "ssh://git@real.example:2222/"]\n\tinsteadOf = work:\n')
    repository(folder, "work:it")
    found = remotes(tmp_path, folder, home=home).first_seen()
    assert [str(entry) for entry in found] == ["real.example:2222"]


@pytest.mark.parametrize("kind", ("fifo", "folder", "nonsense", "link"))
def test_a_strange_configuration_names_nothing_and_nothing_hangs(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "project"
    config = repository(folder, "https://host.example/it")
    config.unlink()
    if kind == "fifo":
        os.mkfifo(config)
    elif kind == "folder":
        config.mkdir()
    elif kind == "nonsense":
        config.write_bytes(b'\xff[remote "x\nurl = \0\n[remote]url=\n= = =' * 1000)
    else:
        config.symlink_to("/dev/zero")
    assert seen(tmp_path, folder) == []


@pytest.mark.needs("git")
def test_further_working_trees_have_the_remotes_of_their_repository(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b.example", *words],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )

    git("init", "-q", "one")
    git("-C", "one", "remote", "add", "origin", "git@host.example:me/it.git")
    git("-C", "one", "commit", "-q", "--allow-empty", "-m", "first")
    git("-C", "one", "worktree", "add", "-q", str(tmp_path / "two"))
    assert seen(tmp_path, tmp_path / "two") == ["host.example:22"]


def test_what_was_added_to_a_known_repository_does_not_count_in_its_further_working_trees(tmp_path: Path) -> None:
    config = repository(tmp_path / "one", "https://host.example/it")
    assert seen(tmp_path, tmp_path / "one") == ["host.example"]
    config.write_text(config.read_text() + '[remote "more"]\n\turl = https://evil.example/it\n')
    own = tmp_path / "one/.git/worktrees/two"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    (tmp_path / "two").mkdir()
    (tmp_path / "two/.git").write_text(f"gitdir: {own}\n")
    assert seen(tmp_path, tmp_path / "two") == ["host.example"]
