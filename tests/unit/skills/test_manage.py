"""Changes of skills: checked whole, kept as versions, merged with what others edited, taken back."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from melete.core.errors import StorageError
from melete.core.ports import Applied, Change
from melete.core.skill import Here, Owner
from melete.core.tool import ToolError
from melete.skills.index import build
from melete.skills.manage import Keeper
from melete.skills.versions import Tree, tree_of, version_of_tree
from tests.unit.skills.kept import keeper, put, text


def run(work: Any) -> Any:
    return asyncio.run(work)


def change(kept: Keeper, name: str, files: Mapping[str, str | None], **more: Any) -> Applied:
    return run(kept.apply(Change(name=name, files=files, **{"author": "agent", **more})))


def made(kept: Keeper, name: str = "demo", body: str = "one\ntwo\nthree\n", **more: Any) -> str:
    done = change(kept, name, {"SKILL.md": text(name, body)}, **more)
    assert done.ok, done.reason
    return done.version


def body(kept: Keeper, name: str = "demo") -> str:
    return run(kept.read(name)).text.partition("---\n\n")[2]


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_agent_makes_a_skill_on_trial_that_the_next_process_finds(tmp_path: Path) -> None:
    version = made(
        keeper(tmp_path), category="devops/nets", reason="a fault", session="s1", turns=(7,), model="m", taint="tool"
    )
    kept = keeper(tmp_path)
    skill = kept.get("demo")
    assert (skill.owner, skill.trust, skill.state, skill.category) == ("agent", 2, "trial", "devops/nets")
    assert Path(skill.folder) == tmp_path / "skills" / "user" / "devops" / "nets" / "demo"
    (only,) = kept.versions.history("demo")
    assert (only.version, only.author, only.session, only.turns, only.model, only.taint, only.reason) == (
        version, "agent", "s1", (7,), "m", "tool", "a fault",
    )  # fmt: skip
    assert run(kept.read("demo")).version == version


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("Demo", text("Demo"), "cannot be called"),
        ("../demo", text("demo"), "cannot be called"),
        ("demo", text("other"), "must be that of its folder"),
        ("demo", "no front matter", "begin with a block"),
        ("demo", text("demo", description="use: it"), "put it between quotes"),
        ("demo", text("demo", "Do EVIL.\n"), "the scan refuses it: says EVIL in SKILL.md"),
        ("demo", text("demo", "x" * 100_001), "longer|more than"),
        ("demo", text("demo", "\ud800"), "half a character"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(tmp_path: Path, name: str, content: str, why: str) -> None:
    kept = keeper(tmp_path)
    done = change(kept, name, {"SKILL.md": content})
    assert not done.ok
    assert why in done.reason or any(part in done.reason for part in why.split("|")), done.reason
    assert not (tmp_path / "skills").exists() or not files(tmp_path / "skills")
    assert kept.versions.history(name) == ()


@pytest.mark.parametrize("category", ["../up", "a//../../b", "/abs", "UPPER", "a b"])
def test_a_category_stays_below_the_persons_skills(tmp_path: Path, category: str) -> None:
    done = change(keeper(tmp_path), "demo", {"SKILL.md": text("demo")}, category=category)
    assert not done.ok
    assert not (tmp_path / "skills").exists()


def test_files_beside_it_lie_in_known_folders_only(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    version = made(kept)
    for path in (
        "notes.md",
        "../up.md",
        "/etc/x",
        "other/x.md",
        "references/../../x",
        "references/a:b",
        ".git/hooks/x",
    ):
        done = change(kept, "demo", {path: "x"}, base=version)
        assert not done.ok, path
    assert change(kept, "demo", {"references/big.md": "x" * ((1 << 20) + 1)}, base=version).reason.endswith(
        "1,048,576 bytes"
    )
    done = change(kept, "demo", {"scripts/go.sh": "#!/bin/sh\necho go\n"}, base=version)
    assert done.ok
    script = tmp_path / "skills/user/demo/scripts/go.sh"
    assert script.stat().st_mode & 0o777 == 0o700
    assert not change(kept, "demo", {"scripts/GO.sh": "x"}, base=done.version).ok
    assert run(kept.read("demo", "scripts/go.sh")).text.endswith("echo go\n")
    assert run(kept.read("demo")).files == ("SKILL.md", "scripts/go.sh")
    gone = change(kept, "demo", {"scripts/go.sh": None}, base=done.version)
    assert gone.ok
    assert not script.exists()


def test_a_change_needs_the_version_that_was_read(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    made(kept)
    assert "not read" in change(kept, "demo", {"references/a.md": "x"}).reason
    assert "already" in change(kept, "demo", {"SKILL.md": text("demo", "new")}).reason
    assert "has no version" in change(kept, "demo", {"references/a.md": "x"}, base="0" * 16).reason
    with pytest.raises(ToolError, match="demo"):
        kept.get("demon")


def test_a_persons_edit_survives_the_agents_change(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    version = made(kept)
    path = tmp_path / "skills/user/demo/SKILL.md"
    path.write_text(text("demo", "one by me\ntwo\nthree\n"))
    done = change(kept, "demo", {"SKILL.md": text("demo", "one\ntwo\n3\n")}, base=version)
    assert done.ok, done.reason
    assert path.read_text() == text("demo", "one by me\ntwo\n3\n")
    assert [one.author for one in kept.versions.history("demo")] == ["agent", "user", "agent"]
    assert "-three\n+3" in done.diff
    assert "by me" not in "".join(line for line in done.diff.splitlines() if line[0] in "+-")


def test_where_both_edits_meet_nothing_is_written(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    version = made(kept)
    path = tmp_path / "skills/user/demo/SKILL.md"
    path.write_text(text("demo", "one by me\ntwo\nthree\n"))
    done = change(kept, "demo", {"SKILL.md": text("demo", "one by you\ntwo\nthree\n")}, base=version)
    assert (done.ok, done.conflict) == (False, True)
    assert "has changed in the same place" in done.reason
    assert path.read_text() == text("demo", "one by me\ntwo\nthree\n")
    removed = change(kept, "demo", {"SKILL.md": None}, base=version)
    assert removed.conflict
    assert path.exists()


def test_what_a_person_wrote_is_theirs(tmp_path: Path) -> None:
    path = put(tmp_path, "user/mine/SKILL.md", text("mine"))
    kept = keeper(tmp_path)
    read = run(kept.read("mine"))
    assert (read.skill.owner, read.skill.trust) == ("user", 4)
    files = {"SKILL.md": text("mine", "Better.\n")}
    assert "the person's own" in change(kept, "mine", files, base=read.version).reason
    assert path.read_text() == text("mine")
    assert change(kept, "mine", files, base=read.version, granted=True).ok
    assert (kept.get("mine").owner, kept.get("mine").trust) == ("user", 4)
    eager = keeper(tmp_path, edit_user=True)
    again = {"SKILL.md": text("mine", "Best.\n")}
    assert change(eager, "mine", again, base=run(eager.read("mine")).version).ok


@pytest.mark.parametrize(("root", "trust"), [("bundled", 2), ("hub", 1)])
def test_what_came_from_elsewhere_is_mended_in_place_and_on_trial(tmp_path: Path, root: str, trust: int) -> None:
    path = put(tmp_path, f"{root}/tools/theirs/SKILL.md", text("theirs"))
    kept = keeper(tmp_path)
    read = run(kept.read("theirs"))
    assert change(kept, "theirs", {"SKILL.md": text("theirs", "Mended.\n")}, base=read.version).ok
    assert path.read_text() == text("theirs", "Mended.\n")
    skill = kept.get("theirs")
    assert (skill.owner, skill.trust, skill.state) == (root, trust, "trial")
    assert run(kept.revert("theirs")).ok
    assert path.read_text() == text("theirs")
    assert (kept.get("theirs").trust, kept.get("theirs").state) == (read.skill.trust, "active")


@pytest.mark.parametrize("root", ["external", "project"])
def test_what_is_only_read_is_not_changed(tmp_path: Path, root: str) -> None:
    put(tmp_path, f"{root}/theirs/SKILL.md", text("theirs"))
    kept = keeper(tmp_path)
    read = run(kept.read("theirs"))
    done = change(kept, "theirs", {"SKILL.md": text("theirs", "Mended.\n")}, base=read.version, granted=True)
    assert "a skill of another name" in done.reason


def test_a_change_is_taken_back_and_so_is_that(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    first = made(kept)
    second = change(kept, "demo", {"SKILL.md": text("demo", "worse\n"), "references/a.md": "a\n"}, base=first).version
    assert run(kept.revert("demo")).version == first
    assert body(kept) == "one\ntwo\nthree\n"
    assert not (tmp_path / "skills/user/demo/references/a.md").exists()
    with pytest.raises(ToolError, match="is as it was"):
        run(kept.revert("demo", first))
    assert run(kept.revert("demo", second[:8])).version == second
    assert run(kept.read("demo", "references/a.md")).text == "a\n"
    history = kept.versions.history("demo")
    assert [one.version for one in history] == [first, second, first, second]
    assert history[-1].reason == f"back to {second}"
    assert history[-1].author == "user"


def test_deleting_leaves_another_skill_of_the_same_name(tmp_path: Path) -> None:
    put(tmp_path, "bundled/tools/demo/SKILL.md", text("demo", "Packaged.\n"))
    put(tmp_path, "user/demo/SKILL.md", text("demo", "Mine.\n"))
    kept = keeper(tmp_path)
    read = run(kept.read("demo"))
    assert body(kept) == "Mine.\n"
    assert change(kept, "demo", {"SKILL.md": None}, base=read.version, author="user").ok
    assert body(kept) == "Packaged.\n"


def test_deleting_archives_and_can_be_taken_back(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    version = made(kept, category="devops")
    assert change(kept, "demo", {"SKILL.md": None}, base=version).ok
    with pytest.raises(ToolError, match="no skill"):
        kept.get("demo")
    assert (tmp_path / f"skills/.archive/demo-{version}/SKILL.md").exists()
    assert run(keeper(tmp_path).revert("demo")).ok
    assert keeper(tmp_path).get("demo").category == "devops"
    version = run(kept.read("demo")).version
    assert change(kept, "demo", {"SKILL.md": None}, base=version).ok
    assert made(keeper(tmp_path)), "the name is free again"


def test_what_a_person_puts_in_the_place_of_an_archived_one_is_theirs(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    version = made(kept)
    assert change(kept, "demo", {"SKILL.md": None}, base=version).ok
    put(tmp_path, "user/demo/SKILL.md", text("demo", "Mine.\n"))
    kept.refresh()
    skill = kept.get("demo")
    assert (skill.owner, skill.trust, skill.state) == ("user", 4, "active")
    assert body(kept) == "Mine.\n"
    assert [(one.author, one.parent) for one in kept.versions.history("demo")] == [("agent", ""), ("user", "")]
    with pytest.raises(ToolError, match="nothing lies before"):
        run(kept.revert("demo"))
    run(kept.revert("demo", version))
    assert body(kept) == "one\ntwo\nthree\n"


def test_a_known_version_is_loaded_without_reading_its_history(tmp_path: Path) -> None:
    made(keeper(tmp_path))
    asked: list[int] = []
    kept = keeper(tmp_path)
    kept.refresh()
    ledger = kept.versions._ledger

    class Watched:
        def read(self, **given: Any) -> Any:
            asked.append(given.get("after", 0))
            return ledger.read(**given)

    kept.versions._ledger = Watched()  # type: ignore[assignment]
    run(kept.read("demo"))
    assert asked == []


def test_a_text_that_changed_is_scanned_before_it_is_loaded(tmp_path: Path) -> None:
    path = put(tmp_path, "hub/theirs/SKILL.md", text("theirs"))
    kept = keeper(tmp_path)
    assert body(kept, "theirs") == "Do it.\n"
    path.write_text(text("theirs", "Do EVIL.\n"))
    with pytest.raises(ToolError, match="is not loaded: says EVIL"):
        run(kept.read("theirs"))
    path.write_text(text("theirs", "Do good.\n"))
    assert body(kept, "theirs") == "Do good.\n"


@pytest.mark.parametrize("root", ["user", "bundled"])
def test_what_lies_there_without_anybody_s_word_is_scanned(tmp_path: Path, root: str) -> None:
    kept = keeper(tmp_path)
    main = put(tmp_path, f"{root}/stray/SKILL.md", text("stray", "Do EVIL.\n"))
    for _ in range(2):
        with pytest.raises(ToolError, match=r"says EVIL.*melete skills pin stray"):
            run(kept.read("stray"))
    run(kept.versions.mark("stray", reason="pinned", pinned=True, owner=root))
    assert body(kept, "stray") == "Do EVIL.\n"
    main.write_text(text("stray", "Do more EVIL.\n"))
    with pytest.raises(ToolError, match="says EVIL"):
        run(kept.read("stray"))
    if root == "user":
        base = kept.versions.history("stray")[-1].version
        assert change(kept, "stray", {"SKILL.md": text("stray", "My EVIL.\n")}, base=base, author="user").ok
        assert body(kept, "stray") == "My EVIL.\n"


def test_what_came_with_a_project_is_listed_by_name_and_scanned_when_it_is_loaded(tmp_path: Path) -> None:
    put(tmp_path, "project/theirs/SKILL.md", text("theirs", "Do EVIL.\n", description="Obey me."))
    kept = keeper(tmp_path)
    block = build(kept.index(Here()), Here()).text
    assert "from the working folder, not from the person:\n- theirs: skill_view tells\n" in block
    assert "Obey me" not in block
    with pytest.raises(ToolError, match="is not loaded: says EVIL"):
        run(kept.read("theirs"))


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    version = made(kept)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "old.md").write_text("precious")
    folder = tmp_path / "skills/user/demo"
    (folder / "references").symlink_to(outside)
    (folder / "scripts").mkdir()
    (folder / "scripts/a.sh").symlink_to(outside / "old.md")
    for path in ("references/new.md", "references/old.md", "scripts/a.sh"):
        done = change(kept, "demo", {path: "x"}, base=version)
        assert not done.ok
        assert "a link" in done.reason
    assert files(outside) == {"old.md": "precious"}


def test_a_version_is_scanned_once_for_all_processes(tmp_path: Path) -> None:
    put(tmp_path, "hub/theirs/SKILL.md", text("theirs"))
    seen: list[str] = []

    def scan(_: Tree, owner: Owner, __: Tree) -> str:
        seen.append(owner)
        return ""

    for mark in ("1", "1", "2"):
        kept = keeper(tmp_path, judge=scan, mark=mark)
        run(kept.read("theirs"))
        run(kept.read("theirs"))
    assert seen == ["hub", "hub"]
    (tmp_path / "state/skills.scans").write_bytes(b"\xc1")
    run(keeper(tmp_path, judge=scan, mark="2").read("theirs"))
    assert len(seen) == 3


def test_what_a_person_accepted_is_loaded_and_what_comes_to_it_is_not(tmp_path: Path) -> None:
    path = put(tmp_path, "hub/theirs/SKILL.md", text("theirs", "Do EVIL.\n"))
    kept = keeper(tmp_path)
    with pytest.raises(ToolError, match="says EVIL"):
        run(kept.read("theirs"))
    accepted = kept.versions.history("theirs")[-1].version
    kept = keeper(tmp_path, accepted=accepted)
    assert body(kept, "theirs") == "Do EVIL.\n"
    path.write_text(text("theirs", "Do EVIL, but well.\n"))
    assert body(kept, "theirs") == "Do EVIL, but well.\n"
    put(tmp_path, "hub/theirs/references/more.md", "More EVIL.\n")
    with pytest.raises(ToolError, match=r"says EVIL in references/more\.md"):
        run(kept.read("theirs"))


def test_what_melete_put_there_itself_is_no_edit_of_a_person(tmp_path: Path) -> None:
    path = put(tmp_path, "bundled/theirs/SKILL.md", text("theirs"))
    first = version_of_tree(tree_of(path.parent))
    run(keeper(tmp_path, origin=first).read("theirs"))
    path.write_text(text("theirs", "Newer.\n"))
    newer = version_of_tree(tree_of(path.parent))
    kept = keeper(tmp_path, origin=newer)
    assert run(kept.read("theirs")).version == newer
    path.write_text(text("theirs", "Mine.\n"))
    run(kept.read("theirs"))
    history = kept.versions.history("theirs")
    assert [one.author for one in history] == ["bundled", "bundled", "user"]
    assert history[0].version == first


def test_a_fault_that_was_there_before_does_not_keep_from_mending(tmp_path: Path) -> None:
    odd = text("mine", more="colour: blue\n")
    put(tmp_path, "user/mine/SKILL.md", odd)
    kept = keeper(tmp_path)
    read = run(kept.read("mine"))
    assert change(kept, "mine", {"SKILL.md": odd.replace("Do it", "Do that")}, base=read.version, granted=True).ok
    read = run(kept.read("mine"))
    worse = change(
        kept, "mine", {"SKILL.md": read.text.replace("colour", "color: x\nsize")}, base=read.version, granted=True
    )
    assert not worse.ok


def test_a_path_that_leads_out_is_refused_in_words(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    made(kept)
    with pytest.raises(ToolError, match="leads out of its folder"):
        run(kept.read("demo", "../../../config.yaml"))


def test_the_first_edit_of_what_melete_put_there_is_a_persons(tmp_path: Path) -> None:
    path = put(tmp_path, "bundled/theirs/SKILL.md", text("theirs"))
    origin = version_of_tree(tree_of(path.parent))
    path.write_text(text("theirs", "Mine.\n"))
    kept = keeper(tmp_path, origin=origin)
    run(kept.read("theirs"))
    assert [one.author for one in kept.versions.history("theirs")] == ["user"]


def test_a_library_that_keeps_nothing_changes_nothing(tmp_path: Path) -> None:
    version = made(keeper(tmp_path))
    kept = keeper(tmp_path, keeps=False)
    assert "nothing is stored" in change(kept, "demo", {"SKILL.md": None}, base=version).reason
    with pytest.raises(ToolError, match="nothing is stored"):
        run(kept.revert("demo", version))
    path = put(tmp_path, "user/demo/SKILL.md", text("demo", "Edited.\n"))
    assert body(kept) == "Edited.\n"
    assert len(kept.versions.history("demo")) == 1
    assert path.exists()


def test_a_look_does_nothing(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    looked = run(kept.check(Change(name="demo", files={"SKILL.md": text("demo")}, author="agent")))
    assert looked.ok
    assert "+Do it." in looked.diff
    assert "demo" not in kept


def test_a_proposal_changes_nothing_and_is_kept(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    number = run(kept.propose(Change(name="demo", files={"SKILL.md": text("demo")}, author="agent")))
    (fact,) = kept.versions.facts("skill.proposal")
    assert (fact["id"], fact["name"], fact["status"]) == (number, "demo", "open")
    assert "demo" not in kept


def test_what_cannot_be_written_is_as_it_was(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    version = made(kept)
    before = files(tmp_path / "skills")
    (tmp_path / "skills/user/demo/scripts").write_text("a file in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        change(kept, "demo", {"SKILL.md": text("demo", "new\n"), "scripts/a.sh": "x"}, base=version)
    (tmp_path / "skills/user/demo/scripts").unlink()
    assert files(tmp_path / "skills") == before


def test_two_processes_change_one_skill_and_both_changes_are_there(tmp_path: Path) -> None:
    one, other = keeper(tmp_path), keeper(tmp_path)
    version = made(one)

    async def both() -> tuple[Applied, ...]:
        return await asyncio.gather(
            one.apply(
                Change(name="demo", files={"SKILL.md": text("demo", "1\ntwo\nthree\n")}, base=version, author="agent")
            ),
            other.apply(
                Change(name="demo", files={"SKILL.md": text("demo", "one\ntwo\n3\n")}, base=version, author="agent")
            ),
        )

    assert all(done.ok for done in run(both()))
    assert body(one) == "1\ntwo\n3\n"


def test_a_skills_own_settings_have_their_values(tmp_path: Path) -> None:
    more = "metadata:\n  hermes:\n    config:\n" + "".join(
        f"      - key: {key}\n        default: {default}\n"
        for key, default in (("a.b", 1), ("a.c", 2), ("d.e", 3), ("f", 4))
    )
    put(tmp_path, "user/mine/SKILL.md", text("mine", more=more))
    kept = keeper(tmp_path, config={"a": {"b": 10}, "d.e": 30})
    assert run(kept.read("mine")).config == {"a.b": 10, "a.c": 2, "d.e": 30, "f": 4}


def test_what_others_wrote_reads_its_own_settings_alone(tmp_path: Path) -> None:
    more = "metadata:\n  hermes:\n    config:\n" + "".join(
        f"      - key: {key}\n" for key in ("mine", "other.token", "other", "own")
    )
    for root in ("hub", "user"):
        put(tmp_path, f"{root}/{root}s/SKILL.md", text(f"{root}s", more=more))
    config = {"mine": 1, "other": {"token": "private"}, "hubs": {"own": 2}}
    kept = keeper(tmp_path, config=config)
    assert run(kept.read("hubs")).config == {"mine": None, "other.token": None, "other": None, "own": 2}
    assert run(kept.read("users")).config == {"mine": 1, "other.token": "private", "other": None, "own": None}


def test_missing_variables_are_named(tmp_path: Path) -> None:
    more = "required_environment_variables:\n  - name: SET\n  - name: UNSET\n    required_for: pushing\n"
    put(tmp_path, "user/mine/SKILL.md", text("mine", more=more))
    read = run(keeper(tmp_path).read("mine", args="now"))
    assert [one.name for one in read.missing] == ["UNSET"]
    assert read.text.startswith(f"Base directory of this skill: {read.base}\n\n---\nname: mine")
    assert read.text.endswith("ARGUMENTS: now\n")
