"""Putting an answer of the `gemini` wire together from its chunks. Part: models.

Two things grow side by side: what the loop reads (text, thinking, calls) and the model's own content, part by part, to be sent
back as it is. Pieces of one text become one part again, unless a signature stands between them: it belongs to its part.
"""

from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from melete.core.event import CallDelta, Delta, TextDelta, ThinkingDelta
from melete.core.message import Message, Part, Text, Thinking, ToolCall, Usage, Wire
from melete.models.gemini_request import UNNAMED, WIRE
from melete.models.loose import Json, Stop, as_count, as_list, as_object, as_word

MALFORMED = frozenset({"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"})
NO_REASON = "FINISH_REASON_UNSPECIFIED"
UNSIGNED_CALL = "MISSING_THOUGHT_SIGNATURE"
UNSIGNED_WORDS = "a call in the request is missing a thought_signature"
FILTERS = (
    "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "ESCALATION", "PUP_LIMITED_DISABLED",
    "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
)  # fmt: skip
STOPS: dict[str, Stop] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    **dict.fromkeys(FILTERS, "content_filter"),
}
PLAIN = frozenset({"text", "thought"})


class _Kept:
    """A part of the model's content as far as it has come; `pieces` of text are joined at the end."""

    def __init__(self, part: Json, text: str) -> None:
        self.part = part
        self.pieces = [text]
        self.plain = part.keys() <= PLAIN

    def whole(self) -> Json:
        """The part as it is sent back."""
        return {**self.part, "text": "".join(self.pieces)} if "text" in self.part else self.part


class ReplyAssembler:
    """Takes the chunks of one answer in order, gives back deltas, and at the end the message."""

    def __init__(self, *, taken: set[str], provider: str = "") -> None:
        self.finish = ""
        self.began = False
        self.model = ""
        self.id = ""
        self._provider = provider
        self._taken = taken
        self._blocked = False
        self._counts: Json = {}
        self._content: Json = {}
        self._kept: list[_Kept] = []
        self._said: list[tuple[type[Text | Thinking], list[str]] | ToolCall] = []
        self._calls = 0

    def told(self, name: str, value: Json) -> Any:
        """The error in a chunk; one kind comes as a reason to stop, before anything was said."""
        unsigned = not self._said and _finish(value) == UNSIGNED_CALL
        told = {"code": 400, "message": UNSIGNED_WORDS} if unsigned else value.get("error")
        return told or (value if name == "error" else None)

    def document(self, value: Json) -> Iterable[Delta] | None:
        """Take a whole answer; None without candidates or a reason why there are none."""
        if not isinstance(value.get("candidates"), list) and not as_object(value.get("promptFeedback")):
            return None
        deltas = list(self.feed(value))
        self.finish = self.finish or "STOP"
        return deltas

    def feed(self, value: Json) -> Iterator[Delta]:
        """Take one chunk and yield what is new in it."""
        self.began = self.began or not value.keys().isdisjoint(("candidates", "promptFeedback", "usageMetadata"))
        self.model = as_word(value.get("modelVersion")) or self.model
        self.id = as_word(value.get("responseId")) or self.id
        self._counts |= as_object(value.get("usageMetadata"))
        if reason := as_word(as_object(value.get("promptFeedback")).get("blockReason")):
            self._blocked, self.finish = True, reason
        candidates = as_list(value.get("candidates"))
        if not candidates:
            return
        candidate = as_object(candidates[0])
        content = as_object(candidate.get("content"))
        self._content |= content
        for part in as_list(content.get("parts")):
            yield from self._part(as_object(part))
        self.finish = _finish(value) or self.finish

    @property
    def empty(self) -> bool:
        """Whether neither text nor a call has come."""
        return not self._calls and not self._text.strip()

    @property
    def refused(self) -> bool:
        """Whether a content filter stopped the answer, or kept the question from the model."""
        return self._blocked or STOPS.get(self.finish.upper()) == "content_filter"

    @property
    def usage(self) -> Usage:
        """The five classes out of the counts; the server says them anew with every chunk."""
        counts = self._counts
        prompt = as_count(counts.get("promptTokenCount")) + as_count(counts.get("toolUsePromptTokenCount"))
        read = as_count(counts.get("cachedContentTokenCount"))
        reasoning = as_count(counts.get("thoughtsTokenCount"))
        return Usage(
            input=max(0, prompt - read),
            output=as_count(counts.get("candidatesTokenCount")) + reasoning,
            cache_read=read,
            reasoning=reasoning,
        )

    def message(self) -> Message:
        """The finished message with the model's own content inside.

        Words that led to a call which the server could not read are left out: the answer counts as an empty one and is asked
        for again.
        """
        void = self.finish in MALFORMED and not self._calls
        kept = [one.whole() for one in self._kept if not void or one.part.get("thought")]
        parts: list[Part] = []
        for said in self._said:
            if isinstance(said, ToolCall):
                parts.append(said)
            elif not void or said[0] is Thinking:
                parts.append(said[0](text="".join(said[1])))
        body = msgspec.Raw(msgspec.json.encode({**self._content, "role": "model", "parts": kept}))
        return Message(role="assistant", parts=tuple(parts), wire=Wire(name=WIRE, body=body, provider=self._provider))

    @property
    def stop(self) -> Stop:
        """The reason to stop in our words, calls left aside."""
        return STOPS.get(self.finish.upper(), "other")

    @property
    def _text(self) -> str:
        return "".join("".join(said[1]) for said in self._said if not isinstance(said, ToolCall) and said[0] is Text)

    def _part(self, part: Json) -> Iterator[Delta]:
        if (call := part.get("functionCall")) is not None:
            if isinstance(call, dict):
                yield self._call(part, cast(Json, call))
            return
        text = as_word(part.get("text"))
        self._keep(part, text)
        if not text:
            return
        kind = Thinking if part.get("thought") else Text
        last = self._said[-1] if self._said else None
        if isinstance(last, tuple) and last[0] is kind:
            last[1].append(text)
        else:
            self._said.append((kind, [text]))
        yield ThinkingDelta(text=text) if kind is Thinking else TextDelta(text=text)

    def _keep(self, part: Json, text: str) -> None:
        one = _Kept(part, text)
        last = self._kept[-1] if self._kept else None
        if last and last.plain and one.plain and bool(last.part.get("thought")) == bool(part.get("thought")):
            last.pieces.append(text)
        elif text or not one.plain:
            self._kept.append(one)

    def _call(self, part: Json, call: Json) -> CallDelta:
        """Keep a call, which comes whole; one without an id gets one of ours, which the API is never told."""
        given = as_word(call.get("id"))
        if given.startswith(UNNAMED):  # one that is ours is none of the server's
            given = ""
        name = _unique(given, self._taken)
        self._taken.add(name)
        args: Any = call.get("args")
        arguments = msgspec.json.encode({} if args is None else args).decode()
        made = ToolCall(id=name, name=as_word(call.get("name")), arguments=arguments)
        if call.get("id") != (name if given else None):
            call = {field: value for field, value in call.items() if field != "id"} | ({"id": name} if given else {})
            part = {**part, "functionCall": call}
        self._kept.append(_Kept(part, ""))
        self._said.append(made)
        self._calls += 1
        return CallDelta(index=self._calls - 1, id=made.id, name=made.name, arguments=arguments)


def _finish(value: Json) -> str:
    """The reason to stop that a chunk gives."""
    reason = next((as_word(as_object(one).get("finishReason")) for one in as_list(value.get("candidates"))), "")
    return "" if reason == NO_REASON else reason


def _unique(given: str, taken: set[str]) -> str:
    if given and given not in taken:
        return given
    number, stem = (2, f"{given}_") if given else (1, UNNAMED)
    while f"{stem}{number}" in taken:
        number += 1
    return f"{stem}{number}"
