"""A job that is done the hard way in every session, a model that does it, and the review that makes a skill of it."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import msgspec

from melete.learn.briefs import OPENING
from melete.store import open_ledger
from melete.testing import Call, Calls, Fault, ManualClock, Reply, Say, ScriptedModel
from tests.story.cli import PATIENCE, variables
from tests.story.cli import melete as command

PROGRAM = """#!/bin/sh
[ "$2" = "--blue" ] && { echo frobbed; exit 0; }
echo "E42: which colour?" >&2
exit 2
"""
SKILL = """---
name: w-frob
description: How to frob with w. Use when something is to be frobbed.
---

# w frob

Run `w frob --blue`; without the option it fails.
"""
CALLS = 8


class Frobbing:
    """A home with learning on, and the scripted model; `late` is a fault that holds up every review while it is set.

    Without `kept` reviews find nothing; `more_` are further variables of every command.
    """

    def __init__(self, home: Path, **learning: Any) -> None:
        self.home = home / ".melete"
        self.bin = home / "bin"
        self.work = home / "work"
        for folder in (self.home, self.bin, self.work):
            folder.mkdir()
        (self.bin / "w").write_text(PROGRAM)
        (self.bin / "w").chmod(0o755)
        (self.home / "config.yaml").write_bytes(msgspec.json.encode({"learning": {"detach": False, **learning}}))
        self.kept = True
        self.more_: Mapping[str, str] = {}
        self.late: Callable[[Reply], Reply] | None = None
        self.model = ScriptedModel(self.answer)

    @property
    def more(self) -> Mapping[str, str]:
        """Variables of every command here."""
        return {"MELETE_LEARNING": "true", "PATH": f"{self.bin}:{variables()['PATH']}", **self.more_}

    def __call__(self, *words: str) -> CompletedProcess[str]:
        """Run a command to its end."""
        return command(*words, model=self.model, cwd=self.work, stdin=None, **self.more)

    def frob(self, *words: str) -> CompletedProcess[str]:
        """One session: eight calls, the first of which fails."""
        done = self("run", "--yolo", *words, "Frob it")
        assert done.stdout == "Frobbed.\n", done.stderr
        return done

    def answer(self, body: dict[str, Any], _: int) -> Reply | str:
        """What the model says: it looks for the option, works on, and answers; in a review it keeps what it found."""
        messages = body["messages"]
        last = max(at for at, message in enumerate(messages) if message["role"] == "user")
        words = said(messages[last])
        done = sum(message["role"] == "tool" for message in messages[last + 1 :])
        if words.startswith(OPENING):
            return self._held(_reviewed(done) if self.kept else Say(text="Nothing to keep."))
        if not words.startswith("Frob it"):
            return "Four."
        commands = ["w frob", "w frob --blue", *(f"echo step {step}" for step in range(3, CALLS + 1))]
        return Call("terminal", {"command": commands[done]}) if done < CALLS else "Frobbed."

    def _held(self, reply: Reply) -> Reply:
        return self.late(reply) if self.late else reply

    def ledger(self, *kinds: str) -> list[Mapping[str, Any]]:
        """The ledger's facts of these kinds."""
        rows = open_ledger(self.home / "state", clock=ManualClock()).read()
        return [row for row in rows if row["kind"] in kinds]

    def reviews(self) -> list[str]:
        """What was told of reviews, in order: each id's first letters are its name."""
        told = self.ledger("learn.review")
        names = {row["id"]: chr(ord("a") + at) for at, row in enumerate({row["id"]: row for row in told}.values())}
        return [f"{names[row['id']]} {row['status']}" for row in told if not (row["status"] == "begun" and row["log"])]

    def workers(self) -> list[str]:
        """The processes that were left behind here and are still there."""
        found: list[str] = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                line, given = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
            except OSError:  # it ended while we looked
                continue
            if b"learn\0work" in line and os.fsencode(self.home) in given:
                found.append(entry.name)
        return found

    def asked_to_review(self) -> list[int]:
        """The numbers of the requests with which reviews began."""
        found = enumerate(request.json["messages"] for request in self.model.requests)
        return [
            at for at, messages in found if messages[-1]["role"] == "user" and said(messages[-1]).startswith(OPENING)
        ]


def said(message: Mapping[str, Any]) -> str:
    """The words of a message as the wire has it."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def _reviewed(done: int) -> Reply:
    if done == 0:
        return Call("skills_list", {})
    if done == 1:
        return Call("skill_manage", {"action": "create", "name": "w-frob", "content": SKILL})
    return Say(text="One lesson.")


def stalled(reply: Reply) -> Reply:
    """The model says nothing for a long time."""
    assert isinstance(reply, Say | Call | Calls)
    return Fault("stall", seconds=60.0, reply=reply)


def until(wanted: Callable[[], Any]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE
    while not wanted():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def frobbing(home: Path, **learning: Any) -> Iterator[Frobbing]:
    """The world of a test, closed behind it."""
    one = Frobbing(home, **learning)
    with one.model:
        yield one
