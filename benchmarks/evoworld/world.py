"""The world: 24 families of work by a seed, the tasks that a person asks for, and whether what was done is right."""

import json
import random
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

from benchmarks.evoworld.words import FLAGS, ITEM, MODES, NOUNS, SITES, STEPS, VERBS, command, correction, prompt

Kind = Literal["loud", "order", "site", "silent", "none", "edited", "web"]
OF_EACH: Mapping[Kind, int] = {"loud": 9, "silent": 6, "order": 4, "site": 2, "edited": 1, "web": 1, "none": 1}
"""What the 24 families are. The one that holds no lesson is not among the eight that are asked for most."""
OFTEN = 8
NEEDS: Mapping[Kind, str] = {"order": "steps", "site": "site", "silent": "mode", "none": "nothing"}
EXPONENT = 0.8
TASKS_A_DAY = 20
DRIFTING = 4
"""So many families change in the middle."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A verb, and what is right for it before and after the middle."""

    verb: str
    noun: str
    kind: Kind
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def needs(self) -> str:
        return NEEDS.get(self.kind, "flags")

    def right(self, *, late: bool) -> tuple[str, ...]:
        return self.after if late else self.before


@dataclass(frozen=True, kw_only=True)
class Task:
    """One thing to do: its place in the whole, its session, and how often its family was asked for, itself included."""

    number: int
    session: int
    family: Family
    meeting: int
    late: bool

    @property
    def item(self) -> str:
        return f"k{self.number}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that happens by itself: the same seed and sizes give the same."""

    seed: int
    families: tuple[Family, ...]
    tasks: tuple[Task, ...]

    def family(self, kind: Kind) -> Family:
        """The most frequent family of a kind."""
        return next(one for one in self.families if one.kind == kind)

    @property
    def imported(self) -> int:
        """The number of the task from which on somebody else's skill is there: at three quarters."""
        return len(self.tasks) * 3 // 4

    @property
    def target(self) -> Family:
        """The family that this skill is about: with flags, met before, and asked for most often of those from then on."""
        before = {task.family.verb for task in self.tasks[: self.imported]}
        after = Counter(task.family.verb for task in self.tasks[self.imported :])
        loud = [one for one in self.families if one.kind == "loud"]
        return max(loud, key=lambda one: (one.verb in before, after[one.verb]))


def plan(*, seed: int, tasks: int, session: float) -> Plan:
    """Families in the order of their frequency, and tasks in sessions of this mean length; one begins in the middle."""
    chance = random.Random(f"world {seed}")
    families = _families(chance)
    weights = list(accumulate((place + 1) ** -EXPONENT for place in range(len(families))))
    met: dict[str, int] = {}
    made: list[Task] = []
    number = 0
    for place in range(tasks):
        number += bool(place) and (chance.random() < 1 / session or place == tasks // 2)
        family = chance.choices(families, cum_weights=weights)[0]
        met[family.verb] = met.get(family.verb, 0) + 1
        late = place >= tasks // 2
        made.append(Task(number=place, session=number, family=family, meeting=met[family.verb], late=late))
    return Plan(seed=seed, families=families, tasks=tuple(made))


def _families(chance: random.Random) -> tuple[Family, ...]:
    kinds: list[Kind] = [kind for kind, number in OF_EACH.items() for _ in range(number)]
    chance.shuffle(kinds)
    kinds.sort(key=lambda kind: kind == "none")
    rest = kinds[OFTEN:]
    chance.shuffle(rest)
    verbs, nouns = chance.sample(VERBS, len(VERBS)), chance.sample(NOUNS, len(NOUNS))
    changing = [kind for kind in kinds if kind in ("loud", "order", "site")]
    drifting = set(chance.sample(range(len(changing)), DRIFTING))
    made: list[Family] = []
    seen = 0
    for verb, noun, kind in zip(verbs, nouns, (*kinds[:OFTEN], *rest), strict=True):
        before = after = _right(kind, chance)
        if kind in ("loud", "order", "site"):
            while seen in drifting and after == before:
                after = _right(kind, chance)
            seen += 1
        made.append(Family(verb=verb, noun=noun, kind=kind, before=before, after=after))
    return tuple(made)


def _right(kind: Kind, chance: random.Random) -> tuple[str, ...]:
    match kind:
        case "order":
            return tuple(f"--step {step}" for step in chance.sample(STEPS, len(STEPS)))
        case "site":
            return (f"--site {chance.choice(SITES)}",)
        case "silent":
            return (*sorted(chance.sample(FLAGS, 3)), f"--mode {chance.choice(MODES)}")
        case "none":
            return ()
        case _:
            return tuple(sorted(chance.sample(FLAGS, 3)))


# ---- on the disk -----------------------------------------------------------------------------------------------------


class World:
    """The program `w` with its state in a folder, and what the person sees of it."""

    def __init__(self, folder: Path, made: Plan) -> None:
        self._folder = folder
        self._plan = made

    @property
    def program(self) -> Path:
        """The folder to put on the PATH."""
        return self._folder

    def install(self) -> None:
        """Write the program, where it is not yet."""
        self._folder.mkdir(parents=True, exist_ok=True)
        program = self._folder / "w"
        text = Path(__file__).with_name("w.py").read_text(encoding="utf-8")
        program.write_text(f"#!{sys.executable} -IS\n{text}", encoding="utf-8")
        program.chmod(0o755)
        (self._folder / "calls.jsonl").touch()

    def arrange(self, *, late: bool) -> None:
        """Make the world what it is before or after the middle."""
        busy = [task.item for task in self._plan.tasks if task.family.kind == "none" and task.number % 2]
        families = {
            one.verb: {"needs": one.needs, "right": one.right(late=late), "busy": busy} for one in self._plan.families
        }
        (self._folder / "world.json").write_text(json.dumps({"families": families}), encoding="utf-8")

    def forget(self, item: str) -> None:
        """Undo what was done with an item whose task was broken off."""
        path = self._folder / "calls.jsonl"
        kept = [line for line in path.read_text(encoding="utf-8").splitlines() if json.loads(line)["item"] != item]
        path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

    def calls(self, item: str) -> list[dict[str, Any]]:
        """What `w` was called with for an item, in order."""
        text = (self._folder / "calls.jsonl").read_text(encoding="utf-8")
        return [call for call in map(json.loads, text.splitlines()) if call["item"] == item]

    def is_right(self, item: str) -> bool:
        """Whether the last thing that was done with the item is what was wanted."""
        done = [call for call in self.calls(item) if not call["code"]]
        return bool(done) and done[-1]["right"]


def asked(task: Task, page: str) -> str:
    """The words of the task; a page is named when a family that has one is met first."""
    family = task.family
    first = family.kind == "web" and task.meeting == 1
    return prompt(family.verb, family.noun, task.item, family.needs, page if first else "")


def corrected(task: Task) -> str:
    """The words for a result that is wrong although nothing said so."""
    return correction(command(task.family.verb, task.item, task.family.right(late=task.late)))


def line_of(family: Family, *, late: bool) -> str:
    """The line that is right for any item of a family."""
    return command(family.verb, ITEM, family.right(late=late))
