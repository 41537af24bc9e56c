"""What is left behind is named, whatever it is; what was there before and what goes in a moment is not."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from melete.testing import leaks


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "PATIENCE", 0.1)


def test_nothing_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "there already").write_text("")
    before = leaks.Held.now(tmp_path)
    (tmp_path / "for a moment").write_text("")
    (tmp_path / "for a moment").unlink()
    subprocess.run(["true"], check=True)
    assert leaks.left_behind(before) == []


def test_a_process_below_another_is_found_with_its_command(tmp_path: Path, quick: None) -> None:
    before = leaks.Held.now(tmp_path)
    with subprocess.Popen(["bash", "-c", "sleep 3300 & echo on; wait"], stdout=subprocess.PIPE) as shell:
        assert shell.stdout
        shell.stdout.readline()
        found = leaks.left_behind(before, but=("descriptors",))
        assert sorted(line.split(maxsplit=2)[2] for line in found) == [
            "bash -c sleep 3300 & echo on; wait",
            "sleep 3300",
        ]
        pid = next(line.split()[1] for line in found if line.endswith(" sleep 3300"))
        os.kill(int(pid), 9)
    assert leaks.left_behind(before) == []


@pytest.mark.needs("unshare")
def test_a_namespace_is_found(tmp_path: Path, quick: None) -> None:
    before = leaks.Held.now(tmp_path)
    argv = ["unshare", "--user", "--map-root-user", "--ipc", "sh", "-c", "echo on; read x"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        if process.stdout.readline() != b"on\n":
            pytest.skip("no user namespaces here")
        found = leaks.left_behind(before, but=("descriptors", "processes"))
        assert sorted(line.split("[")[0] for line in found) == ["namespaces: ipc:", "namespaces: user:"]


def test_descriptors_threads_and_files_are_found(tmp_path: Path, quick: None) -> None:
    before = leaks.Held.now(tmp_path)
    ends = os.pipe()
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="one more")
    thread.start()
    (tmp_path / "file").write_text("")
    found = leaks.left_behind(before)
    assert [line.split(":")[0] for line in found] == ["descriptors", "descriptors", "threads", "files"]
    assert found[2].endswith("one more")
    done.set()
    thread.join()
    for end in ends:
        os.close(end)
    assert leaks.left_behind(before, but=("files",)) == []


@pytest.mark.needs("mount", "umount")
@pytest.mark.skipif(os.getuid() != 0, reason="only an administrator mounts")
def test_a_mount_is_found(tmp_path: Path, quick: None) -> None:
    (tmp_path / "place").mkdir()
    before = leaks.Held.now(tmp_path)
    done = subprocess.run(["mount", "-t", "tmpfs", "none", str(tmp_path / "place")], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(done.stderr.decode())
    found = leaks.left_behind(before)
    subprocess.run(["umount", str(tmp_path / "place")], check=True)
    assert [line.split()[2:] for line in found] == [[f"{tmp_path}/place", "tmpfs"]]
    assert leaks.left_behind(before) == []
