"""What a search finds, and in which order: words, what stands beside them, conditions, dates."""

from datetime import UTC, datetime, timedelta

import pytest

from melete.core.event import Opened, Said
from melete.core.message import user
from melete.store import candidates, search, words
from tests.unit.store.given import START
from tests.unit.store.searched import Searched, called, filled, result

TALK = {
    "boat": [
        "I bought a little boat in spring.",
        "assistant: Congratulations! What is its name?",
        "It is called Heron.",
    ],
    "bread": ["My sourdough bread never rises.", "assistant: Feed the starter twice a day.", "It worked, thank you!"],
    "python": ["sqlite3.OperationalError: database is locked", "assistant: Another process holds foo_bar.db open."],
}


def test_a_question_as_people_write_it_finds_the_answer() -> None:
    index = filled(TALK)
    assert index.found("When did I buy a boat?")[0] == "boat"
    assert index.found("how can I make my bread rise???")[0] == "bread"
    assert index.found("which processes are locking the databases")[0] == "python"


def test_exact_names_are_found() -> None:
    index = filled(TALK)
    for text in ("foo_bar.db", "OperationalError", "sqlite3", "Heron", '"database is locked"'):
        assert index.hits(text), text


def test_an_answer_that_does_not_repeat_the_question_is_found_beside_it() -> None:
    index = filled(TALK)
    texts = [hit.snippet for hit in index.hits("What is the name of the little boat?")]
    assert "It is called Heron." in texts


def test_one_word_finds_only_messages_that_hold_it() -> None:
    hits = filled(TALK).hits("starters")
    assert [(hit.session, hit.seq) for hit in hits] == [("bread", 3)]


def test_words_beside_each_other_count_across_blocks_and_pieces() -> None:
    one, many = Searched(), Searched()
    texts = [f"nothing much {number}" for number in range(7)] + ["the violin", "is broken"] + ["fine"] * 9
    one.add("s", *texts)
    for text in texts:
        many.add("s", text)
        many.add(f"other-{len(many.facts['s'])}", "something else")
    first = [[hit.seq for hit in index.hits("broken violin", limit=2)] for index in (one, many)]
    assert first[0] == first[1]
    assert set(first[0]) == {9, 10}


def test_the_newer_of_two_equals_comes_first_and_a_little_age_never_beats_a_better_match() -> None:
    index = Searched()
    index.add("old", "the red kite flies", at=START)
    index.add("new", "the red kite flies", at=START + timedelta(days=40))
    index.add("newest", "a kite", at=START + timedelta(days=41))
    assert index.found("red kite") == ["new", "old", "newest"]


def test_what_tools_and_subagents_say_comes_behind_what_people_say() -> None:
    index = Searched()
    index.add("cron", "the pelican report", opened=Opened(source="cron"))
    index.add("tool", result("terminal", "the pelican report"))
    index.add("talk", "the pelican report", at=START - timedelta(days=300))
    assert index.found("pelican report")[0] == "talk"
    assert len(index.found("pelican report")) == 3


def test_a_long_text_does_not_win_by_its_length() -> None:
    index = Searched()
    index.add("log", " ".join(f"word{number} pelican report" for number in range(900)))
    index.add("short", "the pelican report", at=START - timedelta(days=300))
    assert index.found("pelican report") == ["short", "log"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"red apple"', {"a"}),
        ('"apple red"', set[str]()),
        ("red AND apple", {"a", "c"}),
        ("apple AND green", {"b"}),
        ("red AND NOT tree", {"a"}),
        ("apple -tree", {"a", "b"}),
        ("apple NOT tree", {"a", "b"}),
        ("green OR tree", {"b", "c"}),
        ('"green apple" OR tree', {"b", "c"}),
        ('apple -"red apple"', {"b", "c"}),
        ("gree*", {"b"}),
        ("red AND", {"a", "c"}),
        ("AND OR red NOT", {"a", "c"}),
        ('"red', {"a", "c"}),
        ("-tree", {"c"}),
        ("NOT tree", {"c"}),
    ],
)
def test_conditions(text: str, found: set[str]) -> None:
    index = filled(
        {"a": ["a red apple fell"], "b": ["one green apple"], "c": ["the apple tree is red"], "d": ["nothing"]}
    )
    assert set(index.found(text)) == found


def test_a_pasted_text_is_words_whatever_it_looks_like() -> None:
    index = filled(TALK)
    pasted = (
        'Traceback:\n  raise Error("no such thing")\nsqlite3.OperationalError: database is locked -heron NOT AND OR "x'
    )
    assert index.found(pasted)[0] == "python"
    assert index.found("SELECT * FROM t WHERE name = 'boat' -- locked")[:1]


def test_a_date_in_the_question_prefers_messages_of_that_time() -> None:
    index = Searched()
    for month in range(1, 13):
        index.add(f"m-{month}", f"we met for lunch, number {month}", at=datetime(2025, month, 15, tzinfo=UTC))
    assert index.found("where did we meet for lunch in March 2025?")[0] == "m-3"
    assert index.found("lunch on 15 July, 2025")[0] == "m-7"
    assert index.found("lunch 2025-10-14")[0] == "m-10"
    assert len(index.found("lunch in March 2025", limit=20)) == 12


def test_newest_and_oldest_first() -> None:
    index = Searched()
    for day in (3, 1, 4, 2, 5):
        index.add(f"d-{day}", f"the weather today, day {day}", at=START + timedelta(days=day * 30))
    assert index.found("weather", order="newest") == ["d-5", "d-4", "d-3", "d-2", "d-1"]
    assert index.found("weather", order="oldest", limit=2) == ["d-1", "d-2"]


def test_by_time_nothing_that_holds_the_word_is_left_out_whoever_said_it() -> None:
    index = Searched()
    index.add("talk", "the pelican", at=START)
    index.add("job", result("terminal", "the pelican " + "and more " * 300), opened=Opened(source="cron"))
    assert index.found("pelican", order="newest") == ["job", "talk"]


@pytest.mark.parametrize("text", ["pelican", "pelic*", '"pelican report"', "pelican OR heron", "pelican report"])
def test_the_newest_and_oldest_are_those_among_more_than_are_looked_at(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "SHORTEST_LIST", 5)
    monkeypatch.setattr(candidates, "LIST", 5)
    monkeypatch.setattr(search, "MOST_BLOCKS", 10)
    index = Searched()
    days = [day * 37 % 101 for day in range(101)]  # every day once, in no order
    for day in days:
        index.add(f"d-{day}", "a pelican report", at=START + timedelta(days=day))
    assert index.found(text, order="newest", limit=3) == ["d-100", "d-99", "d-98"]
    assert index.found(text, order="oldest", limit=3) == ["d-0", "d-1", "d-2"]


def test_by_time_either_side_of_or_is_found_however_rare_the_other_is() -> None:
    index = Searched()
    index.add("many", *[f"a pelican {number}" for number in range(60)])
    index.add("one", "a heron", at=START)
    assert index.found("pelican OR heron", order="oldest", limit=1) == ["one"]
    assert len(index.hits("pelican OR heron", order="newest", limit=99)) == 61


def test_a_chain_of_sessions_has_as_many_hits_as_are_asked_for() -> None:
    index = Searched()
    index.add("first", "otters one", "otters two", "otters three")
    index.add("fork", "otters four", opened=Opened(forked_from="first"))
    index.add("child", "otters five", opened=Opened(parent="fork"))
    index.add("other", "otters six")
    hits = index.hits("otters", each=1)
    assert sorted(hit.root for hit in hits) == ["first", "other"]
    assert len(index.hits("otters", each=2)) == 3
    assert len(index.hits("otters")) == 6


def test_what_a_fork_copied_is_found_once_and_in_the_original() -> None:
    index = Searched()
    index.add("first", "the otter sleeps", "assistant: good", at=START)
    index.add("fork", "the otter sleeps", "and wakes the otter", opened=Opened(forked_from="first", copied=2), at=START)
    hits = index.hits("otter")
    assert sorted((hit.session, hit.seq) for hit in hits) == [("first", 2), ("fork", 3)]
    for order in ("best", "newest", "oldest"):
        (hit,) = index.hits("sleeps", limit=1, order=order)
        assert (hit.session, hit.seq) == ("first", 2), order
    (hit,) = index.hits("sleeps", each=1)
    assert hit.session == "first"
    index.forget("first")
    assert index.found("sleeps") == ["fork"]


def test_a_circle_of_parents_ends() -> None:
    index = Searched()
    index.add("a", "otters", opened=Opened(parent="b"))
    index.add("b", "otters", opened=Opened(parent="a"))
    assert {hit.root for hit in index.hits("otters")} == {"a"}


def test_a_hit_tells_where_it_stands() -> None:
    index = Searched()
    opened = Opened(source="import", about={"imported": "their-name"})
    index.add("s", Said(message=user("a heron by the lake"), ref="m-17"), called("read_file"), opened=opened)
    (hit,) = index.hits("heron")
    assert (hit.session, hit.seq, hit.role, hit.source) == ("s", 2, "user", "import")
    assert (hit.ref, hit.name, hit.root) == ("m-17", "their-name", "s")
    assert [hit.snippet[start:end] for start, end in hit.marks] == ["heron"]
    (call,) = index.hits("read_file")
    assert (call.role, call.tool) == ("assistant", "read_file")


def test_chinese_and_symbols_are_found() -> None:
    index = filled(
        {"zh": ["我昨天把钥匙放在厨房的抽屉里"], "emoji": ["party 🎉 tonight"], "arrow": ["use a -> b here"]}
    )
    assert index.found("钥匙在哪里?") == ["zh"]
    assert index.found("🎉") == ["emoji"]
    assert index.found("->") == ["arrow"]
    assert index.found("什么时候下雨") == [] or index.found("什么时候下雨") == ["zh"]


def test_a_message_that_grows_a_session_later_is_found_with_those_before() -> None:
    index = Searched()
    for number in range(30):
        index.add("s", f"heron number{number}")
    assert len(index.hits("heron", limit=50)) == 30
    assert index.hits("number17")[0].seq == 19
    rows = index.database.read("SELECT count(*), sum(place) FROM blocks")
    assert rows == [(4, 6)]


def test_the_beginning_of_a_chain_is_told_only_to_who_owns_it() -> None:
    index = Searched()
    index.add("anns", "otters", opened=Opened(owner="ann"))
    index.add("bobs", "otters", opened=Opened(owner="bob", forked_from="anns"))
    index.add("more", "otters", opened=Opened(owner="bob", forked_from="bobs"))
    assert {hit.root for hit in index.hits("otters", owner="bob")} == {"bobs"}
    assert {hit.root for hit in index.hits("otters")} == {"anns"}


def test_the_index_is_made_with_the_analysis_that_queries_use() -> None:
    assert Searched().database.read("SELECT analysis FROM made") == [(words.ANALYSIS,)]


def test_nothing_is_found_by_nothing() -> None:
    index = filled(TALK)
    assert index.hits("") == index.hits("   \n ") == index.hits("zzyzx") == []
    assert index.hits("boat", limit=0) == []
    assert Searched().hits("boat in May 2025") == []
