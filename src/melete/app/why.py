"""Why a skill says what it says: the message, what the work brought to light, the edit, and how often it was used since."""

from collections.abc import Sequence

from msgspec import Struct

from melete.app.skills import library
from melete.app.wire import Melete
from melete.core.errors import SessionNotFoundError
from melete.core.event import Fact, Said, ToolEnded
from melete.core.session import SessionRef
from melete.core.skill import CALLED, SUGGESTED, Version
from melete.core.tool import ToolError

LONGEST = 400
"""Characters of a message or a result that are shown."""
MOST = 20
EDITS = frozenset({"skill_manage", "skill_view", "skills_list", "skill_search"})


class Evidence(Struct, frozen=True, kw_only=True):
    """A call between the message and the edit: what it was, whether it failed, and how its result begins."""

    seq: int
    tool: str
    failed: bool
    text: str


class Why(Struct, frozen=True, kw_only=True):
    """A version with where it came from; `asked` is empty where its session is gone or a person made it outside of one.

    `uses` counts how often just this version was loaded, `left_out` the calls that are not among the `evidence`.
    """

    version: Version
    diff: str
    asked: str = ""
    evidence: tuple[Evidence, ...] = ()
    left_out: int = 0
    uses: int = 0


async def why(app: Melete, name: str, *, version: str = "") -> Why:
    """Where a version of a skill came from, the latest where none is named; raises ToolError for what there is not."""
    versions = library(app).versions
    known = versions.history(name)
    if not known:
        raise ToolError(f"{name} has no history yet: it begins with the first change or use")
    made = versions.find(name, version) if version else known[-1]
    facts = await _facts(app, made)
    asked, results = _turn(facts)
    shown = tuple(
        Evidence(seq=one.seq, tool=one.result.name, failed=one.result.error, text=_cut(app, one.result.content))
        for one in results[-MOST:]
    )
    return Why(
        version=made,
        diff=versions.diff(name, new=made.version),
        asked=_cut(app, asked),
        evidence=shown,
        left_out=len(results) - len(shown),
        uses=_uses(app, name, made.version),
    )


async def _facts(app: Melete, made: Version) -> Sequence[Fact]:
    """The facts of its session up to the edit; none where there is no such session any more."""
    if not made.session:
        return ()
    try:
        facts = await app.store.facts(SessionRef(id=made.session))
    except SessionNotFoundError:
        return ()
    return [fact for fact in facts if fact.seq <= max(made.turns, default=0)]


def _turn(facts: Sequence[Fact]) -> tuple[str, Sequence[ToolEnded]]:
    """What a person said last, and the results since, less those of the tools of skills."""
    asked, results = "", list[ToolEnded]()
    for fact in facts:
        if isinstance(fact, Said) and (fact.message.by is None or fact.message.by.kind == "person"):
            asked, results = fact.message.text.partition(f"\n\n{CALLED}")[0].partition(f"\n\n{SUGGESTED}")[0], []
        elif isinstance(fact, ToolEnded) and fact.result.name not in EDITS:
            results.append(fact)
    return asked, results


def _uses(app: Melete, name: str, version: str) -> int:
    facts = app.ledger.read(kind="skill.exposure")
    loaded = (row for fact in facts if fact.get("how") == "loaded" for row in fact["skills"])
    return sum(row[:2] == [name, version] for row in loaded)


def _cut(app: Melete, text: str) -> str:
    line = app.redact(text)
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
