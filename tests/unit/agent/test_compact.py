"""What gives way, in which order, and that it happens once."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from melete.agent.compact import LEFT_OUT, Compactor, cut_picture, cut_result
from melete.agent.sizes import PICTURE
from melete.core.event import Compacted, Framed, Reply, ToolEnded
from melete.core.message import Image, Message, Text, ToolCall, ToolResult, Usage, user
from melete.core.session import Session
from tests.bare import Bare, alone

LONG = '{"content":"' + "x" * 3_000 + '"}'


def result(content: str, *images: Image) -> ToolResult:
    return ToolResult(call="c", name="t", content=content, images=images)


async def fill(session: Session, calls: int, *, used: int, image: bool = False) -> None:
    """A conversation of so many calls, each with a long result; the provider counts `used` tokens."""
    await session.record(Framed(system=(), tools=()))
    await session.append(user("Go."))
    images = (Image(data="A" * 100_000),) if image else ()
    for number in range(calls):
        call = ToolCall(id=f"c{number}", name="t", arguments="{}")
        said = Message(role="assistant", parts=(Text(text="So."), call))
        await session.record(Reply(message=said, usage=Usage(input=used)))
        await session.record(ToolEnded(result=ToolResult(call=call.id, name="t", content=LONG, images=images)))


@given(text=st.text(max_size=2_000))
def test_a_cut_result_is_json_and_is_not_cut_again(text: str) -> None:
    part = result(msgspec.json.encode({"content": text}).decode())
    short = cut_result(part)
    assert cut_result(short) is short
    assert isinstance(short, ToolResult)
    fields = msgspec.json.decode(short.content, type=dict[str, str])
    if short is not part:
        assert fields["pruned"] == f"{len(part.content)} characters left out to save room"
        assert part.content.startswith(fields["began"])


def test_pictures_go_with_a_result_or_alone() -> None:
    picture = Image(data="AAAA")
    assert cut_result(result(LONG, picture)) == cut_result(result(LONG))
    assert cut_result(result("{}", picture)) == result("{}")
    assert cut_picture(picture) is LEFT_OUT
    assert cut_picture(result(LONG, picture)) == result(LONG)
    for part in (Text(text="x" * 5_000), result("{}"), ToolCall(id="c", name="t", arguments="x" * 5_000)):
        assert cut_result(part) is part
        assert cut_picture(part) is part


def test_it_prunes_for_the_window_only_what_is_worth_it() -> None:
    async def test(here: Bare) -> None:
        async with here.store.claim(here.ref) as session:
            await fill(session, 10, used=6_000)
            compactor = Compactor(window=lambda: 10_000, threshold=0.5)
            await compactor.fit(session)
            await compactor.fit(session)
            (once,) = await here.facts(Compacted)
            assert once.tokens_before - once.tokens_after >= 4_000
            assert session.transcript.last_usage.total < 5_000
            assert [len(m.parts[0].content) > 1_000 for m in session.messages if isinstance(m.parts[0], ToolResult)] == [
                *[False] * 6, *[True] * 4,
            ]  # fmt: skip

    alone(test)


def test_an_unknown_window_that_is_larger_than_thought_is_left_alone_within_a_run() -> None:
    async def test(here: Bare) -> None:
        async with here.store.claim(here.ref) as session:
            compactor = Compactor(window=lambda: 2_000, threshold=0.5)
            await compactor.fit(session)
            await fill(session, 4, used=50_000)
            await compactor.fit(session)
            assert not await here.facts(Compacted)

    alone(test)


def test_a_smaller_window_is_kept_by_pruning_ever_more() -> None:
    window = [100_000]

    async def test(here: Bare) -> None:
        async with here.store.claim(here.ref) as session:
            compactor = Compactor(window=lambda: window[0], threshold=0.5)
            await compactor.fit(session)
            await fill(session, 12, used=9_500)
            await compactor.fit(session)
            assert not await here.facts(Compacted)
            window[0] = 2_000
            await compactor.fit(session)
            assert session.transcript.last_usage.total <= 2_000
            assert len(session.messages) == 25

    alone(test)


def test_it_prunes_until_nothing_is_left_and_says_so() -> None:
    async def test(here: Bare) -> None:
        async with here.store.claim(here.ref) as session:
            await fill(session, 6, used=100, image=True)
            compactor = Compactor(window=lambda: 1_000, threshold=0.5)
            hows: list[int] = []
            while await compactor.shrink(session):
                hows.append(session.transcript.last_usage.total)
            facts = await here.facts(Compacted)
            assert [fact.how for fact in facts] == ["old tool results pruned"] * 4
            assert all(fact.tokens_before - fact.tokens_after >= PICTURE for fact in facts)
            assert facts[0].tokens_before < 20_000  # the bytes of a picture are no tokens
            assert not await compactor.shrink(session, pictures=True)

    alone(test)
