"""`/health`: whether the server answers, and for a key how it is."""

import os
from pathlib import Path

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from melete import __version__
from melete.surfaces.api.answers import answer, server_of, who_of
from melete.surfaces.api.route import Route


class Health(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the server is: `status` is `ok` or `stopping`; the rest is for keys with the scope `metrics`."""

    status: str
    version: str = ""
    model: str = ""
    runs: int | None = None
    warm_sessions: int | None = None
    memory_bytes: int | None = None
    files: int | None = None


async def health(request: Request) -> Response:
    """Whether the server answers; with a key, how it is."""
    server = server_of(request)
    status = "stopping" if server.stop.is_set() else "ok"
    who = who_of(request)
    if not who.may("metrics"):
        return answer(Health(status=status))
    runs = server.runs
    detail = Health(
        status=status,
        version=__version__,
        model=server.app.loaded.settings.model.name,
        runs=len(runs.going),
        warm_sessions=len(runs.warm),
        memory_bytes=_resident(),
        files=len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else None,  # noqa: PTH208 - names only
    )
    return answer(detail)


async def metrics(request: Request) -> Response:
    """Everything that is counted, for Prometheus."""
    kind, body = server_of(request).metrics.render(request.headers.get("accept", ""))
    return Response(body, headers={"content-type": kind})


def _resident() -> int | None:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


ROUTES = (
    Route(method="GET", path="/health", handler=health, tag="server", scope="", public=True, gives=Health),
    Route(method="GET", path="/v1/health", handler=health, tag="server", scope="", public=True, gives=Health),
    Route(
        method="GET",
        path="/metrics",
        handler=metrics,
        tag="server",
        scope="metrics",
        media=("text/plain", "application/openmetrics-text"),
    ),
)
