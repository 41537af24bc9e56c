"""What becomes of a run whose client waits for the answer, or leaves before it."""

import asyncio

from starlette.requests import Request

from melete.app.runs import Going
from melete.app.serve import Server
from melete.surfaces.api.answers import server_of

LOOK = 0.5
"""Seconds between two looks at whether a client that waits is still there."""


def cancels(server: Server) -> bool:
    """Whether the settings say that a run ends when its client leaves."""
    return server.app.loaded.settings.server.disconnect == "cancel"


async def finished(request: Request, going: Going) -> None:
    """Wait for the end of a run of which only the end is told; where the settings say so, a client that leaves ends it.

    Raises what kept its end from being stored.
    """
    going.unread()
    while not going.over and cancels(server_of(request)):
        try:
            async with asyncio.timeout(LOOK):
                await going.ended()
        except TimeoutError:
            if await request.is_disconnected():
                going.cancel()
                break
    await going.ended()
