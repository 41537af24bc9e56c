"""search_files: ripgrep and our own search find the same."""

import os
from pathlib import Path
from typing import Any

import pytest

from melete.core.tool import ToolError
from melete.tools.globs import fits, ignored, rules
from melete.tools.search import search_files
from tests.unit.tools.context import PATH, Context, call, within

NO_RIPGREP = "/nowhere"


def given_tree(folder: Path) -> None:
    files = {
        ".gitignore": "*.log\n/build/\nnode_modules\n!keep.log\ndocs/*.tmp\n",
        "a.py": "import os\n\ndef foo():\n    return 'Foo bar'\n\n\n# foo again\n",
        "b.txt": "no match here\r\nfoo at CRLF\r\n",
        "src/c.py": "class Foo:\n    foo = 1\n",
        "src/.gitignore": "generated.py\n",
        "src/generated.py": "foo\n",
        "src/deep/d.py": "x\nfoo\ny\nz\nw\nfoo\n",
        "build/out.py": "foo\n",
        "src/build/in.py": "foo in a folder of the same name\n",
        "node_modules/x/index.js": "foo\n",
        "debug.log": "foo\n",
        "keep.log": "foo kept\n",
        "docs/page.md": "foo\n",
        "docs/page.tmp": "foo\n",
        ".hidden/e.py": "foo hidden\n",
        ".git/config": "foo\n",
        "name with space.txt": "foo: 1:2\n",
        "unicode-é.txt": "naïve foo\n",
        "empty.txt": "",
        "no-end.txt": "foo",
        "long.txt": "foo" + "x" * 5_000 + "\n",
        "bom.txt": "\ufefffoo with a mark\n",
    }
    for name, text in files.items():
        path = folder / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    tree = folder / "tree"
    (tree / "binary.bin").write_bytes(b"foo\0\1\2foo\n")
    (tree / "latin.txt").write_bytes(b"foo caf\xe9\n")
    (tree / "wide.txt").write_bytes(b"\xff\xfe" + "foo wide\n".encode("utf-16-le"))
    (tree / "link.py").symlink_to("a.py")
    os.mkfifo(tree / "fifo")


def found(folder: Path, programs: str, **arguments: Any) -> dict[str, Any]:
    results: list[dict[str, Any]] = []

    async def test(ctx: Context) -> None:
        results.append(await call(search_files, ctx, **arguments))
        assert ctx.state.get("ripgrep", True) is (programs == PATH)

    within(folder / "tree", test, path=programs)
    return results[0]


@pytest.mark.needs("rg")
@pytest.mark.parametrize(
    "arguments",
    [
        {"pattern": "foo"},
        {"pattern": "foo", "limit": 3},
        {"pattern": "foo", "limit": 3, "offset": 2},
        {"pattern": "foo", "context": 1},
        {"pattern": "foo", "context": 2, "limit": 2},
        {"pattern": "(?i)FOO\\b"},
        {"pattern": "^foo$", "output_mode": "files_only"},
        {"pattern": "foo", "output_mode": "count"},
        {"pattern": "foo", "output_mode": "files_only", "limit": 4, "offset": 1},
        {"pattern": "foo", "file_glob": "*.py"},
        {"pattern": "foo", "file_glob": "src/**/*.py"},
        {"pattern": "foo", "file_glob": "*.{py,md}"},
        {"pattern": "foo", "file_glob": "page.md"},
        {"pattern": "foo", "path": "src"},
        {"pattern": "foo", "path": "src/deep/d.py", "context": 1},
        {"pattern": "foo", "path": "./src/"},
        {"pattern": "nowhere to be found"},
        {"pattern": "na.ve"},
        {"pattern": "foo caf"},
        {"pattern": "CRLF$"},
        {"pattern": "*.py", "target": "files"},
        {"pattern": "**/deep/*", "target": "files"},
        {"pattern": "page", "target": "files"},
        {"pattern": "*", "target": "files", "limit": 5},
        {"pattern": "*", "target": "files", "path": "src", "offset": 1},
        {"pattern": "*", "target": "files", "file_glob": "*.txt"},
    ],
    ids=str,
)
def test_both_ways_of_searching_agree(tmp_path: Path, arguments: dict[str, Any]) -> None:
    given_tree(tmp_path)
    with_ripgrep = found(tmp_path, PATH, **arguments)
    assert found(tmp_path, NO_RIPGREP, **arguments) == with_ripgrep
    assert with_ripgrep["success"] is True


@pytest.mark.parametrize(
    "programs", [pytest.param(PATH, marks=pytest.mark.needs("rg"), id="rg"), pytest.param(NO_RIPGREP, id="own")]
)
def test_what_a_search_gives(tmp_path: Path, programs: str) -> None:
    given_tree(tmp_path)
    assert found(tmp_path, programs, pattern="foo", path="src", limit=2, context=1) == {
        "success": True,
        "content": "src/build/in.py\n1:foo in a folder of the same name\nsrc/c.py\n1-class Foo:\n2:    foo = 1",
        "matches": 2,
        "next_offset": 2,
    }
    assert found(tmp_path, programs, pattern="foo", path="src", output_mode="count") == {
        "success": True,
        "files": {"src/build/in.py": 1, "src/c.py": 1, "src/deep/d.py": 2},
        "total": 3,
        "matches": 4,
    }
    assert found(tmp_path, programs, pattern="*.py", target="files", path="src")["files"] == [
        "src/build/in.py", "src/c.py", "src/deep/d.py",
    ]  # fmt: skip
    everywhere = found(tmp_path, programs, pattern="foo", output_mode="files_only")["files"]
    assert not {"binary.bin", "debug.log", "build/out.py", ".git/config", "link.py", "docs/page.tmp"} & set(everywhere)
    assert {".hidden/e.py", "keep.log", "latin.txt", "wide.txt", "name with space.txt", "bom.txt"} <= set(everywhere)


@pytest.mark.parametrize(
    "programs", [pytest.param(PATH, marks=pytest.mark.needs("rg"), id="rg"), pytest.param(NO_RIPGREP, id="own")]
)
def test_mistakes_are_explained(tmp_path: Path, programs: str) -> None:
    given_tree(tmp_path)
    with pytest.raises(ToolError, match=r"not a regular expression: (?s:.*)(unclosed|missing)"):
        found(tmp_path, programs, pattern="fo(")
    with pytest.raises(ToolError, match="nowhere does not exist"):
        found(tmp_path, programs, pattern="x", path="nowhere")
    with pytest.raises(ToolError, match="fifo is neither a file nor a folder"):
        found(tmp_path, programs, pattern="x", path="fifo")
    with pytest.raises(ToolError, match="pattern is empty"):
        found(tmp_path, programs, pattern="")
    with pytest.raises(ToolError, match=r"a\.py is a file; target files needs a folder"):
        found(tmp_path, programs, pattern="x", path="a.py", target="files")


def test_our_own_search_refuses_what_could_run_for_ever(tmp_path: Path) -> None:
    given_tree(tmp_path)
    with pytest.raises(ToolError, match="may run for ever"):
        found(tmp_path, NO_RIPGREP, pattern="(x+x+)+y")


@pytest.mark.parametrize(
    ("glob", "path", "yes"),
    [
        ("*.py", "a/b.py", True),
        ("*.py", "a/b.pyc", False),
        ("a/*.py", "a/b.py", True),
        ("a/*.py", "a/c/b.py", False),
        ("a/**/b.py", "a/b.py", True),
        ("a/**/b.py", "a/c/d/b.py", True),
        ("**/b.py", "b.py", True),
        ("[ab].py", "x/b.py", True),
        ("[!ab].py", "b.py", False),
        ("*.{js,ts}", "x.ts", True),
        ("read", "docs/README.md", True),
        ("docs/read", "docs/README.md", True),
        ("?.py", "ab.py", False),
        ("a.b", "axb", False),
    ],
)
def test_globs(glob: str, path: str, yes: bool) -> None:
    assert fits(glob, path) is yes


def test_rules_of_gitignore() -> None:
    outer = rules("# note\n\n*.log\n!important.log\n/top\nsub/only\nfolder/\n\\#odd\n")
    layers = (("", outer), ("inner", rules("!x.log\nlocal")))
    yes = ("a.log", "d/a.log", "top", "sub/only", "inner/local", "inner/d/local", "#odd")
    no = ("important.log", "d/important.log", "d/top", "d/sub/only", "inner/x.log", "local", "folder")
    assert [path for path in yes if not ignored(path, folder=False, layers=layers)] == []
    assert [path for path in no if ignored(path, folder=False, layers=layers)] == []
    assert ignored("folder", folder=True, layers=layers)
