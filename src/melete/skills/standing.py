"""Whose each skill is, how far it is trusted, how much it is used: what the ledger says, folded. No skill speaks for itself.

The fold is kept in a file with the number of the last fact in it, and can be dropped at any time.
"""

from collections.abc import Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from melete.core.ports import Ledger
from melete.core.skill import Owner, Root, Skill, State
from melete.skills.catalogue import write
from melete.skills.versions import FOUND

SCHEMA: Final = 3
SAVE_EVERY: Final = 64
"""Facts that may have to be folded again at the next start."""
DEFAULTS: Final[Mapping[Root, tuple[Owner, int]]] = {
    "user": ("user", 4),
    "bundled": ("bundled", 4),
    "external": ("external", 3),
    "hub": ("hub", 1),
    "project": ("project", 1),
}
"""Whose a skill is of which nothing is recorded, and its trust, by the shelf that it lies on."""
ROOTS: Final[Mapping[str, Root]] = {
    "user": "user", "agent": "user", "bundled": "bundled", "hub": "hub", "external": "external", "project": "project",
}  # fmt: skip
TRUST: Final[Mapping[str, int]] = {"user": 4, "bundled": 4, "external": 3, "agent": 3, "hub": 1, "project": 1}
TRIAL: Final = 2
DOUBT: Final = 4
"""Outcomes of nothing that are added to those of a skill, so that few say little."""


class Standing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is recorded of a skill; empty and -1 where nothing is. One that is `found` nobody has announced or agreed to."""

    owner: Owner | None = None
    trust: int = -1
    state: State = "active"
    pinned: bool = False
    version: str = ""
    since: str = ""
    found: bool = False


class Use(Struct, frozen=True, kw_only=True, array_like=True):
    """How often a skill was loaded, and when last."""

    loads: int = 0
    last: str = ""


class Worth(Struct, frozen=True, kw_only=True, array_like=True):
    """What came of the uses of a skill that were followed: the sum of their rewards, and their number."""

    total: float = 0.0
    number: int = 0

    @property
    def reward(self) -> float:
        """The mean, drawn towards nothing; 0 for a skill of which nothing is known."""
        return round(self.total / (self.number + DOUBT), 6)


class _Fold(Struct, kw_only=True):
    schema: int = SCHEMA
    number: int = 0
    at: str = ""
    standings: dict[str, Standing] = {}
    uses: dict[str, Use] = {}
    worth: dict[str, Worth] = {}
    lists: set[str] = set()


_fold = msgspec.msgpack.Decoder(_Fold)


class Standings:
    """The fold of the ledger's facts about skills, kept in the file `path`."""

    def __init__(self, ledger: Ledger | None, path: Path) -> None:
        self._ledger = ledger
        self._path = path
        self._fold = _load(path) if ledger else _Fold()
        self._saved = self._fold.number

    def catch_up(self) -> bool:
        """Fold what the ledger has got since; whether anything of it matters here. Raises StoreError."""
        if self._ledger is None:
            return False
        facts = self._ledger.read(after=max(0, self._fold.number - 1))
        told = False
        if self._fold.number and (not facts or facts[0]["at"] != self._fold.at):
            self._fold, told = _Fold(), True  # it is another ledger than the one that was folded
            facts = self._ledger.read()
        for fact in facts:
            if fact["number"] <= self._fold.number:
                continue
            self._fold.number, self._fold.at = fact["number"], fact["at"]
            if (add := getattr(self, "_" + fact["kind"].replace(".", "_"), None)) and fact["kind"] in KINDS:
                add(fact)
                told = True
        if self._fold.number - self._saved >= SAVE_EVERY:
            self._saved = self._fold.number
            write(self._path, msgspec.msgpack.encode(self._fold))
        return told

    def of(self, root: Root, name: str) -> Standing | None:
        """What is recorded of the skill of this name on a shelf of this kind.

        Nothing where it was archived: it has left its place, and what lies there now is another one.
        """
        if not self._fold.standings:
            return None
        found = self._fold.standings.get(f"{root}:{name}") or self._fold.standings.get(f":{name}")
        return None if found and found.state == "archived" else found

    def names(self) -> Set[str]:
        """The names of which anything is recorded but their use."""
        return {key.partition(":")[2] for key in self._fold.standings}

    def use(self, name: str) -> Use:
        """How much a skill of this name is used."""
        return self._fold.uses.get(name, UNUSED)

    def reward(self, name: str) -> float:
        """What came of a skill of this name, from -1 to 1."""
        return self._fold.worth.get(name, NOTHING).reward

    def used(self) -> Set[str]:
        """The names that were ever loaded, or of whose use anything is known."""
        return self._fold.uses.keys() | self._fold.worth.keys()

    def lists(self) -> Set[str]:
        """The digests of the lists that sessions have had in their prompt."""
        return self._fold.lists

    def judged(self, skill: Skill, root: Root, folder: str) -> Skill:
        """The skill as it counts here: with its place, owner, trust and state."""
        owner, trust = DEFAULTS[root]
        found = self.of(root, skill.name)
        if found is None:
            return msgspec.structs.replace(skill, root=root, folder=folder, owner=owner, trust=trust)
        said = found.trust if found.trust >= 0 else trust
        # A name on these shelves may belong to many folders: what was recorded of one cannot lift another.
        fixed = root in ("external", "project")
        return msgspec.structs.replace(
            skill,
            root=root,
            folder=folder,
            owner=owner if fixed else found.owner or owner,
            trust=min(said, trust) if fixed else said,
            state=found.state,
            pinned=found.pinned,
        )

    def _skill_version(self, fact: Mapping[str, Any]) -> None:
        owner = str(fact.get("owner") or fact.get("author") or "user")
        root = ROOTS.get(owner, "hub")
        key = f"{root}:{fact['skill']}"
        state: State = _state(fact.get("state")) or "active"
        trust = fact.get("trust")
        self._fold.standings[key] = Standing(
            owner=cast("Owner", owner) if owner in ROOTS else "hub",
            trust=trust if isinstance(trust, int) else TRIAL if state == "trial" else TRUST.get(owner, 0),
            state=state,
            pinned=self._fold.standings.get(key, UNKNOWN).pinned,
            version=str(fact.get("version", "")),
            since=str(fact.get("at", "")),
            found=(fact.get("author"), fact.get("reason")) == ("user", FOUND),
        )

    def _skill_state(self, fact: Mapping[str, Any]) -> None:
        name, owner = str(fact["skill"]), fact.get("owner")
        keys = [f"{root}:{name}" for root in DEFAULTS if f"{root}:{name}" in self._fold.standings] or [f":{name}"]
        if owner in ROOTS:
            keys = [f"{ROOTS[str(owner)]}:{name}"]
        said: dict[str, Any] = {"found": False} | {
            key: value
            for key, value in (
                ("owner", owner if owner in ROOTS else None),
                ("trust", fact.get("trust")),
                ("state", _state(fact.get("state"))),
                ("pinned", fact.get("pinned")),
            )
            if value is not None
        }
        for key in keys:
            self._fold.standings[key] = msgspec.structs.replace(self._fold.standings.get(key, UNKNOWN), **said)

    def _skill_exposure(self, fact: Mapping[str, Any]) -> None:
        if mark := fact.get("list"):
            self._fold.lists.add(str(mark))
        if fact.get("how") == "loaded":
            for name, *_ in fact.get("skills", ()):
                self._fold.uses[name] = Use(loads=self.use(name).loads + 1, last=str(fact.get("at", "")))

    def _learn_outcome(self, fact: Mapping[str, Any]) -> None:
        if fact.get("target") != "skill" or not fact.get("credited"):
            return
        name, before = str(fact.get("name", "")), fact.get("before")  # that of one that is judged anew
        known = self._fold.worth.get(name, NOTHING)
        added = float(fact.get("reward") or 0) - float(before or 0)
        self._fold.worth[name] = Worth(total=known.total + added, number=known.number + (before is None))


UNKNOWN = Standing()
UNUSED = Use()
NOTHING = Worth()
KINDS = frozenset({"skill.version", "skill.state", "skill.exposure", "learn.outcome"})


def _state(value: object) -> State | None:
    return value if value in ("trial", "active", "stale", "archived", "quarantined") else None


def _load(path: Path) -> _Fold:
    with suppress(OSError, msgspec.MsgspecError):  # what cannot be read is folded anew
        found = _fold.decode(path.read_bytes())
        return found if found.schema == SCHEMA else _Fold()
    return _Fold()
