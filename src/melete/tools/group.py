"""A toolset whose tools need nothing started: the shape of most built-in ones."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import ClassVar

from melete.core.tool import Tool


class Group:
    """Tools under one name; a subclass names them."""

    name: str = ""
    tools: ClassVar[tuple[Tool, ...]] = ()

    def available(self) -> bool:
        """Always: nothing outside the environment is needed."""
        return True

    def open(self) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """The tools; nothing has to be started or ended for them."""
        return nullcontext(self.tools)
