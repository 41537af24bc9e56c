"""What broke a prompt cache is read from the facts between two replies."""

from datetime import timedelta
from itertools import count

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.agent.cachewatch import CacheWatch, Request, dearer, remark, requests, saved
from melete.core.event import Compacted, Fact, Framed, Notice, Reply, Retried, RunStarted, Said, ToolSchema
from melete.core.message import Message, Origin, Usage, Wire, user
from melete.core.model import Capabilities
from melete.core.transcript import ASIDE, Transcript
from melete.testing.clock import START

WARM = Usage(input=500, cache_read=9_500, output=50)
COLD = Usage(input=10_000, output=50)
NOTE = user("[Note from the runtime] Tools are off now.", by=Origin(kind="runtime"))


def replied(usage: Usage = WARM, *, model: str = "m-1", provider: str = "p", wire: str = "w") -> Reply:
    body = Message(role="assistant", parts=(), wire=Wire(name=wire, body=msgspec.Raw(b"{}")))
    return Reply(message=body, usage=usage, model=model, provider=provider, seconds=2.0)


def started(model: str = "m-1", provider: str = "p") -> RunStarted:
    return RunStarted(model=model, provider=provider)


def frame(*tools: str, system: str = "Be brief.", parameters: bytes = b"{}") -> Framed:
    shown = tuple(ToolSchema(name=name, about="", parameters=msgspec.Raw(parameters)) for name in tools)
    return Framed(system=(system,), tools=shown)


def stamped(*facts: Fact, apart: float = 5.0) -> list[Fact]:
    """The facts with numbers from 1, `apart` seconds from each other."""
    return [
        msgspec.structs.replace(fact, seq=seq, at=START + timedelta(seconds=apart * seq))
        for fact, seq in zip(facts, count(1))
    ]


def last(*facts: Fact, apart: float = 5.0) -> Request:
    """The last request of a session that began with a frame, a run and a warm reply."""
    before = (frame("read", "write"), started(), replied())
    return requests(stamped(*before, *facts, apart=apart))[-1]


def kind(*facts: Fact, apart: float = 5.0) -> str | None:
    broken = last(*facts, apart=apart).broken
    return broken.kind if broken else None


@pytest.mark.parametrize(
    ("facts", "expected", "words"),
    [
        ([Compacted(segment="s", parent="", messages=(), how="old tool results pruned")], "compaction", "results pruned"),
        ([frame("read", "extra")], "tools", "+extra, -write"),
        ([frame("read", "write", parameters=b"[]")], "tools", "other schema of read, other schema of write"),
        ([frame("write", "read")], "tools", "another order"),
        ([frame("read", "write", system="Be long.")], "system", "the system text changed"),
        ([Retried(attempt=1, cause="RateLimitError", reason="A rests; B is used now", delay=0.0)], "key", "B is used now"),
        ([Notice(text="t", about=f"{ASIDE}0badcafe")], "aside", "added unseen"),
        ([Said(message=NOTE)], "last_turn", "switched off"),
    ],
)  # fmt: skip
def test_the_fact_that_broke_it_is_named(facts: list[Fact], expected: str, words: str) -> None:
    broken = last(*facts, replied(COLD)).broken
    assert broken
    assert (broken.kind, broken.seq, broken.tokens) == (expected, 4, 10_000)
    assert words in broken.why
    assert "(fact 4)" in broken.why
    assert last(*facts, replied()).broken is None  # what may break it is no break


def test_where_nothing_changed_the_provider_let_it_go() -> None:
    broken = last(replied(COLD)).broken
    assert broken
    assert (broken.kind, broken.why) == ("provider", "nothing that is sent changed: the provider let it go")
    waits = Retried(attempt=1, cause="RateLimitError", reason="later", delay=1.0, model="m-1")
    assert kind(waits, replied(COLD)) == "provider"


def test_a_pause_longer_than_the_caches_life_is_told_in_minutes() -> None:
    broken = last(replied(COLD), apart=724.0).broken
    assert broken
    assert (broken.kind, broken.why) == ("pause", "12 min passed, and a cached prompt lives 5")
    facts = stamped(started(), replied(), replied(COLD), apart=724.0)
    (_, second) = requests(facts, life=3_600.0)
    assert second.broken
    assert second.broken.kind == "provider"


def test_a_long_answer_is_no_pause() -> None:
    slow = msgspec.structs.replace(replied(COLD), seconds=700.0)
    assert kind(slow, apart=724.0) == "provider"


def test_another_model_is_told_with_how_it_came_to_answer() -> None:
    other = replied(COLD, model="m-2", provider="q")
    chosen = last(started("m-2", "q"), other).broken
    assert chosen
    assert chosen.why == "q/m-2 was chosen in place of p/m-1 (fact 4)"
    fell = Retried(attempt=1, cause="OverloadedError", reason="busy", delay=0.0, model="m-2", provider="q")
    fallen = last(fell, other).broken
    assert fallen
    assert fallen.why == "q/m-2 stood in for p/m-1 after OverloadedError (fact 4)"
    tries = Retried(attempt=1, cause="StalledError", reason="silent", delay=0.5, model="m-1", provider="p")
    back = last(fell, other, replied(WARM, model="m-2", provider="q"), tries, replied(COLD)).broken
    assert back
    assert back.why == "p/m-1 answers again; q/m-2 had stood in for it"
    strange = last(replied(COLD, model="m-3")).broken
    assert strange
    assert strange.why == "p/m-3 answered in place of p/m-1"
    wired = last(replied(COLD, wire="v")).broken
    assert wired
    assert wired.why == "p/m-1 was asked over the wire v in place of w"


def test_a_model_that_still_has_the_prompt_is_no_break() -> None:
    assert kind(started("m-2", "q"), replied(COLD, model="m-2", provider="q"), started(), replied()) is None


def test_several_causes_are_all_told_and_the_unwanted_one_counts() -> None:
    shortened = Compacted(segment="s", parent="", messages=(), how="old tool results pruned")
    broken = last(shortened, frame("read"), replied(COLD)).broken
    assert broken
    assert broken.kind == "tools"
    assert broken.why == (
        "the conversation was shortened (old tool results pruned) (fact 4); the tools changed: -write (fact 5)"
    )


def test_nothing_is_told_of_a_provider_that_reports_no_caching() -> None:
    facts = stamped(started(), replied(COLD), frame("a"), replied(COLD), replied(COLD))
    assert [request.broken for request in requests(facts)] == [None, None, None]


def test_a_short_prompt_and_one_that_nobody_counted_are_not_judged() -> None:
    short = Usage(input=100, cache_read=900)
    facts = stamped(started(), replied(short), replied(Usage(input=1_100)), replied(Usage()), replied(WARM))
    found = requests(facts)
    assert [request.broken for request in found] == [None] * 4
    assert [request.share for request in found] == [0.9, 0.0, 0.0, 0.95]


def test_a_cause_is_told_aloud_once_in_a_run_and_a_compaction_never() -> None:
    can = Capabilities(usd_input=3.0, usd_output=15.0, usd_cache_read=0.3, usd_cache_write=3.75)
    facts = stamped(started(), replied(), replied(COLD), replied(), replied(COLD), started(), replied(), replied(COLD))
    notices = [remark(request, can) for request in requests(facts)]
    assert [notice is not None for notice in notices] == [False, True, False, False, False, True]
    first = notices[1]
    assert first
    assert (first.level, first.about) == ("warning", "cache")
    assert first.text == (
        "the prompt cache was lost: nothing that is sent changed: the provider let it go; "
        "10,000 tokens were read anew, about $0.0270 more than from the cache"
    )
    shortened = last(Compacted(segment="s", parent="", messages=(), how="h"), replied(COLD))
    assert shortened.broken
    assert remark(shortened, can) is None
    unpriced = remark(last(replied(COLD)), Capabilities())
    assert unpriced
    assert unpriced.text.endswith("10,000 tokens were read anew")


def test_what_caching_saved_counts_what_writing_costs_more() -> None:
    can = Capabilities(usd_input=3.0, usd_output=15.0, usd_cache_read=0.3, usd_cache_write=3.75)
    assert saved(can, Usage(input=10, cache_read=1_000_000, output=5)) == pytest.approx(2.7)
    assert saved(can, Usage(cache_write=1_000_000)) == pytest.approx(-0.75)
    assert saved(Capabilities(usd_input=3.0, usd_output=15.0), WARM) is None
    assert saved(Capabilities(usd_cache_read=0.3), WARM) is None
    assert dearer(can, Usage(cache_write=1_000_000), 1_000_000) == pytest.approx(3.45)
    assert dearer(Capabilities(usd_input=3.0, usd_output=15.0), COLD, 100) is None


facts = st.sampled_from([
    replied(), replied(COLD), replied(COLD, model="m-2", provider="q"), replied(Usage()), started(), started("m-2", "q"),
    frame("a"), frame("a", "b"), Compacted(segment="s", parent="", messages=(user("x"),), how="h"), Said(message=NOTE),
    Said(message=user("hi")), Notice(text="t"), Notice(text="t", about=f"{ASIDE}1"),
    Retried(attempt=1, cause="AuthError", reason="r", delay=0.0, model="m-2", provider="q"),
])  # fmt: skip


@given(session=st.lists(facts, max_size=40), looks=st.sets(st.integers(0, 40)))
def test_watching_live_sees_what_reading_the_log_sees(session: list[Fact], looks: set[int]) -> None:
    log = stamped(*session)
    state, watch = Transcript(), CacheWatch()
    seen: list[Request] = []
    for number, fact in enumerate(log):
        state.apply(fact)
        if number in looks:
            seen += watch.read(state.trail)
    assert [*seen, *watch.read(state.trail)] == requests(log)
    assert watch.read(state.trail) == []


def test_a_frame_too_far_back_to_be_seen_was_another() -> None:
    state, watch = Transcript(), CacheWatch()
    for fact in stamped(frame("a"), started(), *[replied()] * 300, frame("a", "b"), replied(COLD)):
        state.apply(fact)
    broken = watch.read(state.trail)[-1].broken
    assert broken
    assert broken.kind == "tools"


def test_a_run_that_begins_with_a_stand_in_was_not_given_another_model_by_anybody() -> None:
    gone = Retried(attempt=1, cause="OverloadedError", reason="", delay=0.0, model="m-2", provider="q")
    cold = replied(COLD, model="m-2", provider="q")
    facts = [gone, cold, started("m-2", "q"), replied(model="m-2", provider="q"), started(), replied(COLD)]
    broken = last(*facts).broken
    assert broken is not None
    assert "answers again" in broken.why
