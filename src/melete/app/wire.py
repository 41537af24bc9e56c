"""Settings → Melete: the one place that knows which parts exist and how they fit. Part of the composition root."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from melete.agent.hub import Hub
from melete.app.clock import clock_from
from melete.app.models import Models
from melete.app.plugins import registry
from melete.app.settings import Loaded
from melete.core.event import Fact
from melete.core.model import ModelClient
from melete.core.plugin import Lazy, Registry
from melete.core.ports import Clock, Ledger
from melete.core.session import SessionRef, Store
from melete.security.redact import Redactor
from melete.store import open_ledger, open_store

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from melete.app.as_of import Then

log = logging.getLogger("melete")
OnFact = Callable[[SessionRef, Fact], None]
_memory_store: Lazy[Callable[..., Store]] = Lazy("melete.store.memory:MemoryStore")
_then: "Lazy[Callable[..., AbstractContextManager[Then]]]" = Lazy("melete.app.as_of:open_then")
_memory_ledger: Lazy[Callable[..., Ledger]] = Lazy("melete.store.memory:MemoryLedger")


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
    models: Models
    ephemeral: bool = False
    """Whether nothing is stored."""
    then: "Then | None" = None
    """The earlier time whose skills and memory are read in place of those of now; nothing is learned then."""
    libraries: dict[str, Any] = field(default_factory=dict[str, Any])
    """The skills that were opened, with their index, by the folder of the project's own; `app.skills.library` makes them."""
    memory: Any = None
    """What is remembered, once it was asked for; `app.memory.remembered` opens it."""
    hubs: dict[str, Hub] = field(default_factory=dict[str, Hub])
    listeners: list[OnFact] = field(default_factory=list[OnFact])
    """Called with every fact that this process stores; they neither wait nor raise."""

    def hub(self, session: str) -> Hub:
        """The event stream of a session in this process."""
        return self.hubs.setdefault(session, Hub(session, self.clock))

    def close_hub(self, session: str) -> None:
        """End the event stream of a session in this process."""
        if hub := self.hubs.pop(session, None):
            hub.close()

    def open_model(self, name: str = "") -> ModelClient:
        """The model `[PROVIDER/]NAME`, or the one that the settings choose, with keys, retries and fallbacks.

        Raises NoModelError, ConfigError.
        """
        return self.models.open(name)


@asynccontextmanager
async def open_melete(
    loaded: Loaded, *, ephemeral: bool = False, as_of: datetime | None = None
) -> AsyncGenerator[Melete]:
    """Everything wired, until the block ends; with `ephemeral` nothing is stored, with `as_of` what was learned is of that time."""
    clock = clock_from(loaded.variables.get("MELETE_CLOCK", ""))
    redactor = Redactor(loaded.secrets, shapes=loaded.settings.security.redact == "auto")
    hubs: dict[str, Hub] = {}

    listeners: list[OnFact] = []

    def publish(ref: SessionRef, fact: Fact) -> None:
        if hub := hubs.get(ref.id):
            hub.publish(fact)
        for listener in listeners:
            listener(ref, fact)

    store, ledger = _stores(loaded.home.state, clock, publish, ephemeral=ephemeral)
    try:
        async with aclosing(store), AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            known = registry()
            models = Models(loaded, known, on_key=redactor.learn)

            def redact(text: str) -> str:
                models.look_for_keys()  # a tool may have changed one and show it in the same breath
                return redactor(text)

            stack.push_async_callback(models.aclose)
            libraries: dict[str, Any] = {}
            kept = open_ledger(loaded.home.state, clock=clock) if ephemeral else ledger
            then = stack.enter_context(_then.load()(loaded, kept, as_of)) if as_of else None
            stack.callback(_close, libraries)
            yield Melete(
                loaded=loaded,
                registry=known,
                clock=clock,
                store=store,
                ledger=ledger,
                group=group,
                redact=redact,
                models=models,
                ephemeral=ephemeral,
                then=then,
                hubs=hubs,
                listeners=listeners,
                libraries=libraries,
            )
    except BaseExceptionGroup as errors:
        only, *more = errors.exceptions
        if more:
            raise
        raise only from None  # one failure needs no group round it


def _close(libraries: Mapping[str, Any]) -> None:
    for library, _ in libraries.values():
        library.close()


def _stores(
    state: Path, clock: Clock, publish: Callable[[SessionRef, Fact], None], *, ephemeral: bool
) -> tuple[Store, Ledger]:
    if ephemeral:
        return _memory_store.load()(clock=clock, on_fact=publish), _memory_ledger.load()(clock=clock)
    return open_store(state, clock=clock, on_fact=publish), open_ledger(state, clock=clock)
