"""Every route of the API, from the rooms that answer them."""

from melete.surfaces.api import chat, health, jobs, models, openapi, responses, runs, sessions
from melete.surfaces.api.route import Route

ROUTES: tuple[Route, ...] = (
    *health.ROUTES,
    *openapi.ROUTES,
    *models.ROUTES,
    *chat.ROUTES,
    *responses.ROUTES,
    *runs.ROUTES,
    *sessions.ROUTES,
    *jobs.ROUTES,
)
