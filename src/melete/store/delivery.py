"""Sending to a session from outside: write to its inbox, then wait for the fact that carries the message. Part of the store."""

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

from melete.core.errors import SessionNotFoundError
from melete.core.event import Answered, CancelAsked, Fact
from melete.core.session import InboxMessage, Receipt
from melete.store import inbox
from melete.store.disk import storage_error
from melete.store.log import LogReader, is_locked, lock

POLL = 0.02
"""Seconds between two looks at the log."""


async def send(log: Path, message: InboxMessage, *, wait: float) -> Receipt:
    """Deliver and say what became of it; a message that a fact carries already is not delivered again."""
    reader = LogReader(log)
    try:
        if (receipt := receipt_of(reader.new(), message.id)) is not None:
            return receipt
        written = inbox.put(log, message)
        until = time.monotonic() + wait
        while True:
            owned = is_locked(log)
            if (receipt := receipt_of(reader.new(), message.id)) is not None:
                return receipt
            if reader.gone:
                inbox.discard(written)
                raise SessionNotFoundError(f"the session {log.stem} was deleted meanwhile", kept="nothing was done")
            if not owned:
                if message.kind in ("steer", "queue"):
                    return Receipt(status="queued")
                if (receipt := _withdraw(log, written, reader)) is not None:
                    return receipt
            if time.monotonic() >= until:
                return Receipt(status="queued")
            await asyncio.sleep(POLL)
    finally:
        reader.close()


def _withdraw(log: Path, written: Path, reader: LogReader) -> Receipt | None:
    """Take back what nobody will act on; None when a new owner came first. The lock keeps one from coming meanwhile."""
    handle = lock(log)
    if handle is None:
        return None
    try:
        receipt = receipt_of(reader.new(), written.stem)
        written.unlink(missing_ok=True)
    except OSError as error:
        raise storage_error(error, f"withdrawing {written}", kept="the message waits in the inbox") from error
    finally:
        os.close(handle)
    return receipt or Receipt(status="expired")


def receipt_of(facts: Sequence[Fact], message: str) -> Receipt | None:
    """What the first fact that carries the message says of it; None when none does."""
    for fact in facts:
        if getattr(fact, "inbox", "") != message:
            continue
        match fact:
            case Answered(status="accepted" | "lost" | "expired" | "refused" as status) | CancelAsked(status=status):
                return Receipt(status=status, seq=fact.seq)
            case Answered():
                return Receipt(status="expired", seq=fact.seq)
            case _:
                return Receipt(status="accepted", seq=fact.seq)
    return None
