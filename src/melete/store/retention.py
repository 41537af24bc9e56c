"""What sessions take on the disk, and which of them would go. Part of the store.

`holdings` looks at the files, `choose` is pure, `discard` removes what belongs to no session or was set aside; a session is
removed by `Store.delete` alone. A fork holds copies of all that it was forked from, and a child has a log of its own: parents may
go without harm to them.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct, structs

from melete.core.errors import StorageError
from melete.core.plugin import Lazy
from melete.core.session import SessionInfo
from melete.core.statistics import Sizes
from melete.store.disk import storage_error
from melete.store.inbox import REFUSED, SUFFIX, inbox_path
from melete.store.log import is_locked
from melete.store.names import is_session_id

_remove_tree: Lazy[Callable[[Path], None]] = Lazy("shutil:rmtree")
FRESH = timedelta(hours=1)
"""A session without messages may be one that somebody has just opened: it is left alone for so long."""
TABLES = ("sessions.db", "search.db")
KINDS = {".log": "log", ".damaged": "damaged", ".inbox": "inbox"}


class Held(Struct, frozen=True, kw_only=True):
    """What one session takes in bytes, by kind.

    `mail` are messages that wait in its inbox, `changed` is when its log did, in seconds since 1970.
    """

    log: int = 0
    damaged: int = 0
    inbox: int = 0
    spilled: int = 0
    mail: int = 0
    changed: float = 0.0

    @property
    def total(self) -> int:
        """All that goes with the session."""
        return self.log + self.damaged + self.inbox + self.spilled


class Left(Struct, frozen=True, kw_only=True):
    """A file or folder that could go without any session: what it is, its bytes, and whether it is an orphan of one."""

    path: str
    what: str
    size: int = 0
    orphan: bool = False


class Holdings(Struct, frozen=True, kw_only=True):
    """What a home's sessions take: by session, what was set aside as damaged, and what belongs to no session."""

    sessions: Mapping[str, Held]
    set_aside: tuple[Left, ...] = ()
    orphans: tuple[Left, ...] = ()
    tables: int = 0
    search: int = 0

    @property
    def sizes(self) -> Sizes:
        """The sums."""
        held = self.sessions.values()
        return Sizes(
            logs=sum(one.log for one in held),
            inboxes=sum(one.inbox for one in held),
            spilled=sum(one.spilled for one in held),
            tables=self.tables,
            search=self.search,
            set_aside=sum(left.size for left in self.set_aside),
            orphans=sum(left.size for left in self.orphans),
        )


def holdings(state: Path) -> Holdings:
    """Look at everything below `state`; raises StorageError for a folder that cannot be read."""
    found: defaultdict[str, Held] = defaultdict(Held)
    aside: list[Left] = []
    for entry in _entries(state / "sessions"):
        name, dot, kind = entry.name.rpartition(".")
        kind = KINDS.get(f"{dot}{kind}", "")
        if not kind or not is_session_id(name):
            continue
        held, size = found[name], _size(entry)
        if kind == "inbox":
            refused, mail = _inbox(entry)
            aside += refused
            size -= sum(left.size for left in refused)
            found[name] = structs.replace(held, inbox=size, mail=mail)
        elif kind == "damaged":
            aside.append(Left(path=entry.path, what="damaged bytes of a session", size=size))
            found[name] = structs.replace(held, damaged=size)
        else:
            found[name] = structs.replace(held, log=size, changed=_changed(entry)) if entry.is_file() else held
    for entry in _entries(state / "spill"):
        found[entry.name] = structs.replace(found[entry.name], spilled=_size(entry))
    real = {name: held for name, held in found.items() if _has_log(state, name)}
    aside += [
        Left(path=entry.path, what="a damaged file", size=_size(entry))
        for entry in _entries(state)
        if ".damaged" in entry.name
    ]
    return Holdings(
        sessions=real,
        set_aside=tuple(sorted((left for left in aside if _owner(left) not in found.keys() - real), key=_path)),
        orphans=tuple(sorted(_orphans(state, found.keys() - real), key=_path)),
        tables=_database(state / TABLES[0]),
        search=_database(state / TABLES[1]),
    )


def _orphans(state: Path, names: set[str]) -> Iterator[Left]:
    """What is there of sessions that have no log."""
    places = (
        ("sessions", ".inbox", "the inbox of no session"),
        ("sessions", ".damaged", "damaged bytes of no session"),
        ("spill", "", "long results of no session"),
    )
    for name in names:
        for folder, suffix, what in places:
            path = state / folder / f"{name}{suffix}"
            if os.path.lexists(path):
                yield Left(path=str(path), what=what, size=_size_of(path), orphan=True)


def _has_log(state: Path, name: str) -> bool:
    return is_session_id(name) and (state / "sessions" / f"{name}.log").is_file()


def _owner(left: Left) -> str:
    """The session beside whose log something was set aside."""
    path = Path(left.path)
    return path.parent.stem if path.suffix == REFUSED else path.stem


def _path(left: Left) -> str:
    return left.path


def _inbox(entry: "os.DirEntry[str]") -> tuple[list[Left], int]:
    """The files of an inbox that were no messages, and how many messages wait."""
    files = list(_entries(Path(entry.path))) if entry.is_dir(follow_symlinks=False) else []
    refused = [
        Left(path=file.path, what="a file in an inbox that was no message", size=_size(file))
        for file in files
        if file.name.endswith(REFUSED)
    ]
    return refused, sum(file.name.endswith(SUFFIX) and not file.name.startswith(".") for file in files)


def _database(path: Path) -> int:
    return sum(_size_of(path.with_name(f"{path.name}{suffix}")) for suffix in ("", "-wal", "-shm"))


def _entries(folder: Path) -> "Iterator[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise storage_error(error, f"reading the folder {folder}", kept="what it holds is untouched") from error


def _size(entry: "os.DirEntry[str]") -> int:
    """The bytes of a file, or of all files in a folder; what is gone meanwhile takes none."""
    try:
        if entry.is_dir(follow_symlinks=False):
            return sum(_size(inner) for inner in _entries(Path(entry.path)))
        return entry.stat(follow_symlinks=False).st_size
    except (FileNotFoundError, StorageError):
        return 0


def _changed(entry: "os.DirEntry[str]") -> float:
    with suppress(FileNotFoundError):
        return entry.stat().st_mtime
    return 0.0


def _size_of(path: Path) -> int:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            return sum(_size(entry) for entry in _entries(path))
        return path.lstat().st_size
    return 0


def unchanged(state: Path, candidate: "Candidate") -> bool:
    """Whether nothing has happened to a session since it was looked at: no fact, no mail, no run."""
    log = state / "sessions" / f"{candidate.session.id}.log"
    mail = sum(entry.name.endswith(SUFFIX) for entry in _entries(inbox_path(log)))
    return _size_of(log) == candidate.held.log and mail <= candidate.held.mail and not is_locked(log)


def discard(state: Path, left: Left) -> bool:
    """Remove a file or folder that was set aside or belongs to no session; False when it is gone, or has a session by now.

    Raises StorageError.
    """
    path = Path(left.path)
    if left.orphan and _has_log(state, path.name.partition(".")[0]):
        return False
    try:
        if path.is_dir() and not path.is_symlink():
            _remove_tree.load()(path)
        else:
            path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise storage_error(error, f"removing {path}", kept="it is there; try again") from error
    return True


# ---- what would go ---------------------------------------------------------------------------------------------------


class Rules(Struct, frozen=True, kw_only=True):
    """Which sessions go: those for which every rule that is given says so.

    `before`: changed last before this time. `keep`: not among so many last changed ones. `max_bytes`: the oldest, until all that
    are meant take no more. `empty`: without any message. `sources` narrows all of it; None and () give no rule.
    """

    before: datetime | None = None
    keep: int | None = None
    max_bytes: int | None = None
    empty: bool = False
    sources: tuple[str, ...] = ()

    @property
    def given(self) -> bool:
        """Whether there is any rule; `sources` alone is none."""
        return self.empty or any(rule is not None for rule in (self.before, self.keep, self.max_bytes))


class Candidate(Struct, frozen=True, kw_only=True):
    """A session and what it takes."""

    session: SessionInfo
    held: Held = Held()


class Chosen(Struct, frozen=True, kw_only=True):
    """A session with the reason why it goes, or why it stays although the rules mean it."""

    candidate: Candidate
    why: str

    @property
    def session(self) -> SessionInfo:
        """The session's row."""
        return self.candidate.session

    @property
    def size(self) -> int:
        """The bytes that go with it."""
        return self.candidate.held.total


class Choice(Struct, frozen=True, kw_only=True):
    """What would go, the oldest first, and what the rules mean that stays."""

    gone: tuple[Chosen, ...] = ()
    kept: tuple[Chosen, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that would be free."""
        return sum(one.size for one in self.gone)


def choose(candidates: Sequence[Candidate], rules: Sequence[Rules], *, now: datetime) -> Choice:
    """What each of the rules would remove, one after the other; pure.

    Whoever runs, has mail, or changed last of all stays in any case.
    """
    left = sorted(candidates, key=_age)
    latest = left[-1].session.id if left else ""
    gone: dict[str, Chosen] = {}
    kept: dict[str, Chosen] = {}
    for rule in rules:
        meant = [one for one in left if not rule.sources or one.session.source in rule.sources]
        for one, why in _meant(meant, rule, now, stays=lambda one: _stays(one, latest)):
            chosen = Chosen(candidate=one, why=why)
            if stays := _stays(one, latest):
                kept.setdefault(one.session.id, structs.replace(chosen, why=stays))
            else:
                gone[one.session.id] = chosen
        left = [one for one in left if one.session.id not in gone]
    order = {one.session.id: place for place, one in enumerate(sorted(candidates, key=_age))}
    return Choice(
        gone=tuple(sorted(gone.values(), key=lambda one: order[one.session.id])),
        kept=tuple(sorted(kept.values(), key=lambda one: order[one.session.id])),
    )


def _meant(
    meant: Sequence[Candidate], rule: Rules, now: datetime, *, stays: Callable[[Candidate], str]
) -> Iterator[tuple[Candidate, str]]:
    """The sessions that one rule means, the oldest first, and why."""
    if not rule.given:
        return
    total = sum(one.held.total for one in meant)
    for place, one in enumerate(meant):
        if rule.max_bytes is not None and total <= rule.max_bytes:
            return
        why = _why(one, rule, now, younger=len(meant) - place - 1)
        if why is None:
            continue
        if rule.max_bytes is not None:
            why = [*why, "makes room"]
        yield one, ", ".join(why)
        total -= 0 if stays(one) else one.held.total


def _why(one: Candidate, rule: Rules, now: datetime, *, younger: int) -> list[str] | None:
    """The reasons for which a session goes, None when a rule lets it stay."""
    session, why = one.session, list[str]()
    if rule.before is not None:
        if session.updated >= rule.before:
            return None
        why.append(f"changed {(now - session.updated).days} days ago")
    if rule.keep is not None:
        if younger < rule.keep:
            return None
        why.append(f"not among the last {rule.keep}" if rule.keep else "none is to be kept")
    if rule.empty:
        if session.messages or now - session.updated < FRESH:
            return None
        why.append("without a message")
    return why


def _stays(one: Candidate, latest: str) -> str:
    """Why a session stays whatever the rules say; empty when it may go."""
    if one.session.running:
        return "it runs"
    if one.held.mail:
        return f"{one.held.mail} message(s) wait in its inbox"
    return "it is the latest" if one.session.id == latest else ""


def _age(one: Candidate) -> tuple[datetime, str]:
    return one.session.updated, one.session.id
