"""read_file and write_file, with everything that a folder may hold."""

import base64
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.core.tool import ToolError
from melete.tools.files import Page, read_file, write_file
from tests.unit.tools.context import Context, call, output, within

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_lines_come_numbered_with_the_way_on(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"line {n}\n" for n in range(1, 11)))

    async def test(ctx: Context) -> None:
        assert await call(read_file, ctx, path="a", offset=3, limit=2) == {
            "content": "3|line 3\n4|line 4", "lines": 10, "next_offset": 5,
        }  # fmt: skip
        rest = await call(read_file, ctx, path="a", offset=9)
        assert rest == {"content": "9|line 9\n10|line 10", "lines": 10}
        with pytest.raises(ToolError, match="offset 11 is behind the end: the file has 10 lines"):
            await call(read_file, ctx, path="a", offset=11)

    within(tmp_path, test)


@pytest.mark.parametrize(
    ("data", "content", "note"),
    [
        (b"", "", "the file is empty"),
        (b"no end", "1|no end", None),
        (b"a\r\nb\r\n", "1|a\n2|b", "lines end in CRLF"),
        (b"a\r\nb\n", "1|a\n2|b", "some lines end in CRLF"),
        (b"\xef\xbb\xbfa\n", "1|a", "begins with a byte order mark"),
        (b"caf\xe9\n", "1|caf�", "not valid UTF-8: � stands for bytes that are no text"),
        ("was � before\n".encode(), "1|was � before", None),
        (b"\n\n", "1|\n2|", None),
    ],
)
def test_what_is_special_about_a_text_is_said(tmp_path: Path, data: bytes, content: str, note: str | None) -> None:
    (tmp_path / "a").write_bytes(data)

    async def test(ctx: Context) -> None:
        result = await call(read_file, ctx, path="a")
        assert (result["content"], result.get("note")) == (content, note)

    within(tmp_path, test)


def test_a_line_of_100_megabytes_is_cut(tmp_path: Path) -> None:
    with (tmp_path / "long").open("wb") as file:
        file.write(b"first\n")
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b"\nlast\n")

    async def test(ctx: Context) -> None:
        result = await call(read_file, ctx, path="long")
        assert result["content"].startswith("1|first\n2|xxx")
        assert result["content"].endswith("x… [100000000 bytes in this line]\n3|last")
        assert (result["lines"], result["note"]) == (3, "1 long lines are cut")
        assert len(result["content"]) < 3_000

    within(tmp_path, test)


def test_a_page_never_grows_beyond_what_a_model_can_use(tmp_path: Path) -> None:
    (tmp_path / "wide").write_text(("y" * 1_000 + "\n") * 1_000)

    async def test(ctx: Context) -> None:
        result = await call(read_file, ctx, path="wide", limit=1_000)
        assert len(result["content"]) < 95_000
        assert (result["lines"], result["next_offset"]) == (1_000, result["content"].count("\n") + 2)

    within(tmp_path, test)


def test_pictures_are_seen(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PIXEL)

    async def test(ctx: Context) -> None:
        shown = await output(read_file, ctx, path="dot.png")
        assert shown.fields == {"success": True, "image": "image/png", "size": len(PIXEL)}
        assert [(i.media_type, base64.b64decode(i.data)) for i in shown.images] == [("image/png", PIXEL)]

    within(tmp_path, test)


def test_binary_files_say_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "db").write_bytes(b"SQLite format 3\0" + b"\0" * 100)

    async def test(ctx: Context) -> None:
        with pytest.raises(ToolError, match="db is a binary file") as caught:
            await call(read_file, ctx, path="db")
        assert caught.value.fields == {"size": 116, "type": "SQLite database"}

    within(tmp_path, test)


def test_what_is_no_file_says_what_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside.py").write_text("")
    (tmp_path / "loop").symlink_to("loop")

    async def test(ctx: Context) -> None:
        for tool, more in ((read_file, {}), (write_file, {"content": "x"})):
            with pytest.raises(ToolError, match="fifo is a FIFO"):
                await call(tool, ctx, path="fifo", **more)
            with pytest.raises(ToolError, match="folder is a folder") as caught:
                await call(tool, ctx, path="folder", **more)
            assert caught.value.fields == {"entries": ["inside.py"]}
            with pytest.raises(ToolError, match="links lead in a circle"):
                await call(tool, ctx, path="loop", **more)
            with pytest.raises(ToolError, match="path is empty"):
                await call(tool, ctx, path="", **more)
            with pytest.raises(ToolError, match="not a valid path"):
                await call(tool, ctx, path="a\0b", **more)

    within(tmp_path, test)


def test_a_missing_file_brings_the_nearest_names(tmp_path: Path) -> None:
    for name in ("README.md", "reader.py", "other"):
        (tmp_path / name).write_text("")

    async def test(ctx: Context) -> None:
        with pytest.raises(ToolError, match=r"readme\.md does not exist") as caught:
            await call(read_file, ctx, path="readme.md")
        assert caught.value.fields["near"][0] == "README.md"  # type: ignore[index]
        with pytest.raises(ToolError, match="nor does the folder no/where"):
            await call(read_file, ctx, path="no/where/file")
        with pytest.raises(ToolError, match="zzzz does not exist") as caught:
            await call(read_file, ctx, path="zzzz")
        assert "README.md" in caught.value.fields["entries"]  # type: ignore[operator]

    within(tmp_path, test)


def test_what_cannot_be_read_or_written_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    async def test(ctx: Context) -> None:
        with pytest.raises(ToolError, match="/proc/self/mem is not read by tools"):
            await call(read_file, ctx, path="/proc/self/mem")
        with pytest.raises(ToolError, match="does not exist"):
            await call(read_file, ctx, path="file/below")
        with pytest.raises(ToolError, match="a part of the path is a file"):
            await call(write_file, ctx, path="file/below", content="x")
        with pytest.raises(ToolError, match="name is too long"):
            await call(write_file, ctx, path="n" * 300, content="x")

    within(tmp_path, test)


def test_files_of_the_kernel_that_claim_to_be_empty_are_read(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        assert (await call(read_file, ctx, path="/proc/self/status"))["content"].startswith("1|Name:")

    within(tmp_path, test)


def test_writing_says_what_it_did(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        first = await call(write_file, ctx, path="new/a.txt", content="ü\r\n")
        assert first == {"success": True, "path": "new/a.txt", "bytes": 4, "created": True}
        assert (await call(write_file, ctx, path="new/a.txt", content=""))["created"] is False
        assert (tmp_path / "new" / "a.txt").read_bytes() == b""

    within(tmp_path, test)


@given(st.binary(max_size=60).map(lambda b: b.replace(b"\0", b"\n")), st.integers(1, 8), st.integers(1, 5), st.data())
def test_a_page_is_the_same_however_the_bytes_arrive(data: bytes, offset: int, limit: int, draw: st.DataObject) -> None:
    page = Page(offset, limit)
    at = 0
    while at < len(data):
        size = draw.draw(st.integers(1, 20))
        page.feed(data[at : at + size])
        at += size
    page.finish()
    lines = [line.removesuffix(b"\r").decode("utf-8", "replace") for line in data.removesuffix(b"\n").split(b"\n")]
    lines = lines if data else []
    assert page.shown == [f"{n}|{line}" for n, line in enumerate(lines, 1)][offset - 1 : offset - 1 + limit]
    assert page.lines == len(lines)
