"""Archives from outside: whole or not at all, plain files alone."""

import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from melete.skills.archive import ArchiveRefusedError, Bounds, skill_folder, unpack


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with nothing else in it."""
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


SMALL = Bounds(total=200_000, one=100_000, files=20)


def tarred(path: Path, *infos: tuple[str, bytes | None, dict[str, object]], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode, format=tarfile.PAX_FORMAT) as archive:  # type: ignore[call-overload]
        for name, data, more in infos:
            info = tarfile.TarInfo(name)
            for key, value in more.items():
                setattr(info, key, value)
            info.size = len(data) if data is not None else 0
            archive.addfile(info, io.BytesIO(data or b""))
    return path


def zipped(path: Path, files: dict[str, bytes], *, attributes: int = 0o644 << 16) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = attributes
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return path


def refused(source: Path, *, match: str = "refused") -> None:
    target = source.parent / "target"
    target.mkdir(exist_ok=True)
    with pytest.raises(ArchiveRefusedError, match=match):
        unpack(source, target, check=skill_folder, bounds=SMALL)
    assert not list(target.iterdir())
    assert sorted(path.name for path in source.parent.iterdir()) == sorted({source.name, "target"})


@pytest.mark.parametrize("suffix", ["zip", "tar", "tar.gz", "tar.bz2", "tar.xz"])
def test_a_good_one_is_unpacked(place: Path, suffix: str) -> None:
    source = place / f"a.{suffix}"
    if suffix == "zip":
        zipped(source, {"skill/SKILL.md": b"x", "skill/run.sh": b"y"}, attributes=0o4755 << 16)
    else:
        how: dict[str, object] = {"mode": 0o4755}
        mode = "w:" + suffix.rpartition(".")[2].removeprefix("tar")
        tarred(source, ("skill/SKILL.md", b"x", how), ("skill/run.sh", b"y", how), mode=mode)
    assert unpack(source, place / "out", check=skill_folder) == ["SKILL.md", "run.sh"]
    assert (place / "out" / "run.sh").read_bytes() == b"y"
    assert stat.S_IMODE((place / "out" / "run.sh").stat().st_mode) & ~0o022 == 0o755 & ~0o022
    assert sorted(path.name for path in place.iterdir()) == sorted([source.name, "out"])


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("../evil", {}), ("/evil", {}), ("a/../../evil", {}), ("~/evil", {}), ("a\\evil", {}), (".git/hooks/pre-commit", {}),
        ("SKILL.md", {}), ("skill.MD", {}), ("SKILL.md/below", {}),
        ("l", {"type": tarfile.SYMTYPE, "linkname": "/etc"}), ("l", {"type": tarfile.LNKTYPE, "linkname": "SKILL.md"}),
        ("d", {"type": tarfile.CHRTYPE}), ("f", {"type": tarfile.FIFOTYPE}),
        ("s", {"pax_headers": {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "99999999999"}}),
        ("p", {"pax_headers": {"path": "../evil"}}), ("h", {"pax_headers": {"comment": "x" * 400_000}}),
    ],
)  # fmt: skip
def test_an_entry_that_is_no_plain_file_inside_ends_it(place: Path, name: str, more: dict[str, object]) -> None:
    data = None if "type" in more else b"x"
    refused(tarred(place / "a.tgz", ("SKILL.md", b"good", {}), (name, data, more)))


def test_bombs_are_refused_before_they_unpack(place: Path) -> None:
    refused(zipped(place / "one.zip", {"SKILL.md": b"\0" * 150_000}), match="more than")
    (place / "one.zip").unlink()
    refused(zipped(place / "many.zip", {f"{n}": b"\0" * 60_000 for n in range(5)}), match="more than")
    (place / "many.zip").unlink()
    refused(zipped(place / "files.zip", {f"{n}": b"" for n in range(30)}), match="more than 20")
    (place / "files.zip").unlink()
    (place / "b.tar.gz").write_bytes(gzip.compress(b"\0" * 50_000_000))
    refused(place / "b.tar.gz")


def test_entries_that_share_bytes_are_refused(place: Path) -> None:
    source = zipped(place / "a.zip", {"SKILL.md": b"x" * 100, "b": b"y" * 100})
    data = bytearray(source.read_bytes())
    second = data.rindex(b"PK\x01\x02")
    data[second + 42 : second + 46] = struct.pack("<I", 0)
    source.write_bytes(data)
    refused(source, match="overlap")


def test_links_and_encrypted_entries_of_a_zip_are_refused(place: Path) -> None:
    refused(
        zipped(place / "l.zip", {"SKILL.md": b"/etc/passwd"}, attributes=(stat.S_IFLNK | 0o777) << 16), match="link"
    )
    (place / "l.zip").unlink()
    source = zipped(place / "e.zip", {"SKILL.md": b"x"})
    data = bytearray(source.read_bytes())
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    source.write_bytes(data)
    refused(source, match="encrypted")


@pytest.mark.parametrize("cut", [0, 10, 60, 200, 400])
def test_what_is_damaged_is_refused(place: Path, cut: int) -> None:
    whole = tarred(place / "a", ("SKILL.md", os.urandom(5_000), {})).read_bytes()
    (place / "a").write_bytes(whole[:cut])
    refused(place / "a")
    (place / "a").write_bytes(os.urandom(3_000))
    refused(place / "a")
    (place / "a").write_bytes(zipped(place / "a", {"SKILL.md": b"x"}).read_bytes()[: -cut or None] + b"x" * 10)
    if cut:
        refused(place / "a")


def test_a_target_that_holds_something_is_left_alone(place: Path) -> None:
    source = zipped(place / "a.zip", {"SKILL.md": b"x"})
    (place / "out").mkdir()
    (place / "out" / "mine").write_text("mine")
    with pytest.raises(FileExistsError):
        unpack(source, place / "out")
    assert [path.name for path in (place / "out").iterdir()] == ["mine"]
