"""Melete: an agent that works with real tools and keeps every fact.

The public names; each is imported when it is first used, so that `import melete` costs nothing:

    from melete import Options, load, open_conversation, open_melete, user

    async with open_melete(load()) as app, open_conversation(app, Options()) as conversation:
        ended = await conversation.run(user("What does this folder hold?"))
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from melete.app.opening import Options as Options
    from melete.app.sections import Settings as Settings
    from melete.app.service import Conversation as Conversation
    from melete.app.service import open_conversation as open_conversation
    from melete.app.settings import load as load
    from melete.app.wire import Melete as Melete
    from melete.app.wire import open_melete as open_melete
    from melete.core.errors import MeleteError as MeleteError
    from melete.core.event import Event as Event
    from melete.core.event import Fact as Fact
    from melete.core.event import Question as Question
    from melete.core.event import Reply as Reply
    from melete.core.event import RunEnded as RunEnded
    from melete.core.event import Stop as Stop
    from melete.core.message import Message as Message
    from melete.core.message import Part as Part
    from melete.core.message import Text as Text
    from melete.core.message import ToolCall as ToolCall
    from melete.core.message import ToolResult as ToolResult
    from melete.core.message import Usage as Usage
    from melete.core.message import user as user
    from melete.core.model import ModelClient as ModelClient
    from melete.core.model import ModelError as ModelError
    from melete.core.model import ModelRequest as ModelRequest
    from melete.core.plugin import Lazy as Lazy
    from melete.core.plugin import Plugin as Plugin
    from melete.core.plugin import Registry as Registry
    from melete.core.ports import Environment as Environment
    from melete.core.session import Session as Session
    from melete.core.session import SessionRef as SessionRef
    from melete.core.session import Store as Store
    from melete.core.tool import Tool as Tool
    from melete.core.tool import ToolContext as ToolContext
    from melete.core.tool import ToolError as ToolError
    from melete.core.tool import Toolset as Toolset
    from melete.core.tool import tool as tool

__version__ = "0.1.0"

_HOMES = {
    "melete.app.opening": ("Options",),
    "melete.app.sections": ("Settings",),
    "melete.app.service": ("Conversation", "open_conversation"),
    "melete.app.settings": ("load",),
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
