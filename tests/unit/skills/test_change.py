"""Files put in place together: all or none, never over what somebody has saved meanwhile, and finished after a crash."""

import asyncio
from pathlib import Path

import pytest

from melete.core.ports import Change
from melete.skills.change import Edit, EditedError, Journal, Under
from melete.skills.versions import tree_of
from tests.unit.skills.kept import keeper, put, text

BEFORE = {"SKILL.md": b"one\n", "scripts/a.sh": b"#!/bin/sh\n", "references/gone.md": b"gone\n"}
AFTER = {"SKILL.md": b"two\n", "scripts/a.sh": b"#!/bin/sh\necho\n", "assets/new": b"\xff"}


def folder(tmp_path: Path) -> Path:
    for path, data in BEFORE.items():
        place = tmp_path / "demo" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return tmp_path / "demo"


def test_all_files_change_together(tmp_path: Path) -> None:
    there = folder(tmp_path)
    (there / "scripts/.a.sh.0123abcd.new").write_text("left by a process that was killed")
    (there / "scripts/a.sh").chmod(0o751)
    edit = Edit(there, BEFORE, AFTER)
    edit.prepare()
    assert tree_of(there) == BEFORE
    edit.place()
    assert tree_of(there) == AFTER
    assert (there / "scripts/a.sh").stat().st_mode & 0o777 == 0o751
    assert not list(there.rglob(".*"))


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("path", sorted({*BEFORE, *AFTER}))
def test_what_somebody_saved_meanwhile_stays_and_so_does_the_rest(tmp_path: Path, path: str, prepared: bool) -> None:
    there = folder(tmp_path)
    edit = Edit(there, BEFORE, AFTER)
    if prepared:
        edit.prepare()
    (there / path).parent.mkdir(exist_ok=True)
    (there / path).write_text("saved by somebody")
    with pytest.raises(EditedError, match=path):
        edit.place() if prepared else edit.prepare()
    assert tree_of(there) == {**BEFORE, path: b"saved by somebody"}
    assert not list(there.rglob(".*"))


def test_a_save_in_the_middle_of_an_agents_change_is_never_lost(tmp_path: Path) -> None:
    lines = "".join(f"line {number}\n" for number in range(40))
    path = put(tmp_path, "user/demo/SKILL.md", text("demo", lines))

    async def save(number: int) -> None:
        await asyncio.sleep(0.0005 * (number % 10))
        path.write_text(f"{path.read_text()}saved {number}\n")

    async def main() -> None:
        kept = keeper(tmp_path)
        for number in range(30):
            read = await kept.read("demo")
            ours = read.text.replace("line 0", f"line 0 {number}", 1)

            change = Change(name="demo", files={"SKILL.md": ours}, base=read.version, author="agent", granted=True)
            done, _ = await asyncio.gather(kept.apply(change), save(number))
            assert f"saved {number}\n" in path.read_text(), "where it stood when it was saved"
            assert done.ok or done.conflict, done.reason

    asyncio.run(main())


def test_what_is_under_way_is_finished_by_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        kept = keeper(tmp_path)
        made = await kept.apply(Change(name="demo", files={"SKILL.md": text("demo")}, author="agent"))
        more = {"SKILL.md": text("demo", "Two.\n"), "references/a.md": "a\n"}
        done = await kept.apply(Change(name="demo", files=more, base=made.version, author="agent"))
        there = tmp_path / "skills/user/demo"
        (there / "references/a.md").unlink()
        journal = Journal(tmp_path / "state/skills.journal")
        journal.begin(Under(skill="demo", folder=str(there), version=done.version))
        later = keeper(tmp_path)
        assert (await later.read("demo")).version == done.version
        assert (there / "references/a.md").read_text() == "a\n"
        assert journal.left() is None
        target = tmp_path / "skills/.archive/demo"
        journal.begin(Under(skill="demo", folder=str(there), target=str(target)))
        assert (await later.apply(Change(name="demo", files={"SKILL.md": text("demo")}, author="agent"))).ok
        assert (target / "SKILL.md").exists()
        journal.path.write_bytes(b"{")
        assert (await keeper(tmp_path).read("demo")).text == text("demo")

    asyncio.run(main())
