"""Commands in a sandbox of Modal, a hosted service. The library of the service is the extra `modal`."""

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from melete.core.environment import Missing, Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import ModalOptions
from melete.core.plugin import Lazy
from melete.environments.hosted import Hosted
from melete.environments.hosted_copy import HostedOpener
from melete.environments.service import LateService, Service

TOKEN = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")
GATEWAY_KEY = "MODAL_GATEWAY_KEY"
PROFILES = "~/.modal.toml"
_service: Lazy[Callable[..., Service]] = Lazy("melete.environments.modal_service:ModalService", extra="modal")


class Modal(Hosted):
    """An `Environment` in a sandbox of Modal that is made at the first use.

    With `keep` its files are kept as a snapshot, from which the next sandbox of the same session begins. `mode: managed` goes
    through the gateway at `modal.gateway`, which must speak Modal's own API, with a key of its own.
    """

    def __init__(self, place: Place) -> None:
        missing = self.missing(place)
        if missing:
            raise EnvironmentFailure(f"the environment modal cannot be used: {missing.why}", next=missing.fix)
        given = self._options = _options(place)
        gateway = given.gateway if given.mode == "managed" else ""
        session = re.sub(r"[^A-Za-z0-9_.-]", "-", place.key)[:50]
        memory = Path(place.scratch) / f"modal-{session}"
        service = LateService(
            "modal", lambda: _service.load()(_token(place), given, session=session, gateway=gateway, memory=memory)
        )
        super().__init__(place, service, workspace=given.workspace, seen=given.variables)

    @staticmethod
    def missing(place: Place) -> Missing | None:
        """What is not here that it needs; asks nobody."""
        given = _options(place)
        if find_spec("modal") is None:
            return Missing(why="its library is not installed", fix='pip install "melete[modal]"')
        if given.mode == "managed" and not given.gateway:
            return Missing(
                why="modal.mode is managed, but modal.gateway is empty", fix="set modal.gateway to its address"
            )
        if given.mode == "managed" and not place.secret(GATEWAY_KEY):
            return Missing(why=f"{GATEWAY_KEY} is not set", fix=f"put the gateway's key into .env as {GATEWAY_KEY}=…")
        if given.mode == "direct" and not _token(place) and not Path(PROFILES).expanduser().exists():
            return Missing(
                why="there is no token of Modal", fix=f"run `modal token new`, or set {TOKEN[0]} and {TOKEN[1]}"
            )
        return None

    @property
    def note(self) -> str:
        """Where commands run, for the model."""
        net = "there is no network" if self._options.network == "off" else "the network is open"
        return f"Commands run in a Linux sandbox at Modal; the working folder is {self.cwd}; {net}."

    async def about(self) -> Mapping[str, Sequence[str]]:
        """What a person may want to know."""
        given = self._options
        kept = "its files are kept as a snapshot" if given.keep else "its files go with it when the session is closed"
        life = f"ends after {given.seconds} seconds, or {given.idle_minutes} minutes without a command"
        through = f"through the gateway at {given.gateway}" if given.mode == "managed" else "with your own token"
        return {
            "sandbox": [f"image {given.image}, {given.cpus:g} CPU, {given.memory_mb} MB", life, kept, through],
            "network": [given.network],
            "writable": ["everything in it; nothing of this machine"],
        }


def _options(place: Place) -> ModalOptions:
    return place.options if isinstance(place.options, ModalOptions) else ModalOptions()


def _token(place: Place) -> tuple[str, str] | None:
    """(id, secret): of the gateway's key, `ID:SECRET` or the secret alone; else the two variables of Modal; else None."""
    if _options(place).mode == "managed":
        id, _, secret = place.secret(GATEWAY_KEY).rpartition(":")
        return id or "melete", secret
    id, secret = (place.secret(name) for name in TOKEN)
    return (id, secret) if id and secret else None


open_modal = HostedOpener(Modal, Modal.missing)
"""The environment; with `sync` the working folder is copied there and kept alike."""
