"""How often and how much: attempts with wrong keys, requests of one key, lines about one address, bytes of one body."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

from msgspec import Struct
from starlette.types import Message, Receive

from melete.surfaces.api.errors import ApiError

MOST_KEPT = 4_096
"""Addresses or keys that are remembered; the one that was seen longest ago is forgotten first."""
NETWORK_BITS = 64
"""Of an IPv6 address, the part that one customer has: whoever has one address there has them all."""
BODY_SECONDS = 20.0
"""That any body may take, however short it is."""
SLOWEST = 4_096.0
"""Bytes a second at which a longer body has to come."""
LINGER_SECONDS = 3.0
LINGER_BYTES = 64 << 20
"""How long, and for how much, a client is listened to that sends what nobody wants any more."""


class Level(Struct, kw_only=True):
    """What is left of an allowance, and when that was so."""

    left: float
    at: float


class Allowance:
    """`burst` at once and `per_minute` in the long run, for each name apart; `now` is a clock in seconds."""

    def __init__(self, *, burst: float, per_minute: float, now: Callable[[], float]) -> None:
        self.burst = burst
        self._each = per_minute / 60
        self._now = now
        self._levels: OrderedDict[str, Level] = OrderedDict()

    def left(self, name: str) -> float:
        """What is left now."""
        level = self._levels.get(name)
        if level is None:
            return self.burst
        return min(self.burst, level.left + (self._now() - level.at) * self._each)

    def take(self, name: str) -> bool:
        """Use one up; false, with nothing used, when there is none."""
        left = self.left(name)
        if left < 1:
            return False
        self._levels[name] = Level(left=left - 1, at=self._now())
        self._levels.move_to_end(name)
        if len(self._levels) > MOST_KEPT:
            self._levels.popitem(last=False)
        return True

    def wait(self, name: str) -> int:
        """Whole seconds until there is one again, at least 1."""
        return max(1, math.ceil((1 - self.left(name)) / self._each))

    def full_after(self, name: str) -> int:
        """Whole seconds until all of it is there again."""
        return math.ceil((self.burst - self.left(name)) / self._each)


class Acquainted:
    """Which keys were right from which address: these are let through when others there guess."""

    def __init__(self) -> None:
        self._pairs: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    def add(self, address: str, digest: bytes) -> None:
        """Remember that a key was right."""
        self._pairs[address, digest] = None
        self._pairs.move_to_end((address, digest))
        if len(self._pairs) > MOST_KEPT:
            self._pairs.popitem(last=False)

    def __contains__(self, pair: tuple[str, bytes]) -> bool:
        return pair in self._pairs


def network_of(address: str) -> str:
    """What failures from an address are counted for: the address, of IPv6 the network that one customer has."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        mapped = found.ipv4_mapped
        bits = 128 - NETWORK_BITS
        return str(mapped or IPv6Address(int(found) >> bits << bits))
    return str(found)


class Body:
    """The body of a request as it comes, of `most` bytes at most and not too slowly; `whole` once it is there."""

    def __init__(self, receive: Receive, *, most: int) -> None:
        self._receive = receive
        self._most = most
        self._size = 0
        self._deadline = 0.0
        self.begun = False
        self.whole = False

    async def __call__(self) -> Message:
        """The next piece; raises ApiError for one too many or too late."""
        if self.whole:
            return await self._receive()
        message = await self._piece()
        if message["type"] != "http.request":
            self.whole = True
            return message
        self._size += len(message.get("body", b""))
        self.whole = not message.get("more_body", False)
        if self._size > self._most:
            raise too_large(self._most)
        return message

    async def linger(self) -> None:
        """Take what is still sent, for a moment: a client that is cut off while it writes never reads why."""
        size = 0
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                while not self.whole and size < LINGER_BYTES:
                    message = await self._receive()
                    size += len(message.get("body", b""))
                    self.whole = message["type"] != "http.request" or not message.get("more_body", False)
        except TimeoutError:
            return

    async def _piece(self) -> Message:
        now = asyncio.get_running_loop().time()
        if not self.begun:
            self.begun, self._deadline = True, now + BODY_SECONDS
        try:
            async with asyncio.timeout_at(self._deadline + self._size / SLOWEST):
                return await self._receive()
        except TimeoutError as error:
            raise ApiError(
                408,
                "request_timeout",
                f"the body came too slowly: {self._size} bytes so far",
                next="send it again",
                headers={"connection": "close"},
            ) from error


def too_large(most: int) -> ApiError:
    """The answer to a body of more than `most` bytes."""
    return ApiError(
        413,
        "body_too_large",
        f"the body has more than {most:,} bytes",
        next="send less, or raise server.max_body",
        headers={"connection": "close"},
    )
