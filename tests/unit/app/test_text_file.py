"""Files that are replaced whole, and places where none may be put."""

import os
from pathlib import Path

import pytest

from melete.app.text_file import replacing


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    path.chmod(0o640)
    with replacing(path) as descriptor:
        os.write(descriptor, b"new")
        assert path.read_text() == "old"
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)


def test_a_pipe_or_device_is_never_replaced_by_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    pipe, link = folder / "pipe", folder / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(OSError, match="no regular file"), replacing(path):
            pass
    assert pipe.is_fifo()
    assert sorted(entry.name for entry in folder.iterdir()) == ["link", "pipe"]
