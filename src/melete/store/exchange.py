"""Whole sessions as lines of text, out of the store and back: the form of an export. Part of the store, pure.

A session is a line that begins with `{"melete_session": 1`, its header, and a line for each fact: the JSON of its record, byte
for byte. A fact whose JSON holds a line break (a provider may indent what it sends) is `{"fact64": …}` with that JSON in base64.
Sessions stand one after the other in a file.
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from melete.core.errors import StoreError
from melete.core.event import EPOCH, Fact, Notice, Opened, Reply, Said, Steered
from melete.core.transcript import Transcript
from melete.store import record
from melete.store.names import is_session_id

FORM = 1
"""The version of the form that is written; what is newer is not read."""
LARGEST_GAP = 10_000
"""Missing numbers in a row that are filled; more than these is no accident."""
UNREADABLE = (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError)
"""What the decoder says of a line that is no JSON, not ours, no text, or nested without end."""


class UnreadableError(StoreError):
    """A line of a file that is to be imported makes no sense; `what` says why."""


class Header(Struct, frozen=True, kw_only=True):
    """What is said before a session's facts; `redacted` is the number of facts that are not as they are stored."""

    melete_session: int = 0
    id: str = ""
    title: str = ""
    owner: str = ""
    facts: int = 0
    messages: int = 0
    redacted: int = 0
    version: str = ""
    exported: datetime = EPOCH


class _Wrapped(Struct, frozen=True, kw_only=True):
    fact64: str


class _Peek(Struct, frozen=True, kw_only=True):
    """What tells the lines of an import apart."""

    melete_session: int | None = None
    fact64: str | None = None
    type: msgspec.Raw | None = None
    session: msgspec.Raw | None = None


_header = msgspec.json.Decoder(Header)
_wrapped = msgspec.json.Decoder(_Wrapped)
_peek = msgspec.json.Decoder(_Peek)


# ---- out -------------------------------------------------------------------------------------------------------------


def written(
    facts: Sequence[Fact], session: str, *, redact: Callable[[str], str] | None, version: str, now: datetime
) -> Iterator[bytes]:
    """The lines of one session, the header first, each with its line break; without `redact` they are byte for byte."""
    clean = [redacted(fact, redact) for fact in facts] if redact else list(facts)
    state = Transcript(clean)
    header = Header(
        melete_session=FORM,
        id=session,
        title=state.title,
        owner=state.opened.owner if state.opened else "",
        facts=len(clean),
        messages=sum(isinstance(fact, Said | Steered | Reply) for fact in clean),
        redacted=sum(new is not old for new, old in zip(clean, facts, strict=True)),
        version=version,
        exported=now,
    )
    yield msgspec.json.encode(header) + b"\n"
    for fact in clean:
        yield line(fact)


def line(fact: Fact) -> bytes:
    """The fact on a line of its own."""
    body = record.encode_fact(fact)
    if b"\n" in body or b"\r" in body:
        body = msgspec.json.encode(_Wrapped(fact64=base64.b64encode(body).decode()))
    return body + b"\n"


def redacted(fact: Fact, redact: Callable[[str], str]) -> Fact:
    """The fact without secrets, the same object when it holds none.

    One that cannot be told without its secret, such as a time that is somebody's password, becomes a notice that says so.
    """
    body = record.encode_fact(fact).decode()
    clean = redact(body)
    if clean == body:
        return fact
    for attempt in (clean, _redacted_strings(body, redact)):
        found = record.decode_fact(attempt.encode(), fact.session)
        if isinstance(found, type(fact)) and found.seq == fact.seq and redact(attempt) == attempt:
            return found
    text = "What stood here cannot be told without a secret in it; it was left out."
    return Notice(
        seq=fact.seq, session=fact.session, run=redact(fact.run), at=fact.at, text=text, level="warning", about="export"
    )


def _redacted_strings(body: str, redact: Callable[[str], str]) -> str:
    def clean(value: Any) -> Any:
        match value:
            case str():
                return redact(value)
            case dict():
                return {clean(key): clean(inner) for key, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
            case list():
                return [clean(inner) for inner in value]  # pyright: ignore[reportUnknownVariableType]
            case _:
                return value

    return msgspec.json.encode(clean(msgspec.json.decode(body))).decode()


# ---- in --------------------------------------------------------------------------------------------------------------


def read_header(text: bytes) -> Header | None:
    """The header that the line is, None when it is another line; raises UnreadableError for one of no use."""
    if b'"melete_session"' not in text:
        return None
    try:
        if _peek.decode(text).melete_session is None:
            return None
        header = _header.decode(text)
    except UNREADABLE as error:
        if not text.startswith(b'{"melete_session"'):
            return None
        raise UnreadableError(f"it is no header of a session: {error}") from error
    if not 1 <= header.melete_session <= FORM:
        raise UnreadableError(
            f"the session {header.id!r} has the form {header.melete_session}; this version reads {FORM}"
        )
    if not is_session_id(header.id):
        raise UnreadableError(f"{header.id!r} cannot be the id of a session: use a-z, 0-9 and '-', at most 80")
    return header


def is_fact(text: bytes) -> bool:
    """Whether the line is meant to be a fact, readable or not: a row names its session, a fact does not."""
    if text.startswith((b'{"type":', b'{"fact64":')):
        return True
    try:
        found = _peek.decode(text)
    except UNREADABLE:
        return False
    return found.session is None and (found.type is not None or found.fact64 is not None)


def read_fact(text: bytes, session: str) -> Fact:
    """The fact on a line; raises UnreadableError."""
    body = text
    if text.startswith(b'{"fact64":'):
        try:
            body = base64.b64decode(_wrapped.decode(text).fact64, validate=True)
        except (*UNREADABLE, binascii.Error) as error:
            raise UnreadableError(f"it is no fact: {error}") from error
    try:
        found = record.decode_fact(body, session)
    except RecursionError as error:
        raise UnreadableError(f"it is no fact: {error}") from error
    if isinstance(found, record.Unknown):
        kind = f"a fact of the type {found.type!r}" if found.type else "a fact"
        raise UnreadableError(f"it is not {kind} as this version reads it")
    return found


class Reading:
    """A session that is being read: its facts in order, with a notice in each place whose line was lost."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.facts: list[Fact] = []
        self.read = 0

    def add(self, fact: Fact) -> None:
        """Take the next fact; raises UnreadableError for one that cannot stand here."""
        missing = fact.seq - len(self.facts) - 1
        if not 0 <= missing <= LARGEST_GAP:
            raise UnreadableError(f"it is fact {fact.seq} in the place of {len(self.facts) + 1}")
        if isinstance(fact, Opened) != (fact.seq == 1):
            raise UnreadableError("a session begins with how it was opened, and is opened once")
        self._fill(missing, fact.at)
        self.facts.append(fact)
        self.read += 1

    @property
    def missing(self) -> int:
        """How many facts the header announces that were not read."""
        return max(0, self.header.facts - self.read)

    def _fill(self, count: int, at: datetime) -> None:
        for _ in range(count):
            lost: Fact = Notice(
                text="What stood here could not be read when this session was imported.",
                level="warning",
                about="import",
                at=at,
            )
            if not self.facts:
                lost = Opened(source="import", owner=self.header.owner, title=self.header.title, at=at)
            self.facts.append(lost)


def same(left: Sequence[Fact], right: Sequence[Fact], *, times: bool = True) -> bool:
    """Whether the facts say the same, one for one, whatever session they stand in; with `times`, at the same times."""
    return len(left) == len(right) and all(
        _plain(one, times=times) == _plain(other, times=times) for one, other in zip(left, right, strict=True)
    )


def _plain(fact: Fact, *, times: bool) -> bytes:
    return record.encode_fact(msgspec.structs.replace(fact, seq=0, session="", at=fact.at if times else EPOCH))
