"""A key reaches its own responses and nobody else's; and what a client sends, however odd, is an answer or a refusal."""

import subprocess
import sys
import time
from collections.abc import Generator
from typing import Any

import msgspec
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from melete.surfaces.api.response_types import NewResponse
from melete.testing import ScriptedModel
from tests.chatting import PIXEL, answer
from tests.served import Served, served, variables
from tests.story.homes import configure

OWN = "mk_m3PZ0cIq8xT1vY5dRb7LhE2sUa9WkGnJ4oFf6QyXtCi"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    home = tmp_path_factory.mktemp("person")
    configure(home, server={"disconnect": "cancel"})
    with ScriptedModel(answer) as model, served(home, model, env={"MELETE_SERVER_KEY": OWN}) as found:
        yield found


def key(server: Served, name: str) -> str:
    """A new key that may chat."""
    done = subprocess.run(
        [sys.executable, "-m", "melete", "serve", "keys", "add", name, "--json"],
        env=variables(server.home),
        capture_output=True,
        check=True,
    )
    return msgspec.json.decode(done.stdout)["key"]


def library(server: Served, key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0)


def test_nobody_reaches_the_response_of_another_key(server: Served) -> None:
    with (
        library(server, key(server, "ann")) as ann,
        library(server, key(server, "bob")) as bob,
        library(server, OWN) as own,
    ):
        made = ann.responses.create(input="hello")
        session: Any = made.to_dict()["melete"]
        for ask in (bob.responses.retrieve, bob.responses.cancel, bob.responses.delete, bob.responses.input_items.list):
            with pytest.raises(openai.NotFoundError) as caught:
                ask(made.id)
            assert caught.value.code == "response_not_found"
        with pytest.raises(openai.NotFoundError) as caught:
            bob.responses.create(input="go on", previous_response_id=made.id)
        assert caught.value.code == "previous_response_not_found"
        with pytest.raises(openai.NotFoundError) as caught:
            bob.responses.create(input="go on", conversation=session["session"])
        assert caught.value.code == "conversation_not_found"
        assert ann.responses.retrieve(made.id) == made
        assert own.responses.retrieve(made.id) == made, "the home's own person sees everything"
        branch = own.responses.create(input="two", previous_response_id=made.id)
        assert ann.responses.retrieve(branch.id).output_text == "You said: two", "in the session of its owner"
        with pytest.raises(openai.NotFoundError):
            bob.responses.retrieve(branch.id)


def test_a_response_whose_client_leaves_is_cancelled_where_the_settings_say_so(server: Served) -> None:
    with library(server, OWN) as client:
        with client.responses.create(input="stall", stream=True) as stream:
            left: Any = next(iter(stream)).response.id  # pyright: ignore
        stays = client.responses.create(input="stall", stream=True, background=True)
        kept: Any = next(iter(stays)).response.id  # pyright: ignore
        stays.close()
        until = time.monotonic() + 20
        while client.responses.retrieve(left).status == "in_progress":
            assert time.monotonic() < until, "it goes on"
            time.sleep(0.05)
        assert client.responses.retrieve(left).status == "cancelled"
        assert client.responses.retrieve(kept).status == "in_progress", "what runs in the background needs no client"
        client.responses.cancel(kept)
        with pytest.raises(openai.APITimeoutError):
            client.responses.create(input="stall", metadata={"who": "impatient"}, timeout=0.5)
        until = time.monotonic() + 20
        while server.client.get("/v1/runs?status=running", headers={"authorization": f"Bearer {OWN}"}).json()["data"]:
            assert time.monotonic() < until, "it goes on"
            time.sleep(0.05)


# ---- odd bodies ----------------------------------------------------------------------------------------------------------

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(
        ["user", "assistant", "message", "input_text", "function_call", "reasoning", "auto", PIXEL, "melete"]
    ),
)
ODD = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
FIELDS = NewResponse.__struct_fields__
PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["input_text", "output_text", "input_image", "input_file", "refusal", "x"])},
    optional={"text": ODD, "image_url": ODD, "file_data": ODD, "refusal": ODD},
)
ITEMS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            ["message", "function_call", "function_call_output", "mcp_call", "reasoning", "item_reference", "odd", ""]
        )
        | LEAVES,
        "role": st.sampled_from(["user", "assistant", "system", "developer", "tool"]) | LEAVES,
        "content": st.text(max_size=8) | st.lists(PARTS, max_size=3) | ODD,
        "call_id": LEAVES,
        "id": LEAVES,
        "name": LEAVES,
        "arguments": LEAVES,
        "output": ODD,
    },
)
BODIES = st.one_of(
    ODD,
    st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=6),
    st.fixed_dictionaries({"input": st.lists(ITEMS, max_size=4)}),
    st.fixed_dictionaries({"input": st.just("hello")}, optional={name: ODD for name in FIELDS if name != "input"}),
)


@settings(max_examples=150)
@given(BODIES)
def test_no_body_is_too_odd(server: Served, body: Any) -> None:
    answered = server.client.post("/v1/responses", json=body, headers={"authorization": f"Bearer {OWN}"})
    assert answered.status_code < 500, answered.text
    if answered.status_code >= 400:
        assert answered.json()["error"].keys() == {"message", "type", "code", "param"}
    else:
        assert answered.json()["object"] == "response"


@settings(max_examples=60)
@given(
    st.text(max_size=20),
    st.dictionaries(st.sampled_from(["stream", "starting_after", "limit", "order", "after", "x"]), LEAVES),
)
def test_no_address_is_too_odd(server: Served, name: str, query: dict[str, Any]) -> None:
    for path in ("/v1/responses/{}", "/v1/responses/{}/input_items"):
        url = path.format("resp_" + "".join(f"%{byte:02x}" for byte in name.encode()))
        params = {name: "" if value is None else str(value) for name, value in query.items()}
        answered = server.client.get(url, params=params, headers={"authorization": f"Bearer {OWN}"})
        assert answered.status_code in (400, 404), answered.text
