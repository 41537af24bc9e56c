"""Skills from elsewhere: scanned, shown, agreed to, installed, updated, merged, refused, taken away again."""

import hashlib
import os
from pathlib import Path

import pytest

from melete.core.errors import StorageError
from melete.core.tool import ToolError
from melete.skills.hub import SkillRefusedError, merged
from melete.skills.lock import accepted
from melete.skills.permissions import Permissions
from melete.skills.place import ConflictError, put_tree
from melete.skills.versions import tree_of
from tests.unit.skills.elsewhere import BETTER, EVIL, GOOD, WARY, Home, folder, home, run, site
from tests.unit.skills.kept import put, text

__all__ = ["home", "site"]
DIGEST = hashlib.sha256(GOOD.encode()).hexdigest()


def test_a_folder_is_offered_then_installed_locked_and_noted(home: Home, tmp_path: Path) -> None:
    place = folder(tmp_path, **{"scripts/go.sh": "#!/bin/sh\necho hello\n", ".git/config": "no"})
    offer = run(home.hub.offer(str(place)))
    assert (offer.name, offer.kind, offer.new, offer.changed, offer.refused, offer.caution) == (
        "greet", "folder", True, True, "", "",
    )  # fmt: skip
    assert "+1. Look." in offer.diff
    assert not home.main.exists()

    made = run(home.hub.install(offer))

    skill = home.library.get("greet")
    assert (skill.root, skill.owner, skill.trust, skill.state) == ("hub", "hub", 1, "active")
    assert os.access(home.main.parent / "scripts" / "go.sh", os.X_OK)
    assert not (home.main.parent / ".git").exists()
    assert home.library.versions.head("greet") == made
    entry = home.hub.installed()["greet"]
    assert entry.files["SKILL.md"] == hashlib.sha256(GOOD.encode()).hexdigest()
    assert (entry.source, entry.version, entry.verdict, entry.accepted) == (str(place), made.version, "safe", "")
    assert entry.installed == home.clock.now().isoformat()
    assert [(line["action"], line["name"], line["by"]) for line in home.hub.audit()] == [("installed", "greet", "user")]
    assert not run(home.hub.update("greet")).changed
    assert run(home.library.read("greet")).text == GOOD


def test_what_is_dangerous_is_never_installed(home: Home, tmp_path: Path) -> None:
    offer = run(home.hub.offer(str(folder(tmp_path, EVIL))))
    assert offer.refused
    with pytest.raises(SkillRefusedError, match=r"SKILL\.md:"):
        run(home.hub.install(offer, caution=True))
    assert not home.main.exists()
    assert home.hub.installed() == {}
    assert [(line["action"], line["verdict"]) for line in home.hub.audit()] == [("refused", "dangerous")]


def test_what_needs_caution_needs_a_person(home: Home, tmp_path: Path) -> None:
    offer = run(home.hub.offer(str(folder(tmp_path, WARY))))
    assert offer.report.verdict == "caution"
    for given in ({}, {"by": "agent", "caution": True}):
        with pytest.raises(SkillRefusedError, match="nobody has accepted"):
            run(home.hub.install(offer, **given))
    made = run(home.hub.install(offer, caution=True))
    assert accepted(home.skills, "greet") == made.version
    assert home.hub.installed()["greet"].findings
    assert accepted(home.skills, "other") == ""


def test_nothing_takes_the_name_of_what_is_trusted_more(home: Home, tmp_path: Path) -> None:
    for shelf in ("user", "bundled", "external"):
        path = put(home.root, f"{shelf}/greet/SKILL.md", GOOD)
        with pytest.raises(SkillRefusedError, match="trusted more"):
            home.install(folder(tmp_path, BETTER))
        path.unlink()
    home.install(folder(tmp_path))
    with pytest.raises(SkillRefusedError, match="uninstall that first"):
        home.install(folder(tmp_path / "stranger", BETTER))


def test_what_somebody_put_there_is_not_replaced(home: Home, tmp_path: Path) -> None:
    mine = put(home.root, "hub/greet/SKILL.md", text("greet", "Mine.\n"))
    with pytest.raises(SkillRefusedError, match="was not installed; move it to"):
        home.install(folder(tmp_path))
    assert mine.read_text().endswith("Mine.\n")
    mine.write_text(GOOD)  # as a process leaves it that is killed before it has written the lock
    home.install(folder(tmp_path))
    assert "greet" in home.hub.installed()


def test_what_changed_since_it_was_offered_is_offered_again(home: Home, tmp_path: Path) -> None:
    home.install(folder(tmp_path))
    folder(tmp_path, BETTER)
    offer = run(home.hub.update("greet"))
    home.main.write_text(text("greet", "mine\n"))
    with pytest.raises(SkillRefusedError, match="has changed since"):
        run(home.hub.install(offer))
    assert "mine" in home.main.read_text()


def test_an_update_shows_its_diff_and_what_it_gains(home: Home, tmp_path: Path) -> None:
    home.install(folder(tmp_path))
    more = "allowed-tools: terminal\nrequired_environment_variables:\n  - name: GREET_KEY\n"
    body = "Ask https://api.example.com/v1.\n\n```bash\n$ jq . x.json | sort\n```\n"
    folder(tmp_path, text("greet", body, more=more), **{"scripts/go.sh": "exec ffmpeg -version\n"})
    offer = run(home.hub.update("greet"))
    assert offer.gains == Permissions(
        tools=("terminal",), variables=("GREET_KEY",), hosts=("api.example.com",),
        commands=("ffmpeg", "jq", "scripts/go.sh", "sort"),
    )  # fmt: skip
    assert "-Say hello." in offer.diff
    home.clock.advance(60)
    with pytest.raises(
        SkillRefusedError, match=r"nobody has accepted that it would use GREET_KEY, terminal from now on"
    ):
        run(home.hub.install(offer))
    run(home.hub.install(offer, caution=True))
    entry = home.hub.installed()["greet"]
    assert entry.updated > entry.installed
    assert [one.reason.split()[0] for one in home.library.versions.history("greet")] == ["installed", "updated"]


def test_a_persons_edit_is_merged_and_the_next_update_still_knows_it(home: Home, tmp_path: Path) -> None:
    home.install(folder(tmp_path))
    home.main.write_text(GOOD.replace("1. Look.", "1. Look, and smile."))
    folder(tmp_path, BETTER)
    assert run(home.hub.update("greet")).edited == ("SKILL.md",)
    home.update()
    assert home.main.read_text() == BETTER.replace("1. Look.", "1. Look, and smile.")
    folder(tmp_path, BETTER.replace("Say hello.", "Say hello to all."))
    home.update()
    for old, new in (("1. Look.", "1. Look, and smile."), ("Say hello.", "Say hello to all.")):
        assert new in home.main.read_text()
        assert old not in home.main.read_text()
    assert not run(home.hub.update("greet")).changed
    authors = {one.author for one in home.library.versions.history("greet")}
    assert authors == {"hub", "user"}


def test_a_conflict_is_refused_with_both_kept_and_theirs_can_be_taken(home: Home, tmp_path: Path) -> None:
    home.install(folder(tmp_path))
    mine = GOOD.replace("1. Look.", "1. Look twice.")
    home.main.write_text(mine)
    theirs = GOOD.replace("1. Look.", "1. Look thrice.")
    folder(tmp_path, theirs)
    offer = run(home.hub.update("greet"))
    assert (offer.conflicts, offer.changed) == (("SKILL.md",), True)
    assert "-1. Look twice.\n+1. Look thrice." in offer.diff
    with pytest.raises(SkillRefusedError, match=r"both changed SKILL\.md"):
        run(home.hub.install(offer))
    assert home.main.read_text() == mine
    assert (home.skills / ".archive" / f"greet-{offer.version}" / "SKILL.md").read_text() == theirs
    home.update(theirs=True)
    assert home.main.read_text() == theirs
    history = home.library.versions.history("greet")
    assert any(home.library.versions.tree(one)["SKILL.md"] == mine.encode() for one in history)


def test_an_update_that_turns_bad_or_into_another_is_refused(home: Home, tmp_path: Path) -> None:
    place = folder(tmp_path)
    home.install(place)
    folder(tmp_path, EVIL)
    with pytest.raises(SkillRefusedError):
        home.update()
    (place / "SKILL.md").write_text(text("other"))
    with pytest.raises(ToolError, match="holds other now"):
        home.update()
    assert home.main.read_text() == GOOD
    with pytest.raises(SkillRefusedError, match="there are: greet"):
        home.update("nothing")


def test_files_put_together() -> None:
    base = {"same": b"1", "mine": b"1", "theirs": b"1", "gone": b"1", "left": b"1", "both": b"1"}
    ours = {**base, "mine": b"2", "both": b"2", "new": b"1"}
    theirs = {**base, "theirs": b"2", "both": b"3"}
    del ours["left"], theirs["gone"]
    theirs["left"] = b"2"
    tree, conflicts = merged(base, ours, theirs)
    assert tree == {"same": b"1", "mine": b"2", "theirs": b"2", "both": b"2", "new": b"1"}
    assert conflicts == ["both", "left"]


def test_uninstalled_is_archived_and_can_be_installed_again(home: Home, tmp_path: Path) -> None:
    place = folder(tmp_path)
    home.install(place)
    home.main.write_text(GOOD + "mine\n")
    target = run(home.hub.uninstall("greet"))
    assert (target / "SKILL.md").read_text() == GOOD + "mine\n"
    assert "greet" not in home.library
    assert home.hub.installed() == {}
    home.install(place)
    assert home.library.get("greet").state == "active"
    run(home.hub.uninstall("greet"))
    with pytest.raises(SkillRefusedError, match="not installed"):
        run(home.hub.uninstall("greet"))


@pytest.mark.parametrize(("old", "new"), [('"greet"', '"../user/mine"'), (DIGEST, "../../../etc/passwd")])
def test_a_lock_file_leads_nowhere_else(home: Home, tmp_path: Path, old: str, new: str) -> None:
    home.install(folder(tmp_path))
    mine = home.skills / "user" / "mine" / "SKILL.md"
    mine.parent.mkdir(parents=True)
    mine.write_text(text("mine"))
    lock = home.skills / ".hub" / "lock.json"
    lock.write_text(lock.read_text().replace(old, new))
    with pytest.raises(StorageError, match="an entry that Melete does not write"):
        run(home.hub.uninstall("../user/mine"))
    assert mine.is_file()


def test_a_save_in_the_very_moment_of_an_update_stays(home: Home, tmp_path: Path) -> None:
    home.install(folder(tmp_path))
    hidden, link = home.main.with_name(".notes"), home.main.with_name("shortcut")
    hidden.write_text("mine")
    link.symlink_to("/etc/hostname")
    before = tree_of(home.main.parent)
    with pytest.raises(ConflictError, match="edited in this moment"):
        put_tree(home.main.parent, {"SKILL.md": b"theirs"}, before={**before, "SKILL.md": b"what it was"})
    assert tree_of(home.main.parent) == before
    put_tree(home.main.parent, {"SKILL.md": b"theirs"}, before=before)
    assert (home.main.read_bytes(), hidden.read_text(), link.is_symlink()) == (b"theirs", "mine", True)
    assert [path.name for path in home.main.parent.parent.iterdir()] == ["greet"]


def test_a_lock_file_that_cannot_be_read_is_not_replaced(home: Home, tmp_path: Path) -> None:
    broken = put(home.root, ".hub/lock.json", "{")
    with pytest.raises(StorageError, match=r"lock\.json"):
        home.install(folder(tmp_path))
    assert broken.read_text() == "{"
