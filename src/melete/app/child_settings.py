"""Whether the settings of children go together, told at the start and not when the first child is begun. Composition root."""

import shlex

from melete.app.settings import Loaded
from melete.core.errors import ConfigError

OF_MODELS = ("model", "provider", "base_url", "api_key", "reasoning_effort")
"""Keys of `delegation` that mean nothing to a program."""


def command_of(loaded: Loaded) -> tuple[str, ...]:
    """The words of `delegation.command`, none where children are no programs; raises ConfigError."""
    given = loaded.settings.delegation
    if not given.command.strip():
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
