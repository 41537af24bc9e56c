"""A request carries what the agent was made with, and none of that is stored."""

from collections.abc import AsyncGenerator

import msgspec

from melete.core.event import Delta, Notice, Reply, Retried
from melete.core.message import Message, Text, user
from melete.core.model import Capabilities, ModelRequest
from tests.bare import Bare, alone

AHEAD = (user("An example."), Message(role="assistant", parts=(Text(text="Seen."),)))
SCHEMA = msgspec.Raw(b'{"type":"object"}')


class Noting:
    """A model that answers at once and keeps what it was asked."""

    name, provider, wire = "noting", "nobody", "none"
    can = Capabilities()

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        self.asked.append(request)
        yield Reply(message=Message(role="assistant", parts=(Text(text="{}"),)))

    async def aclose(self) -> None:
        """Nothing is open."""


def test_everything_goes_along_and_nothing_into_the_log() -> None:
    model = Noting()

    async def test(here: Bare) -> None:
        await here.say(
            "Hi.",
            model,
            ephemeral="Unseen.",
            prefill=AHEAD,
            effort="high",
            temperature=0.5,
            max_output=100,
            answer_schema=SCHEMA,
        )
        (asked,) = model.asked
        assert (asked.ephemeral, asked.prefill, asked.answer_schema) == ("Unseen.", AHEAD, SCHEMA)
        assert (asked.effort, asked.temperature, asked.max_output) == ("high", 0.5, 100)
        assert (asked.tool_choice, asked.cache_key) == ("auto", here.ref.id)
        assert asked.messages == (user("Hi."),)
        log = msgspec.json.encode(await here.log())
        assert b"Unseen" not in log
        assert b"An example" not in log
        assert [notice.about.partition(":")[0] for notice in await here.facts(Notice)] == ["aside"]

    alone(test)


class HeldBack(Noting):
    """A model whose long answers arrive all at once."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        answer = Message(role="assistant", parts=(Text(text="word " * 400),))
        yield Reply(message=answer, seconds=30.0, first_token_seconds=29.9)


def test_a_stream_that_is_held_back_is_told_once_a_run() -> None:
    async def test(here: Bare) -> None:
        for _ in range(2):
            await here.say("Hi.", HeldBack())
        told = [notice for notice in await here.facts(Notice) if notice.about == "stream"]
        assert len(told) == 2
        assert all("all at once after 30 s" in notice.text and notice.level == "info" for notice in told)

    alone(test)
