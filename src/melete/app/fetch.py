"""One GET over http or https for what is asked once in a while: lists of models. Part of the composition root.

Blocks, and is never used where a model is asked; loaded by the commands that need it.
"""

import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import IO, Any
from urllib.parse import urlsplit

from msgspec import Struct

from melete.app.vendors import is_loopback
from melete.core.errors import ConfigError, MeleteError
from melete.models.spec import shown

LARGEST = 32 << 20
PIECE = 1 << 16
TO_CLIENTS = (400, 499)


class Ask(Struct, frozen=True, kw_only=True):
    """What to get and how; `follow` goes along with redirects, never from https to http, and must not be set with a key."""

    url: str
    headers: Mapping[str, str] = {}
    proxy: str = ""
    ca_file: str = ""
    seconds: float = 20.0
    follow: bool = False


class Answer(Struct, frozen=True, kw_only=True):
    """What came: the body, and the server's `Date` as it wrote it."""

    body: bytes
    date: str = ""


class FetchError(MeleteError):
    """Nothing usable came; `status` is the server's where it answered, else 0."""

    def __init__(self, what: str, *, next: str, status: int = 0) -> None:
        super().__init__(what, next=next)
        self.status = status


def get(ask: Ask) -> Answer:
    """The answer to a GET, at most 32 MiB; raises FetchError with the cause and the fix, and shows no key."""
    proxy = ask.proxy if not ask.proxy or "://" in ask.proxy else f"http://{ask.proxy}"
    proxies = {urlsplit(ask.url).scheme: proxy} if proxy else {}
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler(proxies), _Redirects(follow=ask.follow)]
    if urlsplit(ask.url).scheme == "https":
        handlers.append(urllib.request.HTTPSHandler(context=_trust(ask.ca_file)))
    opener = urllib.request.build_opener(*handlers)
    headers = {"User-Agent": "melete", "Accept": "application/json", **ask.headers}
    request = urllib.request.Request(ask.url, headers=headers)  # noqa: S310 - callers have checked for http and https
    try:
        with opener.open(request, timeout=ask.seconds) as answer:
            return Answer(body=_body(answer, ask.url), date=answer.headers.get("Date", ""))
    except urllib.error.HTTPError as error:
        with error:
            raise FetchError(
                f"{shown(ask.url)} answers with status {error.code}", next=_advice(error.code), status=error.code
            ) from error
    except (OSError, HTTPException, ValueError) as error:
        raise _unreachable(ask, error) from error


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects only when allowed, because a key must not travel to another host, and never out of https."""

    def __init__(self, *, follow: bool) -> None:
        self._follow = follow

    def redirect_request(self, *given: Any, **named: Any) -> urllib.request.Request | None:
        """The request to send instead, None to take the redirect as the answer; the first is the old one, the last the URL."""
        before, after = given[0].full_url, given[-1]
        downgraded = before.startswith("https:") and not after.startswith("https:")
        return super().redirect_request(*given, **named) if self._follow and not downgraded else None


def _body(answer: IO[bytes], url: str) -> bytes:
    body = bytearray()
    while piece := answer.read(PIECE):
        body += piece
        if len(body) > LARGEST:
            raise FetchError(f"{shown(url)} sends more than {LARGEST >> 20} MiB", next="check the address")
    return bytes(body)


def _advice(status: int) -> str:
    if status in (401, 403):
        return "the key is not accepted: check it"
    if status == 429:  # noqa: PLR2004 - too many requests
        return "wait a little, then try again"
    first, last = TO_CLIENTS
    return "check the address" if status < first or status <= last else "the server is at fault; try again later"


def _unreachable(ask: Ask, error: Exception) -> FetchError:
    reason = getattr(error, "reason", None) or error
    host = urlsplit(ask.url).hostname or ""
    if isinstance(reason, ssl.SSLError):
        fix = "check this machine's clock; for certificates of your own set SSL_CERT_FILE"
    elif ask.proxy:
        fix = f"check the proxy {shown(ask.proxy)}"
    elif is_loopback(host):
        fix = "start the server"
    elif isinstance(reason, socket.gaierror):
        fix = f"check the name {host} and the network; behind a proxy set HTTPS_PROXY"
    else:
        fix = "check the address, the network and the proxy"
    told = "it took too long" if isinstance(reason, TimeoutError) else getattr(reason, "strerror", None) or reason
    return FetchError(f"{shown(ask.url)} cannot be reached: {told}", next=fix)


def _trust(ca_file: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError as error:
            raise ConfigError(f"the certificates in {ca_file} cannot be read: {error}") from error
    return context
