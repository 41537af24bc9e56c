"""Keep a skill, find it by what it is about, change it, and take the change back."""

import asyncio
from tempfile import TemporaryDirectory

from melete import load, open_melete
from melete.app.skills import library
from melete.core.ports import Change

TEXT = """---
name: restart-shop
description: Restarts the shop when it hangs. Use when orders time out.
---

1. `systemctl restart shop`
"""


async def main(home: str) -> None:
    """Make two versions of a skill in a home of its own."""
    async with open_melete(load({}, environ={"MELETE_HOME": home, "PATH": "/bin"})) as app:
        skills = library(app)
        first = await skills.apply(Change(name="restart-shop", files={"SKILL.md": TEXT}, author="user"))
        print(first.diff)
        best, _ = skills.rank("why do my orders time out?", limit=1)[0]
        assert best.name == "restart-shop"
        loaded = await skills.read(best.name)
        better = loaded.text.replace("restart shop", "restart shop && systemctl is-active shop")
        files = {"SKILL.md": better}
        await skills.apply(Change(name=best.name, files=files, base=loaded.version, author="user", reason="check it"))
        back = await skills.revert(best.name)
        assert back.version == first.version
        print(back.diff)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        asyncio.run(main(folder))
