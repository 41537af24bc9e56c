"""A session that is deleted leaves nothing of what was said in the bytes of the index."""

from pathlib import Path

from melete.core.session import Query
from melete.store.index import SearchIndex
from melete.store.search import find
from melete.store.sqlite import Database
from tests.unit.store.searched import Searched


def everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("search.db*")))


def test_nothing_that_was_said_is_left(tmp_path: Path) -> None:
    given = Searched()
    for number in range(12):
        given.add(f"s-{number}", *(f"the quagga {number} and {turn} others" for turn in range(20)))
    given.add("secret", *(f"my zanzibar-{turn} password is xylophone{turn}" for turn in range(20)))
    database = Database(tmp_path / "search.db", schema="search")
    index = SearchIndex()
    for session, facts in given.facts.items():
        with database.write() as connection:
            index.take(connection, session, facts[:9])
            index.take(connection, session, facts[9:])
    secret = "SELECT blocks.id FROM blocks JOIN sessions ON number = session WHERE sessions.id = 'secret'"
    columns = f"SELECT body, signs, entries FROM texts JOIN heads USING (block) WHERE block IN ({secret})"
    stored = [bytes(value) for row in database.read(columns) for value in row]
    assert len(stored) == 9
    database.checkpoint("TRUNCATE")
    assert all(value in everything(tmp_path) for value in stored if len(value) < 500)
    with database.write() as connection:
        index.forget(connection, "secret")
    assert find(database, Query(text="zanzibar password")) == []
    assert len(find(database, Query(text="quagga", limit=300))) == 240
    assert database.checkpoint("TRUNCATE")
    left = everything(tmp_path)
    assert not any(value[:60] in left for value in stored)
    assert not any(word in left for word in (b"zanzibar", b"xylophone", b"secret"))
    database.close()


def test_a_session_that_comes_back_is_as_it_was() -> None:
    index = Searched()
    for number in range(5):
        index.add(f"s-{number}", *(f"heron {turn}" for turn in range(11)))
    before = index.hits("heron", limit=99)
    facts = index.facts["s-2"]
    index.forget("s-2")
    assert {hit.session for hit in index.hits("heron", limit=99)} == {"s-0", "s-1", "s-3", "s-4"}
    with index.database.write() as connection:
        index.index.take(connection, "s-2", facts)
    assert {(hit.session, hit.seq) for hit in index.hits("heron", limit=99)} == {
        (hit.session, hit.seq) for hit in before
    }
    with index.database.write() as connection:
        index.index.forget(connection, "nobody")
        connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
