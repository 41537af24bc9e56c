"""Which tools a session has, and which of them a request shows. Part of the composition root.

Toolsets are chosen by flags and settings and stay open for as long as the session is. Every tool can be called; the schemas
of some are only found through `tool_search`, and a model with a small window sees few tools in few words.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import msgspec
from msgspec import Struct, structs

from melete.app.plugins import add_installed
from melete.app.settings import Loaded
from melete.app.wire import Melete
from melete.core.errors import ConfigError
from melete.core.event import ToolSchema
from melete.core.plugin import Lazy
from melete.core.ports import Runner, SkillLibrary
from melete.core.tool import Tool, Toolset

_searching: Lazy[Callable[..., Tool]] = Lazy("melete.tools.find:searching")
HANDED: Mapping[str, Lazy[Callable[[Loaded], dict[str, Any]]]] = {
    "web": Lazy("melete.app.web:web_parts"),
    "memory": Lazy("melete.app.memory:memory_parts"),
}
"""What makes the arguments of toolsets that need other parts."""
LIBRARY = "skills"
"""The toolset that is given the session's library."""
DELEGATION = "delegation"
"""The toolset that is given what starts the session's children."""
SEARCH = "tool_search"
ALWAYS = frozenset({
    "terminal", "process", "read_file", "write_file", "patch", "search_files", "todo", "clarify", "session_search",
    "skills_list", "skill_view", "skill_manage", "skill_search", "memory", "execute_code", "delegate_task",
    "web_search", "web_extract", SEARCH,
})  # fmt: skip
"""Tools that are never deferred, unless the window is small."""
SHARE, MOST = 0.1, 16_000
"""Of the window, and in bytes: above either, the schemas of all other tools are deferred."""
BYTES_PER_TOKEN = 4
SMALL_WINDOW = 16_384
"""Tokens up to which a window is small."""
SMALL_LIST = 600
"""Bytes that `tool_search` may take in a small window."""
SAVED = 8_000
"""Bytes of schemas that must be saved before `tool_search` is worth its own, in a small window."""
OWN = 1_000
"""Bytes that a person's own tools may take in a small window without being deferred."""
RESULT, SMALL_RESULT = 0.2, 0.12
"""Share of the window that one result may fill."""
SHORTEST = 1_500
"""Characters of a result that are always let through."""


class Brief(Struct, frozen=True, kw_only=True):
    """What a small model is told of a tool: other words, and of its parameters only these."""

    about: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


BRIEF: Mapping[str, Brief] = {
    "terminal": Brief(
        about="Run a shell command in the working folder; gives output and exit_code.",
        required=("command",),
        optional=("timeout",),
    ),
    "read_file": Brief(about="Read a file, from line offset on.", required=("path",), optional=("offset", "limit")),
    "write_file": Brief(about="Write a whole new file.", required=("path", "content")),
    "patch": Brief(
        about="Change a file: put new_string for old_string, which must be copied exactly and occur once.",
        required=("path", "old_string", "new_string"),
    ),
    "search_files": Brief(
        about="Lines that match a regular expression; with target files, files whose names fit a glob.",
        required=("pattern",),
        optional=("target", "path"),
    ),
}
"""The tools that a small window shows, in brief."""


class Toolbox(Struct, frozen=True, kw_only=True):
    """A session's tools: `tools` are all that can be called, `shown` are the schemas that its frame holds."""

    tools: tuple[Tool, ...]
    shown: tuple[ToolSchema, ...]


class Opened(Struct, frozen=True, kw_only=True):
    """Tools that are ready to be called, and which of them each toolset brought."""

    tools: tuple[Tool, ...]
    sets: Mapping[str, tuple[str, ...]]


async def open_tools(
    app: Melete,
    stack: AsyncExitStack,
    *,
    only: Sequence[str] = (),
    skills: SkillLibrary | None = None,
    runner: Runner | None = None,
) -> Opened:
    """The tools of the chosen toolsets that are available here, in the order of registration; raises ConfigError."""
    settings = app.loaded.settings.tools
    names = list(only or settings.enabled or app.registry.names("tools"))
    add_installed(app.registry, "tools", names)
    tools: dict[str, Tool] = {}
    sets: dict[str, tuple[str, ...]] = {}
    for name in names:
        if name in settings.disabled:
            continue
        handed = HANDED[name].load()(app.loaded) if name in HANDED else {}
        if name == LIBRARY:
            handed = {"library": skills, "edit_user": app.loaded.settings.skills.edit_user}
        if name == DELEGATION:
            handed = {"runner": runner}
        toolset: Toolset = app.registry.get("tools", name)(**handed)
        if not toolset.available():
            continue
        opened = await stack.enter_async_context(toolset.open())
        sets[name] = tuple(tool.name for tool in opened)
        for tool in opened:
            if tool.name in tools:
                raise ConfigError(
                    f"two toolsets offer a tool {tool.name!r}", next="put one of them into tools.disabled"
                )
            if tool.name not in settings.disabled:
                tools[tool.name] = tool
    return Opened(tools=tuple(tools.values()), sets=sets)


def is_small(profile: str, window: int) -> bool:
    """Whether a session shows few tools in few words: `profile` is small, or auto and the window in tokens is small."""
    return profile == "small" or (profile == "auto" and window <= SMALL_WINDOW)


def toolbox(
    tools: Sequence[Tool], *, window: int, small: bool = False, stored: tuple[ToolSchema, ...] | None = None
) -> Toolbox:
    """What can be called and what is shown, for a window of so many tokens.

    `stored` is what the session's frame shows already. It stays, as the very same tuple, for as long as it leads to every
    tool: all that it names are there, and others are found by its `tool_search` or were left out from the start. Otherwise
    `shown` is a new one.
    """
    few = small and any(tool.name in BRIEF for tool in tools)
    shown = stored if stored is not None and _leads(stored, tools, window) else _shown(tools, window, small=few)
    share = SMALL_RESULT if small else RESULT
    longest = max(SHORTEST, int(share * window * BYTES_PER_TOKEN))
    callable_ = tuple(t if t.limit <= longest else structs.replace(t, limit=longest) for t in tools)
    if all(schema.name != SEARCH for schema in shown):
        return Toolbox(tools=callable_, shown=shown)
    names = {schema.name for schema in shown}
    search = _search([tool for tool in callable_ if tool.name not in names], callable_, small=few)
    return Toolbox(tools=(*callable_, search), shown=shown)


def _leads(stored: tuple[ToolSchema, ...], tools: Sequence[Tool], window: int) -> bool:
    """Whether a stored frame leads to these tools."""
    names = [schema.name for schema in stored]
    if SEARCH in names:
        return {tool.name for tool in tools}.issuperset(name for name in names if name != SEARCH)
    return any(names == [schema.name for schema in _shown(tools, window, small=small)] for small in (False, True))


def _shown(tools: Sequence[Tool], window: int, *, small: bool) -> tuple[ToolSchema, ...]:
    """The schemas of a new frame, `tool_search` behind them where it leads to others."""
    kept, searched = _few(tools) if small else _many(tools, window)
    shown = [_brief(tool) if small and tool.name in BRIEF else tool.shown for tool in kept]
    if searched:
        names = {tool.name for tool in kept}
        shown.append(_search([tool for tool in tools if tool.name not in names], tools, small=small).shown)
    return tuple(shown)


def _many(tools: Sequence[Tool], window: int) -> tuple[list[Tool], bool]:
    """All tools, or without those that are deferred."""
    kept = [tool for tool in tools if not tool.deferred]
    if any(tool.name not in ALWAYS for tool in kept):
        most = min(MOST, SHARE * window * BYTES_PER_TOKEN)
        if sum(schema_bytes(tool.shown) for tool in kept) > most:
            kept = [tool for tool in kept if tool.name in ALWAYS]
    return kept, len(kept) < len(tools)


def _few(tools: Sequence[Tool]) -> tuple[list[Tool], bool]:
    """The tools in brief, and a person's own if they are few; the rest is worth `tool_search`, or is left out."""
    kept = [tool for tool in tools if tool.name in BRIEF]
    rest = [tool for tool in tools if tool.name not in BRIEF]
    own = [tool for tool in rest if tool.name not in ALWAYS]
    size = sum(schema_bytes(tool.shown) for tool in own)
    if any(t.deferred for t in own) or size > OWN or sum(schema_bytes(tool.shown) for tool in rest) >= SAVED:
        return kept, True
    return [*kept, *own], False


def _search(hidden: Sequence[Tool], tools: Sequence[Tool], *, small: bool) -> Tool:
    limit = max((tool.limit for tool in tools), default=SHORTEST)
    return _searching.load()(hidden, limit=limit, **({"room": SMALL_LIST} if small else {}))


def _brief(tool: Tool) -> ToolSchema:
    """The schema in brief; parameters that the tool does not have are not made up."""
    brief = BRIEF[tool.name]
    schema = msgspec.json.decode(tool.schema, type=dict[str, msgspec.Raw])
    fields = msgspec.json.decode(schema.get("properties", b"{}"), type=dict[str, msgspec.Raw])
    small = {
        "type": "object",
        "required": [name for name in brief.required if name in fields],
        "properties": {name: fields[name] for name in (*brief.required, *brief.optional) if name in fields},
    }
    return ToolSchema(name=tool.name, about=brief.about, parameters=msgspec.Raw(msgspec.json.encode(small)))


def schema_bytes(schema: ToolSchema) -> int:
    """The size of a schema in compact JSON, as the field's function format has it."""
    function = {"name": schema.name, "description": schema.about, "parameters": schema.parameters}
    return len(msgspec.json.encode({"type": "function", "function": function}))
