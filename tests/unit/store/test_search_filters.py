"""A hit always satisfies every filter, and never is of another owner, however the sessions are made."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from melete.core.event import Opened, Reply, Said, ToolEnded
from melete.core.session import Query, Which
from melete.store import candidates, scope
from melete.store.search import find
from tests.unit.store.given import START
from tests.unit.store.searched import Searched, called, ran, result, said

OWNERS = ("", "ann", "bob", "ann2")
SOURCES = ("cli", "telegram", "cron")
FOLDERS = ("/a", "/a/b", "/ab", "/")
MODELS = ("m-1", "m-2")
TOOLS = ("terminal", "read_file")
WORDS = ("otter", "heron", "pelican", "kite")


def made(seed: int) -> Searched:
    """Forty sessions of all kinds, those that come later children of earlier ones now and then."""
    index = Searched()
    for number in range(40):
        at = number * 7 + seed
        opened = Opened(
            owner=OWNERS[at % 4],
            source=SOURCES[at % 3],
            cwd=FOLDERS[at // 3 % 4],
            parent=f"s-{number // 2}" if number % 5 == 4 else "",
        )
        messages = [
            ran(MODELS[at % 2], "acme"),
            said(f"user: {WORDS[at % 4]} and {WORDS[(at + 1) % 4]}"),
            called(TOOLS[at % 2], f'{{"word": "{WORDS[at // 2 % 4]}"}}'),
            result(TOOLS[at % 2], f"saw a {WORDS[at % 3]}"),
            said(f"assistant: it was a {WORDS[at // 5 % 4]}"),
        ]
        index.add(f"s-{number}", *messages * (1 + number % 4), opened=opened)
    return index


def some(values: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), max_size=2, unique=True).map(tuple)


INDEX = made(3)
BEGINS = {session: facts[0] for session, facts in INDEX.facts.items()}
TIMES = st.none() | st.integers(0, 42).map(lambda days: START + timedelta(days=days))
SESSIONS = st.sampled_from(["", "", "", *INDEX.facts, "none"])
QUERIES = st.builds(
    Query,
    text=st.sampled_from(
        ["otter", "heron kite", '"otter and heron"', "pelican AND kite", "kit*", "otter -kite", "saw"]
    ),
    owner=st.sampled_from(OWNERS),
    which=st.builds(
        Which,
        sources=some(SOURCES),
        cwd=st.sampled_from(["", "", *FOLDERS, "/a/"]),
        models=some((*MODELS, "acme/m-1")),
        since=TIMES,
        until=TIMES,
        session=SESSIONS,
        chain=SESSIONS,
        without=SESSIONS,
    ),
    roles=some(("user", "assistant", "tool")),
    tools=some(TOOLS),
    order=st.sampled_from(["best", "newest", "oldest"]),
    each=st.integers(0, 3),
    limit=st.integers(1, 400),
)


def expected(query: Query) -> set[tuple[str, int]]:
    """The places of all messages inside the filters, by the facts alone."""
    found: set[tuple[str, int]] = set()
    for session, facts in INDEX.facts.items():
        if not inside(query, session):
            continue
        for fact in facts[2:]:
            match fact:
                case ToolEnded():
                    role, tools = "tool", {fact.result.name}
                case Said() | Reply():
                    role, tools = fact.message.role, {call.name for call in fact.message.calls}
                case _:
                    continue
            timely = (query.which.since is None or fact.at >= query.which.since) and (
                query.which.until is None or fact.at < query.which.until
            )
            if timely and (not query.roles or role in query.roles) and (not query.tools or tools & {*query.tools}):
                found.add((session, fact.seq))
    return found


def inside(query: Query, session: str) -> bool:
    which, opened = query.which, BEGINS[session]
    assert isinstance(opened, Opened)
    model = INDEX.facts[session][1].model  # type: ignore[union-attr]
    folder = which.cwd.rstrip("/")
    return (
        query.owner in ("", opened.owner)
        and (not which.sources or opened.source in which.sources)
        and (not which.cwd or opened.cwd == (folder or "/") or opened.cwd.startswith(f"{folder}/"))
        and (not which.models or model in which.models or f"acme/{model}" in which.models)
        and which.session in ("", session)
        and (not which.chain or root(session) == root(which.chain))
        and (not which.without or root(session) != root(which.without))
    )


def root(session: str) -> str:
    opened = BEGINS.get(session)
    return root(opened.parent) if isinstance(opened, Opened) and opened.parent else session


@given(QUERIES)
@settings(max_examples=150, deadline=None)
def test_hits_satisfy_every_filter_and_none_is_missing(query: Query) -> None:
    hits = find(INDEX.database, query)
    places = {(hit.session, hit.seq) for hit in hits}
    allowed = expected(query)
    assert places <= allowed
    assert len(places) == len(hits) <= query.limit
    if query.text == "saw" and not query.each and query.order == "best" and query.limit >= len(allowed):
        assert places == {place for place in allowed if place in EVERY_SAW}


EVERY_SAW = {(hit.session, hit.seq) for hit in INDEX.hits("saw", limit=1_000)}


@given(QUERIES)
@settings(max_examples=60, deadline=None)
def test_hits_satisfy_every_filter_where_much_is_asked_of_the_index(query: Query) -> None:
    narrow, lists, shortest = scope.NARROW, candidates.LIST, candidates.SHORTEST_LIST
    scope.NARROW, candidates.LIST, candidates.SHORTEST_LIST = 0, 5, 5
    try:
        hits = find(INDEX.database, query)
    finally:
        scope.NARROW, candidates.LIST, candidates.SHORTEST_LIST = narrow, lists, shortest
    assert {(hit.session, hit.seq) for hit in hits} <= expected(query)


def test_the_filters_are_met_by_something() -> None:
    assert len(INDEX.hits("otter", owner="ann", limit=100)) > 5
    assert len(INDEX.hits("otter", which=Which(cwd="/a"), limit=100)) > len(
        INDEX.hits("otter", which=Which(cwd="/a/b"), limit=100)
    )
    assert INDEX.hits("otter", tools=("terminal",), roles=("tool",))
    assert INDEX.hits("otter", which=Which(chain="s-4"))
    assert len(EVERY_SAW) == sum(1 + number % 4 for number in range(40))
