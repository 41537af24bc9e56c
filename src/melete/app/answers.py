"""Structured answers: a JSON Schema from a file, and answers checked against it. Part of the composition root."""

import re
import signal
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, cast

import msgspec

from melete.core.errors import UsageError
from melete.core.plugin import Lazy

LARGEST = 200_000
CHECK_SECONDS = 1.0
"""That checking an answer may take: a schema comes from anybody, and its patterns can be made to take for ever."""
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
            with _in_time():
                self._check(value)
        except _invalid.load() as error:
            raise ValueError(str(error).replace("data", "the answer", 1)) from error
        except TimeoutError as error:
            raise ValueError(
                "checking it takes too long: a pattern of its schema, or the schema, is too hard"
            ) from error
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


@contextmanager
def _in_time() -> Generator[None]:
    """Interrupt the block with TimeoutError when it takes too long; the main thread alone can be interrupted, others are not."""

    def late(*_: object) -> NoReturn:
        raise TimeoutError

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGALRM, late)
    timer = signal.setitimer(signal.ITIMER_REAL, CHECK_SECONDS)
    try:
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, *timer)
    finally:
        signal.signal(signal.SIGALRM, handler)


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"it refers to another document ({uri})")
