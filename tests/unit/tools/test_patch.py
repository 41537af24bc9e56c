"""patch: one place in a file, or several files that change together or not at all."""

import os
from pathlib import Path

import pytest

from melete.core.ports import Environment
from melete.core.tool import ToolError
from melete.tools.edit import patch
from tests.unit.tools.context import Context, call, within

TEXT = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n"


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "user-home" not in path.parts
    }


def test_replacing_shows_a_small_diff(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(TEXT)

    async def test(ctx: Context) -> None:
        done = await call(patch, ctx, path="a", old_string="five", new_string="5")
        assert done["diff"] == "--- a\n+++ a\n@@ -2,7 +2,7 @@\n two\n three\n four\n-five\n+5\n six\n seven\n eight"
        assert (done["success"], done["replacements"]) == (True, 1)
        assert (tmp_path / "a").read_text() == TEXT.replace("five", "5")

    within(tmp_path, test)


def test_line_ends_marks_and_foreign_bytes_stay(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo caf\xe9\r\nthree\r\n")

    async def test(ctx: Context) -> None:
        await call(patch, ctx, path="a", old_string="one\ntwo", new_string="1\n1.5\n2")
        assert (tmp_path / "a").read_bytes() == b"\xef\xbb\xbf1\r\n1.5\r\n2 caf\xe9\r\nthree\r\n"

    within(tmp_path, test)


def test_what_cannot_be_replaced_is_explained(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("value = 1\nvalue = 1\n")
    (tmp_path / "b").write_bytes(b"\0\1")

    async def test(ctx: Context) -> None:
        with pytest.raises(ToolError, match="old_string is 2 times in a") as caught:
            await call(patch, ctx, path="a", old_string="value = 1", new_string="x")
        assert caught.value.fields == {"lines": [1, 2]}
        with pytest.raises(ToolError, match="old_string is not in a") as caught:
            await call(patch, ctx, path="a", old_string="value = 12", new_string="x")
        assert "1|value = 1" in str(caught.value.fields["near"])
        with pytest.raises(ToolError, match="are the same"):
            await call(patch, ctx, path="a", old_string="x", new_string="x")
        with pytest.raises(ToolError, match="old_string is empty"):
            await call(patch, ctx, path="a", new_string="x")
        with pytest.raises(ToolError, match="b is a binary file"):
            await call(patch, ctx, path="b", old_string="a", new_string="x")
        with pytest.raises(ToolError, match="c does not exist"):
            await call(patch, ctx, path="c", old_string="a", new_string="x")

    within(tmp_path, test)


MANY = """*** Begin Patch
*** Update File: src/a.py
@@ def g():
-    return 1
+    return 10
@@
 # end
+# really
*** Update File: old.txt
*** Move to: deep/new.txt
 two
-three
+3
*** Add File: fresh.md
+# Title
+
+Text
*** Delete File: gone.txt
*** End Patch
"""


def given_files(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "a.py").write_text("def f():\n    return 1\n\ndef g():\n    return 1\n# end\n")
    (folder / "old.txt").write_text(TEXT)
    (folder / "gone.txt").write_text("bye\n")
    (folder / "gone.txt").chmod(0o751)


def test_several_files_change_together(tmp_path: Path) -> None:
    given_files(tmp_path)

    async def test(ctx: Context) -> None:
        done = await call(patch, ctx, mode="patch", patch=MANY)
        assert tree(tmp_path) == {
            "src/a.py": "def f():\n    return 1\n\ndef g():\n    return 10\n# end\n# really\n",
            "deep/new.txt": TEXT.replace("three", "3"),
            "fresh.md": "# Title\n\nText\n",
        }
        assert done["files"] == [
            {"path": "src/a.py", "change": "update", "added": 2, "removed": 1},
            {"path": "old.txt", "change": "update", "moved_to": "deep/new.txt", "added": 1, "removed": 1},
            {"path": "fresh.md", "change": "add", "added": 3, "removed": 0},
            {"path": "gone.txt", "change": "delete"},
        ]
        assert "+    return 10" in done["diff"]

    within(tmp_path, test)


def test_nothing_changes_when_one_hunk_does_not_fit(tmp_path: Path) -> None:
    given_files(tmp_path)
    before = tree(tmp_path)

    async def test(ctx: Context) -> None:
        with pytest.raises(ToolError, match=r"old\.txt: hunk 1 does not fit"):
            await call(patch, ctx, mode="patch", patch=MANY.replace("-three", "-thirteen and a half"))
        assert tree(tmp_path) == before

    within(tmp_path, test)


class Failing:
    """An environment in which the n-th change fails as a full disk does."""

    def __init__(self, env: Environment, at: int) -> None:
        self._env = env
        self._left = at
        self.failed = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._env, name)

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.failed = True
            raise OSError(28, "No space left on device")

    async def write(self, path: str, data: bytes) -> None:
        self._count()
        await self._env.write(path, data)

    async def rename(self, path: str, to: str) -> None:
        self._count()
        await self._env.rename(path, to)


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
def test_a_failure_in_the_middle_puts_everything_back(tmp_path: Path, at: int) -> None:
    given_files(tmp_path)
    before = tree(tmp_path)

    async def test(ctx: Context) -> None:
        failing = Failing(ctx.env, at)
        ctx.env = failing  # type: ignore[assignment]
        with pytest.raises(ToolError, match=r"disk is full.*all files are as they were"):
            await call(patch, ctx, mode="patch", patch=MANY)
        assert failing.failed
        assert tree(tmp_path) == before
        assert (tmp_path / "gone.txt").stat().st_mode & 0o777 == 0o751

    within(tmp_path, test)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs the text of the patch"),
        ("*** Begin Patch\n*** End Patch", "the patch names no file"),
        ("hello\n*** Update File: old.txt\n-a", "'hello' before the first"),
        ("*** Update File: old.txt\n", "changes nothing in old.txt"),
        ("*** Update File: old.txt\n two\n", "changes nothing in old.txt"),
        ("*** Update File: old.txt\n!x\n", "begins with space, \\+ or -"),
        ("*** Update File: \n-x\n", "names no path"),
        ("*** Add File: x\nplain\n", "begins with \\+"),
        ("*** Add File: old.txt\n+x\n", "old.txt exists already"),
        ("*** Update File: old.txt\n*** Move to: gone.txt\n-two\n", "gone.txt exists already"),
        ("*** Delete File: nothing.txt\n", "nothing.txt does not exist"),
        ("*** Update File: old.txt\n-two\n*** Delete File: old.txt\n", "names old.txt twice"),
        ("*** Update File: old.txt\n@@ class X\n-two\n", "hunk 1: no line 'class X'"),
        ("*** Update File: src/a.py\n-    return 1\n+    return 2\n", "hunk 1 fits in 2 places"),
    ],
)
def test_a_patch_that_makes_no_sense_says_why(tmp_path: Path, text: str, message: str) -> None:
    given_files(tmp_path)
    before = tree(tmp_path)

    async def test(ctx: Context) -> None:
        with pytest.raises(ToolError, match=message):
            await call(patch, ctx, mode="patch", patch=text)
        assert tree(tmp_path) == before

    within(tmp_path, test)


def test_hunks_forgive_indentation_and_keep_the_files_own(tmp_path: Path) -> None:
    given_files(tmp_path)

    async def test(ctx: Context) -> None:
        await call(
            patch, ctx, mode="patch",
            patch="*** Begin Patch\n*** Update File: src/a.py\n def g():\n-return 1\n+if x:\n+    return 2\n*** End Patch",
        )  # fmt: skip
        assert "def g():\n    if x:\n        return 2\n# end\n" in (tmp_path / "src" / "a.py").read_text()

    within(tmp_path, test)


def test_additions_at_the_end_and_behind_a_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\ny\nx\n")

    async def test(ctx: Context) -> None:
        await call(patch, ctx, mode="patch", patch="*** Update File: a\n@@\n+last\n")
        assert (tmp_path / "a").read_text() == "x\ny\nx\nlast\n"
        await call(patch, ctx, mode="patch", patch="*** Update File: a\n@@ y\n+after\n")
        assert (tmp_path / "a").read_text() == "x\ny\nafter\nx\nlast\n"
        await call(patch, ctx, mode="patch", patch="*** Update File: a\n last\n+more\n*** End of File\n")
        assert (tmp_path / "a").read_text() == "x\ny\nafter\nx\nlast\nmore\n"

    within(tmp_path, test)


def test_names_that_are_no_utf8_do_not_break_the_result(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9")).write_text("x")

    async def test(ctx: Context) -> None:
        with pytest.raises(ToolError, match="does not exist") as caught:
            await call(patch, ctx, path="cafe", old_string="a", new_string="b")
        assert caught.value.fields == {"near": ["caf\\udce9"]}

    within(tmp_path, test)
