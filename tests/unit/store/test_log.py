"""The log on the disk: any prefix resumes, damage is told and set aside, a full disk takes nothing away."""

import asyncio
import os
import resource
import stat
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from melete.core.errors import SessionNotFoundError, StorageError, StoreError
from melete.core.event import Fact, Notice, Opened, Reply, Said
from melete.core.message import Message, Text, Wire, user
from melete.core.session import Query, SessionRef, Store
from melete.store import open_store, record
from melete.store.log import is_locked
from tests.unit.store.given import SetClock, note, opened_store, turn, with_turns

REF = SessionRef(id="s-1")


def log_of(folder: Path) -> Path:
    return folder / "state" / "sessions" / "s-1.log"


def made(folder: Path, turns: int = 1) -> tuple[Path, list[Fact]]:
    """A log of one session and its facts."""

    async def main() -> list[Fact]:
        store = opened_store(folder)
        await with_turns(store, turns, id="s-1")
        return list(await store.facts(REF))

    facts = asyncio.run(main())
    return log_of(folder), facts


def claimed(folder: Path) -> list[Fact]:
    """The facts after the session was claimed once."""

    async def main() -> list[Fact]:
        store = opened_store(folder)
        async with store.claim(REF) as session:
            await session.append(user("after"))
        return list(await store.facts(REF))

    return asyncio.run(main())


def read(folder: Path) -> list[Fact]:
    return list(asyncio.run(opened_store(folder).facts(REF)))


def test_every_prefix_of_a_log_resumes_without_losing_a_whole_record(tmp_path: Path) -> None:
    log, facts = made(tmp_path)
    data = log.read_bytes()
    first = data.index(b"\n")
    for cut in range(len(data) + 1):
        log.write_bytes(data[:cut])
        log.with_suffix(".damaged").unlink(missing_ok=True)
        whole = data[:cut].count(b"\n")
        if cut <= first - 1:
            with pytest.raises(SessionNotFoundError):
                claimed(tmp_path)
            continue
        after = claimed(tmp_path)
        lacks_only_its_line_break = data[cut : cut + 1] == b"\n"
        kept = whole + (1 if lacks_only_its_line_break else 0)
        assert after[:kept] == facts[:kept], cut
        notices = [fact for fact in after[kept:] if isinstance(fact, Notice)]
        torn = not lacks_only_its_line_break and not data[:cut].endswith(b"\n")
        assert len(notices) == torn, cut
        assert isinstance(after[-1], Said)
        assert [fact.seq for fact in after] == list(range(1, len(after) + 1))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.text(), st.binary(max_size=40)), min_size=1, max_size=5))
def test_whatever_was_said_is_read_back_equal(said: list[tuple[str, bytes]]) -> None:
    start = record.seed("s-1")
    facts: list[Fact] = []
    data = b""
    for number, (text, raw) in enumerate(said, 1):
        body = msgspec.Raw(b"{\n  " + msgspec.json.encode("raw") + b": " + msgspec.json.encode(raw) + b"\r\n}")
        message = Message(role="assistant", parts=(Text(text=text),), wire=Wire(name="w", body=body))
        fact = Reply(message=message, seq=number, session="s-1")
        facts.append(fact)
        data += record.line(record.encode_fact(fact), start)
    found = record.scan(data, start)
    assert (len(found.records), found.damage, found.tail) == (len(facts), [], b"")
    assert [record.decode_fact(entry.body, "s-1") for entry in found.records] == facts


def test_a_bad_record_in_the_middle_is_set_aside_once_and_the_rest_stays(tmp_path: Path) -> None:
    log, facts = made(tmp_path)
    lines = log.read_bytes().splitlines(keepends=True)
    broken = bytearray(lines[4])
    broken[30] ^= 0x20
    lines[4] = bytes(broken)
    log.write_bytes(b"".join(lines))
    assert read(tmp_path) == facts[:4] + facts[5:]
    after = claimed(tmp_path)
    texts = [fact.text for fact in after if isinstance(fact, Notice)]
    assert len(texts) == 2
    assert "a bad record in the middle" in texts[0]
    assert "a gap: fact 5" in texts[1]
    aside = log.with_suffix(".damaged")
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    before = aside.read_bytes()
    again = claimed(tmp_path)
    assert len([fact for fact in again if isinstance(fact, Notice)]) == 2
    assert aside.read_bytes() == before
    problems = asyncio.run(opened_store(tmp_path).verify())
    assert {problem.kept for problem in problems} == {str(aside)}
    assert not all(problem.harmless for problem in problems)


def test_a_record_copied_from_another_log_does_not_count(tmp_path: Path) -> None:
    log, facts = made(tmp_path)
    start = record.seed("s-2")
    foreign = record.line(record.encode_fact(Said(message=user("smuggled"), seq=11)), start)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:3], foreign, *lines[3:]]))
    assert read(tmp_path) == facts


def test_facts_of_a_newer_version_are_kept_and_skipped(tmp_path: Path) -> None:
    log, facts = made(tmp_path)
    body = b'{"type":"dreamed","seq":11,"about":["sheep"]}'
    with log.open("ab") as file:
        file.write(record.line(body, record.seed("s-1")))
    assert read(tmp_path) == facts
    after = claimed(tmp_path)
    assert [fact.seq for fact in after][-2:] == [10, 12]
    assert body in log.read_bytes()
    assert not asyncio.run(opened_store(tmp_path).verify())


def test_a_log_without_one_readable_record_is_left_alone(tmp_path: Path) -> None:
    log, _ = made(tmp_path)
    other = log.with_name("s-9.log")
    log.rename(other)
    data = other.read_bytes()
    store = opened_store(tmp_path)

    async def main() -> None:
        with pytest.raises(SessionNotFoundError):
            await store.facts(SessionRef(id="s-9"))
        with pytest.raises(StoreError, match="no readable record"):
            async with store.claim(SessionRef(id="s-9")):
                pass
        (problem,) = await store.verify()
        assert "no whole record" in problem.what
        assert not problem.harmless

    asyncio.run(main())
    assert other.read_bytes() == data


def test_a_write_that_does_not_fit_leaves_no_trace_and_the_session_goes_on(tmp_path: Path) -> None:
    made(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    published: list[Fact] = []
    store = open_store(tmp_path / "state", clock=SetClock(), on_fact=lambda _, fact: published.append(fact))

    async def main() -> None:
        async with store.claim(REF) as session:
            size = log_of(tmp_path).stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
            try:
                with pytest.raises(StorageError, match=r"10 facts before are kept.*ulimit"):
                    await session.record(*turn(1), durable=True)
                with pytest.raises(StorageError, match="nothing was sent"):
                    await store.send(REF, note("m-1", text="x" * size * 2))
                with pytest.raises(StorageError):
                    await store.spill(REF, "c1", "x" * size * 2)
                with pytest.raises(StorageError):
                    await store.create(Opened(title="x" * size * 2))
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            assert log_of(tmp_path).stat().st_size == size
            assert session.transcript.seq == 10
            assert not published
            assert not list((tmp_path / "state").rglob("*.new"))
            assert [path.name for path in log_of(tmp_path).parent.glob("*.log")] == [log_of(tmp_path).name]
            await session.append(user("there is room again"))
        assert [fact.seq for fact in await store.facts(REF)] == list(range(1, 12))

    asyncio.run(main())


def test_files_are_private_and_made_only_when_needed(tmp_path: Path) -> None:
    state = tmp_path / "state"

    async def main() -> None:
        store = opened_store(tmp_path)
        assert not await store.verify()
        assert await store.latest() is None
        assert not state.exists()
        await with_turns(store, id="s-1")
        await store.send(REF, note("m-1"))
        path = await store.spill(REF, "../../c 1", "text\udcff")
        assert Path(path).parent == state / "spill" / "s-1"
        assert Path(path).read_text() == "text?"
        await store.list()
        await store.search(Query(text="x"))
        await store.aclose()

    asyncio.run(main())
    for path in [state, *state.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_a_file_that_is_no_message_is_set_aside(tmp_path: Path) -> None:
    log, _ = made(tmp_path)
    inbox = log.with_suffix(".inbox")
    inbox.mkdir()
    (inbox / "bad.json").write_bytes(b"{")
    (inbox / "renamed.json").write_bytes(msgspec.json.encode(note("m-9")))
    (inbox / ".m-2.json.1-aa.new").write_bytes(b"half")
    (inbox / "folder.json").mkdir()
    (inbox / "deep.json").write_bytes(b"[" * 9000)
    os.mkfifo(inbox / "pipe.json")
    (inbox / "circle.json").symlink_to("circle.json")

    async def main() -> None:
        store = opened_store(tmp_path)
        async with store.claim(REF) as session:
            assert not session.pending()
            await store.send(REF, note("m-1"), wait=0)
            assert [message.id for message in session.pending()] == ["m-1"]
        assert len(await store.verify()) == 6

    asyncio.run(main())


@pytest.mark.parametrize("what", ["pipe", "folder", "device", "circle"])
def test_what_is_no_file_stands_in_the_place_of_a_log(tmp_path: Path, what: str) -> None:
    log, _ = made(tmp_path)
    stranger = log.with_name("stranger.log")
    put_in_place(stranger, what)

    async def main() -> None:
        store, ref = opened_store(tmp_path), SessionRef(id="stranger")
        assert [info.id for info in await store.list()] == [REF.id]
        assert [problem.path for problem in await store.verify()] == [str(stranger)]
        for act in (store.facts, store.delete):
            with pytest.raises((StorageError, SessionNotFoundError)):
                await act(ref)
        with pytest.raises(StorageError):
            async with store.claim(ref):
                pass
        await store.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("what", ["pipe", "folder", "device", "circle"])
def test_a_session_is_deleted_whatever_stands_beside_its_log(tmp_path: Path, what: str) -> None:
    log, _ = made(tmp_path)
    put_in_place(log.with_suffix(".inbox"), what)
    put_in_place(log.with_suffix(".damaged"), what)

    async def main() -> None:
        store = opened_store(tmp_path)
        await store.delete(REF)
        with pytest.raises(SessionNotFoundError):
            await store.facts(REF)

    asyncio.run(main())
    assert [path.name for path in log.parent.iterdir()] == []


def put_in_place(path: Path, what: str) -> None:
    match what:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
        case _:
            path.symlink_to(path.name)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_log_that_is_taken_away_from_its_owner_is_told_at_the_next_durable_fact(
    tmp_path: Path, replaced: bool
) -> None:
    log, _ = made(tmp_path)

    async def main() -> None:
        store = opened_store(tmp_path)
        async with store.claim(REF) as session:
            copy = log.read_bytes()
            log.unlink()
            if replaced:
                log.write_bytes(copy)
            with pytest.raises(StorageError, match="removed or replaced"):
                await session.record(Said(message=user("Is this kept?")), durable=True)
            with pytest.raises(StorageError):
                await session.record(Notice(text="this neither"))
            assert session.transcript.seq == 10
        assert not replaced or log.read_bytes() == copy

    asyncio.run(main())


def test_a_message_to_a_session_that_is_deleted_meanwhile_leaves_nothing(tmp_path: Path) -> None:
    log, _ = made(tmp_path)

    async def main() -> None:
        store = opened_store(tmp_path)
        async with store.claim(REF), asyncio.TaskGroup() as group:
            sending = group.create_task(refused_message(store))
            while not list(log.parent.glob("*.inbox/m-1.json")):  # noqa: ASYNC110 - the file system sets no Event
                await asyncio.sleep(0.01)
            log.unlink()
            await sending

    async def refused_message(store: Store) -> None:
        with pytest.raises(SessionNotFoundError):
            await store.send(REF, note("m-1"), wait=30)

    asyncio.run(main())
    assert [path.name for path in log.parent.iterdir()] == []


def test_a_claim_outlives_those_who_only_look(tmp_path: Path) -> None:
    log, _ = made(tmp_path)

    async def main() -> None:
        store = opened_store(tmp_path)
        stop = asyncio.Event()
        seen: set[bool] = set()

        async def look() -> None:
            while not stop.is_set():
                seen.add(is_locked(log))
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            group.create_task(look())
            for _ in range(50):
                async with store.claim(REF):
                    await asyncio.sleep(0)
            stop.set()
        assert True in seen

    asyncio.run(main())


def test_a_log_that_was_replaced_between_open_and_lock_is_not_taken(tmp_path: Path) -> None:
    log, _ = made(tmp_path)

    async def main() -> None:
        store = opened_store(tmp_path)
        async with store.claim(REF) as session:
            log.replace(tmp_path / "elsewhere")
            await session.append(user("into the deleted file"))
            ref = await store.create(Opened(), id="s-1")
            async with store.claim(ref) as anew:
                assert not anew.messages

    asyncio.run(main())
