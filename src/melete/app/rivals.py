"""Skills of others that teach the commands of a home's own ones in another way. Part of the composition root.

Own ones are those of the person and the agent, and what is remembered: they proved themselves here, and what somebody else wrote
did not. Such a skill of others is not offered by itself when it is mostly about those commands, and where it is loaded a line says
what the own one says. It counts as any other once a person has pinned it. That its use did good does not count: whoever followed
what the own one says did so with this one before them.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from melete import __version__
from melete.app.memory import remembered
from melete.app.wire import Melete
from melete.core.errors import StoreError
from melete.core.memory import MemoryEntry
from melete.core.plugin import Lazy
from melete.core.skill import MAIN, OTHERS, Root, Skill
from melete.core.tool import ToolError

if TYPE_CHECKING:
    from melete.skills.library import Library

log = logging.getLogger("melete.skills")
Ways = dict[str, dict[str, str]]
"""Verbs with the ways to call them, and a line for each."""
_ways: Lazy[Callable[[str], Ways]] = Lazy("melete.learn.verbs:ways")
_way: Lazy[Callable[[str], str]] = Lazy("melete.learn.verbs:way")
_write: Lazy[Callable[[Path, bytes], bool]] = Lazy("melete.skills.catalogue:write")

OWN: Final[Root] = "user"
MEMORY: Final = "memory"
SHORT, STEM = 3, 5
"""Letters of a word that may stand for longer ones (`box` for boxes), and those that count."""
WORD: Final = re.compile(r"[^\W_]+")
MOSTLY: Final = 0.5
"""The share of its commands with which a skill of others is about those of own ones."""
MOST_OWN, MOST_SAID, LONGEST_LINE = 200, 2, 240
"""Own skills that are looked at, the most useful first; commands that a note tells, and characters of each."""


async def compared(app: Melete, library: "Library", *, who: str = "") -> "Rivals":
    """The skills of others in a library, held against own ones and what a person's agent remembers; raises nothing."""
    notes: Sequence[MemoryEntry] = ()
    if app.loaded.settings.memory.enabled:
        try:
            notes = await remembered(app).entries(who)
        except StoreError as error:  # own skills count all the same
            log.warning("what is remembered was not compared with skills of others: %s", error)
    text = "\n".join(one.text for one in notes if one.state == "active")
    memo = None if app.ephemeral else app.loaded.home.state / "skills.ways"
    return Rivals(library, remembered=text, memo=memo)


class Rivals:
    """What is against which skill of others, by the own skills of a library and what is remembered.

    What texts show is kept in the file `memo`, where there is one.
    """

    def __init__(self, library: "Library", *, remembered: str = "", memo: Path | None = None) -> None:
        self._library = library
        self._remembered = remembered
        self._memo = memo
        self._revision = 0
        self._own: dict[str, tuple[str, dict[str, str]]] | None = None
        self._others: frozenset[str] = frozenset()
        self._withheld: dict[str, bool] = {}
        self._shown: dict[str, Ways] | None = None
        self._seen: dict[str, Ways] = {}

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Those of these skills that are not offered: of others, and mostly about what own ones do otherwise."""
        self._renew()
        found = [name for name in names if name in self._others]
        for name in found:
            if name not in self._withheld:
                self._withheld[name] = self._is_withheld(self._library.get(name))
        self._keep()
        return frozenset(name for name in found if self._withheld[name])

    def note(self, skill: Skill, text: str) -> str:
        """What stands before a text of a skill that is loaded, in a line; empty where nothing is against it."""
        against = self._against(skill, text, _ways.load()(text))
        if not against:
            return ""
        said = "; ".join(
            f"{'the memory' if name == MEMORY else f'the skill {name}'} of this home says `{line[:LONGEST_LINE]}`"
            for name, line in [*against.values()][:MOST_SAID]
        )
        return f"{skill.name} comes from elsewhere and is unproven here: {said}. Where they differ, follow that."

    def _is_withheld(self, skill: Skill) -> bool:
        shown = self._of(skill)
        return len(self._against(skill, self._text(skill.name), shown)) >= MOSTLY * max(1, len(shown))

    def _against(self, skill: Skill, text: str, code: Ways) -> Mapping[str, tuple[str, str]]:
        """The verbs that a text of a skill of others shows, in its code or beside it, in a way that no own one does.

        With who says otherwise, and a line of it. A call without any option is no way of its own.
        """
        if skill.root not in OTHERS or skill.pinned or not (own := self._ours()):
            return {}
        shown = {verb: {*said} - {""} for verb, said in code.items()}
        for verb in (one for one in own if one in text):  # in the midst of a sentence too
            for found in re.finditer(rf"(?<![\w./-]){re.escape(verb)}(?![\w-])([^\n`;|&]*)", text):
                if said := _way.load()(found[1]):
                    shown.setdefault(verb, set()).add(said)
        return {
            verb: (own[verb][0], next(iter(own[verb][1].values())))
            for verb in shown
            if verb in own and shown[verb] - own[verb][1].keys()
        }

    def _ours(self) -> Mapping[str, tuple[str, dict[str, str]]]:
        """The verbs that own skills are about and the memory names, with who does first, and all ways."""
        self._renew()
        if self._own is None:
            self._own = {}
            names = [name for name in self._library.on(OWN)[:MOST_OWN] if self._library.reward(name) >= 0]
            told = [_about(skill, self._of(skill)) for skill in map(self._library.get, names)]
            for name, shown in (*zip(names, told, strict=True), (MEMORY, _ways.load()(self._remembered))):
                for verb, said in shown.items():
                    self._own.setdefault(verb, (name, {}))[1].update(said)
        return self._own

    def _renew(self) -> None:
        """Forget what was found in another state of the library."""
        if self._revision != self._library.revision:
            self._revision, self._own, self._withheld = self._library.revision, None, {}
            self._others = frozenset(self._library.on(*OTHERS))

    # ---- what a text shows, once for each

    def _of(self, skill: Skill) -> Ways:
        """What a skill shows, read anew where its file has changed."""
        try:
            status = Path(skill.folder, MAIN).stat()
        except OSError:  # its file is called otherwise
            return _ways.load()(self._text(skill.name))
        key = f"{__version__}:{skill.folder}:{status.st_mtime_ns}:{status.st_size}"
        if self._shown is None:
            self._shown = self._kept()
        shown = self._shown.get(key)
        if shown is None:
            shown = _ways.load()(self._text(skill.name))
        self._seen[key] = shown
        return shown

    def _text(self, name: str) -> str:
        with suppress(ToolError):  # what cannot be read cannot be loaded either
            return self._library.text(name)
        return ""

    def _kept(self) -> dict[str, Ways]:
        if self._memo:
            with suppress(OSError, msgspec.MsgspecError):  # what cannot be read is made anew
                return msgspec.msgpack.decode(self._memo.read_bytes(), type=dict[str, Ways])
        return {}

    def _keep(self) -> None:
        if self._memo and self._shown is not None and self._seen.keys() != self._shown.keys():
            _write.load()(self._memo, msgspec.msgpack.encode(self._seen))
            self._shown = dict(self._seen)


def _about(skill: Skill, shown: Ways) -> Ways:
    """Of what a skill shows, the verbs that its name and description name: what else it calls on its way proves nothing."""
    said = WORD.findall(f"{skill.name} {skill.description}".lower())

    def is_named(word: str) -> bool:
        return word in said or (len(word) >= SHORT and any(one.startswith(word[:STEM]) for one in said))

    return {verb: ways for verb, ways in shown.items() if all(map(is_named, WORD.findall(verb.lower()) or [""]))}
