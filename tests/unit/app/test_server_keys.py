"""Who a key stands for, from moment to moment: a server sees what becomes of its keys with the next request."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.app.home import Home
from melete.app.key_file import KeyFile
from melete.app.server_keys import PERSON, Keys, Who
from melete.core.errors import ConfigError, StoreError
from melete.testing import ManualClock

GOOD = "b1946ac92492d2347c6235b4d2611184"
OTHER = "c157a79031e1c40f85931829bc5fc552"
HOUR = timedelta(hours=1)


class Given:
    """A home with its clock and its keys."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(root=folder / "home")
        self.clock = ManualClock()
        self.file = KeyFile(self.home)

    def keys(self, own: str = "", *hosts: str) -> Keys:
        return Keys(self.home, own=own, hosts=hosts or ("127.0.0.1",), clock=self.clock)

    def add(self, name: str, *scopes: str, hours: float = 0) -> bytes:
        now = self.clock.now()
        end = now + HOUR * hours if hours else None
        return self.file.add(name, scopes=scopes or ("chat",), now=now, expires=end).encode()

    def rotate(self, name: str, hours: float = 24) -> bytes:
        return self.file.rotate(name, now=self.clock.now(), grace=HOUR * hours).encode()


@pytest.fixture
def given_home(tmp_path: Path) -> Given:
    return Given(tmp_path)


def test_the_persons_own_key_opens_everything(given_home: Given) -> None:
    keys = given_home.keys(GOOD)
    who = keys.who(GOOD.encode())
    assert who is not None
    assert who == PERSON == Who(name="", owner="", scopes=frozenset({"admin"}))
    assert all(who.may(scope) for scope in ("", "chat", "jobs", "metrics", "admin"))
    assert keys.who(b"") is None
    assert keys.who(OTHER.encode()) is None


def test_two_keys_of_the_person_are_valid_while_one_replaces_the_other(given_home: Given) -> None:
    keys = given_home.keys(f"{GOOD}, {OTHER}")
    assert keys.who(GOOD.encode()) == keys.who(OTHER.encode()) == PERSON
    assert keys.who(f"{GOOD}, {OTHER}".encode()) is None


def test_a_named_key_is_somebody_else(given_home: Given) -> None:
    keys = given_home.keys(GOOD)
    secret = given_home.add("webui", "chat", "jobs")
    who = keys.who(secret)
    assert who is not None
    assert who == Who(name="webui", owner="key:webui", scopes=frozenset({"chat", "jobs"}))
    assert [scope for scope in ("", "chat", "jobs", "metrics", "admin") if who.may(scope)] == ["", "chat", "jobs"]
    admin = keys.who(given_home.add("root", "admin"))
    assert admin is not None
    assert (admin.owner, admin.may("metrics")) == ("key:root", True)


def near(key: bytes) -> list[bytes]:
    """Keys that are almost this one."""
    return [
        key[:-1], key + b"0", key + b"\0", b"\0" + key, b" " + key, key + b"\n", key.upper(), key.swapcase(), key[::-1],
        key * 2, key.replace(b"mk_", b""), b"\xef\xbb\xbf" + key, key.replace(b"_", b"-"),
        bytes([key[0] ^ 1]) + key[1:], key[:-1] + bytes([key[-1] ^ 1]), key.decode().encode("utf-16"),
    ]  # fmt: skip


def test_only_the_key_itself_is_the_key(given_home: Given) -> None:
    keys = given_home.keys(GOOD)
    for key in (given_home.add("webui"), GOOD.encode()):
        assert keys.who(key) is not None
        assert [other for other in near(key) if other != key and keys.who(other)] == []


def test_a_hash_is_not_a_key(given_home: Given) -> None:
    given_home.add("webui")
    (key,) = given_home.file.read()
    keys = given_home.keys(GOOD)
    assert keys.who(key.hash.encode()) is None
    assert keys.who(bytes.fromhex(key.hash)) is None


@given(st.binary(min_size=1, max_size=100_000))
def test_any_bytes_can_be_judged(data: bytes) -> None:
    keys = Keys(Home(root=Path("/nowhere")), own=GOOD, hosts=("127.0.0.1",), clock=ManualClock())
    assert (keys.who(data) is None) is (data != GOOD.encode())


def test_what_becomes_of_a_key_counts_with_the_next_request(given_home: Given) -> None:
    keys = given_home.keys(GOOD)
    first = given_home.add("webui")
    assert keys.who(first)
    second = given_home.rotate("webui")
    assert keys.who(first) == keys.who(second) != None  # noqa: E711
    third = given_home.rotate("webui", hours=0)
    assert [bool(keys.who(key)) for key in (first, second, third)] == [False, False, True]
    given_home.file.remove("webui")
    assert keys.who(third) is None
    assert keys.who(GOOD.encode()) == PERSON


def test_an_edit_by_hand_counts_as_well(given_home: Given) -> None:
    secret = given_home.add("webui", "chat")
    keys = given_home.keys(GOOD)
    assert keys.who(secret)
    text = given_home.file.path.read_text()
    given_home.file.path.write_text(text.replace('"chat"', '"jobs"'))
    who = keys.who(secret)
    assert who is not None
    assert who.scopes == {"jobs"}


def test_a_key_ends_when_its_time_is_over(given_home: Given) -> None:
    keys = given_home.keys(GOOD)
    secret = given_home.add("webui", hours=2)
    given_home.clock.advance(2 * 3600 - 1)
    assert keys.who(secret)
    given_home.clock.advance(1)
    assert keys.judge(secret).why == "the key webui has expired"
    assert keys.who(secret) is None


def test_the_key_before_ends_when_its_grace_is_over(given_home: Given) -> None:
    keys = given_home.keys(GOOD)
    first = given_home.add("webui")
    second = given_home.rotate("webui", hours=24)
    given_home.clock.advance(24 * 3600 - 1)
    assert keys.who(first)
    given_home.clock.advance(1)
    assert keys.judge(first).why == "the key webui was replaced"
    assert keys.who(second)


def test_what_is_wrong_is_said_without_the_key(given_home: Given) -> None:
    keys = given_home.keys(GOOD)
    assert keys.judge(b"").why == "no key was given"
    assert keys.judge(OTHER.encode()).why == "the key is not known"


def test_without_any_key_loopback_is_the_persons_own(given_home: Given) -> None:
    for hosts in (("127.0.0.1",), ("localhost", "::1"), ()):
        keys = given_home.keys("", *hosts)
        keys.check()
        assert keys.open
        assert keys.who(b"") == keys.who(b"none") == PERSON


@pytest.mark.parametrize("hosts", [("0.0.0.0",), ("::",), ("",), ("127.0.0.1", "192.168.1.7"), ("melete.example",)])
def test_without_any_key_no_other_address_is_served(given_home: Given, hosts: tuple[str, ...]) -> None:
    keys = given_home.keys("", *hosts)
    with pytest.raises(ConfigError, match="MELETE_SERVER_KEY="):
        keys.check()
    assert not keys.open
    assert keys.who(b"") is None
    assert keys.who(b"none") is None


def test_a_weak_key_is_refused_beyond_loopback_also_beside_a_good_one(given_home: Given) -> None:
    given_home.keys("changeme").check()
    for own in ("changeme", f"{GOOD} changeme"):
        with pytest.raises(ConfigError, match="characters"):
            given_home.keys(own, "127.0.0.1", "0.0.0.0").check()
    given_home.keys(f"{GOOD} {OTHER}", "0.0.0.0").check()


def test_a_named_key_is_enough_beyond_loopback_unless_it_has_ended(given_home: Given) -> None:
    secret = given_home.add("webui", hours=1)
    keys = given_home.keys("", "0.0.0.0")
    keys.check()
    assert keys.who(secret)
    assert keys.who(b"") is None
    given_home.clock.advance(3600)
    with pytest.raises(ConfigError, match="not set"):
        keys.check()


def test_a_server_with_a_named_key_asks_for_one_on_loopback_too(given_home: Given) -> None:
    keys = given_home.keys()
    assert keys.open
    secret = given_home.add("webui")
    assert not keys.open
    assert keys.who(b"") is None
    assert keys.who(b"none") is None
    assert keys.who(secret)


def test_a_door_that_was_shut_does_not_open_by_itself(given_home: Given) -> None:
    """Neither taking away the last key nor losing the file makes everybody the person."""
    keys = given_home.keys()
    secret = given_home.add("webui")
    assert keys.who(secret)
    given_home.file.remove("webui")
    assert keys.who(b"") is None
    given_home.file.path.unlink()
    for bearer in (b"", b"none", secret):
        assert keys.who(bearer) is None
    anew = given_home.keys()
    assert anew.open
    assert anew.who(b"") == PERSON
    assert anew.who(secret) is None


def damage(path: Path) -> None:
    path.write_bytes(b"{")


def take_away_rights(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("harm", [damage, take_away_rights])
def test_a_file_that_cannot_be_trusted_opens_nothing(given_home: Given, harm: Callable[[Path], None]) -> None:
    secret = given_home.add("webui")
    keys = given_home.keys(GOOD)
    assert keys.who(secret)
    whole = given_home.file.path.read_bytes()
    harm(given_home.file.path)
    for bearer in (secret, OTHER.encode()):
        with pytest.raises(StoreError):
            keys.who(bearer)
    assert keys.who(b"") is None
    assert keys.who(GOOD.encode()) == PERSON
    with pytest.raises(StoreError):
        keys.check()
    if given_home.file.path.is_dir():
        given_home.file.path.rmdir()
    given_home.file.path.write_bytes(whole)
    assert keys.who(secret)


def test_a_damaged_file_shuts_an_open_server(given_home: Given) -> None:
    keys = given_home.keys()
    assert keys.open
    given_home.file.path.parent.mkdir(parents=True)
    damage(given_home.file.path)
    assert not keys.open
    assert keys.who(b"") is None
    with pytest.raises(StoreError):
        keys.who(b"none")


def test_the_last_use_is_noted_now_and_then(given_home: Given) -> None:
    secret = given_home.add("webui")
    keys = given_home.keys(GOOD)
    keys.who(GOOD.encode())
    assert given_home.file.used() == {}
    start = given_home.clock.now()
    for _ in range(3):
        keys.who(secret)
        given_home.clock.advance(60)
    assert given_home.file.used() == {"webui": start}


def test_a_last_use_that_cannot_be_noted_keeps_nobody_out(given_home: Given) -> None:
    secret = given_home.add("webui")
    (given_home.home.state / "server_keys.used.json").mkdir()
    assert given_home.keys(GOOD).who(secret)
