"""What a message brings back from the part of its conversation that is no longer in view. Part of the composition root.

It stands at the message's tail and is stored with it, so that a session that goes on later sends the same bytes.
"""

import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from melete.agent.notable import ends, sentences, skeleton, stems, weigh
from melete.agent.summary import spelled
from melete.agent.taskstate import own_words, worst
from melete.app.wire import Melete
from melete.core.errors import StoreError
from melete.core.event import Fact, Reply, Said, Steered, ToolEnded
from melete.core.message import Message, Taint, Text
from melete.core.session import Query, Session, SessionRef, Which
from melete.core.taskstate import RECALLED
from melete.security.taint import UNTRUSTED
from melete.security.threats import scan

log = logging.getLogger("melete.recalled")
TITLE = f"{RECALLED}, found by the runtime because it may bear on what is asked]"
MOST, LONGEST, LEAST = 5, 1_500, 400
"""Passages, and characters of all of them in a wide and in a small window."""
SHARE = 32
"""What part of the window, in bytes, they may take."""
PASSAGE = 320
ROLES = (("user",), ("assistant", "tool"))
NEAR = 0.4
"""The share of the best passage's score that others have at least."""
FRAME = ("untrusted_", "end_")
"""How the names of the fields begin that stand round what came from outside."""
FEW = 2
"""Words more that a sentence may have which says the same with other numbers."""
SMALL = 3
"""Digits of a number that stands for nothing by itself."""
ALIKE = 2
"""Passages that differ in their numbers alone."""
SOUGHT, ASKED = 30, 600
"""Messages that are looked for, and characters of the message that they are looked for by."""


class Passage(NamedTuple):
    """A part of an earlier message: where it stands, who said it, and how far it is to be trusted."""

    seq: int
    who: str
    text: str
    taint: Taint


async def recalled(app: Melete, session: Session, prompt: Message, *, window: int, stays: Sequence[Message]) -> Message:
    """The message with what was said or found earlier that bears on it; `stays` is what will be in view when it is read."""
    view = "\n".join(map(spelled, stays))
    room = min(LONGEST, max(LEAST, window * 4 // SHARE))
    added = await passages(app, session.ref, own_words(prompt), view=view, room=room)
    return msgspec.structs.replace(prompt, parts=(*prompt.parts, added)) if added else prompt


async def passages(app: Melete, ref: SessionRef, asked: str, *, view: str, room: int) -> Text | None:
    """What was said or found in a session that bears on words and is not in view, in so many characters; None for nothing."""
    query = Query(text=ends(asked, ASKED), owner=ref.owner, which=Which(session=ref.id), limit=SOUGHT)
    try:
        asking = [
            msgspec.structs.replace(query, roles=roles) for roles in ROLES
        ]  # many questions must not hide an answer
        hits = [hit for one in asking for hit in await app.store.search(one)]
        facts = {fact.seq: fact for fact in await app.store.facts(ref)} if hits else {}
    except StoreError as error:  # it goes without
        log.warning("nothing could be recalled in %s: %s", ref.id, error)
        return None
    chosen: list[Passage] = []
    for one in _passages([facts[hit.seq] for hit in hits if hit.seq in facts], asked, view=view, facts=facts):
        if (need := len(one.who) + len(one.text) + 18) > room or len(chosen) == MOST:
            break
        room -= need
        chosen.append(one)
    if not chosen:
        return None
    chosen.sort()  # in the order in which it was said: what corrects stands behind what it corrects
    lines = (f"- {one.who} ({_place(one, facts)}): {one.text}" for one in chosen)
    return Text(text=app.redact("\n".join((TITLE, *lines))), taint=worst(one.taint for one in chosen))


def _passages(found: Sequence[Fact], asked: str, *, view: str, facts: Mapping[int, Fact]) -> list[Passage]:
    """The passages that have most in common with what is asked and are not in view, the best first."""
    words, form, last = stems(asked), skeleton(asked), max(facts, default=0) + 1
    outside = min((seq for seq, fact in facts.items() if _from_outside(fact)), default=0)
    made: list[tuple[Passage, frozenset[str]]] = []
    for fact in found:
        who, text, taint = _read(fact)
        if who == "the agent" and outside and fact.seq > outside:
            taint = worst((taint, "web"))
        wanted = (
            one
            for one in _pieces(text)
            if weigh(one) and skeleton(one) != form and not (taint in UNTRUSTED and scan(one))
        )
        made += [(Passage(fact.seq, who, one, taint), stems(one) & words) for one in wanted]
    common = Counter(stem for _, shared in made for stem in shared)
    scored = [
        (sum(math.log2(1 + len(made) / common[one]) for one in shared), passage, shared)
        for passage, shared in made
        if any(map(_tells, shared))
    ]
    said = [
        (fact.seq, stems(one)) for fact in found if _is_persons(fact) for one in sentences(_read(fact)[1]) if weigh(one)
    ]
    said += [(last, stems(one)) for one in sentences(asked) if weigh(one)]
    scored = [one for one in scored if one[1].who != "the person" or not _outdated(one[1], said)]
    scored.sort(key=lambda one: (-one[0], -one[1].seq))
    hidden = [one for one in scored if one[1].text not in view]
    alike: Counter[str] = Counter()
    best: dict[str, tuple[Passage, frozenset[str]]] = {}
    for score, passage, shared in hidden:
        alike[skeleton(passage.text)] += 1
        if score >= hidden[0][0] * NEAR and alike[skeleton(passage.text)] <= ALIKE:
            best.setdefault(passage.text, (passage, shared))
    newer = _newer([(passage, shared) for _, passage, shared in scored if passage.text in view], list(best.values()))
    return [passage for chosen in best.values() for passage in (*newer.pop(chosen[0], ()), chosen[0])]


def _newer(
    seen: Sequence[tuple[Passage, frozenset[str]]], chosen: Sequence[tuple[Passage, frozenset[str]]]
) -> dict[Passage, list[Passage]]:
    """For what is brought back, the newest that is in view and about the same: an old word must not stand behind it alone."""
    made: dict[Passage, list[Passage]] = {}
    for old, words in chosen:
        later = [one for one, shared in seen if one.seq > old.seq and words <= shared]
        if later and (newest := max(later)) not in [one for some in made.values() for one in some]:
            made[old] = [newest]
    return made


def _pieces(text: str) -> Iterator[str]:
    """Sentences and lines, each with the one behind it where both are short."""
    lines = sentences(text)
    for at, line in enumerate(lines):
        yield line[:PASSAGE]
        if len(line) < PASSAGE // 4 and at + 1 < len(lines) and line.endswith(":"):
            yield f"{line} {lines[at + 1]}"[:PASSAGE]


def _read(fact: Fact) -> tuple[str, str, Taint]:
    """Who said it, what, and how far it is to be trusted; nothing for notes of the runtime."""
    match fact:
        case Said() | Steered() if _is_persons(fact):
            return "the person", own_words(fact.message), worst(_text_taints(fact.message))
        case Reply():
            calls = (f"{call.name} {call.arguments}" for call in fact.message.calls)
            return "the agent", "\n".join((fact.message.text, *calls)), "none"
        case ToolEnded():
            return f"result of {fact.result.name}", "\n".join(_texts(fact.result.content)), fact.result.taint
        case _:
            return "", "", "none"


def _texts(content: str) -> Iterable[str]:
    try:
        value: Any = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return (content,)
    return _strings(value, "")


def _strings(value: Any, name: str) -> Iterator[str]:
    match value:
        case str():
            yield value if "\n" in value or not name else f"{name}: {value}"
        case bool() | None:
            return
        case int() | float():
            yield f"{name}: {value}"
        case dict():
            for key, one in cast("dict[str, Any]", value).items():
                if not key.startswith(FRAME):
                    yield from _strings(one, key)
        case list():
            for one in cast("list[Any]", value):
                yield from _strings(one, name)
        case _:
            return


def _outdated(passage: Passage, said: Sequence[tuple[int, frozenset[str]]]) -> bool:
    """Whether the person has said the same thing later with other numbers."""
    held = stems(passage.text)
    words = _words(held)
    return (
        len(words) > 1
        and words != held
        and any(
            seq > passage.seq and words <= new and len(_words(new) - words) <= FEW and new - held - _words(new)
            for seq, new in said
        )
    )


def _words(held: frozenset[str]) -> frozenset[str]:
    return frozenset(stem for stem in held if not stem.isdigit())


def _place(passage: Passage, facts: Mapping[int, Fact]) -> str:
    """Where in the conversation it stands, as the state of the task counts."""
    person = passage.who == "the person"
    before = (fact for seq, fact in facts.items() if seq <= passage.seq)
    number = sum(_is_persons(fact) if person else isinstance(fact, Reply) for fact in before)
    return f"message {number}" if person else f"step {number}"


def _is_persons(fact: Fact) -> bool:
    return isinstance(fact, Said | Steered) and not (fact.message.by and fact.message.by.kind in ("runtime", "child"))


def _tells(stem: str) -> bool:
    """Whether a common word says that two texts are about one thing; a small number does not."""
    return not stem.isdigit() or len(stem) > SMALL


def _text_taints(message: Message) -> list[Taint]:
    return [part.taint for part in message.parts if isinstance(part, Text)]


def _from_outside(fact: Fact) -> bool:
    return isinstance(fact, ToolEnded) and fact.result.taint in UNTRUSTED
