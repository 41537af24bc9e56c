"""What a row of the table of environments says. One file for each environment holds its row; `rows.py` lists them."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from msgspec import Struct

from melete.core.environment import Environment


class Row(Struct, frozen=True, kw_only=True):
    """An environment under test.

    `open(folder, given)` gives an environment, not started yet, whose working folder is empty and whose commands see
    `suites.VARIABLES` (and a usable PATH); leaving it closes the environment and whatever was borrowed. `folder` is an
    empty folder of this machine; `given` is the value of the fixture named `fixture` (a running engine, a server), or None.
    Every environment that is opened has a key of its own, so that two are two sessions.

    `cut(place, given)` breaks the environment from outside while it is in use, as a stopped container or a lost connection
    would; None where nothing can. `small` is a folder of the environment on a file system of at most 64 MB, where a full
    disk can be seen; empty where there is none. `without` names checks that cannot be, with the reason.
    """

    name: str
    open: Callable[[Path, Any], AbstractAsyncContextManager[Environment]]
    fixture: str = ""
    needs: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    megabytes_of_file: int = 100
    megabytes_of_output: int = 1000
    cut: Callable[[Any, Any], Awaitable[None]] | None = None
    small: str = ""
    without: Mapping[str, str] = {}
