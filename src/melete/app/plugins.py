"""What is built in, and what entry points add: names to lazy targets. Part of the composition root; imports none of them."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, cast

from melete.core.plugin import KINDS, Lazy, Plugin, Registry

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

_entry_points: Lazy[Callable[..., "EntryPoints"]] = Lazy("importlib.metadata:entry_points")

BUILT_IN: dict[str, dict[str, str]] = {
    "tools": {
        "terminal": "melete.tools.terminal:TerminalTools",
        "file": "melete.tools.files:FileTools",
        "todo": "melete.tools.todo:TodoTools",
        "clarify": "melete.tools.clarify:ClarifyTools",
        "session_search": "melete.tools.sessions:SessionTools",
        "skills": "melete.tools.skills:SkillTools",
        "memory": "melete.tools.memory:MemoryTools",
        "code_execution": "melete.tools.code:CodeTools",
        "delegation": "melete.agent.delegate:DelegationTools",
        "web": "melete.tools.web:WebTools",
    },
    "environments": {
        "local": "melete.environments.local:LocalEnvironment",
        "sandbox": "melete.environments.sandbox:Sandbox",
        "docker": "melete.environments.docker:Docker",
        "ssh": "melete.environments.ssh:open_ssh",
        "apptainer": "melete.environments.apptainer:Apptainer",
        "modal": "melete.environments.modal:open_modal",
        "daytona": "melete.environments.daytona:open_daytona",
    },
    "memory": {"vectors": "melete.memory.vectors:VectorMemory"},
    "services": {"api": "melete.surfaces.api.service:Api", "cron": "melete.app.scheduler:Cron"},
    "models": {
        "openai-chat": "melete.models.openai_chat:open_model",
        "openai-responses": "melete.models.openai_responses:open_model",
        "gemini": "melete.models.gemini:open_model",
        "anthropic-messages": "melete.models.anthropic_messages:open_model",
        "local": "melete.models.local:open_model",
        "bridge": "melete.models.bridge:open_model",
    },
}
"""Kind → name → target. A toolset, environment, wire or service of ours is one file and one row here."""

EXTRAS = {"melete.models.bridge:open_model": "bridge", "melete.memory.vectors:VectorMemory": "vectors"}
"""The extra whose packages a target imports as it is loaded."""


def installed(kind: str) -> list[str]:
    """The names that entry points of installed packages add to a kind by themselves; none is imported."""
    return [point.name for point in _entry_points.load()(group=f"melete.{kind}")]


def registry() -> Registry:
    """A registry with everything built in."""
    made = Registry()
    for kind, rows in BUILT_IN.items():
        for name, target in rows.items():
            made.add(kind, name, Lazy(target, extra=EXTRAS.get(target, "")))
    return made


def add_installed(made: Registry, kind: str, names: Iterable[str]) -> None:
    """Register the entry points for those of `names` that are not known yet; scanned only when there is such a name."""
    missing = [name for name in names if name not in made.all(kind)]
    if not missing or kind not in KINDS:
        return
    for point in _entry_points.load()(group=f"melete.{kind}"):
        if point.name in missing:
            made.add(kind, point.name, Lazy(point.value))
    if all(name in made.all(kind) for name in missing):
        return
    for point in _entry_points.load()(group="melete.plugins"):
        cast("Plugin", point.load()).register(made)
