"""Proposals written into a home's ledger by hand, for the tests of what a person does with them."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from melete.app.clock import SystemClock
from melete.core.memory import Noting, Operation
from melete.core.ports import Change
from melete.learn.facts import Kept, Proposed, Review, fields_of
from melete.learn.inbox import hunks, told
from melete.learn.verdict import Verdict
from melete.skills.versions import diff
from melete.store import open_ledger

NAME = "net-debug"
PASSED = tuple(Verdict(gate=gate) for gate in ("form", "grounding", "safety", "ownership", "duplicates"))
TAINTED = Verdict(gate="safety", needs_person=True, rule="taint", reason="text from outside was in view (web_extract)")
GUESSED = Verdict(gate="grounding", ok=False, rule="ungrounded", reason="'netctl --fast' never ran with success")
SECRET = Verdict(gate="safety", ok=False, rule="secret", reason="it holds what looks like a secret")


def put(*facts: Kept) -> list[int]:
    """Append facts to the ledger of this test's home; returns their numbers."""
    ledger = open_ledger(Path.home() / ".melete/state", clock=SystemClock())

    async def work() -> list[int]:
        return [await ledger.append(fact.kind, fields_of(fact)) for fact in facts]

    return asyncio.run(work())


def rows() -> Any:
    """The facts of the ledger of this test's home."""
    return open_ledger(Path.home() / ".melete/state", clock=SystemClock()).read()


def skill(after: str, before: str = "", *, name: str = NAME, base: str = "", **more: Any) -> Proposed:
    """A proposal about a skill's SKILL.md that waits, unless `more` says otherwise."""
    change = Change(name=name, files={"SKILL.md": after}, base=base, author="agent", reason="the fix had to be found")
    old = {"SKILL.md": before.encode()} if before else {}
    shown = diff(old, {"SKILL.md": after.encode()})
    given: dict[str, Any] = {
        "id": f"id-{name}",
        "status": "inbox",
        "did": "patched" if before else "created",
        "verdicts": PASSED,
    }
    given |= {"change": msgspec.to_builtins(change), "diff": shown, "hunks": hunks(shown), "model": "scripted"}
    return Proposed(target="skill", name=name, **(given | more))


def entry(text: str, **more: Any) -> Proposed:
    """A proposal of an entry in MEMORY.md that waits, unless `more` says otherwise."""
    change = Noting(target="memory", operations=(Operation(action="add", content=text),), author="agent")
    shown = told(change, {})
    given: dict[str, Any] = {"id": "id-entry", "status": "inbox", "did": "added", "verdicts": PASSED, "class_": "fact"}
    given |= {"change": msgspec.to_builtins(change), "diff": shown, "hunks": hunks(shown)}
    return Proposed(target="memory", name="MEMORY.md", **(given | more))


def review(session: str, **more: Any) -> Review:
    """A review of a session that has ended."""
    return Review(id="rev", session=session, after=0, upto=99, why="docker failed, then worked", status="ended", **more)
