"""Skills in a session: the list in its prompt, those that a person calls for, those that a message suggests. Composition root.

The list is part of the frame and stays as it is for the whole session. What is added to a message is stored with it, so that a
session that goes on later sends the same bytes.
"""

import asyncio
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import structs

from melete import __version__
from melete.app.bundled import bundled, start
from melete.app.opening import Options
from melete.app.settings import Loaded
from melete.app.suggesting import CUT, Asked, listed
from melete.app.variables import AGENT, SERVER_ALONE
from melete.app.vendors import vendors
from melete.app.wire import Melete
from melete.core.errors import StoreError, UsageError
from melete.core.event import Framed
from melete.core.message import Message, Text
from melete.core.plugin import Lazy
from melete.core.ports import Environment
from melete.core.session import Session
from melete.core.skill import CALLED, OTHERS, SUGGESTED, Here, Owner, Skill, SkillText
from melete.core.tool import Tool, ToolError
from melete.core.transcript import Transcript
from melete.store import open_ledger

if TYPE_CHECKING:
    from melete.app.rivals import Rivals
    from melete.skills.index import Block, Index
    from melete.skills.manage import Keeper

_shelf: Lazy[Callable[..., Any]] = Lazy("melete.skills.folders:Shelf")
_keeper: "Lazy[Callable[..., Keeper]]" = Lazy("melete.skills.manage:Keeper")
_rules: Lazy[Callable[..., Any]] = Lazy("melete.skills.manage:Rules")
_versions: Lazy[Callable[..., Any]] = Lazy("melete.skills.versions:Versions")
_blobs: Lazy[Callable[..., Any]] = Lazy("melete.skills.versions:Blobs")
_digest: Lazy[Callable[[bytes], str]] = Lazy("melete.skills.versions:digest")
_index: "Lazy[Callable[..., Index]]" = Lazy("melete.skills.index:Index")
_excerpt: Lazy[Callable[[str, Callable[[str], bool], int], str]] = Lazy("melete.skills.index:excerpt")
_missing: Lazy[Callable[..., str]] = Lazy("melete.skills.invoke:missing_text")
_learned: Lazy[Callable[..., Awaitable[str]]] = Lazy("melete.tools.skills:learned")
_lock: Lazy[Callable[[Path], Any]] = Lazy("melete.skills.lock:Lock")
_accepted: Lazy[Callable[[Path, str], str]] = Lazy("melete.skills.lock:accepted")
_scan: Lazy[Callable[[Mapping[str, bytes]], Any]] = Lazy("melete.security.skillscan:scan")
_compared: "Lazy[Callable[..., Awaitable[Rivals]]]" = Lazy("melete.app.rivals:compared")
_allowed: Lazy[Callable[[str, str], str]] = Lazy("melete.security.skillscan:allowed")

log = logging.getLogger("melete.skills")
OWN: Sequence[Literal["user", "bundled", "hub"]] = ("user", "bundled", "hub")
"""The folders of a home, in the order in which they count."""
TRUSTED = frozenset({"user", "bundled"})
"""Whose skills are not scanned: the person's, and Melete's own."""
OURS, VOUCHED = "MELETE_", 3
PROJECT = "skills"
"""Where a working folder has skills of its own."""
HERE, LOADED, HANDED, RIVALS = "skills.here", "skills.loaded", "skills.variables", "skills.rivals"
"""Keys of the state that the tools share, as tools/skills.py has them."""
VIEW = "skill_view"
MOST_CALLED = 5
MOST_LISTED = 300
"""Skills that may come to stand in the list, whatever its budget."""
LEAST, LONGEST_LINE = 0.35, 160
"""The share of the best score that a suggestion has at least, and characters of its description."""
BEFORE = 1.0
"""Seconds before texts are indexed: the first request goes out first."""
_NAME = r"[^\W_](?:[^\W_]|-){0,63}"
_SLASHES = re.compile(rf"\s*((?:/{_NAME}(?=\s|$)\s*)+)")
_AT = re.compile(rf"(?<![\w@./-])@({_NAME})(?![\w@/-]|\.\w)")
_QUOTED = re.compile(r"\n\n<stdin>\n(?s:.*)\Z|^(```|~~~)(?s:.*?)^\1|^\s*>.*$|`[^`\n]*`", re.MULTILINE)
"""What somebody else wrote, or a program."""
PIPED = "stdin"
"""The surface of a prompt of which nothing was typed: it calls no skills."""


def platform() -> Literal["linux", "macos", "windows"]:
    """The system that this runs on, as skills call it."""
    return "macos" if sys.platform == "darwin" else "windows" if sys.platform == "win32" else "linux"


def library(app: Melete, cwd: str = "") -> "Keeper":
    """The skills of the home, with those of the working folder `cwd`; made once in a process for each such folder."""
    return _shelved(app, cwd)[0]


def _shelved(app: Melete, cwd: str) -> "tuple[Keeper, Index]":
    project = str(Path(cwd, PROJECT)) if cwd and Path(cwd, PROJECT).is_dir() else ""
    if project not in app.libraries:
        keeper = _open(app, project)
        app.libraries[project] = (keeper, _index.load()(keeper))
    return app.libraries[project]


def _open(app: Melete, project: str) -> "Keeper":
    start(app)
    loaded, home = app.loaded, app.then.home if app.then else app.loaded.home
    given = loaded.settings.skills
    shelf = _shelf.load()
    shelves = [shelf(kind=kind, path=str(home.skills / kind)) for kind in OWN]
    shelves += [shelf(kind="external", path=str(Path(path).expanduser())) for path in given.external_dirs]
    shelves += [shelf(kind="project", path=project)] if project else []
    rules = _rules.load()(
        user=home.skills / "user",
        archive=home.skills / ".archive",
        lock=home.state / "skills.lock",
        judge=judge,
        has=partial(is_set, loaded.variables),
        accepted=partial(_accepted.load(), loaded.home.skills),
        config=given.config,
        cwd=str(Path(project).resolve().parent) if project else "",
        mark=__version__,
        edit_user=given.edit_user,
        refresh=given.refresh_on_call,
        keeps=not (app.ephemeral or app.then),
    )
    # Whose a skill is counts in a session that stores nothing as well; nothing is written through the keeper there.
    ledger = open_ledger(home.state, clock=app.clock) if app.ephemeral else app.ledger
    ledger = app.then.ledger if app.then else ledger
    versions = _versions.load()(ledger, _blobs.load()(loaded.home.state / "blobs"), origin=bundled(loaded).origin)
    return _keeper.load()(
        shelves, state=home.state, ledger=ledger, disabled=given.disabled, versions=versions, rules=rules
    )


def is_set(variables: Mapping[str, str], name: str) -> bool:
    """Whether a variable has a value."""
    return bool(variables.get(name, "").strip())


def handed(loaded: Loaded, text: SkillText) -> Mapping[str, str]:
    """The variables that a skill names, for the commands of a session that loads it, as far as a person has agreed.

    That is: for a skill of the person's, of Melete's or one that a person vouched for, and for one from the hub as it was when they
    installed it. Keys of models and Melete's own variables stay here. `env.passthrough` names what commands see in any case.
    """
    skill, settings = text.skill, loaded.settings
    named = {one.name for one in skill.variables}
    given = named & {*settings.env.passthrough}
    if skill.trust >= VOUCHED or (skill.root == "hub" and _locked(loaded, skill.name) == text.version):
        keys = {key for vendor in vendors().values() for key in vendor.keys}
        own = {
            one.key_variable
            for one in (*settings.providers.values(), *settings.model.fallbacks)
            if not isinstance(one, str)
        }
        given |= {name for name in named - keys - own if not name.startswith(OURS)}
    return {name: loaded.variables[name] for name in given - SERVER_ALONE - {AGENT} if is_set(loaded.variables, name)}


def _locked(loaded: Loaded, name: str) -> str:
    """The version of a skill from the hub that a person installed."""
    found = _lock.load()(loaded.home.skills).read().get(name)
    return found.version if found else ""


def judge(files: Mapping[str, bytes], owner: Owner, before: Mapping[str, bytes]) -> str:
    """Why the files of a skill may not be kept or loaded, by the scan; empty where they may.

    What a person wrote is theirs to load. What the scan found in the files as they were `before` is no fault of the change.
    """
    if owner in TRUSTED:
        return ""
    report = _scan.load()(files)
    if _allowed.load()(report.verdict, owner) == "allow":
        return ""
    known = {_found(one, before) for one in _scan.load()(before).findings} if before else set[Any]()
    if known and all(_found(one, files) in known for one in report.findings):
        return ""
    return report.why


def _found(finding: Any, files: Mapping[str, bytes]) -> tuple[str, str, bytes]:
    """A finding with the whole line that it is about, or the whole file: another one is another finding."""
    data = files.get(finding.file, b"")
    lines, number = data.splitlines(), int(finding.line)
    whole = lines[number - 1] if 0 < number <= len(lines) else data
    return finding.rule, finding.file, whole


class Skills:
    """The skills of one conversation: none where they are off. `state` is what the tools of the conversation share.

    Raises UsageError for a skill of the options that is not there.
    """

    def __init__(self, app: Melete, options: Options, env: Environment, *, cwd: str) -> None:
        self.state: dict[str, Any] = {}
        self.library: Keeper | None = None
        self.here = Here()
        self._app = app
        self._options = options
        self._env = env
        self.cwd = cwd
        self._called = options.skills
        self._exposed: list[tuple[str, list[list[Any]]]] = []
        self._filling: asyncio.Task[None] | None = None
        self._rivals: Rivals | None = None
        if app.loaded.settings.skills.enabled:
            self.library, self._index = _shelved(app, cwd)
        elif options.skills:
            raise UsageError("skills are off (skills.enabled)", next="switch them on, or leave --skills out")
        for name in options.skills:
            self._need(name)

    def _need(self, name: str) -> None:
        try:
            if self.library:
                self.library.get(name)
        except ToolError as error:
            what = str(error).partition(": find one with")[0]
            raise UsageError(what, next="find one with: melete skills search") from error

    def among(self, tools: Sequence[Tool]) -> "Skills":
        """Say what can be called in this session: skills are shown by that. Returns itself."""
        given = self._app.loaded.settings.tools
        chosen = self._options.toolsets or given.enabled or self._app.registry.names("tools")
        self.state[HANDED] = partial(handed, self._app.loaded)
        self.here = self.state[HERE] = Here(
            tools=frozenset(tool.name for tool in tools),
            toolsets=frozenset(chosen).difference(given.disabled),
            platform=platform(),
            cwd=self.cwd,
        )
        return self

    @property
    def _listing(self) -> "Block | None":
        """What the prompt says of skills, the same for as long as nothing changes; None where no tool loads one."""
        if self.library is None or VIEW not in self.here.tools:
            return None
        given = self._app.loaded.settings.skills
        tokens = min(given.index_tokens, (given.char_budget or 4 * given.index_tokens) // 4)
        names = self.library.index(self.here).names if self._rivals else ()
        without = self._rivals.among(names[:MOST_LISTED]) if self._rivals else frozenset[str]()
        return self._index.block(self.here, tokens=tokens, without=without)

    async def block(self) -> str:
        """The list for the prompt, with what to do with it."""
        await self._compare()
        listing = self._listing
        return self._app.redact(listing.text) if listing else ""

    async def _compare(self) -> None:
        """Hold skills of others against own ones and what is remembered, where there are some."""
        if self.library is None or not self.library.on(*OTHERS):
            return
        self._rivals = await _compared.load()(self._app, self.library, who=self._options.owner)
        self.state[RIVALS] = self._rivals

    async def said(self, state: Transcript, frames: Sequence[Framed], prompt: Message | None) -> Message | None:
        """The prompt with the skills that it calls for, and the names of those that it suggests, behind it.

        `frames` are about to be stored. Raises UsageError for a skill that is called for and cannot be loaded.
        """
        if self.library is None or prompt is None:
            return prompt
        if self._rivals is None:
            await self._compare()
        frame = frames[-1] if frames else state.frame
        offered = frame is not None and any(schema.name == VIEW for schema in frame.tools)
        listing = self._listing if offered else None
        if frames and listing:
            self._expose("index", listing.shown)
        called = dict.fromkeys(self._called, "")
        typed = prompt.by is None or prompt.by.surface != PIPED
        for name, args in self.calls(prompt.text) if typed else ():
            called[name] = called.get(name) or args
        self._called = ()
        if len(called) > MOST_CALLED:
            left = ", ".join([*called][MOST_CALLED:])
            raise UsageError(f"{len(called)} skills are called for, and {MOST_CALLED} may be", next=f"leave out {left}")
        added = [await self._loaded(self.library, name, args) for name, args in called.items()]
        if listing:
            shown = {name: text for name, text in listed(state, frame).items() if name not in called}
            added += (
                Text(text=one) for one in self._suggestions(prompt.text, shown, {*called}, more=bool(listing.more))
            )
        if listing and listing.more:
            self._filling = self._app.group.create_task(self._fill(self.library))
        return structs.replace(prompt, parts=(*prompt.parts, *added)) if added else prompt

    def calls(self, text: str) -> Iterator[tuple[str, str]]:
        """The skills that a message calls for: `/name` at its beginning, one or several, and `@name` in the person's own words.

        One that came with the working folder is called by `/name` alone.
        """
        there = self.library or ()
        if (head := _SLASHES.match(text)) and all(name in there for name in _names(head[1])):
            yield from ((name, text[head.end() :].strip()) for name in _names(head[1]))
        for found in _AT.finditer(_QUOTED.sub("", text)):
            if found[1] in there and self.library and self.library.get(found[1]).root != "project":
                yield found[1], ""

    async def _loaded(self, library: "Keeper", name: str, args: str) -> Text:
        try:
            text = await library.read(name, args=args)
        except ToolError as error:
            raise UsageError(str(error), next="call for another, or none") from error
        withheld = await _learned.load()(self.state, self._env, text)
        config = "\n".join(f"{key} = {value}" for key, value in text.config.items())
        note = self._rivals.note(text.skill, text.text) if self._rivals else ""
        rows = (f"{CALLED} {name}.]", note, _missing.load()(text.skill, text.missing), withheld, config, text.text)
        taint = "none" if text.skill.root in ("user", "bundled") else "tool"  # others' words are not the person's
        return Text(text=self._app.redact("\n".join(one for one in rows if one)), taint=taint)

    def _suggestions(self, text: str, shown: Mapping[str, str], called: Set[str], *, more: bool) -> Iterator[str]:
        """The lines that name what matches in words that were not `shown` yet, where there is anything."""
        asked, most = Asked.of(text), self._app.loaded.settings.skills.suggestions
        if not (most and asked.stems and (ranked := self._ranked(text, asked, shown, limit=4 * most if more else 0))):
            return
        left_out = called | (self._rivals.among([one.name for one, _ in ranked]) if self._rivals else frozenset[str]())
        fit = [
            one
            for one, score in asked.fitting(ranked, shown)
            if score >= LEAST * ranked[0][1] and one.name not in left_out and one.root != "project"
        ][:most]
        if fit:
            fit.sort(key=lambda one: one.root in OTHERS)
            self._expose("retrieved", [one.name for one in fit])
            line = _excerpt.load()
            rows = (f"- {one.name}: {line(one.description, asked.has, LONGEST_LINE)}" for one in fit)
            yield "\n".join((SUGGESTED, *rows))

    def _ranked(
        self, text: str, asked: Asked, shown: Mapping[str, str], *, limit: int
    ) -> Sequence[tuple[Skill, float]]:
        """What may be suggested, the best match first: with no limit all are listed, and those may be whose line was cut.

        Melete's own skills say at the beginning of their descriptions what they are for: a line that was cut tells enough.
        """
        library = self.library
        if library is None:
            return ()
        if limit:
            found = library.rank(text, here=self.here, limit=limit)
            return [(one, score) for one, score in found if one.root != "bundled" or one.name not in shown]
        cut = [name for name in library.on("user", *OTHERS) if shown.get(name, "").endswith(CUT)]
        counted = [(one, float(len(asked.hits(one)))) for one in map(library.get, cut)]
        return sorted(counted, key=lambda one: -one[1])

    def _expose(self, how: str, names: Sequence[str]) -> None:
        self._exposed.append((how, [[name, "", rank, 0] for rank, name in enumerate(names, 1)]))

    async def told(self, session: Session) -> None:
        """Store what was shown and loaded in a few facts that nothing waits for; no more texts are indexed."""
        if self._filling:
            self._filling.cancel()
        if loaded := [[name, version, 0, tokens] for name, version, tokens in self.state.pop(LOADED, ())]:
            self._exposed.append(("loaded", loaded))
        exposed, self._exposed = self._exposed if self._app.then is None else [], []
        about = {"session": session.ref.id, "turn": session.transcript.seq}
        try:
            for how, rows in exposed:
                shown: dict[str, Any] = {"skills": rows}
                if how == "index" and self.library:  # the same list in most sessions: told once
                    mark = _digest.load()(repr(rows).encode())
                    shown = {"list": mark} if self.library.has_listed(mark) else {"list": mark, **shown}
                await self._app.ledger.append("skill.exposure", {**about, "how": how, **shown}, durable=False)
        except StoreError as error:  # what the run did is stored all the same
            log.warning("which skills were used was not noted: %s", error)

    async def _fill(self, library: "Keeper") -> None:
        """Index texts that are not yet, while the answer is waited for."""
        await asyncio.sleep(BEFORE)
        try:
            while await asyncio.to_thread(library.fill):
                pass
        except Exception:  # the next run goes on with it; nothing else may end for this
            log.exception("the texts of skills could not be indexed")


def _names(slashes: str) -> list[str]:
    return [word.removeprefix("/") for word in slashes.split()]
