"""Files on the machine itself: never a hang, never half a file."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from melete.core.environment import Place
from melete.environments.local import LocalEnvironment
from tests.unit.environments.test_local_exec import with_env


def test_bytes_written_are_bytes_read(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        for data in (b"", b"text\n", bytes(range(256)), b"x" * 3_000_000):
            await env.write("deep/er/file", data)
            assert await env.read("deep/er/file") == data
            assert await env.read(str(tmp_path / "deep/er/file"), offset=2, limit=3) == data[2:5]
        assert [entry.name for entry in await env.list("deep/er")] == ["file"]

    with_env(tmp_path, test)


def test_a_replaced_file_keeps_its_mode_and_a_new_one_follows_the_umask(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        script = tmp_path / "run.sh"
        script.write_text("old")
        script.chmod(0o750)
        await env.write("run.sh", b"new")
        assert stat.S_IMODE(script.stat().st_mode) == 0o750
        umask = os.umask(0)
        os.umask(umask)
        await env.write("fresh", b"")
        assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o666 & ~umask

    with_env(tmp_path, test)


def test_writing_through_a_link_changes_its_target(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        (tmp_path / "real").write_text("old")
        (tmp_path / "link").symlink_to("real")
        await env.write("link", b"new")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real").read_text() == "new"

    with_env(tmp_path, test)


def test_what_is_no_regular_file_is_an_error_at_once(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        os.mkfifo(tmp_path / "fifo")
        for path in ("fifo", "/dev/zero"):
            with pytest.raises(OSError, match="not a regular file"):
                await env.read(path)
            with pytest.raises(OSError, match="not a regular file"):
                await env.write(path, b"x")
        with pytest.raises(IsADirectoryError):
            await env.read(".")
        with pytest.raises(IsADirectoryError):
            await env.write(".", b"x")
        with pytest.raises(FileNotFoundError):
            await env.read("missing")

    with_env(tmp_path, test)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        (tmp_path / "a").write_text("old")
        with pytest.raises(NotADirectoryError):
            await env.write("a/b", b"new")
        assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["a"]
        assert (tmp_path / "a").read_text() == "old"

    with_env(tmp_path, test)


def test_stat_follows_links_and_knows_nothing_of_what_is_not_there(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        (tmp_path / "file").write_text("12345")
        (tmp_path / "link").symlink_to("file")
        (tmp_path / "loose").symlink_to("nowhere")
        found = await env.stat("link")
        assert found is not None
        assert (found.kind, found.size) == ("file", 5)
        assert (await env.stat("."), await env.stat("/dev/null")) != (None, None)
        assert [await env.stat(path) for path in ("loose", "nothing", "file/below")] == [None, None, None]
        kinds = {entry.name: entry.kind for entry in await env.list(".")}
        assert (kinds["file"], kinds["link"], kinds["loose"]) == ("file", "link", "link")

    with_env(tmp_path, test)


def test_names_that_are_no_utf8_work(tmp_path: Path) -> None:
    async def test(env: LocalEnvironment) -> None:
        (tmp_path / os.fsdecode(b"caf\xe9")).write_bytes(b"x")
        name = next(entry.name for entry in await env.list(".") if entry.name.startswith("caf"))
        assert await env.read(name) == b"x"
        await env.write(name, b"y")
        await env.rename(name, "new/plain")
        assert (tmp_path / "new" / "plain").read_bytes() == b"y"
        await env.remove("new/plain")
        assert await env.stat("new/plain") is None

    with_env(tmp_path, test)


def test_a_tilde_is_the_home_of_the_environment(tmp_path: Path) -> None:
    async def main() -> None:
        env = LocalEnvironment(Place(cwd=str(tmp_path), variables={"HOME": str(tmp_path / "home")}))
        await env.write("~/notes", b"x")
        assert (tmp_path / "home" / "notes").read_bytes() == b"x"

    asyncio.run(main())


def test_a_link_that_is_changed_after_it_was_judged_leads_nowhere(tmp_path: Path) -> None:
    """What is open is judged: whatever a link said before, keys are not read, and what runs at login is not written."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("key")
    (home / ".bashrc").write_text("mine")

    async def main() -> None:
        env = LocalEnvironment(Place(cwd=str(home / "work"), variables={"HOME": str(home)}))
        try:
            await env.write("plain", b"x")
            for name, target in (("keys", "../.ssh"), ("rc", "../.bashrc"), ("up", "..")):
                (home / "work" / name).symlink_to(target)
            for path in ("keys/id", "../.ssh/id", "up/.ssh/id"):
                with pytest.raises(PermissionError, match="it holds keys"):
                    await env.read(path)
            for path in ("rc", "up/.bashrc", "keys/new"):
                with pytest.raises(PermissionError):
                    await env.write(path, b"theirs")
            with pytest.raises(PermissionError):
                await env.rename("plain", "up/.bashrc")
            with pytest.raises(PermissionError):
                await env.remove("up/.bashrc")
            await env.remove("rc")  # the link, not what it names
        finally:
            await env.aclose()

    asyncio.run(main())
    assert (home / ".bashrc").read_text() == "mine"
    assert sorted(path.name for path in (home / "work").iterdir()) == ["keys", "plain", "up"]
    assert [path.name for path in (home / ".ssh").iterdir()] == ["id"]
