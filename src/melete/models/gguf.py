"""What the head of a GGUF file says about the model inside, read without loading it. Part: models, used by `local`."""

import mmap
import struct
from pathlib import Path
from typing import Any

from msgspec import Struct

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_KEYS = 100_000
"""More entries than this is no head but damage."""
STRING, ARRAY = 8, 9
FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
TOKENIZER = "tokenizer."
TEMPLATE = "tokenizer.chat_template"
HALF = 2
"""Bytes of one number in the cache of keys and values."""


class NotGgufError(ValueError):
    """The file is no GGUF file, or its head is damaged; the text says which."""


class Head(Struct, frozen=True, kw_only=True):
    """`context` is what the model was trained for, 0 where the file does not say; `tools` whether its template knows tools.

    `size` is the file's, and `per_token` what one token of context takes in memory; both in bytes.
    """

    architecture: str
    context: int
    tools: bool
    size: int
    per_token: int

    def memory(self, context: int) -> int:
        """How many bytes the model takes with a window of so many tokens."""
        return self.size + self.per_token * context


def read_head(path: Path) -> Head:
    """The head of a file; raises NotGgufError, or OSError when the file cannot be read."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise NotGgufError("it does not begin as a GGUF file does")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                values = _Reader(data).values()
            except (struct.error, IndexError, UnicodeDecodeError) as error:
                raise NotGgufError("its head is cut off or damaged") from error
            return _head(values, len(data))


def _head(values: dict[str, Any], size: int) -> Head:
    architecture = str(values.get("general.architecture", ""))

    def number(name: str) -> int:
        value = values.get(f"{architecture}.{name}", 0)
        return value if isinstance(value, int) and value > 0 else 0

    heads = number("attention.head_count")
    width = number("embedding_length") // heads if heads else 0
    of_keys = number("attention.key_length") or width
    of_values = number("attention.value_length") or width
    kept = number("attention.head_count_kv") or heads
    return Head(
        architecture=architecture,
        context=number("context_length"),
        tools="tools" in str(values.get(TEMPLATE, "")),
        size=size,
        per_token=number("block_count") * kept * (of_keys + of_values) * HALF,
    )


class _Reader:
    """Walks through the entries; a running out of bytes shows as struct.error or IndexError."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = len(MAGIC)

    def values(self) -> dict[str, Any]:
        """Every entry that is one number or text; lists are passed over."""
        version = self._number("<I")
        if version not in VERSIONS:
            raise NotGgufError(f"its version {version} is none that is known")
        self._number("<Q")
        count = self._number("<Q")
        if count > MOST_KEYS:
            raise NotGgufError("its head is damaged")
        found: dict[str, Any] = {}
        for _ in range(count):
            name = self._text()
            value = self._value(self._number("<I"), wanted=not name.startswith(TOKENIZER) or name == TEMPLATE)
            if value is not None:
                found[name] = value
        return found

    def _value(self, kind: int, *, wanted: bool) -> Any:
        if kind == ARRAY:
            self._pass_list()
            return None
        if kind == STRING:
            return self._text() if wanted else self._pass_text()
        return self._number(self._format(kind))

    def _format(self, kind: int) -> str:
        if kind not in FORMATS:
            raise NotGgufError(f"its head holds values of the unknown kind {kind}")
        return FORMATS[kind]

    def _number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return value

    def _text(self) -> str:
        end = self._at + 8 + self._length()
        text = self._data[self._at + 8 : end].decode()
        self._at = end
        return text

    def _pass_text(self) -> None:
        self._at += 8 + self._length()

    def _length(self) -> int:
        """The length of the text that begins here; raises IndexError when the file ends before it does."""
        (length,) = struct.unpack_from("<Q", self._data, self._at)
        if self._at + 8 + length > len(self._data):
            raise IndexError
        return length

    def _pass_list(self) -> None:
        kind, count = self._number("<I"), self._number("<Q")
        if kind == STRING:
            for _ in range(count):
                self._pass_text()
        else:
            self._at += count * struct.calcsize(self._format(kind))
