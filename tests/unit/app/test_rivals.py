"""Which skills of others teach the commands of own ones in another way, and what is said of that."""

import asyncio
from pathlib import Path

import pytest
from tests.unit.skills.kept import keeper, put, text

from melete.app.rivals import Rivals
from melete.skills.manage import Keeper

OWN = "Run `pack box --item ITEM --seal --dry`, then look.\n"


def home(root: Path, theirs: str, own: str = OWN, shelf: str = "hub") -> Keeper:
    put(root, "user/boxes/SKILL.md", text("boxes", own, description="How to pack a box."))
    put(root, f"{shelf}/box-pro/SKILL.md", text("box-pro", theirs))
    library = keeper(root)
    library.refresh()
    return library


def seen(library: Keeper, remembered: str = "", memo: Path | None = None) -> tuple[bool, str]:
    """Whether the skill of others is withheld, and what is said when it is loaded."""
    rivals = Rivals(library, remembered=remembered, memo=memo)
    skill = library.get("box-pro")
    return "box-pro" in rivals.among(["boxes", "box-pro"]), rivals.note(skill, library.text("box-pro"))


@pytest.mark.parametrize(
    ("theirs", "withheld", "said"),
    [
        ("Run `pack box --item X --seal --dry --expose`.\n", True, True),
        ("Run `pack box --item X --seal`.\n", True, True),
        ("```sh\ncd /tmp && timeout 5 pack box --seal | tee log\n```\n", True, True),
        ("First, pack box --item X --expose, and you are done.\n", True, True),
        ("Run `pack box --item OTHER --dry --seal`.\n", False, False),
        ("A box should be packed well, with `pack box`.\n", False, False),
        ("Run `pack crate --expose`.\n", False, False),
        ("Run `pack box --expose`, `crate up --a`, `crate down --b`, `crate list --c`.\n", False, True),
    ],
)
def test_another_way_for_the_same_command_is_told_and_withheld_where_it_is_most_of_the_skill(
    tmp_path: Path, theirs: str, withheld: bool, said: bool
) -> None:
    found, note = seen(home(tmp_path, theirs))
    assert (found, bool(note)) == (withheld, said)
    if said:
        assert note == (
            "box-pro comes from elsewhere and is unproven here: the skill boxes of this home says "
            "`pack box --item ITEM --seal --dry`. Where they differ, follow that."
        )


@pytest.mark.parametrize("shelf", ["hub", "external", "project"])
def test_whoever_it_is_from(tmp_path: Path, shelf: str) -> None:
    assert seen(home(tmp_path, "`pack box --expose`\n", shelf=shelf))[0]


def test_the_values_of_options_and_the_order_of_calls_count(tmp_path: Path) -> None:
    calls = "`pack box --mode calm && pack box --mode brisk`\n"
    assert seen(home(tmp_path / "a", "`pack box --mode steep`\n", own=calls))[0]
    assert seen(home(tmp_path / "b", "`pack box --mode brisk && pack box --mode calm`\n", own=calls))[0]
    assert not seen(home(tmp_path / "c", calls, own=calls))[0]
    assert not seen(home(tmp_path / "d", "`pack box --item k9`\n", own="`pack box --item ITEM`\n"))[0]


def test_only_what_the_own_one_is_about_counts(tmp_path: Path) -> None:
    library = home(tmp_path, "`pack box --expose`, then `grep -r box`\n")
    put(
        tmp_path,
        "user/boxes/SKILL.md",
        text("crates", "`pack box --seal`, `grep -v box`\n", description="About crates."),
    )
    library.refresh()
    assert seen(library) == (False, "")


def test_what_is_remembered_counts_as_own(tmp_path: Path) -> None:
    library = home(tmp_path, "`ship here --site pond`\n")
    assert seen(library) == (False, "")
    found, note = seen(library, "Here ship needs its site: `ship here --site elm`")
    assert found
    assert "the memory of this home says `ship here --site elm`" in note


def test_a_person_ends_it_by_pinning_and_an_own_one_that_does_harm_is_no_reason(tmp_path: Path) -> None:
    async def tell(library: Keeper, kind: str, **fields: object) -> None:
        await library.versions.note(kind, fields)
        library.refresh()

    library = home(tmp_path / "pinned", "`pack box --expose`\n")
    assert seen(library)[0]
    asyncio.run(tell(library, "skill.state", skill="box-pro", pinned=True))
    assert seen(library) == (False, "")
    library = home(tmp_path / "good", "`pack box --expose`\n")
    told = {"target": "skill", "credited": True, "reward": 1.0}
    asyncio.run(tell(library, "learn.outcome", name="box-pro", **told))
    assert seen(library)[0], "it may have been with the line of the own one"
    asyncio.run(tell(library, "learn.outcome", name="boxes", **{**told, "reward": -1.0}))
    assert seen(library) == (False, "")


def test_what_texts_show_is_kept_beside_until_they_change(tmp_path: Path) -> None:
    memo = tmp_path / "memo"
    library = home(tmp_path, "`pack box --expose`\n")
    assert seen(library, memo=memo)[0]
    kept = memo.read_bytes()
    assert seen(library, memo=memo)[0]
    assert memo.read_bytes() == kept
    memo.write_bytes(b"\xff")
    assert seen(library, memo=memo)[0]
    put(tmp_path, "hub/box-pro/SKILL.md", text("box-pro", OWN))
    library.refresh()
    assert not seen(library, memo=memo)[0]


def test_without_skills_of_others_nothing_is_withheld_or_kept(tmp_path: Path) -> None:
    put(tmp_path, "user/boxes/SKILL.md", text("boxes", OWN, description="How to pack a box."))
    library = keeper(tmp_path)
    library.refresh()
    assert Rivals(library, memo=tmp_path / "memo").among(["boxes"]) == frozenset()
    assert Rivals(library).note(library.get("boxes"), "`pack box --expose`") == ""
    assert not (tmp_path / "memo").exists()
