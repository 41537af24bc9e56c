"""A vendor's own list of models is asked for and read in the form of its wire."""

import json
from typing import Any

import pytest

from melete.app.fetch import FetchError
from melete.app.online import NoListError, listing
from melete.models.prices import Row
from melete.models.spec import ModelSpec, Quirks
from melete.testing.server import Connection, LoopbackServer, Received


class Server:
    """Answers every GET with one value and keeps what it was asked."""

    def __init__(self, value: Any, status: int = 200) -> None:
        self.asked: list[Received] = []
        self._data = json.dumps(value).encode()
        self._status = status
        self.server = LoopbackServer(self._answer)

    def _answer(self, connection: Connection, received: Received) -> None:
        self.asked.append(received)
        connection.begin(self._status, headers={}, length=len(self._data))
        connection.finish(self._data)

    def ask(self, path: str = "", **more: Any) -> tuple[Row, ...]:
        """What is listed under a base URL with this path, and then no more."""
        with self.server:
            return listing(ModelSpec(model="m", base_url=f"http://127.0.0.1:{self.server.port}{path}", **more)).models


def test_a_plain_list_has_names() -> None:
    server = Server({"object": "list", "data": [{"id": "b"}, {"id": "a"}, {"no": "id"}, 3]})
    assert [row.name for row in server.ask("/v1", api_key="secret")] == ["a", "b"]
    assert server.asked[0].target == "/v1/models"
    assert server.asked[0].headers["authorization"] == "Bearer secret"


def test_windows_abilities_and_prices_are_read_where_they_are_told() -> None:
    server = Server(
        {
            "data": [
                {
                    "id": "a/b",
                    "context_length": 1000,
                    "top_provider": {"max_completion_tokens": 100},
                    "pricing": {"prompt": "0.000001", "completion": "0.000002", "input_cache_read": "0"},
                    "supported_parameters": ["tools"],
                    "architecture": {"input_modalities": ["text"]},
                },
                {"id": "c", "max_model_len": 4096},
                {"id": "d", "meta": {"n_ctx_train": 8192}},
                {"id": "e", "max_context_length": 9, "capabilities": {"function_calling": True, "vision": False}},
                {"id": "f", "context_length": True, "pricing": {"prompt": "-1", "completion": "nan"}},
            ]
        }
    )
    one, vllm, llamacpp, mistral, odd = server.ask("/v1")
    assert (one.context, one.max_output, one.tools, one.images) == (1000, 100, True, False)
    assert (one.usd_input, one.usd_output, one.usd_cache_read) == (1.0, 2.0, 0.0)
    assert (vllm.context, llamacpp.context) == (4096, 8192)
    assert (mistral.context, mistral.tools, mistral.images) == (9, True, False)
    assert (odd.context, odd.usd_input, odd.usd_output) == (None, None, None)


def test_a_bare_list_is_read() -> None:
    assert [row.name for row in Server([{"id": "a"}]).ask("/v1")] == ["a"]


def test_the_messages_wire_has_its_own_headers_and_version() -> None:
    server = Server({"data": [{"type": "model", "id": "claude"}], "has_more": False})
    assert [row.name for row in server.ask(wire="anthropic-messages", api_key="secret")] == ["claude"]
    asked = server.asked[0]
    assert asked.target == "/v1/models?limit=1000"
    assert asked.headers["x-api-key"] == "secret"
    assert "anthropic-version" in asked.headers
    assert "authorization" not in asked.headers


def test_gemini_lists_under_other_names() -> None:
    server = Server(
        {
            "models": [
                {"name": "models/flash", "inputTokenLimit": 10, "supportedGenerationMethods": ["generateContent"]},
                {"name": "models/embed", "supportedGenerationMethods": ["embedContent"]},
            ]
        }
    )
    (row,) = server.ask("/v1beta", wire="gemini", api_key="secret")
    assert (row.name, row.context) == ("flash", 10)
    assert server.asked[0].target == "/v1beta/models?pageSize=1000"
    assert server.asked[0].headers["x-goog-api-key"] == "secret"


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("", "/models"),
        ("/", "/models"),
        ("/v1/", "/v1/models"),
        ("/v1/chat/completions", "/v1/models"),
        ("/openai/v1?api-version=2", "/openai/v1/models?api-version=2"),
    ],
)
def test_the_list_is_beside_where_requests_go(path: str, target: str) -> None:
    server = Server({"data": []})
    assert server.ask(path) == ()
    assert server.asked[0].target == target


def test_a_vendor_may_want_its_key_in_a_header_of_its_own() -> None:
    server = Server({"data": []})
    server.ask("/v1", api_key="secret", quirks=Quirks(key_header="api-key"))
    assert server.asked[0].headers["api-key"] == "secret"
    assert "authorization" not in server.asked[0].headers


def test_a_key_that_is_not_accepted_is_named_and_not_shown() -> None:
    with pytest.raises(FetchError, match=r"status 401: the key is not accepted; check X_API_KEY") as caught:
        Server({}, status=401).ask("/v1", api_key="secret", key_variable="X_API_KEY")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("value", [{}, "text", {"data": "x"}, 5])
def test_what_is_no_list_is_said(value: Any) -> None:
    with pytest.raises(NoListError, match="not with a list of models"):
        Server(value).ask("/v1")
