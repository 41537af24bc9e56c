"""Limits, budgets and verdicts. Layer 0. (`Guard`, which needs the tool's words, stands in core/tool.py.)"""

from collections.abc import Iterator
from typing import Final, Literal, Protocol

from msgspec import Struct

from melete.core.message import Usage


class Step(Struct, frozen=True, kw_only=True):
    """One pass of the loop; `grace` marks the last: the model answers, tools stay in the request but may not be called."""

    number: int
    grace: bool = False


class Limits(Struct, frozen=True, kw_only=True):
    """How far a run may go: model calls, seconds of wall time, and what guards against loops."""

    max_steps: int = 90
    seconds: float = 4 * 3600
    loop_guard: bool = True

    def steps(self) -> Iterator[Step]:
        """`max_steps` passes, then the grace call."""
        for number in range(1, self.max_steps + 1):
            yield Step(number=number)
        yield Step(number=self.max_steps + 1, grace=True)


class Allowance(Struct, frozen=True, kw_only=True):
    """The most that may be spent; None is no limit."""

    usd: float | None = None
    tokens: int | None = None


class Budget(Protocol):
    """What a run, and the day, may still spend. Reserve before dispatch, settle after it."""

    async def reserve(self, *, tokens: int, usd: float | None, most: Allowance | None = None) -> str:
        """Set aside what a request is expected to cost and return the reservation's id; raises LimitError naming the limit.

        `most` is the worst that it can cost.
        """
        ...

    async def settle(self, reservation: str, *, usage: Usage, usd: float | None) -> None:
        """Replace a reservation by what was used; a failed request settles with zero usage."""
        ...

    def left(self) -> Allowance:
        """What the run may still spend."""
        ...


UNJUDGED: Final = "unjudged"
"""The rule of what was too much to be looked at whole: it may hold what is forbidden, so it passes only if a person says so."""

OWNED: Final = "skills.owned"
"""The rule of what a person wrote and the agent would change: no model says yes in the person's place."""


class Verdict(Struct, frozen=True, kw_only=True):
    """A judgement about a command, path, address or text: the rule that decided, and why.

    `reads` says of what is allowed that it changes nothing and sends nothing, so that it may follow any text; `sends` that it
    names what reaches a network.
    """

    verdict: Literal["allow", "ask", "forbid"] = "allow"
    rule: str = ""
    reason: str = ""
    reads: bool = False
    sends: bool = False


class Whereabouts(Struct, frozen=True, kw_only=True):
    """What a judge has to know beside the arguments: the folder, the person's own one, Melete's, and whether walls are round it."""

    cwd: str = ""
    home: str = ""
    own: str = ""
    contained: bool = False


Scope = Literal["once", "session", "always"]


class Decision(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a call that could not just pass may run, or, without `allowed`, may not.

    `by` a person, an earlier grant, the judging model, the mode `off`; a refusal also by a rule of the policy alone, or by nobody:
    there was none to ask, or none answered in time. `digest` stands for all that was decided about: arguments, folder, scripts,
    variables. `who` answered, `rule` had asked.
    """

    by: Literal["person", "grant", "smart", "off", "policy", "nobody"]
    allowed: bool = True
    rule: str = ""
    scope: Scope = "once"
    digest: str = ""
    who: str = ""


class Grant(Struct, frozen=True, kw_only=True):
    """A yes that lasts: `digest` is all that it covers, the rest is for people who list it."""

    digest: str
    tool: str
    shown: str
    cwd: str = ""
    rule: str = ""
    who: str = ""
    at: str = ""


class Grants(Protocol):
    """The yeses that outlive a session. Both methods raise StorageError for a file that cannot be read or understood."""

    async def holds(self, digest: str) -> bool:
        """Whether this was granted."""
        ...

    async def add(self, grant: Grant) -> None:
        """Keep a grant, on the disk when this returns."""
        ...
