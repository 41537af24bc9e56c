"""The gates that a lesson passes before it can be loaded: form, grounding, safety, ownership, duplicates. Pure.

Each is a function over values and says on its own whether the lesson may go on, whether a person has to decide, and why. What
the cited turns prove is read once (`gate_evidence`); how commands are found in a text is in `gate_claims`.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal

from msgspec import Struct

from melete.core.event import Fact
from melete.core.ports import Applied
from melete.core.skill import MAIN
from melete.learn.gate_claims import Claim, claims, foreign, items, mentions, unwanted
from melete.learn.gate_evidence import Evidence, clauses, cue, each
from melete.learn.gate_lines import Line, added_lines, flat
from melete.learn.verbs import taught
from melete.learn.verdict import Gate, Verdict
from melete.security import skillscan, threats
from melete.security.redact import without_shapes
from melete.security.words import names

Class = Literal["fact", "typo", "pitfall", "skill", "guidance"]
Files = Mapping[str, str]
LONGEST: Final = 15_000
"""Characters of a text that the reviewer may write."""
A_DAY: Final = 12
"""New skills that it may make on one day."""
LONGEST_ENTRY: Final = 600
"""Characters of an entry of memory."""
ALIKE: Final = 0.5
"""The share of shingles from which two texts say the same."""
ALIKE_COMMANDS: Final = 0.35
"""The same where they teach the same commands."""
WITHIN: Final = 0.1
"""The same where the other teaches all of its commands."""
SAME: Final = 0.66
"""The share of telling words from which two entries without commands say the same."""
SHINGLE: Final = 3
SUPPORT: Final = 0.25
SUPPORT_ENTRY: Final = 0.5
"""The shares of the words of a skill's prose, and of an entry of memory, that the cited turns have to hold."""
PUT_RIGHT: Final = 0.85
"""How alike two lines are of which one only puts the other right."""
FEW: Final = 3
"""Turns that something may be in and still tell which of them a lesson comes from."""
STRANGE: Final = 0.2
"""The share of the words of a skill's line, if it has more than a few, that the cited turns have to hold."""
SHORT: Final = 5
SHOWN: Final = 8
UNRUN: Final = "is code that no call of the cited turns wrote or ran"
UNHEARD: Final = "it says what is not in the turns that it cites"
PROSE: Final = (".md", ".txt")
_WORD: Final = re.compile(r"[^\W\d_]{4,}")
_HAN: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2}")
_FIELD: Final = re.compile(r"^\s*(?:- )?([A-Za-z_][\w-]*):", re.MULTILINE)
_CAPITAL: Final = re.compile(r"(?<![.:!?] )(?<=[\w,] )\b[A-Z]\w+")
FIELDS: Final = names(
    "name description version license author category tags related_skills related metadata melete hermes compatibility trigger"
)
"""What a lesson may say about itself in its front matter; what gives rights or asks for settings is a person's to write."""


class Proposal(Struct, frozen=True, kw_only=True):
    """A lesson: a skill's texts by their paths before and after, or with `kind` memory the entries in one file.

    `owner` is whose the skill is, or who wrote the entry that is replaced; `own_lines` are the lines of it that a person wrote.
    `session` and `turns` are what it cites, `base` the version that was read, `granted` that a person allowed it.
    """

    name: str
    kind: Literal["skill", "memory"] = "skill"
    before: Files = {}
    after: Files = {}
    session: str = ""
    turns: tuple[int, ...] = ()
    owner: str = "agent"
    base: str = ""
    pinned: bool = False
    granted: bool = False
    own_lines: tuple[str, ...] = ()

    @property
    def new(self) -> bool:
        """Whether nothing of this name was there."""
        return not any(self.before.values())


class Neighbour(Struct, frozen=True, kw_only=True):
    """A skill or entry that comes near: its name, its description and its text."""

    name: str
    text: str
    about: str = ""


def form(
    proposal: Proposal, *, made_today: int = 0, strict: Callable[[str, str], str] = lambda _text, _name: ""
) -> Verdict:
    """Gate 0: the right shape, not too long, not too many. `strict` says what is wrong with a SKILL.md of this name."""
    longest = LONGEST if proposal.kind == "skill" else LONGEST_ENTRY
    if long := [path for path, text in proposal.after.items() if len(text) > longest]:
        return _refused("form", "too_long", f"{long[0]} is longer than {longest:,} characters")
    if proposal.kind == "memory":
        blank = not any(text.strip() for text in proposal.after.values()) and proposal.new
        return _refused("form", "empty", "the entry is empty") if blank else Verdict(gate="form")
    if proposal.new and MAIN not in proposal.after:
        return _refused("form", "no_main", f"a new skill needs a {MAIN}")
    text, old = proposal.after.get(MAIN, ""), proposal.before.get(MAIN, "")
    more = {*_FIELD.findall(_front(text))} - {*_FIELD.findall(_front(old))} - FIELDS
    why = f"{min(more)} in its front matter is for a person to write" if more else ""
    if why := why or (strict(text, proposal.name) if MAIN in proposal.after else ""):
        return _refused("form", "front_matter", why)
    if proposal.new and made_today >= A_DAY:
        return _asks("form", "too_many", f"{A_DAY} new skills were made today; this one waits")
    return Verdict(gate="form")


def grounding(proposal: Proposal, known: Evidence) -> Verdict:
    """Gate 1: what the new lines say was done, or said by the person, in the turns that it cites; and it is worth keeping."""
    if known.missing or not proposal.turns or (known.session and proposal.session not in ("", known.session)):
        return _refused("grounding", "other_session", "it does not cite turns of the session that was read")
    lines = added_lines(proposal.before, proposal.after)
    named = Line(text=f"# {proposal.name.replace('-', ' ')}", path=MAIN, head=True)
    for line in (*((named,) if proposal.new and proposal.kind == "skill" else ()), *lines):
        if found := unwanted(line, known, memory=proposal.kind == "memory"):
            return _refused("grounding", found[0], found[1], lines=(line.text,))
    code = {path for path in proposal.after if not path.endswith(PROSE) and proposal.kind == "skill"}
    changed = (path for path in code if proposal.after[path] != proposal.before.get(path))
    did = flat(known.did)
    unrun = [_unrun(path) for path in changed if flat(proposal.after[path]) not in did]
    prose = [line for line in lines if line.path not in code]
    free = (*proposal.after, proposal.name)
    found = claims(prose, known.certain or known, proposal.before, free)
    if wrong := [*unrun, *(one for one in found if one.why)]:
        if known.certain and not unrun and not any(one.why for one in claims(prose, known, proposal.before, free)):
            return _asks("grounding", "doubted", "the person may have corrected one of the turns that it cites")
        return _ungrounded(wrong)
    return _heard(proposal, prose, {one.line for one in found}, known)


def _heard(proposal: Proposal, prose: Sequence[Line], proven: Collection[str], known: Evidence) -> Verdict:
    """Whether what the lines say beside what is proven comes from the cited turns."""
    if class_of(proposal) == "typo":
        return Verdict(gate="grounding")
    if proposal.kind == "skill" and (unheard := _unheard(prose, proposal, known)):
        return _asks("grounding", "unsupported", UNHEARD, lines=tuple(unheard[:SHOWN]))
    if proposal.kind == "skill" and proven:
        return Verdict(gate="grounding")
    return _supported(proposal, [line for line in prose if line.text not in proven], known, proven=bool(proven))


def safety(
    proposal: Proposal,
    known: Evidence,
    *,
    scan: Callable[[Mapping[str, bytes]], skillscan.Report] = skillscan.scan,
    steers: Callable[[str], Sequence[threats.Finding]] = threats.scan,
    redact: Callable[[str], str] = without_shapes,
) -> Verdict:
    """Gate 2: no secret, no order to its reader, nothing that does harm in the new lines; text from outside needs a person."""
    lines = [line.text for line in added_lines(proposal.before, proposal.after)]
    text = "\n".join(lines)
    if (
        redact(text) != text
        or redact(proposal.name) != proposal.name
        or any(map(_secret, lines))
        or cue("userinfo").search(text)
    ):
        held = tuple(redact(line) for line in lines if redact(line) != line)
        return _refused(
            "safety", "secret", "it holds what looks like a secret; say where it is kept instead", lines=held
        )
    stood = {one.rule for old in _joined(proposal.before.values()) for one in steers(old)}
    if found := next(
        (one for new in _joined((text, *proposal.after.values())) for one in steers(new) if one.rule not in stood), None
    ):
        return _refused("safety", "injection", f"it {found.reason}", lines=(found.text,))
    if own := [line for line in lines if cue("consent").search(line)]:
        return _refused("safety", "consent", "it changes what the agent may do or must tell", lines=tuple(own[:SHOWN]))
    old = {(one.rule, one.text) for one in scan(_bytes(proposal.before)).findings}
    files = _bytes(proposal.after) if proposal.kind == "skill" else {MAIN: text.encode()}
    report = scan(files)
    grave = [one for one in report.findings if one.severity != "low" and (one.rule, one.text) not in old]
    if grave and report.verdict != "safe":
        return _refused(
            "safety",
            grave[0].rule,
            f"the scan finds: {grave[0].reason}",
            lines=tuple(one.text for one in grave[:SHOWN]),
        )
    held, where = foreign(added_lines(proposal.before, proposal.after), known, proposal.before)
    if names_ := dict.fromkeys((*known.outside, *where)):
        return _asks("safety", "taint", f"it comes from outside ({', '.join([*names_][:3])})", lines=held[:SHOWN])
    return Verdict(gate="safety")


def ownership(proposal: Proposal, merged: Applied | None = None) -> Verdict:
    """Gate 3: nothing of a person's is overwritten. `merged` is what the merge with their edits would make of it."""
    theirs = proposal.owner == "user" and not proposal.granted
    if merged is not None and not merged.ok and (merged.conflict or not theirs):
        make = _asks if merged.conflict else _refused
        return make("ownership", "conflict" if merged.conflict else "cannot_be_made", merged.reason)
    if proposal.new or proposal.granted:
        return Verdict(gate="ownership")
    if proposal.kind == "skill" and not proposal.base:
        return _refused("ownership", "not_read", f"{proposal.name} was not read before it was changed")
    after = {line.strip() for text in proposal.after.values() for line in text.splitlines()}
    gone = tuple(line for line in proposal.own_lines if line.strip() and line.strip() not in after)
    if gone:
        return _asks("ownership", "own_lines", "it changes lines that the person wrote", lines=gone)
    if proposal.owner != "agent" or proposal.pinned:
        whose = (
            "is pinned"
            if proposal.pinned
            else f"belongs to {'the person' if proposal.owner == 'user' else proposal.owner}"
        )
        return _asks("ownership", "owner", f"{proposal.name} {whose}")
    return Verdict(gate="ownership")


def duplicates(proposal: Proposal, neighbours: Iterable[Neighbour]) -> Verdict:
    """Gate 4: what says nearly the same as something that is there must be a patch of that."""
    if not proposal.new:
        return Verdict(gate="duplicates")
    text = "\n".join(proposal.after.values())
    entry = proposal.kind == "memory"
    nearest = max(((_alike(text, one, entry=entry), one.name) for one in neighbours), default=(0.0, ""))
    if nearest[0] < 1:
        return Verdict(gate="duplicates")
    return _refused("duplicates", "duplicate", f"{nearest[1]} says nearly the same: patch it instead")


def added(proposal: Proposal) -> tuple[str, ...]:
    """The lines that a lesson brings, for `cite`; the name of a new skill is one of them."""
    named = (proposal.name,) if proposal.new and proposal.kind == "skill" else ()
    return (*named, *(line.text for line in added_lines(proposal.before, proposal.after)))


def cite(texts: Iterable[str], facts: Sequence[Fact], turns: Sequence[int]) -> tuple[int, ...]:
    """Those of the turns that support these new lines: where their commands and names were run or said, else their words.

    A turn is cited by any fact in it. What is in most of them tells nothing; as few as hold it all, the latest of those that hold
    as much; all of them where nothing can be told apart.
    """
    text = "\n".join(texts)
    held = each(facts, turns)
    lines = [Line(text=line, path=MAIN) for line in text.splitlines()]
    words = {turn: _stems(known.all) for turn, known in held.items()}
    ways: tuple[list[set[int]], ...] = (
        [{turn for turn, known in held.items() if mentions(known, item)} for item in items(lines)],
        [{turn for turn, there in words.items() if stem in there} for stem in _stems(text)],
    )
    for where in ways:
        telling = [one for one in where if one and len(one) <= max(FEW, len(held) // 2)] or [
            one for one in where if one
        ]
        cited: set[int] = set()
        while left := [one for one in telling if cited.isdisjoint(one)]:
            cited.add(max(turns, key=lambda turn: (sum(turn in one for one in left), turn)))
        if cited:
            return tuple(turn for turn in turns if turn in cited)
    return tuple(turns)


def class_of(proposal: Proposal) -> Class:
    """What kind of edit a lesson is: a fact of memory, a new skill, of a patch a typo, pitfalls or other guidance."""
    if proposal.kind == "memory":
        return "fact"
    if proposal.new:
        return "skill"
    lines = added_lines(proposal.before, proposal.after)
    gone = added_lines(proposal.after, proposal.before)
    if (
        lines
        and len(lines) == len(gone)
        and all(_typo(new.text, old.text) for new, old in zip(lines, gone, strict=True))
    ):
        return "typo"
    warns = lines and all(line.warns or line.head for line in lines) and not gone
    return "pitfall" if warns else "guidance"


def _typo(new: str, old: str) -> bool:
    """Whether a line was only put right: almost the same, and with the same commands."""
    return taught(new) == taught(old) and SequenceMatcher(None, new, old).ratio() >= PUT_RIGHT


def outcome(verdicts: Iterable[Verdict]) -> Literal["trial", "inbox", "refused"]:
    """What becomes of a lesson after its gates."""
    all_of = list(verdicts)
    if not all(one.ok for one in all_of):
        return "refused"
    return "inbox" if any(one.needs_person for one in all_of) else "trial"


def similarity(one: str, other: str) -> float:
    """How much two texts share (0 to 1), by runs of three words; of two of unlike length, the share of the shorter one."""
    a, b = _shingles(one), _shingles(other)
    return len(a & b) / min(len(a), len(b)) if a and b else 0.0


def _alike(text: str, other: Neighbour, *, entry: bool) -> float:
    """How far beyond the line two texts are: 1 and more is a duplicate. What teaches other commands is something else."""
    mine, theirs = taught(text), taught(other.text)
    if mine and theirs and _verbs(mine).isdisjoint(_verbs(theirs)):
        return 0.0
    shared = similarity(text, f"{other.about}\n{other.text}")
    inside = len(mine) > 1 and mine <= theirs and (shared >= WITHIN or mine == theirs)
    stems, there = _stems(text), _stems(other.text)
    least = min(len(stems), len(there))
    alike = stems == there or (least > 1 and len(stems & there) >= SAME * least)
    same = entry and not mine and bool(stems) and alike
    return 1.0 if inside or same else shared / (ALIKE_COMMANDS if mine and _verbs(mine) == _verbs(theirs) else ALIKE)


def _verbs(tokens: frozenset[str]) -> frozenset[str]:
    return frozenset(one for one in tokens if not re.search(r" --?\w[\w-]*$", one))


def _shingles(text: str) -> set[tuple[str, ...]]:
    found = re.findall(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+", text.casefold())
    size = min(SHINGLE, max(1, len(found)))
    return {tuple(found[at : at + size]) for at in range(len(found) - size + 1)}


def _supported(proposal: Proposal, lines: Collection[Line], known: Evidence, *, proven: bool) -> Verdict:
    """Whether the words of lines that prove nothing come from the cited turns at all; if not, a person has to say so."""
    memory, there = proposal.kind == "memory", _stems("\n".join((known.all, *proposal.before.values())))
    said, denied = _stems(known.said), _stems(known.denied)
    for texts in [[line.text] for line in lines] if memory else [[line.text for line in lines]]:
        text = "\n".join(texts)
        own = _stems(text)
        least = SUPPORT_ENTRY if memory else SUPPORT
        from_person = len(own & (said | denied)) > SUPPORT_ENTRY * len(own)
        strange = memory and any(not _known(one, known, there) for one in _CAPITAL.findall(text))
        if memory and cue("private").search(text) and not cue("oneself").search(text):
            return _asks(
                "grounding", "private", "it is about the private life of somebody else", lines=tuple(texts[:SHOWN])
            )
        if (not own and memory and not proven) or (
            own and (len(own & there) < least * len(own) or (memory and not (from_person or proven)) or strange)
        ):
            return _asks(
                "grounding",
                "unsupported",
                "little of what it says is in the turns that it cites",
                lines=tuple(texts[:SHOWN]),
            )
        turned = bool(own & denied - said) if not cue("negates").search(text) else bool(own <= said - denied and own)
        if memory and turned and not cue("negates").search(known.said if own <= said else ""):
            return _asks(
                "grounding", "turned_round", "the person said it the other way round", lines=tuple(texts[:SHOWN])
            )
    return Verdict(gate="grounding")


def _unheard(lines: Iterable[Line], proposal: Proposal, known: Evidence) -> list[str]:
    """The lines of a skill that come along with what is proven and have nothing from the cited turns.

    They tell of a wish that no person said, of what cannot be taken back and nobody did, or make a rule of something else.
    """
    heard = "\n".join((known.all, known.wrong, *proposal.before.values()))
    there, said = _stems(f"{heard}\n{proposal.name}"), _stems(f"{known.said}\n{known.denied}")
    gone = re.search(r"(?<![\w-])(?:rm|rmdir|unlink|shred)\b", known.shell) is not None
    found: list[str] = []
    for line in lines:
        clause = " ".join(part for part, denied in clauses(line.text, warns=line.warns) if not denied)
        own = _stems(clause)
        wish = cue("wishes").search(clause) and len(own & said) < SUPPORT_ENTRY * len(own)
        acts = {one[0][:5] for one in cue("acts").finditer(clause)} - ({"remov", "delet"} if gone else set[str]())
        done = all(re.search(rf"(?<![^\W_]){re.escape(one)}", heard, re.IGNORECASE) for one in acts)
        far = cue("must").search(clause) and len(own) > FEW and len(own & there) < STRANGE * len(own)
        found += [line.text] if line.code is None and (wish or not done or far) else []
    return found


def _known(name: str, known: Evidence, there: set[str]) -> bool:
    """Whether a name is in the cited turns: a short one letter by letter."""
    return (
        _stems(name) <= there if len(name) > SHORT else re.search(rf"\b{name}\b", known.all, re.IGNORECASE) is not None
    )


def _secret(line: str) -> bool:
    """Whether a line gives away a value that its words call secret."""
    found = (next(filter(None, one.groupdict().values()), "") for one in cue("secret").finditer(line))
    return any(
        len(set(value)) > FEW
        and not re.match(r"[~/.$<{\[]|https?:", value)
        and re.search(r"\d|[^\w.,:;!?()-]|[a-z][A-Z]", value.rstrip(".,;:!?)*"))
        for value in found
    )


def _front(text: str) -> str:
    parts = text.split("\n---", 1)
    return parts[0] if text.startswith("---") and len(parts) > 1 else ""


def _stems(text: str) -> set[str]:
    folded = text.casefold()
    plain = cue("plain")
    return {word[:5] for word in _WORD.findall(folded) if not plain.fullmatch(word)} | set(_HAN.findall(folded))


def _unrun(path: str) -> Claim:
    return Claim(text=path, line=path, rule="ungrounded", why=UNRUN)


def _ungrounded(wrong: Sequence[Claim]) -> Verdict:
    first, more = wrong[0], len({one.text for one in wrong}) - 1
    reason = f"{first.text!r} {first.why}" + (f" (and {more} more)" if more else "")
    return _refused("grounding", first.rule, reason, lines=tuple(dict.fromkeys(one.line for one in wrong))[:SHOWN])


def _refused(gate: Gate, rule: str, reason: str, *, lines: tuple[str, ...] = ()) -> Verdict:
    return Verdict(gate=gate, ok=False, rule=rule, reason=reason, lines=lines)


def _asks(gate: Gate, rule: str, reason: str, *, lines: tuple[str, ...] = ()) -> Verdict:
    return Verdict(gate=gate, needs_person=True, rule=rule, reason=reason, lines=lines)


def _bytes(files: Files) -> Mapping[str, bytes]:
    return {path: text.encode() for path, text in files.items()}


def _joined(texts: Iterable[str]) -> Iterator[str]:
    """Each text as it is, and without its line ends: what is said over two lines is said."""
    for text in texts:
        yield from (text, flat(text))
