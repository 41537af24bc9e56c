"""Processes of this machine that are no children of this agent: an earlier one started them and is gone. Used by `processes`.

Such a process is known by its number and the moment of its birth; nothing but its end can be seen.
"""

import asyncio
import signal

from melete.environments import tree

GRACE = 1.0
LOOK = 0.05


async def end(pid: int, born: str) -> None:
    """End it and what descends from it, by force where it does not go when asked; nothing happens when it is gone."""
    if not born or tree.born(pid) != born:
        return
    others = tree.descendants(pid)
    tree.ask_to_end(pid, others)
    if not await _gone(pid, others):
        others |= tree.descendants(pid)
        tree.send(pid, others, signal.SIGKILL)
        await _gone(pid, others)


async def _gone(pid: int, others: dict[int, str]) -> bool:
    """Whether its group and those others are gone within the time that they are given."""
    loop = asyncio.get_running_loop()
    until = loop.time() + GRACE
    while tree.group_breathes(pid) or any(tree.born(other) == birth for other, birth in others.items()):
        if loop.time() >= until:
            return False
        await asyncio.sleep(LOOK)  # nobody tells those who are not its parent
    return True
