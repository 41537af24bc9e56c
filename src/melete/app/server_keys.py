"""Who a key stands for: every key that opens a server, judged in constant time. Part of the composition root.

`server.api_key` is the key of the home's own person, who owns the sessions of the terminal as well. A named key (key_file.py) is
somebody else: sessions made with it belong to `key:NAME`, and it sees no others. A server on loopback that has no key at all
takes every request for the person's.
"""

import logging
import time
from collections.abc import Sequence
from datetime import datetime
from hmac import compare_digest

from msgspec import Struct

from melete.app.home import Home
from melete.app.key_file import PREFIX, KeyFile, NamedKey, hash_of
from melete.app.key_strength import check_strength, own_keys
from melete.app.vendors import is_loopback
from melete.core.errors import StoreError
from melete.core.ports import Clock

USED_SECONDS = 3600.0
"""How exact the time of a key's last use is."""
_ISSUED = PREFIX.encode()
log = logging.getLogger("melete.server_keys")


class Who(Struct, frozen=True, kw_only=True):
    """Whom a request comes from: the key's `name`, the `owner` of the sessions that it makes, and what it may do.

    The home's own person has neither name nor owner.
    """

    name: str = ""
    owner: str = ""
    scopes: frozenset[str] = frozenset()

    def may(self, scope: str) -> bool:
        """Whether a route of this scope is open to it; an empty scope is open to every key."""
        return not scope or scope in self.scopes or "admin" in self.scopes


PERSON = Who(scopes=frozenset({"admin"}))


class Judged(Struct, frozen=True, kw_only=True):
    """What a key turned out to be; without `who`, `why` says in a sentence what is wrong with it."""

    who: Who | None = None
    why: str = ""


class _Entry(Struct, frozen=True, kw_only=True):
    digest: bytes
    who: Who
    until: datetime | None = None
    over: str = ""


class Keys:
    """All keys of a server that listens on `hosts`; keys that are added, rotated or removed count with the next request."""

    def __init__(self, home: Home, *, own: str, hosts: Sequence[str], clock: Clock) -> None:
        self._home = home
        self._file = KeyFile(home)
        self._own = tuple(_Entry(digest=hash_of(_bytes(key)), who=PERSON) for key in own_keys(own))
        self._given = own_keys(own)
        self._hosts = tuple(hosts)
        self._clock = clock
        self._named: tuple[_Entry, ...] = ()
        self._state: tuple[int, ...] | None = None
        self._problem: StoreError | None = None
        self._noted: dict[str, float] = {}
        self._shut = bool(self._own) or not all(map(is_loopback, self._hosts))
        self._refresh()

    @property
    def open(self) -> bool:
        """Whether the server asks for no key. Once it has asked for one it does so until it ends, whatever becomes of the keys."""
        self._refresh()
        return not self._shut

    def check(self) -> None:
        """Raise before a server starts that should not: ConfigError for a missing or weak key, StoreError for a damaged file."""
        self._refresh()
        if self._problem is not None:
            raise self._problem
        now = self._clock.now()
        usable = any(entry.until is None or entry.until > now for entry in self._named)
        shown = self._home.display(self._home.env)
        for host in self._hosts:
            for key in self._given if self._given or usable else ("",):
                check_strength(key, host, env=shown)

    def who(self, bearer: bytes) -> Who | None:
        """Whom a key stands for, None for nobody; raises StoreError as `judge` does."""
        return self.judge(bearer).who

    def judge(self, bearer: bytes) -> Judged:
        """What the key of a request is, empty for none; takes as long whichever key it is, and whether there is such a key or not.

        Raises StoreError when the key is none of the person's own and the named ones cannot be read.
        """
        self._refresh()
        if not bearer:
            return Judged(why="no key was given") if self._shut else Judged(who=PERSON)
        digest = hash_of(bearer)
        found: _Entry | None = None
        for entry in (*self._own, *self._named):
            if compare_digest(entry.digest, digest):
                found = entry
        if found is not None:
            return self._timely(found)
        if self._problem is not None:
            raise self._problem
        if self._shut or bearer.startswith(_ISSUED):  # one of ours that was taken away must not open an open door
            return Judged(why="the key is not known")
        return Judged(who=PERSON)

    def _timely(self, entry: _Entry) -> Judged:
        if entry.until is not None and entry.until <= self._clock.now():
            return Judged(why=entry.over)
        if entry.who.name:
            self._note(entry.who.name)
        return Judged(who=entry.who)

    def _note(self, name: str) -> None:
        """Write down, now and then, that a key is in use."""
        now = time.monotonic()
        if now < self._noted.get(name, now):
            return
        self._noted[name] = now + USED_SECONDS
        try:
            self._file.note_used(name, self._clock.now())
        except OSError as error:
            log.warning("the last use of the key %s was not written down: %s", name, error)

    def _refresh(self) -> None:
        """Read the file again if it is another one than before; a failure shuts the named keys out and is tried again."""
        try:
            state = self._file.state()
            if state == self._state:
                return
            keys = self._file.read()
        except StoreError as error:
            self._problem = error
            self._named, self._state, self._shut = (), None, True
            return
        self._problem = None
        self._named = tuple(entry for key in keys for entry in _entries(key))
        self._state = state
        self._shut = self._shut or bool(keys)


def _entries(key: NamedKey) -> Sequence[_Entry]:
    who = Who(name=key.name, owner=f"key:{key.name}", scopes=frozenset(key.scopes))
    now = _Entry(digest=bytes.fromhex(key.hash), who=who, until=key.expires, over=f"the key {key.name} has expired")
    before = (
        _Entry(digest=bytes.fromhex(old.hash), who=who, until=old.until, over=f"the key {key.name} was replaced")
        for old in key.old
    )
    return (now, *before)


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")  # a variable may hold bytes that are no text
