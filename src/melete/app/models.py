"""Which models a home has: opened with their keys, retries and fallbacks, and by role. Part of the composition root.

Key pools and rests of failed models are kept here, so that all conversations and side jobs of a process share them.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from msgspec import structs

from melete.app.catalog import Chosen, choose, choose_for_children, choose_other, keys_in, with_model
from melete.app.dotenv import read_env_file
from melete.app.plugins import add_installed
from melete.app.settings import Loaded
from melete.app.vendors import is_loopback
from melete.core.errors import ConfigError
from melete.core.model import ModelClient, Role
from melete.core.plugin import Lazy, Registry
from melete.models.spec import ModelSpec, shown

_backoff: Lazy[Callable[..., Any]] = Lazy("melete.models.retry:Backoff")
_retrying: Lazy[Callable[..., ModelClient]] = Lazy("melete.models.retry:Retrying")
_pool: Lazy[Callable[..., Any]] = Lazy("melete.models.keys:KeyPool")
_key: Lazy[Callable[..., Any]] = Lazy("melete.models.keys:Key")
_rotating: Lazy[Callable[..., ModelClient]] = Lazy("melete.models.keys:KeyRotating")
_health: Lazy[Callable[[], Any]] = Lazy("melete.models.fallback:Health")
_falling: Lazy[Callable[..., ModelClient]] = Lazy("melete.models.fallback:Falling")
_text_calls: Lazy[Callable[..., ModelClient]] = Lazy("melete.models.text_calls:TextCalls")

IMPATIENT = {"tries": 2, "longest_wait": 10.0}
"""How a model with a fallback behind it is retried."""
MOST_SHARED = 32
"""Names for which one object serves all: clients may make names up without end."""
CHILDREN, CHILD_KEY = "\0children", "delegation.api_key"
"""Under what the children's model is kept, and its key: no variable has such a name."""
GONE = (0, 0)
"""The stamp of a file that is not there: some editors take it away for a moment while they write it."""
TICK = 100_000_000
"""Nanoseconds within which two changes of a file may bear one time."""


class Models:
    """Opens models; implements `Auxiliary`. `on_key` is told every key that is read later than at the start."""

    def __init__(self, loaded: Loaded, registry: Registry, *, on_key: Callable[[Mapping[str, str]], None]) -> None:
        key = loaded.settings.delegation.api_key
        self._loaded = structs.replace(loaded, variables={**loaded.variables, CHILD_KEY: key}) if key else loaded
        self._registry = registry
        self.problems: dict[str, str] = {}
        """What keeps a configured fallback from being used, by its name."""
        self._pools: dict[tuple[str, ...], Any] = {}
        self._variables = _Variables(self._loaded, on_key)
        self._rests: Any = None
        self._addresses: dict[tuple[str, str], str] = {}
        self._shared: dict[str, ModelClient] = {}

    def open(self, name: str = "", *, spared: bool = False) -> ModelClient:
        """The model `[PROVIDER/]NAME`, or the one that the settings choose; raises NoModelError, ConfigError.

        One that only spares the settings' own model (`spared`) has that one as its first fallback.
        """
        loaded = with_model(self._loaded, name) if name else self._loaded
        first = choose_other(self._loaded, name) if name else choose(loaded)
        return self._behind(first, loaded, spared=spared)

    def _behind(self, first: Chosen, loaded: Loaded, *, spared: bool = False) -> ModelClient:
        """The model with its fallbacks."""
        behind = [*([choose(self._loaded)] if spared else ()), *self._fallbacks(loaded)]
        others = [other for other in behind if not _same(other.spec, first.spec)]
        all_chosen = (first, *others)
        members = [self._one(chosen, last=number == len(others)) for number, chosen in enumerate(all_chosen)]
        if not others:
            return members[0]
        if self._rests is None:
            self._rests = _health.load()()
        return _falling.load()(
            members,
            health=self._rests,
            cooldown=loaded.settings.model.fallback_cooldown,
            addresses=[chosen.spec.base_url for chosen in all_chosen],
        )

    def shared(self, name: str = "") -> ModelClient:
        """The model as `open` gives it, but one for all that ask: they share its connections. It is closed with this object.

        Beyond a number of names each gets its own, as from `open`.
        """
        if name in self._shared:
            return self._shared[name]
        found = self.open(name)
        if len(self._shared) < MOST_SHARED:
            self._shared[name] = found
        return found

    def for_children(self) -> ModelClient | None:
        """The model that the settings name for children, one for all of them; None where it is the parent's. Raises ConfigError.

        Its key is the one that stands beside it, and goes to its address alone; without one it is the vendor's own, or that of the
        settings' server where it is served there. Fallbacks are those of the settings.
        """
        given = self._loaded.settings.delegation
        if not (given.model or given.provider or given.base_url):
            return None
        if CHILDREN not in self._shared:
            chosen = choose_for_children(self._loaded, key_variable=CHILD_KEY)
            self._shared[CHILDREN] = self._behind(chosen, self._loaded)
        return self._shared[CHILDREN]

    async def close(self, model: ModelClient) -> None:
        """Release a model's connections, unless it is shared."""
        if all(model is not shared for shared in self._shared.values()):
            await model.aclose()

    async def aclose(self) -> None:
        """Release the connections of the shared models."""
        while self._shared:
            await self._shared.popitem()[1].aclose()

    def address(self, model: ModelClient) -> str:
        """The address of a model that was opened here, as it may be shown; of one with fallbacks, of the one that is asked now."""
        return self._addresses.get((model.provider, model.name), "")

    def look_for_keys(self) -> None:
        """Read the home's `.env` if it has changed, so that keys which stand there now are known."""
        self._variables.now()

    def model(self, role: Role) -> ModelClient:
        """The model for a role; the main model where none is set. Raises as `open` does."""
        return self.open(self.named(role))

    def named(self, role: Role) -> str:
        """The name that the settings give for a role, empty for the main model."""
        return "" if role == "main" else getattr(self._loaded.settings.auxiliary, role)

    def _fallbacks(self, loaded: Loaded) -> Iterator[Chosen]:
        """The fallbacks that can be opened; what is wrong with the others stands in `problems`."""
        for item in loaded.settings.model.fallbacks:
            name = item if isinstance(item, str) else item.name
            try:
                chosen = choose_other(self._loaded, item)
                add_installed(self._registry, "models", [chosen.spec.wire])
                self._registry.get("models", chosen.spec.wire)
            except ConfigError as error:
                self.problems[name] = f"the fallback {name} is left out: {error}"
            else:
                yield chosen

    def _one(self, chosen: Chosen, *, last: bool) -> ModelClient:
        """One model at one address: adapter, keys, calls in text, retries."""
        spec = chosen.spec
        add_installed(self._registry, "models", [spec.wire])
        factory = self._registry.get("models", spec.wire)
        pool = self._pool(chosen)
        client = factory(spec) if pool is None else _rotating.load()(partial(self._with_key, chosen, factory), pool)
        client = self._read(client, spec)
        self._addresses[client.provider, client.name] = shown(spec.base_url) if spec.base_url else ""
        return _retrying.load()(client) if last else _retrying.load()(client, backoff=_backoff.load()(**IMPATIENT))

    def _read(self, client: ModelClient, spec: ModelSpec) -> ModelClient:
        """The model with calls read out of its texts: always where it may write them so, else once its server refuses tools."""
        mode, tools = self._loaded.settings.model.text_calls, client.can.tools
        if mode == "off":
            return client
        always = mode == "on" or not tools or (_is_local(spec) and spec.wire in ("openai-chat", "local"))
        return _text_calls.load()(client, describe=not tools, always=always)

    def _pool(self, chosen: Chosen) -> Any:
        """The keys of a model's vendor, shared by all that ask it; None where there is no key at all."""
        if not chosen.spec.api_key:
            return None
        place = (chosen.spec.base_url, *chosen.key_variables)
        if place not in self._pools:
            keys = partial(self._keys, chosen.key_variables)
            several = len(keys()) > 1  # a single key cannot be spared: side work and children share it
            strategy = self._loaded.settings.model.key_strategy
            self._pools[place] = _pool.load()(keys, strategy=strategy, at_once=1 if several else 0)
        return self._pools[place]

    def _with_key(self, chosen: Chosen, factory: Callable[[ModelSpec], ModelClient], value: str) -> ModelClient:
        """The adapter with one of the keys; messages name the variable in which that key stands."""
        keys = keys_in(chosen.key_variables, self._variables.now())
        variable = next((name for name, key in keys if key == value), chosen.spec.key_variable)
        return factory(structs.replace(chosen.spec, api_key=value, key_variable=variable))

    def _keys(self, names: Sequence[str]) -> Sequence[Any]:
        return [_key.load()(name=name, value=value) for name, value in keys_in(names, self._variables.now())]


class _Variables:
    """The environment with the home's `.env` behind it, read anew when that file changes."""

    def __init__(self, loaded: Loaded, on_key: Callable[[Mapping[str, str]], None]) -> None:
        self._loaded = loaded
        self._on_key = on_key
        self._own = {name: loaded.variables[name] for name in (CHILD_KEY,) if name in loaded.variables}
        self._values = loaded.variables
        self._stamp = _settled(self._look())

    def now(self) -> Mapping[str, str]:
        """The variables as they are now; a `.env` that is gone or cannot be read leaves them as they were."""
        stamp = self._look()
        if stamp not in (self._stamp, GONE):
            home = self._loaded.home
            try:
                values = read_env_file(home.env, shown=home.display(home.env)).values
            except ConfigError:
                self._stamp = _settled(stamp)
                return self._values
            self._values = {**values, **self._loaded.environ, **self._own}
            self._on_key(structs.replace(self._loaded, variables=self._values).secrets)
            self._stamp = _settled(stamp)  # last: a thread that redacts meanwhile must not go on without these
        return self._values

    def _look(self) -> tuple[int, int]:
        try:
            status = self._loaded.home.env.stat()
        except OSError:
            return GONE
        return (status.st_mtime_ns, status.st_size)


def _settled(stamp: tuple[int, int]) -> tuple[int, int]:
    """The stamp of a file as it was read; of one just written no stamp at all, because the next change may have the same."""
    return stamp if time.time_ns() - stamp[0] > TICK else (-1, -1)


def _same(one: ModelSpec, other: ModelSpec) -> bool:
    return (one.model, one.base_url, one.wire) == (other.model, other.base_url, other.wire)


def _is_local(spec: ModelSpec) -> bool:
    return spec.wire == "local" or is_loopback(urlsplit(spec.base_url).hostname or "")
