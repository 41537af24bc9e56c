"""Skills from elsewhere: fetched apart, scanned, shown, and put in place only when somebody has agreed to just these files.

Two steps, so that nobody agrees to what they have not seen: an `Offer` says what would change and what the scan thinks of it,
and `install` carries out that offer or none. What a person edited is merged with what is new, never replaced.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import Struct, structs

from melete.core.errors import MeleteError, StorageError
from melete.core.plugin import Lazy
from melete.core.ports import Clock
from melete.core.skill import MAIN, Skill, Version
from melete.core.tool import ToolError
from melete.security.paths import wrong_id
from melete.skills.format import read_skill
from melete.skills.frontmatter import FrontMatterError
from melete.skills.lock import Lock, Locked
from melete.skills.manage import Keeper
from melete.skills.merge import merge
from melete.skills.permissions import Permissions, permissions
from melete.skills.place import ConflictError, alone, put_tree, recover
from melete.skills.registry import Entry, Registries
from melete.skills.sources import Got, Sources
from melete.skills.versions import FOUND, Tree, diff, digest, tree_of, version_of_tree

if TYPE_CHECKING:
    from melete.security.skillscan import Report

_scan: "Lazy[Callable[..., Report]]" = Lazy("melete.security.skillscan:scan")
TRUST: Final = 1
By = Literal["user", "agent"]


class SkillRefusedError(MeleteError):
    """A skill from elsewhere is not installed; what there is was not changed."""


class Offer(Struct, frozen=True, kw_only=True):
    """What would be installed. `tree` are the files as they would be, `theirs` those that were fetched, `before` those in place.

    `gains` is what it would use beyond what it uses now; `changed` is False when it is up to date. `edited` are files whose
    edits are kept, `conflicts` those that cannot be merged; `refused` says why nobody may install it, `caution` what a person
    has to accept first.
    """

    name: str
    description: str
    source: str
    kind: str
    revision: str
    version: str
    listed: str
    tree: Tree
    theirs: Tree
    before: Tree
    diff: str
    report: "Report"
    gains: Permissions
    changed: bool
    edited: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    refused: str = ""
    caution: str = ""

    @property
    def new(self) -> bool:
        """Whether nothing of this name is in place."""
        return not self.before


class Hub:
    """The skills of a home that came from elsewhere. `skills` is the folder of all its skills, `lock` the lock of that folder."""

    def __init__(
        self, library: Keeper, *, sources: Sources, registries: Registries, skills: Path, lock: Path, clock: Clock
    ) -> None:
        self._library = library
        self._sources = sources
        self._registries = registries
        self._shelf = skills / "hub"
        self._archive = skills / ".archive"
        self._lock = lock
        self._clock = clock
        self._kept = Lock(skills)

    def installed(self) -> Mapping[str, Locked]:
        """What is installed, by name; raises StorageError."""
        return self._kept.read()

    def audit(self, limit: int = 100) -> list[dict[str, Any]]:
        """What was done here, the latest first."""
        return self._kept.audit(limit)

    async def search(self, query: str, *, limit: int = 10) -> list[Entry]:
        """The skills of the registries that match best; raises ToolError."""
        return await self._registries.search(query, limit=limit)

    async def offer(self, source: str) -> Offer:
        """Fetch a skill and say what installing it would change, without changing anything; raises ToolError, MeleteError."""
        return await self._offered(await self._sources.get(source))

    async def update(self, name: str, *, theirs: bool = False) -> Offer:
        """Fetch an installed skill again; with `theirs` edits of it are given up, and stay in its history. Raises as `offer`."""
        entry = self._entry(name)
        got = await self._sources.get(entry.source)
        return await self._offered(structs.replace(got, source=entry.source), name=name, theirs=theirs)

    async def install(self, offer: Offer, *, by: By = "user", caution: bool = False) -> Version:
        """Put in place what was offered, as a version; `caution` accepts what the scan is wary of, which only a person can.

        Raises SkillRefusedError, StorageError.
        """
        why = offer.refused
        if not why and offer.caution and not (caution and by == "user"):
            why = f"nobody has accepted that {offer.caution}"
        if why:
            self._note("refused", offer, by=by, why=why)
            raise SkillRefusedError(f"{offer.name} is not installed: {why}", kept="nothing was changed")
        async with alone(self._lock):
            await asyncio.to_thread(recover, self._shelf)
            if self._before(offer.name) != offer.before:
                raise SkillRefusedError(
                    f"{offer.name} has changed since this was offered", kept="nothing was changed", next="look again"
                )
            if offer.conflicts:
                raise await self._conflict(offer, by)
            return await self._put(offer, by)

    async def uninstall(self, name: str, *, by: By = "user") -> Path:
        """Move an installed skill into the archive and return where it lies; raises SkillRefusedError, StorageError."""
        async with alone(self._lock):
            entry = self._entry(name)
            folder, before = self._shelf / name, self._before(name)
            target = _free(self._archive / f"{name}-{entry.version}")
            if before:
                self._library.refresh()
                version = await self._noticed(name, before)
                target = _free(self._archive / f"{name}-{version}")
                reason = f"uninstalled by {by}"
                await self._library.versions.mark(
                    name, reason=reason, state="archived", owner="hub", folder=str(folder)
                )
                try:
                    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    folder.rename(target)
                except OSError as error:
                    raise StorageError(f"{folder} cannot be moved: {error.strerror}", kept="it is in place") from error
            self._kept.put(name, None)
            self._kept.note(time=self._now(), action="uninstalled", name=name, source=entry.source, by=by)
        self._library.refresh()
        return target

    # ---- inside ------------------------------------------------------------------------------------------------------

    async def _offered(self, got: Got, *, name: str = "", theirs: bool = False) -> Offer:
        skill = _skill(got)
        if name and skill.name != name:
            raise ToolError(f"{got.source[:200]} holds {skill.name} now, and no longer {name}")
        if (entry := got.listed) and (wrong := _unlike(skill, entry)):
            raise ToolError(f"{entry.install[:200]} is not what its index says: {wrong}")
        before = self._before(skill.name)
        base = self._base(skill.name)
        tree, conflicts = (got.tree, ()) if theirs or not before else merged(base, before, got.tree)
        report = await asyncio.to_thread(_scan.load(), got.tree if conflicts else tree, links=got.links)
        was = permissions(_read(before, skill.name), before) if before else Permissions()
        gains = permissions(skill, tree).beyond(was)
        return Offer(
            name=skill.name, description=skill.description, source=got.source, kind=got.kind, revision=got.revision,
            version=version_of_tree(got.tree), listed=skill.version, tree=tree, theirs=got.tree, before=before,
            diff=diff(before, got.tree if conflicts else tree), report=report, gains=gains,
            changed=tree != before or bool(conflicts) or base != got.tree,
            edited=tuple(path for path in sorted({*base, *before}) if before and before.get(path) != base.get(path)),
            conflicts=tuple(conflicts),
            refused=self._taken(skill.name, got) or (report.why if report.verdict == "dangerous" else ""),
            caution="; ".join(_wary(report, gains if before else Permissions())),
        )  # fmt: skip

    def _taken(self, name: str, got: Got) -> str:
        """Why the name is not free for what comes from there; a skill is never replaced, or hidden, by a stranger of its name."""
        entry = self._kept.read().get(name)
        if entry and entry.source != got.source:
            return f"{name} is installed from {entry.source}; uninstall that first"
        if not entry and self._before(name) not in ({}, got.tree):
            return f"{self._shelf / name} holds a skill that was not installed; move it to {self._shelf.parent / 'user'}, or away"
        self._library.refresh()
        if name in self._library and (there := self._library.get(name)).root not in ("hub", "project"):
            return f"there is a skill {name} already, {there.folder} ({there.root}), which is trusted more"
        return ""

    def _before(self, name: str) -> Tree:
        folder = self._shelf / name
        return tree_of(folder) if folder.is_dir() and not folder.is_symlink() else {}

    def _base(self, name: str) -> Tree:
        """What was fetched the last time; nothing where that is not known."""
        entry, versions = self._kept.read().get(name), self._library.versions
        return versions.tree(structs.replace(UNKNOWN, skill=name, files=entry.files)) if entry else {}

    async def _put(self, offer: Offer, by: By) -> Version:
        self._library.refresh()
        if offer.before:
            await self._noticed(offer.name, offer.before)
        done = "installed" if offer.new else "updated"
        versions = self._library.versions
        made = Version(skill=offer.name, author="hub", owner="hub", trust=TRUST, reason=f"{done} from {offer.source}")
        if offer.tree != offer.theirs:  # what was fetched is what the next update is compared with
            await versions.record(structs.replace(made, reason=f"fetched from {offer.source}"), offer.theirs)
        made = await versions.record(made, offer.tree)
        now, entry = self._now(), self._kept.read().get(offer.name)
        try:
            await asyncio.to_thread(put_tree, self._shelf / offer.name, offer.tree, before=offer.before, durable=True)
        except ConflictError:
            await self._noticed(offer.name, self._before(offer.name))
            raise
        except OSError as error:
            raise StorageError(
                f"{self._shelf / offer.name} cannot be written: {error.strerror}", kept="what was there is there"
            ) from error
        locked = Locked(
            source=offer.source, kind=offer.kind, revision=offer.revision, version=offer.version, listed=offer.listed,
            files={path: digest(data) for path, data in offer.theirs.items()}, verdict=offer.report.verdict,
            findings=tuple(msgspec.to_builtins(one) for one in offer.report.findings),
            accepted=made.version if offer.report.verdict == "caution" else "",
            installed=entry.installed if entry else now, updated=now if entry else "",
        )  # fmt: skip
        self._kept.put(offer.name, locked)
        self._note(done, offer, by=by)
        self._library.refresh()
        return made

    async def _noticed(self, name: str, tree: Tree) -> str:
        """Keep what lies on the disk as a version, so that nothing that somebody wrote is lost; returns it."""
        if name in self._library and (skill := self._library.get(name)).root == "hub":
            return (await self._library.versions.notice(skill, tree)).version
        made = Version(skill=name, owner="hub", trust=TRUST, reason=FOUND)
        return (await self._library.versions.record(made, tree)).version

    async def _conflict(self, offer: Offer, by: By) -> SkillRefusedError:
        """Keep what was fetched beside the archived ones, and say so."""
        place = self._archive / f"{offer.name}-{offer.version}"
        try:
            await asyncio.to_thread(put_tree, place, offer.theirs)
        except OSError as error:
            raise StorageError(f"{place} cannot be written: {error.strerror}", kept="nothing was changed") from error
        why = f"you and its author have both changed {', '.join(offer.conflicts)}"
        self._note("refused", offer, by=by, why=why)
        return SkillRefusedError(
            f"{offer.name} is not updated: {why}",
            kept=f"yours is in place, theirs lies in {place}",
            next="put them together by hand, or update with theirs alone; yours stays in the history",
        )

    def _entry(self, name: str) -> Locked:
        entry = self._kept.read().get(name)
        if entry is None:
            there = ", ".join(self._kept.read()) or "none"
            raise SkillRefusedError(f"{name[:80]!r} is not installed from elsewhere; there are: {there[:300]}")
        return entry

    def _note(self, action: str, offer: Offer, **more: str) -> None:
        self._kept.note(
            time=self._now(), action=action, name=offer.name, source=offer.source, revision=offer.revision,
            version=offer.version, verdict=offer.report.verdict, **more,
        )  # fmt: skip

    def _now(self) -> str:
        return self._clock.now().isoformat()


UNKNOWN: Final = Version(skill="")


def merged(base: Tree, ours: Tree, theirs: Tree) -> tuple[Tree, Sequence[str]]:
    """Both edits of a skill put together, and the files where they meet, which are left as ours."""
    tree: dict[str, bytes] = {}
    conflicts: list[str] = []
    for path in sorted({*base, *ours, *theirs}):
        was, mine, new = base.get(path), ours.get(path), theirs.get(path)
        kept = new if mine == was else mine
        if mine not in (was, new) and new != was:
            both = _merge(was, mine, new)
            kept = mine if both is None else both
            conflicts += [path] if both is None else []
        if kept is not None:
            tree[path] = kept
    return tree, conflicts


def _merge(base: bytes | None, ours: bytes | None, theirs: bytes | None) -> bytes | None:
    if base is None or ours is None or theirs is None:
        return None
    try:
        text = merge(base.decode(), ours.decode(), theirs.decode())
    except UnicodeDecodeError:
        return None
    return None if text is None else text.encode()


def _skill(got: Got) -> Skill:
    """What the fetched files say of themselves; raises ToolError."""
    if MAIN not in got.tree:
        raise ToolError(f"{got.source[:200]} has no SKILL.md")
    try:
        skill, _ = read_skill(got.tree[MAIN])
    except FrontMatterError as error:
        raise ToolError(f"the SKILL.md of {got.source[:200]} cannot be read: {error.what}") from error
    if why := wrong_id(skill.name):
        raise ToolError(f"a skill cannot be called {skill.name[:80]!r}: {why}")
    return skill


def _wary(report: "Report", more: Permissions) -> Iterator[str]:
    """What a person has to agree to beyond the skill itself: what the scan found, and what an update is handed from then on."""
    if report.verdict == "caution":
        yield f"the scan is wary of it: {report.why}"
    if names := (*more.variables, *more.tools):
        yield f"it would use {', '.join(names)} from now on"


def _unlike(skill: Skill, entry: Entry) -> str:
    """How a skill differs from what an index says of it; empty where it does not."""
    for what, says, is_ in (("name", entry.name, skill.name), ("version", entry.version, skill.version)):
        if says and is_ and says != is_:
            return f"the {what} there is {says!r}, and the skill's own is {is_[:64]!r}"
    return ""


def _read(tree: Tree, name: str) -> Skill:
    try:
        return read_skill(tree.get(MAIN, b""))[0]
    except FrontMatterError:
        return Skill(name=name, description="")


def _free(place: Path) -> Path:
    number = 1
    while place.exists():
        number += 1
        place = place.with_name(f"{place.name.partition('~')[0]}~{number}")
    return place
