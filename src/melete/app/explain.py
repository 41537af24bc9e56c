"""Why a command would be allowed, asked about or forbidden, in words. Part of the composition root.

The plan and the verdicts are those of a run; nothing is started.
"""

import re
import shlex
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from melete.app.places import choose, opener_of, place_of
from melete.app.plugins import registry
from melete.app.settings import Loaded
from melete.core.environment import Environment
from melete.core.plugin import Lazy
from melete.core.policy import UNJUDGED, Verdict
from melete.core.tool import Tool
from melete.security.taint import harmless
from melete.security.visible import visible

_plan: Lazy[Callable[[str], Any]] = Lazy("melete.security.plan:plan")
_normalise: Lazy[Callable[[str], str]] = Lazy("melete.security.plan:normalise")
_Plan: Lazy[Callable[..., Any]] = Lazy("melete.security.plan:Plan")
_Where: Lazy[Callable[..., Any]] = Lazy("melete.security.rules:Where")
_judge: Lazy[Callable[..., Verdict]] = Lazy("melete.security.commands:judge_plan")
_reaches: Lazy[Callable[[str], bool]] = Lazy("melete.security.network:reaches")
_terminal: Lazy[Tool] = Lazy("melete.tools.terminal:terminal")
UNKNOWN: Final = "\0"
UNKNOWN_SHOWN: Final = "⟨?⟩"
"""In the place of what the text does not tell, such as a variable that nobody set in it."""
NEVER: Final = "Nobody can allow it: no setting, mode, flag or grant."
UNSEEN: Final = (
    "It is refused, although questions are switched off (approvals.mode: off): what is forbidden may stand in it."
)
ASKED: Final = {
    "manual": "A person is asked first; with nobody there to ask it is refused (approvals.mode: manual).",
    "smart": "A model judges it first, and asks a person unless it finds it harmless (approvals.mode: smart).",
    "off": "It runs without a question, because questions are switched off (approvals.mode: off).",
}
AFTER: Final = (
    "After text from outside was read, such as a web page, a person is asked first (approvals.after_untrusted)."
)
COVERED: Final = (
    "After text from outside was read, such as a web page, a person is asked first; one answer covers the session, without a"
    " network (approvals.after_untrusted: ask)."
)
KEPT_IN: Final = (
    "After text from outside was read, such as a web page, it has no network (approvals.after_untrusted: walls)."
)
RUNS: Final = "It runs without a question."


class Seen(Struct, frozen=True, kw_only=True):
    """One program that would run, ready to be shown; `depth` counts the programs that start it, `reads` is its literal input.

    `verdict`, `rule` and `reason` are about this program alone.
    """

    shown: str
    depth: int = 0
    via: tuple[str, ...] = ()
    folder: str = ""
    redirects: tuple[str, ...] = ()
    reads: str = ""
    code: str = ""
    language: str = ""
    verdict: str = "allow"
    rule: str = ""
    reason: str = ""


class Explanation(Struct, frozen=True, kw_only=True):
    """All that is known about a command: `read_as` where hidden characters were taken out, `opaque` what cannot be told."""

    command: str
    cwd: str
    env: str
    contained: bool
    mode: str
    read_as: str = ""
    programs: tuple[Seen, ...] = ()
    opaque: tuple[str, ...] = ()
    verdict: str
    rule: str
    reason: str
    outcome: tuple[str, ...]
    remark: str = ""


def explain(loaded: Loaded, command: str, *, cwd: str, env: str = "") -> Explanation:
    """What the command would run in this environment, and what would be done about it; raises ConfigError, EnvironmentFailure."""
    chosen = choose(loaded, env)
    place = opener_of(registry(), chosen.name)(place_of(loaded, chosen.name, cwd=cwd))
    contained, _ = _walls(place)
    where = _Where.load()(cwd=cwd, home=str(loaded.home.user or ""), own=str(loaded.home.root))
    found = _plan.load()(command)
    verdict = _judge.load()(found, where, contained=contained)

    def seen(program: Any) -> Seen:
        alone = _judge.load()(_Plan.load()(programs=(program,)), where, contained=contained)
        return Seen(
            shown=_line(program.argv),
            depth=len(program.via),
            via=program.via,
            folder=_known(program.folder),
            redirects=tuple(f"{r.operator} {_word(r.target)}" for r in program.redirects),
            reads=_known(program.stdin) if program.stdin.replace(UNKNOWN, "").strip() else "",
            code=_known(program.code),
            language=program.language,
            verdict=alone.verdict,
            rule=alone.rule,
            reason=alone.reason,
        )

    read_as = _normalise.load()(command)
    given = loaded.settings.approvals
    holds = "" if given.mode == "off" else given.after_untrusted
    return Explanation(
        command=visible(command),
        cwd=cwd,
        env=chosen.name,
        contained=contained,
        mode=given.mode,
        read_as=visible(read_as) if read_as != command else "",
        programs=tuple(dict.fromkeys(map(seen, found.programs))),
        opaque=tuple(map(visible, found.opaque)),
        verdict=verdict.verdict,
        rule=verdict.rule,
        reason=visible(verdict.reason),
        outcome=_outcome(verdict, given.mode, after=_after(place, verdict, command, holds=holds)),
        remark=chosen.remark,
    )


def _outcome(verdict: Verdict, mode: str, *, after: str) -> tuple[str, ...]:
    if verdict.verdict == "forbid":
        return (NEVER,)
    if verdict.verdict == "ask":
        return (UNSEEN if mode == "off" and verdict.rule == UNJUDGED else ASKED[mode],)
    return (RUNS, after) if after else (RUNS,)


def _after(place: Environment, verdict: Verdict, command: str, *, holds: str) -> str:
    """What text from outside would change about an allowed command; empty for nothing."""
    contained, offline = _walls(place)
    if holds in ("", "allow") or verdict.reads or harmless(_terminal.load(), contained=contained, offline=offline):
        return ""
    if not contained or not hasattr(place, "shut") or _reaches.load()(command):
        return AFTER
    return KEPT_IN if holds == "walls" else COVERED


def _walls(place: Environment) -> tuple[bool, bool]:
    """Whether an environment has walls, and no network."""
    return bool(getattr(place, "contained", False)), bool(getattr(place, "offline", False))


def _line(argv: tuple[Any, ...]) -> str:
    name, *rest = (_known(word.text) if word.glob or word.text[:1] == "(" else _word(word.text) for word in argv)
    return " ".join((name if name != "''" else UNKNOWN_SHOWN, *rest))


def _word(text: str) -> str:
    """A word as it would be typed, unknown parts marked, line breaks as escapes."""
    if "\n" in text or "\t" in text:
        escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
        return _known(f"$'{escaped}'")
    if UNKNOWN in text:
        plain = text.replace(UNKNOWN, "")
        return _known(text if not plain or re.fullmatch(r"[\w@%+=:,./~-]+", plain) else f'"{text}"')
    return _known(text if text[:1] == "~" and re.fullmatch(r"[\w@%+=:,./~-]+", text) else shlex.quote(text))


def _known(text: str) -> str:
    return visible(text).replace(visible(UNKNOWN), UNKNOWN_SHOWN)
