"""Melete: an agent that works with real tools, keeps every fact, and gets better with use.

The public names; each is imported when it is first used, so that `import melete` costs nothing:

    from melete import Options, load, open_conversation, open_melete, user

    async with open_melete(load()) as app, open_conversation(app, Options()) as conversation:
        ended = await conversation.run(user("What does this folder hold?"))
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from melete.app.service import Conversation as Conversation, Options as Options, open_conversation as open_conversation
    from melete.app.settings import Settings as Settings, load as load
    from melete.app.wire import Melete as Melete, open_melete as open_melete
    from melete.core.errors import MeleteError as MeleteError
    from melete.core.event import Event as Event, Fact as Fact, Question as Question, Reply as Reply, RunEnded as RunEnded, Stop as Stop
    from melete.core.message import Message as Message, Part as Part, Text as Text, ToolCall as ToolCall, ToolResult as ToolResult, Usage as Usage, user as user
    from melete.core.model import ModelClient as ModelClient, ModelError as ModelError, ModelRequest as ModelRequest
    from melete.core.plugin import Lazy as Lazy, Plugin as Plugin, Registry as Registry
    from melete.core.ports import Environment as Environment
    from melete.core.session import Session as Session, SessionRef as SessionRef, Store as Store
    from melete.core.tool import Tool as Tool, ToolContext as ToolContext, ToolError as ToolError, Toolset as Toolset, tool as tool

__version__ = "0.1.0"

_HOMES = {
    "melete.app.service": ("Conversation", "Options", "open_conversation"),
    "melete.app.settings": ("Settings", "load"),
    "melete.app.wire": ("Melete", "open_melete"),
    "melete.core.errors": ("MeleteError",),
    "melete.core.event": ("Event", "Fact", "Question", "Reply", "RunEnded", "Stop"),
    "melete.core.message": ("Message", "Part", "Text", "ToolCall", "ToolResult", "Usage", "user"),
    "melete.core.model": ("ModelClient", "ModelError", "ModelRequest"),
    "melete.core.plugin": ("Lazy", "Plugin", "Registry"),
    "melete.core.ports": ("Environment",),
    "melete.core.session": ("Session", "SessionRef", "Store"),
    "melete.core.tool": ("Tool", "ToolContext", "ToolError", "Toolset", "tool"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME_OF)]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'melete' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
