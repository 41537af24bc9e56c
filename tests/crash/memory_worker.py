"""Changes a memory step by step and says after each step that it was promised: by itself, or while a person saves as well."""

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from melete.memory import files
from melete.memory.notes import Notes
from tests.unit.memory.kept import add, main_file, note, notes, remove, replace

HAND, SAVED = ["one", "by hand", "three"], ["one by hand", "two", "by hand"]
STEPS = [[], ["one"], ["one", "two", "three"], HAND, ["uno", "by hand", "four"], ["by hand", "four"]]
MET = [[], ["one", "two", "three"], ["one", "zwei", "four"], SAVED, ["one by hand", "zwei", "by hand", "four"]]


def say(words: str) -> None:
    os.write(1, f"{words}\n".encode())


def save(path: Path, entries: list[str]) -> None:
    """As an editor does."""
    path.with_name("new").write_text(files.joined(entries) + "\n")
    path.with_name("new").replace(path)


async def alone(kept: Notes, path: Path) -> None:
    assert (await note(kept, add("one"))).ok
    say("step 1")
    assert (await note(kept, add("two"), add("three"))).ok
    say("step 2")
    save(path, HAND)
    say("step 3")
    assert (await note(kept, replace("one", "uno"), remove("three"), add("four"))).ok
    say("step 4")
    assert (await note(kept, remove("uno"))).ok
    say("step 5")


async def met(kept: Notes, path: Path) -> None:
    assert (await note(kept, add("one"), add("two"), add("three"))).ok
    say("step 1")
    exchange = files._exchange

    def meanwhile(one: Path, two: Path) -> None:
        files._exchange = exchange
        save(path, SAVED)
        say("step 2\nstep 3")
        exchange(one, two)

    files._exchange = meanwhile
    assert (await note(kept, replace("two", "zwei"), add("four"), remove("three"))).ok
    say("step 4")


async def work(role: str, home: Path) -> None:
    # One worker thread: strace counts each thread's calls apart, and every call is to have its turn.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
    await {"alone": alone, "met": met}[role](notes(home), main_file(home))
    say("done")


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], Path(sys.argv[2])))
