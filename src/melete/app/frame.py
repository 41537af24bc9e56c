"""The frame of a session: system blocks and tool schemas, built once and stored. Part of the composition root."""

from collections.abc import Sequence

from melete.agent.prompt import CONTEXT_FILES, ContextFile, Layers, build
from melete.app.wire import Melete
from melete.core.event import Framed
from melete.core.ports import Environment
from melete.core.tool import Tool

LONGEST_FILE = 1_000_000


async def layers(app: Melete, env: Environment, *, surface: str, extra: str = "") -> Layers:
    """What the system prompt is made of here and now."""
    return Layers(
        identity=_soul(app),
        extra=extra,
        context=await _context_files(env),
        now=app.clock.now().astimezone(),
        cwd=env.cwd,
        surface=surface,
    )


async def build_frame(app: Melete, env: Environment, tools: Sequence[Tool], *, surface: str, extra: str = "") -> Framed:
    """The fact that fixes the head of every request of a session."""
    made = await layers(app, env, surface=surface, extra=extra)
    return Framed(system=build(made), tools=tuple(t.shown for t in tools if not t.deferred))


def _soul(app: Melete) -> str:
    """SOUL.md, the person's own words for who the agent is; empty where there is none that can be read."""
    path = app.loaded.home.soul
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:LONGEST_FILE]
    except FileNotFoundError:
        return ""


async def _context_files(env: Environment) -> tuple[ContextFile, ...]:
    found: list[ContextFile] = []
    for name in CONTEXT_FILES:
        stat = await env.stat(name)
        if stat is None or stat.kind != "file":
            continue
        data = await env.read(name, limit=LONGEST_FILE)
        found.append(ContextFile(name=name, text=data.decode("utf-8", errors="replace")))
    return tuple(found)
