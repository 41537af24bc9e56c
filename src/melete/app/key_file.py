"""The named keys of a server as they are stored: HOME/state/server_keys.json. Part of the composition root.

Of a key only its SHA-256 is kept: a key is 256 random bits, which no table of hashes can hold. The file is replaced whole under a
lock that all processes share, so a reader sees the old keys or the new ones. When each was last used stands in a file of its own:
a server never writes to the one that says who may enter.
"""

import fcntl
import hashlib
import logging
import os
import secrets
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, structs

from melete.app.home import Home
from melete.app.keys import nearest_word
from melete.app.text_file import read_text
from melete.core.errors import ConfigError, StoreError, UsageError
from melete.store.disk import write_new

PREFIX = "mk_"
RANDOM_BYTES = 32
VERSION = 1
FORMS = "30m, 12h, 30d or 4w"
"""How a length of time can be written, for messages that say so."""

Scope = Literal["chat", "jobs", "metrics", "admin"]
SCOPES: Mapping[Scope, str] = {
    "chat": "models, chat, responses, runs, and the sessions made with the key",
    "jobs": "scheduled work",
    "metrics": "figures, and health in detail",
    "admin": "every route",
}
Time = Annotated[datetime, Meta(tz=True)]
Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}\Z")]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
log = logging.getLogger("melete.server_keys")


class Replaced(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The hash of a key that was rotated away, which opens the server `until` then."""

    hash: Hash
    until: Time


class NamedKey(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of a named key: its hash, what it may do, and until when."""

    name: Name
    hash: Hash
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1)]
    created: Time
    rotated: Time | None = None
    expires: Time | None = None
    old: tuple[Replaced, ...] = ()


class _Content(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    keys: tuple[NamedKey, ...]


def hash_of(key: bytes) -> bytes:
    """The SHA-256 of a key as it comes in a header."""
    return hashlib.sha256(key).digest()


def lifetime(text: str, *, where: str) -> timedelta:
    """The length of time that `90s`, `30m`, `12h`, `30d` or `4w` stand for, 0 for none; raises UsageError."""
    plain = text.strip().lower()
    number, unit = (plain[:-1], plain[-1:]) if plain[-1:] in _UNITS else (plain, "")
    try:
        if number.isascii() and number.isdecimal() and (unit or not int(number)):
            return timedelta(**{_UNITS[unit or "s"]: int(number)})
    except (OverflowError, ValueError) as error:
        raise UsageError(f"{where}: {text!r} is too long", next=f"write {FORMS}") from error
    raise UsageError(f"{where}: {text!r} is no length of time", next=f"write {FORMS}")


class KeyFile:
    """The named keys of one home; each call reads the file anew, none of them waits for a server."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.path = home.state / "server_keys.json"
        self._used = home.state / "server_keys.used.json"

    def state(self) -> tuple[int, ...]:
        """What changes whenever the file is replaced or written to, empty for none; raises StoreError."""
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise _untrusted(self._home.display(self.path), error.strerror or str(error)) from error
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size

    def read(self) -> Sequence[NamedKey]:
        """The keys in the order of their making, none without a file; raises StoreError for a file that cannot be trusted."""
        shown = self._home.display(self.path)
        try:
            text = read_text(self.path, shown=shown)
            content = msgspec.json.decode(text, type=_Content) if text is not None else None
        except (msgspec.DecodeError, ConfigError) as error:
            raise _untrusted(shown, str(error)) from error
        if content is None:
            return ()
        if content.version != VERSION:
            raise _untrusted(shown, f"its version is {content.version}, and this program knows {VERSION}")
        if len({key.name for key in content.keys}) < len(content.keys):
            raise _untrusted(shown, "a name stands in it twice")
        return content.keys

    def add(self, name: str, *, scopes: Sequence[str], now: datetime, expires: datetime | None = None) -> str:
        """Make a key and return it: it cannot be had again. Raises UsageError, StoreError, StorageError, with nothing changed."""
        with self._changing() as keys:
            if any(key.name == name for key in keys):
                raise UsageError(
                    f"there is a key called {name} already",
                    kept="nothing was changed",
                    next=f"`melete serve keys rotate {name}` gives it a new secret",
                )
            secret = _secret()
            keys.append(_named(name, secret, scopes=scopes, now=now, expires=expires))
        return secret

    def rotate(self, name: str, *, now: datetime, grace: timedelta, expires: datetime | None = None) -> str:
        """Give a key a new secret and return it; what opened the server before does so for `grace` at most.

        Its end stays as it is unless `expires` is given. Raises UsageError, StoreError, StorageError, with nothing changed.
        """
        with self._changing() as keys:
            place = _find(keys, name)
            key = keys[place]
            ends = expires or key.expires
            if ends is not None and ends <= now:
                raise UsageError(
                    f"the key {name} has expired", kept="nothing was changed", next="give it a new end with --expires"
                )
            secret, until = _secret(), _later(now, grace, where="--grace")
            if key.expires is not None:
                until = min(until, key.expires)
            before = (Replaced(hash=key.hash, until=until), *key.old)
            keys[place] = structs.replace(
                key,
                hash=hash_of(secret.encode()).hex(),
                rotated=now,
                expires=ends,
                old=tuple(Replaced(hash=old.hash, until=end) for old in before if (end := min(old.until, until)) > now),
            )
        return secret

    def remove(self, name: str) -> Sequence[NamedKey]:
        """Take a key away and return those that are left; raises UsageError, StoreError, StorageError, with nothing changed."""
        with self._changing() as keys:
            del keys[_find(keys, name)]
        return keys

    def used(self) -> Mapping[str, datetime]:
        """When each key was used last, to the hour or so; what cannot be read is left out."""
        try:
            text = read_text(self._used, shown=self._home.display(self._used))
            return msgspec.json.decode(text, type=dict[str, Time]) if text is not None else {}
        except (msgspec.DecodeError, ConfigError) as error:
            log.warning("when keys were used cannot be read, and is written anew: %s", error)
            return {}

    def note_used(self, name: str, at: datetime) -> None:
        """Write down that a key was used; raises OSError."""
        write_new(self._used, msgspec.json.encode({**self.used(), name: at}))

    @contextmanager
    def _changing(self) -> Generator[list[NamedKey], None, None]:
        """The keys, to be changed in place, with every other process that changes them shut out; written at the block's end."""
        folder = self._home.folder(self.path.parent)
        lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            keys = list(self.read())
            yield keys
            content = _Content(version=VERSION, keys=tuple(keys))
            write_new(self.path, msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
        except OSError as error:
            raise self._home.unusable(self.path, error) from error
        finally:
            os.close(lock)


def ends_at(text: str, now: datetime, *, where: str) -> datetime:
    """When a key ends that is given this life: a length of time from now, or a date; raises UsageError for one that is past."""
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return _ahead(_later(now, lifetime(text, where=where), where=where), now, text, where=where)
    try:
        return _ahead(at.astimezone(now.tzinfo), now, text, where=where)
    except (OverflowError, ValueError, OSError) as error:
        raise UsageError(f"{where}: {text!r} is too far away", next=f"write {FORMS}, or a date") from error


def _ahead(at: datetime, now: datetime, text: str, *, where: str) -> datetime:
    if at <= now:
        raise UsageError(f"{where}: {text!r} is not in the future", next=f"write {FORMS}, or a date")
    return at


def _later(now: datetime, by: timedelta, *, where: str) -> datetime:
    try:
        return now + by
    except OverflowError as error:
        raise UsageError(f"{where}: that is too far away", next=f"write {FORMS}") from error


def _secret() -> str:
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def _named(name: str, secret: str, *, scopes: Sequence[str], now: datetime, expires: datetime | None) -> NamedKey:
    fields = {
        "name": name,
        "hash": hash_of(secret.encode()).hex(),
        "scopes": tuple(dict.fromkeys(scopes)),
        "created": now,
        "expires": expires,
    }
    try:
        return msgspec.convert(fields, NamedKey)
    except msgspec.ValidationError as error:
        if "$.name" in str(error):
            raise UsageError(
                f"{name!r} cannot be the name of a key",
                kept="nothing was changed",
                next="use small letters, digits, dots, - and _, at most 64 of them, beginning with a letter or digit",
            ) from error
        raise UsageError(
            f"there are no such scopes: {', '.join(scopes) or '(none)'}",
            kept="nothing was changed",
            next=f"use {', '.join(SCOPES)}",
        ) from error


def _find(keys: Sequence[NamedKey], name: str) -> int:
    names = [key.name for key in keys]
    if name in names:
        return names.index(name)
    meant = nearest_word(name, names)
    raise UsageError(
        f"there is no key called {name!r}",
        kept="nothing was changed",
        next=f"did you mean {meant}?" if meant else "`melete serve keys list` shows those that there are",
    )


def _untrusted(shown: str, why: str) -> StoreError:
    return StoreError(
        f"the keys of the server cannot be read: {why if shown in why else f'{shown}: {why}'}",
        kept="the file was not touched, and no named key opens the server",
        next=f"put {shown} back from a backup, or move it away and make the keys anew with `melete serve keys add`",
    )
