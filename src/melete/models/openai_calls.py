"""Putting tool calls together from a stream whose server numbers and names them well, badly or not at all. Part: models."""

from typing import Any

import msgspec

from melete.core.event import CallDelta
from melete.core.message import ToolCall

Json = dict[str, Any]

SHORT = 200
"""Characters of arguments that may be read with every piece; servers that repeat a call's name make that necessary."""
ENDS = ("}", "]", '"')


class _Call:
    """A call as far as it has come."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.size = 0
        self.more: Json = {}
        self.more_function: Json = {}

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    @property
    def whole(self) -> bool:
        """Whether the arguments are complete JSON; long ones are only read where they end as such."""
        if self.size > SHORT and not self.pieces[-1].rstrip().endswith(ENDS):
            return False
        try:
            msgspec.json.decode(self.arguments)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return False
        return True


class CallAssembler:
    """Takes pieces of calls; `finished` gives them in the order in which they began, under ids that are unique."""

    def __init__(self, *, taken: set[str]) -> None:
        self._taken = taken
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def feed(self, piece: Json) -> CallDelta | None:
        """Take one piece; give back what is new in it, or None when it only repeats."""
        function: Json = piece["function"] if isinstance(piece.get("function"), dict) else {}
        name = function["name"] if isinstance(function.get("name"), str) else ""
        arguments = _text(function.get("arguments"))
        call_id = piece["id"] if isinstance(piece.get("id"), str) else ""
        index = piece["index"] if isinstance(piece.get("index"), int) else None
        call = self._find(index, call_id, name)
        if call is not None and _begins_another(call, call_id, name, arguments=arguments):
            call = None
        elif (
            call is not None
            and arguments
            and call.id
            and call_id == call.id
            and len(arguments) == call.size
            and arguments == call.arguments
            and call.whole
        ):
            return None
        if call is None:
            call = _Call(len(self._calls))
            self._calls.append(call)
        if index is not None:
            self._at[index] = call
        call.id = call.id or call_id
        call.name = _name(call, name)
        if arguments:
            call.pieces.append(arguments)
            call.size += len(arguments)
        call.more.update((k, v) for k, v in piece.items() if k not in ("index", "id", "function") and v is not None)
        call.more_function.update(
            (k, v) for k, v in function.items() if k not in ("name", "arguments") and v is not None
        )
        return CallDelta(index=call.place, id=call_id, name=name, arguments=arguments)

    def finished(self) -> list[tuple[ToolCall, Json]]:
        """Each call beside the provider's own form of it."""
        found: list[tuple[ToolCall, Json]] = []
        taken = set(self._taken)
        for call in self._calls:
            call_id = unique(call.id, taken)
            taken.add(call_id)
            arguments = call.arguments
            function = {"name": call.name, "arguments": arguments, **call.more_function}
            body = {"id": call_id, "type": "function", "function": function} | call.more
            found.append((ToolCall(id=call_id, name=call.name, arguments=arguments), body))
        return found

    def _find(self, index: int | None, call_id: str, name: str) -> _Call | None:
        """The call that a piece continues as far as its number and id tell."""
        if index is not None:
            return self._at.get(index)
        if call_id:
            known = next((c for c in self._calls if c.id == call_id), None)
            if known is not None or name:
                return known
        elif name and self._calls and self._calls[-1].name:
            last = self._calls[-1]
            return last if last.arguments and not last.whole and name == last.name else None
        return self._calls[-1] if self._calls else None


def _begins_another(call: _Call, call_id: str, name: str, *, arguments: str) -> bool:
    """Whether a piece under a known number is the start of another call: some servers number every call 0."""
    if not name or not call.name:
        return False
    if call_id and call.id and call_id != call.id:
        return not call.arguments or call.whole
    if call_id and call_id == call.id:
        return False
    return bool(arguments) and call.whole


def _name(call: _Call, name: str) -> str:
    """The call's name: sent once, repeated in every piece, or in pieces before the arguments begin."""
    if not call.name or not name or name == call.name or call.pieces:
        return call.name or name
    return name if name.startswith(call.name) else call.name + name


def _text(arguments: Any) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return msgspec.json.encode(arguments).decode()


def unique(call_id: str, taken: set[str]) -> str:
    """The id, or one made from it that is not taken."""
    if call_id and call_id not in taken:
        return call_id
    number = 2 if call_id else 1
    stem = call_id or "call"
    while f"{stem}_{number}" in taken:
        number += 1
    return f"{stem}_{number}"
