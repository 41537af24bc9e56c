"""Models that say in words what others say in fields: tool calls and thinking inside the text of a reply. Part: models.

Small models, and servers that do not know a model's format, hand calls and thoughts through as text. `TextCalls` is a model
round a model: what goes in are requests as always, what comes out are replies as from a server that knows the format.
"""

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing

from msgspec import structs

from melete.core.event import CallDelta, Delta, Reply, Retried, TextDelta, ThinkingDelta
from melete.core.message import Message, Part, Text, Thinking, ToolCall
from melete.core.model import ModelClient, ModelError, ModelRequest, ModelWrapper
from melete.models.text_markup import (
    FENCE,
    STARTS,
    Candidate,
    Found,
    Whole,
    begins,
    behind_space,
    further,
    pattern,
)
from melete.models.text_prompt import Described

THOUGHTS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
)
"""How thinking at the start of a text begins and ends."""
ANSWER = ("<|start|>assistant", "<|channel|>final", "<|message|>")
"""What stands between thoughts and answer in the last of these formats."""
REFUSED = (0, 400, 404, 405, 422, 500, 501)
"""Statuses under which servers say that they take no tools."""
NO_TOOLS = (
    r"(?i)(does ?n[o']t|do not|cannot) (currently )?(support|use|handle) (the )?[`'\"]?(tool|function)"
    r"|(tool|function)s?[`'\"]?[ _-]?(use|calls?|calling|choice)?[`'\"]? (is|are) ?n[o']t (currently )?"
    r"(supported|enabled|available|allowed)"
    r"|endpoints found that support tool|--jinja|tools param requires|enable-auto-tool-choice|tool-call-parser"
)
PATIENCE = 200
"""How many pieces of a text may look like a call and be none before the rest is taken as it is."""

Ids = Callable[[], Collection[str]]


class TextReader:
    """Takes the text of one reply in pieces; gives back what may be shown, and at the end what the reply is.

    Nothing is shown before it is certain that it is no markup. Where the text is cut into pieces makes no difference to
    `thinking`, `text` and `calls`. Text in which no call of one of the tools `names` is found stays as it is; `bare` says that
    a text may be a call without any mark round it.
    """

    def __init__(self, names: Collection[str], ids: Ids, *, bare: bool = True) -> None:
        self.calls: list[ToolCall] = []
        self.split = False
        """Whether thinking was found in the text."""
        self.given = ""
        """Everything that was fed."""
        self._names = names
        self._ids = ids
        self._bare = bare
        self._thinking: list[str] = []
        self._said: list[str] = []
        self._at = 0
        self._first = 0
        self._closer = ""
        self._rejected = 0
        self._behind = 0
        self._cut = False
        self._new: list[Delta] = []
        self._candidate: Candidate | Whole = Whole(0, names)
        self._state: Callable[[bool], bool] = self._begin

    @property
    def thinking(self) -> str:
        """The thoughts that stood at the start of the text."""
        return "".join(self._thinking)

    @property
    def text(self) -> str:
        """The words of the reply: all of them, or what stood before the first call."""
        return "".join(self._said)

    def feed(self, text: str) -> list[Delta]:
        """Take a piece; return what is new and certain."""
        self.given += text
        return self._advance(over=False)

    def end(self, *, cut: bool = False) -> list[Delta]:
        """The text is over, broken off at a limit if `cut`; return what was held back."""
        self._cut = cut
        return self._advance(over=True)

    def thought(self) -> None:
        """The server tells thoughts and text apart by itself: the text begins with the answer."""
        if self._state == self._begin:
            self._state = self._head

    def leave(self) -> None:
        """The reply has calls of its own: none is looked for in the text."""
        self._names = ()
        self.calls.clear()
        if self._state in (self._whole, self._call, self._rest):
            self._state = self._prose

    def _advance(self, *, over: bool) -> list[Delta]:
        while self._state(over):
            pass
        new, self._new = self._new, []
        return new

    # ---- the states of the reader: each returns whether another took over ---------------------------------------------

    def _begin(self, over: bool) -> bool:
        """At the start, where thoughts may stand."""
        at = behind_space(self.given, 0)
        for opener, closer in THOUGHTS:
            if self.given.startswith(opener, at):
                self._at, self._closer, self.split = at + len(opener), closer, True
                return self._turn(self._think)
            if not over and begins(opener, self.given, at):
                return False
        return self._turn(self._head)

    def _think(self, over: bool) -> bool:
        """Inside thoughts."""
        close = self.given.find(self._closer, self._at)
        if close < 0:
            held = next((n for n in range(len(self._closer) - 1, 0, -1) if self.given.endswith(self._closer[:n])), 0)
            self._show_thought(len(self.given) - (0 if over else held))
            return False
        self._show_thought(close)
        self._at = close + len(self._closer)
        return self._turn(self._answer)

    def _answer(self, over: bool) -> bool:
        """Behind thoughts, before the first word of the answer."""
        at = behind_space(self.given, self._at)
        if at == len(self.given):
            return False
        if self._closer == THOUGHTS[-1][1]:
            for mark in ANSWER:
                if self.given.startswith(mark, at):
                    self._at = at + len(mark)
                    return True
                if not over and begins(mark, self.given, at):
                    return False
        self._at = self._first = at
        return self._turn(self._head)

    def _head(self, over: bool) -> bool:
        """At the first word of the answer: a text that begins as JSON may be a call and nothing else."""
        at = behind_space(self.given, self._at)
        if at == len(self.given) and not over:
            return False
        if self._names and self._bare and self.given[at : at + 1] in ("{", "[", "`"):
            self._candidate = Whole(at, self._names)
            return self._turn(self._whole)
        return self._turn(self._prose)

    def _whole(self, over: bool) -> bool:
        """Inside what may be nothing but calls."""
        found = self._candidate.judge(self.given, over=over, cut=self._cut)
        if found is None:
            return False
        if not found.calls:
            return self._turn(self._prose)
        self._take(found)
        return self._turn(self._done)

    def _prose(self, over: bool) -> bool:
        """In words, among which a call may begin."""
        text = self.given
        if not self._names:
            self._show(len(text))
            return False
        found = pattern(r"<tool_call>|<function=|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_call\|>").search(
            text, self._at
        )
        if found is None:
            self._show(len(text) if over else _certain(text, self._at))
            return False
        start = found.start()
        if self._quoted(start):
            self._show(start + 1)
            return True
        self._show(_before_space(text, start, self._at))
        self._candidate = Candidate(start, self._names)
        return self._turn(self._call)

    def _call(self, over: bool) -> bool:
        """At what may be a call."""
        found = self._candidate.judge(self.given, over=over, cut=self._cut)
        if found is None:
            return False
        if not found.calls:
            self._rejected += 1
            if self._rejected > PATIENCE:
                self._names = ()
            self._show(self._candidate.start + 1)
            return self._turn(self._prose)
        self._take(found)
        return self._turn(self._rest)

    def _rest(self, over: bool) -> bool:
        """Behind a call, where only further calls count; they are read when the text is over."""
        if not over:
            return False
        self._take(Found(further(self.given, self._behind, self._names, cut=self._cut)))
        return self._turn(self._done)

    def _done(self, over: bool) -> bool:  # noqa: ARG002 - one form for all states
        return False

    def _turn(self, state: Callable[[bool], bool]) -> bool:
        self._state = state
        return True

    # ---- what comes of it --------------------------------------------------------------------------------------------

    def _quoted(self, at: int) -> bool:
        """Whether a place is inside code, where markup is shown and not meant."""
        return self.given.endswith("`", 0, at) or self.given.count(FENCE, self._first, at) % 2 == 1

    def _show(self, end: int) -> None:
        if end > self._at:
            piece = self.given[self._at : end]
            self._said.append(piece)
            self._new.append(TextDelta(text=piece))
            self._at = end

    def _show_thought(self, end: int) -> None:
        start = self._at if self._thinking else behind_space(self.given, self._at)
        piece = self.given[start:end].rstrip()
        if piece:
            self._thinking.append(piece)
            self._new.append(ThinkingDelta(text=piece))
            self._at = start + len(piece)

    def _take(self, found: Found) -> None:
        self._behind = found.end
        for name, arguments in found.calls:
            made = ToolCall(id=self._new_id(), name=name, arguments=arguments)
            self._new.append(CallDelta(index=len(self.calls), id=made.id, name=name, arguments=arguments))
            self.calls.append(made)

    def _new_id(self) -> str:
        taken = {*self._ids(), *(call.id for call in self.calls)}
        number = len(taken) + 1
        while f"call_{number}" in taken:
            number += 1
        return f"call_{number}"


class TextCalls(ModelWrapper):
    """A model whose calls and thoughts are read out of its text where the server did not do so.

    With `describe` the tools are described in the prompt, and calls and results are told as text, because the model or its
    server takes none; a server that refuses tools is from then on asked in that way. Without `always`, texts are read only then.
    """

    def __init__(self, inner: ModelClient, *, describe: bool = False, always: bool = True) -> None:
        super().__init__(inner)
        self._describe = describe
        self._always = always
        self._described = Described()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        """Yield what the inner model yields, with calls and thoughts in their places; raises as it does."""
        describe = self._describe and bool(request.tools)
        while True:
            try:
                async with aclosing(self._answer(request, describe=describe)) as answer:
                    async for item in answer:
                        if describe and not isinstance(item, Retried):
                            self._describe = True  # it works: from now on always so
                        yield item
            except ModelError as error:
                if describe or not request.tools or not refuses_tools(error):
                    raise
                cause = type(error).__name__
            else:
                return
            describe = True
            yield Retried(
                attempt=1,
                cause=cause,
                reason=f"{self.provider} takes no tools for {self.name}; they are described to it in words from now on, and its "
                "calls are read out of its text",
                delay=0.0,
                model=self.name,
                provider=self.provider,
            )

    async def _answer(self, request: ModelRequest, *, describe: bool) -> AsyncGenerator[Delta | Retried | Reply]:
        sent = self._described.rewritten(request) if describe else request
        reads = self._always or describe
        reader = self._reader(request)
        async with aclosing(self.inner.stream(sent)) as stream:
            async for item in stream:
                if not reads:
                    yield item
                    continue
                if isinstance(item, Retried):
                    reader = self._reader(request)
                for made in self._read(item, reader):
                    yield made
                if isinstance(item, Reply):
                    yield self._reply(item, request, reader)

    def _read(self, item: Delta | Retried | Reply, reader: TextReader) -> list[Delta | Retried]:
        """What is to be shown of one item."""
        match item:
            case TextDelta():
                return [*reader.feed(item.text)]
            case ThinkingDelta():
                reader.thought()
                return [item]
            case CallDelta():
                reader.leave()
                return [*reader.feed(""), item]
            case Reply():
                if item.message.calls:
                    reader.leave()
                return [*reader.end(cut=item.stop == "length")]
            case Retried():
                return [item]

    def _reader(self, request: ModelRequest) -> TextReader:
        names: Collection[str] = () if request.tool_choice == "none" else {tool.name for tool in request.tools}

        def ids() -> set[str]:
            return {call.id for message in (*request.prefill, *request.messages) for call in message.calls}

        return TextReader(names, ids, bare=request.answer_schema is None)

    def _reply(self, reply: Reply, request: ModelRequest, reader: TextReader) -> Reply:
        """The reply with calls and thoughts in their places; as it is where the text held none."""
        message = reply.message
        if reader.given != message.text:  # it was not streamed, or in several parts
            reader = self._reader(request)
            if any(isinstance(part, Thinking) for part in message.parts):
                reader.thought()
            if message.calls:
                reader.leave()
            reader.feed(message.text)
            reader.end(cut=reply.stop == "length")
        if not (reader.calls or reader.split):
            return reply
        parts: list[Part] = [part for part in message.parts if isinstance(part, Thinking)]
        if reader.thinking:
            parts.append(Thinking(text=reader.thinking))
        if reader.text:
            parts.append(Text(text=reader.text))
        parts += [part for part in message.parts if not isinstance(part, Thinking | Text)]
        parts += reader.calls
        made = Message(role="assistant", parts=tuple(parts), wire=None if reader.calls else message.wire, by=message.by)
        stop = "tool_calls" if reader.calls and reply.stop in ("end", "other") else reply.stop
        return structs.replace(reply, message=made, stop=stop)


def refuses_tools(error: ModelError) -> bool:
    """Whether a server says that it, or the model, takes no tools."""
    return error.status in REFUSED and pattern(NO_TOOLS).search(error.what) is not None


def _certain(text: str, at: int) -> int:
    """How far a text is certain to be words: before space at its end, and before what may become the start of a call."""
    for place in range(max(at, len(text) - max(map(len, STARTS)) + 1), len(text)):
        if text[place] in "<[" and any(begins(start, text, place) for start in STARTS):
            return _before_space(text, place, at)
    return _before_space(text, len(text), at)


def _before_space(text: str, end: int, at: int) -> int:
    """Where the space that stands before `end` begins, not before `at`."""
    while end > at and text[end - 1].isspace():
        end -= 1
    return end
