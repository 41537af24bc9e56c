"""Two copies of the working folder, here and in another place, brought together: what changed on one side goes to the other.

What changed on both sides is kept twice: ours stays, theirs is put beside it as NAME.remote, and a note says so. Nothing is
removed on one side that was changed there meanwhile. Git's hooks and settings are never taken back: they run programs here.
"""

import asyncio
import contextlib
import hashlib
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct, structs

from melete.core.errors import EnvironmentFailure
from melete.core.places import MADE_AGAIN
from melete.environments import manifest, parcels
from melete.environments.far_copy import PIECE, FarCopy, batches
from melete.environments.manifest import Found, Listing
from melete.environments.parcels import Arrival, Taken
from melete.environments.scripts import Runs

MEGABYTE = 1_000_000
RACY = 2
NOTES = 20
FOLDER = "folder"
E = TypeVar("E")


class Report(Struct, frozen=True, kw_only=True):
    """What one direction moved: files and bytes that went, entries that were removed, and what a person should know."""

    files: int = 0
    bytes: int = 0
    removed: int = 0
    notes: tuple[str, ...] = ()


class Known(Struct, frozen=True, kw_only=True):
    """An entry as both sides had it last: the stamp of each. One that is not `sure` may have changed without another stamp."""

    here: str
    there: str
    digest: str
    mode: int = 0o644
    sure: bool = True


class Sync:
    """Keeps `there` in `env` and `here` on this machine alike; at most `cap_mb` megabytes go in one direction at a time.

    `skip` has names that are not copied, and absolute paths of here of which nothing goes and into which nothing comes.
    """

    def __init__(
        self, env: Runs, here: Path, there: str, *, cap_mb: int = 2048, skip: Sequence[str] = MADE_AGAIN
    ) -> None:
        self.here = here
        self.far = FarCopy(env, there)
        self.known: dict[str, Known] = {}
        self._written: dict[str, Known] = {}
        self._cap = cap_mb
        self.skip = tuple(name for name in skip if "/" not in name)
        self._hidden = tuple(_below(here, path) for path in skip if path.startswith("/"))
        self._refused: dict[str, str] = {}
        self._notes: list[str] = []
        self._lock = asyncio.Lock()

    async def push(self) -> Report:
        """Send what changed here; what changed there as well is left for `pull`.

        Raises EnvironmentFailure when it is more than the cap allows or the place fails; both copies are whole then.
        """
        async with self._lock:
            await self.far.begin()
            return await self._push(await self._there())

    async def pull(self) -> Report:
        """Take what changed there. Raises EnvironmentFailure when the place fails; both copies are whole then."""
        async with self._lock:
            return await self._pull(await self._looked())

    async def round(self) -> tuple[Report, Report]:
        """Both directions after one look there: (what `pull` did, what `push` did)."""
        async with self._lock:
            there = await self._looked()
            pulled = await self._pull(there)
            if there is None or not there.whole:
                await self.far.begin()
                there = await self._there()
            return pulled, await self._push(there)

    async def _pull(self, there: Listing | None) -> Report:
        if there is None:
            return Report(notes=(f"{self.far.folder} is not there",) if self.known else ())
        return await _Pull(self, await self._here(), there).go()

    async def _push(self, there: Listing) -> Report:
        return await _Push(self, await self._here(), there).go()

    async def finish(self) -> Report:
        """The last pull; the mark in the other copy is taken away."""
        report = await self.pull()
        async with self._lock:
            await self.far.end()
        return report

    def recall(self, memory: Path) -> None:
        """Begin with what `remember` wrote when both were last alike; without it everything that differs is a conflict."""
        with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):  # one that cannot be read remembers nothing
            known = msgspec.json.decode(memory.read_bytes(), type=dict[str, Known])
            left_out = manifest.skipping(self.skip)  # what neither side looks at any more was not removed
            self.known = self._open({p: one for p, one in known.items() if not any(map(left_out, p.split("/")))})

    def remember(self, memory: Path) -> None:
        """Write down how both are, if that is not what was written last. Names that no JSON can hold are left out."""
        if self.known == self._written:
            return
        memory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        named = {path: known for path, known in self.known.items() if _plain(path) and _plain(known.digest)}
        beside = memory.with_suffix(f".{os.getpid()}.new")
        beside.write_bytes(msgspec.json.encode(named))
        beside.replace(memory)
        self._written = {**self.known}

    async def _here(self) -> dict[str, Found]:
        try:
            return self._open(await asyncio.to_thread(manifest.here, self.here, self.skip))
        except OSError as error:
            what = f"{error.filename or self.here} could not be read: {error.strerror}"
            next = "make it readable, or leave it out with sync_skip"
            raise EnvironmentFailure(what, kept="nothing was copied or removed", next=next) from error

    async def _looked(self) -> Listing | None:
        found = await self.far.listing(self.skip)
        return found if found is None else structs.replace(found, entries=self._open(found.entries))

    def _open(self, entries: Mapping[str, E]) -> dict[str, E]:
        """Those that are not below what is hidden."""
        hidden = [path for path in self._hidden if path]
        return {p: one for p, one in entries.items() if not any(f"{p}/".startswith(f"{path}/") for path in hidden)}

    async def _there(self) -> Listing:
        found = await self._looked()
        if found is None:
            raise EnvironmentFailure(f"{self.far.folder} is not there", next="it is made anew with the next command")
        return found

    def too_much(self, sizes: int) -> bool:
        """Whether so many bytes are more than the cap."""
        return sizes > self._cap * MEGABYTE

    def refused(self, path: str, stamp: str, why: str) -> None:
        """Remember what is not taken, so that it is told once."""
        self._refused[path] = stamp
        self.note(f"{path}: {why}")

    def was_refused(self, path: str, stamp: str) -> bool:
        """Whether this very state of it was refused before."""
        return self._refused.get(path) == stamp

    def note(self, text: str) -> None:
        """Something that a person should know."""
        self._notes.append(text)

    def notes(self) -> tuple[str, ...]:
        """All notes since the last call, the first of many."""
        made, self._notes = self._notes, []
        more = len(made) - NOTES
        return tuple(made) if more <= 0 else (*made[:NOTES], f"and {more} more")


class _Push:
    """One way up."""

    def __init__(self, sync: Sync, here: Mapping[str, Found], there: Listing) -> None:
        self._sync, self._here, self._there = sync, here, there
        self._sent: dict[str, parcels.Sent] = {}

    async def go(self) -> Report:
        sync, far, known = self._sync, self._sync.far, self._sync.known
        gone = [path for path in known if path not in self._here]
        removed = [path for path in gone if self._untouched(path)]
        changed = [path for path, found in self._here.items() if self._to_send(path, found)]
        folders = [path for path in changed if self._here[path].kind == FOLDER]
        files = [path for path in changed if self._here[path].kind != FOLDER]
        size = sum(self._here[path].size for path in files)
        if sync.too_much(size):
            raise EnvironmentFailure(
                f"the working folder has {size // MEGABYTE} MB to copy, more than is allowed at a time",
                kept="nothing was copied",
                next="raise sync_mb of this environment, or leave folders out with sync_skip",
            )
        replaced = [path for path in folders if path in self._there.entries]  # by a folder
        await far.remove(sorted([*removed, *replaced], reverse=True))
        await far.folders(sorted(folders))
        await self._send(sorted(files))
        for path in gone:
            if path in removed or path not in self._there.entries:
                known.pop(path)
        self._remember(await far.listing(sync.skip) if removed or changed else self._there)
        return Report(files=len(self._sent), bytes=size, removed=len(removed), notes=sync.notes())

    def _untouched(self, path: str) -> bool:
        known, theirs = self._sync.known.get(path), self._there.entries.get(path)
        return known is not None and theirs is not None and known.there == _stamp(theirs)

    def _to_send(self, path: str, found: Found) -> bool:
        known, theirs = self._sync.known.get(path), self._there.entries.get(path)
        if known is not None and known.here == _stamp(found):
            return False
        if theirs is None:  # one that was sent before was removed there: `pull` decides about it
            return known is None
        return self._untouched(path)

    async def _send(self, files: Sequence[str]) -> None:
        sync = self._sync
        for group in _groups(files, self._here):
            if self._here[group[0]].size > PIECE:
                await self._send_large(group[0])
                continue
            archive, sent = await asyncio.to_thread(parcels.pack, sync.here, group)
            if sent:
                await sync.far.put(archive)
                self._sent |= sent

    async def _send_large(self, path: str) -> None:
        far, found, pieces = self._sync.far, self._here[path], hashlib.blake2b(digest_size=parcels.DIGEST)
        await far.begin()
        try:
            with parcels.reading(self._sync.here, path) as file:
                while piece := await asyncio.to_thread(file.read, PIECE):
                    pieces.update(piece)
                    await far.add(piece)
                if manifest.described(os.fstat(file.fileno())) != found:
                    return  # it changes: the next round takes it
        except OSError:
            return
        await far.settle(path, found, datetime.fromtimestamp(found.time, UTC).strftime("%Y%m%d%H%M.%S"))
        self._sent[path] = parcels.Sent(digest=pieces.hexdigest(), found=found)

    def _remember(self, after: Listing | None) -> None:
        if after is None:
            return
        for path, found in self._here.items():
            theirs = after.entries.get(path)
            if found.kind == FOLDER and theirs is not None and theirs.kind == FOLDER:
                self._sync.known[path] = Known(here=FOLDER, there=FOLDER, digest="")
        for path, sent in self._sent.items():
            theirs, found = after.entries.get(path), sent.found
            if theirs is None or theirs.kind != found.kind:
                continue
            if found.kind == "link" or (theirs.size, theirs.time) == (found.size, found.time):
                self._sync.known[path] = Known(
                    here=found.stamp,
                    there=theirs.stamp,
                    digest=sent.digest,
                    mode=found.mode,
                    sure=_sure(theirs, after.now),
                )


class _Pull:
    """One way down."""

    def __init__(self, sync: Sync, here: Mapping[str, Found], there: Listing) -> None:
        self._sync, self._here, self._there = sync, here, there
        self._files = self._bytes = self._removed = 0

    async def go(self) -> Report:
        wanted: list[str] = []
        size = 0
        for path in sorted(self._there.entries):
            if not self._to_take(path):
                continue
            size += self._there.entries[path].size
            if self._sync.too_much(size):
                self._sync.note(
                    f"{path} and what comes after it was left there: it is more than sync_mb allows at a time"
                )
                break
            wanted.append(path)
        await _whole(self._folders)
        late = [path for path in wanted if (ours := self._here.get(path)) is not None and ours.kind == FOLDER]
        await self._take_all([path for path in wanted if path not in late])
        await _whole(self._drop)
        await self._take_all(late)  # where a folder was that is empty now
        return Report(files=self._files, bytes=self._bytes, removed=self._removed, notes=self._sync.notes())

    async def _take_all(self, wanted: Sequence[str]) -> None:
        for group in _groups(wanted, self._there.entries):
            if self._there.entries[group[0]].size > PIECE:
                await self._take_large(group[0])
            else:
                await self._take(group)

    def _to_take(self, path: str) -> bool:
        theirs, known = self._there.entries[path], self._sync.known.get(path)
        if theirs.kind == FOLDER or (known is not None and known.sure and known.there == theirs.stamp):
            return False
        if self._sync.was_refused(path, theirs.stamp):
            return False
        if manifest.guarded(path, theirs.kind):
            self._sync.refused(path, theirs.stamp, "changed there and not taken, since git would run it here")
            return False
        return True

    def _folders(self) -> None:
        known = self._sync.known
        for path, theirs in sorted(self._there.entries.items()):
            last, ours = known.get(path), self._here.get(path)
            if theirs.kind != FOLDER or (last is not None and last.here == FOLDER):
                continue
            try:
                if ours is not None and ours.kind != FOLDER:
                    if last is None or last.here != _stamp(ours):
                        self._cannot(path, theirs, FileExistsError(0, "it is a folder there and a file here"))
                        continue
                    parcels.remove(self._sync.here, path, still=lambda found, ours=ours: _same(found, ours))
                if ours is None or ours.kind != FOLDER:
                    with parcels.parent(self._sync.here, f"{path}/x", make=True):
                        pass
                known[path] = Known(here=FOLDER, there=FOLDER, digest="")
            except OSError as error:
                self._cannot(path, theirs, error)

    async def _take(self, group: Sequence[str]) -> None:
        asked = {path: self._there.entries[path] for path in group}
        taken, refused = await self._sync.far.take(asked)
        for name in refused:
            self._sync.note(f"{name} was refused: it was not asked for, or is neither file nor link")
        for path, one in taken.items():
            with Arrival(self._sync.here, path) as arrival:
                await _whole(partial(self._settle, path, one, arrival))

    async def _take_large(self, path: str) -> None:
        theirs, made, size = self._there.entries[path], hashlib.blake2b(digest_size=parcels.DIGEST), 0
        with Arrival(self._sync.here, path) as arrival:
            async for piece in self._sync.far.parts(path, theirs):
                made.update(piece)
                size += len(piece)
                try:
                    await _whole(partial(arrival.write, piece))
                except OSError as error:
                    self._cannot(path, theirs, error)
                    return
            if size == theirs.size:  # else it changes: the next round takes it
                one = Taken(kind="file", digest=made.hexdigest(), mode=theirs.mode, time=theirs.time, size=size)
                await _whole(partial(self._settle, path, one, arrival))

    def _settle(self, path: str, one: Taken, arrival: Arrival) -> None:
        theirs = self._there.entries[path]
        if one.kind == "link" and not parcels.stays_inside(path, one.target):
            self._sync.refused(path, theirs.stamp, f"a link that leads out of the folder was not taken ({one.target})")
            return
        try:
            if one.data:
                arrival.write(one.data)
            self._decide(path, one, arrival)
        except OSError as error:
            self._cannot(path, theirs, error)

    def _decide(self, path: str, one: Taken, arrival: Arrival) -> None:
        known, ours, theirs = self._sync.known.get(path), self._here.get(path), self._there.entries[path]
        now = Known(here="", there=theirs.stamp, digest=one.digest, mode=one.mode, sure=_sure(theirs, self._there.now))
        if known is not None and (known.digest, known.mode) == (one.digest, one.mode):
            self._sync.known[path] = structs.replace(now, here=known.here)
            return
        unchanged = ours is None if known is None else ours is not None and known.here == _stamp(ours)
        if not unchanged and ours is not None:
            if _digest(self._sync.here, path, ours) == one.digest:
                now = structs.replace(now, here=_stamp(ours))
            else:
                self._keep_both(path, one, arrival)
            self._sync.known[path] = now
            return
        if not arrival.settle(one, still=lambda found: _same(found, ours)):
            return  # it changed here in this moment: the next round decides
        if known is not None and ours is None:
            self._sync.note(f"{path} was removed here and changed there: it is back")
        self._count(one)
        found = manifest.described(os.lstat(self._sync.here / path))
        self._sync.known[path] = structs.replace(now, here=_stamp(found))

    def _keep_both(self, path: str, one: Taken, arrival: Arrival) -> None:
        last = path.rpartition("/")[2]
        beside = (self._sync.here / path).parent
        names = itertools.chain([f"{last}.remote"], (f"{last}.remote-{number}" for number in itertools.count(2)))
        name = next(name for name in names if not os.path.lexists(beside / name))
        arrival.settle(one, name=name)
        self._count(one)
        self._sync.note(f"{path} was changed on both sides: yours stays, the other is {name}")

    def _drop(self) -> None:
        """Remove here what was removed there; when the other copy is not whole nothing is taken for removed."""
        known = self._sync.known
        for path in sorted(known, reverse=True):
            if path in self._there.entries:
                continue
            last, ours = known[path], self._here.get(path)
            if not self._there.whole:
                known.pop(path)
                continue
            known.pop(path)
            try:
                if parcels.remove(self._sync.here, path, still=lambda found, last=last: _stamp(found) == last.here):
                    self._removed += 1
                elif ours is not None:
                    self._sync.note(f"{path} was removed there and changed here: it stays")
            except OSError:
                continue  # a folder that still holds something, or one that is gone already

    def _count(self, one: Taken) -> None:
        self._files += 1
        self._bytes += one.size

    def _cannot(self, path: str, theirs: Found, error: OSError) -> None:
        self._sync.refused(path, theirs.stamp, f"could not be written here: {error.strerror or error}")


def _below(here: Path, path: str) -> str:
    """What a path is called in the folder `here`; empty when it is not below it, EnvironmentFailure when it is that folder."""
    folder = f"{os.path.realpath(here).rstrip('/')}/"
    whole = os.path.realpath(path)
    if f"{whole}/" == folder:
        raise EnvironmentFailure(f"the working folder {here} is Melete's own and not copied", next="start in another")
    return whole.removeprefix(folder) if whole.startswith(folder) else ""


async def _whole(step: Callable[[], object]) -> None:
    """Run a step in a thread, to its end also when this is cancelled: what it works on is closed afterwards."""
    done = asyncio.get_running_loop().run_in_executor(None, step)
    try:
        await asyncio.shield(done)
    finally:
        await asyncio.wait([done])


def _plain(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _stamp(found: Found | None) -> str:
    """What tells whether an entry changed; of a folder only that it is one."""
    if found is None:
        return ""
    return FOLDER if found.kind == FOLDER else found.stamp


def _same(found: Found | None, ours: Found | None) -> bool:
    return _stamp(found) == _stamp(ours)


def _digest(folder: Path, path: str, found: Found) -> str:
    return "" if found.kind == FOLDER else parcels.digest_here(folder, path, found)


def _sure(found: Found, now: int) -> bool:
    """Whether another change of it would be seen; two in one second are not where times are in whole seconds."""
    return found.fine or found.kind == FOLDER or found.time < now - RACY


def _groups(paths: Sequence[str], entries: Mapping[str, Found]) -> list[list[str]]:
    """Files that go together, small ones many at a time, each large one alone."""
    made: list[list[str]] = []
    for batch in batches([path for path in paths if entries[path].size <= PIECE]):
        room = 0
        for path in batch:
            size = entries[path].size
            if not room or size > room:
                made.append([])
                room = PIECE + 1
            made[-1].append(path)
            room -= size
    return made + [[path] for path in paths if entries[path].size > PIECE]
