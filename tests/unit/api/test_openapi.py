"""The OpenAPI document says what the routes do: it is valid, complete, and a route that leaves something out is found."""

import ast
import asyncio
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta, Struct
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.requests import Request
from starlette.responses import Response

from melete.surfaces.api import openapi
from melete.surfaces.api.answers import Stream, answer, body_of, query_of
from melete.surfaces.api.errors import ApiError
from melete.surfaces.api.route import HEADERS, Route
from melete.surfaces.api.routes import ROUTES

# The routes that the contract names, and those that belong to them.
CONTRACT = """
GET /health
GET /v1/health
GET /metrics
GET /openapi.json
GET /v1/models
GET /v1/models/{id}
POST /v1/chat/completions
POST /v1/responses
GET /v1/responses/{id}
DELETE /v1/responses/{id}
POST /v1/responses/{id}/cancel
GET /v1/responses/{id}/input_items
GET /v1/runs
POST /v1/runs
GET /v1/runs/{id}
GET /v1/runs/{id}/events
POST /v1/runs/{id}/steer
POST /v1/runs/{id}/answer
POST /v1/runs/{id}/cancel
GET /api/jobs
POST /api/jobs
GET /api/jobs/{id}
PATCH /api/jobs/{id}
DELETE /api/jobs/{id}
POST /api/jobs/{id}/pause
POST /api/jobs/{id}/resume
POST /api/jobs/{id}/run
GET /api/jobs/{id}/history
GET /api/sessions
GET /api/sessions/search
GET /api/sessions/{id}
PATCH /api/sessions/{id}
DELETE /api/sessions/{id}
GET /api/sessions/{id}/messages
GET /api/sessions/{id}/events
POST /api/sessions/{id}/fork
POST /api/sessions/{id}/steer
POST /v1/runs/{id}/feedback
POST /api/sessions/{id}/answer
POST /api/sessions/{id}/cancel
"""
ROOM = "melete.surfaces.api."


def document(*routes: Route, is_open: bool = False) -> dict[str, Any]:
    """The document as a client gets it."""
    return msgspec.json.decode(msgspec.json.encode(openapi.document(routes or ROUTES, is_open=is_open)))


def operations(found: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every method of every path."""
    for path, item in found["paths"].items():
        for method, operation in item.items():
            yield f"{method.upper()} {path}", operation


# ---- what a route leaves out ---------------------------------------------------------------------------------------------


def calls(function: Any, seen: set[Any]) -> Iterator[tuple[Any, ast.Call, Mapping[str, Any]]]:
    """Every call in a handler and in what it calls in the rooms of the API: what is called, the call, the names around it."""
    if function in seen or not getattr(function, "__module__", "").startswith(ROOM):
        return
    seen.add(function)
    names = function.__globals__
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Call):
            called = valued(node.func, names)
            yield called, node, names
            if inspect.isfunction(called) and called not in (body_of, query_of):
                yield from calls(called, seen)


def valued(node: ast.AST, names: Mapping[str, Any]) -> Any:
    """What a name, or a name in a module, stands for; None where that is known only when it runs."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and inspect.ismodule(module := valued(node.value, names)):
        return getattr(module, node.attr, None)
    return None


class Done(Struct, kw_only=True):
    """What a handler does, as its code says."""

    bodies: set[Any] = msgspec.field(default_factory=set[Any])
    queries: set[Any] = msgspec.field(default_factory=set[Any])
    headers: set[str] = msgspec.field(default_factory=set[str])
    statuses: set[int] = msgspec.field(default_factory=set[int])
    streams: bool = False


def done_by(route: Route) -> Done:
    """What a route's handler does."""
    done = Done()
    known = {name.lower(): name for name in HEADERS}
    for called, call, names in calls(route.handler, set()):
        if called in (body_of, query_of):
            (done.bodies if called is body_of else done.queries).add(valued(call.args[1], names))
        done.streams = done.streams or called is Stream
        first = call.args[0] if call.args else None
        if isinstance(first, ast.Constant):
            if called is ApiError:
                done.statuses.add(int(str(first.value)))
            if is_header(call) and first.value in known:
                done.headers.add(known[str(first.value)])
    return done


def missing(route: Route) -> list[str]:
    """What a route does that the table does not say, and the other way round."""
    done = done_by(route)
    changes = route.method in ("POST", "PATCH", "PUT", "DELETE")
    answers = route.gives is not None or route.stream or route.media or route.status == 204
    problems = {
        f"it reads the body as {done.bodies}": done.bodies - {None} != {route.takes} - {None},
        f"it reads the query as {done.queries}": done.queries - {None} != {route.query} - {None},
        f"whether it answers with a stream is {done.streams}": done.streams != route.stream,
        "it does not say of which type the events are": route.stream and route.events is None,
        "it does not say what it answers": not answers,
        "it changes something, and the audit would not hold it": changes and not route.acts,
        "its handler has no docstring": not (route.handler.__doc__ or "").strip(),
        **{f"it refuses with {status}": True for status in done.statuses - set(openapi.statuses(route))},
        **{f"it reads the header {name}": True for name in done.headers - set(route.headers)},
    }
    return [problem for problem, is_there in problems.items() if is_there]


def is_header(node: ast.Call) -> bool:
    """Whether a call is `….headers.get("name")`."""
    function = node.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr == "get"
        and isinstance(function.value, ast.Attribute)
        and function.value.attr == "headers"
        and bool(node.args)
        and isinstance(node.args[0], ast.Constant)
    )


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_the_table_says_all_that_a_route_does(route: Route) -> None:
    assert not missing(route)


class Asked(Struct, frozen=True, kw_only=True):
    many: Annotated[int, Meta(ge=1, le=5, description="How many.")] = 2
    mode: str | None = None
    size: int | None = None


class Taken(Struct, frozen=True, kw_only=True):
    text: str
    size: int = 1


class Given(Struct, frozen=True, kw_only=True):
    text: str = ""
    taken: Taken | None = None


async def silent(request: Request) -> Response:
    wanted = await body_of(request, Taken)
    query_of(request, Asked)
    request.headers.get("last-event-id")
    if not wanted.text:
        raise ApiError(404, "not_found", "there is no text")
    return answer(wanted)


silent.__doc__ = None
silent.__module__ = f"{ROOM}made_up"


def test_a_route_without_types_is_found() -> None:
    route = Route(method="POST", path="/made/up", handler=silent, tag="server")
    found = "\n".join(missing(route))
    for word in ("body", "query", "Last-Event-ID", "404", "answers", "audit", "docstring"):
        assert word in found
    told = Route(
        method="POST",
        path="/made/up",
        handler=silent,
        tag="server",
        acts=True,
        takes=Taken,
        query=Asked,
        headers=("Last-Event-ID",),
        gives=Given,
        errors=(404,),
    )
    assert missing(told) == ["its handler has no docstring"]


# ---- the document --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_open", [True, False])
def test_an_independent_validator_finds_nothing(is_open: bool) -> None:
    problems = [problem.message for problem in OpenAPIV31SpecValidator(document(is_open=is_open)).iter_errors()]
    assert not problems


def test_every_route_of_the_contract_is_there_with_its_method() -> None:
    wanted = CONTRACT.split("\n")[1:-1]
    found = [name for name, _ in operations(document())]
    assert sorted(found) == sorted(wanted)
    assert len(found) == len(ROUTES), "two routes have the same path and method"


def test_operations_have_names_of_their_own_and_say_what_they_are_for() -> None:
    found = document()
    names = [operation["operationId"] for _, operation in operations(found)]
    assert len(set(names)) == len(names)
    tags = {tag["name"] for tag in found["tags"]}
    for name, operation in operations(found):
        assert set(operation["tags"]) <= tags
        assert operation["summary"], name
        assert len(operation["summary"]) <= 120, f"{name}: the first clause of the docstring is its title"
    assert tags <= set(openapi.TAGS)
    for parameter in (p for _, operation in operations(found) for p in operation["parameters"]):
        assert parameter.get("description"), f"{parameter['name']} is not described"


def test_every_placeholder_of_a_path_is_a_parameter() -> None:
    for name, operation in operations(document()):
        declared = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
        assert declared == set(openapi._PLACEHOLDER.findall(name.split(" ")[1])), name


def test_every_refusal_has_one_shape_and_a_request_id() -> None:
    found = document()
    for refusal in found["components"]["responses"].values():
        assert refusal["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/ErrorBody"}
        assert "X-Request-Id" in refusal["headers"]
    for name, operation in operations(found):
        assert {"401", "403", "429", "500"} <= set(operation["responses"]), name
        for status, response in operation["responses"].items():
            assert status.startswith("2") or response == {"$ref": f"#/components/responses/Refused{status}"}


def test_a_key_is_asked_for_unless_the_server_is_open_or_the_route_public() -> None:
    for route in ROUTES:
        closed = document(route)["paths"][openapi.template(route.path)][route.method.lower()]["security"]
        opened = document(route, is_open=True)["paths"][openapi.template(route.path)][route.method.lower()]["security"]
        assert ({} in closed) is route.public
        assert {} in opened
        if not route.public and route.scope:
            assert closed == [{"bearer": [route.scope]}]


def test_examples_are_bodies_that_are_taken() -> None:
    for route in ROUTES:
        if route.takes is not None:
            assert route.example is not None, f"{route.method} {route.path} has no example"
            msgspec.json.decode(msgspec.json.encode(route.example), type=route.takes)


def test_answers_have_all_their_fields_and_requests_only_what_they_need() -> None:
    route = Route(
        method="POST", path="/made/up", handler=silent, tag="server", takes=Taken, gives=tuple[Given, ...], query=Asked
    )
    found = document(route)
    schemas = found["components"]["schemas"]
    assert schemas["Given"]["required"] == ["text", "taken"]
    assert schemas["Taken"]["required"] == ["text"]
    assert schemas["ErrorDetail"]["required"] == ["message", "type", "code", "param"]
    assert "Asked" not in schemas
    many, mode, size = found["paths"]["/made/up"]["post"]["parameters"]
    assert many == {
        "name": "many",
        "in": "query",
        "required": False,
        "description": "How many.",
        "schema": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
    }
    assert mode == {"name": "mode", "in": "query", "required": False, "schema": {"type": "string"}}
    assert size["schema"] == {"type": "integer"}


def test_events_of_a_stream_are_described_one_by_one() -> None:
    found = document()
    run = found["paths"]["/v1/runs/{id}/events"]["get"]["responses"]["200"]["content"]["text/event-stream"]["schema"]
    data = run["properties"]["data"]
    event, error = data["contentSchema"]["anyOf"]
    assert error == {"$ref": "#/components/schemas/ErrorBody"}
    kinds = {choice["$ref"].rpartition("/")[2] for choice in event["anyOf"]}
    assert {"RunStarted", "RunEnded", "TextDelta"} <= kinds
    assert kinds <= set(found["components"]["schemas"])


# ---- query parameters ----------------------------------------------------------------------------------------------------


def asked(query: str) -> Asked:
    """What a query string means."""
    return query_of(Request({"type": "http", "query_string": query.encode(), "headers": []}), Asked)


def test_a_query_is_read_as_its_type() -> None:
    assert asked("many=3&mode=a%20b") == Asked(many=3, mode="a b")
    assert asked("") == Asked()


@pytest.mark.parametrize(
    ("query", "field"),
    [("many=9", "many"), ("many=x", "many"), ("many=1&many=2", "many"), ("mani=1", "mani"), ("size=null", "size")],
)
def test_a_query_that_does_not_fit_is_refused_by_name(query: str, field: str) -> None:
    with pytest.raises(ApiError) as refused:
        asked(query)
    assert refused.value.status == 400
    assert refused.value.param == field


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert taken(b'{"text": "a", "size": 5.0}') == Taken(text="a", size=5)
    for body in (b'{"text": "a", "size": 5.5}', b'{"text": 5.0}', b'{"text": "a", "size": 1e400}'):
        with pytest.raises(ApiError) as refused:
            taken(body)
        assert refused.value.status == 400


def taken(body: bytes) -> Taken:
    """What a body means."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return asyncio.run(body_of(Request({"type": "http", "headers": []}, receive), Taken))
