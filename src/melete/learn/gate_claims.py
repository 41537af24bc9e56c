"""Whether what the new lines of a lesson claim is proven, and what no lesson may say. Pure."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

from melete.learn.gate_evidence import Evidence, Ran, cue, mended, runs_of
from melete.learn.gate_lines import (
    FILLED,
    HOLE,
    SPAN,
    Line,
    Named,
    filled,
    flat,
    generic,
    holds,
    is_address,
    kind_of,
    like,
    named_in,
    places_of,
    plain,
    programs_of,
    walk,
)
from melete.learn.results import SURROUNDINGS
from melete.learn.verbs import NESTED, SCRIPTED, STAYING

MARKDOWN: Final = ".md"
HIDDEN: Final = re.compile(
    r"<!--|<\w+\b[^>]*\b(?:hidden|style|color|opacity|display)\b|^\s*\[[^\]]*\]:\s*#", re.IGNORECASE
)
_NUMBERED: Final = re.compile(r"^\s*\d+[.)]\s")
_INLINE: Final = re.compile(r"(?:-c|-e|-m|--eval) (.+)")
_SET: Final = re.compile(r"(?<!\S)[A-Z_][A-Z0-9_]*=[^\s'\"]*")
_SMALL: Final = re.compile(r"\d\d")
_WORDS: Final = re.compile(r"[^\W_]{4,}")


class Claim(Struct, frozen=True, kw_only=True):
    """Something that a line says is so; with `why` nothing proves it, and `rule` names the reason."""

    text: str
    line: str
    rule: str = ""
    why: str = ""


def unwanted(line: Line, known: Evidence, *, memory: bool = False) -> tuple[str, str] | None:
    """The name of what no lesson may say and this line does, with the reason; a person who asked for it may have it kept."""
    text, bare = line.text, SPAN.sub(" ¶ ", line.text)
    code = text if line.code is not None else " ; ".join(SPAN.findall(text))
    prose = line.code is None
    causes = [one.cause for one in known.signals if one.kind in ("fixed", "failed", "retries")]
    mends = mended(text) and (known.cured or not (causes and all(causes)))
    dated = (line.head or memory) and cue("dated").search(text) and not HOLE.search(text)
    if HIDDEN.search(text):
        return "hidden", "it holds what nobody sees who reads the page"
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
        if any(ran.name == claimed.name for claimed in programs_of(one) for ran in wrong):
            return True
        if one.kind != "word" and (holds(known.tried, one.text, one.kind) or holds(known.denied, one.text, one.kind)):
            return True
    return False


def same_words(text: str, said: str) -> bool:
    """Whether a person's words hold at least half of those of a line."""
    own = {word[:5] for word in _WORDS.findall(text.casefold())}
    return bool(own) and 2 * len(own & {word[:5] for word in _WORDS.findall(said.casefold())}) >= len(own)


def claims(lines: Sequence[Line], known: Evidence, before: Mapping[str, str], free: Collection[str]) -> list[Claim]:
    """What the lines claim, each resolved against what is known and what the text said already; `free` are names of its own."""
    old = [line for path, text in before.items() for line in walk(path, text) if not line.warns]
    named = [(line, named_in(line)) for line in lines]
    proof = _Proof(known, old, free)
    proof.places = {place for _, all_of in named for one in all_of for place in places_of(one)}
    found: list[Claim] = []
    for line, all_of in named:
        for one in all_of:
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
            if any(text in flat(one.text) and text not in flat(mine) for text in _runs_of_words(line)) or any(
                holds(_not_of_others(one.text, verb), item, kind) and not holds(mine, item, kind)
                for kind, item, verb in _telling(line)
            ):
                held[line.text] = where[one.name] = None
    return tuple(held), tuple(where)


def _not_of_others(text: str, verb: str) -> str:
    """A text without the commands in it that are other subcommands of the same program, each with its options."""
    name, _, own = verb.partition(" ")
    if not own:
        return text
    other = rf"(?<![\w./-]){re.escape(name)}[ \t]+(?!{re.escape(own)}(?![\w-]))[a-z][\w-]*"
    return re.sub(
        rf"{other}(?:[ \t]+-[\w-]+(?:[ \t=](?!-)[\w./:-]+(?=[ \t]+-|[`'\"\s]*$|[`'\"]))?)*",
        " ",
        text,
        flags=re.MULTILINE,
    )


def _telling(line: Line) -> Iterator[tuple[str, str, str]]:
    """What is so particular in a line that who says it has it from somewhere; with the program and subcommand that it is of."""
    for one in named_in(line):
        if one.kind in ("command", "spoken", "code"):
            for ran in programs_of(one):
                verb = f"{ran.name} {ran.words[0]}" if ran.words else ran.name
                yield from (("flag", text, verb) for text in ran.options | ran.pairs if text.startswith("--"))
                yield from (
                    ("word", text, verb)
                    for text in (*ran.words, ran.name)
                    if len(text) > 4 and not generic(text)  # noqa: PLR2004
                )
        if one.kind not in ("spoken", "code") and FILLED not in filled(one.text) and len(one.text) > 3:  # noqa: PLR2004
            yield one.kind if one.kind != "command" else "code", one.text, ""


def _runs_of_words(line: Line) -> Iterator[str]:
    words = line.text.split()
    yield from (" ".join(words[at : at + 5]) for at in range(len(words) - 4))


def items(lines: Iterable[Line]) -> set[tuple[str, str]]:
    """What lines name that can be looked for: programs with each of their words, and every flag, path, address and name."""
    found: set[tuple[str, str]] = set()
    for one in (one for line in lines for one in named_in(line)):
        way = programs_of(one)
        found.update((ran.name, item) for ran in way for item in (*ran.options, *ran.words, "") if not generic(item))
        found.update([("", one.text)] if not way and FILLED not in filled(one.text) else [])
    return found


def mentions(known: Evidence, item: tuple[str, str]) -> bool:
    """Whether something of `items` was run, tried, said or shown in the turns that were read."""
    name, part = item
    if name:
        return any(one.name == name and (not part or part in one.items) for one in known.ran) or holds(
            known.said, part or name, "flag"
        )
    return holds(known.all, part, kind_of(part))


class _Proof:
    """What may be claimed, and what may be warned of."""

    def __init__(self, known: Evidence, before: Sequence[Line], free: Collection[str]) -> None:
        self._known, self._files = known, frozenset(free)
        self._old = "\n".join(line.text for line in before)
        stood = [programs_of(one) for line in before for one in named_in(line) if not one.denied]
        self._worked = [one for one in known.ran if one.how == "ok"]
        self._tried = [one for one in known.ran if one.how in ("failed", "corrected")]
        told = [runs_of(filled(text)) for text in SPAN.findall(known.said)]
        calls = dict.fromkeys(one.call for one in self._worked)
        self._paths = [*told, *stood, *(tuple(one for one in self._worked if one.call == call) for call in calls)]
        self._stood = stood
        self._can = [one for way in self._paths for one in way]
        denied = [one for span in SPAN.findall(known.denied) for one in runs_of(filled(span))]
        self._could = [*self._can, *self._tried, *denied]
        self.places: set[str] = set()

    def of(self, one: Named, *, beside: Sequence[Named]) -> tuple[str, str]:
        """The rule and the reason why something is not proven; empty where it is."""
        if FILLED in (wanted := filled(one.text)) and generic(wanted):
            return ("ungrounded", "names nothing that was run") if one.ordered else ("", "")
        told = one.kind == "spoken" and (
            self._program(one.text.split()[0]) or any(ran.options for ran in programs_of(one))
        )
        if one.kind == "command" or told:
            return self._command(one, beside=beside)
        return ("", "") if one.kind == "spoken" else self._item(one.kind, one.text, denied=one.denied)

    def steps(self, lines: Iterable[Line]) -> Iterator[Claim]:
        """Steps of one program over several lines that were never taken in this order."""
        ways: dict[str, list[tuple[Ran, str]]] = {}
        for line in lines:
            if line.code is not None or _NUMBERED.match(line.text):
                for one in named_in(line):
                    for ran in programs_of(one) if not one.denied else ():
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
        known, (name, _, value) = self._known, filled(text).partition(" ")
        wanted = name if kind == "flag" and value and generic(value) else filled(text)
        if text in self._files or (kind == "word" and (text in (*known.tools, *self.places) or len(text) < 2)):  # noqa: PLR2004
            return "", ""
        pools = [known.did, known.said, self._old]
        pools += [known.shown] if kind in ("path", "word", "code") else []
        pools += [known.tried, known.denied] if denied else []
        pools += [known.wrong] if denied and kind in ("path", "word", "code") else []
        if any(holds(pool, wanted, kind) for pool in pools):
            return "", ""
        if holds(known.tried, text, kind):
            return "failed", "stands only in calls that failed or were corrected"
        if holds(known.failed, text, kind):
            return "environment", "stands only in calls that the surroundings let fail"
        return "ungrounded", "is in no call that worked and in no word of the person in the turns that it cites"

    def _command(self, one: Named, *, beside: Sequence[Named]) -> tuple[str, str]:
        """Why a command line is not proven."""
        known, way = self._known, programs_of(one)
        pools = (known.shown, known.wrong, known.said, known.tried, known.denied, self._old)
        strange = not any(ran.options for ran in way) and not self._program(one.text.split()[0])
        if way and strange and (one.denied or not one.ordered) and flat(one.text) in flat("\n".join(pools)):
            return "", ""  # a message, not a command
        inside = rf"(?<=[\s'\"]){re.escape(flat(one.text))}(?![\w-])"
        if way and not self._program(way[0].name) and re.search(inside, flat(known.shell)):
            return "", ""  # a command that another one ran
        for ran in way:
            if wrong := self._run(ran, denied=one.denied, forbidden=one.forbidden, alone=len(way) == 1):
                return wrong
            whole = not one.denied and (one.ordered or ran.options or len(one.text.split()) > 2)  # noqa: PLR2004
            if whole and (wrong := self._left_out(ran, beside)):
                return wrong
        if (len(way) > 1 and not one.denied and not self._in_order(way)) or (
            "||" in one.text and "||" not in f"{known.shell}{known.said}{self._old}"
        ):
            return "ungrounded", "was never run in this order"
        parts = [(kind, text) for kind, text in plain(one.text) if kind in ("address", "path", "flag")]
        parts += [("path", word) for word in filled(one.text).split() if not way and "/" in word]
        parts += [("word", text) for text in _SET.findall(one.text)]
        wrong = (self._item(kind, text, denied=one.denied) for kind, text in parts if not generic(text))
        return next((each for each in wrong if each[0]), ("", ""))

    def _run(self, ran: Ran, *, denied: bool, forbidden: bool, alone: bool) -> tuple[str, str] | None:
        if any(PurePosixPath(path).name == ran.name for path in self._files):
            return None
        pool = [one for one in (self._could if denied else self._can) if one.name == ran.name]
        said = self._known.said + (self._known.denied if denied else "")
        if not pool and not holds(said, ran.name, "word"):
            others = {one.how for one in self._known.ran if one.name == ran.name}
            rule = "environment" if others == {"environment"} else "failed" if others else "ungrounded"
            return rule, f"is not proven: no call of {ran.verb} worked in the turns that it cites"
        if pool and not (pool := [one for one in pool if not self._swallows(ran, one, alone=alone)]):
            return "ungrounded", "leaves open what has to be told: a subcommand, a script, code or an address"
        wanted = {item for item in ran.items if not _free(item) and item not in self._files}
        pool = [
            one for one in pool if one.verb == ran.verb
        ] or pool  # another subcommand's call proves nothing of this one
        missing = min((_missing(wanted, one) for one in pool), key=len, default=wanted)
        about = f"{ran.name} {ran.words[0]}" if ran.words and not generic(ran.words[0]) else ran.name
        said = _not_of_others(said, about)  # what was said of another subcommand proves nothing of this one
        left = sorted(one for one in missing if not self._was_said(one, said))
        if left:
            tried = any(one.name == ran.name and set(left) <= one.items for one in self._tried)
            return ("failed" if tried else "ungrounded"), f"is not proven: {ran.name} never worked with {left[0]}"
        if forbidden and ran.words and self._only_good(ran):
            return "failed", "worked, and nobody said not to do it"
        return None

    def _swallows(self, ran: Ran, one: Ran, *, alone: bool) -> bool:
        """Whether placeholders stand for more than a value: a subcommand, a script, code, or an address that nobody said."""
        inner = ran.verb != one.verb and any(map(generic, ran.words[: one.verb.count(" ")]))
        code = any((said := _INLINE.fullmatch(pair)) and generic(said[1]) for pair in ran.pairs)
        fed = bool(one.words) and not ran.words
        there = [word for word in one.words if is_address(word)]
        left = [word for word in there if not any(word == own or re.fullmatch(like(own), word) for own in ran.words)]
        strange = any(not (alone and holds(self._known.said, word, "address")) for word in left)
        scripted = ran.name in SCRIPTED
        inner = inner and (scripted or ran.name in NESTED | STAYING)
        return _lost(ran, one) or inner or (scripted and (code or fed)) or (strange and any(map(generic, ran.words)))

    def _was_said(self, item: str, said: str) -> bool:
        name, _, value = item.partition(" ")
        return all(holds(said, part, "flag") for part in (name, value) if part and not generic(part))

    def _only_good(self, ran: Ran) -> bool:
        """Whether it worked just so, nothing like it failed, and the person did not speak against it."""
        good = any(one.name == ran.name and ran.items <= one.items for one in self._worked)
        bad = any(one.name == ran.name for one in self._tried) or holds(self._known.denied, ran.name, "word")
        return good and not bad

    def _left_out(self, ran: Ran, beside: Sequence[Named]) -> tuple[str, str] | None:
        """What made the program work where it had failed has to be in the line."""
        if not any(one.verb == ran.verb for one in self._tried) or holds(self._known.said, " ".join(ran.words), "code"):
            return None
        named = {option for one in beside for way in programs_of(one) for option in way.options}
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
        return self._gone_on(way) or any(
            all(_covers(one, step) for one, step in zip(tried[at:], way, strict=False))
            for tried in (last, *([one for one in each if one.name in names] for each in self._paths))
            for at in range(len(tried) - len(way) + 1)
        )

    def _gone_on(self, way: Sequence[Ran]) -> bool:
        """Whether it begins as a line that stood, which was tried, and all that worked behind that is the rest of it."""
        calls = {one.call: tuple(each for each in self._tried if each.call == one.call) for one in self._tried}
        for stood in self._stood:
            same = sum(1 for _ in takewhile(lambda pair: _covers(*pair), zip(stood, way, strict=False)))
            begun = [one for one in calls.values() if len(one) > same and _begins(one, way[:same])]
            alone = any(_covers(one[0], step) for one in calls.values() if len(one) == 1 for step in way[:same])
            behind = [one for one in self._worked if begun and one.call > begun[-1][0].call and one.name == way[0].name]
            if 0 < same < len(way) and not alone and _begins(behind, way[same:]) and len(behind) == len(way) - same:
                return True
        return False


def _begins(ran: Sequence[Ran], way: Sequence[Ran]) -> bool:
    return len(ran) >= len(way) and all(_covers(one, step) for one, step in zip(ran, way, strict=False))


def _lost(ran: Ran, one: Ran) -> bool:
    """Whether a placeholder stands where the call had the value of an option that is gone."""
    gone = {value for name, _, value in (pair.partition(" ") for pair in one.pairs) if name not in ran.options}
    return any(map(generic, ran.words)) and len(ran.words) > sum(word not in gone for word in one.words)


def _covers(ran: Ran, claimed: Ran) -> bool:
    return ran.name == claimed.name and not _missing({one for one in claimed.items if not _free(one)}, ran)


def _missing(wanted: set[str], ran: Ran) -> set[str]:
    """What is wanted and was not there, not even with something else in the places that are left open."""
    return {
        one
        for one in wanted - ran.items
        if not (pattern := like(one)) or not any(re.fullmatch(pattern, item) for item in ran.items)
    }


def _free(item: str) -> bool:
    name, _, value = item.partition(" ")
    return generic(value if value and name.startswith("-") else item)
