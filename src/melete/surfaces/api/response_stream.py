"""A response made of the events of its runs: what is streamed of it, and how it stands. Pure.

Live, it is given facts and deltas; from the log, facts alone: the same items come out, under the same numbers.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import structs

from melete.app.answers import AnswerSchema
from melete.core.event import (
    Answered,
    Asked,
    Event,
    Question,
    Reply,
    Retried,
    RunEnded,
    RunStarted,
    Stop,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
)
from melete.core.message import Text, Thinking, Usage
from melete.surfaces.api.chat_failures import LIMITS
from melete.surfaces.api.response_events import (
    ArgumentsAdded,
    ArgumentsDone,
    Broken,
    CallBegun,
    CallDone,
    CallFailed,
    Completed,
    Created,
    EndedEarly,
    Failed,
    InProgress,
    ItemAdded,
    ItemDone,
    PartAdded,
    PartDone,
    ResponseEvent,
    ThoughtAdded,
    ThoughtDone,
    ThoughtWords,
    ThoughtWordsDone,
    WordsAdded,
    WordsDone,
)
from melete.surfaces.api.response_numbers import Numbers, Open
from melete.surfaces.api.response_types import (
    ConversationId,
    ErrorText,
    Incomplete,
    InputDetails,
    ItemStatus,
    OutputDetails,
    OutputItem,
    OutputMessage,
    OutputTextPart,
    Reasoning,
    ReasoningItem,
    Response,
    ResponseFailure,
    ResponseRun,
    ResponseUsage,
    Status,
    SummaryText,
    TextConfig,
    ToolFailure,
    ToolItem,
    Wish,
)

ABOUT = "response"
"""The key of `RunStarted.about` under which a run that was asked for as a response has its `Wish`."""
BREAK = "\n\n"
"""Behind a remark that the model makes before it goes on, so that the texts of a response read well in a row."""
NOTHING_NEW = 2**62
"""As the last number that was read: no event is of interest."""
CODES = {
    "RateLimitError": "rate_limit_exceeded",
    "QuotaError": "insufficient_quota",
    "ContextOverflowError": "context_length_exceeded",
    "TooLargeError": "context_length_exceeded",
    "ContentFilterError": "invalid_prompt",
}
"""How OpenAI calls the causes of a failure."""
REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}
UNDECIDED = ("unknown", "cancelled", "not_run")
"""Outcomes of calls that did not come to their end."""
Whole = Created | InProgress | Completed | EndedEarly | Failed
_wish = msgspec.json.Decoder(Wish)


def wish_of(started: RunStarted) -> Wish:
    """What was asked for beside the input; that of a run which was not asked for as a response is empty."""
    try:
        return _wish.decode(started.about.get(ABOUT, "{}"))
    except msgspec.DecodeError:
        return Wish()


def response_id(run: str) -> str:
    """How a run is called as a response."""
    return f"resp_{run}"


class Writer(Numbers):
    """Makes the events of a response out of those of its runs, the first of which is `run`, and the response as it stands.

    Events are given up to the end of the run `last`; only what is new behind the number `after` is returned. With `schema`, words
    are not told before they are known to have its form.
    """

    def __init__(self, run: str, *, after: int = -1, schema: AnswerSchema | None = None) -> None:
        super().__init__(after)
        self.run = run
        self.last = run
        self.started: RunStarted | None = None
        self.ended: RunEnded | None = None
        self.wish = Wish()
        self.seq = 0
        """The number of the last fact that it was told of."""
        self.given_up = ""
        """Why there will be no end, where nobody works on it any more."""
        self._schema = schema
        self._writing = False
        self._segments: list[tuple[type[Text] | type[Thinking], str]] = []
        self._message: Open | None = None
        self._thought: Open | None = None
        self._thoughts = 0
        self._thought_of: list[ReasoningItem] = []
        self._answers = 0
        self._added = 0
        self._items: list[OutputItem] = []
        self._calls: dict[str, tuple[int, int]] = {}
        self._questions: dict[str, Question] = {}
        self._cut = ""
        self._usage = Usage()
        self._steps = 0
        self._usd: float | None = None

    def take(self, event: Event) -> Sequence[ResponseEvent]:
        """What an event of one of the runs adds to the response."""
        self.seq = max(self.seq, event.seq)
        match event:
            case TextDelta(text=text) if self._schema is None:
                self._write(Text, text)
            case ThinkingDelta(text=text):
                self._write(Thinking, text)
            case Reply():
                self._reply(event)
            case Retried():
                self._void()
            case ToolEnded():
                self._returned(event)
            case Asked(question=question):
                self._questions[question.id] = question
                self._tell(InProgress)
            case Answered() if self._questions.pop(event.question, None):
                self._tell(InProgress)
            case RunStarted():
                self._begin(event)
            case RunEnded():
                self._end(event)
            case _:
                pass
        return self.told()

    def broken(self, *, code: str, message: str) -> ResponseEvent:
        """What a stream ends with that cannot go on."""
        self.next_block()
        return Broken(sequence_number=self.number(), code=code, message=message)

    def _tell(self, kind: type[Whole]) -> None:
        """An event that holds the response as it stands."""
        if (number := self.number()) > self.after:
            self.add(kind(sequence_number=number, response=self.response()))

    # ---- an answer of the model as it is written -------------------------------------------------------------------

    def _attempt(self) -> None:
        """Begin an answer of the model, unless one was begun."""
        if not self._writing:
            self.next_block()
            self._writing, self._segments, self._thoughts, self._thought_of = True, [], 0, []
            self._answers += 1

    def _write(self, kind: type[Text] | type[Thinking], text: str) -> None:
        if not text:
            return
        self._attempt()
        if self._segments and self._segments[-1][0] is kind:
            self._segments[-1] = (kind, self._segments[-1][1] + text)
        else:
            self._segments.append((kind, text))
        if kind is Thinking:
            self.spell(ThoughtWords, self._thinking(), text)
            return
        self._think_no_more("completed")
        self.spell(WordsAdded, self._saying(), text)

    def _item(self, kind: str) -> Open:
        self._added += 1
        return Open(id=f"{kind}_{self.run}_{self._answers}", index=self._added - 1)

    def _saying(self) -> Open:
        if (one := self._message) is None:
            one = self._message = self._item("msg")
            item = OutputMessage(id=one.id, status="in_progress", content=())
            self.say(ItemAdded, output_index=one.index, item=item)
            self.say(PartAdded, item_id=one.id, output_index=one.index, part=OutputTextPart(text=""))
        return one

    def _thinking(self) -> Open:
        if (one := self._thought) is None:
            self._thoughts += 1
            one = self._thought = self._item("rs")
            one.id += f"_{self._thoughts}"
            self.say(ItemAdded, output_index=one.index, item=ReasoningItem(id=one.id, summary=(), status="in_progress"))
            self.say(ThoughtAdded, item_id=one.id, output_index=one.index, part=SummaryText(text=""))
        return one

    def _think_no_more(self, status: ItemStatus, *, kept: bool = True) -> None:
        one, self._thought = self._thought, None
        if one is None:
            return
        part = SummaryText(text=one.text)
        self.say(ThoughtWordsDone, item_id=one.id, output_index=one.index, text=one.text)
        self.say(ThoughtDone, item_id=one.id, output_index=one.index, part=part)
        item = ReasoningItem(id=one.id, summary=(part,), status=status)
        self.say(ItemDone, output_index=one.index, item=item)
        if kept:
            self._thought_of.append(item)

    def _say_no_more(self, text: str, status: ItemStatus, *, phase: Any = None, kept: bool = True) -> None:
        one, self._message = self._message, None
        if one is None:
            return
        part = OutputTextPart(text=text)
        self.say(WordsDone, item_id=one.id, output_index=one.index, text=text)
        self.say(PartDone, item_id=one.id, output_index=one.index, part=part)
        item = OutputMessage(id=one.id, status=status, content=(part,), phase=phase)
        self.say(ItemDone, output_index=one.index, item=item)
        if kept:
            self._items.append(item)

    def _void(self) -> None:
        """What was shown of the answer that is being written does not count: the model is asked again, or will not answer."""
        self._attempt()
        self.next_block()
        self._think_no_more("incomplete", kept=False)
        if self._message:
            self._say_no_more(self._message.text, "incomplete", kept=False)
        self._writing = False

    # ---- facts -----------------------------------------------------------------------------------------------------

    def _begin(self, started: RunStarted) -> None:
        if self.started is None:
            self.started, self.wish = started, wish_of(started)
            self._tell(Created)
        else:  # a server goes on with what another one had to leave
            self._void()
            self.next_block()
        self._tell(InProgress)

    def _reply(self, reply: Reply) -> None:
        """An answer of the model is whole: what was not shown of it follows, then its ends, then its calls."""
        self._attempt()
        read = None if reply.message.calls else self._read(reply.message.text)
        text, remark = reply.message.text if read is None else read, read is None
        whole = list(_segments(reply, as_thought=remark and self._schema is not None))
        if self._schema is not None and not remark:
            whole = [*(one for one in whole if one[0] is Thinking), (Text, text)]
        for kind, rest in _rest(self._segments, whole):
            self._write(kind, rest)
        text = "" if remark and self._schema else text
        if text and self._message is None:  # what was shown is something else
            self.spell(WordsAdded, self._saying(), text)
        if text and remark:
            self.spell(WordsAdded, self._saying(), BREAK)
            text += BREAK
        self.next_block()
        self._think_no_more("completed")
        self._items += self._thought_of
        status = "incomplete" if reply.stop in REASONS else "completed"
        phase = "commentary" if remark else "final_answer"
        self._say_no_more(text, status if text else "incomplete", phase=phase, kept=bool(text))
        self._cut = REASONS.get(reply.stop, "")
        self._call(reply)
        self._writing = False

    def _read(self, text: str) -> str | None:
        """The answer in the form that was asked for; None where it has not that form."""
        try:
            return self._schema.read(text) if self._schema else text
        except ValueError:
            return None

    def _call(self, reply: Reply) -> None:
        for number, call in enumerate(reply.message.calls, 1):
            one = self._item("mcp")
            one.id += f"_{number}"
            at = {"item_id": one.id, "output_index": one.index}
            item = ToolItem(id=one.id, name=call.name, arguments="", status="in_progress")
            self.say(ItemAdded, output_index=one.index, item=item)
            self.say(CallBegun, **at)
            self.say(ArgumentsAdded, **at, delta=call.arguments)
            self.say(ArgumentsDone, **at, arguments=call.arguments)
            self._calls[call.id] = (len(self._items), one.index)
            self._items.append(structs.replace(item, arguments=call.arguments))

    def _returned(self, ended: ToolEnded) -> None:
        place, index = self._calls.pop(ended.result.call, (-1, -1))
        if place < 0:
            return
        item, content = self._items[place], ended.result.content
        failed = ended.outcome != "ok" or ended.result.error
        status = "completed" if not failed else "incomplete" if ended.outcome in UNDECIDED else "failed"
        item = structs.replace(
            item,
            status=status,
            output=content,
            error=ToolFailure(content=(ErrorText(text=content),)) if failed else None,
        )
        self._items[place] = item
        self.say(CallFailed if failed else CallDone, item_id=item.id, output_index=index)
        self.say(ItemDone, output_index=index, item=item)

    def _end(self, ended: RunEnded) -> None:
        self._void()
        self.next_block()
        self._questions.clear()
        self._usage, self._steps = self._usage + ended.usage, self._steps + ended.steps
        if ended.cost_usd is not None:
            self._usd = (self._usd or 0.0) + ended.cost_usd
        if ended.run != self.last:  # it was cut off, and another goes on with it
            return
        self.ended = ended
        self._last_words(ended)
        status = self.status
        kinds = {"completed": Completed, "failed": Failed}
        self._tell(kinds.get(status, EndedEarly))

    def _last_words(self, ended: RunEnded) -> None:
        """An answer that stands in no reply of these runs, or was none because it had not the form."""
        said = [item for item in self._items if isinstance(item, OutputMessage)]
        text = (self._read(ended.text) or ended.text).strip()
        told = said[-1].content[0].text.strip() if said else ""
        if ended.stop in (Stop.FAILED, Stop.CANCELLED) or text in ("", told):
            return
        self.spell(WordsAdded, self._saying(), text)
        self._say_no_more(text, "completed", phase="final_answer")

    # ---- the response ----------------------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """How far it is."""
        ended = self.ended
        if ended is None:
            return "failed" if self.given_up else "in_progress"
        if ended.stop == Stop.DONE:
            return "incomplete" if self._cut else "completed"
        if ended.stop == Stop.CANCELLED:
            return "cancelled"
        silent = ended.stop in LIMITS and not ended.text.strip()
        return "failed" if ended.stop == Stop.FAILED or silent else "incomplete"

    def response(self) -> Response:
        """The response as it stands; raises ValueError before its run has begun."""
        started, wish, ended, status = self.started, self.wish, self.ended, self.status
        if started is None:
            raise ValueError("the run has not begun")
        return Response(
            id=response_id(self.run),
            created_at=_seconds(started.at),
            completed_at=_seconds(ended.at) if ended and status == "completed" else None,
            status=status,
            background=wish.background,
            error=self._failure(status),
            incomplete_details=self._incomplete(status),
            instructions=wish.instructions,
            max_output_tokens=wish.max_output_tokens,
            model=started.model,
            output=tuple(self._items),
            parallel_tool_calls=wish.parallel_tool_calls,
            previous_response_id=wish.previous or None,
            conversation=ConversationId(id=wish.conversation) if wish.conversation else None,
            reasoning=Reasoning(effort=wish.effort, summary=wish.summary),
            store=wish.store,
            temperature=wish.temperature,
            text=TextConfig(format=wish.format),
            top_p=wish.top_p,
            truncation=wish.truncation,
            usage=_usage(self._usage) if ended else None,
            user=wish.user,
            safety_identifier=wish.safety_identifier,
            prompt_cache_key=wish.prompt_cache_key,
            metadata=wish.metadata,
            melete=self._ran(started),
        )

    def _ran(self, started: RunStarted) -> ResponseRun:
        ended = self.ended
        return ResponseRun(
            session=started.session,
            run=self.last,
            stop=ended.stop if ended else None,
            steps=self._steps,
            cost_usd=self._usd,
            error=ended.error if ended else None,
            questions=tuple(self._questions.values()),
        )

    def _failure(self, status: Status) -> ResponseFailure | None:
        if status != "failed":
            return None
        if self.ended is None:
            return ResponseFailure(code="server_error", message=self.given_up)
        cause = "ContextOverflowError" if self.ended.stop == Stop.CONTEXT_FULL else self.ended.cause
        cause = "QuotaError" if self.ended.stop == Stop.OUT_OF_BUDGET else cause
        what = self.ended.error or f"the run ended without an answer ({self.ended.stop})"
        return ResponseFailure(code=CODES.get(cause, "server_error"), message=what)

    def _incomplete(self, status: Status) -> Incomplete | None:
        if status != "incomplete" or self.ended is None:
            return None
        if self.ended.stop == Stop.DONE:
            return Incomplete(reason=self._cut)  # pyright: ignore[reportArgumentType] - one of REASONS
        steps = self.ended.stop in (Stop.OUT_OF_STEPS, Stop.LOOPING)
        return Incomplete(reason="max_messages" if steps else "max_output_tokens")


def _segments(reply: Reply, *, as_thought: bool) -> Iterator[tuple[type[Text] | type[Thinking], str]]:
    """The thoughts and words of an answer in order, as they are shown; words further on begin a paragraph."""
    kind: type[Text] | type[Thinking] | None = None
    parts: list[str] = []
    words = False
    for part in reply.message.parts:
        if not isinstance(part, Text | Thinking) or not part.text:
            continue
        mine = Thinking if as_thought else type(part)
        if mine is not kind and kind is not None:
            yield kind, BREAK.join(parts)
            parts = []
        if mine is Text and words and not parts:
            parts = [""]  # the break before it
        kind, words = mine, words or mine is Text
        parts.append(part.text)
    if kind is not None:
        yield kind, BREAK.join(parts)


def _rest(
    shown: Sequence[tuple[type[Text] | type[Thinking], str]], whole: Sequence[tuple[type[Text] | type[Thinking], str]]
) -> Sequence[tuple[type[Text] | type[Thinking], str]]:
    """What of the whole was not shown; nothing where something else was."""
    if not shown:
        return whole
    last = len(shown) - 1
    if len(whole) <= last or list(shown[:last]) != list(whole[:last]):
        return ()
    (kind, text), (same, full) = shown[last], whole[last]
    if kind is not same or not full.startswith(text):
        return ()
    return [(kind, full[len(text) :]), *whole[last + 1 :]]


def _usage(usage: Usage) -> ResponseUsage:
    """Tokens as OpenAI counts them: those from the cache belong to the input, those of reasoning to the output."""
    read = usage.input + usage.cache_read + usage.cache_write
    return ResponseUsage(
        input_tokens=read,
        input_tokens_details=InputDetails(cached_tokens=usage.cache_read, cache_write_tokens=usage.cache_write),
        output_tokens=usage.output,
        output_tokens_details=OutputDetails(reasoning_tokens=usage.reasoning),
        total_tokens=read + usage.output,
    )


def _seconds(at: datetime) -> int:
    return int(at.timestamp())
