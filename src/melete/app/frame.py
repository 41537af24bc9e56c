"""The frame of a session: system blocks and tool schemas, built once and stored. Part of the composition root."""

import logging
import stat
from collections.abc import Mapping, Sequence

from melete.agent.prompt import CONTEXT_FILES, ContextFile, Layers, says_folder
from melete.app.toolsets import BYTES_PER_TOKEN, Toolbox, is_small, toolbox
from melete.app.wire import Melete
from melete.core.delegation import SUBAGENT
from melete.core.event import Framed
from melete.core.ports import Environment
from melete.core.tool import Tool

log = logging.getLogger("melete.frame")
LONGEST_FILE = 1_000_000
CONTEXT_SHARE = 0.1
"""Share of a small window that context files may take together."""


def tools_of(app: Melete, tools: Sequence[Tool], *, window: int, stored: Framed | None = None) -> Toolbox:
    """Which of a session's tools can be called and which its requests show; the `stored` frame's stay where they lead to all."""
    small = is_small(app.loaded.settings.agent.profile, window)
    return toolbox(tools, window=window, small=small, stored=stored.tools if stored else None)


async def layers(
    app: Melete,
    env: Environment,
    *,
    surface: str,
    extra: str = "",
    window: int | None = None,
    kept: Mapping[str, str] = {},
) -> Layers:
    """What the system prompt is made of here and now, for a model with a `window` of so many tokens.

    `kept` is what is known from before: the layers `memory` and `skills`. A child is shown no context files.
    """
    small = window is not None and is_small(app.loaded.settings.agent.profile, window)
    return Layers(
        identity=_soul(app),
        extra=extra,
        memory=kept.get("memory", ""),
        skills="" if small else kept.get("skills", ""),
        context=() if surface == SUBAGENT else await _context_files(app, env),
        now=app.clock.now().astimezone(),
        cwd=env.cwd,
        place=note_of(env),
        surface=surface,
        small=small,
        room=int(CONTEXT_SHARE * window * BYTES_PER_TOKEN) if small and window else None,
    )


def why_new(stored: Framed | None, made: Layers) -> str:
    """Why a frame is made, in place of the stored one."""
    if stored is None:
        return "start"
    if stored.place != made.place:
        return "another environment"
    return "other instructions" if says_folder(stored.system, made.cwd) else "another folder"


def note_of(env: Environment) -> str:
    """The sentence that the environment has for the model; empty where it has none."""
    return str(getattr(env, "note", "")).strip()


def _soul(app: Melete) -> str:
    """SOUL.md, the person's own words for who the agent is; empty where there is no such file, with a warning in the log."""
    home = app.loaded.home
    try:
        if stat.S_ISREG(home.soul.stat().st_mode):  # a pipe would be waited for without end
            with home.soul.open(encoding="utf-8", errors="replace") as file:
                return file.read(LONGEST_FILE)
        reason = "it is no file"
    except FileNotFoundError:
        return ""
    except OSError as error:
        reason = error.strerror
    log.warning("%s cannot be read (%s); the built-in identity is used", home.display(home.soul), reason)
    return ""


async def _context_files(app: Melete, env: Environment) -> tuple[ContextFile, ...]:
    """The folder's files for agents, known secrets taken out as from every file that the agent reads."""
    found: list[ContextFile] = []
    for name in CONTEXT_FILES:
        try:
            there = await env.stat(name)
            if there is None or there.kind != "file":
                continue
            data = await env.read(name, limit=LONGEST_FILE)
        except OSError as error:
            log.warning("the context file %s cannot be read (%s); it is left out", name, error.strerror)
            continue
        found.append(ContextFile(name=name, text=app.redact(data.decode("utf-8", errors="replace"))))
    return tuple(found)
