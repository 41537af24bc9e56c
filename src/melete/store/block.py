"""A block of the search index: eight neighbouring messages, their words as signs, and what is known of each. Part of the store.

A sign is four bytes: a mask of the messages that hold a word, and a checksum of the word. Whether a block holds a word, and where,
is so read without decoding anything.
"""

import sys
import zlib
from array import array
from collections.abc import Iterable, Sequence

import msgspec

SIZE = 8
"""Messages of a block."""
FULL = (1 << SIZE) - 1
COMPRESSION = 3
_WIDTH = 4
_CHECK = (1 << 24) - 1
_LITTLE = sys.byteorder == "little"


class Entry(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What is known of a message beside its text; `tools` are those that it calls or whose result it is."""

    seq: int
    at: float
    role: str
    tools: tuple[str, ...] = ()
    ref: str = ""
    size: int = 0


_entries = msgspec.msgpack.Decoder(list[Entry])
_texts = msgspec.msgpack.Decoder(list[str])
_encoder = msgspec.msgpack.Encoder()


def role_term(role: str) -> str:
    """The term that all messages of a role are indexed under."""
    return f"~role {role}"


def tool_term(tool: str) -> str:
    """The term that all messages with a tool are indexed under."""
    return f"~tool {tool}"


def checksum(term: str) -> int:
    """The number that stands for a term: the index holds no words."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


def signs(messages: Iterable[Iterable[str]]) -> tuple[bytes, str]:
    """The signs of a block with these terms of each message, and all its terms as the index of words takes them."""
    masks: dict[str, int] = {}
    bit = 1
    for terms in messages:
        for term in set(terms):
            masks[term] = masks.get(term, 0) | bit
        bit <<= 1
    numbers = list(map(checksum, masks))
    checks: dict[int, int] = {}
    for number, mask in zip(numbers, masks.values(), strict=True):
        check = number & _CHECK
        checks[check] = checks.get(check, 0) | mask
    packed = array("I", [check << SIZE | mask for check, mask in checks.items()])
    if not _LITTLE:
        packed.byteswap()
    return packed.tobytes(), " ".join(map("{:x}".format, dict.fromkeys(numbers)))


def sign(term: str) -> bytes:
    """What `mask` looks for."""
    return (checksum(term) & _CHECK).to_bytes(3, "little")


def mask(signs: bytes, sign: bytes) -> int:
    """Which messages of a block hold a term: a bit for each, the first is the least."""
    at = signs.find(sign)
    while at >= 0 and at % _WIDTH != 1:
        at = signs.find(sign, at + 1)
    return signs[at - 1] if at > 0 else 0


def sound(signs: object) -> bytes:
    """The signs of a block as they were read; raises ValidationError for what is none."""
    if not isinstance(signs, bytes) or len(signs) % _WIDTH:
        raise msgspec.ValidationError("a block's signs cannot be read")
    return signs


def pack_entries(entries: Sequence[Entry]) -> bytes:
    """The entries as stored."""
    return _encoder.encode(entries)


def unpack_entries(stored: bytes) -> list[Entry]:
    """The entries; raises ValidationError for what is none."""
    try:
        return _entries.decode(stored)
    except (TypeError, msgspec.DecodeError) as error:
        raise msgspec.ValidationError(f"a block's messages cannot be read: {error}") from error


def pack_texts(texts: Sequence[str]) -> bytes:
    """The texts as stored."""
    return zlib.compress(_encoder.encode(texts), COMPRESSION)


def unpack_texts(stored: bytes) -> list[str]:
    """The texts; raises ValidationError for what is none."""
    try:
        return _texts.decode(zlib.decompress(stored))
    except (TypeError, zlib.error, msgspec.DecodeError) as error:
        raise msgspec.ValidationError(f"a block's texts cannot be read: {error}") from error
