"""Where skills come from, with a real server and real repositories: what is fetched, and what is never let in."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from melete.core.errors import MeleteError
from melete.core.tool import ToolError
from melete.skills import clone
from tests.unit.skills.elsewhere import (
    BETTER,
    GOOD,
    Home,
    Site,
    folder,
    git,
    home,
    repository,
    run,
    site,
    tarred,
    zipped,
)
from tests.unit.skills.kept import text

__all__ = ["home", "site"]


@pytest.mark.parametrize("pack", [zipped, tarred])
@pytest.mark.parametrize("top", ["", "greet-main/", "repo/skills/greet/"])
def test_an_archive_from_the_disk_or_the_web(
    home: Home, site: Site, tmp_path: Path, pack: Callable[..., bytes], top: str
) -> None:
    data = pack({f"{top}SKILL.md": GOOD, f"{top}references/more.md": "More.\n"})
    (tmp_path / "greet.skill").write_bytes(data)
    home.install(tmp_path / "greet.skill")
    assert (home.main.parent / "references" / "more.md").read_text() == "More.\n"
    run(home.hub.uninstall("greet"))
    site.pages["/a/greet"] = data
    home.install(f"{site.url}/a/greet")
    assert home.main.read_text() == GOOD
    assert home.hub.installed()["greet"].revision == hashlib.sha256(data).hexdigest()
    assert list((home.skills / ".quarantine").iterdir()) == []


@pytest.mark.parametrize(
    "data",
    [
        zipped({"SKILL.md": GOOD, "../../evil": "x"}),
        zipped({"SKILL.md": GOOD}, link="notes"),
        tarred({"SKILL.md": GOOD, "/etc/evil": "x"}),
        tarred({"SKILL.md": GOOD}, device="null"),
        zipped({"README.md": "nothing"}),
        b"PK\x03\x04 and no more",
        b"\x1f\x8b and no more",
        b"<html>",
    ],
)
def test_what_is_no_honest_archive_is_refused_and_leaves_nothing(home: Home, site: Site, data: bytes) -> None:
    site.pages["/it"] = data
    with pytest.raises((ToolError, MeleteError)):
        run(home.hub.offer(f"{site.url}/it"))
    assert [*home.skills.rglob("*")] in ([], [home.skills / ".quarantine"])


def test_a_plain_address_and_one_that_is_not_there(home: Home, site: Site) -> None:
    site.pages["/raw/SKILL.md"] = GOOD.encode()
    home.install(f"{site.url}/raw/SKILL.md")
    assert home.main.read_text() == GOOD
    with pytest.raises(ToolError, match="404"):
        run(home.hub.offer(f"{site.url}/gone.md"))


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("./nothing-here", "no file or folder"),
        ("nothing-here", "skills.registries"),
        ("ext::sh -c touch% /tmp/x", "no file or folder"),
        ("git://example.com/a.git", "leads to no repository"),
        ("http://example.com/a.git", "leads to no repository"),
        ("https://127.0.0.1/a.git", "may not be fetched"),
        ("git+https://10.0.0.1/a", "may not be fetched"),
        ("http://169.254.169.254/latest", "may not be fetched"),
        ("file:///nothing/here.git", "git clone failed"),
        ("file:///nothing/here.git@--upload-pack=x", "no name of a branch"),
    ],
)
def test_sources_that_lead_nowhere(home: Home, source: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        run(home.hub.offer(source))


def test_a_repository_is_read_without_running_anything_of_it(home: Home, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    place = repository(
        tmp_path,
        {
            "skills/greet/SKILL.md": GOOD,
            "skills/greet/assets/large.bin": "version of a large file\n",
            "skills/other/SKILL.md": text("other"),
            ".gitattributes": "* filter=evil\n*.bin filter=lfs\n",
        },
    )
    hook = place / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    git(place, "config", "filter.evil.smudge", f"touch {ran}")
    git(place, "config", "uploadpack.packObjectsHook", f"touch {ran};")

    with pytest.raises(ToolError, match=r"2 skills.*skills/greet, skills/other"):
        run(home.hub.offer(place.as_uri()))
    home.install(f"{place.as_uri()}#greet")

    assert home.main.read_text() == GOOD
    assert (home.main.parent / "assets" / "large.bin").read_text() == "version of a large file\n"
    assert home.hub.installed()["greet"].revision == git(place, "rev-parse", "HEAD")
    assert not ran.exists()
    repository(tmp_path, {"skills/greet/SKILL.md": BETTER})
    home.update()
    assert home.main.read_text() == BETTER


def test_a_branch_a_tag_and_one_that_is_not_there(home: Home, tmp_path: Path) -> None:
    place = repository(tmp_path, {"SKILL.md": GOOD})
    git(place, "tag", "v1.0")
    repository(tmp_path, {"SKILL.md": BETTER})
    assert run(home.hub.offer(f"{place.as_uri()}@v1.0")).theirs["SKILL.md"] == GOOD.encode()
    assert run(home.hub.offer(f"git+{place.as_uri()}")).theirs["SKILL.md"] == BETTER.encode()
    with pytest.raises(ToolError, match="git clone failed"):
        run(home.hub.offer(f"{place.as_uri()}@v2.0"))


@pytest.mark.parametrize(
    ("limit", "value", "why"),
    [
        ("LARGEST_PACK", 16, "git clone failed"),
        ("LARGEST_LIST", 10, "more than a repository of skills"),
        ("TIMEOUT", 0.001, "took longer"),
    ],
)
def test_a_repository_that_is_too_much_is_given_up(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: float, why: str
) -> None:
    place = repository(tmp_path, {"SKILL.md": GOOD, "large.txt": "".join(f"{n * n:x}" for n in range(20_000))})
    monkeypatch.setattr(clone, limit, value)
    with pytest.raises(ToolError, match=why):
        run(home.hub.offer(place.as_uri()))
    assert list((home.skills / ".quarantine").iterdir()) == []


@pytest.mark.parametrize("name", ["pipe.md", "pipe.zip"])
def test_what_is_no_plain_file_is_not_waited_for(home: Home, tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(ToolError, match="not a regular file"):
        run(home.hub.offer(str(tmp_path / name)))


def test_a_skill_with_more_files_than_one_has_is_refused(home: Home, tmp_path: Path) -> None:
    place = repository(tmp_path, {"SKILL.md": GOOD, **{f"references/{n}.md": "x" for n in range(520)}})
    for source in (place.as_uri(), str(place)):
        with pytest.raises(ToolError, match="too much for a skill"):
            run(home.hub.offer(source))


def test_links_and_submodules_of_a_skill_are_findings(home: Home, tmp_path: Path) -> None:
    place = repository(tmp_path, {"SKILL.md": GOOD})
    (place / "passwd").symlink_to("/etc/passwd")
    repository(tmp_path, {"README.md": "x"})
    offer = run(home.hub.offer(place.as_uri()))
    assert "passwd" not in offer.tree
    assert offer.report.verdict != "safe"
    given = folder(tmp_path)
    (given / "notes").symlink_to("/etc")
    assert run(home.hub.offer(str(given))).report.verdict != "safe"
