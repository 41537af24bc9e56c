"""How parts are found: a registry object that the composition root fills, and lazy targets that import when used. Layer 0."""

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar, cast

from melete.core.errors import ConfigError

T = TypeVar("T")
KINDS = {
    "tools": "toolset",
    "channels": "channel",
    "environments": "environment",
    "models": "wire",
    "memory": "memory",
    "reviewers": "reviewer",
    "services": "service",
    "commands": "command",
}
"""The kinds of things that plugins add, and what messages call one of each."""


class Lazy(Generic[T]):
    """A target `module:attribute` that is imported when it is first asked for; `extra` is the extra that brings its package."""

    __slots__ = ("extra", "target")

    def __init__(self, target: str, *, extra: str = "") -> None:
        self.target = target
        self.extra = extra

    def __repr__(self) -> str:
        return f"Lazy({self.target!r})"

    def load(self) -> T:
        """Import the module and return the attribute; raises ConfigError that names the target and what to install."""
        module, _, attribute = self.target.partition(":")
        try:
            found: Any = importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"{self.target} needs the package {error.name!r}, which is not installed",
                next=f'pip install "melete[{self.extra}]"' if self.extra else f"pip install {error.name}",
            ) from error
        return getattr(found, attribute)


class Registry:
    """Names to targets, by kind; an object that is handed round, never a global.

    Kinds: tools (a Toolset factory), channels, environments (an Opener factory), models (an adapter of a wire), memory,
    reviewers, services, commands. A second registration of a name raises ConfigError unless it `replaces` the first.
    """

    def __init__(self) -> None:
        self._targets: dict[str, dict[str, Lazy[Any] | Callable[..., Any]]] = {kind: {} for kind in KINDS}

    def add(self, kind: str, name: str, target: Lazy[Any] | Callable[..., Any], *, replaces: bool = False) -> None:
        """Register `target` under `name`."""
        if kind not in self._targets:
            raise ConfigError(f"unknown kind of plugin {kind!r}", next=f"use one of {', '.join(KINDS)}")
        if name in self._targets[kind] and not replaces:
            raise ConfigError(f"two plugins want to be the {KINDS[kind]} {name!r}", next="remove one of them")
        self._targets[kind][name] = target

    def get(self, kind: str, name: str) -> Callable[..., Any]:
        """The target under `name`, imported now; raises ConfigError that lists what there is."""
        found = self._targets[kind].get(name)
        if found is None:
            known = ", ".join(sorted(self._targets[kind])) or "none"
            raise ConfigError(f"there is no {KINDS[kind]} {name!r}", next=f"known: {known}")
        return cast("Callable[..., Any]", found.load() if isinstance(found, Lazy) else found)

    def names(self, kind: str) -> Iterator[str]:
        """The names of a kind in the order of registration."""
        return iter(self._targets[kind])

    def all(self, kind: str) -> Mapping[str, Lazy[Any] | Callable[..., Any]]:
        """Names and targets of a kind, nothing imported."""
        return dict(self._targets[kind])


class Plugin(Protocol):
    """What an entry point in the group `melete.plugins` gives."""

    def register(self, registry: Registry) -> None:
        """Add names to the registry; must not import what the targets need."""
        ...
