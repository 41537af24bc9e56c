"""From what went wrong on the way to a model to one clear error: status, body and exception in, ModelError out. Part: models.

Every message names the cause, the URL and what to do. No message holds a key: what servers say is scrubbed first.
"""

import errno
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import h11
import msgspec

from melete.core.model import (
    AuthError,
    BadRequestError,
    ConnectionFailedError,
    ContentFilterError,
    ContextOverflowError,
    MalformedReplyError,
    ModelError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    TooLargeError,
    UnavailableError,
    UnknownModelError,
)
from melete.core.plugin import Lazy
from melete.models.connection import ProxyRefusedError
from melete.models.spec import ModelSpec, endpoint, shown

EXCERPT = 300
ANYWHERE = re.IGNORECASE | re.DOTALL
NO_KEY, NO_CREDIT, FORBIDDEN, TOO_LARGE, TOO_MANY, SERVER_FAILED = 401, 402, 403, 413, 429, 500
SHORTEST_SECRET = 8
LONGEST_WAIT = 1e9
UNREACHABLE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL}
ASKED_TOO_MUCH = (0, 400, 403, 404, 413, 422, 500)

# Patterns are compiled when they are first needed: a request that goes well needs none.
_TITLE = r"<title[^>]*>(.*?)</title>"
_TAGS = r"<style.*?</style>|<script.*?</script>|<[^>]*>"
_KEY_LIKE = r"\b(?:(?:sk|rk|pk|gsk|xai|key|nvapi|hf)[-_*]|AIza)[\w*.\-]{6,}"
_OVERFLOW = (
    r"context_length_exceeded|context_window_exceeded|exceed_context_size|model_max_prompt_tokens_exceeded"
    r"|maximum context length|context (length|window|size|limit)|prompt is too long|prompt too long|input is too long"
    r"|input length .*exceed|exceeds? the (model'?s? )?(maximum|max|available|limit)[\w ]*(tokens?|context|length)"
    r"|too many (input )?tokens|token(s)? (count|limit).*exceed|(prompt|input|request) (has|contains|is) \d[\d,]* tokens"
    r"|reduce the length of (the )?(messages|input|prompt)|larger than the .*context|longer than the .*context"
)
_QUOTA = (
    r"insufficient_quota|billing_hard_limit|insufficient (credit|balance|funds|quota)|out of credits?"
    r"|credit balance|exceeded your current quota|payment required|not enough credits?|more credits"
    r"|api usage limits"
)
_FILTER = (
    r"content_filter|content_policy|content management policy|responsible ?ai|moderation|flagged|safety (system|setting|filter)"
    r"|data_inspection_failed|prohibited_content|content filtering"
    r"|invalid_prompt|(bio|cyber)_policy|policy_violation"
)
_MODEL = (
    r"model_not_found|no such model|unknown model|not a valid model|invalid model|model .{0,120}(not found|does ?n.t exist"
    r"|not exist|not available|is not supported|not loaded)|no endpoints found for|models/\S+ is not found"
    r"|not_found_error.{0,30}\bmodel:"
)
_RATE = r"rate.?limit|too many requests|requests per (minute|second|day)|tokens per (minute|day)"
_OVERLOADED = r"overloaded|slow_down|over capacity|at capacity|server is busy|model is (currently )?loading"
_KEY = (
    r"invalid_api_key|(invalid|incorrect|missing|no) (api.?key|authorization|authentication)"
    r"|authentication_error|invalid x-api-key|api_key_invalid|api key (not valid|expired)"
)
_INVALID = (
    r"invalid_request|invalid_argument|bad_request|invalid_type|invalid_encrypted_content|invalid_(base64_)?image"
    r"|image_parse_error|image_too_(large|small)|image_file_|unsupported_image|empty_image_file|failed_to_download_image"
)
_ITEM = r"\bitem with id\b.{0,120}not found|items are not persisted"
_PICTURE = r"image.{0,120}\b(exceeds?|too large)\b"
_DURATION = r"(\d+(?:\.\d+)?)(ms|h|m|s)"
_WAIT = r"(?:(?:try again|retry) in |\"retryDelay\":\s*\")((?:\d+(?:\.\d+)?(?:ms|h|m|s) ?)+)"
_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


Found = tuple[type[ModelError], str, str]
"""A class of the taxonomy, what happened, and what to do."""


class Failure:
    """What a server said went wrong: HTTP status (0 inside a stream), headers, and the message out of the body."""

    def __init__(self, spec: ModelSpec, url: str, *, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.spec = spec
        self.url = shown(url)
        self.status = status
        self.headers = headers
        self.words = excerpt(body, spec)
        self.searched = scrub(body[:20_000].decode("utf-8", "replace"), spec)
        self.html = looks_like_html(body)

    @property
    def said(self) -> str:
        """Status and words of the server in one clause."""
        status = f"HTTP {self.status}" if self.status else "error in the stream"
        return f"{status}: {self.words}" if self.words else status

    def error(self) -> ModelError:
        """The error of the taxonomy that this failure is."""
        wait = retry_after(self.headers)
        if wait is None and (told := re.search(_WAIT, self.searched, re.IGNORECASE)):
            wait = _spans(told.group(1))
        for find in (self._by_account, self._by_size, self._by_request, self._by_server):
            if (found := find()) is not None:
                kind, what, fix = found
                return kind(what, next=fix, status=self.status, retry_after=wait)
        return BadRequestError(
            f"{self.url} did not accept the request ({self.said})",
            next="see the server's message; `melete doctor` checks the settings",
            status=self.status,
        )

    def _matches(self, pattern: str) -> bool:
        return not self.html and re.search(pattern, self.searched, re.IGNORECASE) is not None

    def _by_account(self) -> Found | None:
        spec, vendor = self.spec, self.spec.vendor
        waits = re.search(_WAIT, self.searched, re.IGNORECASE)
        if self.status == NO_CREDIT or (self._matches(_QUOTA) and not waits):
            what = f"the account at {vendor} has no credit left ({self.said})"
            return QuotaError, what, "add credit, or choose another model"
        busy = self.status in (0, 400, 503) and self._matches(_RATE)
        if self.status == TOO_MANY or busy:
            what = f"{vendor} limits how often it may be asked ({self.said})"
            return RateLimitError, what, "wait, or choose another model"
        unknown = self.status in (0, 400, 403) and self._matches(_KEY)
        if self.status == NO_KEY or unknown:
            state = "rejected the key" if spec.api_key else "wants a key, and none is set"
            return AuthError, f"{self.url} {state} ({self.said})", f"set {spec.key_variable} to a key of {vendor}"
        if self.status == FORBIDDEN and not self._matches(_FILTER):
            fix = f"check what the key in {spec.key_variable} may use, and the account's region"
            return AuthError, f"{self.url} does not allow this ({self.said})", fix
        return None

    def _by_size(self) -> Found | None:
        spec = self.spec
        if self.status in ASKED_TOO_MUCH and self._matches(_OVERFLOW):
            what = f"the conversation does not fit {spec.model} ({self.said})"
            return ContextOverflowError, what, "shorten it, or start anew"
        if self.status == TOO_LARGE:
            what = f"the request is larger than {self.url} takes ({self.said})"
            return TooLargeError, what, "send fewer or smaller images"
        if self.status in (400, 422) and self._matches(_PICTURE):
            what = f"{spec.vendor} takes no image as large as one of these ({self.said})"
            return TooLargeError, what, "send fewer or smaller images"
        return None

    def _by_request(self) -> Found | None:
        spec = self.spec
        if self.status in (0, 400, 404, 422) and self._matches(_MODEL):
            what = f"{spec.vendor} does not know the model {spec.model!r} ({self.said})"
            return UnknownModelError, what, "check its name; `melete doctor --online` asks the server which it has"
        if self.status in (404, 405) and not self._matches(_ITEM):
            return UnknownModelError, f"nothing answers at {self.url} ({self.said})", self._address_fix()
        if self.status in ASKED_TOO_MUCH and self._matches(_FILTER):
            return ContentFilterError, f"{spec.vendor} refused the content ({self.said})", "say it in other words"
        if self.status // 100 == 3:  # noqa: PLR2004 - a redirect
            place = shown(self.headers.get("location", "")) or "elsewhere"
            return BadRequestError, f"{self.url} redirects to {place}", "set the base URL to the final address"
        if not self.status and self._matches(_INVALID):
            return BadRequestError, f"{self.url} did not accept the request ({self.said})", "see the server's message"
        return None

    def _by_server(self) -> Found | None:
        if self.status in (503, 529) or self._matches(_OVERLOADED):
            what = f"{self.spec.vendor} is overloaded ({self.said})"
            return OverloadedError, what, "try again later, or choose another model"
        if self.status in (0, 408, 409, 425) or self.status >= SERVER_FAILED:
            return UnavailableError, f"{self.url} failed ({self.said})", "try again later, or choose another model"
        return None

    def _address_fix(self) -> str:
        base = shown(self.spec.base_url).rstrip("/")
        if re.search(r"/v\d", base) or not self.spec.wire.startswith("openai"):  # the other wires add their version
            return f"check the base URL {base} and the model name {self.spec.model!r}"
        return f"is {endpoint(base, '/v1')} the base URL? Check the model name {self.spec.model!r} as well"


def malformed(spec: ModelSpec, url: str, body: bytes) -> MalformedReplyError:
    """The error for an answer that is not this API's language: an HTML page, other JSON, plain text."""
    where, words = shown(url), excerpt(body, spec)
    if looks_like_html(body):
        return MalformedReplyError(
            f"{where} answered with a web page, not with the API ({words})",
            next="check the base URL; a proxy or a login page may stand in between",
        )
    return MalformedReplyError(
        f"{where} answered with something else than the {spec.wire} API does ({words or 'an empty body'})",
        next=f"check the base URL and the wire ({spec.wire})",
    )


def unreachable(spec: ModelSpec, url: str, error: Exception) -> ModelError:
    """The error for a connection that did not come about or broke."""
    where = shown(url)
    by = f" through the proxy {shown(spec.via)}" if spec.via else ""
    if isinstance(error, ssl.SSLError):
        return _tls(error, where)
    if isinstance(error, TimeoutError):
        what = f"{where} did not accept a connection within {spec.timeouts.connect:g} s{by}"
        return ConnectionFailedError(what, next="check the network, scheme, host and port, and the proxy")
    if isinstance(error, socket.gaierror):
        host = urlsplit(shown(spec.via) if spec.via else where).hostname
        what = f"the host {host} of {where} was not found{by} ({error.strerror})"
        failed = ConnectionFailedError(what, next="check the base URL and the network")
        failed.retryable = error.errno == socket.EAI_AGAIN
        return failed
    if isinstance(error, OSError) and _numbers(error) == {errno.ECONNREFUSED}:
        what = f"{where} refused the connection{by}"
        return ConnectionFailedError(what, next="is the server running, and is the port right?")
    return _broken(where, by, scrub(_reason(error), spec), error=error)


def _broken(where: str, by: str, reason: str, *, error: Exception) -> ModelError:
    if isinstance(error, ProxyRefusedError):
        failed = ConnectionFailedError(
            f"{where} cannot be reached{by} ({reason})", next="check the proxy's address, name and password"
        )
        failed.retryable = error.status >= SERVER_FAILED
        return failed
    if isinstance(error, OSError) and _numbers(error) & UNREACHABLE:
        return ConnectionFailedError(
            f"{where} cannot be reached{by} ({reason})", next="check the network and the proxy"
        )
    if isinstance(error, h11.RemoteProtocolError) and "closed" not in reason:
        return MalformedReplyError(
            f"{where} does not speak HTTP as it should{by} ({reason})", next="check the base URL: scheme, host and port"
        )
    again = "try again; nothing of the broken answer was carried out"
    return ConnectionFailedError(f"the connection to {where} broke{by} ({reason})", next=again)


def _numbers(error: OSError) -> set[int]:
    """The error numbers in an OSError; one that stands for several addresses names them in its text."""
    if error.errno is not None:
        return {error.errno}
    return {int(number) for number in re.findall(r"\[Errno (\d+)\]", str(error))}


def _reason(error: Exception) -> str:
    words = " ".join(str(getattr(error, "strerror", None) or error).split())
    return words[:EXCERPT] or type(error).__name__


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How long the server asks to wait, in seconds from now: milliseconds, seconds, a date or `1m30s`."""
    if (value := _number(headers.get("retry-after-ms", ""))) is not None:
        return value / 1000
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    if (value := _number(text)) is not None:
        return value
    if re.match(_DURATION, text):
        return _spans(text)
    try:
        when = Lazy[Callable[[str], datetime]]("email.utils:parsedate_to_datetime").load()(text)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def excerpt(body: bytes, spec: ModelSpec | None = None) -> str:
    """The message out of an error's body in one line: the usual JSON fields, a page's title, or the first words.

    The secrets of the spec are taken out before it is cut: half a key is one that nobody would recognise.
    """
    text = body[:200_000].decode("utf-8", "replace").strip()
    if looks_like_html(body):
        title = re.search(_TITLE, text, ANYWHERE)
        unescape = Lazy[Callable[[str], str]]("html:unescape").load()
        text = unescape(title.group(1) if title else re.sub(_TAGS, " ", text, flags=ANYWHERE))
    else:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            text = _message(msgspec.json.decode(body)) or text
    text = " ".join(text.split())
    if spec is not None:
        text = scrub(text, spec)
    return text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…"


def scrub(text: str, spec: ModelSpec) -> str:
    """The text without the key, the values of own headers, and whatever looks like a key."""
    secrets = [spec.api_key, *spec.headers.values()]
    for secret in sorted((s for s in secrets if len(s) >= SHORTEST_SECRET), key=len, reverse=True):
        text = text.replace(secret, "[key]")
    return re.sub(_KEY_LIKE, "[key]", text)


def looks_like_html(body: bytes) -> bool:
    """Whether a body is a web page."""
    head = body[:500].lstrip().lower()
    return head.startswith((b"<!doctype", b"<html", b"<head", b"<body", b"<title", b"<?xml")) or b"<html" in head


def _message(value: Any) -> str:
    """The human words in an error object, wherever servers put them."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "; ".join(filter(None, map(_message, value)))  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(value, dict):
        return ""
    fields: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
    if isinstance(place := fields.get("loc"), list) and isinstance(told := fields.get("msg"), str):
        return f"{'.'.join(map(str, place))}: {told}"  # pyright: ignore[reportUnknownArgumentType]
    for name in ("error", "message", "detail", "msg", "errors", "error_message"):
        if name in fields and (found := _message(fields[name])):
            more = fields.get("metadata")
            raw = _message(more.get("raw")) if isinstance(more, dict) else ""  # pyright: ignore
            return f"{found}: {raw}" if raw else found
    return ""


def _tls(cause: ssl.SSLError, where: str) -> ConnectionFailedError:
    reason = getattr(cause, "verify_message", "") or cause.reason or str(cause)
    if "WRONG_VERSION" in str(cause) or "RECORD_LAYER" in str(cause):
        fix = "the server speaks no TLS there: try http:// or another port"
    elif "expired" in reason or "not yet valid" in reason:
        fix = "check this machine's clock and the server's certificate"
    else:
        fix = "check the certificate and this machine's clock; a private authority's certificates can be named in SSL_CERT_FILE"
    failed = ConnectionFailedError(f"no secure connection to {where} ({reason})", next=fix)
    failed.retryable = False
    return failed


def _spans(text: str) -> float:
    return sum(float(number) * _UNIT[unit] for number, unit in re.findall(_DURATION, text))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return max(0.0, value) if value < LONGEST_WAIT else None
