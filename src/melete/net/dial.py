"""Connections for those who may not reach the network themselves: resolved once, judged, and dialled by the judged address."""

import asyncio
from asyncio import StreamReader, StreamWriter

from melete.core.errors import EnvironmentFailure
from melete.security.urls import judge_address


class PinnedDialer:
    """A `Dialer`: a name whose addresses include a refused one is refused whole, so that no answer of a name server helps."""

    async def __call__(self, host: str, port: int) -> tuple[StreamReader, StreamWriter]:
        """A connection to an address that was judged; raises EnvironmentFailure, OSError."""
        rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=1)
        addresses = list(dict.fromkeys(row[4][0] for row in rows))
        for address in addresses:
            verdict = judge_address(str(address))
            if verdict.verdict == "forbid":
                raise EnvironmentFailure(f"{host} is {address}: {verdict.reason}")
        return await asyncio.open_connection(str(addresses[0]), port)
