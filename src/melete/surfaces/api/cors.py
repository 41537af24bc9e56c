"""What a browser is told about pages of other origins: which may read answers, and what they may send. Pure.

Credentials of a browser (cookies, client certificates) are never asked for: the key is in a header that the page sets itself.
"""

import re
from collections.abc import Sequence

from melete.surfaces.api.head import Head
from melete.surfaces.api.hosts import ANY, Names

METHODS = "GET, POST, PATCH, DELETE"
SHOWN = (
    "Retry-After, X-Request-Id, X-Melete-Session-Id, X-Melete-Run-Id, Idempotent-Replayed, "
    "X-Ratelimit-Limit-Requests, X-Ratelimit-Remaining-Requests, X-Ratelimit-Reset-Requests"
)
"""Headers of answers that a page may read."""
USUAL = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Melete-Session-Id, X-Hermes-Session-Id"
SECONDS = "600"
"""For which a browser may remember the answer to its question."""
_NAMES = re.compile(rb"[A-Za-z0-9-]{1,64}(?:[ \t]*,[ \t]*[A-Za-z0-9-]{1,64}){0,63}")


def asks(head: Head) -> bool:
    """Whether a browser asks what a page may do, before it lets the page do it."""
    return head.method == "OPTIONS" and bool(head.origin) and b"access-control-request-method" in head.fields


def headers(origin: str, names: Names) -> Sequence[tuple[bytes, bytes]]:
    """What each answer carries to a request of this origin, which was admitted; empty for none."""
    vary = [(b"vary", b"Origin")] if names.some_origin else []
    if not origin:
        return vary
    return [
        *vary,
        (b"access-control-allow-origin", origin.encode("latin-1") if names.lists(origin) else ANY.encode()),
        (b"access-control-expose-headers", SHOWN.encode()),
    ]


def preflight(head: Head, names: Names) -> dict[str, str]:
    """What a browser is told that asks: any plain header may be sent, since a key is needed with all of them."""
    wanted = head.fields.get(b"access-control-request-headers", b"").strip()
    told = {
        "access-control-allow-methods": METHODS,
        "access-control-allow-headers": wanted.decode("ascii") if _NAMES.fullmatch(wanted) else USUAL,
        "access-control-max-age": SECONDS,
    }
    if head.fields.get(b"access-control-request-private-network") == b"true" and names.lists(head.origin):
        told["access-control-allow-private-network"] = "true"
    return told
