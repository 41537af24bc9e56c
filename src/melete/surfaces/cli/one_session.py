"""What the commands that work with one session share: it is found by id, the beginning of one, or title."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from melete.app.settings import Loaded
from melete.app.wire import Melete
from melete.core.errors import UsageError
from melete.core.session import SessionRef
from melete.surfaces.cli.completing import complete_session
from melete.surfaces.cli.running import run_with_app

F = TypeVar("F", bound=Callable[..., Any])
LONGEST = 200
"""Characters of a title at most."""

Work = Callable[[Melete, SessionRef], Awaitable[int]]


def title_of(text: str) -> str:
    """A title as it is stored: one line; raises UsageError for one that is empty or too long."""
    title = " ".join(text.split())
    if not title:
        raise UsageError("the title is empty", kept="the session keeps its title", next="give it a few words")
    if len(title) > LONGEST:
        raise UsageError(
            f"the title has {len(title)} characters", kept="the session keeps its title", next=f"use at most {LONGEST}"
        )
    return title


def session_argument(function: F) -> F:
    """Add SESSION, which the shell completes."""
    return click.argument("session", shell_complete=complete_session)(function)


def with_session(loaded: Loaded, name: str, work: Work) -> int:
    """Do `work` with the application and the session that `name` means; raises SessionNotFoundError."""

    async def body(app: Melete) -> int:
        return await work(app, await app.store.find(name))

    return run_with_app(loaded, body)
