"""When a provider reads anew what it had in its cache, the person is told at once what broke it and what that cost."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from melete.agent.cachewatch import CacheWatch
from melete.core.event import Compacted, Framed, Notice, Retried
from melete.core.message import Message, Text, Usage
from melete.core.model import Capabilities
from melete.core.policy import Limits
from melete.core.tool import Tool, ToolContext, tool
from melete.models.fallback import Falling, Health
from melete.models.keys import Key, KeyPool, KeyRotating
from melete.testing import Call, Fault, ManualClock, Say, ScriptedModel
from tests.bare import Bare, alone
from tests.wire.adapters import adapter_of, spec

WARM = Usage(input=200, cache_read=19_800, output=20)
COLD = Usage(input=20_000, output=20)
CAN = Capabilities(usd_input=3.0, usd_output=15.0, usd_cache_read=0.3)


@tool()
async def look(ctx: ToolContext) -> dict[str, Any]:
    """Shows much."""
    return {"seen": "x" * 2_000}


@tool()
async def more(ctx: ToolContext) -> dict[str, Any]:
    """A tool that came later."""
    return {}


def look_at(usage: Usage = WARM) -> Call:
    return Call("look", usage=usage)


async def talk(here: Bare, model: ScriptedModel, *prompts: str, tools: Sequence[Tool] = (look,), **fields: Any) -> None:
    client = adapter_of("openai-chat").open(spec(model.base_url, can=fields.pop("can", CAN)))
    for prompt in prompts:
        await here.say(prompt, client, tools=tools, **fields)
    await client.aclose()


async def warnings(here: Bare) -> list[str]:
    return [notice.text for notice in await here.facts(Notice) if notice.about == "cache"]


def test_it_is_told_once_in_a_run_with_tokens_and_price() -> None:
    async def test(here: Bare) -> None:
        await talk(here, model, "Look.")
        (told,) = await warnings(here)
        assert told == (
            "the prompt cache was lost: nothing that is sent changed: the provider let it go; "
            "20,000 tokens were read anew, about $0.0540 more than from the cache"
        )

    with ScriptedModel([look_at(), look_at(COLD), look_at(), look_at(COLD), Say("Done.", usage=WARM)]) as model:
        alone(test)


def test_other_tools_are_named_across_runs() -> None:
    async def test(here: Bare) -> None:
        await talk(here, model, "Look.")
        await talk(here, model, "Again.", tools=(look, more), can=Capabilities())
        (told,) = await warnings(here)
        _, framed = await here.facts(Framed)
        assert f"the tools changed: +more (fact {framed.seq})" in told
        assert told.endswith("20,000 tokens were read anew")

    with ScriptedModel([look_at(), Say("Seen.", usage=WARM), Say("Done.", usage=COLD)]) as model:
        alone(test)


def test_a_pause_is_told_in_minutes_by_the_life_that_was_chosen() -> None:
    clock = ManualClock()

    async def test(here: Bare) -> None:
        await talk(here, model, "Look.")
        clock.advance(3_000)
        await talk(here, model, "Still there?", cache=CacheWatch(life=3_600.0))
        clock.advance(3_000)
        await talk(here, model, "And now?")
        first, second = await warnings(here)
        assert "the provider let it go" in first
        assert "50 min passed, and a cached prompt lives 5" in second

    script = [Say("Yes.", usage=usage) for usage in (WARM, COLD, COLD)]
    with ScriptedModel(script) as model:
        alone(test, clock)


def test_text_that_is_not_stored_is_noted_without_its_words_and_named_when_it_changes() -> None:
    ahead = (Message(role="user", parts=(Text(text="Secret example."),)),)

    async def test(here: Bare) -> None:
        await talk(here, model, "One.", "Two.", ephemeral="Hush-hush.")
        await talk(here, model, "Three.", ephemeral="Hush-hush!", prefill=ahead)
        await talk(here, model, "Four.")
        noted = [notice for notice in await here.facts(Notice) if notice.about.startswith("aside:")]
        assert [notice.text for notice in noted] == [
            "each request gets 10 characters of text that are not stored",
            "each request gets 10 characters of text and 1 message that are not stored",
            "nothing that is not stored is added to requests any more",
        ]
        broken = await warnings(here)
        assert len(broken) == 2
        assert all("the text that is added unseen to each request changed" in text for text in broken)
        stored = msgspec.json.encode(await here.log())
        assert b"Hush" not in stored
        assert b"Secret" not in stored

    with ScriptedModel([Say("Yes.", usage=usage) for usage in (WARM, WARM, COLD, COLD)]) as model:
        alone(test)
    sent = [request.body for request in model.requests]
    assert [b"Hush-hush." in body for body in sent] == [True, True, False, False]
    assert [b"Secret" in body for body in sent] == [False, False, True, False]


def test_what_shortened_the_conversation_itself_is_no_warning() -> None:
    async def test(here: Bare) -> None:
        await talk(here, model, "Look a lot.")
        assert len(await here.facts(Compacted)) == 1
        assert await warnings(here) == []

    looks = [look_at() for _ in range(6)]
    with ScriptedModel([*looks, Fault("overflow"), Say("Done.", usage=COLD)]) as model:
        alone(test)


def test_a_provider_that_never_reports_caching_is_no_warning() -> None:
    async def test(here: Bare) -> None:
        await talk(here, model, "Look.")
        await talk(here, model, "Again.", tools=(look, more))
        assert await warnings(here) == []

    with ScriptedModel([look_at(COLD), Say("Seen.", usage=COLD), Say("Done.", usage=COLD)]) as model:
        alone(test)


def test_the_last_words_of_a_run_are_named_where_they_break_it() -> None:
    async def test(here: Bare) -> None:
        await talk(here, model, "Look.", limits=Limits(max_steps=1))
        (told,) = await warnings(here)
        assert "tools were switched off for the run's last words" in told

    with ScriptedModel([look_at(), Say("That far.", usage=COLD)]) as model:
        alone(test)


def test_a_run_that_goes_on_in_another_process_knows_what_was_cached() -> None:
    """Each run has a watch of its own, which reads what came before from the session."""

    async def test(here: Bare) -> None:
        await talk(here, model, "One.")
        await talk(here, model, "Two.", tools=(look, more))
        (told,) = await warnings(here)
        assert "+more" in told

    with ScriptedModel([Say("Yes.", usage=WARM), Say("Yes.", usage=COLD)]) as model:
        alone(test)


def test_a_fallback_and_the_way_back_are_named() -> None:
    async def test(here: Bare) -> None:
        now = [0.0]
        wires = [adapter_of(name) for name in ("openai-chat", "anthropic-messages")]
        members = [
            w.open(spec(model.base_url, provider=p, can=CAN)) for w, p in zip(wires, ("one", "two"), strict=True)
        ]
        falling = Falling(members, health=Health(now=lambda: now[0]), cooldown=60.0)
        await here.say("Look.", falling, tools=(look,))
        now[0] = 61.0
        await here.say("Again.", falling, tools=(look,))
        await falling.aclose()
        (fell,) = await here.facts(Retried)
        stood_in, back = await warnings(here)
        assert f"two/scripted-model stood in for one/scripted-model after OverloadedError (fact {fell.seq})" in stood_in
        assert "one/scripted-model answers again; two/scripted-model had stood in for it" in back

    script = [look_at(), Fault("overloaded"), look_at(COLD), Say("Seen.", usage=WARM), Say("Done.", usage=COLD)]
    with ScriptedModel(script) as model:
        alone(test)


def test_a_key_that_was_swapped_is_named_and_not_shown() -> None:
    async def test(here: Bare) -> None:
        keys = [Key(name="A_KEY", value="sk-first-0123456789"), Key(name="A_KEY_2", value="sk-second-0123456789")]
        opened = partial(spec, model.base_url, can=CAN)
        client = KeyRotating(
            lambda value: adapter_of("openai-chat").open(opened(api_key=value)), KeyPool(lambda: keys, now=lambda: 0.0)
        )
        await here.say("Look.", client, tools=(look,))
        await client.aclose()
        (told,) = await warnings(here)
        assert "another key is used (A_KEY" in told
        assert "A_KEY_2 is used now" in told
        assert "sk-" not in told

    with ScriptedModel([look_at(), Fault("unauthorized"), Say("Done.", usage=COLD)]) as model:
        alone(test)
