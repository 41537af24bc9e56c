"""`melete serve`: runs the enabled services beside one another until it is told to stop. Part of the composition root.

It begins by closing what an earlier server left unfinished, and ends by letting running work finish: nothing new is begun, and
what has not ended after `server.drain_seconds` is cancelled with its results stored.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from socket import AF_UNIX, socket
from typing import Any

from melete.app.background import tend_records
from melete.app.job_runner import JobRunner
from melete.app.keyed import Requests
from melete.app.learning import learning
from melete.app.places import choose, open_place
from melete.app.plugins import add_installed
from melete.app.recovery import recover
from melete.app.runs import Runs
from melete.app.scheduler import make_jobs
from melete.app.server_keys import Keys
from melete.app.supervisor import Supervisor
from melete.app.telemetry import tracing
from melete.app.toolsets import open_tools
from melete.app.warm import Warm
from melete.app.wire import Melete
from melete.core.errors import MeleteError
from melete.core.plugin import Lazy
from melete.core.ports import Service

log = logging.getLogger("melete.serve")
ANSWERS = "api"
"""The service that answers requests, and says when it does."""
_metrics: Lazy[Callable[..., Any]] = Lazy("melete.app.metrics:Metrics")


@dataclass(kw_only=True)
class Server:
    """What the services of one `melete serve` share; `metrics` counts requests and facts."""

    app: Melete
    runs: Runs
    keys: Keys
    requests: Requests
    jobs: JobRunner
    metrics: Any
    sockets: Sequence[socket] = ()
    """Listening sockets that were handed over by whoever started the process."""
    addresses: list[str] = field(default_factory=list[str])
    """Where the server can be reached, once it listens."""
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when requests are answered."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server is told to stop: nothing new is begun from here on."""
    drained: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when what was going on has ended: services are to return."""


def make_server(app: Melete, *, sockets: Sequence[socket] = ()) -> Server:
    """A server for the wired application; raises ConfigError for an address that needs a better key than there is."""
    settings = app.loaded.settings.server
    warm = Warm(app, most=settings.warm_sessions, seconds=settings.warm_seconds)
    hosts = [host_of(given) for given in sockets] or [settings.host]
    keys = Keys(app.loaded.home, own=settings.api_key, hosts=hosts, clock=app.clock)
    runs = Runs(app, most=settings.max_runs, warm=warm)
    requests = Requests(app.ledger, app.clock)
    jobs, metrics = make_jobs(app, runs), _metrics.load()()
    jobs.listeners.append(lambda occurrence: metrics.job(occurrence.status))
    return Server(app=app, runs=runs, keys=keys, requests=requests, jobs=jobs, metrics=metrics, sockets=sockets)


async def serve(
    server: Server, *, told: Callable[[Server], None], warn: Callable[[str], None], only: Sequence[str] = ()
) -> None:
    """Serve until `server.stop` is set and what goes on has ended; `told` is called once requests are answered.

    `only` names the services, all that are enabled by default; `warn` gets lines that a person should read. Raises what keeps a
    service from running.
    """
    app, settings = server.app, server.app.loaded.settings
    names = only or [name for name in app.registry.names("services") if name != "cron" or settings.cron.enabled]
    add_installed(app.registry, "services", names)
    server.keys.check()
    server.runs.settled = False
    supervisor = Supervisor(app.loaded.environ)
    app.listeners.append(server.metrics.listen)
    server.metrics.watch_warm(lambda: len(server.runs.warm))
    try:
        async with tracing(app, warn=warn), learning(app), asyncio.TaskGroup() as group:
            for name in names:
                service: Service = app.registry.get("services", name)()
                group.create_task(service.run(server), name=name)
            own: list[asyncio.Task[Any]] = [
                group.create_task(server.runs.warm.tend()),
                group.create_task(tend_records(app)),
                group.create_task(supervisor.stay_alive()),
            ]
            if ANSWERS in names:
                await server.ready.wait()
            supervisor.tell("READY=1")
            told(server)
            own.append(group.create_task(_prepare(app)))
            own.append(group.create_task(recover(server.runs, resume=settings.server.interrupted == "resume")))
            await server.stop.wait()
            supervisor.tell("STOPPING=1")
            late = await server.runs.drain(settings.server.drain_seconds)
            log.info("the server stops; %s", f"{late} runs were cancelled" if late else "all work had ended")
            server.runs.over = True
            server.drained.set()
            for task in own:
                task.cancel()
    finally:
        await server.runs.warm.aclose()


async def _prepare(app: Melete) -> None:
    """Load what the first run needs before it comes; what stands in the way is told to whoever asks for a run."""
    try:
        async with AsyncExitStack() as stack:
            await open_tools(app, stack)
            await open_place(app, choose(app.loaded).name, cwd=str(app.loaded.home.root.parent)).aclose()
            app.models.shared()
    except (MeleteError, OSError) as error:
        log.info("nothing could be prepared for the first run: %s", error)


def host_of(given: socket) -> str:
    """The address that a listening socket has; a socket in the file system is as good as loopback."""
    return "localhost" if given.family == AF_UNIX else given.getsockname()[0]
