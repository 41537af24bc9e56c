"""The tables say what the logs say, however they were read; chains of sessions; what a fork copied counts once."""

import asyncio
import itertools
import sqlite3
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from melete.core.event import (
    Fact,
    Framed,
    Opened,
    Reply,
    Retried,
    RunEnded,
    RunStarted,
    Said,
    Spent,
    Steered,
    ToolEnded,
)
from melete.core.message import Message, Text, Thinking, Usage, Wire, user
from melete.core.session import SessionRef, Which
from melete.core.transcript import Transcript
from melete.store.fold import kind_of
from melete.store.sqlite import Database
from melete.store.tables import Listing, Tables, listing, one, titled
from tests.unit.store.given import START, opened_store, turn, with_turns
from tests.unit.store.past import BEGIN, NOWHERE, dump, pasts, tables_of


def numbered(*facts: Fact, session: str = "s-1", at: Any = START) -> list[Fact]:
    return [
        msgspec.structs.replace(fact, seq=n, session=session, run="r", at=at + timedelta(seconds=n))
        for n, fact in enumerate(facts, 1)
    ]


def row_of(*facts: Fact) -> dict[str, Any]:
    with tables_of({"s-1": numbered(*facts)}) as database:
        names = [row[1] for row in database.read("PRAGMA table_info(sessions)")]
        return dict(zip(names, database.read("SELECT * FROM sessions")[0], strict=True))


def column(table: str, name: str, *facts: Fact) -> list[Any]:
    with tables_of({"s-1": numbered(*facts)}) as database:
        return [row[0] for row in database.read(f"SELECT {name} FROM {table} ORDER BY seq")]


@settings(max_examples=60, deadline=None)
@given(pasts())
def test_sums_are_those_of_the_facts(facts: list[Fact]) -> None:
    opened = facts[0]
    assert isinstance(opened, Opened)
    own = [fact for fact in facts if fact.seq > opened.copied]
    state = Transcript(own)
    with tables_of({"s-1": facts}) as database:
        row = one(database, SessionRef(id="s-1"), folder=NOWHERE)
        assert row is not None
        assert row.usage == state.usage
        assert row.cost_usd == (None if state.usd is None else pytest.approx(state.usd))
        assert row.messages == sum(isinstance(fact, Said | Steered | Reply | ToolEnded) for fact in facts)
        assert row.steps == sum(isinstance(fact, Reply) for fact in facts)
        assert row.runs == sum(isinstance(fact, RunStarted) for fact in own)
        assert row.tool_calls == sum(len(fact.message.calls) for fact in own if isinstance(fact, Reply))
        assert row.updated == max(fact.at for fact in facts)
        count, usd, side = database.read("SELECT count(*), sum(usd), sum(role <> 'main') FROM usage")[0]
        bills = [fact for fact in own if isinstance(fact, Spent)]
        assert (count, side or 0) == (len(bills), sum(bill.role != "main" for bill in bills))
        assert usd == (None if state.usd is None else pytest.approx(state.usd))
        ended = sum(isinstance(fact, ToolEnded) for fact in own)
        assert database.read("SELECT count(*) FROM tools")[0][0] == ended
        assert database.read("SELECT count(*) FROM messages WHERE NOT copied")[0][0] == len(
            [fact for fact in own if isinstance(fact, Said | Steered | Reply | ToolEnded)]
        )


@settings(max_examples=60, deadline=None)
@given(pasts(), st.data())
def test_a_log_read_in_pieces_gives_the_same_rows(facts: list[Fact], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(facts)), max_size=4)))
    with tables_of({"s-1": facts}) as whole, tables_of({}) as pieces:
        for begin, end in itertools.pairwise([0, *cuts, len(facts)]):
            with pieces.write() as connection:
                Tables().take(connection, "s-1", facts[begin:end])
        assert dump(pieces) == dump(whole)


def test_the_columns_of_a_session_are_filled() -> None:
    row = row_of(
        Opened(owner="ada", source="cron", cwd="/w", parent="p", title="t", about={"model": "x"}),
        Framed(system=("You help.", "Be brief."), tools=(), model="m-1", wire="openai-chat"),
        RunStarted(model="m-1", provider="acme", base_url="https://api.acme.example/v1", max_steps=9),
        Said(message=user("hello")),
        Reply(message=Message(role="assistant", parts=(Text(text="hi"),))),
        Spent(usage=Usage(input=7, output=3), usd=0.5, source="prices.example, 2026-03-01"),
        Spent(usage=Usage(input=1), usd=0.25, role="title", source="prices.example, 2026-03-02"),
        RunEnded(stop="failed", error="QuotaError: no credit"),
    )
    want = {
        "owner": "ada",
        "source": "cron",
        "cwd": "/w",
        "parent": "p",
        "root": "p",
        "about": '{"model":"x"}',
        "model_settings": '{"wire":"openai-chat","max_steps":9}',
        "provider": "acme",
        "base_url": "https://api.acme.example/v1",
        "billing": "api",
        "prompt_size": 20,
        "stop": "failed",
        "errors": 1,
        "requests": 2,
        "side_tokens": 1,
        "side_usd": 0.25,
        "cost_usd": 0.75,
        "estimated_usd": 0.75,
        "actual_usd": None,
        "cost_status": "estimated",
        "cost_source": "prices.example, 2026-03-02",
        "pricing_version": "2026-03-02",
        "ended": (START + timedelta(seconds=8)).timestamp(),
    }
    assert {name: row[name] for name in want} == want
    assert len(row["prompt_mark"]) == 8


@pytest.mark.parametrize(
    ("spent", "status"),
    [
        ([], "none"),
        ([Spent(usage=Usage(input=1))], "unknown"),
        ([Spent(usage=Usage(input=1)), Spent(usage=Usage(input=1), usd=1.0, source="list")], "partial"),
        ([Spent(usage=Usage(input=1), usd=1.0, source="list")], "estimated"),
        ([Spent(usage=Usage(input=1), usd=1.0, source="provider")], "actual"),
        ([Spent(usage=Usage(), usd=1.0, source=s) for s in ("provider", "list")], "estimated"),
    ],
)
def test_how_well_a_price_is_known_is_told(spent: list[Fact], status: str) -> None:
    assert row_of(Opened(), *spent)["cost_status"] == status


@pytest.mark.parametrize(
    ("address", "billing"),
    [
        ("http://localhost:8080/v1", "local"),
        ("http://127.0.0.1/v1", "local"),
        ("http://[::1]:1234", "local"),
        ("https://localhost.example.com", "api"),
        ("", "unknown"),
    ],
)
def test_requests_to_this_machine_are_billed_by_nobody(address: str, billing: str) -> None:
    assert row_of(Opened(), RunStarted(model="m", base_url=address))["billing"] == billing


def test_a_reply_that_was_thrown_away_is_marked_and_a_kept_one_has_its_seconds() -> None:
    again = Retried(attempt=1, cause="EmptyReplyError", reason="empty", delay=0.0, usage=Usage(output=2))
    reply = Reply(message=Message(role="assistant", parts=()), seconds=4.5, first_token_seconds=0.5)
    facts = (Opened(), RunStarted(), again, Spent(usage=Usage(output=2)), reply, Spent(usage=Usage(output=9)))
    assert column("usage", "discarded", *facts) == [1, 0]
    assert column("usage", "seconds", *facts) == [0.0, 4.5]
    assert column("usage", "first_token_seconds", *facts) == [0.0, 0.5]
    assert column("retries", "cause", *facts) == ["EmptyReplyError"]


@pytest.mark.parametrize(
    ("body", "sealed"),
    [
        ('{"content":[{"type":"thinking","thinking":"x","signature":"' + "QUJD" * 20 + '"}]}', 1),
        ('{"output":[{"type":"reasoning","encrypted_content":"' + "QUJD" * 20 + '"}]}', 1),
        ('{"content":[{"type":"redacted_thinking","data":"QUJD"}]}', 1),
        ('{"content":[{"type":"text","text":"the \\"signature\\": \\"' + "QUJD" * 20 + '\\""}]}', 0),
        ('{"content":"plain"}', 0),
    ],
)
def test_sealed_reasoning_is_seen_in_the_models_own_bytes(body: str, sealed: int) -> None:
    parts = (Thinking(text="let me see"), Thinking(text="so"), Text(text="Yes."))
    wire = Wire(name="anthropic-messages", body=msgspec.Raw(body.encode()))
    reply = Reply(message=Message(role="assistant", parts=parts, wire=wire))
    assert column("messages", "sealed", Opened(), reply) == [sealed]
    assert column("messages", "thinking", Opened(), reply) == [12]
    assert column("messages", "thinking_parts", Opened(), reply) == [2]


def test_messages_name_their_calls_results_and_steps() -> None:
    facts = (Opened(), *turn())
    assert column("messages", "role", *facts) == ["user", "assistant", "tool", "assistant"]
    assert column("messages", "calls", *facts) == ["", "terminal", "", ""]
    assert column("messages", "tool", *facts) == ["", "", "terminal", ""]
    assert column("messages", "call", *facts) == ["", "", "c0", ""]
    assert column("messages", "outcome", *facts) == ["", "", "ok", ""]
    assert column("messages", "step", *facts) == [0, 1, 1, 2]
    assert column("messages", "stop", *facts) == ["", "tool_calls", "", "end"]
    assert column("messages", "tokens", *facts) == [0, 3, 0, 5]
    assert column("runs", "stop", *facts) == ["done"]


def test_a_run_that_was_cut_off_has_no_end() -> None:
    facts = (Opened(), RunStarted(model="a"), Said(message=user("x")), RunStarted(model="b"), RunEnded(stop="done"))
    assert column("runs", "stop", *facts) == ["", "done"]
    assert [end is None for end in column("runs", "ended", *facts)] == [True, False]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (None, ""),
        ("ValueError: 3 is no 4", "ValueError"),
        ("api.acme.example answered 429: too many requests; wait", "api.acme.example answered 429"),
        ("127.0.0.1:8080 said 'no' after 3.5 s (twice)", "… said … after … s"),
        ("the run's token budget is used up: 3 of 4", "the run's token budget is used up"),
    ],
)
def test_errors_have_kinds_without_names_and_numbers(error: str | None, kind: str) -> None:
    assert kind_of(error) == kind


# ---- forks and chains


def test_what_a_fork_copied_makes_it_longer_and_counts_once() -> None:
    copies = (Opened(forked_from="s-1", forked_at=10, copied=10), *turn())
    own = (RunStarted(model="m-2"), Said(message=user("more")), Spent(usage=Usage(input=5), usd=0.125))
    with tables_of({"s-1": numbered(Opened(), *turn()), "f-1": numbered(*copies, *own, session="f-1")}) as database:
        row = one(database, SessionRef(id="f-1"), folder=NOWHERE)
        assert row is not None
        assert (row.messages, row.steps, row.runs, row.tool_calls) == (5, 2, 1, 0)
        assert (row.usage, row.cost_usd, row.model, row.root) == (Usage(input=5), 0.125, "m-2", "s-1")
        for table in ("usage", "tools", "runs"):
            counted = dict(database.read(f"SELECT session, count(*) FROM {table} GROUP BY session"))
            assert counted == {"usage": {"s-1": 2, "f-1": 1}, "tools": {"s-1": 1}, "runs": {"s-1": 1, "f-1": 1}}[table]


LINKS = {"a": "", "b": "a", "c": "b", "d": "a", "e": "gone", "f": "e", "x": "z", "y": "x", "z": "y", "w": "z"}
ROOTS = {"a": "a", "b": "a", "c": "a", "d": "a", "e": "gone", "f": "gone"} | dict.fromkeys("xyzw", "x")


def roots(database: Database) -> dict[str, str]:
    return dict(database.read("SELECT id, root FROM sessions"))


def begun(session: str) -> list[Fact]:
    link = LINKS[session]
    opened = Opened(forked_from=link) if session in "cdf" else Opened(parent=link)
    return numbered(opened, session=session)


@given(st.permutations(sorted(LINKS)))
@settings(max_examples=40, deadline=None)
def test_chains_are_found_in_whatever_order_sessions_come(order: list[str]) -> None:
    with tables_of({session: begun(session) for session in order}) as database:
        assert roots(database) == ROOTS


@given(st.permutations(sorted(LINKS)), st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_a_session_that_went_leaves_the_chains_that_a_rebuild_finds(order: list[str], count: int) -> None:
    stay = [session for session in LINKS if session not in order[:count]]
    with (
        tables_of({session: begun(session) for session in LINKS}) as database,
        tables_of({session: begun(session) for session in stay}) as rebuilt,
    ):
        with database.write() as connection:
            for session in order[:count]:
                Tables().forget(connection, session)
        assert dump(database) == dump(rebuilt)


# ---- listing


def listed(database: Database, owner: str = "", **which: Any) -> list[str]:
    return [row.id for row in listing(database, Listing(owner=owner, which=Which(**which)), folder=NOWHERE)]


def test_every_filter_keeps_what_it_names() -> None:
    made = {
        "s-1": [Opened(cwd="/home/a_b", owner="ada"), RunStarted(model="m-1", provider="acme")],
        "s-2": [Opened(cwd="/home/a_b/sub", source="cron", parent="s-1"), Spent(usage=Usage(), model="m-2")],
        "s-3": [Opened(cwd="/home/aXb/sub", source="import", forked_from="s-2")],
        "s-4": [Opened(cwd="/home/a_bc"), RunStarted(model="m-1", provider="other")],
        "s-5": [Opened(cwd="/", source="cron")],
    }
    facts = {
        name: numbered(*facts, session=name, at=BEGIN + timedelta(days=n))
        for n, (name, facts) in enumerate(made.items())
    }
    with tables_of(facts) as database:
        assert listed(database) == ["s-5", "s-4", "s-3", "s-2", "s-1"]
        assert listed(database, owner="ada") == ["s-1"]
        assert listed(database, sources=("cron", "import")) == ["s-5", "s-3", "s-2"]
        assert listed(database, cwd="/home/a_b") == ["s-2", "s-1"]
        assert listed(database, cwd="/home/a_b/") == ["s-2", "s-1"]
        assert listed(database, cwd="/") == ["s-5", "s-4", "s-3", "s-2", "s-1"]
        assert listed(database, models=("m-1",)) == ["s-4", "s-1"]
        assert listed(database, models=("acme/m-1", "m-2")) == ["s-2", "s-1"]
        assert listed(database, since=BEGIN + timedelta(days=3)) == ["s-5", "s-4"]
        assert listed(database, until=BEGIN + timedelta(days=1)) == ["s-1"]
        assert listed(database, session="s-3") == ["s-3"]
        assert listed(database, chain="s-2") == listed(database, chain="s-3") == ["s-3", "s-2", "s-1"]
        assert listed(database, without="s-3") == ["s-5", "s-4"]
        assert listed(database, without="unknown") == listed(database)
        assert listed(database, chain="unknown") == []
        assert listed(database, owner="ada", chain="s-3") == ["s-1"]
        assert one(database, SessionRef(id="s-2", owner="ada"), folder=NOWHERE) is None
        assert titled(database, "", owner="ada") == [SessionRef(id="s-1", owner="ada")]


def test_a_row_that_makes_no_sense_is_damage_and_not_a_crash() -> None:
    with tables_of({"s-1": numbered(Opened(), *turn())}) as database:
        with database.write() as connection:
            connection.execute("UPDATE sessions SET messages = 'many'")
        with pytest.raises(msgspec.ValidationError):
            listing(database, Listing(), folder=NOWHERE)
        with pytest.raises(msgspec.ValidationError), database.write() as connection:
            Tables().take(connection, "s-1", numbered(*turn()))


# ---- versions


def test_tables_of_the_first_version_are_remade(tmp_path: Path) -> None:
    async def main() -> None:
        store = opened_store(tmp_path)
        await with_turns(store, 2, id="s-1")
        old = sqlite3.connect(tmp_path / "state" / "sessions.db")
        script = resources.files("melete.store").joinpath("schema", "sessions_1.sql").read_text()
        old.executescript(script)
        old.execute("INSERT INTO sources VALUES ('s-1', 1, 2, 3, 4)")
        old.execute("INSERT INTO sessions (id, started, updated, messages) VALUES ('s-1', 1, 2, 99)")
        old.execute("INSERT INTO messages VALUES ('s-1', 1, 'user', 5, 1.0)")
        old.execute("PRAGMA user_version = 1")
        old.commit()
        old.close()
        (row,) = await store.list()
        assert (row.messages, row.steps, row.runs, row.cost_status) == (8, 4, 2, "estimated")
        assert not list((tmp_path / "state").glob("*.damaged*"))
        await store.aclose()

    asyncio.run(main())
