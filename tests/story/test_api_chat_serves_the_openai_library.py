"""OpenAI's own library for Python, pointed at a server, finds everything that it knows of models and chat completions."""

import asyncio
from collections.abc import Generator, Iterator
from typing import Any

import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam

from melete.testing import ScriptedModel
from tests.chatting import OTHER, PIXEL, POEM, answer, text_of
from tests.served import Served, served

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    with ScriptedModel(answer) as model, served(tmp_path_factory.mktemp("person"), model) as found:
        yield found


@pytest.fixture
def client(server: Served) -> Generator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as found:
        yield found


def user(content: Any) -> list[ChatCompletionMessageParam]:
    """A conversation of one message."""
    return [{"role": "user", "content": content}]


def told(chunks: Iterator[ChatCompletionChunk]) -> tuple[str, list[ChatCompletionChunk]]:
    """The text of a stream, and its chunks."""
    found = list(chunks)
    return "".join(choice.delta.content or "" for chunk in found for choice in chunk.choices), found


def beside(chunks: list[ChatCompletionChunk]) -> list[str]:
    """The types of what was told beside the text."""
    return [told["type"] for chunk in chunks if (told := (chunk.model_extra or {}).get("melete"))]


def test_models_are_listed_and_found(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["melete", "scripted"]
    assert client.models.retrieve("scripted").object == "model"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("nobody/knows")
    assert caught.value.code == "model_not_found"


def test_an_answer_comes_whole(client: openai.OpenAI) -> None:
    found = client.chat.completions.create(model="melete", messages=user("think about it"))
    assert found.object == "chat.completion"
    assert found.model == "scripted"
    assert found.id.startswith("chatcmpl-")
    choice = found.choices[0]
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "It is four.", "stop")
    assert (choice.message.model_extra or {})["reasoning_content"] == "Two and two."
    usage = found.usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (150, 20, 170)
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == 40
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.reasoning_tokens == 5


def test_an_answer_comes_in_pieces(client: openai.OpenAI) -> None:
    options: Any = {"stream_options": {"include_usage": True}}
    with client.chat.completions.create(model="", messages=user("slow 0.01"), stream=True, **options) as stream:
        text, chunks = told(stream)
    assert text == POEM
    assert len(chunks) > 5
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_tools_run_on_the_servers_side(client: openai.OpenAI, server: Served) -> None:
    whole = client.chat.completions.create(model="melete", messages=user("tool please"))
    assert whole.choices[0].message.content == "The tool is done."
    assert whole.choices[0].message.tool_calls is None
    assert server.model is not None
    assert "from the tool" in text_of(server.model.requests[-1].json["messages"][-1])
    with client.chat.completions.create(model="melete", messages=user("tool now"), stream=True) as stream:
        text, chunks = told(stream)
    assert text == "Let me look.\n\nThe tool is done."
    assert beside(chunks) == ["tool.started", "tool.ended", "run.ended"]


def test_the_librarys_own_reader_of_streams_agrees(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="melete", messages=user("tool as a stream")) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert final.choices[0].message.content == "Let me look.\n\nThe tool is done."
    assert final.choices[0].finish_reason == "stop"


def test_many_ask_at_once(server: Served) -> None:
    async def main() -> list[str | None]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:

            async def whole(number: int) -> str | None:
                found = await client.chat.completions.create(model="melete", messages=user(f"number {number}"))
                return found.choices[0].message.content

            async def pieces(number: int) -> str:
                stream = await client.chat.completions.create(
                    model="melete", messages=user(f"number {number}"), stream=True
                )
                return "".join([(chunk.choices[0].delta.content or "") async for chunk in stream])

            return list(await asyncio.gather(*(one(n) for n in range(8) for one in (whole, pieces))))

    assert asyncio.run(main()) == [f"You said: number {n}" for n in range(8) for _ in range(2)]


def test_images_reach_the_model(client: openai.OpenAI, server: Served) -> None:
    content = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": PIXEL}}]
    found = client.chat.completions.create(model="melete", messages=user(content))
    assert found.choices[0].message.content == "You said: look <image_url>"
    assert server.model is not None
    assert server.model.requests[-1].json["messages"][-1]["content"][1]["image_url"]["url"] == PIXEL


def test_an_answer_has_the_form_that_was_asked_for(client: openai.OpenAI) -> None:
    form: Any = {"type": "json_schema", "json_schema": {"name": "number", "schema": NUMBER, "strict": True}}
    for words, stream in (
        ("json", False),
        ("fenced", False),
        ("no json at first", False),
        ("no json, piece by piece", True),
    ):
        messages = user(words)
        if stream:
            text, _ = told(
                client.chat.completions.create(model="melete", messages=messages, response_format=form, stream=True)
            )
        else:
            found = client.chat.completions.create(model="melete", messages=messages, response_format=form)
            text = found.choices[0].message.content or ""
        assert text in ('{"n": 4}', '{"n": 5}'), words
    whatever = client.chat.completions.create(
        model="melete", messages=user("json"), response_format={"type": "json_object"}
    )
    assert whatever.choices[0].message.content == '{"n": 4}'


def test_settings_of_the_request_reach_the_model(client: openai.OpenAI, server: Served) -> None:
    client.chat.completions.create(
        model="scripted",
        messages=[{"role": "developer", "content": "Be brief, my friend."}, *user("settings")],
        temperature=0.25,
        max_completion_tokens=77,
        reasoning_effort="low",
        seed=1,
        top_p=0.5,
        presence_penalty=0.1,
        user="ann",
        metadata={"a": "b"},
        store=True,
        tools=[],
        tool_choice="auto",
        n=1,
        stop=None,
    )
    assert server.model is not None
    asked = server.model.requests[-1].json
    assert (asked["temperature"], asked["max_tokens"], asked["reasoning_effort"]) == (0.25, 77, "low")
    assert "Be brief, my friend." in text_of(asked["messages"][0])


@pytest.mark.parametrize(
    ("words", "finish", "text"),
    [("long story", "length", "This is cut"), ("filtered", "content_filter", "This is")],
)
def test_an_answer_that_was_cut_off_says_so(client: openai.OpenAI, words: str, finish: str, text: str) -> None:
    found = client.chat.completions.create(model="melete", messages=user(words)).choices[0]
    assert (found.finish_reason, found.message.content) == (finish, text)


@pytest.mark.parametrize(
    ("words", "kind", "status", "code"),
    [
        ("unauthorized", openai.InternalServerError, 502, "model_refused_key"),
        ("quota", openai.RateLimitError, 429, "insufficient_quota"),
        ("unknown", openai.NotFoundError, 404, "model_not_found"),
        ("overflow", openai.BadRequestError, 400, "context_length_exceeded"),
        ("bad", openai.InternalServerError, 502, "model_failed"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_failed_run_is_the_error_that_the_library_knows(
    server: Served, words: str, kind: type[openai.APIStatusError], status: int, code: str, *, stream: bool
) -> None:
    """And the library, which repeats such requests, is told not to: the run may have done something."""
    assert server.model is not None
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=2) as client,
        pytest.raises(kind) as caught,
    ):
        client.chat.completions.create(model="melete", messages=user(f"{words} {stream}"), stream=stream)
    assert (caught.value.status_code, caught.value.code) == (status, code)
    headers = caught.value.response.headers
    assert headers["x-should-retry"] == "false"
    assert server.status(headers["x-melete-run-id"])["status"] in ("failed", "limit")
    said = [text_of(one.json["messages"][-1]) for one in server.model.requests]
    assert said.count(f"{words} {stream}") == (
        1 if words != "overflow" else 3
    )  # which is asked again by the run itself


def test_a_model_that_cannot_be_opened_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="no key for openai") as caught:
        client.chat.completions.create(model="openai/gpt-5", messages=user("hi"))
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


def test_a_failure_in_mid_stream_is_an_error_in_the_stream(client: openai.OpenAI) -> None:
    seen = ""
    with pytest.raises(openai.APIError) as caught:
        for chunk in client.chat.completions.create(model="melete", messages=user("broken"), stream=True):
            seen += chunk.choices[0].delta.content or ""
    assert caught.value.code == "model_failed"
    assert seen
    assert POEM.startswith(seen)


@pytest.mark.parametrize(("words", "text"), [("cut same", POEM), ("cut other", f"\n\n{OTHER}")])
def test_a_stream_whose_model_broke_off_ends_with_the_whole_answer(
    client: openai.OpenAI, words: str, text: str
) -> None:
    with client.chat.completions.create(model="melete", messages=user(words), stream=True) as stream:
        found, chunks = told(stream)
    assert found.endswith(text)
    assert POEM.startswith(found.removesuffix(text))
    replaced = [] if words == "cut same" else ["text.void"]
    assert beside(chunks) == ["retried", *replaced, "run.ended"]


def test_the_headers_of_an_answer_lead_to_its_run(client: openai.OpenAI, server: Served) -> None:
    raw = client.chat.completions.with_raw_response.create(model="melete", messages=user("raw"))
    run = raw.headers["x-melete-run-id"]
    assert raw.parse().id == f"chatcmpl-{run}"
    assert server.status(run)["session"] == raw.headers["x-melete-session-id"]
    assert server.status(run)["text"] == "You said: raw"


def test_an_answer_is_read_without_the_library_as_well(server: Served) -> None:
    body = {"messages": user("plain"), "stream": True}
    with httpx2.Client(trust_env=False) as plain:
        found = plain.post(f"{server.url}/v1/chat/completions", json=body)
    assert found.headers["content-type"].startswith("text/event-stream")
    assert found.text.endswith("data: [DONE]\n\n")
