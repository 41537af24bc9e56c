"""What the cited turns of a session prove: calls that worked, calls that did not, a person's words, and text from outside. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import Struct

from melete.core.event import Compacted, Fact, RunStarted, Said, Steered, ToolEnded, ToolStarted
from melete.core.message import Message, Text, ToolCall
from melete.learn.corrections import correction, patterns
from melete.learn.results import result_of
from melete.learn.signals import SHELL, Signal, signals, spoken
from melete.learn.verbs import PREPARING, program_verb, working
from melete.security.network import brings
from melete.security.plan import plan
from melete.security.taint import UNTRUSTED, sources
from melete.security.words import UNKNOWN

Redone = tuple[set[int], dict[int, set[str]]]
How = Literal["ok", "failed", "corrected", "doubted", "environment"]
CUES: Final = Path(__file__).with_name("gates.toml")
REFLECTING: Final = frozenset(
    {"skill_manage", "memory", "todo", "skill_view", "skill_search", "skills_list", "session_search"}
)
"""Tools that repeat what somebody wrote once: what they say is no evidence of this session."""
POOLS: Final = ("shell", "shown", "wrong", "said", "denied", "own", "words")
"""The texts of `Evidence` that are kept as they come."""
MCP: Final = "mcp_"
SURE: Final = 0.9
"""The score from which a correction takes away what its turn did; below it a person is asked."""
ALMOST: Final = 2
"""Words, or an option and its value, that may differ between a command and the same one done otherwise."""
NEAR: Final = 14
"""Characters before an order in which a denial turns it round."""
_CODE: Final = re.compile(r"`+[^`]+`+")
_MARK: Final = re.compile("\ue000(\\d+)\ue001")
_WRITTEN: Final = re.compile(r"""['"]([\w./~-]+\.\w{1,5})['"]""")
_CITED: Final = re.compile(r"^ {0,3}>.*$", re.MULTILINE)
_QUOTATION: Final = re.compile(r"[\"“„«]([^\"”“»]*)[\"”“»]|\n?(.+(?:\n.+)*)")
_SAYS_SO: Final = re.compile(r"^\s*(?:[\w.-]+: )?(?:fatal|error|usage|unknown|invalid|traceback)\b", re.I | re.M)


def cue(name: str) -> re.Pattern[str]:
    """One of the patterns of `gates.toml`."""
    return patterns(CUES, re.IGNORECASE | re.MULTILINE)[name]


class Ran(Struct, frozen=True, kw_only=True):
    """A program that ran or that a text names: its verb, its options, the words behind them and each option with the next word.

    `how` says how it ended, `call` is the fact of its call.
    """

    verb: str
    name: str
    options: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()
    pairs: frozenset[str] = frozenset()
    how: How = "ok"
    call: int = 0

    @property
    def items(self) -> frozenset[str]:
        """All that it says beside the program's name."""
        return self.options | self.pairs | frozenset(self.words)


class Outside(Struct, frozen=True, kw_only=True):
    """A text that somebody else wrote: where it is from, and how much of what the session did itself was there before it."""

    name: str
    text: str
    at: int


class Evidence(Struct, frozen=True, kw_only=True):
    """What the cited turns prove.

    `did` are the arguments of calls that worked, `shell` the commands among them, `tried` those of calls that failed or were
    corrected, `failed` of ones for which the surroundings were to blame. `shown` is what the calls that worked gave back,
    `wrong` what the others did. `said` are a person's words, `denied` what they said not to do. `outside` names texts from the
    web, an import, an MCP server or a quotation in these turns; `foreign` are all of the session by then, beside `own`, the
    calls of the session, and `words`, what the person said in it. `missing` are citations that this session does not have.
    `cured` says that something that had failed worked when it was done in another way or after something else. `certain` is what
    is left without turns that the person may have corrected.
    """

    session: str = ""
    ran: tuple[Ran, ...] = ()
    did: str = ""
    shell: str = ""
    tried: str = ""
    failed: str = ""
    shown: str = ""
    wrong: str = ""
    said: str = ""
    denied: str = ""
    tools: frozenset[str] = frozenset()
    remember: bool = False
    outside: tuple[str, ...] = ()
    foreign: tuple[Outside, ...] = ()
    own: str = ""
    words: str = ""
    missing: tuple[int, ...] = ()
    signals: tuple[Signal, ...] = ()
    cured: bool = False
    certain: "Evidence | None" = None

    @property
    def all(self) -> str:
        """Every text of these turns that is not from outside."""
        return "\n".join((self.said, self.denied, self.did, self.tried, self.failed, self.shown))


def evidence(facts: Sequence[Fact], turns: Sequence[int], *, session: str = "") -> Evidence:
    """What these turns of a session prove; each is cited by any fact in it. All facts up to the last of them are needed."""
    found = tuple(signals(facts))
    there = {fact.seq for fact in facts}
    begun = [0, *(fact.seq for fact in facts if isinstance(fact, Said) and spoken(fact.message) is not None)]
    runs = {fact.seq for fact in facts if isinstance(fact, RunStarted)}  # the words that it answers stand behind it
    cited = {max(one for one in begun if one <= seq + (seq in runs)) for seq in turns if seq in there}
    ends = {turn: next((one for one in begun if one > turn), len(there) + max(there, default=0) + 1) for turn in cited}
    last = max(ends.values(), default=0)
    doubts = sorted((one for one in found if one.kind == "corrected" and one.turn), key=lambda one: one.sure)
    late = {one.turn: (one.facts[-1], one.sure) for one in doubts}
    pools = _Pools(begun, late, _redone((fact for fact in facts if fact.seq >= min(cited, default=0)), begun))
    for fact in facts:
        if fact.seq < last:
            pools.take(fact, cited=any(turn <= fact.seq < ends[turn] for turn in cited))
    certain = pools.proves(doubted=False)
    whole = pools.proves(doubted=True) if pools.texts["doubted"] else certain
    return msgspec.structs.replace(
        whole,
        session=session,
        tools=frozenset(fact.call.name for fact in facts if isinstance(fact, ToolStarted)),
        missing=tuple(seq for seq in turns if seq not in there),
        signals=tuple(one for one in found if one.turn in cited),
        certain=certain if certain is not whole else None,
    )


def each(facts: Sequence[Fact], turns: Sequence[int]) -> dict[int, Evidence]:
    """What each of these turns holds by itself, without what later words say of it."""
    begun = [0, *(fact.seq for fact in facts if isinstance(fact, Said) and spoken(fact.message) is not None)]
    fresh = frozenset(begun)
    pools = {turn: _Pools(begun, {}, (set(), {})) for turn in turns}
    starts = {max(one for one in begun if one <= turn): pools[turn] for turn in turns}
    now: _Pools | None = None
    for fact in facts:
        now = starts.get(fact.seq) if fact.seq in fresh else now
        if now:
            now.take(fact, cited=True)
    return {turn: one.proves(doubted=True) for turn, one in pools.items()}


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

    for piece in cue("splits").split(_CODE.sub(put, _MARK.sub("", text))):
        for part, denied in _parts(piece, warns=warns):
            if part.strip():
                yield back(part), denied


def _parts(piece: str, *, warns: bool) -> Iterator[tuple[str, bool]]:
    """A clause, cut where an order begins and where a denial does."""
    wrong = warns or any(cue(one).search(piece) for one in ("wrong", "exists"))
    order = next(orders(piece), None)
    if wrong and order:
        yield piece[: order.start()], True
        yield from _parts(piece[order.start() :], warns=False) if order.start() else ((piece, False),)
    elif wrong:
        yield piece, True
    else:
        at = denial.start() if (denial := cue("denies").search(piece)) else len(piece)
        yield from ((piece[:at], False), (piece[at:], True))


def orders(text: str) -> Iterator[re.Match[str]]:
    """Where the text begins to say what to do; not where it says what not to do."""
    denies = cue("denies")
    return (
        one
        for one in cue("order").finditer(text)
        if not denies.search(re.split(r"[.,:;]", text[max(0, one.start() - NEAR) : one.start()])[-1])
    )


def mended(text: str) -> bool:
    """Whether the text says what to do, in code, instead of only what does not work."""
    return any(re.match(r"[^.;:`]{0,30}`[^`]+`", text[one.end() :]) for one in orders(text))


def runs_of(command: str, *, how: How = "ok", call: int = 0) -> tuple[Ran, ...]:
    """The programs of a shell text in their order."""
    return tuple(msgspec.structs.replace(one, how=how, call=call) for one in _runs(command))


@lru_cache(maxsize=4096)
def _runs(command: str) -> tuple[Ran, ...]:
    found: list[Ran] = []
    for one in plan(command).programs:
        if not one.name or one.name in PREPARING:
            continue
        options: set[str] = set()
        words: list[str] = []
        pairs: set[str] = set()
        for word, after in zip(one.words, (*one.words[1:], ""), strict=False):
            name, given, value = word.partition("=")
            if not re.match(r"--?[A-Za-z]", word):
                words.append(word)
                continue
            options.add(name)
            words += [value] if given else []
            value = value if given else "" if after.startswith("-") else after
            pairs.update([f"{name} {value}"] if value and UNKNOWN not in value else [])
        ran = Ran(
            verb=program_verb(one), name=one.name, options=frozenset(options), words=(*words,), pairs=frozenset(pairs)
        )
        found.append(ran)
    return tuple(found)


def quoted(text: str) -> tuple[str, str]:
    """A person's own words in a message, and what they quote of others: cited lines, a mail, what somebody wrote."""
    theirs = _CITED.findall(text)
    text = _CITED.sub("", text)
    if mail := cue("forwarded").search(text):
        theirs.append(text[mail.start() :])
        text = text[: mail.start()]
    at = 0
    while says := cue("attributes").search(text, at):
        at = says.end()
        if (what := _QUOTATION.match(text, at)) and (what[1] or ":" in says[0] or "\uff1a" in says[0]):
            theirs.append(what[1] or what[2])
            text = text[:at] + text[what.end() :]
    return text, "\n".join(theirs)


def _masked(command: str) -> bool:
    """Whether the exit code may be that of another program than of the one that does the work."""
    programs = plan(command).programs
    return "||" in command or (
        len(programs) > 1 and (programs[-1] not in working(programs) or re.search(r"[;\n|]", command) is not None)
    )


_SAVES: Final = re.compile(r"(?:^|\s)(?:-[a-zA-Z]*O[a-zA-Z]*|--remote-name(?:-all)?)(?=\s|$)")
"""The options by which a fetched file is kept under its name in the address."""


@lru_cache(maxsize=4096)
def _fetched(command: str) -> frozenset[str]:
    """The names of files and folders that a shell text fills from a network."""
    programs = plan(command).programs
    found: set[str] = set()
    for one in programs if any("clone" in each.words for each in programs) or brings(command) else ():
        found.update(one.words[at + 1] for at, word in enumerate(one.words[:-1]) if word in ("-o", "-O", "--output"))
        saves = one.name == "wget" or (one.name == "curl" and _SAVES.search(" ".join(one.words)) is not None)
        found.update(word for word in one.words if saves and "://" in word)
        found.update(word for word in one.words if one.name == "tee" and not word.startswith("-"))
        found.update(one.words[-1:] if "clone" in one.words else ())
        found.update(each.target for each in one.redirects if ">" in each.operator and each.target != "/dev/null")
        found.update(_WRITTEN.findall(one.code))
    return frozenset(name for word in found if len(name := PurePosixPath(word).name.removesuffix(".git")) > 1)


class _Pools:
    """The facts of a session, sorted by what they prove in the cited turns."""

    def __init__(self, begun: Sequence[int], late: dict[int, tuple[int, float]], redone: Redone) -> None:
        self.texts: defaultdict[str, list[str]] = defaultdict(list)
        self._ran: list[Ran] = []
        self._remember = False
        self._outside: dict[str, None] = {}
        self._foreign: list[Outside] = []
        self._length = 0
        self._brought: set[str] = set()
        self._before = ("", "")
        self._late, self._begun, self._redone = late, begun, redone
        self._open: dict[str, ToolCall] = {}

    def take(self, fact: Fact, *, cited: bool) -> None:
        """Take in the next fact; what is not cited proves nothing, but what came from outside in it is known."""
        match fact:
            case Said() | Steered():
                self._hear(fact.message, cited=cited)
            case Compacted() if cited:
                self._outside |= dict.fromkeys(sources(fact.messages))
            case ToolStarted():
                self._open[fact.call.id] = fact.call
            case ToolEnded() if call := self._open.pop(fact.result.call, None):
                self._end(fact, call, cited=cited)
            case _:
                pass

    def proves(self, *, doubted: bool) -> Evidence:
        """What is known now; what a person may have corrected counts as having worked, or as having failed."""
        texts, other = self.texts, self.texts["doubted"]
        kept: dict[str, Any] = {name: "\n".join(texts[name]) for name in POOLS}
        ran = (
            msgspec.structs.replace(one, how="ok" if doubted else "corrected") if one.how == "doubted" else one
            for one in self._ran
        )
        return Evidence(
            ran=tuple(ran),
            did="\n".join((*texts["ok"], *(other if doubted else ()))),
            cured=_cured(self._ran),
            tried="\n".join((*texts["failed"], *texts["corrected"], *(() if doubted else other))),
            failed="\n".join(texts["environment"]),
            remember=self._remember,
            outside=tuple(self._outside),
            foreign=tuple(self._foreign),
            **kept,
        )

    def _strange(self, name: str, text: str, *, cited: bool) -> None:
        self._foreign.append(Outside(name=name, text=text, at=self._length))
        self._outside |= {name: None} if cited else {}

    def _hear(self, message: Message, *, cited: bool) -> None:
        imported = message.by is not None and message.by.kind == "import"
        for part in message.parts:
            taint = getattr(part, "taint", "none")
            if imported or taint in UNTRUSTED:
                text = part.text if isinstance(part, Text) else ""
                self._strange("an import" if imported or taint == "import" else "the web", text, cited=cited)
        if (text := spoken(message)) is None:
            return
        own, theirs = quoted(text)
        if theirs.strip():
            self._strange("what the person quoted", theirs, cited=cited)
        self.texts["words"].append(own)
        if cited:
            self._remember |= correction(own, "").remember
            for clause, denied in clauses(own):
                (self.texts["denied"] if denied else self.texts["said"]).append(clause)

    def _end(self, fact: ToolEnded, call: ToolCall, *, cited: bool) -> None:
        given = _strings(call.arguments)
        command = given.get("command", "") if call.name == SHELL else ""
        text, back = "\n".join(given.values()), "\n".join(_strings(fact.result.content).values())
        self._brought |= _fetched(command) if command else frozenset()
        fetched = any(re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", text) for one in self._brought)
        strange = fact.result.taint in UNTRUSTED or call.name.startswith(MCP)
        if strange or fetched:
            self._strange(fact.result.name or call.name, back or fact.result.content, cited=cited)
        elif cue("steers").search(back):  # a program's words to its reader: what only they said is nobody's experience
            self._strange(fact.result.name or call.name, back, cited=False)
        if call.name in REFLECTING:
            return
        self.texts["own"].append(text)
        self._length += len(text) + 1
        how = self._how(fact, command, back) if cited else None
        if how is None:
            return
        if how == "ok" and self._before == (command, "failed") and command:
            self._pass(command)
        self._before = (command, how)
        self.texts[how].append("\n".join((call.name, text)))
        self._ran += runs_of(command, how=how, call=fact.seq) if command else ()
        self.texts["shell"] += [command] if how == "ok" else []
        if not (strange or fetched):
            (self.texts["shown"] if how in ("ok", "doubted") else self.texts["wrong"]).append(back)

    def _how(self, fact: ToolEnded, command: str, back: str) -> How | None:
        result = result_of(fact, command)
        if result.status == "none":
            return None
        if result.status == "failed":
            return "environment" if result.cause else "failed"
        if command and _masked(command) and cue("complains").search(back):
            return "failed"
        turn = max(one for one in self._begun if one <= fact.seq)
        seq, sure = self._late.get(turn, (0, 0.0))
        again = fact.seq in self._redone[0]
        after = self._redone[1].get(next((one for one in self._begun if one > turn), 0))
        same = not (command and after) or any(one.verb in after for one in runs_of(command))
        if fact.seq < seq and (sure >= SURE or again or same):  # else the next words began something else
            return "corrected" if sure >= SURE or again else "doubted"
        return "doubted" if again or (command and result.status == "ok" and _SAYS_SO.search(back)) else "ok"

    def _pass(self, command: str) -> None:
        """What worked when it was just tried again had failed for no reason of its own."""
        again = [at for at, text in enumerate(self.texts["failed"]) if text.partition("\n")[2] == command]
        self.texts["environment"] += [self.texts["failed"].pop(at) for at in again[-1:]]
        call = max((one.call for one in self._ran), default=0)
        self._ran = [msgspec.structs.replace(one, how="environment") if one.call == call else one for one in self._ran]


def _redone(facts: Iterable[Fact], begun: Sequence[int]) -> Redone:
    """The calls that were made again in the next turn almost the same, as if wanted otherwise; and what was run in each turn."""
    found: set[int] = set()
    verbs: dict[int, set[str]] = {}
    asked: dict[str, str] = {}
    before: list[tuple[int, Ran]] = []
    now: list[tuple[int, Ran]] = []
    turn, fresh = 0, frozenset(begun)
    for fact in facts:
        if fact.seq in fresh:
            before, now, turn = now or before, [], fact.seq
        elif isinstance(fact, ToolStarted) and fact.call.name == SHELL:
            asked[fact.call.id] = _strings(fact.call.arguments).get("command", "")
        elif isinstance(fact, ToolEnded) and (command := asked.pop(fact.result.call, "")):
            ways = runs_of(command)
            verbs.setdefault(turn, set()).update(one.verb for one in ways)
            if result_of(fact, command).status == "ok":
                now += ((fact.seq, ran) for ran in ways)
                found.update(seq for seq, old in before for ran in ways if _almost(old, ran))
    return found, verbs


def _almost(old: Ran, new: Ran) -> bool:
    """Whether one command is another one with a word or an option changed."""
    changed = (old.items - new.items, new.items - old.items)
    return old.verb == new.verb and all(0 < len(one) <= ALMOST for one in changed)


def _cured(ran: Sequence[Ran]) -> bool:
    """Whether what had failed worked after something else was done, or when it was done in another way; not by itself."""
    for at, bad in enumerate(ran):
        for behind, good in enumerate(ran[at + 1 :] if bad.how in ("failed", "environment") else ()):
            between = any(one.how == "ok" and one.verb != bad.verb for one in ran[at + 1 : at + 1 + behind])
            if good.how == "ok" and good.verb == bad.verb and (between or good.items != bad.items):
                return True
    return False


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
