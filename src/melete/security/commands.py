"""Shell commands judged before they run: which are forbidden, which a person must allow. Pure.

A text becomes a plan of every program that it would run (`plan.py`); rules, which are data (`rules_*.py`), are held against each.
What the plan cannot tell asks. What is forbidden stays forbidden in every mode.
"""

from collections.abc import Container, Iterable, Iterator
from functools import lru_cache
from typing import Final

from melete.core.policy import UNJUDGED, Verdict
from melete.security.inner import CUTS
from melete.security.plan import LONGEST, plan, plan_code
from melete.security.program import Plan, Program
from melete.security.reading import only_reads
from melete.security.rules import Rule, Where, fits, named
from melete.security.rules_abuse import ABUSE
from melete.security.rules_ask import ASKED_HERE
from melete.security.rules_forbid import FORBIDDEN
from melete.security.rules_tools import TOOLS
from melete.security.words import names

__all__ = ["ASKED", "FORBIDDEN", "LONGEST", "RULES", "Rule", "fitting", "judge_code", "judge_command"]

ASKED: Final[tuple[Rule, ...]] = ASKED_HERE + TOOLS + ABUSE
RULES: Final[tuple[Rule, ...]] = FORBIDDEN + ASKED
ELSEWHERE: Final = names(
    "ssh autossh mosh rsh docker docker-compose podman nerdctl kubectl oc lxc adb gcloud heroku fly flyctl vagrant machinectl k3s"
)
"""What runs a command on another machine, or on this one behind the walls."""
UNDECIDED = "undecided"
CONTAINED = "contained"


def judge_command(text: str, *, cwd: str = "", home: str = "", own: str = "", contained: bool = False) -> Verdict:
    """`forbid` for what nobody may allow, `ask` for what a person must, `allow` for the rest; the first rule decides.

    `reads` is true of what is allowed and only reads. `contained`: the command runs in a sandbox; what that makes harmless is
    allowed, with it as the reason; `own` is Melete's home. Never raises.
    """
    return judge_plan(plan(text), Where(cwd=cwd, home=home, own=own), contained=contained)


def judge_code(code: str, *, language: str = "python", contained: bool = False) -> Verdict:
    """The same for inline code: the commands that it runs are judged, and what it does itself as far as its text shows.

    Code is never taken to only read.
    """
    return judge_plan(plan_code(code, language), Where(), contained=contained)


def judge_plan(found: Plan, where: Where, *, contained: bool = False) -> Verdict:
    """The verdict about a plan: the gravest rule that fits, and, before nothing fits, what cannot be told."""
    harmless: Rule | None = None
    cut = next((why for why in found.opaque if why in CUTS), "")
    for rule, program in _candidates(found.programs):
        if cut and rule.verdict == "ask":
            break
        if rule.verdict == "ask" and contained and rule.contained and ELSEWHERE.isdisjoint(program.via):
            harmless = harmless or (rule if fits(rule, program, where) else None)
        elif fits(rule, program, where):
            return Verdict(verdict=rule.verdict, rule=rule.id, reason=rule.reason)
    if cut:
        return Verdict(verdict="ask", rule=UNJUDGED, reason=cut)
    if found.opaque:
        return Verdict(verdict="ask", rule=UNDECIDED, reason=found.opaque[0])
    if harmless is not None:
        return Verdict(rule=CONTAINED, reason=f"{harmless.reason}, but only behind walls")
    return Verdict(reads=only_reads(found))


def fitting(found: Plan, ids: Container[str]) -> Iterator[tuple[Rule, Program]]:
    """The rules of these ids that fit a program of a plan, whatever the verdict about the whole is."""
    for rule, program in _candidates(found.programs):
        if rule.id in ids and fits(rule, program, Where()):
            yield rule, program


def _candidates(programs: Iterable[Program]) -> Iterable[tuple[Rule, Program]]:
    seen = {(p.argv, p.redirects, p.stdin, p.code, p.folder): p for p in programs}.values()
    spoken = [(program, _speaking_of(program.name)) for program in seen]
    for forbidding in (True, False):
        for program, rules in spoken:
            for rule in rules:
                if (rule.verdict == "forbid") is forbidding:
                    yield rule, program


@lru_cache(maxsize=1)
def _indexed() -> tuple[dict[str, list[Rule]], list[Rule]]:
    """Rules by the names that they speak of, and those that speak of patterns."""
    exact: dict[str, list[Rule]] = {}
    patterned: list[Rule] = []
    for rule in RULES:
        if "*" in rule.programs:
            patterned.append(rule)
            continue
        for name in rule.programs.split():
            exact.setdefault(name, []).append(rule)
    return exact, patterned


@lru_cache(maxsize=2048)
def _speaking_of(name: str) -> tuple[Rule, ...]:
    exact, patterned = _indexed()
    return (
        *(rule for rule in exact.get(name, ()) if named(rule, name)),
        *(rule for rule in patterned if named(rule, name)),
    )
