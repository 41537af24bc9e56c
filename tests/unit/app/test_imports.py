"""Imports: everything that makes sense comes in, what does not is told, and nothing that is here is touched."""

import asyncio
import gzip
import io
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.unit.store.given import START

from melete import load
from melete.app.imports import Import, Imported
from melete.app.pile import Pile
from melete.app.wire import Melete, open_melete
from melete.core.errors import StoreError
from melete.core.event import Notice, Opened, Reply, Said
from melete.core.message import Message, Text, user
from melete.core.session import SessionRef
from melete.store.exchange import written

Work = Callable[[Melete], Awaitable[None]]


def with_app(home: Path, work: Work) -> None:
    async def main() -> None:
        loaded = load(environ={"HOME": str(home), "PATH": os.environ["PATH"]})
        async with open_melete(loaded) as app:
            await work(app)

    asyncio.run(main())


async def take(app: Melete, data: bytes, *, strict: bool = False, held: int | None = None) -> Imported:
    job = Import(app, held=held)
    await job.take(io.BufferedReader(io.BytesIO(data)), strict=strict)
    return job.result


def rows(*pairs: tuple[str, str]) -> bytes:
    fields = [{"session": name, "role": "user", "content": text} for name, text in pairs]
    return b"".join(msgspec.json.encode(row) + b"\n" for row in fields)


async def said(app: Melete, session: str) -> list[str]:
    facts = await app.store.facts(SessionRef(id=session))
    return [fact.message.text for fact in facts if isinstance(fact, Said | Reply)]


def exported(session: str = "s-1", *texts: str) -> bytes:
    facts = [Opened(seq=1, at=START, title="Trip")]
    more = [Said(seq=number, at=START, message=user(text)) for number, text in enumerate(texts, 2)]
    return b"".join(written([*facts, *more], session, redact=None, version="1", now=START))


@pytest.mark.parametrize("held", [None, 200, 0])
def test_rows_of_a_session_may_stand_anywhere(tmp_path: Path, held: int | None) -> None:
    pairs = [(f"conv-{number % 7}", f"message {number}") for number in range(100)]

    async def work(app: Melete) -> None:
        result = await take(app, rows(*pairs), held=held)
        assert (result.sessions, result.messages, result.bad, result.whole) == (7, 100, 0, True)
        for number in range(7):
            assert await said(app, f"conv-{number}") == [f"message {index}" for index in range(number, 100, 7)]
        assert not [path for path in (tmp_path / ".melete" / "state").iterdir() if path.is_file()]

    with_app(tmp_path, work)


def test_a_pile_gives_back_what_was_put_on_it_in_its_order(tmp_path: Path) -> None:
    def name_of(line: bytes) -> str:
        return line.split()[0].decode()

    folder = tmp_path / "pile"
    folder.mkdir()
    for held in (0, 50, 10_000):
        with Pile(folder, name_of, held=held) as pile:
            for number in range(300):
                pile.add(f"n{number % 11}", f"n{number % 11} {number}".encode())
            found = {name: [int(line.split()[1]) for line in lines] for name, lines in pile.groups()}
            assert list(pile.groups()) == []
        assert found == {f"n{first}": list(range(first, 300, 11)) for first in range(11)}
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("packed", [False, True])
def test_marks_ends_of_lines_and_packing_make_no_difference(tmp_path: Path, packed: bool) -> None:
    data = b"\xef\xbb\xbf" + rows(("a", "one"), ("a", "two")).replace(b"\n", b"\r\n\r\n").rstrip()

    async def work(app: Melete) -> None:
        result = await take(app, gzip.compress(data) if packed else data)
        assert (result.sessions, result.bad) == (1, 0)
        assert await said(app, "a") == ["one", "two"]

    with_app(tmp_path, work)


def test_a_packed_file_that_breaks_off_gives_what_it_still_holds(tmp_path: Path) -> None:
    data = gzip.compress(os.urandom(20_000).hex().encode().join([rows(("a", "one")), b"\n"]) + rows(("b", "two")))

    async def work(app: Melete) -> None:
        result = await take(app, gzip.compress(rows(("a", "one"))) + data[: len(data) // 2])
        assert (result.sessions, result.bad, result.whole) == (1, 1, False)
        assert "damaged from here on" in result.troubles[-1].reason

    with_app(tmp_path, work)


@pytest.mark.parametrize("nothing", [b"\n", b" \r\n"])
def test_a_packed_file_of_nothing_can_be_stopped_at_any_time(tmp_path: Path, nothing: bytes) -> None:
    async def work(app: Melete) -> None:
        seen: list[int] = []

        def stop(line: int, _sessions: int) -> None:
            seen.append(line)
            if len(seen) == 3:
                task.cancel()

        job = Import(app, on_progress=stop)
        task = asyncio.create_task(job.take(io.BufferedReader(io.BytesIO(gzip.compress(nothing * 100_000)))))
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(seen) == 3
        assert job.result == Imported(seconds=job.result.seconds)

    with_app(tmp_path, work)


def test_bad_lines_are_told_with_their_numbers_and_the_rest_comes_in(tmp_path: Path) -> None:
    data = rows(("a", "one")) + b"nonsense\n\n" + rows(("a", "two")) + b'{"session":"a","role":"user","at":"soon"}\n'

    async def work(app: Melete) -> None:
        result = await take(app, data)
        assert (result.sessions, result.messages, result.bad) == (1, 2, 2)
        assert [trouble.line for trouble in result.troubles] == [2, 5]
        assert await said(app, "a") == ["one", "two"]

    with_app(tmp_path, work)


def test_strict_writes_nothing_when_a_line_is_bad_and_everything_when_none_is(tmp_path: Path) -> None:
    sound = rows(("a", "one")) + exported("s-1", "two") + rows(("b", "three"))

    async def work(app: Melete) -> None:
        for data in (sound + b"nonsense\n", exported("s-1", "two")[:-30], b'{"melete_session":9,"id":"x"}'):
            with pytest.raises(StoreError, match="nothing was written"):
                await take(app, data, strict=True)
            assert not list((tmp_path / ".melete" / "state").glob("sessions/*"))
        result = await take(app, sound, strict=True)
        assert (result.sessions, result.messages) == (3, 3)

    with_app(tmp_path, work)


def test_what_is_here_already_is_skipped_and_what_is_here_otherwise_is_refused(tmp_path: Path) -> None:
    async def work(app: Melete) -> None:
        for data in (rows(("a", "one"), ("a", "two")), exported("s-1", "one", "two")):
            assert (await take(app, data)).sessions == 1
            again = await take(app, data)
            assert (again.sessions, again.skipped, again.whole) == (0, 1, True)
        for data in (rows(("a", "one"), ("a", "other")), exported("s-1", "one", "two", "three")):
            refused = await take(app, data + rows(("new", "x")))
            assert (refused.refused, refused.whole) == (1, False)
            assert "another content" in refused.troubles[0].reason
        assert await said(app, "a") == await said(app, "s-1") == ["one", "two"]

    with_app(tmp_path, work)


def test_a_session_that_went_on_here_is_the_same_session(tmp_path: Path) -> None:
    async def work(app: Melete) -> None:
        await take(app, exported("s-1", "one"))
        async with app.store.claim(SessionRef(id="s-1")) as session:
            await session.append(user("two"))
        assert (await take(app, exported("s-1", "one"))).skipped == 1
        assert await said(app, "s-1") == ["one", "two"]

    with_app(tmp_path, work)


def test_lost_lines_of_an_export_keep_the_numbers_of_the_others(tmp_path: Path) -> None:
    lines = exported("s-1", "one", "two", "three").splitlines(keepends=True)
    broken = [*lines[:2], b'{"type":"message","seq":3', b"\n", lines[4], rows(("a", "x"))]

    async def work(app: Melete) -> None:
        result = await take(app, b"".join(broken))
        assert (result.sessions, result.bad) == (2, 2)
        facts = await app.store.facts(SessionRef(id="s-1"))
        assert [(fact.seq, type(fact)) for fact in facts] == [(1, Opened), (2, Notice), (3, Notice), (4, Said)]
        assert await said(app, "s-1") == ["three"]

    with_app(tmp_path, work)


def test_facts_without_a_header_are_told_and_those_of_a_bad_header_are_told_once(tmp_path: Path) -> None:
    head, *facts = exported("s-1", "one").splitlines(keepends=True)

    async def work(app: Melete) -> None:
        result = await take(app, b"".join(facts))
        assert (result.sessions, result.bad) == (0, 2)
        result = await take(app, head.replace(b"s-1", b"../x") + b"".join(facts) + exported("s-2", "two"))
        assert (result.sessions, result.bad) == (1, 1)

    with_app(tmp_path, work)


def test_a_row_whose_words_are_those_of_an_export_is_a_row(tmp_path: Path) -> None:
    trick = [{"session": "a", "role": "user", "type": "message", "content": '{"melete_session": 1}'}]
    data = exported("s-1", "one") + b"".join(msgspec.json.encode(row) + b"\n" for row in trick)

    async def work(app: Melete) -> None:
        assert (await take(app, data)).whole
        assert await said(app, "a") == ['{"melete_session": 1}']

    with_app(tmp_path, work)


def test_replies_keep_what_the_provider_sent(tmp_path: Path) -> None:
    reply = Reply(seq=2, at=START, message=Message(role="assistant", parts=(Text(text="hi"),)), ref="R1", asked="00ff")
    facts: Sequence[Opened | Reply] = [Opened(seq=1, at=START, about={"model": "acme/m-1"}), reply]

    async def work(app: Melete) -> None:
        await take(app, b"".join(written(facts, "s-1", redact=None, version="1", now=START)))
        stored = await app.store.facts(SessionRef(id="s-1"))
        assert list(stored) == [msgspec.structs.replace(fact, session="s-1") for fact in facts]

    with_app(tmp_path, work)


def test_a_session_from_elsewhere_has_no_say_in_where_commands_run(tmp_path: Path) -> None:
    about = {"env": "local", "folder": "/", "model": "m", "place": "0123456789ab"}
    facts = [Opened(seq=1, at=START, about=about), Said(seq=2, at=START, message=user("hello"))]
    data = b"".join(written(facts, "s-1", redact=None, version="1", now=START))

    async def work(app: Melete) -> None:
        assert (await take(app, data)).sessions == 1
        first, *_ = await app.store.facts(SessionRef(id="s-1"))
        assert isinstance(first, Opened)
        assert first.about == {"model": "m", "place": "0123456789ab"}
        again = await take(app, data)
        assert (again.skipped, again.refused) == (1, 0)

    with_app(tmp_path, work)
