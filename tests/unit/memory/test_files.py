"""MEMORY.md in a person's hands: every form of edit, files that are none, and saves in the very moment of a change."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.app.clock import SystemClock
from melete.core.memory import MemoryEntry
from melete.memory import files
from melete.memory.files import joined, parted, place, rendered, texts_of, write_draft
from melete.memory.notes import Notes
from melete.memory.plan import edited, merged
from tests.unit.memory.kept import add, by_hand, main_file, note, notes, remove, replace, texts

Story = Callable[[Notes, Path], Coroutine[object, object, None]]


def play(home: Path, story: Story) -> None:
    asyncio.run(story(notes(home), home))


async def names(kept: Notes) -> dict[str, str]:
    return {entry.text: entry.id for entry in await kept.entries("", "memory")}


# ---- texts -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])).map(lambda text: text.replace("\0", ""))))
def test_what_is_parted_once_is_parted_the_same_again(found: list[str]) -> None:
    entries = parted(joined(found))
    assert parted(joined(entries)) == entries
    assert texts_of(rendered(entries, like=b"")) == (entries, True)
    assert texts_of(rendered(entries, like=b"\r\n")) == (entries, True)


def test_the_sign_parts_only_where_it_stands_alone() -> None:
    assert parted("§ 12\n§\n\n  § \nb §\r\n§\r\nc\r\nd\n") == ["§ 12", "b §", "c\nd"]
    assert parted("") == parted("§\n§") == []


# ---- by hand ---------------------------------------------------------------------------------------------------------


def test_an_edit_by_hand_counts_and_entries_keep_their_names(tmp_path: Path) -> None:
    async def story(kept: Notes, home: Path) -> None:
        await note(kept, add("Staging runs on port 8080"), add("Likes tea"), add("Gone"), said="told")
        before = await names(kept)
        by_hand(home, "New one\n§\nLikes tea\n§\nStaging runs on port 9090\n")
        after = await names(kept)
        assert [*after] == ["New one", "Likes tea", "Staging runs on port 9090"]
        assert after["Likes tea"] == before["Likes tea"]
        assert after["Staging runs on port 9090"] == before["Staging runs on port 8080"]
        told = {one.text or one.before: (one.did, one.author) for one in (await kept.history())[3:]}
        assert told == {
            "New one": ("found", "user"),
            "Staging runs on port 9090": ("replaced", "user"),
            "Gone": ("removed", "user"),
        }
        by_hand(home, "Likes tea\n§\nGone\n§\nNew one\n§\nStaging runs on port 9090\n")
        assert (await names(kept))["Gone"] == before["Gone"]  # brought back under its name
        assert [entry.said for entry in await kept.entries()] == ["told", "", "", ""]

    play(tmp_path, story)


def test_an_entry_that_is_split_or_joined_by_hand_leaves_its_name_to_the_likest_part(tmp_path: Path) -> None:
    async def story(kept: Notes, home: Path) -> None:
        await note(kept, add("Deploys go through the staging host first. Ask Ann."), add("Likes tea"))
        before = await names(kept)
        by_hand(home, "Deploys go through the staging host first.\n§\nAsk Ann.\n§\nLikes tea\n")
        after = await names(kept)
        assert after["Deploys go through the staging host first."] == next(iter(before.values()))
        assert len(set(after.values())) == 3
        by_hand(home, "Deploys go through the staging host first.\nAsk Ann.\n§\nLikes tea\n")
        assert [*(await names(kept)).values()] == [*before.values()]

    play(tmp_path, story)


def test_entries_that_say_the_same_stay_two_until_one_is_removed(tmp_path: Path) -> None:
    async def story(kept: Notes, home: Path) -> None:
        by_hand(home, "Likes tea\n§\nLikes tea\n§\nLikes tea")
        assert len({entry.id for entry in await kept.entries()}) == 3
        assert (await note(kept, remove("tea"), replace("Likes tea", "Likes milk"))).ok
        assert await texts(kept) == ["Likes milk", "Likes tea"]

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("data", "after"),
    [
        (b"one\r\n\xc2\xa7\r\ntwo\r\n", b"one\r\n\xc2\xa7\r\ntwo\r\n\xc2\xa7\r\nnew\r\n"),
        (b"one\n\xc2\xa7\ntwo", b"one\n\xc2\xa7\ntwo\n\xc2\xa7\nnew\n"),
        (b"\n\n \xc2\xa7\none\n\n\xc2\xa7 \n\xc2\xa7\n\ntwo\n\n", b"one\n\xc2\xa7\ntwo\n\xc2\xa7\nnew\n"),
        (b"\xef\xbb\xbfone\n\xc2\xa7\ntwo\n", b"one\n\xc2\xa7\ntwo\n\xc2\xa7\nnew\n"),
    ],
    ids=["CRLF", "no line end", "blanks", "BOM"],
)
def test_the_form_of_a_file_is_no_edit_and_its_line_ends_stay(tmp_path: Path, data: bytes, after: bytes) -> None:
    async def story(kept: Notes, home: Path) -> None:
        await note(kept, add("one"), add("two"))
        by_hand(home, data)
        assert await texts(kept) == ["one", "two"]
        assert main_file(home).read_bytes() == data
        assert len(await kept.history()) == 2
        assert (await note(kept, add("new"))).ok
        assert main_file(home).read_bytes() == after
        assert await texts(notes(home)) == ["one", "two", "new"]

    play(tmp_path, story)


def test_a_file_that_was_put_back_to_an_older_state_counts_as_edited(tmp_path: Path) -> None:
    async def story(kept: Notes, home: Path) -> None:
        await note(kept, add("one"))
        old = main_file(home).read_bytes()
        by_hand(home, old + b"\n")
        assert await texts(kept) == ["one"]
        await note(kept, add("two"))
        by_hand(home, old + b"\n")
        assert await texts(kept) == ["one"]
        main_file(home).unlink()
        assert await texts(kept) == []
        assert (await kept.history("one"))[-1].did == "removed"
        assert (await note(kept, add("three"))).ok
        assert main_file(home).read_bytes() == b"three\n"

    play(tmp_path, story)


def test_what_an_editor_saves_that_was_open_before_the_latest_changes_is_merged_with_them(tmp_path: Path) -> None:
    async def story() -> None:
        kept = notes(tmp_path, clock=SystemClock())
        await note(kept, add("one"), add("two"), add("three"))
        opened = main_file(tmp_path).read_text()
        await note(kept, add("Deploys on Fridays"))
        await note(kept, replace("two", "zwei"), remove("three"))
        by_hand(tmp_path, opened.replace("one", "one by hand") + "§\nby hand\n")
        assert await texts(kept) == ["one by hand", "zwei", "by hand", "Deploys on Fridays"]
        assert parted(main_file(tmp_path).read_text()) == await texts(kept)
        # Who takes away the newest entry, or mends it, or wants the old state back, has seen it.
        await note(kept, add("wrong"))
        by_hand(tmp_path, joined([text for text in await texts(kept) if text != "wrong"]))
        assert "wrong" not in await texts(kept)
        await note(kept, add("The port is 8080"))
        by_hand(tmp_path, main_file(tmp_path).read_text().replace("8080", "8081") + "§\nmore\n")
        assert (await texts(kept))[-2:] == ["The port is 8081", "more"]

    asyncio.run(story())


def test_a_link_stays_one_and_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    async def story(kept: Notes, home: Path) -> None:
        real = home / "dotfiles" / "memory"
        real.parent.mkdir()
        real.write_text("one\n")
        real.chmod(0o640)
        main_file(home).parent.mkdir()
        main_file(home).symlink_to(real)
        assert (await note(kept, add("two"))).ok
        assert main_file(home).is_symlink()
        assert real.read_text() == "one\n§\ntwo\n"
        assert real.stat().st_mode & 0o777 == 0o640
        await note(kept, add("about ann"), target="user", who="ann")
        assert kept.path("user", "ann").stat().st_mode & 0o777 == 0o600

    play(tmp_path, story)


# ---- what is none ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"a\0b", "no text"), (b"x" * (1 << 20) + b"y", "larger"), (None, "not a file")],
    ids=["binary", "huge", "folder"],
)
def test_what_is_no_memory_is_told_and_left_alone(tmp_path: Path, data: bytes | None, why: str) -> None:
    async def story(kept: Notes, home: Path) -> None:
        await note(kept, add("one"))
        await note(kept, add("Likes tea"), target="user")
        main_file(home).unlink()
        if data is None:
            main_file(home).mkdir()
        else:
            by_hand(home, data)
        noted = await note(kept, add("two"))
        assert not noted.ok
        assert why in noted.reason
        assert data is None or main_file(home).read_bytes() == data
        shown = await kept.snapshot()
        assert "MEMORY.md cannot be used now" in shown
        assert "Likes tea" in shown
        assert [why in problem.what for problem in await kept.problems()] == [True]
        assert len(await kept.history()) == 2
        assert not [*main_file(home).parent.glob(".*.new")]
        main_file(home).rmdir() if data is None else main_file(home).unlink()
        by_hand(home, "one\n")
        assert (await note(kept, add("two"))).ok

    play(tmp_path, story)


def test_a_file_that_cannot_be_opened_is_left_alone(tmp_path: Path) -> None:
    async def story(kept: Notes, home: Path) -> None:
        await note(kept, add("one"))
        main_file(home).unlink()
        main_file(home).symlink_to(main_file(home))  # not even root opens a link to itself
        assert "permissions" in (await note(kept, add("two"))).reason
        assert main_file(home).is_symlink()

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("data", "entry"),
    [("Grüße\n".encode("latin-1"), "Gr\ufffd\ufffde"), ("Grüße\n".encode("utf-16"), "Grüße")],
    ids=["latin-1", "utf-16"],
)
def test_bytes_that_are_no_text_are_kept_in_a_copy_before_anything_is_written(
    tmp_path: Path, data: bytes, entry: str
) -> None:
    async def story(kept: Notes, home: Path) -> None:
        by_hand(home, data)
        assert await texts(kept) == [entry]
        assert main_file(home).read_bytes() == data
        assert (await note(kept, add("two"))).ok
        assert await texts(kept) == [entry, "two"]
        copy = main_file(home).with_name("MEMORY.md.damaged-1")
        assert copy.read_bytes() == data
        by_hand(home, data)
        await note(kept, add("three"))
        by_hand(home, data + b"\xff")
        await note(kept, add("four"))
        assert sorted(path.name for path in copy.parent.glob("*.damaged-*")) == [copy.name, "MEMORY.md.damaged-2"]

    play(tmp_path, story)


# ---- at the same time ------------------------------------------------------------------------------------------------


def saves_at(
    monkeypatch: pytest.MonkeyPatch, name: str, path: Path, save: Callable[[], object], *, after: bool = False
) -> None:
    """Let somebody save, once, as this step of a change begins or has just ended."""
    real: Callable[..., object] = getattr(files, name)
    waiting = [save]

    def step(*args: object) -> object:
        if waiting and not after:
            waiting.pop()()
        result = real(*args)
        if waiting:
            waiting.pop()()
        return result

    monkeypatch.setattr(files, name, step)


@pytest.mark.parametrize(
    ("step", "after", "renames"),
    [
        pytest.param("_swap", False, True, id="before, by another file"),
        pytest.param("_swap", False, False, id="before, into the file"),
        pytest.param("_exchange", False, True, id="between, by another file"),
        pytest.param("_exchange", False, False, id="between, into the file"),
        pytest.param("_exchange", True, True, id="behind, by another file"),
    ],
)
def test_what_an_editor_saves_in_the_moment_of_a_change_is_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: bool, renames: bool
) -> None:
    async def story(kept: Notes, home: Path) -> None:
        await note(kept, add("one"), add("two"), add("three"), add("four"))
        path = main_file(home)

        def save() -> None:
            text = path.read_text() if after else "one by hand\n§\ntwo\n§\nby hand\n§\nthree\n"  # without four
            if after:
                text += "§\nby hand\n"
            if renames:
                path.with_name("new").write_text(text)
                path.with_name("new").replace(path)
            else:
                path.write_text(text)

        saves_at(monkeypatch, step, path, save, after=after)
        noted = await note(kept, replace("two", "zwei"), remove("three"), add("five"))
        assert noted.ok
        expected = ["one", "zwei", "four", "five", "by hand"] if after else ["one by hand", "zwei", "by hand", "five"]
        assert sorted(await texts(kept)) == sorted(expected)
        assert sorted(parted(path.read_text())) == sorted(expected)
        authors = {entry.text: entry.author for entry in await kept.entries()}
        assert (authors["by hand"], authors["zwei"], authors["five"]) == ("user", "agent", "agent")
        assert not [*path.parent.glob(".*.new")]
        assert await texts(notes(home)) == await texts(kept)

    play(tmp_path, story)


def test_a_file_that_somebody_makes_in_the_moment_of_the_first_change_is_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(kept: Notes, home: Path) -> None:
        saves_at(monkeypatch, "_link", main_file(home), lambda: by_hand(home, "by hand\n"))
        assert (await note(kept, add("one"))).ok
        assert sorted(await texts(kept)) == ["by hand", "one"]
        assert sorted(parted(main_file(home).read_text())) == ["by hand", "one"]

    play(tmp_path, story)


def test_what_somebody_saves_in_the_moment_of_a_change_and_is_no_text_is_kept_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(kept: Notes, home: Path) -> None:
        await note(kept, add("one"))
        saves_at(monkeypatch, "_exchange", main_file(home), lambda: by_hand(home, b"\0"))
        assert (await note(kept, add("two"))).ok
        assert await texts(kept) == ["one", "two"]
        assert main_file(home).with_name("MEMORY.md.damaged-1").read_bytes() == b"\0"

    play(tmp_path, story)


def test_where_files_cannot_change_places_one_is_put_in_the_place_of_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(kept: Notes, home: Path) -> None:
        monkeypatch.setattr(files, "_EXCHANGE", {})
        for text in ("one", "two", "three"):
            assert (await note(kept, add(text))).ok
        assert await texts(kept) == ["one", "two", "three"]
        assert [path.name for path in main_file(home).parent.iterdir()] == ["MEMORY.md"]

    play(tmp_path, story)


def test_a_file_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    async def story(kept: Notes, home: Path) -> None:
        await note(kept, add("one"), add("two"))
        whole = "zero\n§\n" + main_file(home).read_text()

        def slowly() -> None:
            with main_file(home).open("w") as file:
                for letter in whole:
                    file.write(letter)
                    file.flush()
                    time.sleep(0.01)

        writer = threading.Thread(target=slowly)
        writer.start()
        await asyncio.sleep(0.05)
        assert await texts(kept) == ["zero", "one", "two"]
        writer.join()
        assert [one.did for one in await kept.history()] == ["added", "added", "found"]

    play(tmp_path, story)


def test_many_tasks_and_two_openings_of_a_home_lose_nothing(tmp_path: Path) -> None:
    async def story(kept: Notes, home: Path) -> None:
        other = notes(home)
        done = await asyncio.gather(*(note(one, add(f"n{number}")) for number in range(10) for one in (kept, other)))
        assert all(noted.ok for noted in done)
        assert sorted(await texts(kept)) == sorted(f"n{number}" for number in range(10))
        assert await texts(other) == await texts(kept)

    play(tmp_path, story)


def test_a_change_that_is_cancelled_is_made_or_not(tmp_path: Path) -> None:
    async def story(kept: Notes, home: Path) -> None:
        for number in range(30):
            task = asyncio.ensure_future(note(kept, add(f"n{number}")))
            await asyncio.sleep(number * 0.0005)
            task.cancel()
            await asyncio.wait([task])
            there = await texts(kept)
            assert there == parted(main_file(home).read_text()) if main_file(home).exists() else there == []
            assert task.cancelled() or f"n{number}" in there
            assert not [*main_file(home).parent.glob(".*.new")]

    play(tmp_path, story)


# ---- both ------------------------------------------------------------------------------------------------------------

ENTRY = st.sampled_from("abcdef")


def named(texts: list[str]) -> tuple[MemoryEntry, ...]:
    return edited((), texts, target="memory")


@given(st.lists(ENTRY), st.lists(ENTRY), st.lists(ENTRY))
def test_a_merge_loses_nothing_that_either_has_written_and_doubles_nothing(
    base: list[str], ours: list[str], theirs: list[str]
) -> None:
    old = named(base)
    mine = edited(old, ours, target="memory")
    his = edited(old, theirs, target="memory", gone=mine)
    result = merged(old, mine, his)
    said = [entry.text for entry in result]
    assert len({entry.id for entry in result}) == len(result)
    assert {*ours, *theirs} - {*base} <= {*said}
    assert {*said} <= {*ours, *theirs}
    if mine == old:
        assert said == theirs


def test_a_draft_is_put_in_place_only_of_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "MEMORY.md"
    path.write_bytes(b"theirs")
    draft = write_draft(path, "0" * 12, b"ours")
    assert place(draft, path, b"read before") == b"theirs"
    assert (draft.read_bytes(), path.read_bytes()) == (b"ours", b"theirs")
    assert place(draft, path, b"theirs") is None
    assert (draft.exists(), path.read_bytes()) == (False, b"ours")
