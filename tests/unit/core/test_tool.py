"""A tool is a function: its signature is the schema, its docstring what the model reads."""

import json
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Struct

from melete.core.tool import ToolContext, compact_schema, tool


class Item(Struct, frozen=True, kw_only=True):
    """Inside."""

    id: str
    state: Literal["open", "done"] = "open"


@tool(parallel=True, effect="write", limit=5, deadline=2.0, deferred=True)
async def sample(
    ctx: ToolContext,
    *,
    path: Annotated[str, msgspec.Meta(description="Where.")],
    items: list[Item] | None = None,
    limit: int = 5,
    title: str = "",
) -> dict[str, Any]:
    """Do it.

    In two lines."""
    return {"path": path, "items": items, "limit": limit, "title": title}


def test_the_schema_follows_the_signature_in_few_bytes() -> None:
    assert json.loads(bytes(sample.schema)) == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where."},
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "description": "Inside.",
                    "properties": {
                        "id": {"type": "string"},
                        "state": {"type": "string", "enum": ["done", "open"], "default": "open"},
                    },
                    "required": ["id"],
                },
            },
            "limit": {"type": "integer", "default": 5},
            "title": {"type": "string"},
        },
        "required": ["path"],
    }


def test_traits_name_and_words() -> None:
    assert (sample.name, sample.about) == ("sample", "Do it.\n\nIn two lines.")
    assert (sample.parallel, sample.effect, sample.limit, sample.deadline, sample.deferred) == (
        True,
        "write",
        5,
        2.0,
        True,
    )
    assert (sample.shown.name, sample.shown.about, sample.shown.parameters) == (
        sample.name,
        sample.about,
        sample.schema,
    )


def test_a_parameter_called_title_is_no_title() -> None:
    class Titled(Struct, frozen=True, kw_only=True):
        title: str
        default: int = 3

    schema = compact_schema(Titled)
    assert set(schema["properties"]) == {"title", "default"}
    assert schema["required"] == ["title"]


def test_another_name_can_be_given() -> None:
    @tool(name="other")
    async def one(ctx: ToolContext) -> dict[str, Any]:
        """One."""
        return {}

    assert one.name == "other"


def test_what_is_no_async_function_is_refused() -> None:
    with pytest.raises(TypeError):
        tool()(len)  # pyright: ignore
