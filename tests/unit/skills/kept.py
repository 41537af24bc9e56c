"""A home's library with its history, in a folder, with a scan that a test can understand."""

from pathlib import Path
from typing import Any

from melete.core.skill import Owner
from melete.skills.folders import Shelf
from melete.skills.manage import Keeper, Rules
from melete.skills.versions import Blobs, Tree, Versions
from melete.store.ledger import FileLedger
from melete.testing.clock import ManualClock

EVIL = b"EVIL"


def scan(after: Tree, owner: Owner, before: Tree) -> str:
    """Refuses what somebody else than the person or Melete brings in that says EVIL, and was not there before."""
    found = [path for path, data in after.items() if EVIL in data and EVIL not in before.get(path, b"")]
    return f"says EVIL in {found[0]}" if found and owner not in ("user", "bundled") else ""


def text(name: str, body: str = "Do it.\n", *, description: str = "Shows how, when it matters.", more: str = "") -> str:
    """A SKILL.md."""
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n\n{body}"


def keeper(home: Path, *, accepted: str = "", origin: str = "", **given: Any) -> Keeper:
    """The library of a home."""
    skills, state = home / "skills", home / "state"
    ledger = FileLedger(state, clock=ManualClock())
    shelves = [Shelf(kind=kind, path=str(skills / kind)) for kind in ("user", "bundled", "hub", "external", "project")]
    rules = Rules(
        user=skills / "user",
        archive=skills / ".archive",
        lock=state / "skills.lock",
        has=lambda name: name == "SET",
        accepted=lambda _: accepted,
        **{"judge": scan, **given},
    )
    versions = Versions(ledger, Blobs(state / "blobs"), origin=lambda _: origin)
    return Keeper(shelves, state=state, ledger=ledger, versions=versions, rules=rules)


def put(home: Path, place: str, content: str) -> Path:
    """Write a skill's file as somebody outside does; returns its path."""
    path = home / "skills" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path
