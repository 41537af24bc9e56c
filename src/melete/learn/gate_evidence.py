"""What the cited turns of a session prove: calls that worked, calls that did not, a person's words, and text from outside. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import Struct

from melete.core.event import Compacted, Fact, RunStarted, Said, Steered, ToolEnded, ToolStarted
from melete.core.message import Message, ToolCall
from melete.learn.corrections import correction
from melete.learn.results import Result, result_of
from melete.learn.signals import SHELL, Signal, signals, spoken
from melete.learn.verbs import PREPARING, program_verb, working
from melete.security.plan import plan
from melete.security.taint import UNTRUSTED, sources
from melete.security.words import UNKNOWN

How = Literal["ok", "failed", "corrected", "environment"]
REFLECTING: Final = frozenset(
    {"skill_manage", "memory", "todo", "skill_view", "skill_search", "skills_list", "session_search"}
)
"""Tools that repeat what somebody wrote once: what they say is no evidence of this session."""
MCP: Final = "mcp_"
SURE: Final = 0.9
"""The score from which a correction takes away what its turn did; below it a person is asked."""
NEAR: Final = 14
"""Characters before an order in which a denial turns it round."""
_CODE: Final = re.compile(r"`+[^`]+`+")
_SPLIT: Final = re.compile(
    r"[.;!?:](?=\s|$)|[,\u3002\uff1b\uff0c\uff01\uff1f]\s*|\n|\s[–—-]\s|→"
    r"|\b(?:but|instead(?! of)|rather(?! than)|sondern|aber|mais|plutôt|sino|pero)\b|而是|而要",
    re.IGNORECASE,
)
_DENIES: Final = re.compile(
    r"\b(?:not|never|don['’]?t|doesn['’]?t|isn['’]?t|cannot|can['’]?t|won['’]?t|avoid|stop|without|instead of|rather than|no longer"
    r"|nicht|kein\w*|nie(?:mals)?|statt|ohne|pas|jamais|éviter?|évitez|au lieu|sans|nunca|jamás|evita\w*|en vez|sin"
    r"|no (?:uses?|es|hagas|pongas))\b|不要|不是|别|不能|勿|避免",
    re.IGNORECASE,
)
_WRONG: Final = re.compile(
    r"\b(?:wrong|incorrect|pitfalls?|gotchas?|warning|fails?|failed|breaks?|broke|refused|rejected|error|falsch|fehler|faux|échoue|incorrecto|mal"
    r"|falla)\b|错|失败|陷阱",
    re.IGNORECASE,
)
_DO: Final = re.compile(
    r"\b(?:use|run|try|call|pass|add|set|do|start|benutze|nimm|verwende|nutze|utilise[rz]?|lance[rz]?|usa|utiliza|ejecuta)\b"
    r"(?! not)|使用|改用|运行",
    re.IGNORECASE,
)
"""How an order to do something begins."""
_COMPLAINS: Final = re.compile(
    r"\b(?:error|usage|unknown|unrecognized|unrecognised|invalid|not found|no such|failed|fatal|traceback|cannot|denied|refused)\b",
    re.IGNORECASE,
)
"""What a program says that failed although the shell text as a whole did not."""
_MARK: Final = re.compile("\ue000(\\d+)\ue001")
_QUOTED: Final = re.compile(r"^ {0,3}>.*$", re.MULTILINE)


class Ran(Struct, frozen=True, kw_only=True):
    """A program that ran: its verb, its options with `--name value` beside `--name`, how that ended, and the fact of its call."""

    verb: str
    options: frozenset[str]
    how: How = "ok"
    call: int = 0


class Evidence(Struct, frozen=True, kw_only=True):
    """What the cited turns prove.

    `did` are the arguments of calls that worked, `tried` of ones that failed or were corrected, `failed` of ones for which the
    surroundings were to blame, `shown` what the ones that worked gave back. `said` are a person's words, `denied` what they
    said not to do. `outside` names texts from the web, an import, an MCP server or a quotation that were in view by then.
    `missing` are citations that this session does not have. `doubted` says that a person may have corrected one of the turns.
    """

    session: str = ""
    ran: tuple[Ran, ...] = ()
    did: str = ""
    tried: str = ""
    failed: str = ""
    shown: str = ""
    said: str = ""
    denied: str = ""
    tools: frozenset[str] = frozenset()
    remember: bool = False
    outside: tuple[str, ...] = ()
    missing: tuple[int, ...] = ()
    signals: tuple[Signal, ...] = ()
    doubted: bool = False


def evidence(facts: Sequence[Fact], turns: Sequence[int], *, session: str = "") -> Evidence:
    """What these turns of a session prove; each is cited by any fact in it. All facts up to the last of them are needed."""
    found = tuple(signals(facts))
    there = {fact.seq for fact in facts}
    begun = [0, *(fact.seq for fact in facts if isinstance(fact, Said) and spoken(fact.message) is not None)]
    runs = {fact.seq for fact in facts if isinstance(fact, RunStarted)}  # the words that it answers stand behind it
    cited = {max(one for one in begun if one <= seq + (seq in runs)) for seq in turns if seq in there}
    ends = {turn: next((one for one in begun if one > turn), len(there) + max(there, default=0) + 1) for turn in cited}
    within = [fact for fact in facts if any(turn <= fact.seq < ends[turn] for turn in cited)]
    late = [one for one in found if one.kind == "corrected" and one.sure >= SURE]
    pools = _Pools(within, {one.turn: one.facts[-1] for one in late if one.turn}, begun)
    return Evidence(
        session=session,
        ran=tuple(pools.ran),
        did="\n".join(pools.texts["ok"]),
        tried="\n".join((*pools.texts["failed"], *pools.texts["corrected"])),
        failed="\n".join(pools.texts["environment"]),
        shown="\n".join(pools.shown),
        said="\n".join(pools.said),
        denied="\n".join(pools.denied),
        tools=frozenset(fact.call.name for fact in facts if isinstance(fact, ToolStarted)),
        remember=pools.remember,
        outside=tuple(dict.fromkeys((*_outside(facts, max(ends.values(), default=0)), *pools.quoted))),
        missing=tuple(seq for seq in turns if seq not in there),
        signals=tuple(one for one in found if one.turn in cited),
        doubted=any(one.kind == "corrected" and one.sure < SURE and one.turn in cited for one in found),
    )


def clauses(text: str, *, warns: bool = False) -> Iterator[tuple[str, bool]]:
    """The text in its clauses, what stands in code never cut, and whether each says what not to do or what goes wrong.

    With `warns` that holds for all that is no order to do something.
    """
    kept: list[str] = []

    def put(match: re.Match[str]) -> str:
        kept.append(match[0])
        return f"\ue000{len(kept) - 1}\ue001"

    def back(piece: str) -> str:
        return _MARK.sub(lambda match: kept[int(match[1])] if int(match[1]) < len(kept) else "", piece)

    for piece in _SPLIT.split(_CODE.sub(put, _MARK.sub("", text))):
        for part, denied in _parts(piece, warns=warns):
            if part.strip():
                yield back(part), denied


def _parts(piece: str, *, warns: bool) -> Iterator[tuple[str, bool]]:
    """A clause, cut where an order begins and where a denial does."""
    wrong = warns or _WRONG.search(piece) is not None
    order = next(
        (one for one in _DO.finditer(piece) if not _DENIES.search(piece[max(0, one.start() - NEAR) : one.start()])),
        None,
    )
    if wrong and order:
        yield piece[: order.start()], True
        yield from _parts(piece[order.end() :], warns=False)
    elif wrong:
        yield piece, True
    else:
        at = denial.start() if (denial := _DENIES.search(piece)) else len(piece)
        yield from ((piece[:at], False), (piece[at:], True))


def mended(text: str) -> bool:
    """Whether the text says what to do, in code, instead of only what does not work."""
    orders = (one for one in _DO.finditer(text) if not _DENIES.search(text[max(0, one.start() - NEAR) : one.start()]))
    return any(re.match(r"[^.;:`]{0,30}`[^`]+`", text[one.end() :]) for one in orders)


def runs_of(command: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """The programs of a shell text with their options, each long one with its value as well, in their order."""
    programs = (one for one in plan(command).programs if one.name and one.name not in PREPARING)
    return tuple((program_verb(one), _options(one.words)) for one in programs)


def _masked(command: str) -> bool:
    """Whether the exit code may be that of another program than of the one that does the work."""
    programs = plan(command).programs
    return "||" in command or (
        len(programs) > 1 and (programs[-1] not in working(programs) or re.search(r"[;\n|]", command) is not None)
    )


def _options(words: Sequence[str]) -> frozenset[str]:
    found: set[str] = set()
    for at, word in enumerate(words):
        name, given, value = word.partition("=")
        if not re.match(r"--?[A-Za-z]", word):
            continue
        found.add(name)
        after = words[at + 1] if at + 1 < len(words) else ""
        value = value if given else after if word.startswith("--") and not after.startswith("-") else ""
        if value and UNKNOWN not in value and " " not in value and len(value) <= 80:  # noqa: PLR2004
            found.add(f"{name} {value}")
    return frozenset(found)


class _Pools:
    """The facts of the cited turns, sorted by what they prove."""

    def __init__(self, facts: Iterable[Fact], corrected: dict[int, int], begun: Sequence[int]) -> None:
        self.texts: dict[How, list[str]] = {"ok": [], "failed": [], "corrected": [], "environment": []}
        self.ran: list[Ran] = []
        self.shown: list[str] = []
        self.said: list[str] = []
        self.denied: list[str] = []
        self.quoted: list[str] = []
        self.remember = False
        self._corrected, self._begun = corrected, begun
        self._open: dict[str, ToolCall] = {}
        for fact in facts:
            match fact:
                case Said() | Steered():
                    self._hear(fact.message)
                case ToolStarted():
                    self._open[fact.call.id] = fact.call
                case ToolEnded() if call := self._open.pop(fact.result.call, None):
                    self._end(fact, call)
                case _:
                    pass

    def _hear(self, message: Message) -> None:
        text = spoken(message)
        if text is None:
            return
        if _QUOTED.search(text):
            self.quoted.append("what the person quoted")
        own = _QUOTED.sub("", text)
        self.remember |= correction(own, "").remember
        for clause, denied in clauses(own):
            (self.denied if denied else self.said).append(clause)

    def _end(self, fact: ToolEnded, call: ToolCall) -> None:
        if call.name in REFLECTING:
            return
        given = _strings(call.arguments)
        command = given.get("command", "") if call.name == SHELL else ""
        how = self._how(fact, result_of(fact, command))
        if how is None:
            return
        back = "\n".join(_strings(fact.result.content).values())
        if how == "ok" and command and _masked(command) and _COMPLAINS.search(back):
            how = "failed"
        self.texts[how].append("\n".join((call.name, *given.values())))
        self.ran += (
            (Ran(verb=verb, options=options, how=how, call=fact.seq) for verb, options in runs_of(command))
            if command
            else ()
        )
        if how == "ok" and fact.result.taint not in UNTRUSTED:
            self.shown.append(back)

    def _how(self, fact: ToolEnded, result: Result) -> How | None:
        if result.status == "none":
            return None
        if result.status == "failed":
            return "environment" if result.cause else "failed"
        turn = max(one for one in self._begun if one <= fact.seq)
        return "corrected" if fact.seq < self._corrected.get(turn, 0) else "ok"


def _outside(facts: Iterable[Fact], end: int) -> Iterator[str]:
    """Where the texts from outside came from that were in view at the end of the turns."""
    seen: dict[str, None] = {}
    for fact in facts:
        if fact.seq >= end:
            break
        match fact:
            case Compacted():
                seen = dict.fromkeys(one for one in (*sources(fact.messages), *(seen if fact.since else ())))
            case Said() | Steered():
                imported = fact.message.by is not None and fact.message.by.kind == "import"
                seen |= dict.fromkeys((*sources((fact.message,)), *(("an import",) if imported else ())))
            case ToolEnded() if fact.result.taint in UNTRUSTED or fact.result.name.startswith(MCP):
                seen[fact.result.name or "the web"] = None
            case _:
                pass
    yield from seen


def _strings(arguments: str) -> dict[str, str]:
    """The texts among a call's arguments, as deep as they lie."""
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    found: dict[str, str] = {}
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        name, one = waiting.pop()
        if isinstance(one, str):
            found[name] = one
        elif isinstance(one, dict):
            waiting += ((str(key), each) for key, each in cast("dict[Any, Any]", one).items())
        elif isinstance(one, list):
            waiting += ((f"{name}.{at}", each) for at, each in enumerate(cast("list[Any]", one)))
    return found
