"""Settings → Melete: the one place that knows which parts exist and how they fit. Part of the composition root."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from melete.agent.hub import Hub
from melete.app.catalog import model_spec, split_name
from melete.app.clock import clock_from
from melete.app.plugins import add_installed, registry
from melete.app.settings import Loaded, Origin
from melete.core.event import Fact
from melete.core.model import ModelClient
from melete.core.plugin import Lazy, Registry
from melete.core.ports import Clock, Ledger
from melete.core.session import SessionRef, Store
from melete.security.redact import Redactor
from melete.store import open_ledger, open_store

log = logging.getLogger("melete")
_memory_store: Lazy[Callable[..., Store]] = Lazy("melete.store.memory:MemoryStore")
_memory_ledger: Lazy[Callable[..., Ledger]] = Lazy("melete.store.memory:MemoryLedger")
_retrying: Lazy[Callable[..., ModelClient]] = Lazy("melete.models.retry:Retrying")


@dataclass(kw_only=True)
class Melete:
    """The wired application: what surfaces hand to `service`."""

    loaded: Loaded
    registry: Registry
    clock: Clock
    store: Store
    ledger: Ledger
    group: asyncio.TaskGroup
    redact: Callable[[str], str]
    hubs: dict[str, Hub] = field(default_factory=dict[str, Hub])

    def hub(self, session: str) -> Hub:
        """The event stream of a session in this process."""
        return self.hubs.setdefault(session, Hub(session, self.clock))

    def open_model(self, name: str = "") -> ModelClient:
        """The model `[PROVIDER/]NAME`, or the one that the settings choose, with retries; raises NoModelError, ConfigError."""
        spec = model_spec(with_model(self.loaded, name) if name else self.loaded)
        add_installed(self.registry, "models", [spec.wire])
        return _retrying.load()(self.registry.get("models", spec.wire)(spec))


@asynccontextmanager
async def open_melete(loaded: Loaded, *, ephemeral: bool = False) -> AsyncGenerator[Melete]:
    """Everything wired, until the block ends; with `ephemeral` nothing is stored."""
    clock = clock_from(loaded.variables.get("MELETE_CLOCK", ""))
    redactor = Redactor(loaded.secrets)
    hubs: dict[str, Hub] = {}

    def publish(ref: SessionRef, fact: Fact) -> None:
        if hub := hubs.get(ref.id):
            hub.publish(fact)

    store, ledger = _stores(loaded.home.state, clock, publish, ephemeral=ephemeral)
    try:
        async with aclosing(store), asyncio.TaskGroup() as group:
            yield Melete(
                loaded=loaded,
                registry=registry(),
                clock=clock,
                store=store,
                ledger=ledger,
                group=group,
                redact=redactor,
                hubs=hubs,
            )
    except BaseExceptionGroup as errors:
        only, *more = errors.exceptions
        if more:
            raise
        raise only from None  # one failure needs no group round it


def _stores(
    state: Path, clock: Clock, publish: Callable[[SessionRef, Fact], None], *, ephemeral: bool
) -> tuple[Store, Ledger]:
    if ephemeral:
        return _memory_store.load()(clock=clock, on_fact=publish), _memory_ledger.load()(clock=clock)
    return open_store(state, clock=clock, on_fact=publish), open_ledger(state, clock=clock)


def with_model(loaded: Loaded, name: str) -> Loaded:
    """The settings with `[PROVIDER/]NAME` as the model; a provider in the name leaves a configured base URL aside."""
    provider, _ = split_name(name)
    model = msgspec.structs.replace(loaded.settings.model, name=name)
    if provider:
        model = msgspec.structs.replace(model, provider="", base_url="", wire="")
    settings = msgspec.structs.replace(loaded.settings, model=model)
    origins = {**loaded.origins, "model.name": Origin(kind="flag", where="the model just chosen")}
    return msgspec.structs.replace(loaded, settings=settings, origins=origins)
