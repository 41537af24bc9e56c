"""Known secret values out of texts. Pure; patterns for unknown ones are no business of this module."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote, quote_plus

SHORTEST = 8


class Redactor:
    """Puts `[redacted:NAME]` for each known secret value, as it is, URL-encoded or in base64, also inside longer base64.

    Values shorter than 8 characters are left alone: they would hit ordinary text.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._names: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None
        self.learn(secrets)

    def learn(self, secrets: Mapping[str, str]) -> None:
        """Take out these as well from now on; what was known stays known."""
        before = len(self._names)
        for name, value in secrets.items():
            if len(value) >= SHORTEST and value not in self._names:
                for form in _forms(value):
                    self._names.setdefault(form, name)
        if len(self._names) > before:
            longest_first = sorted(self._names, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def __call__(self, text: str) -> str:
        """The text without the secrets; the same object when it holds none."""
        if self._pattern is None or not any(form in text for form in self._names):  # ten times faster than the pattern
            return text
        return self._pattern.sub(lambda match: f"[redacted:{self._names[match[0]]}]", text)


def _forms(value: str) -> Iterator[str]:
    yield value
    if stripped := value.strip():
        yield stripped
    yield quote(value, safe="", errors="surrogateescape")  # variables may hold bytes that are no text
    yield quote_plus(value, errors="surrogateescape")
    quoted = json.dumps(value, ensure_ascii=False)[1:-1]
    yield from (quoted, quoted.replace("/", "\\/"), json.dumps(value)[1:-1])
    yield value.encode("unicode_escape").decode()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for shift in range(3):
            yield from _inside_base64(encode(b"\0" * shift + value.encode("utf-8", "surrogateescape")).decode(), shift)


def _inside_base64(encoded: str, shift: int) -> Iterator[str]:
    """The characters that the value alone decides, whatever stands before it (`shift` bytes) and behind it."""
    first = (0, 2, 3)[shift]
    body = encoded.rstrip("=")
    core = body[first : len(body) - 1] if body != encoded else body[first:]
    if len(core) >= SHORTEST:
        yield core
    if shift == 0:
        yield encoded
