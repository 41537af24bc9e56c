"""Skills and memory as they were at an earlier time, to be read only: `--as-of`. Part of the composition root.

They are laid out in a throw-away folder from what the ledger and its blobs hold. The home is not written to.
"""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Never

from msgspec import Struct, structs

from melete.app.home import Home
from melete.app.settings import Loaded
from melete.core.errors import StorageError, StoreError, UsageError
from melete.core.moment import FORMS, moment
from melete.core.plugin import Lazy
from melete.core.ports import Day, Ledger

_skills: Lazy[Callable[..., list[str]]] = Lazy("melete.skills.as_of:lay_out")
_memory: Lazy[Callable[..., None]] = Lazy("melete.memory.as_of:lay_out")
_folder: "Lazy[Callable[..., AbstractContextManager[str]]]" = Lazy("tempfile:TemporaryDirectory")
_versions: Lazy[Callable[..., Any]] = Lazy("melete.skills.versions:Versions")
_blobs: Lazy[Callable[..., Any]] = Lazy("melete.skills.versions:Blobs")
KEY = "as_of"
"""The key of `Opened.about` that holds the time which a session sees."""
DAY = re.compile(r"\d{4}-?\d\d-?\d\d")
Row = Mapping[str, Any]


class Then(Struct, frozen=True, kw_only=True):
    """An earlier time: `home` is a throw-away folder with its skills and memory, `ledger` ends there and takes nothing.

    `unknown` are skills of which nobody knows whether they were there.
    """

    at: datetime
    home: Home
    ledger: Ledger
    unknown: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """The sentence for the prompt."""
        return (
            f"In this session your skills and what you remember are as they were on {self.at:%Y-%m-%d %H:%M} UTC. They can be read"
            " and not changed, and nothing is learned here."
        )

    @property
    def remarks(self) -> list[str]:
        """What the person should know."""
        names = ", ".join(self.unknown[:8])
        return [f"whether these skills were there then is not known, and they are left out: {names}"] if names else []


def time_as_of(text: str, now: datetime) -> datetime | None:
    """The time that `--as-of` names, None for none; a day counts to its end. Raises UsageError for none, or one to come."""
    if not text:
        return None
    try:
        at = moment(text, now=now, local=True)
    except ValueError as error:
        raise UsageError(f"--as-of: {text!r} is not a time", next=f"write yesterday, {FORMS}") from error
    if DAY.fullmatch(text.strip()):
        at = at + timedelta(days=1, microseconds=-1)
        at = now if at.date() == now.astimezone(at.tzinfo).date() else at
    if at > now:
        raise UsageError(f"--as-of: {text} is still to come", next="name a time that is over")
    return at.astimezone(UTC).replace(microsecond=0)


@contextmanager
def open_then(loaded: Loaded, ledger: Ledger, at: datetime) -> Generator[Then]:
    """The time `at` of this home, whose history is in the ledger, until the block ends. Raises StorageError, StoreError."""
    home, rows = loaded.home, ledger.read()
    until = max((row["number"] for row in rows if datetime.fromisoformat(row["at"]) <= at), default=0)
    past = Past([row for row in rows if row["number"] <= until])
    versions = _versions.load()(ledger, _blobs.load()(home.state / "blobs"))
    with _folder.load()(prefix="melete-as-of-") as folder:
        then = structs.replace(home, root=Path(folder))
        try:
            then.state.mkdir(mode=0o700)
            unknown = _skills.load()(rows, until, at=at, now=home.skills, to=then.skills, tree=versions.tree)
            _memory.load()(past, at=at, now=home.memories, to=then.memories)
        except OSError as error:
            raise StorageError(
                f"skills and memory cannot be laid out as of {at:%Y-%m-%d %H:%M}: {error}", kept="nothing was changed",
                next="look at the room for temporary files",
            ) from error  # fmt: skip
        yield Then(at=at, home=then, ledger=past, unknown=tuple(unknown))


def pinned(then: Then | None, known: Mapping[str, str] | None) -> dict[str, str]:
    """What a session notes of the time that it sees; raises UsageError where one that goes on has noted another one in `known`."""
    mine = then.at.isoformat() if then else ""
    theirs = mine if known is None else known.get(KEY, "")
    if theirs != mine:
        seen = f"sees skills and memory as of {theirs}" if theirs else "sees skills and memory as they are now"
        way = f"go on in it with --as-of {theirs}" if theirs else "leave --as-of out, or begin a new session"
        raise UsageError(f"this session {seen}, and that stays so", next=way)
    return {KEY: mine} if mine else {}


class Past:
    """The ledger as it was: these facts, and no others to come."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def read(self, *, kind: str = "", after: int = 0) -> Sequence[Row]:
        """Facts behind `after`, oldest first."""
        return [row for row in self._rows if row["number"] > after and kind in ("", row["kind"])]

    async def append(self, *_: Any, **__: Any) -> Never:
        """Raises StoreError: what is over is not changed."""
        raise StoreError("skills and memory of an earlier time are only read", kept="nothing was changed")

    async def reserve(self, *_: Any, **__: Any) -> Never:
        """Raises StoreError."""
        return await self.append()

    async def settle(self, *_: Any, **__: Any) -> Never:
        """Raises StoreError."""
        return await self.append()

    async def today(self) -> Day:
        """Raises StoreError."""
        return await self.append()
