"""OpenAI's own library for Python, pointed at a server, finds everything that it knows of responses."""

import asyncio
import time
from collections.abc import Generator
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from melete.testing import ScriptedModel
from tests.chatting import OTHER, PIXEL, POEM, answer, text_of
from tests.served import Served, served
from tests.story.homes import configure

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
FORM: Any = {"format": {"type": "json_schema", "name": "number", "schema": NUMBER, "strict": True}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    home = tmp_path_factory.mktemp("person")
    configure(home, server={"max_parts": 20})
    with ScriptedModel(answer) as model, served(home, model) as found:
        yield found


@pytest.fixture
def client(server: Served) -> Generator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as found:
        yield found


def kinds(response: Response) -> list[str]:
    return [item.type for item in response.output]


def waited_for(client: openai.OpenAI, id_: str) -> Response:
    """The response once it is no longer being made, as a client polls for it."""
    until = time.monotonic() + 30
    while (found := client.responses.retrieve(id_)).status in ("queued", "in_progress"):
        assert time.monotonic() < until, "it did not end"
        time.sleep(0.05)
    return found


# ---- made and read -----------------------------------------------------------------------------------------------------


def test_a_response_is_made(client: openai.OpenAI) -> None:
    made = client.responses.create(
        model="melete", input="think about it", metadata={"topic": "numbers"}, instructions="Be brief.", temperature=0.5
    )
    assert (made.status, made.output_text, made.model, made.error) == ("completed", "It is four.", "scripted", None)
    assert kinds(made) == ["reasoning", "message"]
    assert made.output[0].summary[0].text == "Two and two."  # pyright: ignore
    assert (made.metadata, made.instructions, made.temperature) == ({"topic": "numbers"}, "Be brief.", 0.5)
    assert made.usage is not None
    assert (made.usage.input_tokens, made.usage.output_tokens, made.usage.total_tokens) == (150, 20, 170)
    assert made.usage.input_tokens_details.cached_tokens == 40
    assert made.usage.output_tokens_details.reasoning_tokens == 5
    assert made.completed_at is not None
    assert made.completed_at >= made.created_at


def test_it_can_be_read_again(client: openai.OpenAI) -> None:
    made = client.responses.create(model="melete", input="tool please", metadata={"a": "b"})
    assert client.responses.retrieve(made.id) == made
    assert client.responses.retrieve(made.id, include=["message.input_image.image_url"]) == made


def test_tools_that_ran_here_ask_nothing_of_the_client(client: openai.OpenAI) -> None:
    made = client.responses.create(input="tool please")
    assert kinds(made) == ["message", "mcp_call", "message"]
    remark, call, last = made.output
    assert (remark.phase, last.phase) == ("commentary", "final_answer")  # pyright: ignore
    assert (call.name, call.status, call.server_label) == ("terminal", "completed", "melete")  # pyright: ignore
    assert "from the tool" in call.output  # pyright: ignore
    assert made.output_text == "Let me look.\n\nThe tool is done."


def test_what_it_was_asked_with_is_listed(client: openai.OpenAI) -> None:
    said: Any = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": [{"type": "input_text", "text": "second"}]},
    ]
    made = client.responses.create(input=said)
    found = [item.to_dict() for item in client.responses.input_items.list(made.id, order="asc")]
    assert [(item["role"], item["content"][0]["text"]) for item in found] == [  # pyright: ignore
        ("developer", "Be kind."),
        ("user", "first"),
        ("assistant", "hello"),
        ("user", "second"),
    ]
    page = client.responses.input_items.list(made.id, limit=1)
    assert [item.id for item in page.data] == [found[-1]["id"]]
    assert page.has_more
    assert [item.id for item in page] == [item["id"] for item in reversed(found)], "the library asks for all pages"
    after = client.responses.input_items.list(made.id, order="asc", after=str(found[1]["id"]))
    assert [item.id for item in after.data] == [item["id"] for item in found[2:]]


def test_pictures_are_shown_to_the_model(server: Served, client: openai.OpenAI) -> None:
    said: Any = [{"role": "user", "content": [{"type": "input_text", "text": "look"}, picture(PIXEL)]}]
    made = client.responses.create(input=said)
    assert made.output_text == "You said: look <image_url>"
    assert server.model is not None
    asked = client.responses.input_items.list(made.id).data[0].to_dict()
    assert asked["content"][1]["image_url"] == PIXEL  # pyright: ignore


def picture(url: str) -> dict[str, str]:
    return {"type": "input_image", "image_url": url, "detail": "auto"}


def test_history_that_the_client_kept_is_read(server: Served, client: openai.OpenAI) -> None:
    first = client.responses.create(input="tool please", store=False)
    said: Any = [
        {"role": "user", "content": "tool please"},
        *(item.to_dict() for item in first.output),
        {"role": "user", "content": "and now?"},
    ]
    made = client.responses.create(input=said)
    assert made.output_text == "You said: and now?"
    assert server.model is not None
    messages = server.model.requests[-1].json["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert messages[2]["tool_calls"][0]["function"]["name"] == "terminal"
    assert "from the tool" in messages[3]["content"]
    assert messages[4]["content"] == "The tool is done."


# ---- streams -----------------------------------------------------------------------------------------------------------


def test_a_response_comes_in_pieces(client: openai.OpenAI) -> None:
    with client.responses.create(input="slow 0.01", stream=True) as stream:
        events = list(stream)
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert len(pieces) > 5
    assert "".join(pieces) == POEM
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers))
    last = events[-1]
    assert last.type == "response.completed"
    assert client.responses.retrieve(last.response.id) == last.response


def test_the_stream_helper_follows_tools(client: openai.OpenAI) -> None:
    with client.responses.stream(model="melete", input="tool please") as stream:
        seen = [event.type for event in stream]
        final = stream.get_final_response()
    assert "response.mcp_call.completed" in seen
    assert final.output_text == "Let me look.\n\nThe tool is done."
    with client.responses.stream(response_id=final.id) as stream:
        assert [event.type for event in stream if not event.type.endswith(".delta")] == [
            kind for kind in seen if not kind.endswith(".delta")
        ]
        assert stream.get_final_response().output == final.output


def test_a_stream_goes_on_behind_the_last_event_that_was_read(client: openai.OpenAI) -> None:
    with client.responses.create(input="tool please", stream=True) as stream:
        events = list(stream)
    id_ = events[0].response.id  # pyright: ignore
    for at, event in enumerate(events):
        number: int = event.sequence_number
        with client.responses.retrieve(id_, stream=True, starting_after=number) as rest:
            found = list(rest)
        wanted = events[at + 1 :]
        assert [e for e in found if "delta" not in e.type] == [e for e in wanted if "delta" not in e.type]
        assert "".join(getattr(e, "delta", "") for e in found) == "".join(getattr(e, "delta", "") for e in wanted)


def test_text_that_was_given_up_is_no_part_of_the_response(client: openai.OpenAI) -> None:
    with client.responses.stream(model="melete", input="cut other") as stream:
        done = [event.item for event in stream if event.type == "response.output_item.done"]
        final = stream.get_final_response()
    assert [item.status for item in done] == ["incomplete", "completed"]  # pyright: ignore
    assert final.output_text == OTHER
    assert [item.id for item in final.output] == [done[1].id]  # pyright: ignore


def test_a_question_is_told_and_answered(server: Served, client: openai.OpenAI) -> None:
    last = None
    with client.responses.create(input="ask me", stream=True) as stream:
        for event in stream:
            if event.type == "response.in_progress":
                told: Any = event.response.to_dict()["melete"]
                if told["questions"]:
                    body = {"question": told["questions"][0]["id"], "value": "blue"}
                    sent = server.client.post(f"/v1/runs/{told['run']}/answer", json=body)
                    assert sent.json()["status"] == "accepted"
            last = event
    assert last is not None
    assert last.type == "response.completed"
    assert "blue" in last.response.output_text


# ---- a form of the answer ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["json", "fenced", "no json"])
def test_an_answer_has_the_form_that_was_asked_for(client: openai.OpenAI, words: str) -> None:
    made = client.responses.create(input=words, text=FORM)
    assert made.output_text in ('{"n": 4}', '{"n": 5}')
    assert made.text is not None
    assert made.text.format is not None
    assert made.text.format.type == "json_schema"
    assert client.responses.retrieve(made.id) == made
    with client.responses.stream(model="melete", input=words, text=FORM) as stream:
        assert stream.get_final_response().output_text == made.output_text


def test_an_object_without_a_schema(client: openai.OpenAI) -> None:
    made = client.responses.parse(input="json", text={"format": {"type": "json_object"}}, model="melete")
    assert made.output_text == '{"n": 4}'


def test_a_schema_that_is_none_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(
            input="json", text={"format": {"type": "json_schema", "name": "x", "schema": {"type": "nonsense"}}}
        )
    assert (caught.value.code, caught.value.param) == ("invalid_schema", "text.format.schema")


# ---- in the background, cancelled, deleted -------------------------------------------------------------------------------


def test_a_response_is_made_in_the_background(client: openai.OpenAI) -> None:
    made = client.responses.create(input="slow 0.02", background=True)
    assert (made.status, made.background, made.output, made.usage) == ("in_progress", True, [], None)
    found = waited_for(client, made.id)
    assert (found.status, found.output_text) == ("completed", POEM)


def test_a_stream_in_the_background_outlives_its_reader(client: openai.OpenAI) -> None:
    with client.responses.create(input="slow 0.05", background=True, stream=True) as stream:
        seen = [event for event, _ in zip(stream, range(6), strict=False)]
    number: int = seen[-1].sequence_number
    id_ = seen[0].response.id  # pyright: ignore
    with client.responses.retrieve(id_, stream=True, starting_after=number) as rest:
        found = [*seen, *rest]
    assert "".join(event.delta for event in found if event.type == "response.output_text.delta") == POEM
    assert found[-1].type == "response.completed"


def test_a_response_is_cancelled(client: openai.OpenAI) -> None:
    made = client.responses.create(input="stall", background=True)
    with client.responses.retrieve(made.id, stream=True) as stream:
        next(stream)
        stopped = client.responses.cancel(made.id)
        assert [event.type for event in stream][-1] == "response.incomplete"
    assert stopped.status == "cancelled"
    assert client.responses.cancel(made.id) == client.responses.retrieve(made.id) == stopped
    done = client.responses.create(input="hello")
    with pytest.raises(openai.ConflictError) as caught:
        client.responses.cancel(done.id)
    assert caught.value.code == "response_over"


def test_a_response_is_deleted_and_its_session_with_its_last(server: Served, client: openai.OpenAI) -> None:
    first = client.responses.create(input="one")
    second = client.responses.create(input="two", previous_response_id=first.id)
    session = second.to_dict()["melete"]["session"]  # pyright: ignore
    client.responses.delete(first.id)
    for ask in (client.responses.retrieve, client.responses.cancel, client.responses.delete):
        with pytest.raises(openai.NotFoundError) as caught:
            ask(first.id)
        assert caught.value.code == "response_not_found"
    with pytest.raises(openai.NotFoundError) as caught:
        client.responses.create(input="three", previous_response_id=first.id)
    assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")
    assert client.responses.retrieve(second.id).output_text == "You said: two"
    assert server.client.get(f"/api/sessions/{session}").status_code == 200
    assert server.client.delete(f"/v1/responses/{second.id}").json() == {
        "id": second.id,
        "object": "response",
        "deleted": True,
    }
    assert server.client.get(f"/api/sessions/{session}").status_code == 404


def test_what_is_being_made_is_not_deleted(client: openai.OpenAI) -> None:
    made = client.responses.create(input="stall", background=True)
    with pytest.raises(openai.ConflictError) as caught:
        client.responses.delete(made.id)
    assert caught.value.code == "response_in_progress"
    client.responses.cancel(made.id)
    client.responses.delete(made.id)


# ---- what goes wrong -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "kind", "code"),
    [
        ("quota", openai.RateLimitError, "insufficient_quota"),
        ("unauthorized", openai.InternalServerError, "model_refused_key"),
        ("unknown", openai.NotFoundError, "model_not_found"),
        ("overflow", openai.BadRequestError, "context_length_exceeded"),
        ("bad", openai.InternalServerError, "model_failed"),
    ],
)
def test_a_model_that_fails_is_an_error_and_its_response_is_stored(
    client: openai.OpenAI, words: str, kind: type[openai.APIStatusError], code: str
) -> None:
    with pytest.raises(kind) as caught:
        client.responses.create(input=words)
    assert caught.value.code == code
    run = caught.value.response.headers["x-melete-run-id"]
    assert f"/v1/responses/resp_{run}" in str(caught.value)
    assert caught.value.response.headers["x-should-retry"] == "false"
    kept = client.responses.retrieve(f"resp_{run}")
    assert (kept.status, kept.output_text) == ("failed", "")
    assert kept.error is not None
    with client.responses.create(input=words, stream=True) as stream:
        last = list(stream)[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.error.message == kept.error.message


@pytest.mark.parametrize(("words", "reason"), [("long", "max_output_tokens"), ("filtered", "content_filter")])
def test_an_answer_that_was_cut_off_is_incomplete(client: openai.OpenAI, words: str, reason: str) -> None:
    made = client.responses.create(input=words)
    assert made.status == "incomplete"
    assert made.incomplete_details is not None
    assert made.incomplete_details.reason == reason
    assert made.output_text.startswith("This is")


@pytest.mark.parametrize(
    ("wanted", "code", "param"),
    [
        ({"tool_choice": {"type": "function", "name": "f"}}, "unsupported_parameter", "tool_choice"),
        ({"tool_choice": "required"}, "unsupported_parameter", "tool_choice"),
        ({"prompt": {"id": "p"}}, "unsupported_parameter", "prompt"),
        ({"max_tool_calls": 3}, "unsupported_parameter", "max_tool_calls"),
        ({"top_logprobs": 2}, "unsupported_parameter", "top_logprobs"),
        ({"include": ["message.output_text.logprobs"]}, "unsupported_parameter", "include"),
        ({"background": True, "store": False}, "background_requires_store", "background"),
        ({"conversation": "x", "previous_response_id": "y"}, "mutually_exclusive_parameters", "conversation"),
        ({"temperature": 3}, "invalid_request", "temperature"),
        ({"input": ""}, "empty_input", "input"),
        ({"input": []}, "empty_input", "input"),
        ({"input": 5}, "invalid_request", "input"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "unsupported_item", "input[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://a.example/b.png"}]}]},
         "unsupported_image", "input[0].content[0].image_url"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
         "unsupported_file", "input[0].content[0]"),
        ({"input": [{"role": "nobody", "content": "x"}]}, "invalid_request", "input[0].role"),
        ({"input": [{"role": "user", "content": f"{n}"} for n in range(21)]}, "too_many_parts", "input"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_refused_by_name(client: openai.OpenAI, wanted: Any, code: str, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(**({"input": "hello"} | wanted))
    assert (caught.value.code, caught.value.param) == (code, param)


def test_what_has_no_effect_passes(client: openai.OpenAI) -> None:
    whole = client.responses.with_raw_response.create(
        input="hello",
        tools=[{"type": "function", "name": "f", "parameters": {}, "strict": False}],
        tool_choice="auto",
        parallel_tool_calls=False,
        truncation="auto",
        top_p=0.9,
        user="u",
        safety_identifier="s",
        prompt_cache_key="k",
        service_tier="flex",
        include=["reasoning.encrypted_content"],
        max_output_tokens=100,
        reasoning={"effort": "low", "summary": "auto"},
        extra_body={"something_new": {"a": 1}},
    )
    assert whole.headers["x-melete-ignored"].split(", ") == [
        "include",
        "parallel_tool_calls",
        "service_tier",
        "tools",
        "top_p",
        "truncation",
    ]
    made = whole.parse()
    assert (made.parallel_tool_calls, made.truncation, made.top_p) == (False, "auto", 0.9)
    assert (made.user, made.safety_identifier, made.prompt_cache_key) == ("u", "s", "k")
    assert made.reasoning is not None
    assert (made.reasoning.effort, made.max_output_tokens, made.tools) == ("low", 100, [])


def test_settings_of_the_answer_reach_the_model(server: Served, client: openai.OpenAI) -> None:
    client.responses.create(input="hello", temperature=0.25, max_output_tokens=77, instructions="Speak Greek.")
    assert server.model is not None
    sent = server.model.requests[-1].json
    assert sent["temperature"] == 0.25
    assert 77 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))
    assert "Speak Greek." in text_of(sent["messages"][0])


def test_the_asynchronous_library(server: Served) -> None:
    async def main() -> None:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
            first, second = await asyncio.gather(
                client.responses.create(input="think"), client.responses.create(input="hello")
            )
            assert (first.output_text, second.output_text) == ("It is four.", "You said: hello")
            async with client.responses.stream(model="melete", input="tool please") as stream:
                kinds = [event.type async for event in stream]
                final = await stream.get_final_response()
            assert kinds[-1] == "response.completed"
            assert (await client.responses.retrieve(final.id)).output_text == final.output_text
            made = await client.responses.create(input="stall", background=True)
            assert (await client.responses.cancel(made.id)).status == "cancelled"
            await client.responses.delete(made.id)
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(made.id)

    asyncio.run(main())
