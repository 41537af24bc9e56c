"""The API described for machines: an OpenAPI 3.1 document that is made of the routes and of the types of their bodies."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from inspect import cleandoc, isclass
from itertools import pairwise
from typing import Any, get_args

import msgspec
from msgspec import Struct, structs
from starlette.requests import Request
from starlette.responses import Response

from melete import __version__
from melete.surfaces.api.answers import JSON, server_of
from melete.surfaces.api.errors import ErrorBody
from melete.surfaces.api.route import HEADERS, Route

EVENTS = "text/event-stream"
REF = "#/components/schemas/{name}"
ABOUT = (
    "The HTTP API of `melete serve`. Chat completions and responses are those of OpenAI's clients; runs, sessions and jobs show "
    "more: every event of a run as it happens, and what can be said to it meanwhile. Errors all have one shape, `ErrorBody`."
)
TAGS = {
    "server": "How the server is, and what it can do.",
    "models": "The models that may be asked for.",
    "chat": "Chat completions for OpenAI's clients. Tools run on the server's side.",
    "responses": "OpenAI's responses: stored, continued, and read again.",
    "runs": "Runs: begun, followed, steered, answered and cancelled. A run outlives its client.",
    "sessions": "Sessions of this key: listed, searched, read, forked and followed.",
    "jobs": "Scheduled work.",
}
REFUSALS = {
    400: "The request is wrong: `param` names the field or parameter where there is one.",
    401: "The key is missing, unknown or expired.",
    403: "The key may not do this, or the request comes from an origin or for a host that is not allowed.",
    404: "There is nothing of this id that the key may see.",
    409: "It cannot be done as things are now: the message says why.",
    413: "The body is larger than `server.max_body`.",
    414: "The address is too long.",
    415: "The body is of a type that is not understood.",
    422: "The request is well formed, but cannot be done with these values.",
    429: "Too much at once or too often; `Retry-After` says when to try again.",
    431: "The headers are too many or too large.",
    500: "The server failed; nothing is known to be wrong with the request.",
    502: "The model failed; the message says how.",
    503: "The server cannot do this now: it is about to stop, or something that it needs is not there.",
}
ALWAYS = (400, 401, 403, 413, 414, 429, 431, 500, 503)
"""The statuses that any route may refuse with, the gate and the server itself before the handler is asked."""
SEGMENT = r"^(?!\.{1,2}$)[!-.0-\[\]-~]+$"
"""What may stand for a placeholder in a path: printable ASCII that means itself."""
_PLACEHOLDER = re.compile(r"\{(\w+)(?::\w+)?\}")


async def openapi(request: Request) -> Response:
    """This document: every route with its parameters, bodies, answers and errors."""
    encoded: Callable[[bool], bytes] = request.app.state.document
    return Response(encoded(server_of(request).keys.open), media_type=JSON)


def encoder(routes: Sequence[Route]) -> Callable[[bool], bytes]:
    """The document as JSON, for a server that is open or not; made when it is first asked for."""

    def encoded(is_open: bool) -> bytes:
        return msgspec.json.encode(document(routes, is_open=is_open))

    return cache(encoded)


def document(routes: Sequence[Route], *, server: str = "/", is_open: bool = False) -> dict[str, Any]:
    """The document for a server at this address, relative to the document's own; an open server asks for no key."""
    schemas = _Schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route, name in zip(routes, _names(routes), strict=True):
        operation = _operation(route, schemas, is_open=is_open)
        paths.setdefault(template(route.path), {})[route.method.lower()] = {"operationId": name, **operation}
    tags = dict.fromkeys(route.tag for route in routes)
    refusals = sorted({status for route in routes for status in statuses(route)})
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Melete",
            "version": __version__,
            "description": ABOUT,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": server}],
        "tags": [{"name": tag, "description": TAGS[tag]} for tag in tags],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`server.api_key`, or a key of `melete serve keys add`; each route names the scope it needs.",
                }
            },
            "headers": {
                name: _header(name) for name in sorted({"X-Request-Id", *(n for r in routes for n in r.sends)})
            },
            "responses": {_refused(status): _refusal(status) for status in refusals},
            "schemas": schemas.components,
        },
    }


def template(path: str) -> str:
    """A route's path as the document has it, without the types of its placeholders."""
    return _PLACEHOLDER.sub(r"{\1}", path)


def statuses(route: Route) -> Sequence[int]:
    """Every status that a route may refuse with."""
    return sorted({*ALWAYS, *route.errors})


def _names(routes: Iterable[Route]) -> Sequence[str]:
    """A name for each route that no other has: its tag and its handler's name, numbered where two routes share both."""
    found: list[str] = []
    for route in routes:
        name = f"{route.tag}_{route.handler.__name__}"
        same = sum(1 for other in found if other.rpartition("_")[0] == name or other == name)
        found.append(f"{name}_{same + 1}" if same else name)
    return found


# ---- one operation -------------------------------------------------------------------------------------------------------


def _operation(route: Route, schemas: "_Schemas", *, is_open: bool) -> dict[str, Any]:
    text = cleandoc(route.handler.__doc__ or "")
    made: dict[str, Any] = {
        "tags": [route.tag],
        "summary": re.split(r"[;:.](?:\s|$)", text, maxsplit=1)[0],
        "description": text,
        "parameters": [*_in_path(route), *schemas.in_query(route), *(_in_header(name) for name in route.headers)],
        "responses": {
            str(route.status): _success(route, schemas),
            **({"204": {"description": route.nothing}} if route.nothing else {}),
            **{str(status): {"$ref": f"#/components/responses/{_refused(status)}"} for status in statuses(route)},
        },
        "security": _security(route, is_open=is_open),
    }
    if route.takes is not None:
        content: dict[str, Any] = {"schema": schemas.of(route.takes)}
        if route.example is not None:
            content["examples"] = dict(_examples(route))
        made["requestBody"] = {"required": not route.optional, "content": {JSON: content}}
    return made


def _examples(route: Route) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A route's example, and for one that answers whole or as a stream the same as a stream."""
    yield "plain", {"value": route.example}
    if route.stream and route.gives is not None:
        yield "streamed", {"value": {**route.example, "stream": True}}


def _security(route: Route, *, is_open: bool) -> Sequence[Mapping[str, Sequence[str]]]:
    if route.public:
        return [{}, {"bearer": []}]
    needed = {"bearer": [route.scope] if route.scope else []}
    return [{}, needed] if is_open else [needed]


def _in_path(route: Route) -> Iterator[Mapping[str, Any]]:
    parts = route.path.split("/")
    for before, part in pairwise(parts):
        if found := _PLACEHOLDER.fullmatch(part):
            about = f"The {found[1]} of the {before.removesuffix('s')}."
            yield {
                "name": found[1],
                "in": "path",
                "required": True,
                "description": about,
                "schema": _text(SEGMENT),
            }


def _in_header(name: str) -> Mapping[str, Any]:
    pattern, about = HEADERS[name]
    return {"name": name, "in": "header", "required": False, "description": about, "schema": _text(pattern)}


def _header(name: str) -> Mapping[str, Any]:
    pattern, about = HEADERS[name]
    return {"description": about, "schema": _text(pattern)}


def _text(pattern: str) -> Mapping[str, str]:
    return {"type": "string", "pattern": pattern} if pattern else {"type": "string"}


def _success(route: Route, schemas: "_Schemas") -> Mapping[str, Any]:
    content: dict[str, Any] = {}
    if route.gives is not None:
        content[JSON] = {"schema": schemas.of(route.gives)}
    for media in route.media:
        content[media] = {"schema": {"type": "string"}}
    if route.stream:
        content[EVENTS] = {"schema": _event(route, schemas)}
    names = ("X-Request-Id", *route.sends)
    made: dict[str, Any] = {
        "description": {201: "Made.", 202: "Begun.", 204: "Done."}.get(route.status, "The answer."),
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names},
    }
    return {**made, "content": content} if content else made


def _event(route: Route, schemas: "_Schemas") -> Mapping[str, Any]:
    """One server-sent event; in OpenAPI 3.1 the schema of a stream is that of each event in it."""
    told = [schemas.of(kind) for kind in (route.events, ErrorBody) if kind is not None]
    data: dict[str, Any] = {"contentMediaType": JSON, "contentSchema": {"anyOf": told}}
    if route.last:
        data = {"if": {"const": route.last}, "else": data}
    fields = {"id": {"type": "string"}, "event": {"type": "string"}, "data": {"type": "string", **data}}
    return {"type": "object", "properties": fields, "required": ["data"]}


def _refused(status: int) -> str:
    return f"Refused{status}"


def _refusal(status: int) -> Mapping[str, Any]:
    return {
        "description": REFUSALS[status],
        "headers": {"X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"}},
        "content": {JSON: {"schema": {"$ref": REF.format(name=ErrorBody.__name__)}}},
    }


# ---- schemas -------------------------------------------------------------------------------------------------------------


class _Schemas:
    """The schemas of all types that routes name, each once, under `components`."""

    def __init__(self, routes: Iterable[Route]) -> None:
        routes = tuple(routes)
        taken = [route.takes for route in routes if route.takes is not None]
        given = [each for route in routes for each in (route.gives, route.events) if each is not None]
        asked = [route.query for route in routes if route.query is not None]
        answered = structs_in((ErrorBody, *given))
        types = list(dict.fromkeys((*taken, *given, *asked, *answered)))
        found, self.components = msgspec.json.schema_components(types, ref_template=REF)
        self._of = dict(zip(types, found, strict=True))
        self._queries = {kind: self.components.pop(self._name(kind)) for kind in dict.fromkeys(asked)}
        asking = structs_in(taken)
        for kind in answered:
            if kind not in asking and not kind.__struct_config__.omit_defaults:
                self._complete(kind)

    def _name(self, kind: type[Struct]) -> str:
        return self._of[kind]["$ref"].rpartition("/")[2]

    def of(self, kind: Any) -> Mapping[str, Any]:
        """The schema of a type that a route names."""
        return self._of[kind]

    def in_query(self, route: Route) -> Iterator[Mapping[str, Any]]:
        """A route's query parameters."""
        if route.query is None:
            return
        schema = self._queries[route.query]
        for name, inner in schema["properties"].items():
            plain = _never_null(inner)
            made: dict[str, Any] = {"name": name, "in": "query", "required": name in schema.get("required", ())}
            if "description" in plain:
                made["description"] = plain.pop("description")
            yield {**made, "schema": plain}

    def _complete(self, kind: type[Struct]) -> None:
        """An answer has all its fields, also those that a request could leave out."""
        schema = self.components[self._name(kind)]
        properties = schema["properties"]
        optional = {f.encode_name for f in structs.fields(kind) if msgspec.UnsetType in get_args(f.type)}
        schema["required"] = [name for name in properties if name not in optional]


def _never_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter is left out where a field would be null."""
    made = {name: value for name, value in schema.items() if name != "default" or value is not None}
    choices = [choice for choice in made.pop("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        return {**choices[0], **made}
    return {"anyOf": choices, **made} if choices else made


def structs_in(hints: Iterable[Any]) -> Sequence[type[Struct]]:
    """The structs that types are made of, each once, in the order in which they are met."""
    seen: dict[type[Struct], None] = {}

    def visit(hint: Any) -> None:
        for inner in get_args(hint):
            visit(inner)
        if isclass(hint) and issubclass(hint, Struct) and hint not in seen:
            seen[hint] = None
            for field in structs.fields(hint):
                visit(field.type)

    for hint in hints:
        visit(hint)
    return tuple(seen)


ROUTES = (Route(method="GET", path="/openapi.json", handler=openapi, tag="server", scope="", gives=dict[str, Any]),)
