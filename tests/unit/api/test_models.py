"""Which models a server offers: its own first, then those that its settings name and that can be opened."""

from pathlib import Path
from typing import Any

from tests.story.homes import configure

from melete.app.settings import load
from melete.surfaces.api.models import Model, offered


def found(home: Path, environ: dict[str, str] | None = None, **settings: Any) -> list[Model]:
    """What a server of this home offers."""
    configure(home, **settings)
    return list(offered(load(environ={"HOME": str(home), "MELETE_HOME": str(home / ".melete"), **(environ or {})})))


def names(models: list[Model]) -> list[str]:
    return [model.id for model in models]


def test_without_a_model_the_servers_own_name_is_there_all_the_same(own_home: Path) -> None:
    assert found(own_home) == [Model(id="melete", object="model", created=0, owned_by="melete")]


def test_the_servers_own_is_there_under_both_names_with_what_is_known_of_it(own_home: Path) -> None:
    own, named = found(own_home, {"ANTHROPIC_API_KEY": "sk-ant-1"}, model={"name": "anthropic/claude-sonnet-4-5"})
    assert (own.id, named.id) == ("melete", "anthropic/claude-sonnet-4-5")
    assert (own.owned_by, named.owned_by) == ("melete", "anthropic")
    assert own.context_length == named.context_length
    assert own.context_length is not None
    assert own.context_length >= 200_000


def test_fallbacks_and_the_cheaper_model_are_offered_where_they_can_be_opened(own_home: Path) -> None:
    models = found(
        own_home,
        {"OPENAI_API_KEY": "sk-1"},
        model={
            "name": "openai/gpt-5",
            "fallbacks": [
                "openai/gpt-5-mini",
                "anthropic/claude-sonnet-4-5",
                {"name": "gpt-4o", "provider": "openai"},
                {"name": "elsewhere", "base_url": "http://localhost:1/v1"},
                "openai/gpt-5",
            ],
            "routing": {"enabled": True, "model": "openai/gpt-5-nano"},
        },
    )
    assert names(models) == ["melete", "openai/gpt-5", "openai/gpt-5-mini", "openai/gpt-4o", "openai/gpt-5-nano"]


def test_models_of_named_providers_are_offered_where_their_names_are_known(own_home: Path) -> None:
    own = {"base_url": "http://localhost:9/v1"}
    models = found(own_home, model={"name": "house/own"}, providers={"house": own, "mistral": own})
    assert names(models)[:2] == ["melete", "house/own"]
    assert len(models) > 5
    assert all(name.startswith("mistral/") for name in names(models)[2:])
    assert len(set(names(models))) == len(models)
