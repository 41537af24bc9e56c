"""Sessions out of a file: our own exports, and conversations of other programs. Part of the composition root.

Lines are read once and never held all together. A session of an export is written when its last line is read; rows are sorted
by session first, because those of one may stand anywhere. What makes no sense is told with its line; the rest comes in.
"""

import asyncio
import gzip
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from io import BufferedRandom, BufferedReader
from itertools import islice
from pathlib import Path

from msgspec import Struct, field, structs

from melete.app.opening import PLACE
from melete.app.pile import Pile
from melete.app.wire import Melete
from melete.core.errors import SessionNotFoundError, StorageError, StoreError
from melete.core.event import Fact, Opened, Reply, Said, Steered
from melete.core.session import Query, SessionRef
from melete.store import exchange, rows
from melete.store.exchange import Reading, UnreadableError

GZIP = b"\x1f\x8b"
MARK = b"\xef\xbb\xbf"
LONGEST = 256 << 20
"""Bytes of one line at most."""
SHOWN = 100
"""Troubles that are kept for the summary; the others are counted."""
BREATH = 500
"""Lines, or pieces of one that is too long, between two looks at whether somebody wants to stop this."""
PIECE = 1 << 20
"""Bytes that are left out at once of a line that is too long."""

AT_ONCE = 16
"""Sessions that are written side by side."""

Progress = Callable[[int, int], None]
Source = BufferedReader | BufferedRandom


class Trouble(Struct, frozen=True, kw_only=True):
    """What could not be taken in, and why; `line` 0 stands for none."""

    line: int = 0
    session: str = ""
    reason: str


class Imported(Struct, kw_only=True):
    """What became of a file; `skipped` are sessions that were here already, `refused` those with another content here.

    `bad` counts the places that were left out, `troubles` holds the first of all that went wrong.
    """

    sessions: int = 0
    messages: int = 0
    skipped: int = 0
    refused: int = 0
    bad: int = 0
    seconds: float = 0.0
    troubles: list[Trouble] = field(default_factory=list[Trouble])

    @property
    def whole(self) -> bool:
        """Whether everything came in, or was here."""
        return not self.bad and not self.refused

    def tell(self, reason: str, *, line: int = 0, session: str = "") -> None:
        """Keep what went wrong, as long as there are not too many."""
        if len(self.troubles) < SHOWN:
            self.troubles.append(Trouble(line=line, session=session, reason=reason))


class Import:
    """Takes one file in; `result` is up to date at any time. `on_progress` is told lines read and sessions written.

    `held` bounds the bytes of rows that are kept in memory.
    """

    def __init__(self, app: Melete, *, on_progress: Progress | None = None, held: int | None = None) -> None:
        self.result = Imported()
        self._app = app
        self._on_progress = on_progress
        self._held = held
        self._reading: Reading | None = None
        self._headless = False
        self._writes = True
        self._line_number = 0

    async def take(self, file: Source, *, strict: bool = False) -> None:
        """Make every session of the file, which can be read twice.

        Raises StorageError, and with `strict`, where a line makes no sense, StoreError before anything is written.
        """
        began = time.monotonic()
        folder = self._app.loaded.home.folder(self._app.loaded.home.state)
        try:
            with ExitStack() as stack:
                if strict:
                    await self._check(file, folder)
                pile = stack.enter_context(Pile(folder, _name_of, held=self._held))
                await self._read(file, pile)
                await self._write_rows(pile)
        except OSError as error:
            text = f"the import stopped: {error.strerror or error}"
            raise StorageError(text, kept="the sessions that were written are complete", next="do it again") from error
        finally:
            self.result.seconds = round(time.monotonic() - began, 3)

    async def _check(self, file: Source, folder: Path) -> None:
        """Read the file to its end and go back to where it began; raises StoreError where a line makes no sense."""
        start = file.tell()
        first = Import(self._app)
        first._writes = False
        with Pile(folder, _name_of) as pile:
            await first._read(file, pile)
        if first.result.bad:
            at = first.result.troubles[0]
            raise StoreError(
                f"not everything makes sense: {first.result.bad} to leave out, the first is line {at.line}: {at.reason}",
                kept="nothing was written",
                next="mend the file, or import it without --strict",
            )
        file.seek(start)

    # ---- reading

    async def _read(self, file: Source, pile: Pile) -> None:
        for turn, (number, line) in enumerate(_lines(file, self._bad), 1):
            self._line_number = number
            if turn % BREATH == 0:
                await self._breathe()
            try:
                if line:
                    await self._take_line(line, pile)
            except UnreadableError as error:
                self._bad(number, error.what)
        await self._finish()

    async def _breathe(self) -> None:
        if self._on_progress:
            self._on_progress(self._line_number, self.result.sessions)
        await asyncio.sleep(0)

    async def _take_line(self, line: bytes, pile: Pile) -> None:
        try:
            header = exchange.read_header(line)
        except UnreadableError:
            await self._finish()
            self._headless = True
            raise
        if header is not None:
            await self._finish()
            self._reading = Reading(header)
        elif (self._reading or self._headless) and exchange.is_fact(line):
            if self._reading is not None:  # else its header was told already
                self._reading.add(exchange.read_fact(line, self._reading.header.id))
        else:
            await self._finish()
            name = str(rows.read(line).session)
            if self._writes:
                pile.add(name, line)

    async def _finish(self) -> None:
        """Write the session that was read up to here."""
        reading, self._reading, self._headless = self._reading, None, False
        if reading is None:
            return
        session = reading.header.id
        if reading.missing:
            text = f"{reading.missing} of its {reading.header.facts} facts could not be read"
            self.result.bad += 1
            self.result.tell(text, line=self._line_number, session=session)
        if reading.facts:
            await self._put(session, reading.facts, times=True)

    def _bad(self, number: int, reason: str) -> None:
        self.result.bad += 1
        self.result.tell(reason, line=number)

    # ---- writing

    async def _write_rows(self, pile: Pile) -> None:
        now = self._app.clock.now()
        groups = pile.groups()
        while batch := list(islice(groups, AT_ONCE)):  # the disk takes several at once in the time of one
            try:
                async with asyncio.TaskGroup() as tasks:
                    for name, lines in batch:
                        facts = rows.facts(name, [rows.decode(line) for line in lines], now=now)
                        tasks.create_task(self._put(rows.session_id(name), facts, times=False))
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None

    async def _put(self, session: str, facts: Sequence[Fact], *, times: bool) -> None:
        """Make the session, or say what it is that is here already."""
        if not self._writes:
            return
        try:
            await self._app.store.add(_unplaced(facts), id=session)
        except StorageError:
            raise
        except StoreError as error:
            await self._compare(session, facts, times=times, error=error)
            return
        self.result.sessions += 1
        self.result.messages += sum(isinstance(fact, Said | Steered | Reply) for fact in facts)
        if self._on_progress:
            self._on_progress(self._line_number, self.result.sessions)

    async def _compare(self, session: str, facts: Sequence[Fact], *, times: bool, error: StoreError) -> None:
        try:
            stored = await self._app.store.facts(SessionRef(id=session))
        except SessionNotFoundError:  # it was refused for another reason
            raise error from None
        known = stored[: len(facts)]
        if any(exchange.same(known, given, times=times) for given in (facts, _unplaced(facts))):
            self.result.skipped += 1
        else:
            self.result.refused += 1
            text = "there is a session of this id with another content; it was left as it is"
            self.result.tell(text, session=session)


async def prepare(app: Melete) -> None:
    """Bring listing and search up to date, so that the first of them is quick."""
    await app.store.list(limit=1)
    await app.store.search(Query(text="import", limit=1))


def _unplaced(facts: Sequence[Fact]) -> Sequence[Fact]:
    """The facts without a say in where commands run: who wrote a file must not choose to run them without walls."""
    if not isinstance(first := facts[0], Opened) or first.about.keys().isdisjoint(PLACE):
        return facts
    about = {name: value for name, value in first.about.items() if name not in PLACE}
    return [structs.replace(first, about=about), *facts[1:]]


def _name_of(line: bytes) -> str:
    return str(rows.decode(line).session)


def _lines(file: Source, bad: Callable[[int, str], None]) -> Iterator[tuple[int, bytes]]:
    """Line numbers and lines without their ends; a packed file is unpacked.

    Empty lines come too, and an empty one for each piece that is left out: a small packed file can hold them for hours.
    """
    source = gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == GZIP else file
    number = 0
    try:
        while line := source.readline(LONGEST):
            number += 1
            if len(line) == LONGEST and not line.endswith(b"\n"):
                bad(number, f"it is longer than {LONGEST >> 20} MiB")
                while line and not line.endswith(b"\n"):
                    line = source.readline(PIECE)
                    yield number, b""
                continue
            if number == 1:
                line = line.removeprefix(MARK)
            yield number, line.strip()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        bad(number + 1, f"the packed file is damaged from here on: {error}")
