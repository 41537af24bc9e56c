"""A run as the chunks of a streamed chat completion: its texts as one answer, and beside it what else happens. Pure."""

from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from melete.core.event import (
    Answered,
    Asked,
    Event,
    Reply,
    Retried,
    RunEnded,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
)
from melete.core.message import Usage
from melete.surfaces.api.chat_types import (
    ChatChunk,
    ChatUsage,
    ChunkChoice,
    CompletionDetails,
    Delta,
    Finish,
    Happened,
    PromptDetails,
    Ran,
)

BREAK = "\n\n"
"""Between the texts of two steps."""
DONE = b"data: [DONE]\n\n"
LONGEST_ARGUMENTS = 1_000
"""Characters of a call's arguments up to which a chunk shows them."""
UNUSED = msgspec.UNSET
_encode = msgspec.json.Encoder().encode


class Answer:
    """The text of a stream as it grows: pieces go in as the model writes them, and what is to be sent comes out.

    What was sent cannot be taken back. Where the model is asked again in mid-answer, as much of the new answer as is the same
    word for word is not sent twice; where it differs, it follows whole, behind a blank line, and `void` is the number of
    characters before it that do not count any more.
    """

    def __init__(self) -> None:
        self.sent = ""
        self.void = 0
        self._step = False
        self._attempt = ""
        self._visible = ""
        self._again = False

    def add(self, piece: str) -> str:
        """A piece of the answer that the model is writing."""
        self._attempt += piece
        if not self._again:
            self._visible += piece
            return self._send(piece)
        if self._visible.startswith(self._attempt):
            return ""
        if not self._attempt.startswith(self._visible):
            return self._anew()
        new = self._attempt[len(self._visible) :]
        self._visible, self._again = self._attempt, False
        return self._send(new)

    def again(self) -> None:
        """The model is asked again: what it wrote of this answer is void."""
        self._attempt = ""
        self._again = bool(self._visible)

    def end(self, text: str) -> str:
        """The model has written `text`: what of it is still to be sent."""
        missing = text[len(self._attempt) :] if text.startswith(self._attempt) else ""
        rest = self.add(missing) if missing else ""
        if self._again and self._attempt and self._attempt != self._visible:
            rest += self._anew()
        self._step, self._attempt, self._visible, self._again = False, "", "", False
        return rest

    def _anew(self) -> str:
        """The answer that takes the place of what was sent."""
        self.void = len(self._visible)
        self._visible, self._again = self._attempt, False
        return self._send(BREAK + self._attempt)

    def _send(self, text: str) -> str:
        if not text:
            return ""
        if not self._step and self.sent.strip():
            text = BREAK + text
        self._step = True
        self.sent += text
        return text


class Chunks:
    """Makes the chunks of one stream out of the events of its run.

    With `whole`, the text is not sent before it is finished and checked. `read` makes the answer's text of the run's, `redact`
    takes known secrets out.
    """

    def __init__(
        self,
        *,
        redact: Callable[[str], str],
        read: Callable[[str], str] = str,
        whole: bool = False,
        counted: bool = False,
    ) -> None:
        self.answer = Answer()
        self.told = ""
        """The text as it was sent."""
        self.finish: Finish = "stop"
        self._redact = redact
        self._read = read
        self._whole = whole
        self._usage = None if counted else UNUSED
        self._counted = counted
        self._head = ("", 0, "")

    def begin(self, started: RunStarted) -> bytes:
        """The first chunk."""
        self._head = (completion_id(started.run), seconds(started.at), started.model)
        return self._chunk(Delta(role="assistant", content=""))

    def of(self, event: Event) -> Iterator[bytes]:
        """The chunks of an event; none for most."""
        match event:
            case TextDelta(text=text):
                yield from self._text("" if self._whole else self.answer.add(text), seq=event.seq)
            case ThinkingDelta(text=text):
                yield self._chunk(Delta(reasoning_content=self._redact(text)))
            case Reply():
                self.finish = finish_of(event)
                yield from self._text("" if self._whole else self.answer.end(event.message.text), seq=event.seq)
            case Retried():
                self.answer.again()
                yield self._beside(Happened(type="retried", seq=event.seq, text=event.reason))
            case _:
                if (happened := _happened(event)) is not None:
                    yield self._beside(happened)

    def end(self, ended: RunEnded) -> Iterator[bytes]:
        """The last chunks of a run that gave an answer."""
        if self._whole:
            yield from self._text(self.answer.end(self._read(ended.text)), seq=ended.seq)
        finish = "length" if ended.stop != "done" else self.finish
        choice = ChunkChoice(delta=Delta(), finish_reason=finish)
        told = Happened(type="run.ended", seq=ended.seq, ran=ran(ended, self._redact))
        yield self._frame((choice,), melete=told)
        if self._counted:
            yield self._frame((), usage=usage_of(ended.usage))
        yield DONE

    def _text(self, text: str, *, seq: int) -> Iterator[bytes]:
        if self.answer.void:
            yield self._beside(Happened(type="text.void", seq=seq, void=self.answer.void))
            self.answer.void = 0
        if text:
            shown = self._redact(text)
            self.told += shown
            yield self._chunk(Delta(content=shown))

    def _chunk(self, delta: Delta) -> bytes:
        return self._frame((ChunkChoice(delta=delta),))

    def _beside(self, happened: Happened) -> bytes:
        told = msgspec.structs.replace(
            happened,
            text=self._redact(happened.text),
            arguments=self._redact(happened.arguments),
            choices=tuple(map(self._redact, happened.choices)),
        )
        return self._frame((ChunkChoice(delta=Delta()),), melete=told)

    def _frame(
        self,
        choices: tuple[ChunkChoice, ...],
        *,
        melete: Happened | msgspec.UnsetType = UNUSED,
        usage: ChatUsage | None = None,
    ) -> bytes:
        id_, created, model = self._head
        chunk = ChatChunk(
            id=id_, created=created, model=model, choices=choices, usage=usage or self._usage, melete=melete
        )
        return b"data: " + _encode(chunk) + b"\n\n"


def _happened(event: Event) -> Happened | None:
    """What those who know of it are told beside the text."""
    match event:
        case ToolStarted(seq=seq, call=call):
            arguments = call.arguments if len(call.arguments) <= LONGEST_ARGUMENTS else ""
            return Happened(type="tool.started", seq=seq, call=call.id, name=call.name, arguments=arguments)
        case ToolEnded(seq=seq, result=result, outcome=outcome, seconds=took):
            return Happened(
                type="tool.ended", seq=seq, call=result.call, name=result.name, outcome=outcome, seconds=took
            )
        case Asked(seq=seq, question=asked):
            return Happened(
                type="asked", seq=seq, question=asked.id, text=asked.text, choices=asked.choices, call=asked.call
            )
        case Answered(seq=seq, question=question, status=status):
            return Happened(type="answered", seq=seq, question=question, outcome=status)
        case _:
            return None


def shows(event: Event) -> bool:
    """Whether an event is one that a stream has something to tell of."""
    return isinstance(event, TextDelta | ThinkingDelta | Reply | RunEnded) or _happened(event) is not None


# ---- what whole answers and streams share --------------------------------------------------------------------------------


def completion_id(run: str) -> str:
    """How a run is called as a completion."""
    return f"chatcmpl-{run}"


def seconds(at: datetime) -> int:
    """A moment in seconds of 1970."""
    return int(at.timestamp())


def finish_of(reply: Reply) -> Finish:
    """Why a reply ends."""
    return reply.stop if reply.stop in ("length", "content_filter") else "stop"


def usage_of(usage: Usage) -> ChatUsage:
    """Tokens as OpenAI counts them: those from the cache belong to the prompt, those of reasoning to the answer."""
    prompt = usage.input + usage.cache_read + usage.cache_write
    return ChatUsage(
        prompt_tokens=prompt,
        completion_tokens=usage.output,
        total_tokens=prompt + usage.output,
        prompt_tokens_details=PromptDetails(cached_tokens=usage.cache_read),
        completion_tokens_details=CompletionDetails(reasoning_tokens=usage.reasoning),
    )


def ran(ended: RunEnded, redact: Callable[[str], str]) -> Ran:
    """What is told of the run itself."""
    return Ran(
        session=ended.session,
        run=ended.run,
        stop=ended.stop,
        steps=ended.steps,
        cost_usd=ended.cost_usd,
        error=redact(ended.error) if ended.error else None,
    )
