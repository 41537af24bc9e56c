"""session_search: browse, search and scroll, and never another owner's sessions."""

from pathlib import Path

import pytest

from melete.core.event import Opened, Said
from melete.core.message import user
from melete.core.session import SessionRef
from melete.core.tool import ToolError
from melete.tools.sessions import session_search
from tests.unit.tools.context import Context, call, within


async def past(ctx: Context, title: str, *texts: str, owner: str = "me") -> SessionRef:
    ref = await ctx.store.create(Opened(title=title, owner=owner))
    async with ctx.store.claim(ref) as session:
        await session.record(*(Said(message=user(text)) for text in texts))
    return ref


def test_browsing_shows_the_latest_but_not_this_one(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        first = await past(ctx, "first", "about rivers")
        second = await past(ctx, "second", "about bridges")
        await past(ctx, "theirs", "about secrets", owner="they")
        rows = (await call(session_search, ctx))["sessions"]
        assert [row["session_id"] for row in rows] == [second.id, first.id]
        assert rows[0]["title"] == "second"
        assert len((await call(session_search, ctx, limit=1))["sessions"]) == 1

    within(tmp_path, test)


def test_a_query_finds_messages_and_scrolling_shows_what_stands_round_them(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        ref = await past(ctx, "rivers", "before", "the danube is long", "after")
        await past(ctx, "theirs", "the danube is ours", owner="they")
        sessions = (await call(session_search, ctx, query="danube"))["sessions"]
        assert [row["session_id"] for row in sessions] == [ref.id]
        (hit,) = sessions[0]["hits"]
        assert "danube" in hit["snippet"]
        scrolled = await call(session_search, ctx, session_id=ref.id, around=hit["seq"])
        assert [line["text"] for line in scrolled["messages"]] == ["before", "the danube is long", "after"]

    within(tmp_path, test)


def test_another_owners_session_cannot_be_opened(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        theirs = await past(ctx, "theirs", "secret", owner="they")
        with pytest.raises(ToolError, match="no session"):
            await call(session_search, ctx, session_id=theirs.id)

    within(tmp_path, test)


def test_long_messages_are_cut_with_their_length(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        ref = await past(ctx, "long", "x" * 5_000)
        (line,) = (await call(session_search, ctx, session_id=ref.id, around=2))["messages"]
        assert line["text"].endswith("… [5000 characters]")

    within(tmp_path, test)
