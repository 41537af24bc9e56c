"""For tests and plugin authors: a scripted model on a real socket, and in-memory twins of the ports. It stands above the parts.

The twins of the store and the ledger live beside the real ones, whose rules they share.

Names load when they are first asked for, so that `python -m melete.testing.scripted` runs its own module once.
"""

from typing import TYPE_CHECKING, Any

from melete.core.plugin import Lazy

if TYPE_CHECKING:
    from melete.store.memory import MemoryLedger, MemoryStore
    from melete.testing.channel import MemoryChannel
    from melete.testing.clock import ManualClock
    from melete.testing.environment import MemoryEnvironment
    from melete.testing.memory import MemoryNotes
    from melete.testing.replies import Call, Calls, Fault, Play, Reply, Say
    from melete.testing.scripted import Recorded, ScriptedModel
    from melete.testing.skills import MemorySkills

__all__ = [
    "Call", "Calls", "Fault", "ManualClock", "MemoryChannel", "MemoryEnvironment", "MemoryLedger", "MemoryNotes",
    "MemorySkills", "MemoryStore", "Play", "Recorded", "Reply", "Say", "ScriptedModel",
]  # fmt: skip

_HOMES = {
    "melete.testing.channel": ("MemoryChannel",),
    "melete.testing.clock": ("ManualClock",),
    "melete.testing.environment": ("MemoryEnvironment",),
    "melete.testing.memory": ("MemoryNotes",),
    "melete.testing.replies": ("Call", "Calls", "Fault", "Play", "Reply", "Say"),
    "melete.testing.scripted": ("Recorded", "ScriptedModel"),
    "melete.testing.skills": ("MemorySkills",),
    "melete.store.memory": ("MemoryLedger", "MemoryStore"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return Lazy[Any](f"{module}:{name}").load()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
