"""Tokens of an answer that was thrown away are in the bill of the run and of the day; it is no step."""

from melete.agent.budget import Budgeted, RunBudget
from melete.core.event import Reply, Retried, Spent
from melete.core.message import Usage
from melete.core.model import Capabilities
from melete.core.policy import Allowance
from melete.models.retry import Backoff, Retrying
from melete.store.memory import MemoryLedger
from melete.testing import Fault, ManualClock, Say, ScriptedModel
from tests.bare import Bare, alone
from tests.wire.adapters import adapter_of, spec

EMPTY = Usage(input=1_000, output=100)
FULL = Usage(input=1_000, output=200)
CAN = Capabilities(usd_input=2.0, usd_output=10.0, source="a list of today")


def test_an_empty_answer_that_is_asked_for_anew() -> None:
    async def test(here: Bare) -> None:
        clock = ManualClock()
        ledger = MemoryLedger(clock=clock)
        budget = RunBudget(ledger, who="test", run=Allowance(tokens=100_000), day=Allowance())
        client = adapter_of("openai-chat").open(spec(model.base_url, can=CAN))
        retrying = Retrying(client, backoff=Backoff(base=0.001))
        ended = await here.say("Hi.", Budgeted(retrying, budget, estimate=lambda _: 10))
        await client.aclose()
        (retried,), (_,) = await here.facts(Retried), await here.facts(Reply)
        assert retried.usage == EMPTY
        first, second = await here.facts(Spent)
        assert (first.usage, first.usd) == (EMPTY, 0.003)
        assert (second.usage, second.usd) == (FULL, 0.004)
        assert {(spent.role, spent.source) for spent in (first, second)} == {("main", CAN.source)}
        assert (ended.steps, ended.usage, ended.cost_usd) == (1, EMPTY + FULL, 0.007)
        assert budget.left().tokens == 100_000 - (EMPTY + FULL).total
        day = await ledger.today()
        assert (day.tokens, day.usd) == ((EMPTY + FULL).total, 0.007)

    with ScriptedModel([Say("", usage=EMPTY), Say("Hello.", usage=FULL)]) as model:
        alone(test)


def test_a_failure_that_nobody_counted_has_no_row() -> None:
    async def test(here: Bare) -> None:
        client = adapter_of("openai-chat").open(spec(model.base_url))
        await here.say("Hi.", Retrying(client, backoff=Backoff(base=0.001)))
        await client.aclose()
        assert len(await here.facts(Retried)) == 1
        (spent,) = await here.facts(Spent)
        assert (spent.usd, spent.source) == (None, "unknown")

    with ScriptedModel([Fault("server_error"), Say("Hello.")]) as model:
        alone(test)
