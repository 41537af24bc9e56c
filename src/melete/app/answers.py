"""Structured answers: a JSON Schema from a file, and answers checked against it. Part of the composition root."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

import msgspec

from melete.core.errors import UsageError
from melete.core.plugin import Lazy

LARGEST = 200_000
FENCE = "```"
MISREAD = (
    ValueError, TypeError, AttributeError, KeyError, OSError, SyntaxError, RecursionError, re.error,
)  # fmt: skip
"""What reading something that is no schema may raise."""

_compile: Lazy[Callable[..., Callable[[Any], Any]]] = Lazy("fastjsonschema:compile")
_invalid: Lazy[type[ValueError]] = Lazy("fastjsonschema:JsonSchemaException")


class AnswerSchema:
    """What an answer has to be: `schema` as it is sent to the model, compact JSON."""

    def __init__(self, schema: Mapping[str, Any], *, name: str = "the schema") -> None:
        self.schema = msgspec.Raw(msgspec.json.encode(schema))
        try:
            # A reference to another document would be fetched: a schema stands alone here.
            self._check = _compile.load()(
                dict(schema), handlers=dict.fromkeys(("http", "https", "file", "ftp"), _refuse)
            )
        except MISREAD as error:
            raise UsageError(
                f"{name} is not a JSON Schema: {error}", next="check it against json-schema.org"
            ) from error

    def read(self, text: str) -> str:
        """The answer as JSON and nothing round it; raises ValueError that says in words what is wrong with it."""
        plain = text.strip()
        if plain.startswith(FENCE) and plain.endswith(FENCE) and "\n" in plain:
            plain = plain.partition("\n")[2].removesuffix(FENCE).strip()
        try:
            value: Any = msgspec.json.decode(plain)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ValueError(f"it is not JSON ({error})") from error
        try:
            self._check(value)
        except _invalid.load() as error:
            raise ValueError(str(error).replace("data", "the answer", 1)) from error
        except RecursionError as error:
            raise ValueError("it is nested too deeply, or its schema refers to itself without an end") from error
        return plain

    def complaint(self, text: str) -> str:
        """What is wrong with an answer, empty when nothing is."""
        try:
            self.read(text)
        except ValueError as error:
            return str(error)
        return ""


def read_schema(path: Path) -> AnswerSchema:
    """The schema in a file; raises UsageError for one that is none."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"cannot read the schema {path}: {error.strerror}", next="check the path") from error
    if len(data) > LARGEST:
        raise UsageError(f"the schema {path} is larger than {LARGEST // 1000} kB", next="make it smaller")
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UsageError(f"the schema {path} is not JSON: {error}", next="check its brackets and commas") from error
    if not isinstance(value, dict):
        raise UsageError(f"the schema {path} is not a JSON object", next='begin with {"type": "object", …}')
    return AnswerSchema(cast("dict[str, Any]", value), name=str(path))


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"it refers to another document ({uri})")
