"""What the new lines of a lesson claim: commands, options, paths, addresses, names; and what no lesson may say. Pure."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

from melete.core.skill import MAIN
from melete.learn.gate_evidence import Evidence, Ran, clauses, cue, mended, orders, runs_of
from melete.learn.results import SURROUNDINGS
from melete.security.words import UNKNOWN

FILLED: Final = "PLACEHOLDER"
MARKDOWN: Final = ".md"
HIDDEN: Final = "<!--"
CLOSE: Final = 12
"""Characters between a word that forbids and what it is about."""
_FENCE: Final = re.compile(r"^ {0,3}(?:```+|~~~+)\s*(\w*)")
_SHELL: Final = ("", "sh", "bash", "shell", "console", "zsh", "shellsession")
_HEADING: Final = re.compile(r"^ {0,3}#{1,6}\s+(.*)|^\*\*([^*]+)\*\*:?\s*$")
_LABEL: Final = re.compile(r"^[\s*+>\d.)-]*([^:`]{2,30}):")
_STEP: Final = re.compile(r"^\s*(?:[-*+]|\d+[.)])?\s*$")
_NUMBERED: Final = re.compile(r"^\s*\d+[.)]\s")
_INDENTED: Final = re.compile(r"(?: {4}|\t)\s*(?![-*+>]\s|\d+[.)]\s)[\w$./~]")
_SPAN: Final = re.compile(r"`+([^`]+)`+")
_PROMPT: Final = re.compile(r"^\s*(?:[$>%]\s+)?")
_HOLE: Final = re.compile(r"\$\{?\w+\}?|<[\w .|/-]+>|\{\{?[\w .]+\}?\}|\[[\w .=-]+\]|\.\.\.|…")
_VALUE: Final = re.compile(rf"[A-Z][A-Z0-9_-]*(?:\.\w{{1,4}})?|.*{FILLED}.*|\$.*|-*")
_SET: Final = re.compile(r"(?<!\S)[A-Z_][A-Z0-9_]*=[^\s'\"]*")
_URL: Final = re.compile(r"(?<![\w+.-])[a-z][a-z0-9+.-]{0,20}://[^\s`'\"<>)\]]+", re.IGNORECASE)
_HOST: Final = re.compile(
    r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b|\b(?:localhost|(?<![\w.-])[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}):\d{2,5}\b"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b"
)
_PATH: Final = re.compile(
    r"(?<![\w:/.~<-])(?:(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]*)*|[\w.@+-]+(?:/[\w.@+-]+)*"
    r"\.(?:py|toml|ya?ml|json|sh|md|cfg|ini|conf|env|js|ts|lock|sql|csv|txt|xml|rs|go|java|rb|service))(?![\w/])"
)
_FLAG: Final = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
_NAMED: Final = re.compile(
    r"(?<![\w/.-])(?:(?=\w{0,99}_)\w{0,99}[a-z]\w*_\w+|[A-Z][A-Z0-9]*_[A-Z0-9_]+|(?=\w{0,99}\d)(?=\w{0,99}[A-Za-z])\w{3,}|\d+(?:\.\d+)+|\d{2,}"
    r"|(?!\w+-(?:to|by|of|the|and|in|a|as|for|or|on)-)[a-z]\w*(?:-\w+){2,})(?![\w/-])"
)
_SMALL: Final = re.compile(r"\d\d")
_WORDS: Final = re.compile(r"[^\W_]{4,}")
_COMMAND: Final = re.compile(
    r"((?:[a-z][\w.-]*)(?:\s+(?!(?:to|for|in|on|when|and|then|before|after|with|or|if|the|a|an|it|is)\b)[\w./=@:-]+){1,5})"
)


class Line(Struct, frozen=True, kw_only=True):
    """A line that is new. `head` says that it names or describes, `warns` that it stands among pitfalls, `code` is the fence's
    language, None outside of one."""

    text: str
    path: str
    head: bool = False
    warns: bool = False
    code: str | None = None


class Claim(Struct, frozen=True, kw_only=True):
    """Something that a line says is so; with `why` nothing proves it, and `rule` names the reason."""

    text: str
    line: str
    rule: str = ""
    why: str = ""


class Named(Struct, frozen=True, kw_only=True):
    """What a line names: `denied` where it warns of it, `ordered` where it says to do it, `forbidden` where it says not to."""

    kind: str
    text: str
    denied: bool = False
    ordered: bool = False
    forbidden: bool = False


def added_lines(before: Mapping[str, str], after: Mapping[str, str]) -> list[Line]:
    """The lines that were not there; one that was moved out of the pitfalls is new as well."""
    found: list[Line] = []
    for path, text in after.items():
        old = Counter((line.text.strip(), line.warns, line.code) for line in _walk(path, before.get(path, "")))
        for line in _walk(path, text):
            key = (line.text.strip(), line.warns, line.code)
            if old[key]:
                old[key] -= 1
            elif key[0]:
                found.append(line)
    return found


def _walk(path: str, text: str) -> Iterator[Line]:
    front, fence, warns, gap = False, None, False, True
    for number, line in enumerate(text.replace("\\\n", " ").splitlines()):
        if line.strip() == "---" and path.endswith(MAIN) and (front or not number):
            front = not front
        elif not front and (edge := _FENCE.match(line)):
            fence = edge[1].lower() if fence is None else None
        elif fence is None and not front and (heading := _HEADING.match(line)):
            warns = cue("warns").search(heading[1] or heading[2]) is not None
            yield Line(text=line, path=path, head=True, warns=warns)
        else:
            label = _LABEL.match(line)
            own = fence is None and label is not None and cue("warns").search(label[1]) is not None
            block = "" if gap and _INDENTED.match(line) and not front else fence
            yield Line(text=line, path=path, head=front, warns=warns or own, code=block)
        gap = not line.strip() or (gap and _INDENTED.match(line) is not None)


def unwanted(line: Line, known: Evidence, *, memory: bool = False) -> tuple[str, str] | None:
    """The name of what no lesson may say and this line does, with the reason; a person who asked for it may have it kept."""
    text, bare = line.text, _SPAN.sub(" ¶ ", line.text)
    code = text if line.code is not None else " ; ".join(_SPAN.findall(text))
    prose = line.code is None
    causes = [one.cause for one in known.signals if one.kind in ("fixed", "failed", "retries")]
    mends = mended(text) and (known.cured or not (causes and all(causes)))
    dated = (line.head or memory) and cue("dated").search(text) and not _HOLE.search(text)
    if HIDDEN in text:
        return "hidden", "it holds a comment, which nobody sees who reads the page"
    if known.remember and same_words(text, known.said + known.denied):
        return None
    if prose and _blames(line, known, mends=mends):
        return "broken_tool", "it says that something does not work; that passes, and the lesson would stay"
    if prose and not mends and (SURROUNDINGS.search(bare) or cue("around").search(bare)):
        return "environment", "it is about a failure of the surroundings, which no lesson mends"
    if cue("ends").search(code) or (prose and (dated or cue("session").search(bare))):
        return "one_off", "it is about one task or one day, and will not come again"
    return None


def _blames(line: Line, known: Evidence, *, mends: bool) -> bool:
    """Whether the line says that something fails which it does not name exactly, or for which it knows no cure."""
    text, bare = line.text, re.sub(r"[`*]", "", line.text)
    ours = cue("ours").search(bare) and cue("denies").search(bare)
    if ours or (cue("tool").search(bare) and (cue("broken").search(bare) or cue("avoids").search(bare))):
        return not (known.denied and same_words(text, known.denied))
    supposed = cue("supposed").search(bare)
    if (verdict := cue("broken").search(bare)) and not (supposed and supposed.start() < verdict.start()):
        return not (mends or cue("condition").search(text)) or not _tried(line, known)
    event = cue("fails").search(bare)
    return bool(event and not line.head and not (supposed and supposed.start() < event.start())) and not (
        _tried(line, known) or same_words(text, known.said + known.denied)
    )


def _tried(line: Line, known: Evidence) -> bool:
    """Whether the line names, as a whole command, an option or a message, what failed by itself in the cited turns."""
    wrong = [one for one in known.ran if one.how in ("failed", "corrected")]
    for one in named_in(line):
        if any(ran.name == claimed.name for claimed in _ways(one) for ran in wrong):
            return True
        if one.kind != "word" and (_holds(known.tried, one.text, one.kind) or _holds(known.denied, one.text, one.kind)):
            return True
    return False


def same_words(text: str, said: str) -> bool:
    """Whether a person's words hold at least half of those of a line."""
    own = {word[:5] for word in _WORDS.findall(text.casefold())}
    return bool(own) and 2 * len(own & {word[:5] for word in _WORDS.findall(said.casefold())}) >= len(own)


def claims(lines: Sequence[Line], known: Evidence, before: Mapping[str, str], free: Collection[str]) -> list[Claim]:
    """What the lines claim, each resolved against what is known and what the text said already; `free` are names of its own."""
    old = [line for path, text in before.items() for line in _walk(path, text) if not line.warns]
    proof = _Proof(known, old, free)
    found: list[Claim] = []
    for line in lines:
        for one in (all_of := named_in(line)):
            if line.path.endswith(MARKDOWN) and _SMALL.fullmatch(one.text):
                continue
            rule, why = proof.of(one, beside=all_of)
            found.append(Claim(text=one.text, line=line.text, rule=rule, why=why))
    return [*found, *proof.steps(lines)]


def foreign(
    lines: Sequence[Line], known: Evidence, before: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines that say what only a text from outside had said before, and the names of these texts."""
    old = "\n".join(before.values())
    held: dict[str, None] = {}
    where: dict[str, None] = {}
    for one in known.foreign:
        mine = "\n".join((known.own[: one.at], known.words, old))
        for line in lines:
            if any(text in _flat(one.text) and text not in _flat(mine) for text in _runs_of_words(line)) or any(
                _holds(one.text, item, kind) and not _holds(mine, item, kind) for kind, item in _telling(line)
            ):
                held[line.text] = where[one.name] = None
    return tuple(held), tuple(where)


def _telling(line: Line) -> Iterator[tuple[str, str]]:
    """What is so particular in a line that who says it has it from somewhere."""
    for one in named_in(line):
        if one.kind in ("command", "spoken", "code"):
            for ran in _ways(one):
                yield from (("flag", text) for text in ran.options | ran.pairs if text.startswith("--"))
                yield from (
                    ("word", text)
                    for text in (*ran.words, ran.name)
                    if len(text) > 4 and not _generic(text)  # noqa: PLR2004
                )
        if one.kind not in ("spoken", "code") and FILLED not in _filled(one.text) and len(one.text) > 3:  # noqa: PLR2004
            yield one.kind if one.kind != "command" else "code", one.text


def _runs_of_words(line: Line) -> Iterator[str]:
    words = line.text.split()
    yield from (" ".join(words[at : at + 5]) for at in range(len(words) - 4))


def items(lines: Iterable[Line]) -> set[tuple[str, str]]:
    """What lines name that can be looked for: programs with each of their words, and every flag, path, address and name."""
    found: set[tuple[str, str]] = set()
    for one in (one for line in lines for one in named_in(line)):
        way = _ways(one)
        found.update((ran.name, item) for ran in way for item in (*ran.options, *ran.words, "") if not _generic(item))
        found.update([("", one.text)] if not way and FILLED not in _filled(one.text) else [])
    return found


def mentions(known: Evidence, item: tuple[str, str]) -> bool:
    """Whether something of `items` was run, tried, said or shown in the turns that were read."""
    name, part = item
    if name:
        return any(one.name == name and (not part or part in one.items) for one in known.ran) or _holds(
            known.said, part or name, "flag"
        )
    return _holds(known.all, part, _kind(part))


def named_in(line: Line) -> list[Named]:
    """What a line names, in code and outside of it."""
    if line.code is not None:
        text = _PROMPT.sub("", line.text).strip()
        kind = "command" if line.code in _SHELL else "code"
        return [Named(kind=kind, text=text, denied=line.warns, ordered=True)] * (text[:1] not in ("", "#", "/"))
    found: list[Named] = []
    for clause, denied in clauses(line.text, warns=line.warns):
        told = [one.end() for one in orders(clause)]
        taboo = [one.end() for one in cue("forbids").finditer(clause)]
        for span in _SPAN.finditer(clause):
            ordered = bool(_STEP.match(clause[: span.start()])) or any(one <= span.start() for one in told)
            text = span[1].strip()
            never = any(0 <= span.start() - one <= CLOSE for one in taboo) and not cue("condition").search(line.text)
            found.append(Named(kind=_kind(text), text=text, denied=denied, ordered=ordered, forbidden=never))
        found += (Named(kind=kind, text=text, denied=denied) for kind, text in _plain(_SPAN.sub(" ", clause)))
    return found


def _ways(one: Named) -> tuple[Ran, ...]:
    return runs_of(_filled(one.text)) if one.kind in ("command", "spoken") else ()


def _kind(span: str) -> str:
    if _URL.fullmatch(span) or _HOST.fullmatch(span):
        return "address"
    if _PATH.fullmatch(span) or "/" in span.split(" ", 1)[0][1:]:
        return "command" if " " in span else "path"
    return "flag" if re.match(r"--?[A-Za-z]", span) else "command" if " " in span else "word"


def _plain(text: str) -> Iterator[tuple[str, str]]:
    """What is claimed outside of code."""
    yield from (
        ("spoken", match[1])
        for one in cue("spoken").finditer(text)
        if (match := _COMMAND.match(text[one.end() :].lstrip()))
    )
    for kind, pattern in (("address", _URL), ("address", _HOST), ("path", _PATH), ("flag", _FLAG)):
        for match in pattern.finditer(text):
            yield kind, match[0].rstrip(".,;:")
        text = pattern.sub("_", text)
    yield from (("word", match[0]) for match in _NAMED.finditer(text))


class _Proof:
    """What may be claimed, and what may be warned of."""

    def __init__(self, known: Evidence, before: Sequence[Line], free: Collection[str]) -> None:
        self._known, self._files = known, frozenset(free)
        self._old = "\n".join(line.text for line in before)
        stood = [_ways(one) for line in before for one in named_in(line) if not one.denied]
        self._worked = [one for one in known.ran if one.how == "ok"]
        self._tried = [one for one in known.ran if one.how in ("failed", "corrected")]
        told = [runs_of(_filled(text)) for text in _SPAN.findall(known.said)]
        calls = dict.fromkeys(one.call for one in self._worked)
        self._paths = [*told, *stood, *(tuple(one for one in self._worked if one.call == call) for call in calls)]
        self._can = [one for way in self._paths for one in way]
        denied = [one for span in _SPAN.findall(known.denied) for one in runs_of(_filled(span))]
        self._could = [*self._can, *self._tried, *denied]

    def of(self, one: Named, *, beside: Sequence[Named]) -> tuple[str, str]:
        """The rule and the reason why something is not proven; empty where it is."""
        if one.kind == "command" or (one.kind == "spoken" and self._program(one.text.split()[0])):
            return self._command(one, beside=beside)
        return ("", "") if one.kind == "spoken" else self._item(one.kind, one.text, denied=one.denied)

    def steps(self, lines: Iterable[Line]) -> Iterator[Claim]:
        """Steps of one program over several lines that were never taken in this order."""
        ways: dict[str, list[tuple[Ran, str]]] = {}
        for line in lines:
            if line.code is not None or _NUMBERED.match(line.text):
                for one in named_in(line):
                    for ran in _ways(one) if not one.denied else ():
                        ways.setdefault(ran.name, []).append((ran, line.text))
        for way in ways.values():
            if len(way) > 1 and self._out_of_order([ran for ran, _ in way]):
                yield Claim(
                    text=way[0][1], line=way[0][1], rule="ungrounded", why="and what follows never ran in this order"
                )

    def _program(self, name: str) -> bool:
        return any(one.name == name for one in self._could)

    def _out_of_order(self, way: Sequence[Ran]) -> bool:
        """Whether calls show the steps, but never one behind the other."""
        ran = iter(one for one in self._worked if one.name == way[0].name)
        known = all(any(_covers(one, step) for one in self._worked) for step in way)
        return known and not all(any(_covers(one, step) for one in ran) for step in way)

    def _item(self, kind: str, text: str, *, denied: bool) -> tuple[str, str]:
        """Why a flag, path, address, word or piece of code is not proven; empty where it is."""
        known, wanted = self._known, _filled(text)
        if FILLED in wanted or text in self._files or (kind == "word" and (text in known.tools or len(text) < 2)):  # noqa: PLR2004
            return "", ""
        pools = [known.did, known.said, self._old]
        pools += [known.shown] if kind in ("path", "word", "code") else []
        pools += [known.tried, known.denied] if denied else []
        pools += [known.wrong] if denied and kind in ("path", "word", "code") else []
        if any(_holds(pool, text, kind) for pool in pools):
            return "", ""
        if _holds(known.tried, text, kind):
            return "failed", "stands only in calls that failed or were corrected"
        if _holds(known.failed, text, kind):
            return "environment", "stands only in calls that the surroundings let fail"
        return "ungrounded", "is in no call that worked and in no word of the person in the turns that it cites"

    def _command(self, one: Named, *, beside: Sequence[Named]) -> tuple[str, str]:
        """Why a command line is not proven."""
        known, way = self._known, _ways(one)
        pools = (known.shown, known.wrong, known.said, known.tried, known.denied, self._old)
        strange = not any(ran.options for ran in way) and not self._program(one.text.split()[0])
        if way and strange and not one.ordered and _flat(one.text) in _flat("\n".join(pools)):
            return "", ""  # a message, not a command
        inside = rf"(?<=[\s'\"]){re.escape(_flat(one.text))}(?![\w-])"
        if way and not self._program(way[0].name) and re.search(inside, _flat(known.shell)):
            return "", ""  # a command that another one ran
        for ran in way:
            if wrong := self._run(ran, denied=one.denied, forbidden=one.forbidden):
                return wrong
            whole = not one.denied and (one.ordered or ran.options or len(one.text.split()) > 2)  # noqa: PLR2004
            if whole and (wrong := self._left_out(ran, beside)):
                return wrong
        if (len(way) > 1 and not one.denied and not self._in_order(way)) or (
            "||" in one.text and "||" not in f"{known.shell}{known.said}{self._old}"
        ):
            return "ungrounded", "was never run in this order"
        parts = [(kind, text) for kind, text in _plain(one.text) if kind in ("address", "path")]
        parts += [("word", text) for text in _SET.findall(one.text)]
        wrong = (self._item(kind, text, denied=one.denied) for kind, text in parts if not _generic(text))
        return next((each for each in wrong if each[0]), ("", ""))

    def _run(self, ran: Ran, *, denied: bool, forbidden: bool) -> tuple[str, str] | None:
        if any(PurePosixPath(path).name == ran.name for path in self._files):
            return None
        pool = [one for one in (self._could if denied else self._can) if one.name == ran.name]
        said = self._known.said + (self._known.denied if denied else "")
        if not pool and not _holds(said, ran.name, "word"):
            others = {one.how for one in self._known.ran if one.name == ran.name}
            rule = "environment" if others == {"environment"} else "failed" if others else "ungrounded"
            return rule, f"is not proven: no call of {ran.verb} worked in the turns that it cites"
        wanted = {item for item in ran.items if not _free(item) and item not in self._files}
        missing = min((wanted - one.items for one in pool), key=len, default=wanted)
        left = sorted(one for one in missing if not self._was_said(one, said))
        if left:
            tried = any(one.name == ran.name and set(left) <= one.items for one in self._tried)
            return ("failed" if tried else "ungrounded"), f"is not proven: {ran.name} never worked with {left[0]}"
        if forbidden and ran.words and self._only_good(ran):
            return "failed", "worked, and nobody said not to do it"
        return None

    def _was_said(self, item: str, said: str) -> bool:
        name, _, value = item.partition(" ")
        return all(_holds(said, part, "flag") for part in (name, value) if part and not _generic(part))

    def _only_good(self, ran: Ran) -> bool:
        """Whether it worked just so, nothing like it failed, and the person did not speak against it."""
        good = any(one.name == ran.name and ran.items <= one.items for one in self._worked)
        bad = any(one.name == ran.name for one in self._tried) or _holds(self._known.denied, ran.name, "word")
        return good and not bad

    def _left_out(self, ran: Ran, beside: Sequence[Named]) -> tuple[str, str] | None:
        """What made the program work where it had failed has to be in the line."""
        if not any(one.verb == ran.verb for one in self._tried) or _holds(
            self._known.said, " ".join(ran.words), "code"
        ):
            return None
        named = {option for one in beside for way in _ways(one) for option in way.options}
        named |= {one.text.split()[0] for one in beside if one.kind == "flag"}
        ways = [one for one in self._can if one.name == ran.name and _covers(one, ran)]
        bare = [one.options for one in self._tried if one.verb == ran.verb]
        needed = ({item for item in one.options - named if not all(item in each for each in bare)} for one in ways)
        missing = min(needed, key=len, default=set[str]())
        return ("failed", f"leaves out {min(missing)}, without which {ran.verb} never worked") if missing else None

    def _in_order(self, way: Sequence[Ran]) -> bool:
        """Whether the programs ran in this order: within one call, or at last."""
        names = {one.name for one in way}
        last = [one for one in self._worked if one.name in names][-len(way) :]
        return any(
            all(_covers(one, step) for one, step in zip(tried[at:], way, strict=False))
            for tried in (last, *([one for one in each if one.name in names] for each in self._paths))
            for at in range(len(tried) - len(way) + 1)
        )


def _covers(ran: Ran, claimed: Ran) -> bool:
    return ran.name == claimed.name and all(one in ran.items for one in claimed.items if not _free(one))


def _generic(word: str) -> bool:
    """Whether a word only stands for another one."""
    return _VALUE.fullmatch(word) is not None or cue("sample").fullmatch(word) is not None


def _free(item: str) -> bool:
    name, _, value = item.partition(" ")
    return _generic(value if value and name.startswith("-") else item) or (FILLED in item and not item.startswith("-"))


def _filled(text: str) -> str:
    return _HOLE.sub(FILLED, text).replace(UNKNOWN, "")


def _holds(pool: str, text: str, kind: str) -> bool:
    """Whether a text holds another as a whole word, whole path or whole address; code as it stands."""
    if not text:
        return False
    if kind in ("code", "command"):
        return _flat(text) in _flat(pool)
    name, _, value = text.partition(" ")
    pattern = (
        rf"{re.escape(name)}[ =]+['\"]?{re.escape(value)}"
        if value and kind == "flag"
        else re.escape(text.rstrip("/").removeprefix("./"))
    )
    before, behind = (r"(?<![\w-])", r"(?![\w-])") if kind != "path" else (r"(?<![\w.-])(?:\./)?", r"(?![\w-])")
    if kind == "path" and text.startswith("~"):
        pattern, before = re.escape(text[1:].rstrip("/")), ""
    return re.search(before + pattern + behind, pool, re.IGNORECASE if kind == "word" else 0) is not None


def _flat(text: str) -> str:
    return " ".join(text.split())
