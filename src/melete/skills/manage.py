"""Changing skills: every change is checked whole before anything is written, kept as a version, and then put in place.

The agent's changes and a person's take the same way. A change starts from a version that was read: what somebody else edited
since then is merged, and where both edits meet nothing is written.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from msgspec import Struct, structs, to_builtins

from melete.core.errors import MeleteError, StorageError
from melete.core.ports import Applied, Change
from melete.core.skill import Owner, Skill, SkillText, State, Version
from melete.core.tool import ToolError
from melete.security.paths import PathRefusedError, parts, same_name, wrong_id
from melete.skills.change import Edit, EditedError, Journal, Under
from melete.skills.folders import SKIPPED, Shelf
from melete.skills.format import read_skill, strict
from melete.skills.frontmatter import FrontMatterError
from melete.skills.invoke import folder_of, invoked, value_of
from melete.skills.library import Library
from melete.skills.merge import merge_file
from melete.skills.place import alone
from melete.skills.scans import Judge, Scans
from melete.skills.versions import (
    FOUND,
    MAIN,
    NOT_KEPT,
    STATE,
    Tree,
    Versions,
    diff,
    make_folder,
    none,
    tree_of,
    version_of_tree,
)

log = logging.getLogger("melete.skills")
LONGEST_MAIN: Final = 100_000
"""Characters of a SKILL.md."""
LARGEST_FILE: Final = 1 << 20
FOLDERS: Final = ("references", "templates", "scripts", "assets", "examples")
"""Where the files beside SKILL.md may lie."""
TRIAL: Final = 2
"""The trust of what the agent has written and nobody has vouched for."""
VOUCHED: Final = 3
PROPOSAL: Final = "skill.proposal"


class ConflictError(ToolError):
    """Somebody else edited the same lines since they were read."""


class Rules(Struct, frozen=True, kw_only=True):
    """Where skills of this home are written, and what may be: nothing without `keeps`.

    `config` holds the values of skills' own settings, `has` says whether a variable is set, `accepted` which version of a skill
    from the hub a person took although the scan warned. What lies below `cwd` is told as seen from there.
    `mark` stands for the rules of the scan.
    """

    user: Path
    archive: Path
    lock: Path
    judge: Judge
    has: Callable[[str], bool]
    accepted: Callable[[str], str] = none
    config: Mapping[str, Any] = {}
    cwd: str = ""
    mark: str = ""
    edit_user: bool = False
    refresh: bool = True
    keeps: bool = True


class Plan(Struct, frozen=True, kw_only=True):
    """A change that may be made: the folder's files before and after, and the version that it becomes; no files archive it.

    Where `more` follow at once, the ledger is forced to the disk with the last of them.
    """

    folder: Path
    before: Tree
    after: Tree
    made: Version
    more: bool = False


class Keeper(Library):
    """The library with its history: what it reads is scanned, and what is changed is checked, kept and told."""

    def __init__(self, shelves: Sequence[Shelf], *, versions: Versions, rules: Rules, **library: Any) -> None:
        super().__init__(shelves, **library)
        self.versions = versions
        self._rules = rules
        self._journal = Journal(library["state"] / "skills.journal")
        self._scans = Scans(
            library["state"] / "skills.scans" if rules.keeps else None, judge=rules.judge, mark=rules.mark
        )

    async def read(self, name: str, part: str = "", *, args: str | None = None) -> SkillText:
        """A skill's SKILL.md or one of its files, scanned where it has changed; with `args` as it is loaded for use."""
        if self._rules.keeps and self._journal.path.exists():
            async with alone(self._rules.lock):
                self._recover()
        if self._rules.refresh:
            self.refresh()
        skill = self.get(name)
        tree = await self._seen(skill)
        part, base = _inside(part) if part else MAIN, folder_of(skill, self._rules.cwd)
        if part not in tree:
            raise ToolError(f"{name} has no file {part!r}", files=_listed(tree))
        if why := await self._refused(skill, tree):
            raise ToolError(f"{name} is not loaded: {why}")
        try:
            text = tree[part].decode()
        except UnicodeDecodeError as error:
            raise ToolError(f"{part} is no text", size=len(tree[part]), path=f"{skill.folder}/{part}") from error
        if args is not None and part == MAIN:
            text = invoked(text, base=base, args=args)
        missing = tuple(one for one in skill.variables if not self._rules.has(one.name))
        return SkillText(
            skill=skill,
            part=part,
            text=text,
            version=version_of_tree(tree),
            base=base,
            files=_listed(tree),
            missing=missing,
            config={one.key: value_of(one, skill, self._rules.config) for one in skill.options},
        )

    async def _seen(self, skill: Skill) -> Tree:
        """A skill's files; a version that is new is stored while no other process changes anything."""
        folder, known = Path(skill.folder), self._standings.of(skill.root, skill.name)
        tree = await asyncio.to_thread(tree_of, folder)
        settled = known is not None and known.version == version_of_tree(tree)
        if settled or skill.root in NOT_KEPT or not self._rules.keeps:
            return tree
        async with alone(self._rules.lock):
            tree = await asyncio.to_thread(tree_of, folder)
            if MAIN in tree:
                await self.versions.notice(skill, tree)
        self.refresh()
        return tree

    async def _refused(self, skill: Skill, tree: Tree) -> str:
        """Why a skill may not be loaded as it is now; each version is scanned once.

        What lies among the person's skills, or Melete's, and did not come there through Melete is scanned as external ones are.
        """
        owner, accepted = skill.owner, self._rules.accepted(skill.name) if skill.root == "hub" else ""
        known = self._standings.of(skill.root, skill.name)
        told = known is not None and known.version == version_of_tree(tree) and not known.found
        if strayed := owner in ("user", "bundled") and not told:
            made = [one.version for one in self.versions.history(skill.name) if one.reason != FOUND]
            owner, accepted = "external", made[-1] if made else ""
        before = self.versions.tree(self.versions.find(skill.name, accepted)) if accepted else {}
        why = await asyncio.to_thread(self._scans.why, tree, owner, before=before)
        agrees = f". A person who has read it agrees to it with: melete skills pin {skill.name}"
        return f"{why}{agrees}" if why and strayed else why

    async def check(self, change: Change) -> Applied:
        """What `apply` would say, without doing it."""
        return await self._change(change, act=False)

    async def apply(self, change: Change) -> Applied:
        """Make the change as a new version, whole or not at all; a refusal says why."""
        return await self._change(change, act=True)

    async def propose(self, change: Change) -> str:
        """Keep the change for a person to decide about and return the proposal's id."""
        number = token_hex(6)
        fields = to_builtins(change) | {"id": number, "status": "open"}
        await self.versions.note(PROPOSAL, fields)
        return number

    async def revert(self, name: str, version: str = "", *, author: str = "user", reason: str = "") -> Applied:
        """Make a new version that equals an old one, the one before the last where none is named; what is archived comes back.

        Raises ToolError.
        """
        async with alone(self._rules.lock):
            skill, lies, head = await self._lying(name)
            if skill and not version and not head.parent:
                raise ToolError(
                    f"nothing lies before {head.version} of {name}; name one of: melete skills history {name}"
                )
            wanted = self.versions.find(name, version or (head.parent if skill else head.version))
            made = structs.replace(
                wanted, author=author, session="", turns=(), model="", taint="none",
                reason=reason or f"back to {wanted.version}",
            )  # fmt: skip
            plan = structs.replace(lies, after=self.versions.tree(wanted), made=made)
            if plan.before == plan.after:
                raise ToolError(f"{name} is as it was in {wanted.version}")
            return await self._carry_out(plan)

    async def become(self, made: Version, after: Tree, *, base: str, more: bool = False) -> Applied:
        """Make the skill of the version `made` what these files are; none archive it, and what is archived comes back.

        Raises ToolError where its files are not those of the version `base` any more.
        """
        async with alone(self._rules.lock):
            _, lies, _ = await self._lying(made.skill)
            if (version_of_tree(lies.before) if lies.before else "") != base:
                raise ConflictError(f"{made.skill} has changed in this moment: try it again")
            return await self._carry_out(structs.replace(lies, after=after, made=made, more=more))

    async def _lying(self, name: str) -> tuple[Skill | None, Plan, Version]:
        """A skill as it lies on the disk, planned to stay so, with its last version; no skill where it is archived."""
        skill, head = self._known(name), self.versions.head(name)
        if head is None:
            raise ToolError(f"{name} has no versions yet")
        folder = Path(skill.folder) if skill else self._place_of(name)
        before = tree_of(folder)
        if skill:
            head = await self.versions.notice(skill, before)
        elif before:
            raise ToolError(f"{folder} holds a skill that was written since {name} was archived: move it away first")
        return skill, Plan(folder=folder, before=before, after=before, made=head), head

    # ---- one change --------------------------------------------------------------------------------------------------

    async def _change(self, change: Change, *, act: bool) -> Applied:
        try:
            async with alone(self._rules.lock):
                plan = await self._plan(change)
                if act:
                    return await self._carry_out(plan)
                return Applied(ok=True, diff=diff(plan.before, plan.after))
        except StorageError:
            raise
        except (ToolError, MeleteError) as error:
            why = error.what if isinstance(error, MeleteError) else str(error)
            log.warning("the skill %s was not changed by %s: %s", change.name, change.author, why)
            return Applied(ok=False, reason=why, conflict=isinstance(error, ConflictError))

    async def _plan(self, change: Change) -> Plan:
        """The change, checked; raises ToolError, FrontMatterError, PathRefusedError with what to mend."""
        skill = self._known(change.name)
        if skill is None:
            folder, before, after = self._new(change)
        else:
            self._may(change, skill)
            folder = Path(skill.folder)
            before = tree_of(folder)
            after = self._merged(change, before, await self.versions.notice(skill, before))
        if after == before:
            raise ToolError("that changes nothing")
        owner, trust, state = _standing(change, skill)
        if after:
            _check(change, before, after)
            why = await asyncio.to_thread(
                self._rules.judge, after, "agent" if change.author == "agent" else "user", before
            )
            if why:
                raise ToolError(f"the scan refuses it: {why}")
        made = Version(
            skill=change.name, author=change.author, owner=owner, trust=trust, state=state, session=change.session,
            turns=change.turns, model=change.model, reason=change.reason, taint=change.taint,
        )  # fmt: skip
        return Plan(folder=folder, before=before, after=after, made=made)

    def _known(self, name: str) -> Skill | None:
        """The skill that is to be changed, as it is now; None where there is none."""
        if not self._rules.keeps:
            raise ToolError("nothing is stored in this session, and skills are not either")
        if self._journal.path.exists():
            self._recover()
        self.refresh()
        return self.get(name) if name in self else None

    def _new(self, change: Change) -> tuple[Path, Tree, Tree]:
        if MAIN not in change.files:
            self.get(change.name)  # says which names come near
        if why := wrong_id(change.name):
            raise ToolError(f"a skill cannot be called {change.name[:80]!r}: {why}")
        names = parts(change.category) if change.category else ()
        if wrong := next((why for one in names if (why := wrong_id(one))), ""):
            raise ToolError(f"a category cannot be called {change.category[:80]!r}: {wrong}")
        folder = self._rules.user.joinpath(*names, change.name)
        if os.path.lexists(folder) and not (folder.is_dir() and not folder.is_symlink() and not tree_of(folder)):
            raise ToolError(f"there is a folder {folder} already, which is no skill that can be loaded")
        return folder, {}, {_path(path): _bytes(text) for path, text in change.files.items() if text is not None}

    def _may(self, change: Change, skill: Skill) -> None:
        if skill.root in NOT_KEPT:
            whose = (
                "the project's" if skill.root == "project" else "kept outside of Melete, in a folder that is only read"
            )
            raise ToolError(
                f"{skill.name} is {whose}: edit {skill.folder} with the file tools, or make a skill of another name"
            )
        if not Path(skill.folder, MAIN).is_file():
            raise ToolError(f"the file of {skill.name} is not called {MAIN}: a person has to rename it first")
        if not change.base:
            if change.files.get(MAIN) is not None and change.author == "agent":
                raise ToolError(f"there is a skill {skill.name} already: read it with skill_view and patch it")
            raise ToolError(f"{skill.name} was not read: read it with skill_view first")
        if change.author == "agent" and skill.owner == "user" and not (change.granted or self._rules.edit_user):
            raise ToolError(f"{skill.name} is the person's own, and changed only if they say so (skills.edit_user)")

    def _merged(self, change: Change, before: Tree, head: Version) -> Tree:
        """The files with the change in them, and with what was edited since the version that it starts from."""
        base = before
        if change.base != head.version:
            base = self.versions.tree(self.versions.find(change.name, change.base))
        after = dict(before)
        for given, text in change.files.items():
            path = _path(given)
            now = merge_file(base.get(path), None if text is None else _bytes(text), before.get(path))
            if isinstance(now, str):
                raise ConflictError(
                    f"{path} of {change.name} {now} since you read it: read it again, then say what to change"
                )
            if now is None:
                after.pop(path, None)
            else:
                after[path] = now
        return after if MAIN in after else {}

    async def _carry_out(self, plan: Plan) -> Applied:
        """Keep the version, then put it in place; what a crash leaves half done, the next change or look finishes."""
        if not plan.after:
            return await self._archive(plan)
        name, shown, edit = plan.made.skill, diff(plan.before, plan.after), Edit(plan.folder, plan.before, plan.after)
        try:
            await asyncio.to_thread(edit.prepare)
            under = Under(skill=name, folder=str(plan.folder), version=version_of_tree(plan.after))
            self._journal.begin(under, durable=not plan.more)
            kept = await self.versions.record(plan.made, plan.after, durable=not plan.more)
            await asyncio.to_thread(edit.place)
        except EditedError as error:
            raise await self._overtaken(plan, str(error)) from error
        except OSError as error:
            await self._undone(plan)
            raise StorageError(
                f"{error.filename or plan.folder} cannot be written: {error.strerror}",
                kept="the skill is as it was",
                next="look at the disk and its permissions",
            ) from error
        finally:
            edit.drop()
            self._journal.end()
        self.refresh()
        return Applied(ok=True, version=kept.version, diff=shown)

    async def _overtaken(self, plan: Plan, path: str) -> ConflictError:
        """Somebody saved a file in the same moment: theirs stays, as a version of its own."""
        self.refresh()
        if plan.made.skill in self:
            await self.versions.notice(self.get(plan.made.skill), tree_of(plan.folder))
        return ConflictError(
            f"{path} of {plan.made.skill} has changed in this moment: read it again, then say what to change"
        )

    async def _undone(self, plan: Plan) -> None:
        """Say in the history that a version which was kept did not come into force."""
        head = self.versions.head(plan.made.skill)
        if head is None or head.version != version_of_tree(plan.after):
            return
        why = "it could not be written; as it was before"
        if plan.before:
            await self.versions.record(structs.replace(plan.made, reason=why), plan.before)
        else:
            await self.versions.mark(
                plan.made.skill, reason=why, state="archived", owner=plan.made.owner, folder=str(plan.folder)
            )

    async def _archive(self, plan: Plan) -> Applied:
        name, head = plan.made.skill, self.versions.head(plan.made.skill)
        target = self._rules.archive / f"{name}-{head.version if head else token_hex(4)}"
        self._journal.begin(Under(skill=name, folder=str(plan.folder), target=str(target)))
        made = plan.made
        await self.versions.mark(
            name, reason=made.reason or f"archived by {made.author}", state="archived", owner=made.owner,
            folder=str(plan.folder), author=made.author, session=made.session,
        )  # fmt: skip
        _moved(plan.folder, target)
        self._journal.end()
        self.refresh()
        return Applied(ok=True, version=head.version if head else "", diff=f"archived as {target}")

    def _recover(self) -> None:
        """Finish what a process that was killed has left half done; the lock is held. Raises StorageError."""
        left = self._journal.left()
        try:
            if left is not None and left.target and Path(left.folder).exists():
                _moved(Path(left.folder), Path(left.target))
            elif left is not None and left.version:
                known = {one.version: one for one in self.versions.history(left.skill)}
                if (made := known.get(left.version)) is not None and made == self.versions.head(left.skill):
                    folder = Path(left.folder)
                    edit = Edit(folder, tree_of(folder), self.versions.tree(made))
                    edit.prepare()
                    edit.place()
        except OSError as error:
            raise StorageError(f"{left and left.folder} is half written: {error}", next="look at the disk") from error
        self._journal.end()

    def _place_of(self, name: str) -> Path:
        """Where an archived skill lay."""
        for row in reversed(self.versions.facts(STATE)):
            if row["skill"] == name and row.get("state") == "archived":
                return Path(row["folder"])
        return self._rules.user / name


def _standing(change: Change, skill: Skill | None) -> tuple[Owner, int, State]:
    """Whose a skill is after a change, how far it is trusted, and whether it is on trial."""
    by_agent = change.author == "agent"
    if skill is None:
        return ("agent", TRIAL, "trial") if by_agent else ("user", 4, "active")
    if skill.owner == "user":  # a person allowed it, or did it
        return "user", 4, "active"
    if by_agent:
        return skill.owner, min(skill.trust, TRIAL), "trial"
    return skill.owner, VOUCHED if skill.owner == "agent" else skill.trust, "active"


def _check(change: Change, before: Tree, after: Tree) -> None:
    """Raise for a form that is not to be written; what was wrong before and still can be read is not the change's fault."""
    try:
        text = after[MAIN].decode()
    except UnicodeDecodeError as error:
        raise ToolError("SKILL.md is not UTF-8") from error
    if len(text) > LONGEST_MAIN:
        raise ToolError(
            f"SKILL.md would have {len(text):,} characters, more than {LONGEST_MAIN:,}: move details into references/"
        )
    try:
        strict(text, name=change.name)
    except FrontMatterError as error:
        if MAIN not in before or _complaint(before[MAIN], change.name) != error.what:
            raise
        read_skill(text)
    new = [path for path in after if path not in before and path != MAIN]
    for path in new:
        if path.partition("/")[0] not in FOLDERS or "/" not in path:
            raise ToolError(f"{path!r} is not in one of {', '.join(FOLDERS)}")
        if any(name.startswith(".") or name in SKIPPED for name in path.split("/")):
            raise ToolError(f"{path!r} is hidden, and what is hidden is no part of a skill")
        if same_name(path) in {same_name(other) for other in after if other != path}:
            raise ToolError(f"{path!r} is there already in another spelling")
    if large := next(
        (path for path in after if after[path] != before.get(path) and len(after[path]) > LARGEST_FILE), ""
    ):
        raise ToolError(f"{large} is larger than {LARGEST_FILE:,} bytes")


def _complaint(data: bytes, name: str) -> str:
    try:
        strict(data.decode("utf-8", "replace"), name=name)
    except FrontMatterError as error:
        return error.what
    return ""


def _path(path: str) -> str:
    return "/".join(parts(path))


def _inside(path: str) -> str:
    """The path in one form; raises ToolError."""
    try:
        return _path(path)
    except PathRefusedError as error:
        raise ToolError(error.what) from error


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"the text holds half a character at {error.start}") from error


def _listed(tree: Tree) -> tuple[str, ...]:
    return tuple(sorted(tree, key=lambda path: (path != MAIN, path)))


def _moved(folder: Path, target: Path) -> None:
    """Move a skill's folder into the archive; raises StorageError."""
    try:
        make_folder(target.parent)
        if target.exists():
            target = target.with_name(f"{target.name}-{token_hex(2)}")
        folder.rename(target)
    except OSError as error:
        raise StorageError(f"{folder} cannot be moved: {error.strerror}", kept="it is where it was") from error
