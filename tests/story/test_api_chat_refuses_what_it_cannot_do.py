"""Whatever is sent to chat completions is answered or refused with a reason; nothing makes the server fail."""

import json
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from melete.testing import ScriptedModel
from tests.chatting import PIXEL, answer, text_of
from tests.served import Served, served
from tests.story.homes import configure

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
PATH = "/v1/chat/completions"
ELSEWHERE = {"type": "image_url", "image_url": "https://x.example/a"}
SCHEMA = "response_format.json_schema.schema"


def form(schema: Any) -> dict[str, Any]:
    """The form of an answer."""
    return {"type": "json_schema", "json_schema": {"schema": schema}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    home = tmp_path_factory.mktemp("person")
    configure(home, server={"max_parts": 50, "max_body": 200_000})
    with ScriptedModel(answer) as model, served(home, model) as found:
        yield found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 2), ("n", 0), ("stop", "END"), ("stop", ["END"]), ("logprobs", True), ("top_logprobs", 3),
        ("logit_bias", {"50256": -100}), ("modalities", ["text", "audio"]), ("audio", {"voice": "alloy", "format": "wav"}),
        ("tool_choice", "required"), ("tool_choice", {"type": "function", "function": {"name": "f"}}),
        ("function_call", {"name": "f"}), ("web_search_options", {}),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_refused_by_name(server: Served, name: str, value: Any) -> None:
    found = server.client.post(PATH, json={"messages": [USER], name: value})
    error = found.json()["error"]
    assert (found.status_code, error["code"], error["param"]) == (400, "unsupported_parameter", name)
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 1), ("n", None), ("stop", None), ("stop", []), ("logprobs", False), ("tools", []), ("tools", None),
        ("tool_choice", "none"), ("tool_choice", "auto"), ("modalities", ["text"]), ("response_format", {"type": "text"}),
        ("stream_options", None), ("max_tokens", 5), ("temperature", 0), ("user", "ann"), ("model", None), ("something_new", [1]),
        ("max_tokens", 5.0),
    ],
)  # fmt: skip
def test_what_changes_nothing_passes(server: Served, name: str, value: Any) -> None:
    found = server.client.post(PATH, json={"messages": [USER], name: value})
    assert found.status_code == 200, found.text
    assert "x-melete-ignored" not in found.headers


@pytest.mark.parametrize("stream", [False, True])
def test_what_was_left_out_of_account_is_named(server: Served, *, stream: bool) -> None:
    """Such as the tools of a chat page that brings its own: they run where the page is, and these run here."""
    given = {"tools": [TOOL], "functions": [TOOL["function"]], "seed": 1, "top_p": 0.5, "store": False, "metadata": {}}
    found = server.client.post(PATH, json={"messages": [USER], "stream": stream, **given})
    assert found.status_code == 200, found.text
    assert found.headers["x-melete-ignored"] == "functions, seed, store, tools, top_p"
    assert server.model is not None
    asked = server.model.requests[-1].json
    assert "f" not in [tool["function"]["name"] for tool in asked["tools"]]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, ""),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
        ({"messages": [USER, {"role": "nobody", "content": "x"}]}, "messages[1].role"),
        ({"messages": [{"role": "user"}]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "  "}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "video", "text": "x"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [ELSEWHERE]}]}, "messages[0].content[0].image_url"),
        ({"messages": [USER], "temperature": 3}, "temperature"),
        ({"messages": [USER], "temperature": "hot"}, "temperature"),
        ({"messages": [USER], "max_tokens": 0}, "max_tokens"),
        ({"messages": [USER], "reasoning_effort": "heroic"}, "reasoning_effort"),
        ({"messages": [USER], "stream": "yes"}, "stream"),
        ({"messages": [USER], "response_format": {"type": "xml"}}, "response_format.type"),
        ({"messages": [USER], "response_format": form({"type": 5})}, SCHEMA),
        ({"messages": [USER], "response_format": form({"$ref": "http://x.example/y"})}, SCHEMA),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * 51}]}, "messages"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_the_place(server: Served, body: Any, param: str) -> None:
    assert server.model is not None
    before = len(server.model.requests)
    found = server.client.post(PATH, json=body)
    error = found.json()["error"]
    assert (found.status_code, error["param"] or "") == (400, param), error
    assert error["message"]
    assert len(server.model.requests) == before


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"{" * 10_000, b'{"messages": NaN}'])
def test_what_is_no_request_is_refused(server: Served, body: bytes) -> None:
    found = server.client.post(PATH, content=body, headers={"content-type": "application/json"})
    assert found.status_code == 400
    assert found.json()["error"]["code"] in ("invalid_json", "invalid_request")


def test_a_body_that_is_too_large_is_refused(server: Served) -> None:
    found = server.client.post(PATH, json={"messages": [{"role": "user", "content": "x" * 300_000}]})
    assert found.status_code == 413


def test_nothing_of_a_request_that_was_refused_is_kept(server: Served) -> None:
    sessions = len(list((server.melete / "state" / "sessions").glob("*.log")))
    bad = {"role": "user", "content": [{"type": "image_url", "image_url": "nonsense"}]}
    for messages in ([bad], [bad, {"role": "assistant", "content": "x"}, USER]):
        assert server.client.post(PATH, json={"messages": messages}).status_code == 400
    assert len(list((server.melete / "state" / "sessions").glob("*.log"))) == sessions


# ---- odd bodies ------------------------------------------------------------------------------------------------------------

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=8,
)
strings = st.one_of(st.text(max_size=12), st.sampled_from(["", " ", "\0", "\u2028", "😀", "think", "tool", PIXEL]))


def mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What usually stands there, and now and then anything else."""
    return st.integers(0, 9).flatmap(lambda n: anything if n == 0 else usual)


text_parts = st.fixed_dictionaries({"type": st.sampled_from(["text", "input_text"]), "text": mostly(strings)})
urls = st.one_of(strings, st.sampled_from([PIXEL, "https://x.example/a.png", "data:image/png;base64,AAAA"]))
image_parts = st.fixed_dictionaries(
    {"type": st.just("image_url"), "image_url": mostly(st.one_of(urls, st.fixed_dictionaries({"url": urls})))}
)
contents = mostly(st.one_of(strings, st.lists(mostly(st.one_of(text_parts, image_parts)), max_size=3)))
calls = st.fixed_dictionaries(
    {
        "id": strings,
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": strings, "arguments": strings}),
    }
)
messages = st.lists(
    mostly(
        st.fixed_dictionaries(
            {"role": mostly(st.sampled_from(["user", "user", "assistant", "system", "developer", "tool"])), "content": contents},
            optional={"tool_calls": mostly(st.lists(calls, max_size=2)), "tool_call_id": strings, "name": strings},
        )
    ),
    max_size=5,
)  # fmt: skip
schemas = st.one_of(anything, st.fixed_dictionaries({"type": st.sampled_from(["object", "string", "x"])}))
bodies = st.fixed_dictionaries(
    {"messages": mostly(messages)},
    optional={
        "model": mostly(st.sampled_from(["melete", "", "scripted", "openai/x", "a/b/c", "/", " "])),
        "stream": mostly(st.booleans()),
        "stream_options": mostly(st.fixed_dictionaries({"include_usage": st.booleans()})),
        "temperature": mostly(st.floats(0, 2)),
        "max_tokens": mostly(st.integers(1, 100)),
        "response_format": mostly(
            st.one_of(
                st.just({"type": "json_object"}),
                st.fixed_dictionaries({"type": st.just("json_schema"), "json_schema": st.fixed_dictionaries({"schema": schemas})}),
            )
        ),
        "tools": anything,
        "n": mostly(st.integers(0, 2)),
        "user": mostly(strings),
    },
)  # fmt: skip


@settings(max_examples=200)
@given(bodies)
@example({"messages": [{"role": "user", "content": "\0"}]})
@example({"messages": [{"role": "user", "content": "\u2028"}], "stream": True})
@example({"messages": [USER], "response_format": form({})})
@example({"messages": [USER], "max_tokens": 10**400})
@example({"messages": [USER], "temperature": float("nan")})
def test_no_body_makes_the_server_fail(server: Served, body: Any) -> None:
    found = server.client.post(PATH, content=json.dumps(body).encode())
    assert found.status_code in (200, 400, 404, 502), found.text
    if found.status_code == 200:
        assert found.headers["x-melete-run-id"]
    else:
        assert found.json()["error"]["message"]


@settings(max_examples=60)
@given(st.one_of(anything.map(lambda value: json.dumps(value).encode()), st.binary(max_size=60)))
def test_no_bytes_make_the_server_fail(server: Served, body: bytes) -> None:
    found = server.client.post(PATH, content=body)
    assert found.status_code == 400
    assert found.json()["error"]["message"]


@settings(max_examples=60)
@given(st.text(alphabet=st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=40))
def test_no_session_header_makes_the_server_fail(server: Served, name: str) -> None:
    found = server.client.post(PATH, json={"messages": [USER]}, headers={"x-melete-session-id": name.strip()})
    assert found.status_code == (404 if name.strip() else 200)


def test_odd_text_reaches_the_model_as_it_is(server: Served) -> None:
    odd = "line\u2028 and \0 and 😀 and \x7f"
    found = server.client.post(PATH, json={"messages": [{"role": "user", "content": odd}]})
    assert found.json()["choices"][0]["message"]["content"] == f"You said: {odd}"
    assert server.model is not None
    assert text_of(server.model.requests[-1].json["messages"][-1]) == odd
