"""A request that a server finds too large goes again without old pictures, then without old results; then the run says so."""

from typing import Any

import pytest

from melete.core.event import Compacted, RunEnded, TextDelta
from melete.core.message import Image, Message, Text
from melete.core.model import Capabilities
from melete.core.tool import Output, ToolContext, tool
from melete.testing import Call, Fault, Say, ScriptedModel
from tests.bare import Bare, alone
from tests.wire.adapters import ADAPTERS, Adapter, spec

TOO_LARGE = Fault("status", status=413, message="Request entity too large")
PIXELS = "iVBORw0KGgo" + "A" * 4_000


@tool()
async def look(ctx: ToolContext) -> Output:
    """Looks, and sees a picture."""
    return Output(fields={"seen": "s" * 1_000}, images=(Image(data=PIXELS),))


async def ask(here: Bare, model: ScriptedModel, adapter: Adapter, said: Message | str, **can: Any) -> RunEnded:
    client = adapter.open(spec(model.base_url, can=Capabilities(**can)))
    ended = await here.say(said, client, tools=[look])
    await client.aclose()
    return ended


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.wire)
def test_pictures_go_first_then_results(adapter: Adapter) -> None:
    async def test(here: Bare) -> None:
        ended = await ask(here, model, adapter, "Look a lot.")
        assert (ended.stop, ended.text) == ("done", "It fitted.")
        hows = [fact.how for fact in await here.facts(Compacted)]
        assert hows == ["old pictures left out", "old pictures left out", "old tool results pruned"]
        pictures = [request.body.count(PIXELS.encode()) for request in model.requests]
        assert pictures == [0, 1, 2, 3, 4, 5, 6, 1, 0, 0]
        sizes = [len(request.body) for request in model.requests]
        assert sizes[6] > sizes[7] > sizes[8] > sizes[9]
        assert model.requests[9].body.count(b"s" * 1_000) == 4  # of the last messages, which stay whole

    looks = [Call("look") for _ in range(6)]
    with ScriptedModel([*looks, TOO_LARGE, TOO_LARGE, TOO_LARGE, Say("It fitted.")]) as model:
        alone(test)


def test_what_the_person_sends_now_is_never_taken_away() -> None:
    said = Message(role="user", parts=(Text(text="What is this?"), Image(data=PIXELS)))

    async def test(here: Bare) -> None:
        ended = await ask(here, model, ADAPTERS[0], said)
        assert ended.stop == "failed"
        assert "smaller images" in (ended.error or "")
        assert not await here.facts(Compacted)

    with ScriptedModel([TOO_LARGE, Say("never")]) as model:
        alone(test)
    assert len(model.requests) == 1


def test_an_older_picture_of_a_person_gives_way_and_says_so() -> None:
    said = Message(role="user", parts=(Text(text="What is this?"), Image(data=PIXELS)))

    async def test(here: Bare) -> None:
        await ask(here, model, ADAPTERS[0], said)
        await ask(here, model, ADAPTERS[0], "And what else?")
        assert b"left out to save room" in model.requests[-1].body
        assert PIXELS.encode() not in model.requests[-1].body

    with ScriptedModel([Say("A cat."), TOO_LARGE, Say("A dog.")]) as model:
        alone(test)


def test_a_window_that_became_smaller_is_kept_before_the_first_request() -> None:
    """Some servers cut what is too long without a word, so that nothing may be left to an error."""

    async def test(here: Bare) -> None:
        await ask(here, model, ADAPTERS[0], "Look a lot.")
        ended = await ask(here, model, ADAPTERS[0], "And now?", context=2_500)
        assert ended.stop == "done"
        compacted = await here.facts(Compacted)
        assert compacted[0].how == "old tool results pruned"
        assert {fact.how for fact in compacted[1:]} == {"old tool results pruned for a smaller window"}
        assert len(model.requests[-1].body) < 4 * 2_500
        assert len(model.requests) == 10

    with ScriptedModel([*[Call("look") for _ in range(8)], Say("Seen."), Say("Fine.")]) as model:
        alone(test)


def test_an_error_after_the_first_words_leaves_nothing_of_them() -> None:
    async def test(here: Bare) -> None:
        ended = await ask(here, model, ADAPTERS[0], "Tell me.")
        assert ended.stop == "failed"
        assert any(isinstance(delta, TextDelta) for delta in here.deltas)
        assert [message.role for message in here.session.messages] == ["user"]
        assert ended.text == ""

    with ScriptedModel(
        [Fault("cut", reply=Say("Half of an answer that is longer than a piece of the stream."))]
    ) as model:
        alone(test)
