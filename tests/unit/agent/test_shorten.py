"""What stays word for word when a conversation is summed up, and in what form the rest is left."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import msgspec

from melete.agent.compact import Compactor
from melete.agent.shorten import NOTE, Means, Wish, fitted, is_note, parted, room_of, tokens
from melete.agent.summary import Summariser
from melete.core.event import Compacted, Framed, Notice, Reply, Said, Spent, ToolEnded
from melete.core.message import Image, Message, Text, Thinking, ToolCall, ToolResult, Usage, Wire, user
from melete.core.session import Session
from melete.models.openai_chat import open_model
from melete.security.taint import sources
from melete.testing import Fault, Say, ScriptedModel
from tests.bare import Bare, alone
from tests.wire.adapters import spec

SUMMARY = "## Done\nThe person and the agent have read the parts of the ledger, and nothing in it was of any weight."
WORDS = "the harbour is quiet and the mill is turning in the wind " * 12


def talked(turns: int, *, wire: bool = False) -> list[Message]:
    """Turns of a prompt, a call and its result, and an answer."""
    made: list[Message] = []
    for n in range(turns):
        call = ToolCall(id=f"c{n}", name="look", arguments=f'{{"step":{n}}}')
        raw = Wire(name="openai-chat", body=msgspec.Raw(b'{"role":"assistant","odd":1}')) if wire else None
        made += [
            user(f"Look at part {n}. {WORDS}"),
            Message(role="assistant", parts=(Thinking(text="Hm."), call), wire=raw),
            Message(role="tool", parts=(ToolResult(call=call.id, name="look", content=f'{{"part":{n}}}'),)),
            Message(role="assistant", parts=(Text(text=f"Part {n} is read."),)),
        ]
    return made


async def record(session: Session, messages: Sequence[Message], *, used: int = 0) -> None:
    for message in messages:
        if message.role == "user":
            await session.record(Said(message=message))
        elif message.role == "assistant":
            await session.record(Reply(message=message, usage=Usage(input=used)))
        else:
            await session.record(*(ToolEnded(result=part) for part in message.parts if isinstance(part, ToolResult)))


@asynccontextmanager
async def compacting(here: Bare, model: ScriptedModel, *, window: int) -> AsyncGenerator[Compactor]:
    client = open_model(spec(model.base_url))
    means = Means(
        facts=lambda after: here.store.facts(here.ref, after=after), summariser=Summariser(lambda: client, deadline=5.0)
    )
    yield Compactor(window=lambda: window, threshold=0.5, means=lambda: means)
    await client.aclose()


def test_no_call_is_parted_from_its_result_whatever_the_room() -> None:
    messages = talked(6)
    for room in range(0, 3_000, 37):
        parts = parted(messages, room)
        assert [*parts.head, *parts.notes, *parts.out, *parts.tail] == messages
        assert parts.tail
        assert parts.tail[0].role != "tool"
        assert not parts.head or parts.head == (messages[0],)
    assert parted(messages[:-1], 0).tail == messages[-3:-1]
    assert [message.text[:14] for message in parted(messages, 0, keep=2).tail if message.role == "user"] == [
        "Look at part 4", "Look at part 5",
    ]  # fmt: skip
    assert not parted(messages, 0, keep=9).out
    assert not parted(messages[:1], 0).out
    assert not parted([], 0).out


def test_the_older_part_is_summed_up_once_and_the_latest_stays_to_the_byte() -> None:
    messages = talked(20, wire=True)

    async def test(here: Bare) -> None:
        async with here.store.claim(here.ref) as session, compacting(here, model, window=8_000) as compactor:
            await session.record(Framed(system=("Be brief.",), tools=()))
            await record(session, messages, used=4_500)
            await compactor.fit(session)
            await compactor.fit(session)
            (fact,) = await here.facts(Compacted)
            assert fact.how.startswith("summed up by ")
            assert fact.summary == SUMMARY
            assert fact.tokens_after < 2_000 < fact.tokens_before
            head, note, *tail = fact.messages
            assert tokens([head]) < 300
            assert is_note(note)
            assert tail == messages[-len(tail) :]
            assert any(message.wire for message in tail)
            (begun,) = [one for one in await here.log() if one.seq == fact.since]
            assert isinstance(begun, Said)
            assert begun.message == tail[0]
            assert fact.state is not None
            assert session.transcript.task == fact.state
            assert [spent.role for spent in await here.facts(Spent)] == ["compact"]
            assert len(model.requests) == 1

    with ScriptedModel([SUMMARY]) as model:
        alone(test)


def test_the_next_one_goes_on_from_the_last_and_leaves_one_note() -> None:
    async def test(here: Bare) -> None:
        async with here.store.claim(here.ref) as session, compacting(here, model, window=8_000) as compactor:
            for _ in range(3):
                await record(session, talked(20), used=4_500)
                await compactor.fit(session)
            assert [len(await here.facts(Compacted)), len(model.requests)] == [3, 3]
            assert sum(is_note(message) for message in session.messages) == 1
            assert not is_note(session.messages[0])
        first, *others = [request.json["messages"][1]["content"] for request in model.requests]
        assert "The summary so far" not in first
        assert all(SUMMARY in text for text in others)

    with ScriptedModel([SUMMARY] * 3) as model:
        alone(test)


def test_without_a_model_the_state_and_a_line_each_stand_there_and_it_is_said() -> None:
    async def test(here: Bare) -> None:
        async with here.store.claim(here.ref) as session, compacting(here, model, window=8_000) as compactor:
            await record(session, [user("Never push to main. The code is ZK-119."), *talked(20)], used=4_500)
            await compactor.fit(session)
            (fact,) = await here.facts(Compacted)
            assert fact.how == "shortened without a summary (AuthError)"
            assert not fact.summary
            (told,) = await here.facts(Notice)
            assert told.level == "warning"
            assert "could not be summed up" in told.text
            view = "\n".join(message.text for message in session.messages)
            assert "ZK-119" in view
            assert "- person: Look at part 15." in view
            # and the model that is back sums up what fell out meanwhile
            for _ in range(4):
                await record(session, talked(20), used=4_500)
                await compactor.fit(session)
        assert "[runtime]" in model.requests[-1].json["messages"][1]["content"]
        assert [bool(fact.summary) for fact in await here.facts(Compacted)] == [False] * 4 + [True]
        assert len(await here.facts(Notice)) == 1

    with ScriptedModel([Fault("unauthorized"), SUMMARY]) as model:
        alone(test)


def test_what_came_from_outside_is_known_to_have_done_so_ever_after() -> None:
    web = Message(
        role="tool", parts=(ToolResult(call="w", name="web_extract", content='{"rate": 7, "of": "bank"}', taint="web"),)
    )
    call = Message(role="assistant", parts=(ToolCall(id="w", name="web_extract", arguments="{}"),))

    async def test(here: Bare) -> None:
        async with here.store.claim(here.ref) as session, compacting(here, model, window=8_000) as compactor:
            await record(session, [user("Fetch it."), call, web, *talked(15)], used=4_500)
            for _ in range(2):
                await compactor.fit(session)
                assert sources(session.messages)
                note = next(message for message in session.messages if is_note(message))
                assert [part.taint for part in note.parts if isinstance(part, Text)] == ["none", "web", "web", "none"]
                await record(session, talked(20), used=4_500)

    with ScriptedModel([SUMMARY] * 2) as model:
        alone(test)


def test_a_request_that_does_not_fit_takes_ever_less() -> None:
    async def test(here: Bare) -> None:
        async with here.store.claim(here.ref) as session, compacting(here, model, window=60_000) as compactor:
            await record(session, talked(30), used=6_000)
            taken = [tokens(session.messages)]
            while await compactor.shrink(session):
                taken.append(tokens(session.messages))
            assert len(taken) > 1
            assert taken == sorted(taken, reverse=True)
            assert taken[-1] < 2_500
            assert session.messages[-1].text == "Part 29 is read."

    with ScriptedModel([Say(SUMMARY)] * 9) as model:
        alone(test)


def test_a_small_window_is_kept_by_cutting_results_and_arguments_and_nobodys_words() -> None:
    text = "w" * 30_000
    call = ToolCall(
        id="c", name="write_file", arguments=msgspec.json.encode({"path": "a.txt", "content": text}).decode()
    )
    raw = Wire(name="openai-chat", body=msgspec.Raw(b'{"role":"assistant"}'))
    messages = [
        user(f"Write it. {WORDS}"),
        Message(role="assistant", parts=(Thinking(text="Hm."), call), wire=raw),
        Message(
            role="tool", parts=(ToolResult(call="c", name="write_file", content=text, images=(Image(data="A" * 9),)),)
        ),
    ]
    said, written, result = fitted(messages, 500)
    assert said is messages[0]
    assert written.wire is None
    arguments = msgspec.json.decode(written.calls[0].arguments)
    assert arguments["path"] == "a.txt"
    assert arguments["content"].startswith("www")
    assert tokens([written, result]) < 700
    assert fitted(messages[:1], 5) == messages[:1]

    async def test(here: Bare) -> None:
        async with here.store.claim(here.ref) as session, compacting(here, model, window=2_000) as compactor:
            await record(session, [*talked(10), *messages], used=3_000)
            await compactor.fit(session)
            assert tokens(session.messages) < 1_800
            assert session.messages[-1].role == "tool"

    with ScriptedModel([SUMMARY]) as model:
        alone(test)


def test_a_person_may_choose_what_stays_and_look_first() -> None:
    async def test(here: Bare) -> None:
        async with here.store.claim(here.ref) as session, compacting(here, model, window=100_000) as compactor:
            await record(session, talked(10), used=900)
            seq = session.transcript.seq
            shown = await compactor.sum_up(session, Wish(keep=2, preview=True))
            assert shown is not None
            assert session.transcript.seq == seq
            assert not model.requests
            fact = await compactor.sum_up(session, Wish(keep=2, focus="the mill"))
            assert fact is not None
            assert fact.focus == "the mill"
            assert [message.role for message in fact.messages[2:]] == ["user", "assistant", "tool", "assistant"] * 2
            assert "Dwell on this above all: the mill" in model.requests[0].json["messages"][1]["content"]
            assert await compactor.sum_up(session, Wish(keep=9)) is None

    with ScriptedModel([SUMMARY]) as model:
        alone(test)


def test_the_room_shrinks_at_each_level_and_is_never_nothing() -> None:
    rooms = [room_of(3_000, 800, level=level) for level in range(5)]
    assert rooms == sorted(rooms, reverse=True)
    assert min(rooms[-1][:3]) > 0
    assert room_of(10, 5).state >= 400
    assert room_of(1_000_000, 100_000).tokens <= 14_000
    assert NOTE.startswith("[Note from the runtime")
