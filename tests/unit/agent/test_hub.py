"""The fan-out of events: nobody waits for a slow reader, who is told what to reread; a late one sees the answer so far."""

import asyncio
from collections.abc import Callable

import pytest

from melete.agent.hub import KEPT_DELTAS, Hub
from melete.core.event import CallDelta, Event, Fact, Lagged, Notice, TextDelta, ToolProgress
from melete.testing import ManualClock


def fact(seq: int) -> Notice:
    return Notice(seq=seq, session="s", run="r", text=str(seq))


def read(act: Callable[[Hub], None], *, limit: int = 5_000, before: Callable[[Hub], None] | None = None) -> list[Event]:
    """What a reader gets that joins after `before` and reads after `act`."""

    async def main() -> list[Event]:
        hub = Hub("s", ManualClock())
        if before:
            before(hub)
        with hub.subscribe(limit=limit) as events:
            act(hub)
            hub.close()
            return [event async for event in events]

    return asyncio.run(main())


def test_deltas_are_numbered_behind_the_last_fact() -> None:
    def act(hub: Hub) -> None:
        hub.publish(fact(7))
        hub.emit(TextDelta(text="a"))
        hub.emit(CallDelta(index=0))
        hub.publish(fact(8))
        hub.emit(ToolProgress(call="c", text="b"))

    seen = read(act)
    assert [(event.seq, getattr(event, "sub", 0)) for event in seen] == [(7, 0), (7, 1), (7, 2), (8, 0), (8, 1)]
    assert {event.session for event in seen} == {"s"}
    assert {event.run for event in seen} == {"r"}


def test_a_late_reader_gets_the_deltas_since_the_last_fact() -> None:
    def before(hub: Hub) -> None:
        hub.emit(TextDelta(text="old"))
        hub.publish(fact(3))
        hub.emit(TextDelta(text="so "))
        hub.emit(TextDelta(text="far"))

    seen = read(lambda hub: hub.emit(TextDelta(text="!")), before=before)
    assert [(event.seq, event.sub, event.text) for event in seen if isinstance(event, TextDelta)] == [
        (3, 1, "so "),
        (3, 2, "far"),
        (3, 3, "!"),
    ]


def test_numbers_of_deltas_never_repeat_however_many_there_are() -> None:
    def act(hub: Hub) -> None:
        for _ in range(KEPT_DELTAS + 5):
            hub.emit(TextDelta(text="x"))

    subs = [event.sub for event in read(act, limit=KEPT_DELTAS * 2) if isinstance(event, TextDelta)]
    assert subs == list(range(1, KEPT_DELTAS + 6))


@pytest.mark.parametrize("joined", [0, 40])
@pytest.mark.parametrize("known_to_hub", [True, False])
def test_a_slow_reader_is_told_what_to_reread(joined: int, known_to_hub: bool) -> None:
    log = [fact(number) for number in range(1, joined + 21)]

    def act(hub: Hub) -> None:
        for one in log[joined:]:
            hub.publish(one)

    def before(hub: Hub) -> None:
        for one in log[:joined] if known_to_hub else ():  # a session that goes on has facts that this hub never saw
            hub.publish(one)

    seen = read(act, limit=6, before=before)
    assert isinstance(seen[0], Lagged)
    assert seen[0].seq == joined
    known: list[Fact] = list(log[:joined])
    for event in seen:
        if isinstance(event, Lagged):
            known += log[event.seq :]
        elif isinstance(event, Fact) and event.seq > known[-1].seq:
            known.append(event)
    assert known == log


def test_it_goes_on_from_what_it_has_read() -> None:
    async def main() -> None:
        hub = Hub("s", ManualClock())
        with hub.subscribe(limit=3) as events:
            stream = aiter(events)
            hub.publish(fact(1))
            hub.publish(fact(2))
            assert [(await anext(stream)).seq, (await anext(stream)).seq] == [1, 2]
            for number in range(3, 9):
                hub.publish(fact(number))
            lagged = await anext(stream)
            assert isinstance(lagged, Lagged)
            assert lagged.seq == 2

    asyncio.run(main())


def test_one_reader_does_not_disturb_another() -> None:
    async def main() -> None:
        hub = Hub("s", ManualClock())
        with hub.subscribe(limit=2), hub.subscribe() as other:
            for number in range(1, 50):
                hub.publish(fact(number))
            hub.close()
            assert [event.seq async for event in other] == list(range(1, 50))
        hub.publish(fact(50))

    asyncio.run(main())
