"""What goes back through a visit: nothing behind the end of a stream whose key has ended, and one line for each request."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.types import Message

from melete.app.home import Home
from melete.app.server_keys import PERSON, Who
from melete.surfaces.api import visit as module
from melete.surfaces.api.audit import Trail, called
from melete.surfaces.api.visit import Visit


class Counted:
    """Requests that were counted."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, int]] = []

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self.rows.append((method, route, status))


def made(tmp_path: Path, sent: list[Message], counts: Counted) -> Visit:
    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"method": "GET", "client": ("127.0.0.1", 1)}
    trail = Trail(Home(root=tmp_path / "home"))
    return Visit(scope, send, trail=trail, now=lambda: datetime(2026, 1, 1, tzinfo=UTC), counts=counts)


def test_nothing_is_sent_behind_the_end_of_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECHECK_SECONDS", 0.0)
    sent: list[Message] = []

    async def main() -> None:
        visit = made(tmp_path, sent, Counted())
        visit.valid = lambda: False
        await visit.send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (b"one", b"two"):
            await visit.send({"type": "http.response.body", "body": piece, "more_body": True})
        await visit.send({"type": "http.response.body", "body": b"three", "more_body": False})

    asyncio.run(main())
    assert [message.get("body", b"")[:12] for message in sent] == [b"", b"one", b"event: error"]
    assert [message.get("more_body") for message in sent] == [None, True, False]


def test_a_request_without_an_answer_is_counted_as_left(tmp_path: Path) -> None:
    counts = Counted()
    made(tmp_path, [], counts).over()
    assert counts.rows == [("GET", "", 499)]


def test_callers_have_names_in_the_log() -> None:
    assert called(PERSON) == "person"
    assert called(Who(name="webui", owner="key:webui", scopes=frozenset({"chat"}))) == "key:webui"
    assert called(None) == called(Who()) == "nobody"
