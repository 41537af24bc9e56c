"""What goes by which rule: never the running one, never more than needed, the oldest first; and what is found on the disk."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.core.session import SessionInfo, SessionRef
from melete.store.retention import Candidate, Choice, Held, Rules, choose, discard, holdings, unchanged
from tests.unit.store.given import START, note, opened_store, with_turns

NOW = START
sizes = st.integers(0, 1000)


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    found: list[Candidate] = []
    for number in range(draw(st.integers(0, 12))):
        at = NOW - timedelta(hours=draw(st.integers(0, 2000)))
        session = SessionInfo(
            id=f"s-{number}",
            started=at,
            updated=at,
            source=draw(st.sampled_from(["cli", "cron"])),
            messages=draw(st.integers(0, 2)),
            running=draw(st.integers(0, 5)) == 0,
        )
        held = Held(log=draw(sizes), spilled=draw(sizes), mail=draw(st.sampled_from([0, 0, 0, 1])))
        found.append(Candidate(session=session, held=held))
    return found


rule_sets = st.builds(
    Rules,
    before=st.none() | st.integers(0, 2000).map(lambda hours: NOW - timedelta(hours=hours)),
    keep=st.none() | st.integers(0, 12),
    max_bytes=st.none() | st.integers(0, 10_000),
    empty=st.booleans(),
    sources=st.sampled_from([(), ("cli",), ("cron",)]),
)


def gone(choice: Choice) -> list[str]:
    return [one.session.id for one in choice.gone]


@given(candidates(), rule_sets)
def test_what_goes_was_meant_by_every_rule_and_may_go(found: list[Candidate], rules: Rules) -> None:
    choice = choose(found, [rules], now=NOW)
    in_scope = [one for one in found if not rules.sources or one.session.source in rules.sources]
    newest_first = sorted(in_scope, key=lambda one: (one.session.updated, one.session.id), reverse=True)
    kept_ids = [one.session.id for one in newest_first[: rules.keep or 0]]
    if not rules.given:
        assert choice == Choice()
    for one in choice.gone:
        session = one.session
        assert not session.running
        assert not one.candidate.held.mail
        assert one.why
        assert rules.before is None or session.updated < rules.before
        assert session.id not in kept_ids
        assert not rules.empty or not session.messages
        assert not rules.sources or session.source in rules.sources
    if found:
        latest = max(found, key=lambda one: (one.session.updated, one.session.id))
        assert latest.session.id not in gone(choice)
    ages = [(one.session.updated, one.session.id) for one in choice.gone]
    assert ages == sorted(ages)
    assert not {one.session.id for one in choice.kept} & set(gone(choice))
    assert choice.size == sum(one.candidate.held.total for one in choice.gone)


@given(candidates(), st.integers(0, 10_000))
def test_no_more_goes_than_is_needed_to_fit_and_the_oldest_first(found: list[Candidate], most: int) -> None:
    choice = choose(found, [Rules(max_bytes=most)], now=NOW)
    total = sum(one.held.total for one in found)
    if choice.gone:
        assert total - choice.size + choice.gone[-1].size > most
    may_go = {one.session.id for one in found if not one.session.running and not one.held.mail}
    by_age = sorted(found, key=lambda one: (one.session.updated, one.session.id))
    may_go -= {one.session.id for one in by_age[-1:]}
    assert gone(choice) == [one.session.id for one in by_age if one.session.id in may_go][: len(choice.gone)]
    if total - choice.size > most:
        assert set(gone(choice)) == may_go


@given(candidates(), rule_sets, rule_sets)
def test_several_rules_one_after_the_other_take_what_each_means(
    found: list[Candidate], one: Rules, other: Rules
) -> None:
    first = choose(found, [one], now=NOW)
    left = [candidate for candidate in found if candidate.session.id not in gone(first)]
    both = choose(found, [one, other], now=NOW)
    assert set(gone(both)) == {*gone(first), *gone(choose(left, [other], now=NOW))}


def test_a_session_that_somebody_has_just_opened_is_not_empty_yet() -> None:
    fresh, stale, latest = (
        Candidate(session=SessionInfo(id=name, started=at, updated=at))
        for name, at in (("a", NOW - timedelta(minutes=50)), ("b", NOW - timedelta(hours=2)), ("c", NOW))
    )
    assert gone(choose([fresh, stale, latest], [Rules(empty=True)], now=NOW)) == ["b"]


# ---- on the disk


def test_everything_on_the_disk_is_counted_once(tmp_path: Path) -> None:
    async def main() -> None:
        store = opened_store(tmp_path)
        ref = await with_turns(store, id="s-1")
        await with_turns(store, id="s-2")
        await store.send(ref, note("m1"), wait=0)
        await store.spill(ref, "out", "x" * 300)
        await store.list()
        await store.aclose()
        state = tmp_path / "state"
        folder = state / "sessions"
        (folder / "s-1.inbox" / "bad.refused").write_text("12345")
        (folder / "s-2.damaged").write_text("1234567")
        (folder / "gone.inbox").mkdir()
        (folder / "gone.inbox" / "m.json").write_text("123")
        (folder / "gone.damaged").write_text("1")
        (folder / ".s-3.4711-ab.new").write_text("being written")
        (state / "spill" / "gone").mkdir()
        (state / "spill" / "gone" / "out.txt").write_text("1234")
        (state / "sessions.db.damaged-20260101-000000").write_text("123456789")
        held = holdings(state)
        assert sorted(held.sessions) == ["s-1", "s-2"]
        one, two = held.sessions["s-1"], held.sessions["s-2"]
        assert (one.mail, one.spilled, one.damaged) == (1, 300, 0)
        assert (two.mail, two.damaged, two.inbox) == (0, 7, 0)
        assert two.log == (folder / "s-2.log").stat().st_size
        assert {(Path(left.path).name, left.size) for left in held.set_aside} == {
            ("bad.refused", 5),
            ("s-2.damaged", 7),
            ("sessions.db.damaged-20260101-000000", 9),
        }
        assert {(Path(left.path).name, left.size) for left in held.orphans} == {
            ("gone.inbox", 3),
            ("gone.damaged", 1),
            ("gone", 4),
        }
        kinds = held.sizes
        assert (kinds.set_aside, kinds.orphans, kinds.spilled) == (21, 8, 300)
        assert kinds.logs == one.log + two.log
        assert kinds.tables >= (state / "sessions.db").stat().st_size
        for left in held.orphans:
            assert discard(state, left)
            assert not discard(state, left)
        assert holdings(state).orphans == ()

    asyncio.run(main())


def test_an_orphan_that_has_a_session_by_now_stays(tmp_path: Path) -> None:
    async def main() -> None:
        store = opened_store(tmp_path)
        folder = tmp_path / "state" / "sessions"
        (folder / "s-1.inbox").mkdir(parents=True)
        (orphan,) = holdings(tmp_path / "state").orphans
        await with_turns(store, id="s-1")
        assert not discard(tmp_path / "state", orphan)
        assert (folder / "s-1.inbox").is_dir()
        await store.aclose()

    asyncio.run(main())


def test_a_session_that_something_happened_to_is_noticed(tmp_path: Path) -> None:
    async def main() -> None:
        store = opened_store(tmp_path)
        ref = await with_turns(store, id="s-1")
        state = tmp_path / "state"

        async def seen() -> Candidate:
            return Candidate(session=await store.info(ref), held=holdings(state).sessions["s-1"])

        before = await seen()
        assert unchanged(state, before)
        async with store.claim(ref):
            assert not unchanged(state, before)
        assert unchanged(state, before)
        await store.send(ref, note("m1"), wait=0)
        assert not unchanged(state, before)
        now = await seen()
        await store.rename(SessionRef(id="s-1"), "another")
        assert not unchanged(state, now)
        await store.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("state", ["nothing", "file"])
def test_a_home_without_sessions_holds_nothing(tmp_path: Path, state: str) -> None:
    if state == "file":
        (tmp_path / "state").write_text("not a folder")
    held = holdings(tmp_path / "state")
    assert (held.sessions, held.sizes.total) == ({}, 0)
