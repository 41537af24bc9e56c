"""Paths that somebody else wrote: what stays inside its folder, what is refused, and that nothing else can happen."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.security.paths import PathRefusedError, parts, resolve, within, wrong_id


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "/", "/etc/passwd", "..", "a/../..", "a/../../a", "~", "~root/x", "a\0b", "a\\..\\b", "c:x", "file:///a",
        "nul", "AUX.txt", "a/com1.log", "a.", "a ", "...", "\uff0e\uff0e/x", "a\u202eb", ".\u200b./x", "\ud800", "x" * 256,
        "a/" * 40 + "b",
        "x/" * 3000,
    ],
)  # fmt: skip
def test_what_no_honest_path_has_is_refused(text: str) -> None:
    with pytest.raises(PathRefusedError, match="refused"):
        parts(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a", ("a",)), ("./a//b/", ("a", "b")), ("a/../b", ("b",)), ("%2e%2e/x", ("%2e%2e", "x")), ("a..b", ("a..b",)),
        (".env.example", (".env.example",)), ("über/文.md", ("über", "文.md")), (".", ()), ("console.py", ("console.py",)),
    ],
)  # fmt: skip
def test_honest_paths_are_taken_apart(text: str, found: tuple[str, ...]) -> None:
    assert parts(text) == found


def test_links_are_followed_inside_and_refused_outside(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "real").mkdir(parents=True)
    (tmp_path / "root-beside").mkdir()
    for name, target in {
        "in": "real", "absolute": str(root / "real"), "out": "/etc", "up": "..", "beside": "../root-beside", "loop": "loop",
        "twice": "in/../up", "deep": "real/../real/x",
    }.items():  # fmt: skip
        (root / name).symlink_to(target)
    assert resolve(str(root), "in/new/file") == str(root / "real/new/file")
    assert resolve(str(root), "absolute/x") == str(root / "real/x")
    assert resolve(str(root), "deep") == str(root / "real/x")
    for name in ("out/passwd", "up", "up/root/real", "beside/x", "loop", "twice/x"):
        with pytest.raises(PathRefusedError):
            resolve(str(root), name)


@given(st.lists(st.sampled_from(["..", ".", "a", "in", "out", "%2e", "\\", "", "…", "\0", "~", "b."]), max_size=8))
def test_nothing_leaves_the_folder_whatever_is_put_together(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    root = tmp_path_factory.getbasetemp() / "links"
    if not root.exists():
        (root / "a").mkdir(parents=True)
        (root / "in").symlink_to("a")
        (root / "out").symlink_to("/")
    try:
        found = resolve(str(root), "/".join(names))
    except PathRefusedError:
        return
    assert within(os.path.realpath(found), os.path.realpath(root))


def test_names_of_skills_and_ids() -> None:
    for name in ("pdf", "code-review", "1a", "über-skill", "x" * 64):
        assert not wrong_id(name), name
    for name in (
        "",
        "A",
        "a b",
        "a_b",
        "-a",
        "a-",
        "a--b",
        "x" * 65,
        "\u0430bc",
        "a\u0301",
        "\uff41",
        "con",
        "node_modules",
        "a/b",
    ):
        assert wrong_id(name), name
