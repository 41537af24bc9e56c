"""The file of named keys: no key in it, no change lost, nothing of a damaged one overwritten."""

import hashlib
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.app.home import Home
from melete.app.key_file import KeyFile, NamedKey, ends_at, lifetime
from melete.core.errors import MeleteError, StorageError, StoreError, UsageError

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(Home(root=tmp_path / "home"))


def only(file: KeyFile) -> NamedKey:
    (key,) = file.read()
    return key


def test_a_key_is_256_random_bits_of_which_the_hash_is_kept(file: KeyFile) -> None:
    assert file.read() == ()
    secrets = [file.add(f"key-{number}", scopes=("chat",), now=NOW) for number in range(3)]
    text = file.path.read_text()
    assert len(set(secrets)) == 3
    for secret, key in zip(secrets, file.read(), strict=True):
        assert secret.startswith("mk_")
        assert len(secret) == len("mk_") + 43
        assert secret not in text
        assert secret[3:] not in text
        assert key.hash == hashlib.sha256(secret.encode()).hexdigest()
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.path.parent.iterdir()] == [file.path.name]


def test_what_a_key_may_do_is_kept(file: KeyFile) -> None:
    file.add("webui", scopes=("jobs", "chat", "jobs"), now=NOW, expires=NOW + DAY)
    key = only(file)
    assert (key.name, key.scopes, key.created, key.expires) == ("webui", ("jobs", "chat"), NOW, NOW + DAY)


@pytest.mark.parametrize("name", ["", "Web", "web ui", "../x", ".x", "-x", "x" * 65, "é", "a\n", "a/b", "a\0", "key:a"])
def test_a_name_is_a_plain_word(file: KeyFile, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name"):
        file.add(name, scopes=("chat",), now=NOW)
    assert not file.path.exists()


@pytest.mark.parametrize("scopes", [(), ("chats",), ("chat", ""), ("ADMIN",)])
def test_a_scope_is_one_that_there_is(file: KeyFile, scopes: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="scopes"):
        file.add("webui", scopes=scopes, now=NOW)
    assert not file.path.exists()


def test_a_name_is_given_once(file: KeyFile) -> None:
    file.add("webui", scopes=("chat",), now=NOW)
    before = file.path.read_bytes()
    with pytest.raises(UsageError, match="rotate webui"):
        file.add("webui", scopes=("admin",), now=NOW)
    assert file.path.read_bytes() == before


def test_a_rotated_key_has_a_new_secret_and_the_old_one_an_end(file: KeyFile) -> None:
    first = file.add("webui", scopes=("chat", "jobs"), now=NOW)
    second = file.rotate("webui", now=NOW + DAY, grace=DAY)
    assert first != second
    key = only(file)
    assert (key.scopes, key.created, key.rotated) == (("chat", "jobs"), NOW, NOW + DAY)
    assert [(old.hash, old.until) for old in key.old] == [(hashlib.sha256(first.encode()).hexdigest(), NOW + 2 * DAY)]


def test_a_later_rotation_ends_the_earlier_ones_no_later(file: KeyFile) -> None:
    """A key that leaked is rotated without grace: nothing that was given out before may work on."""
    file.add("webui", scopes=("chat",), now=NOW)
    file.rotate("webui", now=NOW, grace=DAY * 9)
    file.rotate("webui", now=NOW, grace=DAY)
    assert [old.until for old in only(file).old] == [NOW + DAY, NOW + DAY]
    file.rotate("webui", now=NOW, grace=DAY * 9)
    assert [old.until for old in only(file).old] == [NOW + DAY * 9, NOW + DAY, NOW + DAY]
    file.rotate("webui", now=NOW + DAY * 2, grace=DAY * 30)
    assert [old.until for old in only(file).old] == [NOW + DAY * 32, NOW + DAY * 9]
    file.rotate("webui", now=NOW + DAY * 2, grace=timedelta(0))
    assert only(file).old == ()


def test_rotation_does_not_make_an_old_key_outlive_its_end(file: KeyFile) -> None:
    file.add("webui", scopes=("chat",), now=NOW, expires=NOW + DAY)
    file.rotate("webui", now=NOW, grace=DAY * 9, expires=NOW + DAY * 30)
    key = only(file)
    assert (key.expires, [old.until for old in key.old]) == (NOW + DAY * 30, [NOW + DAY])


def test_an_expired_key_is_rotated_only_with_a_new_end(file: KeyFile) -> None:
    file.add("webui", scopes=("chat",), now=NOW, expires=NOW + DAY)
    with pytest.raises(UsageError, match="--expires"):
        file.rotate("webui", now=NOW + DAY, grace=DAY)
    file.rotate("webui", now=NOW + DAY, grace=DAY, expires=NOW + DAY * 2)
    assert (only(file).expires, only(file).old) == (NOW + DAY * 2, ())


def test_a_key_that_is_not_there_is_told_with_the_nearest_name(file: KeyFile) -> None:
    file.add("webui", scopes=("chat",), now=NOW)
    for act in (lambda: file.remove("webiu"), lambda: file.rotate("webiu", now=NOW, grace=DAY)):
        with pytest.raises(UsageError, match="did you mean webui"):
            act()
    assert file.remove("webui") == []
    assert file.read() == ()


DAMAGED = (
    b"", b"{", b"null", b"[]", b"\xff\xfe", b'{"version": 1}', b'{"version": 2, "keys": []}',
    b'{"version": 1, "keys": [], "more": 1}', b'{"version": 1, "keys": [{}]}',
    b'{"version": 1, "keys": [{"name": "a", "hash": "00", "scopes": ["chat"], "created": "2026-01-01T00:00:00Z"}]}',
    b'{"version": 1, "keys": [{"name": "a", "hash": "' + b"0" * 64
    + b'\\n", "scopes": ["chat"], "created": "2026-01-01T00:00:00Z"}]}',
    b'{"version": 1, "keys": [{"name": "a", "hash": "' + b"0" * 64
    + b'", "scopes": [], "created": "2026-01-01T00:00:00Z"}]}',
    b'{"version": 1, "keys": [{"name": "a", "hash": "' + b"0" * 64
    + b'", "scopes": ["root"], "created": "2026-01-01T00:00:00Z"}]}',
    b'{"version": 1, "keys": [{"name": "a", "hash": "' + b"0" * 64
    + b'", "scopes": ["chat"], "created": "2026-01-01T00:00:00"}]}',
    b'{"version": 1, "keys": [' + b",".join([b'{"name": "a", "hash": "' + b"0" * 64
    + b'", "scopes": ["chat"], "created": "2026-01-01T00:00:00Z"}'] * 2) + b"]}",
)  # fmt: skip


@pytest.mark.parametrize("data", DAMAGED)
def test_a_damaged_file_is_told_and_never_overwritten(file: KeyFile, data: bytes) -> None:
    file.path.parent.mkdir(parents=True)
    file.path.write_bytes(data)
    for act in (
        file.read,
        lambda: file.add("webui", scopes=("chat",), now=NOW),
        lambda: file.rotate("a", now=NOW, grace=DAY),
        lambda: file.remove("a"),
    ):
        with pytest.raises(StoreError, match="not touched") as caught:
            act()
        assert str(file.path) in str(caught.value)
    assert file.path.read_bytes() == data


def test_a_folder_in_the_files_place_is_told(file: KeyFile) -> None:
    file.path.mkdir(parents=True)
    with pytest.raises(StoreError, match="is a folder"):
        file.add("webui", scopes=("chat",), now=NOW)


def test_a_home_that_cannot_be_written_is_told(file: KeyFile) -> None:
    file.path.parent.parent.mkdir(parents=True)
    file.path.parent.write_text("a file where a folder belongs")
    with pytest.raises(StorageError, match="move that file away"):
        file.add("webui", scopes=("chat",), now=NOW)


ADDING = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from melete.app.home import Home
from melete.app.key_file import KeyFile
for number in range(5):
    KeyFile(Home(root=Path(sys.argv[1]))).add(f"{sys.argv[2]}-{number}", scopes=("chat",), now=datetime.now(UTC))
"""


def test_many_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    going = [subprocess.Popen([sys.executable, "-c", ADDING, str(home), name]) for name in "abcd"]
    assert [process.wait(timeout=60) for process in going] == [0] * 4
    names = {key.name for key in KeyFile(Home(root=home)).read()}
    assert names == {f"{name}-{number}" for name in "abcd" for number in range(5)}


def test_the_last_use_is_kept_beside_the_keys(file: KeyFile) -> None:
    file.add("a", scopes=("chat",), now=NOW)
    before = file.path.read_bytes()
    file.note_used("a", NOW)
    file.note_used("b", NOW + DAY)
    assert file.used() == {"a": NOW, "b": NOW + DAY}
    assert file.path.read_bytes() == before
    (other,) = (path for path in file.path.parent.iterdir() if path != file.path)
    other.write_text("{")
    assert file.used() == {}
    file.note_used("a", NOW)
    assert json.loads(other.read_text()).keys() == {"a"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("90s", 90), ("30m", 1_800), ("12h", 43_200), ("30d", 2_592_000), (" 4W ", 2_419_200), ("0d", 0)],
)
def test_lengths_of_time_are_read_as_people_write_them(text: str, seconds: int) -> None:
    assert lifetime(text, where="--grace") == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "h", "-1h", "1.5h", "12", "1y", "٣h", "1 h 2 m", "9" * 30 + "d", "²h"])
def test_what_is_no_length_of_time_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="--grace"):
        lifetime(text, where="--grace")


@pytest.mark.parametrize("text", ["0", "2020-01-01", "2026-01-01T12:00:00+00:00", "soon", "999999999d", "9999999w", ""])
def test_an_end_lies_in_the_future(text: str) -> None:
    with pytest.raises(UsageError, match="--expires"):
        ends_at(text, NOW, where="--expires")


def test_an_end_is_a_length_of_time_or_a_date() -> None:
    assert ends_at("30d", NOW, where="") == NOW + DAY * 30
    assert ends_at("2026-02-01T00:00:00Z", NOW, where="") == datetime(2026, 2, 1, tzinfo=UTC)
    assert ends_at("2026-06-01", NOW, where="") == datetime(2026, 6, 1).astimezone(UTC)


@given(st.text())
def test_any_text_is_a_time_or_an_error_for_people(text: str) -> None:
    try:
        assert ends_at(text, NOW, where="--expires") > NOW
    except MeleteError as error:
        assert str(error).startswith("--expires")


def test_an_end_out_of_reach_is_told_when_rotating(file: KeyFile) -> None:
    file.add("a", scopes=("chat",), now=NOW)
    with pytest.raises(UsageError, match="--grace"):
        file.rotate("a", now=NOW, grace=timedelta(days=999_999_999))
