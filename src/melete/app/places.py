"""Which environment a session works in, and what that environment is given. Part of the composition root."""

from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import Any

import msgspec
from msgspec import Struct

from melete.app.plugins import add_installed
from melete.app.settings import Loaded
from melete.app.wire import Melete
from melete.core.environment import Dialer, Environment, Opener, Place
from melete.core.errors import ConfigError, UsageError
from melete.core.plugin import Lazy

AUTO = "auto"
OURS = frozenset({
    "MELETE_SERVER_KEY", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES",
})  # fmt: skip
"""Variables that are for the server alone: programs that an agent starts see none of them."""
_dialer: Lazy[Callable[[], Dialer]] = Lazy("melete.net.dial:PinnedDialer")
_usable: Lazy[Callable[[Loaded], str]] = Lazy("melete.app.usable:why_no_sandbox")


class Chosen(Struct, frozen=True, kw_only=True):
    """An environment by name, and what a person should know about the choice."""

    name: str
    remark: str = ""


def choose(loaded: Loaded, name: str = "") -> Chosen:
    """The environment to use: the one that is named, else the settings'; `auto` is the sandbox where it works."""
    wanted = name or loaded.settings.env.default
    if wanted != AUTO:
        return Chosen(name=wanted)
    reason = _usable.load()(loaded)
    if not reason:
        return Chosen(name="sandbox")
    remark = f"commands run without a sandbox on this machine: {reason} (env.default: local ends this note)"
    return Chosen(name="local", remark=remark)


def place_of(loaded: Loaded, name: str, *, cwd: str, key: str = "") -> Place:
    """What the environment `name` is given."""
    home = loaded.home
    return Place(
        cwd=cwd,
        variables=variables_for_commands(loaded),
        options=_options(loaded, name),
        key=key or token_hex(6),
        hidden=(str(home.root),),
        scratch=str(home.state / "places"),
        dial=_dialer.load()() if name == "sandbox" else None,
    )


def open_place(app: Melete, name: str, *, cwd: str, key: str = "") -> Environment:
    """The environment, not started yet; raises ConfigError, EnvironmentFailure, UsageError for a working folder that is gone."""
    add_installed(app.registry, "environments", [name])
    opener: Opener = app.registry.get("environments", name)
    try:
        env = opener(place_of(app.loaded, name, cwd=cwd, key=key))
        env.cwd.encode()
    except FileNotFoundError as error:
        raise UsageError("the folder in which this was started is gone", next="go to another, or give --cwd") from error
    except UnicodeEncodeError as error:
        raise UsageError("the name of the working folder is not UTF-8", next="rename it, or give --cwd") from error
    return env


def variables_for_commands(loaded: Loaded) -> Mapping[str, str]:
    """The variables that commands see."""
    return {name: value for name, value in loaded.environ.items() if name not in OURS}


def _options(loaded: Loaded, name: str) -> Any:
    """The environment's section of the settings; for one that is not built in, what `env.options` says under its name."""
    given = loaded.settings.env.options.get(name)
    section = getattr(loaded.settings, name, None)
    if section is None:
        return given or {}
    if given is not None:
        raise ConfigError(f"env.options.{name} has no effect", next=f"write the section {name}: in its place")
    return msgspec.structs.replace(section)
