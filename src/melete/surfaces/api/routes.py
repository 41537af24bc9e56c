"""Every route of the API, from the rooms that answer them."""

from melete.surfaces.api import health, runs
from melete.surfaces.api.route import Route

ROUTES: tuple[Route, ...] = (*health.ROUTES, *runs.ROUTES)
