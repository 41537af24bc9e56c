"""The file behind the search is deleted while a chat is open, damaged, and remade by hand: what was said is always found."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

from melete.core.event import Opened, Said
from melete.core.message import user
from melete.store import open_store
from melete.testing import ScriptedModel
from tests.story.cli import Terminal, melete


class Clock:
    def now(self) -> datetime:
        return datetime.now(UTC)


def fill(home: Path) -> Path:
    """Three sessions; the folder of the store."""

    async def main() -> None:
        store = open_store(home / ".melete" / "state", clock=Clock())
        for number in range(3):
            said = Said(message=user(f"The lighthouse key number {number} hangs behind the door."))
            await store.add([Opened(title=f"keys {number}"), said], id=f"s-{number}")
        await store.aclose()

    asyncio.run(main())
    return home / ".melete" / "state"


def found() -> set[str]:
    """The sessions that a search names."""
    done = melete("sessions", "search", "lighthouse keys", "--json")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return {f"s-{number}" for number in range(3) if f'"s-{number}"' in done.stdout}


ALL = {"s-0", "s-1", "s-2"}


def test_a_search_file_that_is_deleted_in_mid_use_is_made_anew(own_home: Path) -> None:
    state = fill(own_home)
    assert found() == ALL
    with ScriptedModel(lambda *_: "Hello.") as model, Terminal(["chat"], model=model) as chat:
        chat.type("hi\r")
        chat.read_until("Hello.")
        chat.type("/search lighthouse\r")
        chat.read_until("keys")
        for path in state.glob("search.db*"):
            path.unlink()
        chat.type("/search lighthouse\r")
        chat.read_until("keys")
        assert found() == ALL
        chat.type("/search lighthouse\r")
        chat.read_until("keys")
        chat.type("/exit\r")
        assert chat.end() == 0


def test_a_damaged_file_is_told_by_verify_and_the_search_goes_on(own_home: Path) -> None:
    state = fill(own_home)
    assert found() == ALL
    os.truncate(state / "search.db", (state / "search.db").stat().st_size // 2)
    told = melete("verify")
    assert told.returncode == 0
    assert "search.db" in told.stdout
    assert "remade" in told.stdout
    assert found() == ALL
    assert "has been remade" in melete("verify", "--deep").stdout


def test_a_rebuild_counts_on_a_terminal_and_says_what_it_did(own_home: Path) -> None:
    fill(own_home)
    done = melete("rebuild")
    assert done.stdout.splitlines() == ["sessions.db was remade from 3 logs", "search.db was remade from 3 logs"]
    assert done.stderr == ""
    with Terminal(["rebuild"]) as shown:
        shown.read_until("of 3 logs read")
        shown.read_until("search.db was remade from 3 logs")
        assert shown.end() == 0
    assert found() == ALL
