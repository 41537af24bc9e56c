"""Putting an answer of the `openai-responses` wire together out of its events, or out of the whole of it. Part: models.

The answer is a list of items. Each grows from its pieces, is replaced by the server's finished form of it, and goes back in
the next request as it came. What servers leave out of their last word (some send it without any output) is taken from before.
"""

from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from melete.core.event import CallDelta, Delta, TextDelta, ThinkingDelta
from melete.core.message import Message, Part, Text, Thinking, ToolCall, Usage, Wire
from melete.models.loose import Json, Stop, as_list, as_object, as_word
from melete.models.openai_calls import unique
from melete.models.openai_reply import counted
from melete.models.responses_request import WIRE

STOPS: dict[str, Stop] = {
    "completed": "end",
    "stop": "end",
    "max_output_tokens": "length",
    "max_tokens": "length",
    "length": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
}
STREAMS = {
    "response.output_text": ("message", "text"),
    "response.refusal": ("message", "refusal"),
    "response.reasoning_summary_text": ("reasoning", "summary"),
    "response.reasoning_text": ("reasoning", "thought"),
    "response.function_call_arguments": ("function_call", "arguments"),
}
"""The events that bring an item's text: which type of item it is, and which of its texts."""
SAID_IN = {"message": "content", "function_call": "arguments"}
"""Where an item says what it says."""
ENDS = ("response.completed", "response.incomplete", "response.done")
BROKEN = ("failed", "cancelled")
BREAK = "\n\n"


class _Item:
    """One item as far as it has come: `pieces` by name and number of its texts; `final` once the server has finished it."""

    def __init__(self, place: int, body: Json, *, call: int) -> None:
        self.place = place
        self.body = body
        self.call = call
        self.final = False
        self.announced = False
        self.pieces: dict[tuple[str, int], list[str]] = {}

    @property
    def kind(self) -> str:
        return as_word(self.body.get("type"))

    def texts(self, *names: str) -> list[str]:
        """Its texts of these names in order."""
        body = self.body if self.final else self.finished()
        return [text for (name, _), text in texts_of(body).items() if name in names and text]

    def finished(self) -> Json:
        """The provider's form of it; put together from the pieces where the server never sent it whole."""
        if self.final or not self.pieces:
            return self.body
        joined = {key: "".join(pieces) for key, pieces in sorted(self.pieces.items(), key=lambda piece: piece[0][1])}
        if self.kind == "function_call":
            return {**self.body, "arguments": joined.get(("arguments", 0), "")}
        if self.kind == "reasoning":
            summary = [{"type": "summary_text", "text": t} for (name, _), t in joined.items() if name == "summary"]
            thought = [{"type": "reasoning_text", "text": t} for (name, _), t in joined.items() if name == "thought"]
            return {**self.body, "summary": summary, **({"content": thought} if thought else {})}
        content: list[Json] = [
            {"type": "refusal", "refusal": text}
            if name == "refusal"
            else {"type": "output_text", "annotations": [], "text": text}
            for (name, _), text in joined.items()
        ]
        return {**self.body, "role": "assistant", "status": "completed", "content": content}


class ReplyAssembler:
    """Takes the events of one answer in order, gives back deltas, and at the end the message."""

    def __init__(self, *, taken: set[str], provider: str = "") -> None:
        self.finish = ""
        self.began = False
        self.model = ""
        self.id = ""
        self.usage = Usage()
        self._taken = taken
        self._provider = provider
        self._items: list[_Item] = []
        self._calls = 0
        self._spoke: dict[str, tuple[int, int]] = {}
        self._thinks: dict[int, str] = {}

    def told(self, name: str, value: Json) -> Any:
        """The error in an event, or in an answer that failed."""
        kind = value.get("type")
        if kind == "error" or name == "error":
            return value.get("error") or value
        answer = as_object(value.get("response")) or value
        if kind in ("response.failed", "response.cancelled") or answer.get("status") in BROKEN:
            return answer.get("error") or "the provider broke off"
        return value.get("error")

    def document(self, value: Json) -> Iterable[Delta] | None:
        """Take a whole answer; None without `output`."""
        if not isinstance(value.get("output"), list):
            return None
        self.began = True
        return [*self._answer(value)]

    def feed(self, value: Json) -> Iterator[Delta]:
        """Take one event and yield what is new in it."""
        kind = as_word(value.get("type"))
        self.began = self.began or kind.startswith("response.")
        stem, _, what = kind.rpartition(".")
        if stem in STREAMS:
            yield from self._text(*STREAMS[stem], value, done=what == "done")
        elif stem == "response.output_item":
            yield from self._item_event(value, done=what == "done")
        elif kind in ENDS:
            yield from self._answer(as_object(value.get("response")), incomplete=kind == "response.incomplete")
        elif answer := as_object(value.get("response")):
            self._note(answer)

    @property
    def empty(self) -> bool:
        """Whether neither text nor a call has come."""
        return not any(
            item.kind == "function_call" or "".join(item.texts("text", "refusal")).strip() for item in self._items
        )

    @property
    def refused(self) -> bool:
        """Whether the server gave its content filter as the reason to stop."""
        return STOPS.get(self.finish) == "content_filter"

    def message(self) -> Message:
        """The finished message with the provider's own items inside; calls stand last among its parts."""
        parts: list[Part] = []
        calls: list[ToolCall] = []
        body: list[Json] = []
        taken = set(self._taken)
        for item in self._items:
            form = item.finished()
            match item.kind:
                case "function_call":
                    call = _call(form, taken)
                    taken.add(call.id)
                    calls.append(call)
                    form = {**form, "call_id": call.id, "name": call.name, "arguments": call.arguments}
                case "reasoning":
                    if thought := BREAK.join(item.texts(self._thinks.get(item.place, "summary"))):
                        parts.append(Thinking(text=thought))
                case "message":
                    if text := "".join(item.texts("text", "refusal")):
                        parts.append(Text(text=text))
                case _:
                    pass
            body.append(form)
        wire = Wire(name=WIRE, body=msgspec.Raw(msgspec.json.encode(body)), provider=self._provider)
        return Message(role="assistant", parts=(*parts, *calls), wire=wire)

    @property
    def stop(self) -> Stop:
        """The reason to stop in our words, calls left aside."""
        stop = STOPS.get(self.finish, "other")
        refused = not self._calls and any(item.texts("refusal") for item in self._items)
        return "content_filter" if refused and stop in ("end", "other") else stop

    # ---- events -----------------------------------------------------------------------------------------------------

    def _note(self, answer: Json) -> None:
        self.model = as_word(answer.get("model")) or self.model
        self.id = as_word(answer.get("id")) or self.id
        if usage := as_object(answer.get("usage")):
            self.usage = counted(usage)

    def _answer(self, answer: Json, *, incomplete: bool = False) -> Iterator[Delta]:
        """Take the whole answer: the truth, as long as it says anything that has not been said before."""
        self._note(answer)
        output = [cast(Json, one) for one in as_list(answer.get("output")) if isinstance(one, dict)]
        if output and (self.empty or any(_says(one) for one in output)):
            before, self._items = self._items, []
            kinds = {as_word(body.get("type")) for body in output}
            for place, body in enumerate(output):
                item = _matching(before, place, body) or self._new(place, body)
                before = [one for one in before if one is not item]
                self._items.append(item)
                yield from self._finish(item, body)
            self._items += [one for one in before if one.final and one.kind not in kinds and _says(one.body)]
        status = as_word(answer.get("status")) or ("incomplete" if incomplete else "completed")
        if status == "incomplete":
            self.finish = as_word(as_object(answer.get("incomplete_details")).get("reason")) or status
        elif status == "completed":
            self.finish = status

    def _item_event(self, value: Json, *, done: bool) -> Iterator[Delta]:
        body = as_object(value.get("item"))
        kind = as_word(body.get("type"))
        if not kind:
            return
        item = self._find(value, kind, item_id=as_word(body.get("id")))
        if item is None:
            item = self._add(value, body)
        if done:
            yield from self._finish(item, body)
        elif kind == "function_call":
            yield from self._announce(item, body)

    def _text(self, kind: str, name: str, value: Json, *, done: bool) -> Iterator[Delta]:
        """A piece of one of an item's texts, or, when it is done, the whole of it."""
        item_id = as_word(value.get("item_id"))
        item = self._find(value, kind, item_id=item_id)
        if item is None:
            item = self._add(value, {"type": kind, **({"id": item_id} if item_id else {})})
        number = _number(value.get("summary_index" if name == "summary" else "content_index"))
        key = (name, 0 if number is None or name == "arguments" else number)
        if not done:
            yield from self._grow(item, key, as_word(value.get("delta")))
            return
        whole = value.get(name if name in ("refusal", "arguments") else "text")
        yield from self._rest(item, key, as_word(whole))

    def _finish(self, item: _Item, body: Json) -> Iterator[Delta]:
        """Take an item's finished form; what of it has not been shown is shown now."""
        if item.kind == "function_call":
            yield from self._announce(item, body)
        for key, text in texts_of(body).items():
            yield from self._rest(item, key, text)
        left_out = SAID_IN.get(item.kind)
        if left_out and not any(texts_of(body).values()):
            body = {**body, left_out: item.finished().get(left_out)}
        item.body, item.final = body, True

    def _announce(self, item: _Item, body: Json) -> Iterator[Delta]:
        """Show a call's id and name, once."""
        if not item.announced and (name := as_word(body.get("name"))):
            item.announced = True
            yield CallDelta(index=item.call, id=as_word(body.get("call_id")), name=name)

    def _rest(self, item: _Item, key: tuple[str, int], whole: str) -> Iterator[Delta]:
        shown = "".join(item.pieces.get(key, ()))
        if len(whole) > len(shown) and whole.startswith(shown):
            yield from self._grow(item, key, whole[len(shown) :])

    def _grow(self, item: _Item, key: tuple[str, int], text: str) -> Iterator[Delta]:
        """Add to one of an item's texts and show it; each further item, and each thought, is a paragraph of its own."""
        if not text:
            return
        item.pieces.setdefault(key, []).append(text)
        name, number = key
        if name == "arguments":
            yield CallDelta(index=item.call, arguments=text)
        elif name in ("text", "refusal"):
            yield TextDelta(text=self._paragraph("text", (item.place, 0)) + text)
        elif self._thinks.setdefault(item.place, name) == name:
            # Servers may send the same thoughts twice, as a summary and in full: the first kind is the one that is shown.
            yield ThinkingDelta(text=self._paragraph("thinking", (item.place, number)) + text)

    def _paragraph(self, stream: str, at: tuple[int, int]) -> str:
        """What stands between the last piece of a stream and one at this place."""
        last = self._spoke.get(stream)
        self._spoke[stream] = at
        return "" if last in (None, at) else BREAK

    # ---- items ------------------------------------------------------------------------------------------------------

    def _find(self, value: Json, kind: str, *, item_id: str) -> _Item | None:
        """The item that an event is about: by its number, its id, or as the last of its type."""
        place = _number(value.get("output_index"))
        if place is not None:
            return next((i for i in self._items if i.place == place and i.kind == kind), None)
        same = [i for i in self._items if i.kind == kind]
        if item_id:
            return next((i for i in same if i.body.get("id") == item_id), None)
        return same[-1] if same and not same[-1].final else None

    def _add(self, value: Json, body: Json) -> _Item:
        place = _number(value.get("output_index"))
        item = self._new(len(self._items) if place is None else place, body)
        self._items.append(item)
        self._items.sort(key=lambda one: one.place)
        return item

    def _new(self, place: int, body: Json) -> _Item:
        item = _Item(place, body, call=self._calls)
        self._calls += item.kind == "function_call"
        return item


def texts_of(body: Json) -> dict[tuple[str, int], str]:
    """An item's texts by name and number."""
    if body.get("type") == "function_call":
        return {("arguments", 0): _arguments(body.get("arguments"))}
    found: dict[tuple[str, int], str] = {}
    for number, part in enumerate(map(as_object, as_list(body.get("summary")))):
        found["summary", number] = as_word(part.get("text"))
    content = body.get("content")
    if isinstance(content, str):
        return {**found, ("text", 0): content}
    for number, part in enumerate(map(as_object, as_list(content))):
        if body.get("type") == "reasoning":
            found["thought", number] = as_word(part.get("text"))
        elif "refusal" in part:
            found["refusal", number] = as_word(part["refusal"])
        else:
            found["text", number] = as_word(part.get("text"))
    return found


def _says(body: Json) -> bool:
    kind = body.get("type")
    return kind == "function_call" or (kind == "message" and any(texts_of(body).values()))


def _matching(items: list[_Item], place: int, body: Json) -> _Item | None:
    """The item, as it was streamed, of which this is the finished form: ids may be new ones, and places may have moved."""
    same = [item for item in items if item.kind == body.get("type")]
    named = [item for item in same if body.get("id") and item.body.get("id") == body["id"]]
    return next(iter([*named, *(item for item in same if item.place == place), *same]), None)


def _call(form: Json, taken: set[str]) -> ToolCall:
    call_id = unique(as_word(form.get("call_id")) or as_word(form.get("id")), taken)
    return ToolCall(id=call_id, name=as_word(form.get("name")), arguments=_arguments(form.get("arguments")))


def _arguments(value: Any) -> str:
    return (value or "") if isinstance(value, str) or value is None else msgspec.json.encode(value).decode()


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None
