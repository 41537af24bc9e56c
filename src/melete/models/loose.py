"""Reading the JSON of servers, in which anything may stand anywhere: what is of another form counts as empty. Part: models."""

from typing import Any, Literal, cast

Json = dict[str, Any]
Stop = Literal["end", "tool_calls", "length", "content_filter", "other"]
"""Why an answer ended, whatever a wire calls it."""

MOST_TOKENS = 1_000_000_000
"""A larger count is none: some servers send what a number below zero becomes without a sign."""


def as_object(value: Any) -> Json:
    """The value where it is an object."""
    return cast(Json, value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value where it is a list."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_word(value: Any) -> str:
    """The value where it is a text."""
    return value if isinstance(value, str) else ""


def as_count(value: Any) -> int:
    """The value where it is a number of tokens that there can be."""
    return int(value) if isinstance(value, int | float) and 0 < value <= MOST_TOKENS else 0
