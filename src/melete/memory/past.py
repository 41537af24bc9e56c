"""What happened to entries, by the ledger's facts; what it takes to bring a text back, or undo a session. Part of the memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from melete.core.memory import Action, MemoryEntry, Operation, Past
from melete.core.tool import ToolError
from melete.memory.fold import EMPTY, Book, Changed, Row, after, read_changes
from melete.memory.plan import excerpt, folded


class Step(Struct, frozen=True, kw_only=True):
    """What one change did to one entry: nothing `before` for a new one, nothing `now` for one that is gone."""

    changed: Changed
    row: Row
    before: MemoryEntry | None
    now: MemoryEntry | None

    def told(self, who: str) -> Past:
        """As a person reads it; what another one said is left out."""
        changed = self.changed
        theirs = changed.who != who
        return Past(
            entry=self.row.entry, target=changed.target, did=self.row.did, who=changed.who, author=changed.author,
            text=self.now.text if self.now else "", before=self.before.text if self.before else "",
            version=(self.now or self.before or _NONE).version, session="" if theirs else changed.session,
            turn=0 if theirs else changed.turn, said="" if theirs else changed.said, model=changed.model,
            reason=changed.reason, at=changed.at, number=changed.number,
        )  # fmt: skip


_NONE = MemoryEntry(id="", target="memory", text="")


def steps(facts: Sequence[Mapping[str, Any]], keys: Iterable[str]) -> Iterator[Step]:
    """Everything that happened in these files, oldest first."""
    books: dict[str, Book] = dict.fromkeys(keys, EMPTY)
    for changed in read_changes(facts):
        if (book := books.get(changed.key)) is None:
            continue
        made = books[changed.key] = after(book, changed)
        old, new = ({entry.id: entry for entry in one.entries} for one in (book, made))
        for row in changed.rows:
            yield Step(changed=changed, row=row, before=old.get(row.entry), now=new.get(row.entry))


def about(known: Sequence[Step], entry: str) -> list[Step]:
    """What happened to the entry of this id, or to those that hold this text, or held it; raises ToolError where none does."""
    named = {step.row.entry for step in known if entry == step.row.entry}
    named = named or {step.row.entry for step in known if step.now and entry in step.now.text}
    if not named:
        raise ToolError(f"no entry has the id or ever held the text {excerpt(entry)!r}")
    return [step for step in known if step.row.entry in named]


def of_version(known: Sequence[Step], version: str) -> MemoryEntry:
    """The entry as it was in the version that begins so; raises ToolError for one that is not known, or several."""
    found = {step.now.version: step.now for step in known if step.now and step.now.version.startswith(version)}
    if len(found) != 1 or not version:
        raise ToolError(f"{version!r} begins several versions" if found else f"there is no version {version!r}")
    return next(iter(found.values()))


class Undone(Struct, kw_only=True):
    """What it takes to undo changes of one file: `back` holds what comes back, `away` what goes, `kept` what stays.

    `left` are the steps that would undo as well what a person has changed since.
    """

    back: dict[str, MemoryEntry] = {}
    away: set[str] = set()
    kept: list[MemoryEntry] = []
    left: list[Operation] = []


def undone(known: Sequence[Step], wanted: Callable[[Changed], bool], now: Sequence[MemoryEntry]) -> Undone:
    """What is to be done with each entry that the `wanted` changes have made, changed or removed."""
    found = Undone()
    here = {entry.id: entry for entry in now}
    first: dict[str, int] = {}
    for at, step in enumerate(known):
        if wanted(step.changed):
            first.setdefault(step.row.entry, at)
    for name, at in first.items():
        old, entry = known[at].before, here.get(name)
        later = [step for step in known[at:] if step.row.entry == name and not wanted(step.changed)]
        if any(step.changed.author == "user" and step.row.did != "confirmed" for step in later):
            found.kept += [entry] if entry else []
            found.left += [_left(entry, old)] if entry and not (old and old.text == entry.text) else []
        elif old is None:
            found.away |= {name} & here.keys()
        elif entry is None or entry.text != old.text:
            found.back[name] = old
    others = {folded(entry.text) for entry in now if entry.id not in found.away | found.back.keys()}
    for name in [name for name, old in found.back.items() if folded(old.text) in others]:  # it is said already
        del found.back[name]
        found.kept += [here[name]] if name in here else []
    return found


def _left(entry: MemoryEntry, old: MemoryEntry | None) -> Operation:
    action: Action = "replace" if old else "remove"
    return Operation(action=action, old_text=entry.id, content=old.text if old else "", until=old.until if old else "")
