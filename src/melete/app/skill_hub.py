"""Skills from elsewhere, for surfaces: where they are fetched, listed and kept. Part of the composition root."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from melete.app.rivals import compared
from melete.app.skills import library
from melete.app.web import fetcher
from melete.app.wire import Melete
from melete.core.plugin import Lazy

if TYPE_CHECKING:
    from melete.skills.hub import Hub

_hub: "Lazy[Callable[..., Hub]]" = Lazy("melete.skills.hub:Hub")
_registries: Lazy[Callable[..., Any]] = Lazy("melete.skills.registry:Registries")
_sources: Lazy[Callable[..., Any]] = Lazy("melete.skills.sources:Sources")
_networks: Lazy[Callable[..., tuple[list[Any], list[str]]]] = Lazy("melete.security.urls:networks")


def hub(app: Melete) -> "Hub":
    """What installs, updates and finds skills of others in this home; raises ConfigError."""
    loaded, home = app.loaded, app.loaded.home
    fetch = fetcher(loaded, *loaded.settings.skills.registries)
    registries = _registries.load()(
        fetch, urls=loaded.settings.skills.registries, cache=home.state / "skill-indexes", clock=app.clock
    )
    sources = _sources.load()(
        fetch,
        registries=registries,
        quarantine=home.skills / ".quarantine",
        environ=loaded.environ,
        trusted=_networks.load()(loaded.settings.web.private_networks)[0],
    )
    return _hub.load()(
        library(app),
        sources=sources,
        registries=registries,
        skills=home.skills,
        lock=home.state / "skills.lock",
        clock=app.clock,
    )


async def is_offered(app: Melete, name: str) -> bool:
    """Whether a skill may be listed and suggested, as far as the home's own ones and its memory go."""
    kept = library(app)
    kept.refresh()
    return name not in (await compared(app, kept)).among([name])
