"""session_search: discover, scroll and browse, narrowed and bounded, and never another owner's sessions."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.core.event import Fact, Opened, Reply, RunStarted, Said, ToolEnded, ToolStarted
from melete.core.message import Message, Text, ToolCall, ToolResult, user
from melete.core.session import SessionRef
from melete.core.tool import ToolError
from melete.tools.sessions import BESIDE, LONGEST, MOST, session_search
from tests.unit.tools.context import Context, call, within

Test = Callable[[Context], Awaitable[None]]


@pytest.fixture(params=["files", "memory"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Test], None]:
    """Run a test with sessions of each kind of store."""
    return lambda test: within(tmp_path, test, on_files=request.param == "files")


async def past(ctx: Context, title: str, *texts: str, owner: str = "me", **opened: Any) -> SessionRef:
    """A session in which the texts were said in turn by the person and the model."""
    ref = await ctx.store.create(Opened(title=title, owner=owner, **opened))
    async with ctx.store.claim(ref) as session:
        await session.record(*(answer(text) if number % 2 else ask(text) for number, text in enumerate(texts)))
    return ref


def ask(text: str) -> Fact:
    return Said(message=user(text))


def answer(text: str) -> Fact:
    return Reply(message=Message(role="assistant", parts=(Text(text=text),)))


async def found(ctx: Context, **arguments: Any) -> list[dict[str, Any]]:
    return (await call(session_search, ctx, **arguments))["sessions"]


def test_browsing_shows_the_latest_but_not_this_one(run: Callable[[Test], None]) -> None:
    async def test(ctx: Context) -> None:
        first = await past(ctx, "first", "about rivers", source="cli", cwd="/a")
        second = await past(ctx, "", "about  bridges\nand fords")
        await past(ctx, "theirs", "about secrets", owner="they")
        newest, older = await found(ctx)
        assert (newest["session_id"], newest["begins"]) == (second.id, "about bridges and fords")
        assert (older["session_id"], older["title"], older["cwd"]) == (first.id, "first", "/a")
        assert older["messages"] == 1
        assert len(await found(ctx, limit=1)) == 1

    run(test)


def test_browsing_puts_sessions_that_nobody_talked_in_last(run: Callable[[Test], None]) -> None:
    async def test(ctx: Context) -> None:
        mine = await past(ctx, "mine", "hello")
        child = await past(ctx, "child", "go", parent=mine.id)
        timed = await past(ctx, "timed", "tick", source="cron")
        assert [row["session_id"] for row in await found(ctx)] == [mine.id, timed.id, child.id]
        assert [row["session_id"] for row in await found(ctx, limit=1)] == [mine.id]

    run(test)


def test_a_query_finds_messages_with_what_stands_beside_them(run: Callable[[Test], None]) -> None:
    async def test(ctx: Context) -> None:
        ref = await past(ctx, "rivers", "before", "the danube is long", "after")
        await past(ctx, "theirs", "the danube is ours", owner="they")
        (session,) = await found(ctx, query="danube")
        assert (session["session_id"], session["title"]) == (ref.id, "rivers")
        (hit,) = session["hits"]
        assert "danube" in hit["snippet"]
        assert (hit["role"], hit["before"], hit["after"]) == ("assistant", "user: before", "user: after")
        scrolled = await call(session_search, ctx, session_id=ref.id, around=hit["seq"])
        assert [line["text"] for line in scrolled["messages"]] == ["before", "the danube is long", "after"]
        assert scrolled["title"] == "rivers"

    run(test)


def test_results_of_tools_are_no_neighbours(run: Callable[[Test], None]) -> None:
    async def test(ctx: Context) -> None:
        ref = await ctx.store.create(Opened(owner="me"))
        async with ctx.store.claim(ref) as session:
            wish = ToolCall(id="c", name="terminal", arguments='{"command": "ls"}')
            await session.record(
                ask("list it"),
                Reply(message=Message(role="assistant", parts=(wish,))),
                ToolStarted(call=wish),
                ToolEnded(result=ToolResult(call="c", name="terminal", content='{"output": "x"}')),
                answer("there is a lighthouse"),
            )
        ((hit,),) = [session["hits"] for session in await found(ctx, query="lighthouse")]
        assert hit["before"] == 'assistant: terminal({"command": "ls"})'

    run(test)


def test_nothing_found_is_told_with_what_to_do(run: Callable[[Test], None]) -> None:
    async def test(ctx: Context) -> None:
        result = await call(session_search, ctx, query="zanzibar")
        assert result["sessions"] == []
        assert "other or fewer words" in result["hint"]

    run(test)


def test_the_conversation_that_asks_is_found_only_by_its_id(run: Callable[[Test], None]) -> None:
    async def test(ctx: Context) -> None:
        await ctx.session.record(ask("where is the lighthouse?"))
        assert await found(ctx, query="lighthouse") == []
        me = ctx.session.ref.id
        (session,) = await found(ctx, query="lighthouse", session_id=me)
        assert session["session_id"] == me
        scrolled = await call(session_search, ctx, session_id=me)
        assert [line["text"] for line in scrolled["messages"]] == ["where is the lighthouse?"]

    run(test)


def test_a_fork_of_the_conversation_that_asks_is_left_out_as_well(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        await past(ctx, "a fork", "the lighthouse", forked_from=ctx.session.ref.id)
        assert await found(ctx, query="lighthouse") == []
        assert await found(ctx) == []

    within(tmp_path, test, on_files=True)


def test_a_chain_of_sessions_is_one_result(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        first = await past(ctx, "first", "a lighthouse on a hill", "yes")
        await past(ctx, "fork", "another lighthouse by the sea", "no", forked_from=first.id)
        (chain,) = await found(ctx, query="lighthouse")
        assert len(chain["hits"]) == 2
        assert len({hit.get("session_id", chain["session_id"]) for hit in chain["hits"]}) == 2

    within(tmp_path, test, on_files=True)


def test_a_search_is_narrowed(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        here = await past(ctx, "here", "a lighthouse", "a lighthouse, too", cwd=f"{tmp_path}/sub", source="cli")
        there = await past(ctx, "there", "no lighthouse", cwd=f"{tmp_path}-other", source="cron")
        for filters, wanted in (
            ({"cwd": "."}, [here.id]),
            ({"cwd": "sub"}, [here.id]),
            ({"cwd": str(tmp_path)}, [here.id]),
            ({"source": "cron"}, [there.id]),
            ({"role": "assistant"}, [here.id]),
            ({"session_id": there.id}, [there.id]),
            ({"since": "1d", "sort": "oldest"}, [here.id, there.id]),
            ({"sort": "newest", "role": "user"}, [there.id, here.id]),
            ({"until": "1d"}, []),
            ({"until": "2025-01-01"}, []),
            ({"tool": "terminal"}, []),
        ):
            rows = await found(ctx, query="lighthouse", **filters)
            assert [row["session_id"] for row in rows] == wanted, filters
        assert {hit["role"] for row in await found(ctx, query="lighthouse", role="user") for hit in row["hits"]} == {
            "user"
        }

    within(tmp_path, test, on_files=True)


def test_times_are_counted_from_the_beginning_of_the_run(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        await past(ctx, "old", "a lighthouse")
        await ctx.session.record(RunStarted(model="m"))
        assert len(await found(ctx, query="lighthouse", since="1h")) == 1
        assert await found(ctx, query="lighthouse", since="0s") == []

    within(tmp_path, test, on_files=True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"query": "x", "since": "soon"}, "2026-01-31"),
        ({"query": "x", "role": "system"}, "user, assistant, tool"),
        ({"query": "x", "around": 3}, "session_id"),
        ({"around": 3}, "session_id"),
        ({"session_id": "nowhere"}, "without arguments"),
        ({"query": "x", "session_id": "nowhere"}, "without arguments"),
    ],
)
def test_bad_arguments_are_told_with_what_to_do(tmp_path: Path, arguments: dict[str, Any], told: str) -> None:
    async def test(ctx: Context) -> None:
        with pytest.raises(ToolError, match=told):
            await call(session_search, ctx, **arguments)

    within(tmp_path, test)


def test_scrolling_goes_on_in_both_directions_and_from_the_end(run: Callable[[Test], None]) -> None:
    async def test(ctx: Context) -> None:
        ref = await past(ctx, "long", *(f"message {number}" for number in range(30)))
        begin = await call(session_search, ctx, session_id=ref.id)
        seen = [line["text"] for line in begin["messages"]]
        assert "earlier" not in begin
        while "later" in begin:
            begin = await call(session_search, ctx, session_id=ref.id, around=begin["later"])
            seen += [line["text"] for line in begin["messages"] if line["text"] not in seen]
        assert seen == [f"message {number}" for number in range(30)]
        end = await call(session_search, ctx, session_id="long", around=-1)
        assert end["messages"][-1]["text"] == "message 29"
        assert "later" not in end
        assert end["earlier"] == end["messages"][0]["seq"]

    run(test)


def test_another_owners_session_cannot_be_reached(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        theirs = await past(ctx, "their title", "their lighthouse secret", owner="they")
        for name in (theirs.id, theirs.id[:-2], "their title"):
            with pytest.raises(ToolError, match="no session"):
                await call(session_search, ctx, session_id=name)
            with pytest.raises(ToolError, match="no session"):
                await call(session_search, ctx, session_id=name, query="lighthouse")
        for arguments in ({}, {"query": "lighthouse secret"}, {"query": "their title"}, {"query": theirs.id}):
            assert await found(ctx, limit=20, **arguments) == []
        mine = await past(ctx, "mine", "my lighthouse", forked_from=theirs.id)
        (row,) = await found(ctx, query="lighthouse")
        assert row["session_id"] == mine.id
        assert [hit.get("session_id", mine.id) for hit in row["hits"]] == [mine.id]

    for on_files in (True, False):
        within(tmp_path, test, on_files=on_files)


def test_the_person_whose_home_it_is_sees_all(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        theirs = await past(ctx, "theirs", "a lighthouse", owner="they")
        assert [row["session_id"] for row in await found(ctx, query="lighthouse")] == [theirs.id]
        assert (await call(session_search, ctx, session_id=theirs.id))["session_id"] == theirs.id

    within(tmp_path, test, on_files=True, owner="")


def test_whatever_was_said_results_stay_small(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        for number in range(MOST + 5):
            await past(ctx, "t" * 200, *("lighthouse " + "x" * 50_000 for _ in range(4)), cwd=f"/{number}")
        assert len(msgspec.json.encode(await call(session_search, ctx, query="lighthouse", limit=1_000))) < 50_000
        assert len(msgspec.json.encode(await call(session_search, ctx, query="lighthouse"))) < 8_000
        assert len(msgspec.json.encode(await call(session_search, ctx, limit=1_000))) < 50_000
        ref = await past(ctx, "long", *("y" * 50_000 for _ in range(30)))
        scrolled = await call(session_search, ctx, session_id=ref.id, around=10)
        assert scrolled["messages"][5]["text"] == "y" * LONGEST + "… [50000 characters]"
        assert scrolled["messages"][0]["text"] == "y" * BESIDE + "… [50000 characters]"
        assert len(msgspec.json.encode(scrolled)) < 15_000

    within(tmp_path, test, on_files=True)


@given(query=st.text(max_size=60), around=st.integers(-3, 1 << 70), name=st.text(max_size=20))
def test_any_text_is_a_valid_query_and_any_other_value_an_error_for_the_model(
    tmp_path_factory: pytest.TempPathFactory, query: str, around: int, name: str
) -> None:
    async def test(ctx: Context) -> None:
        await past(ctx, "some", "words", "more words")
        assert (await call(session_search, ctx, query=query))["success"]
        for arguments in ({"session_id": name}, {"around": around, "session_id": "some"}, {"since": name}):
            with suppress(ToolError, msgspec.ValidationError):
                assert (await call(session_search, ctx, **arguments))["success"]

    within(tmp_path_factory.mktemp("any"), test)
