"""The messages of a chat completion taken apart, and conversations found again by what was said in them."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.chatting import PIXEL

from melete.core.event import Fact, Notice, Reply, RunStarted, Said, Titled, ToolEnded
from melete.core.message import Audio, File, Image, Text
from melete.core.transcript import Transcript
from melete.surfaces.api.chat_history import (
    GO_ON,
    LOST,
    Parted,
    Place,
    Recent,
    answered,
    facts_of,
    part,
    unmoved,
)
from melete.surfaces.api.chat_types import ChatMessage, ChatRequest
from melete.surfaces.api.errors import ApiError

PICTURE = {"type": "image_url", "image_url": PIXEL}


def messages(*given: dict[str, Any]) -> tuple[ChatMessage, ...]:
    """Messages as they come in a body."""
    return msgspec.json.decode(msgspec.json.encode({"messages": given}), type=ChatRequest).messages


def parted(*given: dict[str, Any], salt: tuple[str, ...] = ()) -> Parted:
    """Messages taken apart."""
    return part(messages(*given), most=100, salt=salt)


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def assistant(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def system(content: Any, role: str = "system") -> dict[str, Any]:
    return {"role": role, "content": content}


def call(id: str, name: str = "look", arguments: str = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def facts(*given: dict[str, Any]) -> list[Fact]:
    """What stands before the prompt."""
    return list(facts_of(parted(*given).earlier))


# ---- the parts -------------------------------------------------------------------------------------------------------------


def test_the_last_message_is_the_prompt_and_the_others_are_history() -> None:
    found = parted(user("one"), assistant("two"), user("three"))
    assert found.asked
    assert found.prompt is not None
    assert found.prompt.text == "three"
    assert found.prompt.by is not None
    assert found.prompt.by.kind == "person"
    said, reply = facts_of(found.earlier)
    assert isinstance(said, Said)
    assert (said.message.text, said.message.by and said.message.by.kind) == ("one", "import")
    assert isinstance(reply, Reply)
    assert (reply.message.role, reply.message.text) == ("assistant", "two")


def test_instructions_are_joined_wherever_they_stand() -> None:
    parts = [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "Be fast."}]
    found = parted(system(" Be brief. "), user("hi"), system("", "developer"), system(parts, "developer"))
    assert found.instructions == "Be brief.\n\nBe kind.\n\nBe fast."
    assert found.prompt is not None
    assert found.prompt.text == "hi"


def test_parts_of_every_kind_are_read() -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}
    pdf = {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"}}
    found = parted(
        user(
            [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
                {"type": "image_url", "image_url": PIXEL.replace("image/png", "image/jpg")},
                {"type": "input_text", "text": "and"},
                {"type": "input_image", "image_url": PIXEL},
                sound,
                pdf,
            ]
        )
    )
    assert found.prompt is not None
    data = PIXEL.partition(",")[2]
    assert found.prompt.parts == (
        Text(text="look"),
        Image(media_type="image/png", data=data),
        Image(media_type="image/jpeg", data=data),
        Text(text="and"),
        Image(media_type="image/png", data=data),
        Audio(media_type="audio/mp3", data="AAAA"),
        File(media_type="application/pdf", name="a.pdf", data="JVBERi0="),
    )


@pytest.mark.parametrize(
    ("part_", "code"),
    [
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, "unsupported_image"),
        ({"type": "image_url", "image_url": "file:///etc/passwd"}, "unsupported_image"),
        ({"type": "image_url", "image_url": "data:image/svg+xml;base64,AAAA"}, "unsupported_image"),
        ({"type": "image_url", "image_url": "data:image/png,AAAA"}, "unsupported_image"),
        ({"type": "image_url", "image_url": "data:image/png;base64,"}, "invalid_base64"),
        ({"type": "image_url", "image_url": "data:image/png;base64,%%%%"}, "invalid_base64"),
        ({"type": "image_url", "image_url": "data:image/png;base64,A"}, "invalid_base64"),
        ({"type": "input_audio", "input_audio": {"data": "ä", "format": "wav"}}, "invalid_base64"),
        ({"type": "file", "file": {"file_data": "data:text/html;base64,AAAA"}}, "unsupported_file"),
    ],
)
def test_a_part_that_cannot_be_taken_is_named(part_: dict[str, Any], code: str) -> None:
    with pytest.raises(ApiError) as caught:
        parted(user("first"), assistant("ok"), user([part_]))
    assert (caught.value.status, caught.value.code) == (400, code)
    assert caught.value.param.startswith("messages[2].content[0]")


def test_a_part_in_the_history_is_looked_at_as_well() -> None:
    found = parted(user([{"type": "image_url", "image_url": "https://example.org/a.png"}]), assistant("ok"), user("hi"))
    with pytest.raises(ApiError, match="not fetched"):
        list(facts_of(found.earlier))


def test_base64_without_its_padding_or_with_line_breaks_is_understood() -> None:
    found = parted(user([{"type": "image_url", "image_url": "data:IMAGE/PNG;base64,AAA\nA\nAA"}]))
    assert found.prompt is not None
    assert found.prompt.parts == (Image(media_type="image/png", data="AAAAAA=="),)


def test_what_says_nothing_is_left_out_of_the_history() -> None:
    assert facts(user(""), assistant(None), assistant("  "), user([]), user("hi")) == []


@pytest.mark.parametrize("content", ["", " \n", [], [{"type": "text", "text": " "}]])
def test_a_prompt_that_says_nothing_is_refused(content: Any) -> None:
    with pytest.raises(ApiError, match="says nothing") as caught:
        parted(system("Be brief."), user(content))
    assert caught.value.param == "messages[1].content"


@pytest.mark.parametrize("given", [[system("hi")], [assistant("hi")], [tool("a", "b")], [system("x"), assistant("y")]])
def test_a_conversation_without_a_user_is_refused(given: list[dict[str, Any]]) -> None:
    with pytest.raises(ApiError) as caught:
        parted(*given)
    assert (caught.value.status, caught.value.code) == (400, "no_user_message")


def test_more_parts_than_allowed_are_refused() -> None:
    text = {"type": "text", "text": "x"}
    given = messages(user([text, text]), assistant("y"), user("z"))
    assert part(given, most=4).asked
    with pytest.raises(ApiError, match="4 parts, and 3 are allowed"):
        part(given, most=3)


def test_a_model_that_was_cut_off_is_asked_to_go_on() -> None:
    found = parted(user("a poem"), assistant("Roses are"))
    assert found.prompt is not None
    assert (found.prompt.text, found.prompt.by and found.prompt.by.kind) == (GO_ON, "runtime")
    assert not found.asked
    assert [type(fact) for fact in facts_of(found.earlier)] == [Said, Reply]
    assert found.before == found.so_far == b""


# ---- calls of earlier turns ------------------------------------------------------------------------------------------------


def test_calls_of_earlier_turns_stand_with_their_results() -> None:
    found = facts(
        user("go"), assistant("Let me see.", tool_calls=[call("a"), call("b", "find", '{"x":1}')]),
        tool("b", "B"), tool("a", [{"type": "text", "text": "A"}]), assistant("Done."), user("more"),
    )  # fmt: skip
    state = Transcript(found)
    assert state.open_calls == ()
    assert [m.role for m in state.messages] == ["user", "assistant", "tool", "assistant"]
    assert [(r.call, r.name, r.content) for r in state.messages[2].parts if hasattr(r, "call")] == [  # pyright: ignore
        ("a", "look", "A"),
        ("b", "find", "B"),
    ]


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    found = facts(user("go"), assistant(None, tool_calls=[call("a")]), system("x"), user("more"))
    assert [type(fact) for fact in found] == [Said, Reply, ToolEnded]
    assert isinstance(found[2], ToolEnded)
    assert (found[2].result.content, found[2].outcome) == (LOST, "unknown")


def test_a_result_without_its_call_is_kept_as_words() -> None:
    found = facts(user("go"), tool("zzz", "what it said"), user("more"))
    assert isinstance(found[1], Said)
    assert "what it said" in found[1].message.text


def test_two_calls_under_one_id_are_one() -> None:
    found = facts(user("go"), assistant("", tool_calls=[call("a"), call("a")]), tool("a", "A"), user("more"))
    assert Transcript(found).open_calls == ()


def test_results_at_the_end_let_the_model_go_on_by_itself() -> None:
    found = parted(user("go"), assistant(None, tool_calls=[call("a")]), tool("a", "A"))
    assert found.prompt is None
    assert not found.asked
    assert [m.role for m in Transcript(facts_of(found.earlier)).messages] == ["user", "assistant", "tool"]


texts = st.text(max_size=20)
contents = st.one_of(texts, st.lists(texts.map(lambda text: {"type": "text", "text": text}), max_size=3))
ids = st.sampled_from(["a", "b", "c"])
lines = st.one_of(
    contents.map(user),
    contents.map(system),
    st.builds(lambda c, ids: assistant(c, tool_calls=[call(i) for i in ids]), contents, st.lists(ids, max_size=3)),
    contents.map(assistant),
    st.builds(tool, ids, contents),
)


@given(st.lists(lines, max_size=12))
def test_any_conversation_is_sound_or_refused(given: list[dict[str, Any]]) -> None:
    """Whatever a client sends: every call of the history has one result, and the roles follow one another as models want it."""
    try:
        found = parted(*given)
    except ApiError as error:
        assert error.code in ("no_user_message", "empty_input")
        return
    state = Transcript()
    for fact in facts_of(found.earlier):
        assert not (isinstance(fact, Said | Reply) and state.open_calls)
        state.apply(fact)
    assert state.open_calls == ()
    for before, message in zip(state.messages, state.messages[1:], strict=False):
        assert (message.role == "tool") == bool(before.calls)


# ---- fingerprints ----------------------------------------------------------------------------------------------------------


def test_a_conversation_is_known_again_by_what_was_said_in_it() -> None:
    first = parted(system("Be brief."), user("one"))
    assert first.before == b""
    known = answered(first.so_far, "two")
    assert parted(system("Be brief."), user("one"), assistant("two"), user("three")).before == known
    assert parted(system(" Be brief.\n"), user("one "), assistant("\ntwo"), user("three")).before == known
    said = [{"type": "text", "text": "one"}]
    assert parted(system("Be brief.", "developer"), user(said), assistant("two"), user("three")).before == known


@pytest.mark.parametrize(
    "given",
    [
        [system("Be long."), user("one"), assistant("two"), user("three")],
        [user("one"), assistant("two"), user("three")],
        [system("Be brief."), user("ONE"), assistant("two"), user("three")],
        [system("Be brief."), user("one"), assistant("2"), user("three")],
        [system("Be brief."), user("zero"), user("one"), assistant("two"), user("three")],
        [system("Be brief."), user("one"), assistant("two"), assistant("more"), user("three")],
        [system("Be brief."), user("one"), assistant("two", tool_calls=[call("a")]), user("three")],
        [system("Be brief."), user([{"type": "text", "text": "one"}, PICTURE]), assistant("two"), user("three")],
    ],
)  # fmt: skip
def test_another_conversation_is_another_one(given: list[dict[str, Any]]) -> None:
    known = answered(parted(system("Be brief."), user("one")).so_far, "two")
    assert parted(*given).before != known


def test_the_same_words_of_somebody_else_are_another_conversation() -> None:
    known = answered(parted(user("one"), salt=("", "ann")).so_far, "two")
    again = (user("one"), assistant("two"), user("three"))
    assert parted(*again, salt=("", "ann")).before == known
    assert parted(*again, salt=("", "bob")).before != known
    assert parted(*again, salt=("key:ann", "")).before != known


def test_what_follows_the_prompt_does_not_count_before_it() -> None:
    assert (
        parted(user("one"), assistant("two"), user("three"), system("x")).before
        == parted(user("one"), assistant("two"), user("other")).before
    )


def test_an_empty_answer_is_not_known_again() -> None:
    assert answered(parted(user("one")).so_far, " ") == b""
    assert answered(b"", "two") == b""


def test_places_are_given_once_and_the_oldest_are_forgotten() -> None:
    recent = Recent(most=2)
    for name in (b"a", b"b", b"a", b"c"):
        recent.add(name, Place(session=name.decode(), seq=1))
    assert recent.take(b"b") is None
    assert recent.take(b"a") == Place(session="a", seq=1)
    assert recent.take(b"a") is None
    assert recent.take(b"") is None
    assert recent.take(b"c") is not None


def test_a_name_or_a_notice_does_not_move_a_session() -> None:
    assert unmoved([])
    assert unmoved([Titled(title="x"), Notice(text="y")])
    assert not unmoved([Titled(title="x"), RunStarted()])
