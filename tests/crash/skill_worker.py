"""Makes a skill, mends it and gives it a file, and says after each step that the library has promised it."""

import asyncio
import os
import sys
from pathlib import Path

from melete.core.ports import Change
from tests.unit.skills.kept import keeper, text

STEPS = ("one\ntwo\n", "one\n2\n", "1\n2\n")
SCRIPT = "scripts/go.sh"


def say(words: str) -> None:
    os.write(1, f"{words}\n".encode())


async def work(home: Path) -> None:
    kept = keeper(home)
    base = ""
    changes: list[dict[str, str | None]] = [
        {"SKILL.md": text("demo", STEPS[0])},
        {"SKILL.md": text("demo", STEPS[1])},
        {SCRIPT: "echo go\n"},
        {"SKILL.md": text("demo", STEPS[2]), SCRIPT: "echo 2\n", "references/a.md": "a\n"},
    ]
    for number, files in enumerate(changes, 1):
        done = await kept.apply(Change(name="demo", files=files, base=base, author="agent"))
        assert done.ok, done.reason
        base = done.version
        say(f"step {number}")
    say("done")


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1])))
