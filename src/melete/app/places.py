"""Which environment a session works in, and what that environment is given. Part of the composition root."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct

from melete.app.keys import nearest_word
from melete.app.plugins import add_installed, installed
from melete.app.settings import Loaded
from melete.app.variables import variables_for_commands
from melete.app.wire import Melete
from melete.core.environment import Dialer, Environment, Opener, Place
from melete.core.errors import ConfigError, UsageError
from melete.core.event import Opened
from melete.core.plugin import Lazy, Registry
from melete.core.session import SessionRef

if TYPE_CHECKING:
    from melete.app.usable import Usable

AUTO = "auto"
_KEY = re.compile(r"[0-9a-f]{12}")
"""A key of a place as we make them; one out of an imported session may be anything, and becomes part of paths."""
_dialer: Lazy[Callable[[Mapping[str, str], Sequence[str]], Dialer]] = Lazy("melete.net.dial:dialer_for")
_usable: "Lazy[Callable[[Loaded], Usable]]" = Lazy("melete.app.usable:usable_walls")


class Chosen(Struct, frozen=True, kw_only=True):
    """An environment by name, and what a person should know about the choice."""

    name: str
    remark: str = ""


def choose(loaded: Loaded, name: str = "") -> Chosen:
    """The environment to use: the one that is named, else the settings'; `auto` is the sandbox where it works."""
    wanted = name or loaded.settings.env.default
    if wanted not in (AUTO, "sandbox"):
        return Chosen(name=wanted)
    found = _usable.load()(loaded)
    if found.walls in {"bwrap", loaded.settings.sandbox.walls}:
        return Chosen(name="sandbox")
    if found.walls:
        remark = f"commands run in a lesser sandbox, without a network: {found.reason} (sandbox.walls: landlock ends this note)"
        return Chosen(name="sandbox", remark=remark)
    if wanted != AUTO:  # opening it says why it fails
        return Chosen(name=wanted)
    remark = f"commands run without a sandbox on this machine: {found.reason} (env.default: local ends this note)"
    return Chosen(name="local", remark=remark)


def place_of(loaded: Loaded, name: str, *, cwd: str, key: str = "") -> Place:
    """What the environment `name` is given."""
    home = loaded.home
    return Place(
        cwd=cwd,
        variables=variables_for_commands(loaded, name),
        options=_options(loaded, name),
        key=key or token_hex(6),
        hidden=(str(home.profiles.parent),),
        shown=(str(home.skills),) if loaded.settings.skills.enabled else (),
        scratch=str(home.state / "places"),
        dial=_dialer.load()(loaded.environ, loaded.settings.sandbox.private_networks) if name == "sandbox" else None,
        secret=lambda name: loaded.variables.get(name, ""),
    )


def names(made: Registry) -> list[str]:
    """The environments of a registry and those that are installed; none is imported."""
    return list(dict.fromkeys([*made.names("environments"), *installed("environments")]))


def opener_of(made: Registry, name: str) -> Opener:
    """What opens the environment `name`; raises ConfigError with all that may be named, and the nearest."""
    add_installed(made, "environments", [name])
    if name not in made.all("environments"):
        listed = [*names(made), AUTO]
        hint = f"did you mean {meant}? " if (meant := nearest_word(name, listed)) else ""
        raise ConfigError(f"there is no environment {name!r}", next=f"{hint}known: {', '.join(listed)}")
    return cast("Opener", made.get("environments", name))


def open_place(app: Melete, name: str, *, cwd: str, key: str = "") -> Environment:
    """The environment, not started yet; raises ConfigError, EnvironmentFailure, UsageError for a working folder that is gone."""
    opener = opener_of(app.registry, name)
    try:
        place = place_of(app.loaded, name, cwd=cwd, key=key)
        if app.then:
            place = msgspec.structs.replace(place, shown=(*place.shown, str(app.then.home.skills)))
        env = opener(place)
        env.cwd.encode()
    except FileNotFoundError as error:
        raise UsageError("the folder in which this was started is gone", next="go to another, or give --cwd") from error
    except UnicodeEncodeError as error:
        raise UsageError("the name of the working folder is not UTF-8", next="rename it, or give --cwd") from error
    return env


def folder_of(opened: Opened | None) -> str:
    """The folder of here in which the session works; empty for a new one."""
    return opened.about.get("folder", opened.cwd) if opened else ""


def key_of(ref: SessionRef | None, known: Mapping[str, str]) -> str:
    """What the session's place is found by again: a fork, and a session from elsewhere, have one by their own id."""
    key = known.get("place", "")
    if _KEY.fullmatch(key):
        return key
    return blake2b(ref.id.encode(), digest_size=6).hexdigest() if ref else token_hex(6)


def folder_here(folder: str) -> str:
    """The working folder as this machine has it; empty where there is none, which not every environment needs."""
    try:
        return os.path.realpath(Path(folder).expanduser())
    except FileNotFoundError:
        return ""


def _options(loaded: Loaded, name: str) -> Any:
    """The environment's section of the settings; for one that is not built in, what `env.options` says under its name."""
    given = loaded.settings.env.options.get(name)
    section = getattr(loaded.settings, name, None)
    if section is None:
        return given or {}
    if given is not None:
        raise ConfigError(f"env.options.{name} has no effect", next=f"write the section {name}: in its place")
    if name == "sandbox" and section.walls == "auto" and (walls := _usable.load()(loaded).walls):
        return msgspec.structs.replace(section, walls=walls)
    return msgspec.structs.replace(section)
