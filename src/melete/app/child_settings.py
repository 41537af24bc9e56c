"""Whether the settings of children go together, told at the start and not when the first child is begun. Composition root."""

import shlex

from melete.app.catalog import known_providers, split_name
from melete.app.settings import Loaded
from melete.core.errors import ConfigError

OF_MODELS = ("model", "provider", "base_url", "api_key", "reasoning_effort")
"""Keys of `delegation` that mean nothing to a program."""


def check_model(loaded: Loaded) -> None:
    """Raise ConfigError for a key that no address is named for: it would be sent nowhere, or to a host it was not set for."""
    given = loaded.settings.delegation
    if not given.api_key or given.provider or given.base_url:
        return
    if not split_name(given.model, known_providers(loaded))[0]:
        raise ConfigError(
            f"{loaded.origin('delegation.api_key').where}: delegation.api_key is for no server",
            next="set delegation.base_url or delegation.provider, or write delegation.model as PROVIDER/NAME",
        )


def command_of(loaded: Loaded) -> tuple[str, ...]:
    """The words of `delegation.command`, none where children are no programs.

    Raises ConfigError for what is no command line, and for keys of `delegation` that do not go together.
    """
    given = loaded.settings.delegation
    if not given.command.strip():
        check_model(loaded)
        return ()
    where = loaded.origin("delegation.command").where
    if beside := [f"delegation.{name}" for name in OF_MODELS if getattr(given, name)]:
        raise ConfigError(
            f"{where}: delegation.command stands beside {', '.join(beside)}, which means nothing to a program",
            next="take one or the other away: children are that program, or a model",
        )
    try:
        words = shlex.split(given.command)
    except ValueError as error:
        raise ConfigError(
            f"{where}: delegation.command is no command line: {error}",
            next="close the quote, or write a backslash before one that is meant as it is",
        ) from error
    if not words or not words[0]:
        raise ConfigError(f"{where}: delegation.command names no program", next="write one, or leave it empty")
    return tuple(words)
