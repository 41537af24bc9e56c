"""The gates that a lesson passes before it can be loaded: form, grounding, safety, ownership, duplicates. Pure.

Each is a function over values and says on its own whether the lesson may go on, whether a person has to decide, and why. What
the cited turns prove is read once (`gate_evidence`); how commands are found in a text is in `gate_claims`.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from melete.core.ports import Applied
from melete.core.skill import MAIN
from melete.learn.gate_claims import Claim, Line, added_lines, claims, unwanted
from melete.learn.gate_evidence import Evidence
from melete.learn.verbs import taught
from melete.security import skillscan, threats
from melete.security.redact import without_shapes
from melete.security.words import names

Gate = Literal["form", "grounding", "safety", "ownership", "duplicates"]
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
SHINGLE: Final = 3
SUPPORT: Final = 0.25
"""The share of an entry's words that the cited turns have to hold."""
SHOWN: Final = 8
UNRUN: Final = "is code that no call of the cited turns wrote or ran"
PROSE: Final = (".md", ".txt")
_WORD: Final = re.compile(r"[^\W\d_]{4,}")
_HAN: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2}")
_PLAIN: Final = names(
    "the and that this with when from user users person prefer prefers should always never must have been will into their them they"
    " then than what which where while about uses using used want wants likes does make says said also only each before after"
    " project projects memory skill steps check note"
)
"""Words that say nothing about where a text comes from."""


class Verdict(Struct, frozen=True, kw_only=True):
    """What a gate says: `ok` lets the lesson pass, with `needs_person` only into the inbox; without `ok` it is refused.

    `rule` names the reason for the ledger, `reason` says it in a sentence, `lines` are those that it is about.
    """

    gate: Gate
    ok: bool = True
    needs_person: bool = False
    rule: str = ""
    reason: str = ""
    lines: tuple[str, ...] = ()


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
    if proposal.new and made_today >= A_DAY:
        return _refused("form", "too_many", f"{A_DAY} new skills were made today; it may be proposed again tomorrow")
    if proposal.new and MAIN not in proposal.after:
        return _refused("form", "no_main", f"a new skill needs a {MAIN}")
    if MAIN in proposal.after and (why := strict(proposal.after[MAIN], proposal.name)):
        return _refused("form", "front_matter", why)
    return Verdict(gate="form")


def grounding(proposal: Proposal, known: Evidence) -> Verdict:
    """Gate 1: what the new lines say was done, or said by the person, in the turns that it cites; and it is worth keeping."""
    if known.missing or not proposal.turns or (known.session and proposal.session not in ("", known.session)):
        return _refused("grounding", "other_session", "it does not cite turns of the session that was read")
    lines = added_lines(proposal.before, proposal.after)
    named = Line(text=f"# {proposal.name.replace('-', ' ')}", path=MAIN, head=True)
    for line in (*((named,) if proposal.new and proposal.kind == "skill" else ()), *lines):
        if found := unwanted(line, known, memory=proposal.kind == "memory"):
            return _refused("grounding", found[0], found[1], (line.text,))
    code = {path for path in proposal.after if not path.endswith(PROSE) and proposal.kind == "skill"}
    changed = (path for path in code if proposal.after[path] != proposal.before.get(path))
    did = _flat(known.did)
    unrun = [_unrun(path) for path in changed if _flat(proposal.after[path]) not in did]
    prose = [line for line in lines if line.path not in code]
    found = claims(prose, known, proposal.before, proposal.after)
    if wrong := [*unrun, *(one for one in found if one.why)]:
        return _ungrounded(wrong)
    if known.doubted:
        return _asks("grounding", "doubted", "the person may have corrected one of the turns that it cites")
    proven = {one.line for one in found}
    if proposal.kind == "skill" and proven:
        return Verdict(gate="grounding")
    return _supported(proposal, [line for line in lines if line.text not in proven], known)


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
    if redact(text) != text or redact(proposal.name) != proposal.name:
        held = tuple(redact(line) for line in lines if redact(line) != line)
        return _refused("safety", "secret", "it holds what looks like a secret; say where it is kept instead", held)
    if found := steers(text):
        return _refused("safety", "injection", f"it {found[0].reason}", (found[0].text,))
    old = {(one.rule, one.text) for one in scan(_bytes(proposal.before)).findings}
    files = _bytes(proposal.after) if proposal.kind == "skill" else {MAIN: text.encode()}
    report = scan(files)
    grave = [one for one in report.findings if one.severity != "low" and (one.rule, one.text) not in old]
    if grave and report.verdict != "safe":
        return _refused(
            "safety", grave[0].rule, f"the scan finds: {grave[0].reason}", tuple(one.text for one in grave[:SHOWN])
        )
    if known.outside:
        return _asks("safety", "taint", f"text from outside was in view ({', '.join(known.outside[:3])})")
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
        return _asks("ownership", "own_lines", "it changes lines that the person wrote", gone)
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
    nearest = max(((_alike(text, one), one.name) for one in neighbours), default=(0.0, ""))
    if nearest[0] < 1:
        return Verdict(gate="duplicates")
    return _refused("duplicates", "duplicate", f"{nearest[1]} says nearly the same: patch it instead")


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


def _alike(text: str, other: Neighbour) -> float:
    """How far beyond the line two texts are: 1 and more is a duplicate. What teaches other commands is something else."""
    mine, theirs = _verbs(text), _verbs(other.text)
    if mine and theirs and mine.isdisjoint(theirs):
        return 0.0
    return similarity(text, f"{other.about}\n{other.text}") / (ALIKE_COMMANDS if mine and mine == theirs else ALIKE)


def _verbs(text: str) -> frozenset[str]:
    return frozenset(one for one in taught(text) if not re.search(r" --?\w[\w-]*$", one))


def _shingles(text: str) -> set[tuple[str, ...]]:
    found = re.findall(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+", text.casefold())
    size = min(SHINGLE, max(1, len(found)))
    return {tuple(found[at : at + size]) for at in range(len(found) - size + 1)}


def _supported(proposal: Proposal, lines: Collection[Line], known: Evidence) -> Verdict:
    """Whether the words of the new lines come from the cited turns at all; if not, a person has to say so."""
    there = _stems(
        "\n".join((known.said, known.denied, known.did, known.tried, known.shown, *proposal.before.values()))
    )
    whole = [[line.text for line in lines]]
    judged = [[line.text] for line in lines] if proposal.kind == "memory" else whole
    for texts in judged:
        own = _stems("\n".join(texts))
        if own and len(own & there) < SUPPORT * len(own):
            return _asks(
                "grounding", "unsupported", "little of what it says is in the turns that it cites", tuple(texts[:SHOWN])
            )
    return Verdict(gate="grounding")


def _stems(text: str) -> set[str]:
    folded = text.casefold()
    return {word[:5] for word in _WORD.findall(folded) if word not in _PLAIN} | set(_HAN.findall(folded))


def _unrun(path: str) -> Claim:
    return Claim(text=path, line=path, rule="ungrounded", why=UNRUN)


def _ungrounded(wrong: Sequence[Claim]) -> Verdict:
    first, more = wrong[0], len({one.text for one in wrong}) - 1
    reason = f"{first.text!r} {first.why}" + (f" (and {more} more)" if more else "")
    return _refused("grounding", first.rule, reason, tuple(dict.fromkeys(one.line for one in wrong))[:SHOWN])


def _refused(gate: Gate, rule: str, reason: str, lines: tuple[str, ...] = ()) -> Verdict:
    return Verdict(gate=gate, ok=False, rule=rule, reason=reason, lines=lines)


def _asks(gate: Gate, rule: str, reason: str, lines: tuple[str, ...] = ()) -> Verdict:
    return Verdict(gate=gate, needs_person=True, rule=rule, reason=reason, lines=lines)


def _bytes(files: Files) -> Mapping[str, bytes]:
    return {path: text.encode() for path, text in files.items()}


def _flat(text: str) -> str:
    return " ".join(text.split())
