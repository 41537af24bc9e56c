"""JSON Schema cut down to the part of OpenAPI's that older Gemini servers read. Part: models, the gemini wire's.

References are written out, choices become `anyOf`, a constant becomes an `enum` of one; what cannot be said is left out, so a
reduced schema allows more than the whole one, and what comes back is checked against the whole one as always.
"""

from typing import Any, cast

import msgspec

Json = dict[str, Any]
KEPT = frozenset({
    "title", "description", "nullable", "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties",
    "minimum", "maximum", "pattern",
})  # fmt: skip
FORMATS = {"float", "double", "int32", "int64", "date-time"}
LARGEST = 2000
"""How many schemas one may hold when all its references are written out; what lies beyond may be anything."""


def reduced(schema: msgspec.Raw) -> Json:
    """The schema in the older form; one that is no object allows anything."""
    whole = _object(msgspec.json.decode(schema))
    return _Reducer(whole).reduce(whole, ())


class _Reducer:
    """Reduces one schema; `within` are the references that a part of it stands in, so that no circle is walked twice."""

    def __init__(self, root: Json) -> None:
        self._root = root
        self._left = LARGEST

    def reduce(self, value: Any, within: tuple[str, ...]) -> Json:
        """The part in the older form."""
        schema, within = self._resolved(_object(value), within)
        self._left -= 1
        kinds = [kind for kind in _list(schema.get("type")) if kind != "null"]
        choices = [_object(c) for c in (*_list(schema.get("anyOf")), *_list(schema.get("oneOf")))]
        nullable = "null" in _list(schema.get("type")) or any(c.get("type") == "null" for c in choices)
        choices = [c for c in choices if c.get("type") != "null"] or [
            {"type": kind} for kind in kinds if len(kinds) > 1
        ]
        made: Json = {name: value for name, value in schema.items() if name in KEPT}
        if nullable:
            made["nullable"] = True
        if len(choices) == 1:
            return made | self.reduce(choices[0], within)
        if choices:
            return made | {"anyOf": [self.reduce(choice, within) for choice in choices]}
        return made | self._typed(schema, str(kinds[0]) if kinds else _guessed(schema), within)

    def _typed(self, schema: Json, kind: str, within: tuple[str, ...]) -> Json:
        """What belongs to one type alone."""
        made: Json = {"type": kind.upper()}
        if schema.get("format") in FORMATS:
            made["format"] = schema["format"]
        values = [schema["const"]] if "const" in schema else _list(schema.get("enum"))
        if values and kind == "string" and all(isinstance(value, str) for value in values):
            made["enum"] = values
        if kind == "array":
            made["items"] = self.reduce(schema.get("items"), within)
        properties = _object(schema.get("properties"))
        if kind == "object" and properties and self._left > 0:
            made["properties"] = {name: self.reduce(one, within) for name, one in properties.items()}
            if required := [name for name in _list(schema.get("required")) if name in properties]:
                made["required"] = required
        return made

    def _resolved(self, schema: Json, within: tuple[str, ...]) -> tuple[Json, tuple[str, ...]]:
        """The schema with what it refers to and what it is all of put in."""
        while isinstance(reference := schema.get("$ref"), str):
            target = self._found(reference)
            if reference in within or self._left <= 0:
                target = {"type": target.get("type", "object")}
            within = (*within, reference)
            schema = target | {name: value for name, value in schema.items() if name != "$ref"}
        for part in map(_object, _list(schema.get("allOf"))):
            more, within = self._resolved(part, within)
            properties = _object(schema.get("properties")) | _object(more.get("properties"))
            required = [*_list(schema.get("required")), *_list(more.get("required"))]
            schema = more | schema | {"properties": properties, "required": required}
        return schema, within

    def _found(self, reference: str) -> Json:
        place: Any = self._root
        for name in reference.removeprefix("#").strip("/").split("/") if reference != "#" else ():
            place = _object(place).get(name.replace("~1", "/").replace("~0", "~"))
        return _object(place)


def _guessed(schema: Json) -> str:
    """The type of a schema that names none."""
    if schema.get("properties"):
        return "object"
    if "items" in schema:
        return "array"
    value: Any = schema["const"] if "const" in schema else next(iter(_list(schema.get("enum"))), "")
    return "boolean" if isinstance(value, bool) else "number" if isinstance(value, int | float) else "string"


def _object(value: Any) -> Json:
    return cast(Json, value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return cast(list[Any], value) if isinstance(value, list) else [value]
