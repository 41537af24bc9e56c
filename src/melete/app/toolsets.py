"""Which tools a session has: toolsets chosen by flags and settings, opened for as long as the session is. Part of the root."""

from collections.abc import Sequence
from contextlib import AsyncExitStack

from melete.app.plugins import add_installed
from melete.app.wire import Melete
from melete.core.errors import ConfigError
from melete.core.tool import Tool, Toolset


async def open_tools(app: Melete, stack: AsyncExitStack, *, only: Sequence[str] = ()) -> tuple[Tool, ...]:
    """The tools of the chosen toolsets that are available here, in the order of registration; raises ConfigError."""
    settings = app.loaded.settings.tools
    names = list(only or settings.enabled or app.registry.names("tools"))
    add_installed(app.registry, "tools", names)
    tools: dict[str, Tool] = {}
    for name in names:
        toolset: Toolset = app.registry.get("tools", name)()
        if name in settings.disabled or not toolset.available():
            continue
        for tool in await stack.enter_async_context(toolset.open()):
            if tool.name in tools:
                raise ConfigError(
                    f"two toolsets offer a tool {tool.name!r}", next="put one of them into tools.disabled"
                )
            if tool.name not in settings.disabled:
                tools[tool.name] = tool
    return tuple(tools.values())
