"""What every Store and Ledger promises: the ones on files and their twins in memory pass the same suite."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from melete.core.errors import LimitError, SessionBusyError, SessionNotFoundError, StorageError, StoreError
from melete.core.event import Answered, CancelAsked, Fact, Opened, RunEnded, RunStarted, Said, Steered
from melete.core.message import Usage, user
from melete.core.policy import Allowance
from melete.core.ports import Ledger
from melete.core.session import ALL_RUNS, Query, SessionRef, Store, WhichRuns
from melete.store import open_ledger, open_store
from melete.store.memory import MemoryLedger, MemoryStore
from tests.unit.store.given import SetClock, note, turn, until, with_turns

KINDS = ("files", "memory")


class Given:
    """A store of one kind, and what it published."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.clock = SetClock()
        self.published: list[tuple[str, Fact]] = []

        def on_fact(ref: SessionRef, fact: Fact) -> None:
            self.published.append((ref.id, fact))

        self.store: Store
        self.ledger: Ledger
        if kind == "files":
            self.store = open_store(folder / "state", clock=self.clock, on_fact=on_fact)
            self.ledger = open_ledger(folder / "state", clock=self.clock)
        else:
            self.store = MemoryStore(clock=self.clock, on_fact=on_fact)
            self.ledger = MemoryLedger(clock=self.clock)


@pytest.fixture(params=KINDS)
def given(request: pytest.FixtureRequest, tmp_path: Path) -> Given:
    return Given(request.param, tmp_path)


def drive(given: Given, main: Callable[[Store], Awaitable[None]]) -> None:
    async def run() -> None:
        try:
            await main(given.store)
        finally:
            await given.store.aclose()

    asyncio.run(run())


def test_facts_are_numbered_stamped_stored_and_then_published(given: Given) -> None:
    async def main(store: Store) -> None:
        ref = await store.create(Opened(owner="ann", cwd="/here"))
        async with store.claim(ref) as session:
            session.begin("run-1")
            stored = await session.record(*turn(), durable=True)
            assert [fact.seq for fact in stored] == list(range(2, 11))
            assert {(fact.session, fact.run) for fact in stored} == {(ref.id, "run-1")}
            assert session.transcript.seq == 10
            assert [message.role for message in session.messages] == ["user", "assistant", "tool", "assistant"]
        assert list(await store.facts(ref)) == [fact for _, fact in given.published]
        assert [fact.seq for fact in await store.facts(ref, after=8)] == [9, 10]
        assert ref.owner == "ann"

    drive(given, main)


def test_a_session_that_is_claimed_again_goes_on_where_it_stood(given: Given) -> None:
    async def main(store: Store) -> None:
        ref = await with_turns(store, 2)
        async with store.claim(ref) as session:
            assert session.transcript.seq == 19
            assert len(session.messages) == 8
            assert session.transcript.usage.total == 84
            (fact,) = await session.record(Said(message=user("more")))
            assert fact.seq == 20

    drive(given, main)


def test_only_one_owns_a_session_and_others_are_told_so(given: Given) -> None:
    async def main(store: Store) -> None:
        ref = await with_turns(store)
        async with store.claim(ref):
            assert (await store.info(ref)).running
            with pytest.raises(SessionBusyError):
                async with store.claim(ref):
                    pass
            with pytest.raises(SessionBusyError):
                await store.delete(ref)
        assert not (await store.info(ref)).running
        async with store.claim(ref):
            pass

    drive(given, main)


def test_writers_in_one_process_keep_the_order(given: Given) -> None:
    async def main(store: Store) -> None:
        ref = await store.create(Opened())
        async with store.claim(ref) as session, asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(session.record(Said(message=user(str(number))), durable=number % 2 == 0))
        facts = await store.facts(ref)
        assert [fact.seq for fact in facts] == list(range(1, 22))
        assert [fact for _, fact in given.published] == list(facts)

    drive(given, main)


def test_a_cancelled_writer_has_either_stored_and_published_or_neither(given: Given) -> None:
    async def main(store: Store) -> None:
        ref = await store.create(Opened())
        async with store.claim(ref) as session:
            for wait in range(4):
                task = asyncio.ensure_future(session.record(Said(message=user("x")), durable=True))
                for _ in range(wait):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait((task,))
            assert session.transcript.seq == len(await store.facts(ref))
        assert [fact for _, fact in given.published] == list(await store.facts(ref))

    drive(given, main)


def test_text_that_no_log_can_hold_is_refused_and_the_session_goes_on(given: Given) -> None:
    async def main(store: Store) -> None:
        ref = await store.create(Opened())
        async with store.claim(ref) as session:
            with pytest.raises(StorageError):
                await session.record(Said(message=user("fine")), Said(message=user("half a \ud800 pair")))
            assert session.transcript.seq == 1
            await session.append(user("fine"))
        assert [fact.seq for fact in await store.facts(ref)] == [1, 2]

    drive(given, main)


def test_an_id_from_outside_never_leaves_the_folder(given: Given) -> None:
    async def main(store: Store) -> None:
        for name in ("../x", "a/b", "", ".", "A", "a\n", "x" * 81):
            if name:
                with pytest.raises(StoreError):
                    await store.create(Opened(), id=name)
            with pytest.raises(SessionNotFoundError):
                await store.facts(SessionRef(id=name))
            with pytest.raises(SessionNotFoundError):
                await store.find(name)
        ref = await store.create(Opened(), id="mine-1")
        with pytest.raises(StoreError):
            await store.create(Opened(), id="mine-1")
        with pytest.raises(StoreError):
            await store.send(ref, note("../../evil"))

    drive(given, main)


def test_sessions_are_found_by_id_prefix_and_title_by_their_owner_only(given: Given) -> None:
    async def main(store: Store) -> None:
        ann = await store.create(Opened(owner="ann", title="garden", cwd="/a"), id="s-1-ann")
        bob = await store.create(Opened(owner="bob", title="house", cwd="/b"), id="s-2-bob")
        assert await store.find("s-1-ann") == ann
        assert await store.find("s-2") == bob
        assert await store.find("garden") == ann
        assert await store.find("s", owner="bob") == bob
        for name, owner in (("s", ""), ("garden", "bob"), ("s-1-ann", "bob"), ("nothing", "")):
            with pytest.raises(SessionNotFoundError):
                await store.find(name, owner=owner)
        with pytest.raises(SessionNotFoundError):
            await store.facts(SessionRef(id="s-1-ann", owner="bob"))
        assert [row.id for row in await store.list(owner="ann")] == ["s-1-ann"]
        assert [row.id for row in await store.list(limit=1, offset=1)] == ["s-1-ann"]

    drive(given, main)


def test_the_latest_session_is_the_one_that_changed_last(given: Given) -> None:
    async def main(store: Store) -> None:
        assert await store.latest() is None
        first = await with_turns(store, opened=Opened(cwd="/a"))
        await asyncio.sleep(0.02)
        second = await with_turns(store, opened=Opened(cwd="/b"))
        assert await store.latest() == second
        assert await store.latest(cwd="/a") == first
        await asyncio.sleep(0.02)
        await store.rename(first, "now")
        assert await store.latest() == first
        assert await store.latest(owner="nobody") is None
        assert [row.id for row in await store.list()] == [first.id, second.id]

    drive(given, main)


def test_a_listing_counts_messages_calls_tokens_and_money(given: Given) -> None:
    async def main(store: Store) -> None:
        ref = await with_turns(store, 3)
        row = await store.info(ref)
        assert (row.messages, row.tool_calls, row.stop, row.model) == (12, 3, "done", "m-1")
        assert row.usage == Usage(input=90, output=24, cache_read=12)
        assert row.cost_usd == pytest.approx(2.25)
        assert (row.title, row.cwd, row.running) == ("files", "/here", False)
        assert row.size > 0
        async with store.claim(ref) as session:
            await session.record(RunStarted(model="m-2"))
        again = await store.info(ref)
        assert (again.messages, again.model, again.stop) == (12, "m-2", "")
        assert again.updated > row.updated
        assert (await store.list())[0] == again

    drive(given, main)


def test_any_text_is_a_query_and_the_owner_filters(given: Given) -> None:
    async def main(store: Store) -> None:
        ref = await with_turns(store, 2, opened=Opened(owner="ann", title="files"))
        await with_turns(store, 1, opened=Opened(owner="bob"))
        (hit,) = await store.search(Query(text="answer 1", owner="ann", limit=1))
        assert (hit.session, hit.role, hit.title) == (ref.id, "assistant", "files")
        assert "Answer" in hit.snippet
        assert {hit.session for hit in await store.search(Query(text="files", owner="ann"))} == {ref.id}
        for query in ("", "   ", '"', "AND", "a OR", "(", "*", "-x", "NEAR(", "col:x", "\x00", "%", "the", "🦊" * 900):
            await store.search(Query(text=query))
        assert not await store.search(Query(text="nowhere-to-be-found-zzz"))

    drive(given, main)


def test_scrolling_shows_the_messages_round_a_fact(given: Given) -> None:
    async def main(store: Store) -> None:
        ref = await with_turns(store, 3)
        shown = await store.scroll(ref, around=12, window=1)
        assert [line.role for line in shown] == ["assistant", "user", "assistant"]
        assert "Question 1" in shown[1].text
        assert len(await store.scroll(ref, around=999, window=50)) == 12

    drive(given, main)


def test_a_follower_sees_each_fact_once_and_ends_with_the_session(given: Given) -> None:
    async def main(store: Store) -> None:
        ref = await with_turns(store)
        seen: list[int] = []

        def see(fact: Fact) -> None:
            seen.append(fact.seq)

        async def follow() -> None:
            async with aclosing(store.follow(ref, after=4)) as facts:
                async for fact in facts:
                    see(fact)

        async with asyncio.TaskGroup() as group:
            group.create_task(follow())
            async with store.claim(ref) as session:
                for number in range(5):
                    await session.record(Said(message=user(str(number))))
                    await asyncio.sleep(0.01)
            await until(lambda: len(seen) >= 11)
            await store.delete(ref)
        assert seen == list(range(5, 16))

    drive(given, main)


def test_steering_reaches_the_owner_and_the_sender_hears_of_it(given: Given) -> None:
    async def main(store: Store) -> None:
        ref = await with_turns(store)
        async with store.claim(ref) as session, asyncio.TaskGroup() as group:
            sent = group.create_task(store.send(ref, note("m-1", text="use tabs")))
            await until(session.pending)
            (message,) = session.pending()
            (fact,) = await session.record(Steered(message=user(message.text), inbox=message.id), durable=True)
            assert not session.pending()
            session.settle(message.id)
        assert (sent.result().status, sent.result().seq) == ("accepted", fact.seq)
        again = await store.send(ref, note("m-1"))
        assert (again.status, again.seq) == ("accepted", fact.seq)

    drive(given, main)


@pytest.mark.parametrize("status", ["accepted", "lost", "expired"])
def test_an_answer_tells_its_sender_what_became_of_it(given: Given, status: str) -> None:
    async def main(store: Store) -> None:
        ref = await with_turns(store)
        async with store.claim(ref) as session, asyncio.TaskGroup() as group:
            sent = group.create_task(store.send(ref, note("m-1", "answer", "yes", "q-1")))
            await until(session.pending)
            await session.record(Answered(question="q-1", value="yes", status=status, inbox="m-1"))  # type: ignore[arg-type]
        assert sent.result().status == status

    drive(given, main)


def test_without_an_owner_notes_wait_and_answers_and_cancels_expire(given: Given) -> None:
    async def main(store: Store) -> None:
        ref = await with_turns(store)
        assert (await store.send(ref, note("m-1", "steer"))).status == "queued"
        assert (await store.send(ref, note("m-2", "queue"))).status == "queued"
        assert (await store.send(ref, note("m-3", "answer"))).status == "expired"
        assert (await store.send(ref, note("m-4", "cancel"))).status == "expired"
        async with store.claim(ref) as session:
            assert [message.id for message in session.pending()] == ["m-1", "m-2"]
            await session.record(Said(message=user("hello"), inbox="m-1"))
            assert [message.id for message in session.pending()] == ["m-2"]
            session.settle("m-2")
            session.settle("m-2")
            assert not session.pending()

    drive(given, main)


def test_an_owner_who_does_not_look_leaves_the_message_waiting(given: Given) -> None:
    async def main(store: Store) -> None:
        ref = await with_turns(store)
        async with store.claim(ref) as session:
            assert (await store.send(ref, note("m-1", "cancel"), wait=0.05)).status == "queued"
            assert [message.id for message in session.pending()] == ["m-1"]
            await session.record(CancelAsked(inbox="m-1"))
            assert (await store.send(ref, note("m-1", "cancel"))).status == "accepted"

    drive(given, main)


def test_a_deleted_session_is_gone_from_everywhere(given: Given) -> None:
    async def main(store: Store) -> None:
        ref = await with_turns(store)
        other = await with_turns(store)
        assert len(await store.list()) == 2
        await store.search(Query(text="files"))
        await store.send(ref, note("m-1"))
        await store.spill(ref, "c1", "long")
        await store.delete(ref)
        assert [row.id for row in await store.list()] == [other.id]
        assert {hit.session for hit in await store.search(Query(text="files"))} <= {other.id}
        for act in (store.facts(ref), store.info(ref), store.delete(ref), store.send(ref, note("m-2"))):
            with pytest.raises(SessionNotFoundError):
                await act

    drive(given, main)


def test_the_ledger_numbers_its_facts_and_reads_them_back(given: Given) -> None:
    async def main(store: Store) -> None:
        assert not given.ledger.read()
        assert await given.ledger.append("skill.version", {"name": "a", "files": {"x": None}}) == 1
        assert await given.ledger.append("grant", {"rule": "rm"}, durable=False) == 2
        assert await given.ledger.append("skill.version", {"name": "b"}) == 3
        assert [row["number"] for row in given.ledger.read()] == [1, 2, 3]
        (row,) = given.ledger.read(kind="skill.version", after=1)
        assert (row["name"], row["kind"], row["at"][:10]) == ("b", "skill.version", "2026-11-21")
        with pytest.raises(StoreError):
            await given.ledger.append("x", {"number": 7})

    drive(given, main)


def test_a_reservation_counts_until_it_is_settled(given: Given) -> None:
    async def main(store: Store) -> None:
        ledger, cap = given.ledger, Allowance(usd=1.0, tokens=1000)
        first = await ledger.reserve("run-1", Allowance(usd=0.6, tokens=100), cap)
        with pytest.raises(LimitError, match=r"1 US dollars.*0\.6 spent or reserved.*0\.5 more"):
            await ledger.reserve("run-2", Allowance(usd=0.5), cap)
        with pytest.raises(LimitError, match="1000 tokens"):
            await ledger.reserve("run-2", Allowance(tokens=901), cap)
        day = await ledger.settle(first, usage=Usage(input=30, output=10), usd=0.1)
        assert (day.day, day.tokens, day.usd) == ("2026-11-21", 40, 0.1)
        assert await ledger.settle(first, usage=Usage(input=99), usd=9.0) == day
        second = await ledger.reserve("run-2", Allowance(usd=0.5), cap)
        assert (await ledger.today()).usd == pytest.approx(0.6)
        given.clock.time += timedelta(days=1)
        assert (await ledger.today()).usd == 0
        assert (await ledger.settle(second, usage=Usage(), usd=0.25)).usd == pytest.approx(0.25)
        await ledger.reserve("run-3", Allowance(usd=None, tokens=None), Allowance())
        with pytest.raises(StoreError):
            await ledger.settle("2026-11-21-nothing", usage=Usage(), usd=0)
        given.clock.time -= timedelta(days=1)
        assert (await ledger.today()).usd == pytest.approx(0.6), "a clock that runs back forgets nothing"

    drive(given, main)


def test_a_session_is_added_whole_with_its_times_and_without_telling_anybody(given: Given) -> None:
    async def main(store: Store) -> None:
        first = await with_turns(store, 2, opened=Opened(owner="ann", title="files"))
        facts = await store.facts(first)
        given.published.clear()
        ref = await store.add([msgspec.structs.replace(facts[0], title="copied"), *facts[4:]], id="s-copy")
        assert (ref.id, ref.owner) == ("s-copy", "ann")
        copied = await store.facts(ref)
        assert [fact.seq for fact in copied] == list(range(1, len(facts) - 2))
        assert [(fact.run, fact.at) for fact in copied[1:]] == [(fact.run, fact.at) for fact in facts[4:]]
        assert given.published == []
        row = await store.info(ref)
        assert (row.title, row.started, row.updated) == ("copied", facts[0].at, facts[-1].at)
        async with store.claim(ref) as session:
            assert (await session.record(RunStarted()))[0].seq == len(copied) + 1
        assert (await store.add([Opened()])).id != "s-copy"

    drive(given, main)


def test_what_cannot_be_added_leaves_nothing(given: Given, tmp_path: Path) -> None:
    async def main(store: Store) -> None:
        ref = await with_turns(store, id="s-1")
        before = await store.facts(ref)
        for facts, id in (
            (before, "s-1"),
            ((), "s-2"),
            (before[1:], "s-2"),
            ((before[0], Said(message=user("half of a pair: \ud800"))), "s-2"),
            (before, "../s-2"),
        ):
            with pytest.raises(StoreError):
                await store.add(facts, id=id)
        assert await store.facts(ref) == before
        assert [row.id for row in await store.list()] == ["s-1"]

    drive(given, main)
    assert not list(tmp_path.rglob("*.new"))


def test_runs_are_listed_by_owner_session_and_how_they_ended(given: Given) -> None:
    async def run(store: Store, ref: SessionRef, name: str, stop: str) -> None:
        async with store.claim(ref) as session:
            session.begin(name)
            await session.record(RunStarted(surface="api", model="m", provider="p"))
            if stop:
                await session.record(RunEnded(stop=stop, steps=2))

    async def main(store: Store) -> None:
        ann, bob = await store.create(Opened(owner="ann")), await store.create(Opened(owner="bob"))
        for ref, name, stop in ((ann, "a1", "done"), (bob, "b1", ""), (ann, "a2", "failed"), (bob, "b2", "done")):
            await run(store, ref, name, stop)

        async def ids(which: WhichRuns = ALL_RUNS, **page: int) -> list[str]:
            return [row.id for row in await store.runs(which, **page)]

        assert await ids() == ["b2", "a2", "b1", "a1"]
        assert await ids(limit=2, offset=1) == ["a2", "b1"]
        assert await ids(WhichRuns(owner="ann")) == ["a2", "a1"]
        assert await ids(WhichRuns(owner="ann", session=bob.id)) == []
        assert await ids(WhichRuns(session=bob.id)) == ["b2", "b1"]
        assert await ids(WhichRuns(stops=("",))) == ["b1"]
        assert await ids(WhichRuns(stops=("done", "failed"), owner="bob")) == ["b2"]
        (row,) = await store.runs(WhichRuns(stops=("failed",)))
        assert (row.session, row.owner, row.stop, row.steps, row.surface) == (ann.id, "ann", "failed", 2, "api")
        assert row.ended is not None
        assert row.ended >= row.started
        async with store.claim(bob) as session:
            assert [row.running for row in await store.runs(WhichRuns(stops=("",)))] == [
                False
            ]  # another came behind it
            session.begin("b3")
            await session.record(RunStarted())
            assert [(row.id, row.running) for row in await store.runs(WhichRuns(stops=("",)))] == [
                ("b3", True),
                ("b1", False),
            ]
        assert [row.running for row in await store.runs(WhichRuns(stops=("",)))] == [False, False]

    drive(given, main)
