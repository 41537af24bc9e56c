"""What came of each turn of a session, and of each skill and entry of memory that was before the model in it. Pure.

Credit and blame go to what was followed alone: a skill that was loaded and not followed says that finding it went wrong.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final, Literal

from msgspec import Struct, structs

from melete.core.event import Fact, Opened, Reply, RunEnded, RunStarted, Spent, Stop, ToolEnded, ToolStarted
from melete.core.message import Usage
from melete.learn.facts import Outcome, Task
from melete.learn.results import Result, fields_of, result_of
from melete.learn.signals import FOLLOWED, Call, Loaded, Signal, Signals
from melete.learn.verbs import tokens
from melete.security.words import names

EARLIER: Final = 30
"""Tasks of a class, the latest, that the median of its calls is taken from."""
CACHED: Final = 0.1
"""What a token read from a cache counts."""
PER_TOKENS: Final = 10_000
LOOKING: Final = names("skills_list skill_search skill_view skill_manage memory session_search")
"""Our own tools that look something up or keep it: no work on what was asked for."""
LOOKS: Final = names(
    "ls cat head tail less more wc stat file find grep egrep fgrep rg ag diff cmp tree du df pwd cd echo"
)
"""Programs that only look: a class of tasks is not named after them where anything else was done."""
SAID: Final = 200
"""Characters of an error by which it is known again."""
LISTED: Final = frozenset({"index", "shown"})
"""Ways of being shown that hold for every turn of a session."""
STAYING: Final = frozenset({"loaded", "pinned", "shown"})
"""Ways after which the text is before the model for the rest of a session."""
Key = tuple[Any, ...]


class Exposure(Struct, frozen=True, kw_only=True):
    """What the model had before it, by the ledger: `at` is the number of a fact of the turn in whose run it was told.

    One without a name is a whole list in the prompt, of skills or of memory, and `version` is what stands for it.
    `teaches` are the commands and options of an entry of memory;
    what a skill teaches is in the log.
    """

    target: Literal["skill", "memory"]
    name: str
    how: Literal["index", "retrieved", "loaded", "pinned", "withheld", "shown"]
    at: int
    version: str = ""
    rank: int = 0
    tokens: int = 0
    teaches: frozenset[str] = frozenset()


class Before(Struct, frozen=True, kw_only=True):
    """What the ledger says already: tasks and outcomes of this session by key, and the calls of earlier tasks by class."""

    tasks: Mapping[int, Task] = {}
    outcomes: Mapping[Key, Outcome] = {}
    calls: Mapping[str, Sequence[int]] = {}


@dataclass(kw_only=True)
class _Turn:
    """A turn while it is read."""

    seq: int
    model: str = ""
    verb: str = ""
    tried: str = ""
    """What worked last and changed something, and what was called last."""
    done: bool = False
    worked: bool = True
    corrected: bool = False
    good: bool = False
    calls: int = 0
    work: int = 0
    spent: float = 0.0
    seconds: float = 0.0
    failed: list[tuple[int, bool, bool]] = field(default_factory=list[tuple[int, bool, bool]])
    """Of each failure its number, whether it is the same as one before, and whether its verb had failed."""
    seen: set[Key] = field(default_factory=set[Key])
    used: set[str] = field(default_factory=set[str])
    skills: Mapping[str, Loaded] = field(default_factory=dict[str, Loaded])

    @property
    def kind(self) -> str:
        """The class of the task."""
        return self.verb or self.tried


def reward(*, done: bool, corrected: bool, same_error: int, calls: int, median: float, spent: int) -> float:
    """How good a turn was, in [-1, 1]; without earlier tasks of its class (`median` 0) its calls say nothing."""
    more = max(0.0, calls / median - 1) if median else 0.0
    value = done - 0.5 * corrected - 0.25 * min(1, same_error) - 0.1 * more - 0.05 * spent / PER_TOKENS
    return round(max(-1.0, min(1.0, value)), 4)


def outcomes(
    session: str, facts: Iterable[Fact], exposures: Sequence[Exposure], *, before: Before | None = None
) -> tuple[Sequence[Task], Sequence[Outcome]]:
    """What the ledger is still to be told of a session, from its whole log; a turn that goes on now is left out.

    What it has been told already comes again only where a person has judged the turn since, with the reward that it replaces.
    """
    known = before or Before()
    turns = _read(facts)
    starts = [turn.seq for turn in turns]
    placed: dict[int, list[Exposure]] = {}
    for one in exposures:
        if at := bisect_right(starts, one.at):
            placed.setdefault(starts[at - 1], []).append(one)
    calls = {name: list(found) for name, found in known.calls.items()}
    tasks, found = list[Task](), list[Outcome]()
    there, listed = dict[Key, Exposure](), dict[str, str]()
    for turn in turns:
        here = [one for one in placed.get(turn.seq, ()) if one.how not in LISTED]
        listed |= {one.target: one.version for one in placed.get(turn.seq, ()) if not one.name}
        there |= {(one.target, one.name): one for one in placed.get(turn.seq, ()) if one.name and one.how in STAYING}
        old = known.tasks.get(turn.seq)
        task = _task(session, turn, old.median if old else _median(calls.get(turn.kind, ())))
        if old is None:
            marks = {"listed": listed.get("skill", ""), "shown": listed.get("memory", "")}
            tasks.append(structs.replace(task, **marks))
            calls.setdefault(task.task, []).append(task.calls)
        elif (old.corrected, old.good) != (task.corrected, task.good):
            tasks.append(structs.replace(old, **_judged(task, old.reward)))
        carried = [one for one in there.values() if one not in here]
        for one, new in [*((one, True) for one in here), *((one, False) for one in carried)]:
            if made := _outcome(turn, task, one, new=new):
                found += _changed(made, known.outcomes.get(key_of(made)))
    return tasks, found


def key_of(one: Outcome) -> Key:
    """What makes an outcome the same as another of its session."""
    return one.turn, one.target, one.name, one.how


def _median(calls: Sequence[int]) -> float:
    return float(median(calls[-EARLIER:])) if calls else 0.0


def _judged(now: Task | Outcome, old: float) -> dict[str, Any]:
    """What a person's later words change."""
    return {"done": now.done, "corrected": now.corrected, "good": now.good, "reward": now.reward, "before": old}


def _changed(made: Outcome, old: Outcome | None) -> Sequence[Outcome]:
    """What is still to be told of an outcome."""
    if old is None:
        return (made,)
    if (old.corrected, old.good) == (made.corrected, made.good):
        return ()
    return (structs.replace(old, **_judged(made, old.reward)),)


# ---- reading ---------------------------------------------------------------------------------------------------------


def _read(facts: Iterable[Fact]) -> list[_Turn]:
    """The turns of a log; those that a fork has copied belong to the session that they come from."""
    fold, turns, model, copied, running = Signals(), dict[int, _Turn](), "", 0, False
    for fact in facts:
        call = fold.state.open.get(fact.result.call) if isinstance(fact, ToolEnded) else None
        found = fold.feed(fact)
        if isinstance(fact, Opened):
            copied = fact.copied
        if isinstance(fact, RunStarted | RunEnded):
            running = isinstance(fact, RunStarted)
            model = fact.model if isinstance(fact, RunStarted) else model
        if not fold.state.turn:
            continue
        turn = turns.setdefault(fold.state.turn, _Turn(seq=fold.state.turn, model=model))
        _told(turn, fact, call)
        turn.skills = fold.state.skills
        for signal in found:
            _signalled(turns.get(signal.turn), signal)
    over = list(turns.values())[: len(turns) - running]
    return [turn for turn in over if turn.seq > copied]


def _told(turn: _Turn, fact: Fact, call: Call | None) -> None:
    match fact:
        case RunEnded():
            turn.done = fact.stop == Stop.DONE
            turn.seconds += fact.seconds
        case Spent():
            turn.spent += _weighed(fact.usage)
        case Reply():
            turn.model = turn.model or fact.model
        case ToolStarted():
            turn.calls += 1
            turn.work += fact.call.name not in LOOKING
        case ToolEnded() if call:
            _returned(turn, call, fact)
        case _:
            pass


def _weighed(usage: Usage) -> float:
    return usage.total - (1 - CACHED) * usage.cache_read


def _returned(turn: _Turn, call: Call, fact: ToolEnded) -> None:
    result = result_of(fact, call.command)
    if result.status == "none":
        return
    turn.used |= tokens(call.command) if call.command else frozenset(call.verbs)
    if call.tool in LOOKING or not call.verbs:
        return
    turn.worked, turn.tried = result.status != "failed", call.verbs[-1]
    if result.status == "failed":
        _failed(turn, call, fact, result)
    elif done := [verb for verb in call.verbs if call.writes and verb.partition(" ")[0] not in LOOKS]:
        turn.verb = done[-1]


def _failed(turn: _Turn, call: Call, fact: ToolEnded, result: Result) -> None:
    if result.cause:  # the surroundings were to blame, whatever was before the model
        return
    said = fields_of(fact.result.content)
    words = str(said.get("error") or said.get("output") or "").strip()[-SAID:]
    way, verb = (call.verbs, result.code, words), ("", call.verbs[-1])
    turn.failed.append((fact.seq, way in turn.seen, verb in turn.seen))
    turn.seen |= {way, verb}


def _signalled(turn: _Turn | None, signal: Signal) -> None:
    """A person's verdict, in words or with a command; the last one counts."""
    if turn and signal.kind in ("corrected", "positive"):
        turn.corrected, turn.good = signal.kind == "corrected", signal.kind == "positive"


# ---- telling ---------------------------------------------------------------------------------------------------------


def _task(session: str, turn: _Turn, median: float) -> Task:
    same, again = (sum(failure[place] for failure in turn.failed) for place in (1, 2))
    made = Task(
        session=session, turn=turn.seq, task=turn.kind, done=(turn.done and turn.worked) or turn.good,
        corrected=turn.corrected, good=turn.good, errors=len(turn.failed), same_error=same, retries=again,
        calls=turn.calls, work=turn.work, median=median, spent=round(turn.spent), seconds=round(turn.seconds, 3),
        model=turn.model,
    )  # fmt: skip
    return structs.replace(made, reward=_reward(made, same))


def _followed(turn: _Turn, one: Exposure) -> tuple[float | None, int, bool]:
    """How much of it was followed, from which fact on it was there, and whether it was used in this turn."""
    if one.target == "memory":
        share = len(turn.used & one.teaches) / len(one.teaches) if one.teaches else None
        return share, turn.seq, bool(share)
    loaded = turn.skills.get(one.name) if one.how in ("loaded", "pinned") else None
    if loaded is None:
        return None, turn.seq, False
    return loaded.followed, max(turn.seq, loaded.facts[0]), loaded.turn == turn.seq


def _outcome(turn: _Turn, task: Task, one: Exposure, *, new: bool) -> Outcome | None:
    """What came of an exposure in a turn; None for one from before that was not used in it."""
    followed, behind, used = _followed(turn, one)
    if not (new or used):
        return None
    failed = [failure for failure in turn.failed if failure[0] > behind]
    same = sum(failure[1] for failure in failed)
    control = one.how == "withheld"
    return Outcome(
        session=task.session, turn=turn.seq, target=one.target, name=one.name, version=one.version, how=one.how,
        rank=one.rank, arm="control" if control else "treat", tokens=one.tokens, task=task.task, done=task.done,
        corrected=task.corrected, good=task.good, errors=len(failed), same_error=same,
        retries=sum(failure[2] for failure in failed), calls=task.calls, median=task.median, spent=task.spent,
        seconds=task.seconds, followed=None if followed is None else round(followed, 4),
        credited=not control and used and followed is not None and followed >= FOLLOWED,
        reward=_reward(task, same), model=task.model,
    )  # fmt: skip


def _reward(task: Task, same: int) -> float:
    return reward(
        done=task.done,
        corrected=task.corrected,
        same_error=same,
        calls=task.calls,
        median=task.median,
        spent=task.spent,
    )
