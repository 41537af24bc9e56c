"""A memory provider at arm's length: what hangs, fails, blocks or is of the wrong type holds nothing up and is told."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from melete.core.memory import Recalled
from melete.core.tool import ToolError
from melete.memory.providers import IN_A_ROW, MOST_WAITING, Hosted

ABOUT = {"session": "s-1", "who": "", "home": "", "surface": "cli", "cwd": "/"}
ODD = {
    "fields": Recalled(text="tea", taint="odd"),  # pyright: ignore[reportArgumentType] - that is the point
    "unwritable": Recalled(text="\ud800"),
}
ENDS = {"exit": SystemExit(3), "cancelled": asyncio.CancelledError()}
DONE = threading.Event()
"""Set when a test that blocks a thread is over."""


class Kept:
    """A provider that notes what it is told."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def open(self, **about: str) -> None:
        self.heard.append(("open", about["session"]))

    async def prefetch(self, query: str, *, limit: int = 5) -> Sequence[Recalled]:
        return [Recalled(text=f"about {query}")][:limit]

    async def sync_turn(self, user: str, assistant: str) -> None:
        await asyncio.sleep(0)
        self.heard.append((user, assistant))

    def tools(self) -> Sequence[str]:
        return ("plain functions are hooks too",)

    async def aclose(self) -> None:
        self.heard.append("closed")


class Faulty(Kept):
    """A provider that goes wrong in every way."""

    async def prefetch(self, query: str, *, limit: int = 5) -> Sequence[Recalled]:
        if query == "hang":
            await asyncio.sleep(3_600)
        if query == "block":
            DONE.wait(60)
        if query == "fail":
            raise OSError("no such server")
        if query == "wrong":
            return ["a text"]  # pyright: ignore[reportReturnType] - that is the point
        if query in ODD:
            return [ODD[query]]
        if query in ENDS:
            raise ENDS[query]
        if query == "refuse":
            raise ToolError("there is nothing")
        return await super().prefetch(query, limit=limit)


@asynccontextmanager
async def hosting(make: Callable[[], object], *, deadline: float = 5.0) -> AsyncGenerator[Hosted]:
    hosted = Hosted(make, name="kept", about=ABOUT, deadline=deadline)
    try:
        yield hosted
    finally:
        DONE.set()
        await hosted.aclose()


def within(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    DONE.clear()
    asyncio.run(test())


async def ask(hosted: Hosted, query: str) -> list[Recalled] | None:
    return await hosted.rows("prefetch", query, of=Recalled)


def test_a_hook_that_is_there_answers_and_one_that_is_not_is_nothing() -> None:
    async def main() -> None:
        async with hosting(Kept) as hosted:
            assert await ask(hosted, "tea") == [Recalled(text="about tea")]
            assert await hosted.rows("tools", of=str) == ["plain functions are hooks too"]
            assert await hosted.ask("prompt_block", kind=str) is None
            assert await hosted.rows("rank", None, (), of=Recalled) == []
            assert not hosted.problems()

    within(main)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("hang", "it was too late"),
        ("fail", "OSError: no such server"),
        ("wrong", "TypeError: it returned ['a text']"),
        ("fields", "TypeError: it returned [Recalled("),
        ("unwritable", "TypeError: it returned [Recalled("),
        ("exit", "SystemExit"),
        ("cancelled", "CancelledError"),
    ],
)
def test_what_hangs_fails_or_is_of_the_wrong_type_is_told_and_left_out(query: str, told: str) -> None:
    async def main() -> None:
        async with hosting(Faulty, deadline=0.3) as hosted:
            await hosted.ask("tools", kind=tuple)
            assert await ask(hosted, query) is None
            (said,) = hosted.problems()
            assert told in said
            assert "prefetch" in said
            assert hosted.problems() == []
            hosted._deadline = 5.0
            assert await ask(hosted, "tea") == [Recalled(text="about tea")]

    within(main)


def test_it_rests_after_some_failures_in_a_row_but_not_between_successes() -> None:
    async def main() -> None:
        async with hosting(Faulty) as hosted:
            for _ in range(2 * IN_A_ROW):
                await ask(hosted, "fail")
                await ask(hosted, "tea")
            assert not hosted.resting
            for _ in range(IN_A_ROW):
                assert not hosted.resting
                assert await ask(hosted, "fail") is None
            assert hosted.resting
            assert await ask(hosted, "tea") is None
            assert "is not used in this session" in hosted.problems()[-1]

    within(main)


def test_one_that_blocks_its_thread_rests_at_once() -> None:
    async def main() -> None:
        async with hosting(Faulty, deadline=0.3) as hosted:
            await hosted.ask("tools", kind=tuple)
            assert await ask(hosted, "block") is None
            assert hosted.resting
            assert "it blocks" in hosted.problems()[-1]
            assert await ask(hosted, "tea") is None

    within(main)


def test_a_tool_may_refuse() -> None:
    async def main() -> None:
        async with hosting(Faulty) as hosted:
            for _ in range(2 * IN_A_ROW):
                with pytest.raises(ToolError, match="there is nothing"):
                    await ask(hosted, "refuse")
            assert not hosted.resting
            assert not hosted.problems()

    within(main)


def test_what_is_told_later_is_told_in_order_and_all_of_it_before_the_end() -> None:
    provider = Kept()

    async def main() -> None:
        async with hosting(lambda: provider) as hosted:
            for number in range(MOST_WAITING // 2):
                hosted.later("sync_turn", str(number), "ok")

    within(main)
    turns = [(str(number), "ok") for number in range(MOST_WAITING // 2)]
    assert provider.heard == [("open", "s-1"), *turns, "closed"]


def test_one_that_cannot_be_made_or_used_says_why() -> None:
    class Elsewhere(Kept):
        def available(self) -> str:
            return "it needs a key: set ACME_KEY"

    def broken() -> object:
        raise ImportError("no module named acme")

    async def main() -> None:
        for make, why in ((Elsewhere, "set ACME_KEY"), (broken, "no module named acme")):
            async with hosting(make) as hosted:
                assert await ask(hosted, "tea") is None
                assert hosted.resting
                (said,) = hosted.problems()
                assert why in said

    within(main)


def test_one_that_is_slow_to_open_is_waited_for_once_and_used_when_it_is_there() -> None:
    class Slow(Kept):
        def __init__(self) -> None:
            super().__init__()
            DONE.wait(60)

    async def main() -> None:
        async with hosting(Slow, deadline=0.2) as hosted:
            assert await ask(hosted, "tea") is None
            assert await ask(hosted, "tea") is None
            (said,) = hosted.problems()
            assert "not ready yet" in said
            DONE.set()
            hosted._deadline = 30.0
            assert await ask(hosted, "tea") == [Recalled(text="about tea")]

    within(main)
