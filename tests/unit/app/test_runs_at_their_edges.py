"""What is said of a run in the moments in which it ends, and in which a server takes up what an earlier one left."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.playing import play
from tests.unit.app.running import place, until

from melete import user
from melete.app.recovery import recover
from melete.core.event import Fact, Opened, RunEnded, RunStarted, Said
from melete.core.session import SessionRef
from melete.testing import ScriptedModel

OLD = "0123456789abcdef"


def test_a_run_that_ends_while_its_facts_are_read_was_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        with ScriptedModel(play) as model:
            async with place(model) as here:
                going = await here.start("say Hello.")
                facts = here.app.store.facts

                async def slow(ref: SessionRef, **options: Any) -> Sequence[Fact]:
                    monkeypatch.undo()
                    found = await facts(ref, **options)
                    await going.ended()
                    await until(lambda: here.runs.find(going.run) is None)
                    assert not any(isinstance(fact, RunEnded) for fact in found)
                    return found

                monkeypatch.setattr(here.app.store, "facts", slow)
                assert (await here.runs.state(going.run, owner="")).status == "done"

    asyncio.run(main())


def test_nobody_comes_between_a_run_that_was_cut_off_and_what_goes_on_with_it() -> None:
    async def main() -> None:
        with ScriptedModel(play) as model:
            async with place(model) as here:
                ref = await here.app.store.create(Opened(source="api"))
                async with here.app.store.claim(ref) as session:
                    session.begin(OLD)
                    await session.record(RunStarted(surface="api"), Said(message=user("say Hello.")), durable=True)
                here.runs.settled = False
                asking = asyncio.create_task(here.start("say Next.", session=ref.id))
                elsewhere = await here.said("say Elsewhere.")  # a new session waits for nobody
                assert elsewhere.over
                assert not asking.done()
                (found,) = await recover(here.runs, resume=False)
                assert found.run == OLD
                await (await asking).ended()
                runs = [fact.run for fact in await here.app.store.facts(ref) if isinstance(fact, RunEnded)]
                assert runs == [OLD, (await asking).run]

    asyncio.run(main())
