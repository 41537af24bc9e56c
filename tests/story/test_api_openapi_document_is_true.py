"""What the OpenAPI document promises is what a real server does: schemathesis asks for all of it, right and wrong."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from melete.testing import ScriptedModel
from tests.served import Served, served, variables
from tests.story.homes import configure

KEY = "mk_m3PZ0cIq8xT1vY5dRb7LhE2sUa9WkGnJ4oFf6QyXtCi"
EXAMPLES = int(os.environ.get("MELETE_SCHEMATHESIS_EXAMPLES", "3"))
"""Requests of each kind for each route; more find more and take longer."""
CONFIG = """
seed = 5
hooks = "hooks.py"
continue-on-failure = true
request-timeout = 20
max-stream-events = 20
warnings = false

[auth.openapi.bearer]
bearer = "{key}"

[generation]
max-examples = {examples}
database = "none"

[output.truncation]
enabled = false

[phases.stateful]
max-steps = 6

[checks.positive_data_acceptance]
expected-statuses = ["2xx", 401, 403, 404, 409, 422, 429]

# What a client of OpenAI's may send and we cannot do is refused with 400, as OpenAI does it; 502 is the model's failure, here to
# answer in the form that was asked for.
[[operations]]
include-tag = ["chat", "responses"]
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 401, 403, 404, 409, 422, 429, 502]
[operations.checks.not_a_server_error]
expected-statuses = ["2xx", "4xx", 502]

# The events of a session have no end.
[[operations]]
include-path = "/api/sessions/{{id}}/events"
max-stream-events = 2
request-timeout = 2

# An id that could be one of an event, but is none of this stream.
[[operations]]
include-path-regex = "/events$"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 401, 403, 404, 409, 422, 429]
"""

HOOKS = """
import re, uuid
import schemathesis

@schemathesis.hook
def before_call(context, case, kwargs):
    key = (case.headers or {}).get("Idempotency-Key")
    if key is not None and re.fullmatch("[!-~]{1,255}", key):  # each request a new one: the same is refused with another body
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("person")
    configure(home, approvals={"timeout": 5})
    with (
        ScriptedModel(lambda _request, _number: "{}") as model,
        served(home, model, env={"MELETE_SERVER_KEY": KEY}) as found,
    ):
        yield found


@pytest.mark.needs_package("schemathesis")
def test_every_route_keeps_what_the_document_says(server: Served, tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(CONFIG.format(key=KEY, examples=EXAMPLES))
    (tmp_path / "hooks.py").write_text(HOOKS)
    (tmp_path / "openapi.json").write_bytes(server.client.get("/openapi.json", headers=bearer(KEY)).content)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", "openapi.json", "--url", server.url, "--no-color"),
            *(
                "--checks",
                "all",
                "--exclude-checks",
                "ignored_auth",
            ),  # more wrong keys than one address may try: see below
        ],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_route_answers_without_the_key_that_the_document_asks_for(server: Served) -> None:
    found = server.client.get("/openapi.json", headers=bearer(KEY)).json()
    command = [sys.executable, "-m", "melete", "serve", "keys", "add", "figures", "--scope", "metrics"]
    added = subprocess.run(command, env=variables(server.home), capture_output=True, text=True, timeout=60, check=True)
    figures = added.stdout.strip()
    for number, (method, path, operation) in enumerate(operations(found), 2):
        is_public = {} in operation["security"]
        scopes = {scope for choice in operation["security"] for needed in choice.values() for scope in needed}
        with asker(server, method, path.replace("{id}", "x"), source=f"127.0.1.{number}") as ask:
            assert ask({}) == (200 if is_public else 401), f"{method} {path}"
            assert ask(bearer(KEY[:-1])) == 401, f"{method} {path}"
            if scopes - {"metrics"}:
                assert ask(bearer(figures)) == 403, f"{method} {path}"


@contextmanager
def asker(server: Served, method: str, path: str, *, source: str) -> Iterator[Callable[[Mapping[str, str]], int]]:
    """Ask for a route with some headers, from an address of its own, since wrong keys are counted for each; returns the status."""
    transport = httpx2.HTTPTransport(local_address=source, verify=False)  # nothing here is encrypted
    with httpx2.Client(transport=transport, trust_env=False) as client:
        yield lambda headers: client.request(method, f"{server.url}{path}", headers=dict(headers)).status_code


def bearer(key: str) -> dict[str, str]:
    """The header that shows a key."""
    return {"authorization": f"Bearer {key}"}


def operations(found: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Every method of every path."""
    for path, item in found["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def test_the_document_is_for_those_with_a_key(server: Served) -> None:
    assert server.client.get("/openapi.json").status_code == 401
    found = server.client.get("/openapi.json", headers=bearer(KEY))
    assert found.headers["content-type"] == "application/json"
    assert found.json()["openapi"].startswith("3.1")
    assert found.json()["paths"]["/v1/runs"]["post"]["security"] == [{"bearer": ["chat"]}]
