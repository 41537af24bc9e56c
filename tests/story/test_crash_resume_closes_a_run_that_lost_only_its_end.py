"""An answer that was stored is not asked for again: going on where only the run's end is missing closes it."""

import asyncio
from pathlib import Path

from melete.core.event import RunEnded
from melete.testing import Say, ScriptedModel
from tests.talking import backoff, talk


def test_the_stored_answer_is_given_and_nothing_is_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work") as here:
            await here.say("Go.")
            log = here.app.loaded.home.state / "sessions" / f"{here.conversation.ref.id}.log"
            log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
            assert not await here.facts(RunEnded)
            ended = await here.go_on()
            again = await here.go_on()
        for one in (ended, again):
            assert (one.stop, one.text, one.steps, one.error) == ("done", "Done long ago.", 0, None)

    with ScriptedModel([Say("Done long ago.")]) as model:
        asyncio.run(main())
    assert len(model.requests) == 1


def test_a_run_that_failed_does_not_give_the_answer_of_the_one_before(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work") as here:
            assert (await here.say("First.")).text == "One."
            await here.conversation.use_model("scripted")
            model.close()
            backoff(here.conversation.model, tries=0)
            ended = await here.say("Second.")
        assert (ended.stop, ended.text, ended.steps) == ("failed", "", 0)
        assert "refused the connection" in str(ended.error)

    with ScriptedModel([Say("One.")]) as model:
        asyncio.run(main())
