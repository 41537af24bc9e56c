"""The settings as a flat table of dotted keys: their types in words, text turned into values, and the nearest right key."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from melete.core.errors import ConfigError
from melete.core.plugin import Lazy

_close_matches: Lazy[Callable[..., list[str]]] = Lazy("difflib:get_close_matches")
_WHOLE = re.compile(r"[+-]?\d+(_\d+)*")
_FRACTION = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_WORDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list such as [one, two]",
    "object": "a section of names and values",
    "null": "null",
}
_BOOL = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_NULL = {"null", "~"}
_SECRET = re.compile(
    r"((^|[_.])(key|pat|credentials?)|(api_?key|token|secret|password|passwd))(_\d{1,2})?$", re.IGNORECASE
)


class Key(Struct, frozen=True, kw_only=True):
    """One setting: its dotted `name`, `type` and default; `about` is its one line of documentation."""

    name: str
    type: Any
    default: Any
    about: str

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the value alone."""
        return msgspec.json.schema(self.type)

    @property
    def expects(self) -> str:
        """What a value has to be, in words: `a whole number of at least 1`."""
        return _in_words(self.schema)

    @property
    def optional(self) -> bool:
        """Whether null is a value."""
        return self.accepts(None)

    @property
    def is_list(self) -> bool:
        """Whether the value is a list of words."""
        return self.schema.get("type") == "array"

    @property
    def is_map(self) -> bool:
        """Whether the value is a section of free names."""
        return self.schema.get("type") == "object"

    @property
    def is_text(self) -> bool:
        """Whether a quoted text is a value."""
        kinds = [self.schema, *self.schema.get("anyOf", [])]
        return any(kind.get("type") == "string" or "enum" in kind for kind in kinds)

    def accepts(self, value: object) -> bool:
        """Whether `value` is one that this key may have."""
        try:
            msgspec.convert(value, self.type)
        except msgspec.ValidationError:
            return False
        return True

    def value(self, given: object, *, where: str) -> Any:
        """`given` as this key's value; texts are read as a person means them. Raises ConfigError that begins with `where`."""
        try:
            plain = self._read(given) if isinstance(given, str) else given
            return msgspec.convert(plain, self.type, strict=not self.is_list)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            shown = given if isinstance(given, str) else msgspec.json.encode(given).decode()
            why = f" ({error})" if self.is_map or "[{" in shown else ""
            raise ConfigError(
                f"{where}: {self.name} must be {self.expects}, not {shown[:80]!r}{why}", next=self.about
            ) from error

    def _read(self, text: str) -> object:
        if text.lstrip().startswith(("{", "[{", '["')) and (self.is_map or self.is_list):
            return msgspec.json.decode(text)
        if self.is_list:
            return [part.strip() for part in text.strip("[] ").split(",") if part.strip()]
        if text.lower() in _NULL and self.optional:
            return None
        if self.schema.get("type") == "boolean":
            return _BOOL.get(text.lower(), text)
        return text if self.is_text else _number(text)


def key_table(settings: type[Struct], prefix: str = "") -> dict[str, Key]:
    """Every setting below a struct of structs, by its dotted name, in the order of definition."""
    return {key.name: key for key in _walk(settings, prefix)}


def _walk(settings: type[Struct], prefix: str) -> Iterator[Key]:
    for field in structs.fields(settings):
        name = f"{prefix}{field.name}"
        kind: Any = field.type
        if isinstance(kind, type) and issubclass(kind, Struct):
            yield from _walk(kind, f"{name}.")
        else:
            about = msgspec.json.schema(kind).get("description", "")
            made = field.default_factory() if callable(field.default_factory) else field.default
            yield Key(name=name, type=kind, default=made, about=about)


def sections(names: Sequence[str] | Mapping[str, object]) -> set[str]:
    """The dotted names that hold other names."""
    return {name[:at] for name in names for at, letter in enumerate(name) if letter == "."}


def looks_secret(name: str) -> bool:
    """Whether a name says that its value is a key or a password, or one of several (`…_KEY_2`)."""
    return bool(_SECRET.search(name))


def nearest_word(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The known word that is most like `word`, empty when none is alike enough (1 is the same, 0 is anything)."""
    return next(iter(_close_matches.load()(word, list(known), n=1, cutoff=cutoff)), "")


def nearest(name: str, keys: Mapping[str, Key]) -> str:
    """The right key that was probably meant, empty when none comes near."""
    leaf = name.rpartition(".")[2]
    known = [*keys, *sections(keys)]
    siblings = _siblings(name, keys)
    leaves: dict[str, str] = {}
    for key in keys:
        leaves.setdefault(key.rpartition(".")[2], key)
    for table, word in ((siblings, leaf), (leaves, leaf), ({k: k for k in known}, name)):
        if found := nearest_word(word, table):
            return table[found]
    return ""


def _siblings(name: str, keys: Mapping[str, Key]) -> dict[str, str]:
    parent = name.rpartition(".")[0]
    return {k.rpartition(".")[2]: k for k in (*keys, *sections(keys)) if k.rpartition(".")[0] == parent}


def unknown_key(name: str, keys: Mapping[str, Key], *, where: str) -> ConfigError:
    """The error for a key that does not exist, naming the nearest right one."""
    beside = nearest_word(name.rpartition(".")[2], _siblings(name, keys), cutoff=0.8)
    if looks_secret(name) and not beside:
        return ConfigError(
            f"{where}: {name} is not a setting; keys and passwords never stand in settings",
            next="put the key into .env beside config.yaml, as MELETE_API_KEY=… or under the vendor's own name",
        )
    meant = nearest(name, keys)
    return ConfigError(
        f"{where}: unknown key {name}",
        next=f"did you mean {meant}?" if meant else "`melete config schema` lists all keys",
    )


def untyped(text: str) -> Any:
    """An unquoted word as YAML's core schema reads it: null, a truth value, a number, or itself."""
    if text.lower() in (*_NULL, ""):
        return None
    return {"true": True, "false": False}.get(text.lower(), _number(text))


def _number(text: str) -> float | str:
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _FRACTION.fullmatch(text) else text


def _in_words(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_in_words(kind) for kind in schema["anyOf"])
    if "enum" in schema:
        return "one of " + ", ".join(str(word) or "(empty)" for word in schema["enum"])
    kind = schema.get("type", "")
    return f"{_WORDS.get(kind, 'text')}{_bounds(schema)}"


def _bounds(schema: Mapping[str, Any]) -> str:
    words = {"minimum": "of at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    found = [f"{word} {schema[bound]:g}" for bound, word in words.items() if bound in schema]
    return f" {' and '.join(found)}" if found else ""
