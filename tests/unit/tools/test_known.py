"""What the file tools refuse: secrets, what runs by itself, and files that the model has not seen."""

from pathlib import Path

import pytest

from melete.core.tool import ToolError
from melete.tools.edit import patch
from melete.tools.files import read_file, write_file
from melete.tools.search import search_files
from tests.unit.tools.context import Context, call, output, within


def test_a_file_is_replaced_once_it_was_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")

    async def test(ctx: Context) -> None:
        with pytest.raises(ToolError, match="was not read in this session; nothing was written"):
            await call(write_file, ctx, path="a", content="new")
        assert (tmp_path / "a").read_text() == "old"
        await call(read_file, ctx, path="./a")
        await call(write_file, ctx, path=str(tmp_path / "a"), content="new")
        await call(write_file, ctx, path="a", content="newer")  # what one wrote oneself is known
        (tmp_path / "a").write_text("somebody else's")
        with pytest.raises(ToolError, match="has changed since it was read"):
            await call(write_file, ctx, path="a", content="newest")
        await call(write_file, ctx, path="a", content="somebody else's")  # nothing would be lost

    within(tmp_path, test)


def test_a_new_or_empty_file_needs_no_reading(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")

    async def test(ctx: Context) -> None:
        for name in ("empty", "new"):
            assert (await call(write_file, ctx, path=name, content="x"))["success"] is True

    within(tmp_path, test)


def test_a_patch_that_still_fits_says_that_the_file_has_changed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")

    async def test(ctx: Context) -> None:
        assert "note" not in await call(patch, ctx, path="a", old_string="two", new_string="three")
        await call(read_file, ctx, path="a")
        assert "note" not in await call(patch, ctx, path="a", old_string="three", new_string="four")
        (tmp_path / "a").write_text("zero\none\nfour\n")
        told = await call(patch, ctx, path="a", old_string="four", new_string="five")
        assert "changed by somebody else since it was read: a" in told["note"]
        assert " one" in told["diff"]
        text = "*** Begin Patch\n*** Update File: a\n-five\n+six\n*** Move to: b\n*** End Patch"
        with pytest.raises(ToolError):
            await call(patch, ctx, mode="patch", patch=text)
        text = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n-five\n+six\n*** End Patch"
        assert "note" in await call(patch, ctx, mode="patch", patch=text)

    within(tmp_path, test)


def test_secrets_are_neither_read_nor_written_nor_searched(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/id_rsa").write_text("PRIVATE word")
    (tmp_path / ".netrc").write_text("machine word")
    (tmp_path / "plain").write_text("a word")
    (tmp_path / "sly").symlink_to(".ssh/id_rsa")
    (tmp_path / "folder").symlink_to(".ssh")
    add = "*** Begin Patch\n*** Add File: .ssh/authorized_keys\n+key\n*** End Patch"
    away = "*** Begin Patch\n*** Update File: plain\n*** Move to: .bashrc\n*** End Patch"

    async def test(ctx: Context) -> None:
        for path in (".ssh/id_rsa", "sly", "folder/id_rsa", "~/.netrc", "x/../.ssh/id_rsa"):
            with pytest.raises(ToolError, match="is not read by tools: it"):
                await call(read_file, ctx, path=path)
        for path in (".ssh/new", "folder/new", ".bashrc", "~/.config/systemd/user/a"):
            with pytest.raises(ToolError, match="is not written by tools: it"):
                await call(write_file, ctx, path=path, content="x")
        with pytest.raises(ToolError, match="is not written by tools"):
            await call(patch, ctx, path="sly", old_string="PRIVATE", new_string="x")
        for text in (add, away):
            with pytest.raises(ToolError, match="is not written by tools"):
                await call(patch, ctx, mode="patch", patch=text)
        with pytest.raises(ToolError, match="is not read by tools"):
            await call(search_files, ctx, pattern="word", path=".ssh")
        assert (await call(search_files, ctx, pattern="word"))["content"] == "plain\n1:a word"

    within(tmp_path, test)
    assert not (tmp_path / ".ssh/new").exists()


def test_a_mark_does_not_take_the_place_of_a_secret(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("key = real\nport = 1\n")

    async def test(ctx: Context) -> None:
        await call(read_file, ctx, path="a")
        with pytest.raises(ToolError, match="in place of a secret"):
            await call(write_file, ctx, path="a", content="key = [redacted:key]\nport = 2\n")
        with pytest.raises(ToolError, match="in place of a secret"):
            await call(patch, ctx, path="a", old_string="key = real", new_string="key = [redacted:key]")
        await call(patch, ctx, path="a", old_string="port = 1", new_string="port = 2")

    within(tmp_path, test)
    assert (tmp_path / "a").read_text() == "key = real\nport = 2\n"


def test_a_file_outside_the_workspace_may_be_anybodys(tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    (other / "notes").write_text("notes")
    (work / "own").write_text("notes")
    (work / "link").symlink_to("../other")
    picture = b"\x89PNG\r\n\x1a\n" + bytes(16)
    (other / "a.png").write_bytes(picture)

    async def test(ctx: Context) -> None:
        taints = {
            path: (await output(read_file, ctx, path=path)).taint
            for path in ("own", str(other / "notes"), "../other/notes", "link/notes", "link/a.png", "/etc/passwd")
        }
        assert taints == {
            "own": "tool", str(other / "notes"): "import", "../other/notes": "import", "link/notes": "import",
            "link/a.png": "import", "/etc/passwd": "tool",
        }  # fmt: skip
        assert (await output(read_file, ctx, path="link/a.png")).images[0].taint == "import"
        await call(write_file, ctx, path="../other/mine", content="x")
        assert (await output(read_file, ctx, path="../other/mine")).taint == "tool"
        assert (await output(search_files, ctx, pattern="notes")).taint == "tool"
        assert (await output(search_files, ctx, pattern="notes", path="../other")).taint == "import"

    within(work, test)


def test_what_was_kept_of_a_page_is_still_from_outside(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        folder = tmp_path / "elsewhere" / "spill" / ctx.session.ref.id
        folder.mkdir(parents=True)
        for name in ("web-c1-1-page.md.txt", "7-1-output.txt"):
            (folder / name).write_text("text")
        assert (await output(read_file, ctx, path=str(folder / "web-c1-1-page.md.txt"))).taint == "web"
        assert (await output(read_file, ctx, path=str(folder / "7-1-output.txt"))).taint == "tool"

    (tmp_path / "work").mkdir()
    within(tmp_path / "work", test)
