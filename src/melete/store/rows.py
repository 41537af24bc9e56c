"""Conversations of other programs as sessions: one message a row of JSON. Part of the store, pure.

A row is `{"session", "role", "content", "title"?, "at"?, "ref"?}`. What comes in is told apart from what a person said here: its
text is marked as imported, and what neither a user nor the model said (a system's words, a tool's result) becomes a user's
message that begins with its role, so that every wire takes the conversation when it goes on.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
from msgspec import Struct

from melete.core.event import Fact, Opened, Reply, Said
from melete.core.message import Image, Message, Origin, Part, Text
from melete.store.exchange import UnreadableError
from melete.store.names import is_session_id

SOURCE = "import"
NAME = "imported"
"""The key of `Opened.about` under which a session's name in the file is kept."""
SLUG = 60
LONGEST_ROLE = 40
IN_SECONDS = 1e11
"""Numbers above this are no seconds since 1970 but thousandths, or thousandths of those."""
SCALES = (1, 1_000, 1_000_000, 1_000_000_000)
TICK = timedelta(microseconds=1)
LATEST = datetime.max.replace(tzinfo=UTC)

_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,([A-Za-z0-9+/=\s]*)")


class Row(Struct, frozen=True, kw_only=True):
    """One message; `at` is an ISO time or a number of seconds since 1970."""

    session: str | int
    role: str
    content: Any = None
    title: str | None = None
    at: str | int | float | None = None
    ref: str | int | None = None


decode = msgspec.json.Decoder(Row).decode
"""The row on a line that was read before."""


def read(line: bytes) -> Row:
    """The row on a line; raises UnreadableError that says what is wrong with it."""
    try:
        row = decode(line)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableError(f"it is no message: {error}") from error
    if row.session == "":
        raise UnreadableError("it names no session")
    if not row.role.strip():
        raise UnreadableError("it has no role")
    moment(row.at)
    return row


def moment(value: str | int | float | None) -> datetime | None:
    """The time that a row gives, UTC where it names no zone; None for none. Raises UnreadableError."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value.strip())
            return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
        scale = next((scale for scale in SCALES if abs(value) <= IN_SECONDS * scale), 1)
        return datetime.fromtimestamp(value / scale, UTC)
    except (ValueError, OverflowError, OSError) as error:
        shown = value[:40] if isinstance(value, str) else value
        raise UnreadableError(f"{shown!r} is no time: write 2026-01-31T12:00:00Z or seconds since 1970") from error


def session_id(name: str) -> str:
    """The id of the session that a file calls `name`: the name itself, or what is left of it and a checksum."""
    if is_session_id(name):
        return name
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:SLUG].rstrip("-")
    mark = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{slug or SOURCE}-{mark}"


def facts(name: str, rows: Sequence[Row], *, now: datetime) -> list[Fact]:
    """The session that the rows make, in their order; what has no time stands right behind what is before it, or at `now`."""
    times = list(_times((moment(row.at) for row in rows), now=now))
    title = next((row.title for row in rows if row.title), "")
    first = times[0] if times else now
    opened = Opened(source=SOURCE, title=" ".join(title.split()), at=first, about={NAME: name})
    return [opened, *(_fact(row, at) for row, at in zip(rows, times, strict=True))]


def _times(given: Iterable[datetime | None], *, now: datetime) -> Iterator[datetime]:
    last = now.astimezone(UTC)
    for at in given:
        last = at or (last + TICK if last < LATEST else last)
        yield last


def _fact(row: Row, at: datetime) -> Fact:
    role = " ".join(row.role.lower().split())[:LONGEST_ROLE]
    ref = "" if row.ref is None else str(row.ref)
    parts = tuple(_parts(row.content))
    if role in ("assistant", "model"):
        return Reply(message=Message(role="assistant", parts=parts, by=Origin(kind="import")), at=at, ref=ref)
    if role not in ("user", "human"):
        words = "\n\n".join(part.text for part in parts if isinstance(part, Text))
        others = tuple(part for part in parts if not isinstance(part, Text))
        parts = (_text(f"[{role}]\n{words}"), *others)
    who = "" if role == "user" else role
    return Said(message=Message(role="user", parts=parts, by=Origin(kind="import", who=who)), at=at, ref=ref)


def _parts(content: Any) -> Iterator[Part]:
    match content:
        case None | "":
            return
        case str():
            yield _text(content)
        case list():
            for item in cast("list[Any]", content):
                yield _part(item)
        case _:
            yield _part(content)


def _part(item: Any) -> Part:
    """A part as the usual APIs have it; what is none of these is kept as its JSON."""
    match item:
        case str():
            return _text(item)
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return _text(text)
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return _image(url)
        case {"type": "image_url" | "input_image", "image_url": str(url)}:
            return _image(url)
        case {"type": "image", "source": {"type": "base64", "media_type": str(kind), "data": str(data)}}:
            return Image(media_type=kind, data=data, taint="import")
        case _:
            return _text(msgspec.json.encode(item).decode())


def _image(url: str) -> Part:
    if found := _DATA.fullmatch(url):
        return Image(media_type=found[1], data="".join(found[2].split()), taint="import")
    if url.startswith(("https://", "http://")):
        return Image(url=url, taint="import")
    return _text(url)


def _text(text: str) -> Text:
    return Text(text=text, taint="import")
