"""One record of a log: a line of checksum and JSON, and how a file of such lines is read after any accident.

Part of the store. Sessions' logs and the ledger share the format: `<crc32, 8 hex digits> <JSON>\\n`. The checksum starts
from the name of the log, so that a record which was copied out of another log does not count. A body that holds a line
break (a provider may indent its JSON, and its bytes are kept as they are) is written as `=` and base64.
"""

import base64
import binascii
import zlib
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct

from melete.core.errors import StorageError
from melete.core.event import Compacted, Fact, Framed, Reply, Said, Steered

HEAD = 9


class Record(Struct, frozen=True, kw_only=True):
    """A record that is whole: where it starts, where the next one would, and its JSON."""

    offset: int
    end: int
    body: bytes


class Piece(Struct, frozen=True, kw_only=True):
    """Bytes of a log that are not a record."""

    offset: int
    raw: bytes


class Scan(Struct, frozen=True, kw_only=True):
    """What a stretch of a log holds; whole records end at `end`, everything behind it is the `tail`."""

    records: list[Record]
    damage: list[Piece]
    end: int
    tail: bytes


class _Numbered(Struct, frozen=True, kw_only=True):
    seq: int = 0
    number: int = 0


class Unknown(Struct, frozen=True, kw_only=True):
    """A whole record that this version cannot read: a newer one wrote it."""

    seq: int = 0
    type: str = ""


_facts: msgspec.json.Decoder[Fact] = msgspec.json.Decoder(Fact)
_numbered = msgspec.json.Decoder(_Numbered)
_unknown = msgspec.json.Decoder(Unknown)
_encoder = msgspec.json.Encoder()
_defaults: dict[type[Any], tuple[tuple[str, Any], ...]] = {}


def seed(name: str) -> int:
    """The checksum that the records of the log `name` start from."""
    return zlib.crc32(name.encode())


def line(body: bytes, start: int) -> bytes:
    """The record that holds `body`, line break included."""
    if b"\n" in body:
        body = b"=" + base64.b64encode(body)
    return b"%08x %s\n" % (zlib.crc32(body, start), body)


def check(raw: bytes, start: int) -> bytes | None:
    """The JSON of a line without its line break, or None when it is not a whole record of this log."""
    if raw[8:HEAD] != b" ":
        return None
    body = raw[HEAD:]
    if b"%08x" % zlib.crc32(body, start) != raw[:8]:
        return None
    if body[:1] != b"=":
        return body
    try:
        return base64.b64decode(body[1:], validate=True)
    except binascii.Error:
        return None


def scan(data: bytes, start: int, *, base: int = 0) -> Scan:
    """Split `data`, which begins `base` bytes into its log, into records, damage between them, and the tail."""
    records: list[Record] = []
    damage: list[Piece] = []
    bad: list[Piece] = []
    position = end = 0
    while (stop := data.find(b"\n", position)) >= 0:
        raw = data[position:stop]
        body = check(raw, start)
        if body is None:
            bad.append(Piece(offset=base + position, raw=raw + b"\n"))
        else:
            damage += bad
            bad = []
            end = stop + 1
            records.append(Record(offset=base + position, end=base + end, body=body))
        position = stop + 1
    return Scan(records=records, damage=damage, end=base + end, tail=data[end:])


def encode_fact(fact: Fact) -> bytes:
    """The fact as JSON without its session, which the log's name tells, and without fields that have their default.

    Raises StorageError for text that JSON cannot carry, such as half of a surrogate pair.
    """
    kind = type(fact)
    fields = _defaults.get(kind)
    if fields is None:
        fields = _defaults[kind] = _fields(kind)
    lean: dict[str, Any] = {"type": kind.__struct_config__.tag}
    for name, default in fields:
        value = getattr(fact, name)
        if default is NODEFAULT or value != default:
            lean[name] = value
    try:
        body = _encoder.encode(lean)
        if _carries_raw_bytes(fact):
            _facts.decode(body)
    except (UnicodeEncodeError, msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise StorageError(
            f"a fact {lean['type']!r} cannot be written as JSON: {error}",
            kept="nothing of it was stored; everything before it is kept",
            next="this is a bug in what made the fact: report it with the line above",
        ) from error
    return body


def decode_fact(body: bytes, session: str) -> Fact | Unknown:
    """The fact of a whole record, or Unknown when a newer version of Melete wrote it."""
    try:
        fact = _facts.decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return _decode_unknown(body)
    msgspec.structs.force_setattr(fact, "session", session)
    return fact


def number(body: bytes) -> int:
    """The number of a whole record: a fact's `seq`, a ledger fact's `number`; 0 when it has none."""
    try:
        found = _numbered.decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return 0
    return found.seq or found.number


def _carries_raw_bytes(fact: Fact) -> bool:
    """Whether it holds JSON of somebody else, which is written as it is and has to be proved whole."""
    match fact:
        case Said() | Reply() | Steered():
            return fact.message.wire is not None
        case Compacted():
            return any(message.wire is not None for message in fact.messages)
        case _:
            return isinstance(fact, Framed)


def _decode_unknown(body: bytes) -> Unknown:
    try:
        return _unknown.decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return Unknown()


def _fields(kind: type[Fact]) -> tuple[tuple[str, Any], ...]:
    found: list[tuple[str, Any]] = []
    for field in msgspec.structs.fields(kind):
        default = field.default
        if default is NODEFAULT and field.default_factory is not NODEFAULT:
            default = field.default_factory()
        if field.name != "session":
            found.append((field.name, default))
    return tuple(found)
