"""A prompt that does not fit makes old tool results give way once; when nothing can, the run ends and says so."""

import asyncio
from pathlib import Path

from melete.app.opening import exit_code
from melete.core.event import Compacted, Notice, Retried
from melete.core.message import Usage
from melete.testing import Call, Fault, Say, ScriptedModel
from tests.talking import talk

SMALL = Usage(input=100, output=10)
LONG = [Call("terminal", {"command": f"seq {n}000 {n}900"}, usage=SMALL) for n in range(1, 8)]


def test_old_results_are_pruned_and_the_request_is_sent_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work") as here:
            ended = await here.say("Count a lot.")
            (compacted,) = await here.facts(Compacted)
            results = await here.results()
        assert (ended.stop, ended.text) == ("done", "It fitted.")
        assert len(model.requests) == 9
        full, short = here.messages(7), here.messages(8)
        assert len(model.requests[8].body) < len(model.requests[7].body)
        assert [message["role"] for message in short] == [message["role"] for message in full]
        assert "pruned" in short[3]["content"]
        assert short[-8:] == full[-8:]
        assert "1900" in results[0]["output"]
        assert compacted.tokens_after < compacted.tokens_before

    with ScriptedModel([*LONG, Fault("overflow"), Say("It fitted.")]) as model:
        asyncio.run(main())


def test_the_providers_count_above_the_threshold_prunes_before_it_is_too_late(tmp_path: Path) -> None:
    async def main() -> None:
        variables = {"MELETE_CONTEXT_LENGTH": "10000"}
        async with talk(model, tmp_path / "work", variables=variables) as here:
            ended = await here.say("Count a lot.")
            compacted = await here.facts(Compacted)
        assert ended.stop == "done"
        assert len(compacted) == 1

    full = Call("terminal", {"command": "true"}, usage=Usage(input=6_000, output=10))
    with ScriptedModel([*LONG, full, Say("Done.")]) as model:
        asyncio.run(main())


def test_a_long_run_is_shortened_now_and_then_and_not_at_every_step(tmp_path: Path) -> None:
    script = [Call("terminal", {"command": f"seq {n}000 {n}900"}) for n in range(1, 41)]

    async def main() -> None:
        variables = {"MELETE_CONTEXT_LENGTH": "20000"}
        async with talk(model, tmp_path / "work", variables=variables) as here:
            ended = await here.say("Count very much.")
            compacted = await here.facts(Compacted)
        assert ended.stop == "done"
        assert 2 <= len(compacted) <= 15
        for fact in compacted:
            assert fact.tokens_before - fact.tokens_after >= 4_000

    with ScriptedModel([*script, Say("Done.")]) as model:
        asyncio.run(main())


def test_when_nothing_can_be_pruned_the_run_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work", variables={"MELETE_CONTEXT_LENGTH": "8192"}) as here:
            ended = await here.say("A very long prompt. " * 2_000)
            assert not await here.facts(Compacted)
            (told,) = [fact.text for fact in await here.facts(Notice) if fact.level == "warning"]
            assert "the window of scripted is 8,192" in told
        assert ended.stop == "context_full"
        assert exit_code(ended) == 3
        assert ended.error

    with ScriptedModel([Fault("overflow"), Say("never")]) as model:
        asyncio.run(main())
    assert len(model.requests) == 1


def test_a_server_that_finds_a_short_conversation_too_long_is_asked_again(tmp_path: Path) -> None:
    async def main(*, answered: bool) -> None:
        async with talk(model, tmp_path / "work") as here:
            ended = await here.say("Hi.")
            retried = await here.facts(Retried)
            assert not await here.facts(Compacted)
        assert (ended.stop, ended.text) == (("done", "Hello.") if answered else ("context_full", ""))
        assert [fact.cause for fact in retried] == ["ContextOverflowError"] * 2
        assert "small beside" in retried[0].reason

    for answered in (True, False):
        with ScriptedModel([Fault("overflow")] * 2 + [Say("Hello.") if answered else Fault("overflow")]) as model:
            asyncio.run(main(answered=answered))
        assert len(model.requests) == 3
