"""The service `api`: the HTTP API of `melete serve`, from the first request to the last."""

import asyncio

from melete.app.serve import Server
from melete.surfaces.api.application import application
from melete.surfaces.api.server import Http, address_of, bound

GRACE = 5.0
"""Seconds that answers have to leave once everything that went on has ended."""


class Api:
    """Answers HTTP requests until the server has drained."""

    name = "api"

    async def run(self, app: Server) -> None:
        """Serve until cancelled or drained; raises UsageError for an address that cannot be had."""
        settings = app.app.loaded.settings.server
        sockets = app.sockets or bound(settings.host, settings.port)
        http = Http(application(app), grace=GRACE)
        async with asyncio.TaskGroup() as group:
            group.create_task(http.listen(sockets))
            await http.listening.wait()
            app.addresses += [address_of(one) for one in sockets]
            app.ready.set()
            await app.drained.wait()
            http.should_exit = True
