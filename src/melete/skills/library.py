"""The library: every skill that can be loaded, from all shelves, as one; the reading half of the SkillLibrary port.

A name stands for one skill. Of several with one name the most trusted is taken, and the others are told as problems. Nothing is
loaded from the disk again that has not changed there.
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, overload

from melete.core.plugin import Lazy
from melete.core.ports import Ledger
from melete.core.skill import MAIN, Here, Problem, Root, Skill, fits
from melete.core.tool import ToolError
from melete.security.paths import PathRefusedError, resolve
from melete.skills.catalogue import Catalogue, Row, Stock, read_file
from melete.skills.folders import ORDER, Shelf, shelves
from melete.skills.standing import UNKNOWN, Standings

if TYPE_CHECKING:
    from melete.skills.rank import Entry, Search

_spelled: Lazy[Callable[[str], str]] = Lazy("melete.skills.format:spelled")
_near: Lazy[Callable[..., list[str]]] = Lazy("difflib:get_close_matches")
_search: "Lazy[type[Search]]" = Lazy("melete.skills.rank:Search")

ABOUT: Final = "DESCRIPTION.md"
LONGEST_PART: Final = 1_048_576
MOST_PARTS: Final = 500
KEPT: Final = 64
PACKAGED: Final = Path(__file__).with_name("bundled")
LONGEST_ABOUT: Final = 200

_Place = tuple[Stock, Row]


class Library:
    """The skills on `shelves` (an earlier one counts where two overlap), less those that are `disabled`.

    What is derived is kept below `state`. Call `refresh` to see what has changed on the disk or in the ledger; `revision` grows
    whenever something had.
    """

    def __init__(
        self, shelves_: Sequence[Shelf], *, state: Path, ledger: Ledger | None = None, disabled: Collection[str] = ()
    ) -> None:
        self.revision = 0
        self._catalogue = Catalogue(shelves(shelves_), state / "skills.snapshot")
        self._standings = Standings(ledger, state / "skills.standing")
        self._database = state / "skills.db"
        self._opened: Search | None = None
        self._disabled = frozenset(disabled)
        self._places: dict[str, _Place] = {}
        self._problems: list[Problem] = []
        self._skills: dict[str, Skill] = {}
        self._order: Sequence[str] = ()
        self._conditional: set[str] = set()
        self._lists: dict[Here, Listing] = {}

    # ---- what there is

    def refresh(self) -> bool:
        """Look at the disk and the ledger again; whether anything changed."""
        looked, told = self._catalogue.look(), self._standings.catch_up()
        if self.revision and not looked and not told:
            return False
        self.revision += 1
        self._settle()
        return True

    def all(self) -> Sequence[Skill]:
        """Every skill that can be loaded, by category and name."""
        self._ready()
        return sorted((self._skill(name) for name in self._places), key=lambda skill: (skill.category, skill.name))

    def index(self, here: Here) -> "Listing":
        """The skills that fit here, the most useful first; one is decoded when it is looked at."""
        self._ready()
        if here not in self._lists:
            names = [name for name in self._order if name not in self._conditional or self._fits(name, here)]
            if len(self._lists) >= KEPT:
                self._lists.clear()
            self._lists[here] = Listing(names, self._skill)
        return self._lists[here]

    def problems(self) -> Sequence[Problem]:
        """What looks like a skill and is not used."""
        self._ready()
        return self._problems

    def get(self, name: str) -> Skill:
        """The skill of this name, its category before it or not, or of this path; raises ToolError that names the nearest ones."""
        self._ready()
        placed = name if name in self._places else self._name_in(name.rstrip("/").removesuffix(f"/{MAIN}"))
        if placed:
            return self._skill(placed)
        category, _, last = name.strip("/").rpartition("/")
        spelled = _spelled.load()(last)
        for one in (last, spelled):
            if one in self._places:
                skill = self._skill(one)
                if not category or skill.category == category:
                    return skill
        near = _near.load()(spelled[:64], self._places, n=3)
        hint = f"the nearest are {', '.join(near)}" if near else "find one with skill_search"
        raise ToolError(f"there is no skill {name[:80]!r}: {hint}")

    def __contains__(self, name: str) -> bool:
        self._ready()
        return name in self._places

    def about(self, category: str) -> str:
        """What the person, or Melete, says of a category in its DESCRIPTION.md, in one line; empty where nothing."""
        own = [stock.shelf.path for stock in self._catalogue.stocks if stock.shelf.kind in ("user", "bundled")]
        for root in (*own, PACKAGED):
            with suppress(OSError, PathRefusedError):  # the next one may say something
                data, _ = read_file(resolve(str(root), f"{category}/{ABOUT}"), most=LONGEST_PART)
                return " ".join(data.decode("utf-8", "replace").split())[:LONGEST_ABOUT]
        return ""

    def on(self, *shelves: Root) -> Sequence[str]:
        """The names of the skills on shelves of these kinds, the most useful first."""
        self._ready()
        return [name for name in self._order if self._places[name][0].shelf.kind in shelves]

    def reward(self, name: str) -> float:
        """What came of the uses of a skill, from -1 to 1; 0 where nothing is known."""
        return self._standings.reward(name)

    def has_listed(self, mark: str) -> bool:
        """Whether the ledger tells of a list with this digest."""
        return mark in self._standings.lists()

    # ---- what is in it

    def files(self, name: str) -> Sequence[str]:
        """The paths inside a skill, SKILL.md first; links and hidden files are left out. Raises ToolError."""
        folder = self.get(name).folder
        found: list[str] = []
        for here, folders, files in os.walk(folder):
            folders[:] = sorted(one for one in folders if not one.startswith(".") and one != "__pycache__")
            inside = os.path.relpath(here, folder)
            for file in sorted(files):
                path = f"{here}/{file}"
                if not file.startswith(".") and not os.path.islink(path):  # noqa: PTH114
                    found.append(file if inside == "." else f"{inside}/{file}")
            if len(found) >= MOST_PARTS:
                break
        first = self._file(name)
        return [first, *(one for one in found[:MOST_PARTS] if one != first)]

    def text(self, name: str, part: str = "") -> str:
        """A skill's SKILL.md or one of its files, as it stands on the disk now; raises ToolError."""
        skill = self.get(name)
        part = part or self._file(skill.name)
        try:
            data, _ = read_file(resolve(skill.folder, part), most=LONGEST_PART + 1)
        except PathRefusedError as error:
            raise ToolError(f"{error.what}: name a file inside the skill {skill.name!r}") from error
        except OSError as error:
            there = ", ".join(self.files(name)[:20])
            why = (error.strerror or "it cannot be read").lower()
            raise ToolError(f"{part[:200]!r} of {skill.name!r}: {why}. There are: {there}") from error
        if len(data) > LONGEST_PART:
            raise ToolError(f"{part!r} is longer than {LONGEST_PART:,} bytes: read it in {skill.folder} with read_file")
        try:
            return data.decode().removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            raise ToolError(f"{part!r} is not text; it lies in {skill.folder}") from error

    # ---- finding

    def rank(self, query: str, *, here: Here | None = None, limit: int = 5) -> Sequence[tuple[Skill, float]]:
        """The best matches, with scores from 0 to 1.5, among those that fit `here` where it is given.

        Texts that `fill` has not indexed yet count by name and description alone.
        """
        self._ready()
        found: list[tuple[float, float, int, str]] = []
        for folder, exact in self._search().find(query):
            score = round(exact, 6)
            if len(found) >= limit and score < -found[-1][0]:
                break
            name = self._name_in(folder)
            if name and (here is None or self._fits(name, here)):
                found.append((-score, -self._standings.reward(name), -self._standings.use(name).loads, name))
        return [(self._skill(name), -score) for score, *_, name in sorted(found)[:limit]]

    def fill(self) -> bool:
        """Index the next texts, for some hundredths of a second; whether there are more. May be called in a thread."""
        self._ready()
        return self._search().fill()

    def close(self) -> None:
        """Close what is open."""
        if self._opened is not None:
            self._opened.close()

    # ---- inside

    def _ready(self) -> None:
        if not self.revision:
            self.refresh()

    def _search(self) -> "Search":
        """The index, opened when something is looked for first, with the names and descriptions of now."""
        self._opened = self._opened or _search.load()(self._database)
        self._opened.sync(self._catalogue.keys, self._catalogue.mark, self._entries)
        return self._opened

    def _file(self, name: str) -> str:
        return self._places[name][1].file

    def _name_in(self, folder: str) -> str:
        """The name of the skill in a folder; empty where there is none, or another skill has it."""
        for stock in self._catalogue.stocks:
            root = stock.shelf.path
            row = stock.rows.get("" if folder == root else folder.removeprefix(f"{root}/"))
            if row is not None and self._places.get(row.name) == (stock, row):
                return row.name
        return ""

    def _entries(self) -> "Iterator[Entry]":
        """What is to be found by searching; shadowed ones as well, for others may not shadow them."""
        for stock, row in self._catalogue.rows():
            if not row.problem:
                yield _folder(stock, row), row

    def _skill(self, name: str) -> Skill:
        found = self._skills.get(name)
        if found is None:
            found = self._skills[name] = self._judged(*self._places[name])
        return found

    def _judged(self, stock: Stock, row: Row) -> Skill:
        return self._standings.judged(row.decoded(), stock.shelf.kind, _folder(stock, row))

    def _fits(self, name: str, here: Here) -> bool:
        return self._places[name][1].always or fits(self._skill(name).conditions, here)

    def _settle(self) -> None:
        """Decide who has which name, and in which order they are shown."""
        self._skills = {}
        self._problems = [one for stock in self._catalogue.stocks for one in stock.problems]
        places: dict[str, _Place] = {}
        twice: dict[str, list[_Place]] = {}
        told = self._standings.names() | self._disabled
        for stock, row in self._catalogue.rows():
            if row.problem:
                self._problems.append(Problem(path=_path(stock, row), reason=row.problem))
            elif row.name in told and (why := self._hidden(stock, row)):
                self._problems.append(Problem(path=_path(stock, row), reason=why))
            elif row.name in places:
                twice.setdefault(row.name, [places[row.name]]).append((stock, row))
            else:
                places[row.name] = (stock, row)
        for name, several in twice.items():
            places[name] = min(several, key=self._precedence)
            for place in several:
                if place is not places[name]:
                    why = f"shadowed by {_path(*places[name])}, which has the same name"
                    self._problems.append(Problem(path=_path(*place), reason=why))
        self._places = places
        self._lists = {}
        self._conditional = {name for name, (_, row) in places.items() if not row.always}
        self._order = self._ordered(told | self._standings.used())

    def _hidden(self, stock: Stock, row: Row) -> str:
        if row.name in self._disabled:
            return "it is disabled in the settings"
        found = self._standings.of(stock.shelf.kind, row.name)
        kept = found is not None and (found.trust == 0 or found.state == "quarantined")
        return "it is in quarantine until a person has looked at it" if kept else ""

    def _precedence(self, place: _Place) -> tuple[int, int, str]:
        stock, row = place
        return -self._judged(stock, row).trust, ORDER.index(stock.shelf.kind), _path(stock, row)

    def _ordered(self, told: Set[str]) -> Sequence[str]:
        """Pinned, then what did most good, the most used, the newest; the rest by shelf and name; last what did harm.

        The same facts give the same order.
        """
        known: list[tuple[bool, float, int, str, str]] = []
        rest: dict[str, list[str]] = {kind: [] for kind in ORDER}
        for name, (stock, _) in self._places.items():
            kind = stock.shelf.kind
            if name in told:
                standing, use = self._standings.of(kind, name) or UNKNOWN, self._standings.use(name)
                since = standing.since if kind == "user" else ""
                reward = self._standings.reward(name)
                if use.loads or since or standing.pinned or reward:
                    known.append((standing.pinned, reward, use.loads, max(use.last, since), name))
                    continue
            rest[kind].append(name)
        known.sort(reverse=True)
        first = [name for pinned, reward, *_, name in known if pinned or reward >= 0]
        unknown = [name for kind in ORDER for name in sorted(rest[kind])]
        return first + unknown + [name for *_, name in known[len(first) :]]


class Listing(Sequence[Skill]):
    """Skills by name that are decoded when they are looked at."""

    def __init__(self, names: Sequence[str], decode: Callable[[str], Skill]) -> None:
        self.names = names
        self._decode = decode

    def __len__(self) -> int:
        return len(self.names)

    def without(self, names: Set[str]) -> "Listing":
        """All but those of these names."""
        return Listing([one for one in self.names if one not in names], self._decode) if names else self

    @overload
    def __getitem__(self, at: int) -> Skill: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Skill]: ...
    def __getitem__(self, at: int | slice) -> Skill | Sequence[Skill]:
        return self._decode(self.names[at]) if isinstance(at, int) else Listing(self.names[at], self._decode)


def _folder(stock: Stock, row: Row) -> str:
    return f"{stock.shelf.path}/{row.folder}" if row.folder else stock.shelf.path


def _path(stock: Stock, row: Row) -> str:
    return f"{_folder(stock, row)}/{row.file}"
