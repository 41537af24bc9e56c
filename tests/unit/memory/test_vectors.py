"""The memory of vectors on real files: what is near in meaning is found, by nobody but its person, whatever becomes of the file."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from melete.app.memory_provider import PersonsPast, first_of
from melete.core.event import Fact, Opened, Said
from melete.core.message import user
from melete.core.ports import ProviderStart
from melete.core.session import Hit, Line, Query, SessionRef, Store, Which
from melete.memory import vectors
from melete.memory.vectors import Index, VectorMemory
from melete.store import open_store
from melete.testing import ManualClock

AT = datetime(2026, 5, 4, 10, tzinfo=UTC)
DOG = "My dog is called Bruno, a three year old beagle."
WEDDING = "My sister Anna is getting married in Lisbon next June."
SERVER = "The staging server is deployed every Friday at noon."
TEXTS = (DOG, WEDDING, SERVER, "The soup was too salty yesterday.")
PUPPY = "Which name did I give to my puppy?"


def line(session: str, seq: int, text: str) -> Line:
    return Line(session=session, seq=seq, role="user", text=text, at=AT)


def filled(path: Path, who: str = "", session: str = "s-1") -> Index:
    index = Index(path)
    lines = [line(session, seq, text) for seq, text in enumerate(TEXTS, 2)]
    index.add(who, session, lines, last=5, size=100)
    return index


def best(index: Index, query: str, who: str = "") -> int:
    found = index.nearest(who, query, ())
    return max(found.own, key=lambda place: found.own[place])[1] if found.own else 0


@pytest.mark.parametrize(
    ("query", "seq"), [(PUPPY, 2), ("Where is the wedding of my sibling?", 3), ("When do we release to staging?", 4)]
)
def test_what_is_near_in_meaning_is_found(tmp_path: Path, query: str, seq: int) -> None:
    index = filled(tmp_path / "vectors.db")
    assert best(index, query) == seq
    assert best(Index(tmp_path / "vectors.db"), query) == seq


def test_a_text_without_tokens_and_an_empty_index_are_no_error(tmp_path: Path) -> None:
    index = Index(tmp_path / "vectors.db")
    assert index.nearest("", "tea", ()).own == {}
    index.add("", "s-1", [line("s-1", 2, "")], last=2, size=10)
    assert np.isfinite(list(index.nearest("", "", ()).own.values())).all()


def test_what_another_process_takes_in_is_seen_and_nothing_is_there_twice(tmp_path: Path) -> None:
    one, other = Index(tmp_path / "vectors.db"), Index(tmp_path / "vectors.db")
    assert best(one, PUPPY) == 0
    one.add("", "s-1", [line("s-1", 2, DOG)], last=2, size=10)
    assert best(other, PUPPY) == 2
    other.add("", "s-1", [line("s-1", 2, DOG)], last=2, size=10)
    assert len(one.nearest("", PUPPY, ()).own) == 1
    other.add("", "s-1", [line("s-1", 3, WEDDING)], last=3, size=20)
    assert len(one.nearest("", PUPPY, ()).own) == 2
    assert one.places("") == {"s-1": (3, 20)}
    other.drop(["s-1"])
    assert one.nearest("", PUPPY, ()).own == {}


def test_nobody_is_near_to_what_another_person_said(tmp_path: Path) -> None:
    index = filled(tmp_path / "vectors.db", who="anna")
    assert index.nearest("", PUPPY, [("s-1", 2)]).own == {}
    assert index.nearest("ben", PUPPY, [("s-1", 2)]).own == {}
    assert best(index, PUPPY, "anna") == 2
    assert index.places("ben") == {}


@pytest.mark.parametrize("damage", [b"no database at all" * 400, b""])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "vectors.db"
    index = filled(path)
    assert best(index, PUPPY) == 2
    path.write_bytes(damage)
    assert Index(path).places("") == {}
    assert best(filled(path), PUPPY) == 2


def test_rows_that_are_damaged_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    index = filled(path)
    index._do(lambda database: database.execute("UPDATE chunks SET vectors = x'00'"), writes=True)
    again = Index(path)
    assert again.nearest("", PUPPY, ()).own == {}
    assert again.places("") == {}


def test_a_message_counts_with_those_beside_it_in_its_own_session_only(tmp_path: Path) -> None:
    index = Index(tmp_path / "vectors.db")
    for session in ("a", "b"):
        index.add("", session, [line(session, 2, DOG), line(session, 3, SERVER)], last=3, size=1)
    index.add("", "c", [line("c", 2, SERVER)], last=2, size=1)
    found = index.nearest("", PUPPY, [("a", 3), ("b", 3), ("c", 2)])
    assert found.around["a", 3] == pytest.approx(found.around["b", 3])
    assert found.around["a", 3] > found.around["c", 2]
    assert found.own["a", 3] == pytest.approx(found.own["c", 2])


# ---- in a store


Test = Callable[[Store, Callable[[str], VectorMemory]], Coroutine[Any, Any, None]]


def within(folder: Path, test: Test) -> None:
    async def main() -> None:
        store = open_store(folder / "state", clock=ManualClock(AT))

        def made(who: str) -> VectorMemory:
            return VectorMemory(ProviderStart(folder=str(folder), past=PersonsPast(store, who)))

        try:
            await test(store, made)
        finally:
            await store.aclose()

    asyncio.run(main())


async def said(store: Store, *texts: str, owner: str = "", id: str = "") -> SessionRef:
    facts: Sequence[Fact] = [
        Opened(at=AT, owner=owner, source="cli"),
        *(Said(at=AT, message=user(one)) for one in texts),
    ]
    return await store.add(facts, id=id)


async def opened(provider: VectorMemory, who: str = "", session: str = "s-now") -> VectorMemory:
    await provider.open(session=session, who=who, home="", surface="cli", cwd="/")
    await provider.queue_prefetch("")
    return provider


def snippets(hits: Sequence[Hit]) -> list[str]:
    return [hit.snippet for hit in hits]


def test_a_message_recalls_what_bears_on_it_and_small_talk_recalls_nothing(tmp_path: Path) -> None:
    async def main(store: Store, made: Callable[[str], VectorMemory]) -> None:
        await said(store, *TEXTS, id="s-1")
        provider = await opened(made(""))
        found = await provider.prefetch(PUPPY)
        assert [one.text for one in found] == [DOG]
        assert found[0].about == {"session": "s-1", "seq": 2}
        for small in ("ok", "yes", "", "?!"):
            assert not await provider.prefetch(small), small
        assert [one.text for one in await provider.prefetch("What is the name of the dog called Bruno?")] == [DOG]

    within(tmp_path, main)


def test_the_same_question_and_the_same_answer_twice_are_not_brought(tmp_path: Path) -> None:
    async def main(store: Store, made: Callable[[str], VectorMemory]) -> None:
        for number, texts in enumerate(((PUPPY,), (DOG,), (DOG, PUPPY))):
            await said(store, *texts, id=f"s-{number}")
        provider = await opened(made(""))
        assert [one.text for one in await provider.prefetch(f" {PUPPY}")] == [DOG]

    within(tmp_path, main)


def test_nobody_recalls_what_another_person_said_not_even_the_local_one(tmp_path: Path) -> None:
    async def main(store: Store, made: Callable[[str], VectorMemory]) -> None:
        await said(store, DOG, owner="anna", id="s-anna")
        await said(store, WEDDING, owner="", id="s-local")
        for who, texts in (("anna", [DOG]), ("ben", []), ("", [])):
            provider = await opened(made(who), who)
            assert [one.text for one in await provider.prefetch(PUPPY)] == texts
            assert bool(await provider.prefetch("What is the dog called Bruno doing?")) == (who == "anna")

    within(tmp_path, main)


def test_what_was_deleted_is_forgotten_and_what_was_added_is_taken_in(tmp_path: Path) -> None:
    async def main(store: Store, made: Callable[[str], VectorMemory]) -> None:
        ref = await said(store, DOG, id="s-1")
        provider = await opened(made(""))
        assert await provider.prefetch(PUPPY)
        async with store.claim(ref) as session:
            await session.append(user(WEDDING))
        await provider.queue_prefetch("")
        assert [one.text for one in await provider.prefetch("Where does my sibling have her wedding?")] == [WEDDING]
        await store.delete(ref)
        await provider.queue_prefetch("")
        assert not await provider.prefetch(PUPPY)
        assert b"Bruno" not in (tmp_path / "vectors.db").read_bytes()

    within(tmp_path, main)


def test_a_search_is_ordered_by_both_and_finds_what_has_none_of_the_words(tmp_path: Path) -> None:
    async def main(store: Store, made: Callable[[str], VectorMemory]) -> None:
        await said(store, *TEXTS, id="s-1")
        provider = await opened(made(""))

        async def ranked(query: Query) -> list[str]:
            return snippets(first_of(await provider.rank(query, await store.search(query)), query))

        assert await ranked(Query(text="name of the puppy")) == [DOG]
        assert (await ranked(Query(text="staging server")))[0] == SERVER
        assert await ranked(Query(text='"name of the puppy"')) == []
        assert await ranked(Query(text="name of the puppy", roles=("assistant",))) == []
        assert await ranked(Query(text="puppy", which=Which(without="s-1"))) == []
        assert await ranked(Query(text="puppy", which=Which(session="s-2"))) == []

    within(tmp_path, main)


def test_a_turn_that_is_over_is_taken_in_for_the_other_conversations(tmp_path: Path) -> None:
    async def main(store: Store, made: Callable[[str], VectorMemory]) -> None:
        ref = await said(store, WEDDING, id="s-1")
        one = await opened(made(""), session="s-1")
        other = await opened(made(""), session="s-2")
        async with store.claim(ref) as session:
            await session.append(user(DOG))
        assert not await other.prefetch(PUPPY)
        await one.sync_turn(DOG, "A fine name.")
        assert [found.text for found in await other.prefetch(PUPPY)] == [DOG]
        await one.queue_prefetch("")
        assert len(one._index.nearest("", PUPPY, ()).own) == 2

    within(tmp_path, main)


def test_a_conversation_does_not_recall_itself(tmp_path: Path) -> None:
    async def main(store: Store, made: Callable[[str], VectorMemory]) -> None:
        await said(store, *TEXTS, id="s-1")
        provider = await opened(made(""), session="s-1")
        assert not await provider.prefetch(PUPPY)

    within(tmp_path, main)


def test_without_the_package_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(_: Store, made: Callable[[str], VectorMemory]) -> None:
        monkeypatch.setattr(vectors, "PACKAGE", "no_such_package_at_all")
        assert 'pip install "melete[vectors]"' in made("").available()

    within(tmp_path, main)
