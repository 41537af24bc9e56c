"""Tool calls that a model wrote as text: where one begins and ends, and what it says. Part: models; pure, knows no stream.

Everything here takes a text that may still grow. A judgement, once made, stays the same however the text goes on, so that a
reader may ask after every piece; `None` says that it is too early. Nothing becomes a call whose tool is not known by name.
"""

import re
from collections.abc import Callable, Collection
from functools import cache
from typing import Any, NamedTuple, cast

from melete.core.plugin import Lazy

STARTS = ("<tool_call>", "<function=", "[TOOL_CALLS]", "<|python_tag|>", "<|tool_call|>")
"""What stands before a call in the formats that models are trained on."""
FUNCTION, LISTED = "<function=", "[TOOL_CALLS]"
PARAMETER, PARAMETER_END, FUNCTION_END, CALL_END = "<parameter=", "</parameter>", "</function>", "</tool_call>"
CLOSING = (
    CALL_END, FUNCTION_END, PARAMETER_END, "<|/tool_call|>", "<|eom_id|>", "<|eot_id|>", "<|im_end|>",
)  # fmt: skip
"""What may close one."""
FENCE = "```"
FENCED = frozenset({"", "json", "tool_call", "tool_calls", "tool_code", "xml"})
"""What a fenced block may be called whose content is a call."""
ARGUMENTS = ("arguments", "parameters", "args")
KEYS = frozenset({"name", "function", "tool_calls", "type", "id", *ARGUMENTS})
"""The keys of a call and of what servers wrap round one."""
NEAR = 200
"""How far behind its beginning a call tells its name."""
MOST = 64
"""How many pieces of markup are looked at behind a first call."""
CLOSERS = {"{": "}", "[": "]"}

_loads: Lazy[Callable[..., Any]] = Lazy("json:loads")
_dumps: Lazy[Callable[..., str]] = Lazy("json:dumps")
_literal: Lazy[Callable[[str], Any]] = Lazy("ast:literal_eval")
_quiet: Lazy[Callable[..., Any]] = Lazy("warnings:catch_warnings")

Call = tuple[str, str]
"""A tool's name and the JSON text of its arguments."""


class Found(NamedTuple):
    """Calls and where their markup ends; without calls it is none."""

    calls: tuple[Call, ...] = ()
    end: int = 0


NONE = Found()


@cache
def pattern(source: str) -> re.Pattern[str]:
    """The compiled pattern, made when it is first needed: most replies need none."""
    return re.compile(source, re.DOTALL)


def behind_space(text: str, at: int) -> int:
    """Where the next character that is no white space stands; the text's length where there is none."""
    found = pattern(r"\s*").match(text, at)
    return found.end() if found else at


def begins(literal: str, text: str, at: int) -> bool:
    """Whether the text ends inside the literal, so that it may yet turn out to stand there."""
    return len(text) - at < len(literal) and literal.startswith(text[at:])


class Extent:
    """A JSON value, or a Python literal, inside a growing text."""

    def __init__(self, start: int) -> None:
        self.start = start
        self._at = start
        self._open: list[str] = []
        self._quote = ""
        self._end = -1

    def end(self, text: str) -> int | None:
        """Where it ends: behind its last bracket, or before a mark that no value holds. None while it is open."""
        while self._end < 0 and self._at < len(text):
            found = pattern(rf"[\\{self._quote}]" if self._quote else r"[\"'{}\[\]<`]").search(text, self._at)
            if found is None:
                self._at = len(text)
            elif found[0] == "\\":
                if found.end() == len(text):  # what is escaped has not come
                    self._at = found.start()
                    break
                self._at = found.end() + 1
            else:
                self._take(found[0], found.end())
        return None if self._end < 0 else self._end

    def source(self, text: str) -> str:
        """The value with what is open closed; empty where it breaks off inside a text or a number, or before a value."""
        end = self._end if self._end >= 0 else len(text)
        value = text[self.start : end].rstrip()
        if self._open and (self._quote or value[-1] not in "}]\"'"):
            return ""
        return value + "".join(CLOSERS[one] for one in reversed(self._open))

    def _take(self, mark: str, end: int) -> None:
        self._at = end
        if self._quote:
            self._quote = ""
        elif mark in "\"'":
            self._quote = mark
        elif mark in CLOSERS:
            self._open.append(mark)
        elif mark in "<`":
            self._end = end - 1
        elif CLOSERS[self._open[-1]] != mark:
            self._end = end  # the value is broken, which reading it will show
        else:
            self._open.pop()
            self._end = -1 if self._open else end


class Parameters:
    """Arguments that are written one by one: `<parameter=NAME>VALUE</parameter>`."""

    def __init__(self, start: int) -> None:
        self.values: dict[str, str] = {}
        self.at = start
        self._searched = start

    def read(self, text: str) -> bool:
        """Take every one that is whole; False while one is open or another may follow."""
        while True:
            at = behind_space(text, self.at)
            found = pattern(r"<parameter=([^>\s]+)\s*>").match(text, at)
            if found is None:
                partial = pattern(r"<parameter=[^>\s]*\s*$").match(text, at)
                return not (at == len(text) or partial or begins(PARAMETER, text, at))
            end = text.find(PARAMETER_END, max(found.end(), self._searched))
            if end < 0:
                self._searched = max(found.end(), len(text) - len(PARAMETER_END))
                return False
            value = text[found.end() : end]
            self.values[found[1]] = value.removeprefix("\n").removesuffix("\n")
            self.at = self._searched = end + len(PARAMETER_END)


class Candidate:
    """Markup that stands at `start` and may turn out to be calls of the tools called `names`."""

    def __init__(self, start: int, names: Collection[str]) -> None:
        self.start = start
        self._names = names
        self._extents: dict[int, Extent] = {}
        self._parameters: dict[int, Parameters] = {}

    def judge(self, text: str, *, over: bool = False, cut: bool = False) -> Found | None:
        """The calls, NONE for no markup, None for too early; `over` says that no more text comes, `cut` that it broke off.

        A call that broke off is given with as much of its arguments as there is, for those who refuse it.
        """
        opener = next((start for start in STARTS if text.startswith(start, self.start)), "")
        at = self.start if opener == FUNCTION else behind_space(text, self.start + len(opener))
        if fence := pattern(r"```\w*\s*").match(text, at):
            at = fence.end()
        if text.startswith(FUNCTION, at):
            return self._function(text, at, over=over, cut=cut)
        if at < len(text) and text[at] in CLOSERS:
            return self._json(text, at, over=over, cut=cut)
        if opener == LISTED and (
            named := pattern(r"([\w.-]+)(?:\[CALL_ID\][\w-]*)?(?:\[ARGS\])?\s*(?=\{)").match(text, at)
        ):
            return self._arguments(text, named[1], named.end(), over=over, cut=cut)
        growing = at == len(text) or begins(FUNCTION, text, at) or begins(FENCE, text, at)
        if opener == LISTED and pattern(r"[\w.\[\]-]*\s*$").match(text, at):
            growing = True
        return None if growing and not over else NONE

    def _json(self, text: str, at: int, *, over: bool, cut: bool) -> Found | None:
        """Calls as JSON, each with its name inside."""
        extent = self._extents.setdefault(at, Extent(at))
        end = extent.end(text)
        if end is None and not over:
            return None if plausible(text, at) else NONE
        if end is None and cut:
            return broken(text, at, self._names)
        calls = calls_in(value_of(extent.source(text)), self._names)
        return Found(calls, len(text) if end is None else end) if calls else NONE

    def _function(self, text: str, at: int, *, over: bool, cut: bool) -> Found | None:
        """`<function=NAME>` with an object or with parameters behind it."""
        found = pattern(r"<function=([\w.:-]+)\s*>").match(text, at)
        if found is None:
            return None if not over and pattern(r"<function=[\w.:-]*\s*$").match(text, at) else NONE
        name, inside = found[1], behind_space(text, found.end())
        if name not in self._names:
            return NONE
        if text.startswith("{", inside):
            return self._arguments(text, name, inside, over=over, cut=cut)
        if text.startswith((PARAMETER, FUNCTION_END), inside):
            return self._named(text, name, inside, over=over, cut=cut)
        growing = any(begins(literal, text, inside) for literal in ("{", FUNCTION_END, PARAMETER))
        if growing and over and cut:
            return Found(((name, ""),), len(text))
        return None if growing and not over else NONE

    def _arguments(self, text: str, name: str, at: int, *, over: bool, cut: bool) -> Found | None:
        """A call whose name is told and whose arguments are the object at `at`."""
        if name not in self._names:
            return NONE
        extent = self._extents.setdefault(at, Extent(at))
        end = extent.end(text)
        if end is None and not over:
            return None
        if end is None and cut:
            return Found(((name, text[at:]),), len(text))
        value = value_of(extent.source(text))
        written = json_text(value) if isinstance(value, dict) else None
        return Found(((name, written),), len(text) if end is None else end) if written else NONE

    def _named(self, text: str, name: str, at: int, *, over: bool, cut: bool) -> Found | None:
        """A call whose arguments are written one by one."""
        parameters = self._parameters.setdefault(at, Parameters(at))
        whole = parameters.read(text)
        behind = behind_space(text, parameters.at)
        if not whole and not over:
            return None
        written = json_text(parameters.values) or ""
        if any(text.startswith(end, behind) for end in (FUNCTION_END, CALL_END)):
            return Found(((name, written),), behind)
        if over and cut:
            return Found(((name, written[:-1]),), len(text))
        if not over and any(begins(end, text, behind) for end in (FUNCTION_END, CALL_END)):
            return None
        return Found(((name, written),), behind) if over and parameters.values and behind == len(text) else NONE


class Whole:
    """A text that may be nothing but calls: bare JSON from `start` on, or one fenced block."""

    def __init__(self, start: int, names: Collection[str]) -> None:
        self.start = start
        self._names = names
        self._at = start
        self._fenced: bool | None = None
        self._calls: list[Call] = []
        self._piece: Extent | Candidate | None = None

    def judge(self, text: str, *, over: bool = False, cut: bool = False) -> Found | None:
        """As a Candidate's; the calls are known when the text is over, because anything more would make it no call."""
        if self._fenced is None:
            refused = self._begin(text, over=over)
            if refused or self._fenced is None:
                return refused
        while True:
            at = self._at = self._behind(text)
            if at == len(text) or self._closed(text, at):
                return Found(tuple(self._calls), len(text)) if over else None
            if self._calls and not over and any(begins(mark, text, at) for mark in CLOSING):
                return None
            found = self._next(text, at, over=over, cut=cut)
            if found is None or not found.calls:
                return found
            self._calls += found.calls
            self._at, self._piece = found.end, None

    def _begin(self, text: str, *, over: bool) -> Found | None:
        """Read the fence's first line; NONE when it is no fence of calls, None when it is one, or too early to say."""
        if begins(FENCE, text, self.start):
            return NONE if over else None
        if not text.startswith(FENCE, self.start):
            self._fenced = False
            return None
        line = text.find("\n", self.start)
        if line < 0:
            named = pattern(r"```[\w-]{0,20}[ \t]*\r?$").match(text, self.start)
            return None if named and not over else NONE
        self._fenced, self._at = True, line + 1
        return None if text[self.start + len(FENCE) : line].strip().lower() in FENCED else NONE

    def _closed(self, text: str, at: int) -> bool:
        """Whether the block's closing fence stands there and nothing behind it."""
        whole = text.startswith(FENCE, at) and behind_space(text, at + len(FENCE)) == len(text)
        return self._fenced is True and (whole or begins(FENCE, text, at))

    def _behind(self, text: str) -> int:
        found = pattern(gap(fences=False)).match(text, self._at) if self._calls else None
        return found.end() if found else behind_space(text, self._at)

    def _next(self, text: str, at: int, *, over: bool, cut: bool) -> Found | None:
        """The calls of the piece that stands there."""
        if self._fenced and any(text.startswith(start, at) for start in STARTS):
            piece = self._piece = self._piece if isinstance(self._piece, Candidate) else Candidate(at, self._names)
            return piece.judge(text, over=over, cut=cut)
        if self._fenced and any(begins(start, text, at) for start in STARTS) and text[at] != "{":
            return NONE if over else None
        if text[at] not in CLOSERS:
            return NONE
        extent = self._piece = self._piece if isinstance(self._piece, Extent) else Extent(at)
        end = extent.end(text)
        if end is None and not over:
            return None if plausible(text, at) else NONE
        if end is None and cut:
            return broken(text, at, self._names) if plausible(text, at) else NONE
        calls = calls_in(value_of(extent.source(text)), self._names, strict=True)
        return Found(calls, len(text) if end is None else end) if calls else NONE


def broken(text: str, at: int, names: Collection[str]) -> Found:
    """A call whose JSON broke off, with as much of its arguments as there is; NONE unless its tool is known by then."""
    named = pattern(r"[\"'](?:name|function)[\"']\s*:\s*[\"']([\w.:-]+)[\"']").search(text, at, at + NEAR)
    if named is None or named[1] not in names:
        return NONE
    begun = pattern(r"[\"'](?:arguments|parameters|args)[\"']\s*:\s*").search(text, at)
    return Found(((named[1], text[begun.end() :] if begun else ""),), len(text))


def gap(*, fences: bool = True) -> str:
    """The pattern of what may stand between two calls without being a word: space, separators, closing marks."""
    marks = "|".join((*map(re.escape, CLOSING), *([r"```\w*"] if fences else ())))
    return rf"(?:[\s,;}}\]]|{marks})*"


def further(text: str, at: int, names: Collection[str], *, cut: bool) -> tuple[Call, ...]:
    """The calls in the rest of a finished text, behind a first one; what follows a made-up result is not read."""
    made: list[Call] = []
    for _ in range(MOST):
        between = pattern(gap()).match(text, at)
        start = between.end() if between else at
        if not text.startswith("{", start):
            found = pattern("|".join(map(re.escape, STARTS))).search(text, start)
            if found is None or pattern(MADE_UP).search(text, at, found.start()):
                break
            start = found.start()
        judged = Candidate(start, names).judge(text, over=True, cut=cut) or NONE
        made += judged.calls
        at = judged.end if judged.calls else start + 1
    return tuple(made)


MADE_UP = (
    r"(?im)tool_(?:response|result|output)|\[TOOL_RESULTS\]|<\|(?:im_start|start_header_id)\|>"
    r"|^\s*(?:user|observation|result)s?:"
)
"""Signs that a model goes on by itself with results or questions that nobody gave."""


def plausible(text: str, at: int) -> bool:
    """Whether JSON that begins there may still be a call: its first key is one that calls have."""
    found = pattern(r"[\[\s]*(?:\{\s*(?:[\"'](\w*)([\"']?))?)?").match(text, at)
    if found is None:
        return False
    key, closed = cast("str | None", found[1]), bool(found[2])
    if closed:
        return key in KEYS
    if found.end() < len(text):
        return False
    return key is None or any(known.startswith(key) for known in KEYS)


def value_of(source: str) -> Any:
    """The value that JSON, or a Python literal, stands for; None for what is neither."""
    try:
        return _loads.load()(source, strict=False, parse_constant=_refuse)
    except (ValueError, RecursionError):
        pass
    try:
        with _quiet.load()(action="ignore"):  # the text's odd escapes are no concern of ours
            return _literal.load()(source)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def json_text(value: Any) -> str | None:
    """The value as compact JSON; None for what JSON cannot say."""
    try:
        text = _dumps.load()(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        return None
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a pair, which only an escape can say
        return _dumps.load()(value, allow_nan=False, separators=(",", ":"))
    return text


def calls_in(value: Any, names: Collection[str], *, strict: bool = False) -> tuple[Call, ...]:
    """The calls that a JSON value is, all of them or none; `strict` wants arguments and no other key beside a call's own."""
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value).get("tool_calls", cast(Any, value))
    listed = cast("list[Any]", value) if isinstance(value, list) else [value]
    calls = [_call(item, names, strict=strict) for item in listed]
    return tuple(call for call in calls if call) if all(calls) else ()


def _call(item: Any, names: Collection[str], *, strict: bool) -> Call | None:
    if not isinstance(item, dict):
        return None
    call = cast("dict[str, Any]", item)
    if strict and not KEYS.issuperset(call):
        return None
    inner: Any = call.get("function")
    if isinstance(inner, dict):
        call = cast("dict[str, Any]", inner)
    name = call.get("name", inner)
    if not isinstance(name, str) or name not in names:
        return None
    given = [call[key] for key in ARGUMENTS if key in call]
    arguments = _written(given[0]) if given else None if strict else "{}"
    return None if arguments is None else (name, arguments)


def _written(arguments: Any) -> str | None:
    """Arguments as the text of a JSON object, whether they came as one or as its text."""
    if isinstance(arguments, dict):
        return json_text(arguments)
    if arguments is None or arguments == "":
        return "{}"
    if not isinstance(arguments, str):
        return None
    inner = value_of(arguments)
    return json_text(inner) if isinstance(inner, dict) else None


def _refuse(constant: str) -> Any:
    raise ValueError(constant)
