"""Settings as they are in force, and the only reader of the process environment. Part of the composition root.

Precedence: flags, then variables, then config.yaml of the profile, then the defaults (sections.py). Secrets come from the
environment or the home's `.env` only.
"""

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

import msgspec
from msgspec import Struct

from melete.app.config_file import read_config
from melete.app.dotenv import EnvFile, read_env_file
from melete.app.home import DEFAULT_PROFILE, Home, locate
from melete.app.keys import Key, key_table, looks_secret, nearest, unknown_key
from melete.app.sections import Settings
from melete.core.errors import ConfigError

VARIABLES = {
    "MELETE_MODEL": "model.name",
    "MELETE_BASE_URL": "model.base_url",
    "MELETE_WIRE": "model.wire",
    "MELETE_ENV": "env.default",
    "MELETE_LEARNING": "learning.enabled",
    "MELETE_CONTEXT_LENGTH": "model.context_length",
    "MELETE_SERVER_HOST": "server.host",
    "MELETE_SERVER_PORT": "server.port",
    "MELETE_SERVER_KEY": "server.api_key",
}
OTHER_VARIABLES = (
    "MELETE_HOME", "MELETE_PROFILE", "MELETE_API_KEY", "MELETE_CLOCK", "MELETE_CI_STRICT",
)  # fmt: skip
KEYS_OF_COLLECTORS = frozenset({"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"})
BEFORE_THE_HOME = ("MELETE_HOME", "MELETE_PROFILE")
SECRETS = ("server.api_key", "delegation.api_key")
"""Settings that are keys."""
SHORTEST_SECRET = 8
_SEVERAL = re.compile(r"[\s,]+")
_NUMBER = re.compile(r"_\d{1,2}$")


class Origin(Struct, frozen=True, kw_only=True):
    """Where a value came from; `where` says it as a person would look for it, a lower `rank` wins over a higher one."""

    kind: Literal["flag", "variable", "file", "default"]
    where: str

    @property
    def rank(self) -> int:
        """0 for a flag, 3 for a default."""
        return ("flag", "variable", "file", "default").index(self.kind)


def hidden(key: str, value: Any) -> Any:
    """A setting's value as it may be shown."""
    return f"[redacted:{key}]" if key in SECRETS and value else value


DEFAULT = Origin(kind="default", where="default")


class Loaded(Struct, frozen=True, kw_only=True):
    """The settings in force, with the home they belong to and the origin of each value.

    `variables` is the environment with the home's `.env` behind it; `environ` the environment alone, as children may see it.
    `warnings` are lines that a person should read once.
    """

    settings: Settings
    home: Home
    origins: Mapping[str, Origin]
    variables: Mapping[str, str]
    environ: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    def get(self, key: str) -> Any:
        """The value of a dotted key, a dict for a section; raises ConfigError with the nearest right key."""
        found: Any = self.settings
        for part in key.split("."):
            if part not in getattr(found, "__struct_fields__", ()):
                raise unknown_key(key, keys(), where="config")
            found = getattr(found, part)
        return msgspec.to_builtins(found)

    def shown(self, key: str = "") -> Any:
        """What `get` gives, of all settings without a key, with a mark in the place of secrets."""
        found = self.get(key) if key else msgspec.to_builtins(self.settings)
        if key in SECRETS:
            return hidden(key, found)
        for name in SECRETS:
            section, _, leaf = name.rpartition(".")
            if key in ("", section):
                inside = found if key else found[section]
                inside[leaf] = hidden(name, inside[leaf])
        return found

    def origin(self, key: str) -> Origin:
        """Where the value of a dotted key came from."""
        return self.origins.get(key, DEFAULT)

    @property
    def secrets(self) -> Mapping[str, str]:
        """Values of at least eight characters whose variable's name says key, token or password, or that the settings name as one.

        By the variable's name.
        """
        named = {
            s.key_variable
            for s in (*self.settings.providers.values(), *self.settings.model.fallbacks)
            if not isinstance(s, str)
        }
        given = {f"server.api_key {n}": key for n, key in enumerate(_SEVERAL.split(self.settings.server.api_key))}
        given["delegation.api_key"] = self.settings.delegation.api_key
        return {
            name: value
            for name, value in (*self.variables.items(), *given.items())
            if (name in given or name in KEYS_OF_COLLECTORS or looks_secret(name) or _NUMBER.sub("", name) in named)
            and len(value.strip()) >= SHORTEST_SECRET
        }


@cache
def keys() -> Mapping[str, Key]:
    """Every setting by its dotted key."""
    return key_table(Settings)


def find_home(*, environ: Mapping[str, str] | None = None, profile: str = "") -> Home:
    """The home that `load` would use; reads no file. `profile` stands before MELETE_PROFILE."""
    real = os.environ if environ is None else environ
    return locate(
        home=real.get("MELETE_HOME", ""), user=real.get("HOME", ""), profile=profile or real.get("MELETE_PROFILE", "")
    )


def variables(*, environ: Mapping[str, str] | None = None, profile: str = "") -> Mapping[str, str]:
    """The environment with the home's `.env` behind it, as `Loaded.variables` has it; config.yaml is not read.

    Raises nothing: without a usable home or `.env` it is the environment alone, and `load` says what is wrong with them.
    """
    real = dict(os.environ if environ is None else environ)
    try:
        home = find_home(environ=real, profile=profile)
        return {**read_env_file(home.env, shown=home.display(home.env)).values, **real}
    except ConfigError:
        return real


def load(
    flags: Mapping[str, object] | None = None, *, environ: Mapping[str, str] | None = None, profile: str = ""
) -> Loaded:
    """The settings in force. `flags` are by dotted key, None meaning not given; `environ` stands in for the process's own.

    Raises ConfigError that names file and line, variable or flag, and how to put it right. Writes nothing.
    """
    real = dict(os.environ if environ is None else environ)
    home = find_home(environ=real, profile=profile)
    env_file = read_env_file(home.env, shown=home.display(home.env))
    values, origins = _from_file(home)
    variables = {**env_file.values, **real}
    for name, key in VARIABLES.items():
        if text := variables.get(name, "").strip():
            where = _variable_origin(name, real, env_file)
            values[key], origins[key] = keys()[key].value(text, where=where), Origin(kind="variable", where=where)
    for key, given in (flags or {}).items():
        if given is None:
            continue
        if key not in keys():
            raise unknown_key(key, keys(), where="flag")
        values[key], origins[key] = keys()[key].value(given, where="flag"), Origin(kind="flag", where="flag")
    return Loaded(
        settings=build(values),
        home=home,
        origins=origins,
        variables=variables,
        environ=real,
        warnings=(*env_file.warnings, *_warnings(home, variables, env_file)),
    )


def build(values: Mapping[str, Any]) -> Settings:
    """Settings from values by dotted key, defaults for the rest."""
    if not values:
        return Settings()
    nested: dict[str, Any] = {}
    for name, value in values.items():
        *path, leaf = name.split(".")
        here = nested
        for part in path:
            here = here.setdefault(part, {})
        here[leaf] = value
    return msgspec.convert(nested, Settings)


def _from_file(home: Home) -> tuple[dict[str, Any], dict[str, Origin]]:
    shown = home.display(home.config)
    found = read_config(home.config, keys(), shown=shown)
    if found.problems:
        first, *more = found.problems
        kept = f"{len(more)} more in `melete config check`" if more else ""
        raise ConfigError(first.what, kept=kept, next=first.next)
    given = {k: s for k, s in found.settings.items() if s.value != ""}
    origins = {k: Origin(kind="file", where=f"{shown}:{s.line}") for k, s in given.items()}
    return {k: s.value for k, s in given.items()}, origins


def _variable_origin(name: str, real: Mapping[str, str], env_file: EnvFile) -> str:
    return name if name in real else f"{name} (.env:{env_file.lines[name]})"


def _warnings(home: Home, variables: Mapping[str, str], env_file: EnvFile) -> list[str]:
    found = [
        f"{home.display(home.env)}:{env_file.lines[name]}: {name} has no effect here; set it in the environment"
        for name in BEFORE_THE_HOME
        if name in env_file.values
    ]
    known = {*VARIABLES, *OTHER_VARIABLES}
    table = {name: Key(name=name, type=str, default="", about="") for name in known}
    numbered = re.compile(r"MELETE_API_KEY_([2-9]|1\d|20)")
    unknown = (n for n in variables if n.startswith("MELETE_") and n not in known and not numbered.fullmatch(n))
    for name in sorted(unknown):
        meant = nearest(name, table)
        found.append(f"the variable {name} is not known" + (f"; did you mean {meant}?" if meant else ""))
    if home.profile != DEFAULT_PROFILE and not home.root.exists():
        found.append(f"the profile {home.profile} is new; it will live in {home.display(home.root)}")
    return found
