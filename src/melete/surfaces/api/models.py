"""`/v1/models`: the names under which models may be asked for, the server's own first."""

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from melete.app.catalog import choose_other, model_spec
from melete.app.modelbook import known_models
from melete.app.sections import Fallback
from melete.app.settings import Loaded
from melete.core.errors import ConfigError
from melete.core.model import Capabilities
from melete.surfaces.api.answers import answer, server_of
from melete.surfaces.api.chat_request import OWN
from melete.surfaces.api.errors import ApiError
from melete.surfaces.api.route import Route


class Model(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model that may be asked for; `context_length` and `max_output_tokens` are in tokens, where they are known."""

    id: str
    object: Literal["model"]
    created: Annotated[int, Meta(description="Always 0: when a model was made is not known here.")]
    owned_by: str
    context_length: int | None = None
    max_output_tokens: int | None = None


class ModelList(Struct, frozen=True, kw_only=True):
    """The models, the server's own first."""

    data: tuple[Model, ...]
    object: Literal["list"] = "list"


async def show_all(request: Request) -> Response:
    """The models that may be asked for: `melete` is the server's own, then those that its settings name."""
    return answer(ModelList(data=tuple(offered(server_of(request).app.loaded))))


async def show(request: Request) -> Response:
    """One model."""
    name = request.path_params["id"]
    found = next((model for model in offered(server_of(request).app.loaded) if model.id == name), None)
    if found is None:
        next_ = "see GET /v1/models"
        raise ApiError(
            404, "model_not_found", f"no model is offered under the name {name!r}", param="model", next=next_
        )
    return answer(found)


def offered(loaded: Loaded) -> Iterator[Model]:
    """The models by name, each once: the default, and what the settings name and can be opened."""
    try:
        yield _model(OWN, OWN, model_spec(loaded).can)
    except ConfigError:  # a request for it is told why
        yield _model(OWN, OWN, Capabilities())
    seen = {OWN, ""}
    for name in _named(loaded):
        if name in seen:
            continue
        seen.add(name)
        try:
            spec = choose_other(loaded, name).spec
        except ConfigError:
            continue
        yield _model(name, spec.provider or OWN, spec.can)


def _named(loaded: Loaded) -> Iterator[str]:
    """The names in the settings, the nearest first."""
    settings = loaded.settings
    yield settings.model.name.strip()
    for fallback in settings.model.fallbacks:
        if isinstance(fallback, str):
            yield fallback
        elif (name := _by_provider(fallback)) is not None:
            yield name
    if settings.model.routing.enabled:
        yield settings.model.routing.model.strip()
    for provider in settings.providers:
        yield from (f"{provider}/{row.name}" for row in known_models(loaded.home, provider))


def _by_provider(fallback: Fallback) -> str | None:
    """The name by which a fallback can be asked for; None for one with an address of its own."""
    if fallback.base_url or fallback.key_variable:
        return None
    return f"{fallback.provider}/{fallback.name}" if fallback.provider else fallback.name


def _model(name: str, owner: str, can: Capabilities) -> Model:
    return Model(
        id=name,
        object="model",
        created=0,
        owned_by=owner,
        context_length=can.context if can.known else None,
        max_output_tokens=can.max_output if can.known else None,
    )


ROUTES = (
    Route(method="GET", path="/v1/models", handler=show_all, tag="models", gives=ModelList),
    Route(method="GET", path="/v1/models/{id:path}", handler=show, tag="models", gives=Model, errors=(404,)),
)
