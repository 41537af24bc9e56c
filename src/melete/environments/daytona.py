"""Commands in a sandbox of Daytona, a hosted service. The library of the service is the extra `daytona`."""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

from melete.core.environment import Missing, Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import DaytonaOptions
from melete.core.plugin import Lazy
from melete.environments.hosted import Hosted
from melete.environments.hosted_copy import HostedOpener
from melete.environments.service import LateService, Service

KEY = "DAYTONA_API_KEY"
_service: Lazy[Callable[..., Service]] = Lazy("melete.environments.daytona_service:DaytonaService", extra="daytona")


class Daytona(Hosted):
    """An `Environment` in a sandbox of Daytona that is made at the first use and found again when the session goes on."""

    def __init__(self, place: Place) -> None:
        missing = self.missing(place)
        if missing:
            raise EnvironmentFailure(f"the environment daytona cannot be used: {missing.why}", next=missing.fix)
        self._options = _options(place)
        given = self._options
        url = given.api_url or place.secret("DAYTONA_API_URL")
        service = LateService(
            "daytona", lambda: _service.load()(place.secret(KEY), given, session=place.key, api_url=url)
        )
        super().__init__(place, service, workspace=given.workspace, seen=given.variables)

    @staticmethod
    def missing(place: Place) -> Missing | None:
        """What is not here that it needs; asks nobody."""
        if find_spec("daytona") is None:
            return Missing(why="its library is not installed", fix='pip install "melete[daytona]"')
        if not place.secret(KEY):
            return Missing(why=f"{KEY} is not set", fix=f"put a key of your Daytona account into .env as {KEY}=…")
        return None

    @property
    def note(self) -> str:
        """Where commands run, for the model."""
        net = "there is no network" if self._options.network == "off" else "the network is open"
        return f"Commands run in a Linux sandbox at Daytona; the working folder is {self.cwd}; {net}."

    async def about(self) -> Mapping[str, Sequence[str]]:
        """What a person may want to know."""
        given = self._options
        made = (
            f"image {given.image}, {given.cpus} CPU, {given.memory_gb} GB"
            if given.image
            else "the account's default snapshot"
        )
        kept = (
            "stopped and found again when the session goes on" if given.keep else "deleted when the session is closed"
        )
        return {
            "sandbox": [made, f"stops by itself after {given.idle_minutes} minutes without a request", kept],
            "network": [given.network],
            "writable": ["everything in it; nothing of this machine"],
        }


def _options(place: Place) -> DaytonaOptions:
    return place.options if isinstance(place.options, DaytonaOptions) else DaytonaOptions()


open_daytona = HostedOpener(Daytona, Daytona.missing)
"""The environment; with `sync` the working folder is copied there and kept alike."""
