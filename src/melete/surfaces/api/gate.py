"""What stands before every route: who asks, from where, for what, how much and how often. What it refuses reaches no handler.

The order is: a head that can mean one thing only; a `Host` that is ours; an `Origin` that is allowed; the key; the route; the
key's scope and rate; the size of the body.
"""

import logging
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from melete.app.key_file import PREFIX, hash_of
from melete.app.serve import Server
from melete.app.server_keys import Judged, Who
from melete.app.sizes import size_of
from melete.core.errors import MeleteError
from melete.surfaces.api import cors
from melete.surfaces.api.audit import Trail
from melete.surfaces.api.errors import ApiError
from melete.surfaces.api.head import Head, read_head
from melete.surfaces.api.hosts import Names, is_here, is_near
from melete.surfaces.api.limits import Acquainted, Allowance, Body, network_of, too_large
from melete.surfaces.api.route import Route
from melete.surfaces.api.routes import ROUTES
from melete.surfaces.api.visit import UNIX, Pairs, Visit

GUESSES = 30
"""Wrong keys that one address may try at once, and each minute."""
ISSUED = PREFIX.encode()
CHALLENGE = 'Bearer realm="melete"'
ANYBODY = Who()
RENEW = "check it, or make a new one with `melete serve keys`"
TOLD_SECONDS = 60.0
"""Between two lines in the program's log about keys that cannot be read."""
log = logging.getLogger("melete.gate")


class Asked(Struct, frozen=True, kw_only=True):
    """Which route a request means, None where there is none; `methods` are those that its path has."""

    route: Route | None = None
    methods: tuple[str, ...] = ()


class Gate:
    """Lets a request through to `app` when it is sound, comes from where it may, and its key may do what it asks for.

    Handlers find whom it comes from in `scope["melete.who"]`; every answer gets an id, and what acts or is refused a line in the
    audit log. Raises ConfigError, UsageError for settings that make no sense.
    """

    def __init__(self, app: ASGIApp, *, server: Server, routes: Sequence[Route] = ROUTES) -> None:
        settings = server.app.loaded.settings.server
        rate = settings.requests_per_minute
        self._app = app
        self._server = server
        self._names = Names(settings)
        self._routes = [(route, compile_path(route.path)[0]) for route in routes]
        self._most = size_of(settings.max_body, where="server.max_body")
        self._guesses = Allowance(burst=GUESSES, per_minute=GUESSES, now=time.monotonic)
        self._rate = Allowance(burst=rate, per_minute=rate, now=time.monotonic) if rate else None
        self._known = Acquainted()
        self._trail = Trail(server.app.loaded.home)
        self._told = -TOLD_SECONDS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        visit = Visit(scope, send, trail=self._trail, now=self._server.app.clock.now, counts=self._server.metrics)
        try:
            await self._enter(visit, scope, receive)
        except ApiError as error:
            await self._refuse(visit, error, receive)
        except Exception as error:
            log.exception("a request could not be answered")
            if visit.status:
                raise
            what = f"an unexpected {type(error).__name__}"
            await self._refuse(visit, ApiError(500, "internal_error", what, next="see `melete logs`"), receive)
        finally:
            visit.over()

    async def _enter(self, visit: Visit, scope: Scope, receive: Receive) -> None:
        visit.head = head = read_head(scope)
        self._check_names(head)
        visit.cors = cors.headers(head.origin, self._names)
        if cors.asks(head):
            await _send_head(visit, cors.preflight(head, self._names))
            return
        asked = self._asked(head)
        visit.route = asked.route
        public = asked.route is not None and asked.route.public
        visit.who = scope["melete.who"] = self._who(head, visit.address, public=public)
        route = _there(asked)
        if not public:
            _check_scope(route, visit.who)
            visit.more = self._check_rate(visit.who)
        if (head.length or 0) > self._most:
            raise too_large(self._most)
        if head.has_body:
            visit.body = receive = Body(receive, most=self._most)
        if route.stream:
            visit.valid = lambda: self._is_valid(head)
        scope["melete.about"] = visit.about
        await self._app(scope, receive, visit.send)

    async def _refuse(self, visit: Visit, error: ApiError, receive: Receive) -> None:
        if visit.status:  # the answer had begun: there is nobody left to tell
            log.warning("a request was refused after its answer had begun: %s", error)
            return
        if visit.body is None and visit.head is not None and visit.head.has_body:
            visit.body = Body(receive, most=self._most)
        await visit.refuse(error)

    # ---- from where, and for what --------------------------------------------------------------------------------

    def _check_names(self, head: Head) -> None:
        """Raise ApiError for a host that is not ours and for a page that may not call."""
        if not self._names.knows(head.host):
            what = "names another server than this" if head.host else "is missing"
            raise ApiError(
                403,
                "host_not_allowed",
                f"the Host header {what}",
                next="call the server by its address, or put the name into server.allowed_hosts",
            )
        if head.origin and not self._names.admits(head.origin):
            raise ApiError(
                403,
                "origin_not_allowed",
                "pages of this origin may not call the server",
                next="put the origin into server.cors_origins if they may",
            )
        if head.is_hidden_page:
            raise ApiError(
                403,
                "origin_not_allowed",
                "a page of another origin asked for this without saying which it is",
                next="let it ask with CORS, from an origin in server.cors_origins",
            )

    def _asked(self, head: Head) -> Asked:
        """The route as the router finds it: the first whose path and method fit."""
        fitting = [route for route, path in self._routes if path.match(head.path)]
        there = [route for route in fitting if route.path == head.path] or fitting  # a path by itself goes before {id}
        method = "GET" if head.method == "HEAD" else head.method
        # The head of a stream is known only when the stream begins, which nobody would read then.
        route = next((r for r in there if r.method == method and not (r.stream and head.method == "HEAD")), None)
        return Asked(route=route, methods=tuple(dict.fromkeys(route.method for route in there)))

    # ---- who -----------------------------------------------------------------------------------------------------

    def _who(self, head: Head, address: str, *, public: bool) -> Who:
        """Whom a request comes from; raises ApiError for a wrong key, and for none where one is needed."""
        if head.key:
            return self._by_key(head, address)
        if head.scheme.lower() not in ("", "bearer"):
            raise _unknown("the header Authorization is not of the kind Bearer", given=True)
        why = self._why_not_without(head, address)
        if not why:
            return self._server.keys.who(b"") or ANYBODY
        if public:
            return ANYBODY
        raise _unknown(why, given=False)

    def _by_key(self, head: Head, address: str) -> Who:
        network, key = network_of(address), head.key
        digest = hash_of(key)
        # A key that we made cannot be guessed: it is looked at even when others at this address try out keys.
        if not key.startswith(ISSUED) and (network, digest) not in self._known and self._guesses.left(network) < 1:
            raise self._too_many(network)
        judged = self._judged(key)
        if judged.who is None:
            if not self._guesses.take(network):
                raise self._too_many(network)
            raise _unknown(judged.why, given=True)
        if not self._server.keys.open:
            self._known.add(network, digest)
        elif why := self._why_not_without(head, address):  # where any key will do, it proves nothing
            raise _unknown(why, given=False)
        return judged.who

    def _too_many(self, network: str) -> ApiError:
        wait = self._guesses.wait(network)
        return ApiError(
            429,
            "too_many_wrong_keys",
            "there were too many wrong keys from this address",
            next=f"wait {wait} seconds",
            headers={"retry-after": str(wait)},
        )

    def _judged(self, key: bytes) -> Judged:
        try:
            return self._server.keys.judge(key)
        except MeleteError as error:
            if (now := time.monotonic()) >= self._told + TOLD_SECONDS:
                self._told = now
                log.error("%s", error)  # noqa: TRY400 - what is wrong is a file, not the code
            raise ApiError(
                503, "keys_unreadable", "the keys of the server cannot be read", next="see `melete logs`"
            ) from error

    def _why_not_without(self, head: Head, address: str) -> str:
        """Why a request without a key is not the person's own; empty when it is.

        Nobody but the person can send one from this machine to this machine: no proxy, and no page that was not named one by one.
        """
        if not self._server.keys.open:
            hint = " (x-api-key is not read)" if b"x-api-key" in head.fields or b"api-key" in head.fields else ""
            return f"no key was given{hint}"
        if head.forwarded:
            return "the request came through a proxy, and without a key only this machine itself is served"
        if not is_here(head.host) or not (address == UNIX or is_near(address)):
            return "without a key only this machine itself is served, under its own name"
        if head.origin and not self._names.lists(head.origin):
            return "without a key only pages are served whose origin stands in server.cors_origins by itself"
        return ""

    def _is_valid(self, head: Head) -> bool:
        """Whether the key with which a stream was begun is still good."""
        try:
            return self._server.keys.who(head.key) is not None
        except MeleteError:
            return False

    def _check_rate(self, who: Who) -> Pairs:
        """Use up one request of a key; raise ApiError when there is none, else return what is told of those that are left."""
        if self._rate is None:
            return ()
        if not self._rate.take(who.owner):
            wait = self._rate.wait(who.owner)
            raise ApiError(
                429,
                "too_many_requests",
                f"this key may make {self._rate.burst:.0f} requests a minute",
                next=f"wait {wait} seconds, or raise server.requests_per_minute",
                headers={"retry-after": str(wait)},
            )
        return (
            (b"x-ratelimit-limit-requests", b"%d" % self._rate.burst),
            (b"x-ratelimit-remaining-requests", b"%d" % self._rate.left(who.owner)),
            (b"x-ratelimit-reset-requests", b"%ds" % self._rate.full_after(who.owner)),
        )


def _there(asked: Asked) -> Route:
    """The route; raises ApiError where there is none of this path or method."""
    if asked.route is not None:
        return asked.route
    if not asked.methods:
        raise ApiError(404, "not_found", "there is no such route", next="see /openapi.json")
    allowed = ", ".join(asked.methods)
    raise ApiError(405, "method_not_allowed", f"the route has only {allowed}", headers={"allow": allowed})


def _check_scope(route: Route, who: Who) -> None:
    if not who.may(route.scope):
        raise ApiError(
            403,
            "insufficient_scope",
            f"the key {who.name} lacks the scope {route.scope}",
            next=f"use one that has it: `melete serve keys add NAME --scope {route.scope}`",
            headers={"www-authenticate": f'{CHALLENGE}, error="insufficient_scope", scope="{route.scope}"'},
        )


def _unknown(why: str, *, given: bool) -> ApiError:
    """The refusal of a wrong key, or of none."""
    challenge = f'{CHALLENGE}, error="invalid_token"' if given else CHALLENGE
    return ApiError(
        401,
        "invalid_api_key" if given else "missing_api_key",
        why,
        next=RENEW if given else "send `Authorization: Bearer KEY`",
        headers={"www-authenticate": challenge},
    )


async def _send_head(visit: Visit, headers: Mapping[str, str]) -> None:
    pairs = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]
    await visit.send({"type": "http.response.start", "status": 204, "headers": pairs})
    await visit.send({"type": "http.response.body", "body": b"", "more_body": False})
