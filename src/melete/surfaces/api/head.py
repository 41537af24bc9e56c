"""The head of a request, read strictly: what two readers could understand in two ways is refused. Pure."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from msgspec import Struct

from melete.app.key_file import PREFIX
from melete.surfaces.api.errors import ApiError

LONGEST_ADDRESS = 8 << 10
LARGEST_HEADERS = 32 << 10
MOST_HEADERS = 100
MOST_FIELDS = 100
ONCE = frozenset({
    b"authorization", b"content-length", b"content-type", b"expect", b"host", b"idempotency-key", b"last-event-id",
    b"origin", b"sec-fetch-mode", b"sec-fetch-site", b"transfer-encoding", b"x-hermes-session-id", b"x-melete-session-id",
})  # fmt: skip
"""Headers that decide something: with two of one kind it would depend on the reader what was decided."""
FORWARDED = frozenset({
    b"cf-connecting-ip", b"forwarded", b"true-client-ip", b"via", b"x-forwarded", b"x-forwarded-for", b"x-forwarded-host",
    b"x-forwarded-proto", b"x-forwarded-server", b"x-original-forwarded-for", b"x-real-ip",
})  # fmt: skip
"""What proxies add: a request with one of these comes from somebody else than the machine that it seems to come from."""
KEY_FIELDS = frozenset({
    "key", "keys", "apikey", "accesskey", "accesstoken", "token", "auth", "authorization", "authtoken", "bearer",
    "bearertoken", "secret", "password", "xapikey", "serverkey", "meleteserverkey",
})  # fmt: skip
"""Names of query fields, without punctuation, in which people put keys."""

NAMES_WITH_SLASH = "/v1/models/"
"""The path behind which a name may hold slashes: PROVIDER/NAME."""

_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_ODD_PATH = re.compile(r"[^!-~]|\\|//|/\.{1,2}(?:/|$)")
_ISSUED = re.compile(PREFIX + r"[A-Za-z0-9_-]{24}")  # more than half of a key that we made
_LENGTH = re.compile(rb"\d{1,15}", re.ASCII)


class Head(Struct, frozen=True, kw_only=True):
    """What the gate needs of a request's head: texts are Latin-1, empty where the header is missing.

    `length` is the body's where the request says so; `chunked` says that it does not, but sends one.
    """

    method: str
    path: str
    host: str
    origin: str
    key: bytes
    scheme: str
    length: int | None
    chunked: bool
    expects: bool
    forwarded: bool
    fetch_site: str
    fetch_mode: str
    fields: Mapping[bytes, bytes]

    @property
    def has_body(self) -> bool:
        """Whether a body comes behind it."""
        return self.chunked or bool(self.length)

    @property
    def is_hidden_page(self) -> bool:
        """Whether a browser says that another page wants this, but not which: as a picture, a script or a frame, not as a link."""
        elsewhere = self.fetch_site in ("cross-site", "same-site") and not self.origin
        return elsewhere and not (self.fetch_mode == "navigate" and self.method == "GET")


def read_head(scope: Mapping[str, Any]) -> Head:
    """The head of an ASGI request; raises ApiError for one that is too large, contradicts itself or could mean two things."""
    fields, forwarded = _fields(scope["headers"])
    _check_address(scope)
    length, chunked = _length(fields, scope["http_version"])
    kind, _, key = fields.get(b"authorization", b"").strip().partition(b" ")
    return Head(
        method=scope["method"],
        path=scope["path"],
        host=_text(fields, b"host"),
        origin=_text(fields, b"origin"),
        key=key.strip() if kind.lower() == b"bearer" else b"",
        scheme=kind.decode("latin-1"),
        length=length,
        chunked=chunked,
        expects=b"expect" in fields,
        forwarded=forwarded,
        fetch_site=_text(fields, b"sec-fetch-site"),
        fetch_mode=_text(fields, b"sec-fetch-mode"),
        fields=fields,
    )


def _fields(headers: list[tuple[bytes, bytes]]) -> tuple[dict[bytes, bytes], bool]:
    """The headers that are there at most once, and whether a proxy has added some."""
    if len(headers) > MOST_HEADERS or sum(len(name) + len(value) for name, value in headers) > LARGEST_HEADERS:
        raise ApiError(
            431,
            "headers_too_large",
            f"there are more than {MOST_HEADERS} headers, or more than {LARGEST_HEADERS:,} bytes of them",
            next="send less",
            headers={"connection": "close"},
        )
    fields: dict[bytes, bytes] = {}
    forwarded = False
    for given, value in headers:
        name = given.lower()
        forwarded = forwarded or name in FORWARDED
        if name not in ONCE:
            fields.setdefault(name, value)
            continue
        shown = name.decode("ascii", "replace")
        if name in fields:
            raise _ambiguous("duplicate_header", f"the header {shown} is there twice")
        if _CONTROL.search(value):
            raise _ambiguous("invalid_header", f"the header {shown} holds control characters")
        fields[name] = value
    return fields, forwarded


def _check_address(scope: Mapping[str, Any]) -> None:
    path, raw, query = scope["path"], scope.get("raw_path") or b"", scope["query_string"]
    if len(raw) + len(query) > LONGEST_ADDRESS:
        raise ApiError(
            414,
            "address_too_long",
            f"the address has more than {LONGEST_ADDRESS:,} bytes",
            next="send what it says in the body",
            headers={"connection": "close"},
        )
    if not path.startswith("/"):
        raise _ambiguous("invalid_address", "the request's target is no path")
    slash = b"%2f" in raw.lower() and not path.startswith(NAMES_WITH_SLASH)  # clients write those of a name so
    if _ODD_PATH.search(path) or slash or b"%5c" in raw.lower():
        raise _ambiguous(
            "invalid_address", "the path holds characters or segments that no route has", next="see /openapi.json"
        )
    if query:
        _check_query(query)


def _check_query(query: bytes) -> None:
    try:
        pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise _ambiguous("invalid_address", f"the query has more than {MOST_FIELDS} fields") from error
    if any(re.sub(r"[^a-z]", "", name.lower()) in KEY_FIELDS or _ISSUED.search(value) for name, value in pairs):
        raise ApiError(
            400,
            "key_in_address",
            "a key stands in the address, where proxies and histories keep it; it was not looked at",
            next="send it in the header `Authorization: Bearer …`, and rotate it",
            headers={"connection": "close"},
        )


def _length(fields: Mapping[bytes, bytes], version: str) -> tuple[int | None, bool]:
    """How long the body is said to be, and whether it comes in chunks; one excludes the other."""
    given, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
    if coding is not None and (given is not None or version == "1.0" or coding.strip().lower() != b"chunked"):
        raise _ambiguous("ambiguous_length", "it is not clear where the body ends: Transfer-Encoding excludes others")
    if given is None:
        return None, coding is not None
    if not _LENGTH.fullmatch(given.strip()):
        raise _ambiguous("ambiguous_length", "Content-Length is not a number of bytes")
    return int(given), False


def _ambiguous(code: str, what: str, *, next: str = "send it in one way only") -> ApiError:
    return ApiError(400, code, what, next=next, headers={"connection": "close"})


def _text(fields: Mapping[bytes, bytes], name: bytes) -> str:
    return fields.get(name, b"").strip().decode("latin-1")
