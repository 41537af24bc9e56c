"""Claims bound to the calls of a run: verified, false, or not to be told. Layer 2, pure but for a look at named files."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from melete.agent.claim_calls import did, fits, hides, names
from melete.agent.claim_words import claims, handles
from melete.agent.results import object_of
from melete.core.claim import Checked, Claim, Verdict
from melete.core.event import Fact, ToolEnded, ToolStarted

Look = Callable[[str], Awaitable[bool | None]]
"""Whether a file is there; None where that cannot be seen."""
WRITES = frozenset({"write_file", "patch"})
RUNS: Final = frozenset({"terminal", "process", "execute_code"})
DOES = {
    "tests": "ran tests", "lint": "ran a linter", "types": "ran a type checker", "build": "built anything",
    "committed": "committed", "pushed": "pushed", "deployed": "deployed or published", "installed": "installed anything",
    "sent": "sent anything",
}  # fmt: skip
CALLS = {
    "tests": r"pytest|unittest|\b[tn]ox\b|jest|vitest|mocha|rspec|phpunit|gradle|mvn|ctest|nextest|(?<![a-z])tests?(?![a-z])"
    r"|\bcheck\b|\.ci",
    "lint": r"ruff|flake8|pylint|eslint|lint|clippy|prettier|black|\bvet\b|pre-commit|biome|style|\.ci",
    "types": r"mypy|pyright|tsc|type|\bty\b|\.ci|build",
    "build": r"build|\bc?make\b|compile|cargo|tsc|gcc|g\+\+|clang|javac|\bgo |npm|pnpm|yarn|mvn|gradle|docker|ninja",
    "committed": r"\bgit\b.*\b(?:commit|merge|cherry-pick|revert|rebase|am)\b|\bcommit\b",
    "pushed": r"\bpush\b",
    "deployed": r"deploy|publish|upload|release|rsync|s[cf][tp]p?\b|kubectl|helm|terraform|push|curl|aws|gcloud|\bgh\b|twine",
    "installed": r"install|\b(?:add|get|sync|setup|bootstrap)\b|\b[pn]*pm (?:i|ci)\b|^(?:yarn|pnpm|bundle)$|^(?:pacman|dpkg) -",
    "sent": r"send|mail|message|slack|telegram|discord|smtp|notify|curl|webhook|post|reply",
}
TELLS = {
    "tests": r"\b[1-9]\d* (?:tests? |specs? )?(?:failed|failures?|failing)\b|\b[1-9]\d* errors? in \d|\bFAILED \(|--- FAIL:",
    "lint": r"\b[1-9]\d* (?:errors?|problems?|warnings?)\b(?! \(\d+ fixed, 0)",
    "types": r"\b[1-9]\d* errors?\b",
    "build": r"\b(?:BUILD FAILED|build failed|[1-9]\d* errors?)\b",
}
"""What an output says where it failed, by kind."""
MADE = re.compile(r"\b(?:creat|writ|wrot|built|build|generat|sav|export|stor|output|reformat)\w*|->|=>", re.IGNORECASE)


class Done(Struct, frozen=True, kw_only=True):
    """A finished call: what it was asked, what came of it; `code` is an exit status, -1 where there is none."""

    tool: str
    asked: str
    arguments: dict[str, Any]
    ok: bool
    code: int = -1
    result: str = ""


def done(facts: Sequence[Fact]) -> list[Done]:
    """The finished calls of a run, calls inside calls included, in the order of their ends."""
    begun = {fact.call.id: fact.call for fact in facts if isinstance(fact, ToolStarted)}
    found: list[Done] = []
    for fact in facts:
        if not isinstance(fact, ToolEnded):
            continue
        call, result = begun.get(fact.result.call), object_of(fact.result.content)
        code = result.get("exit_code", -1)
        found.append(
            Done(
                tool=fact.result.name,
                asked=call.arguments if call else "",
                arguments=object_of(call.arguments) if call else {},
                ok=fact.outcome == "ok" and not fact.result.error,
                code=code if isinstance(code, int) else -1,
                result=fact.result.content,
            )
        )
    return found


async def check_answer(text: str, calls: Sequence[Done], look: Look) -> list[Checked]:
    """The claims of an agent's own answer, each bound to a call of its run where there is one."""
    return [await _bound(claim, calls, look) for claim in claims(text)]


async def check_report(text: str, calls: Sequence[Done], look: Look) -> list[Checked]:
    """The claims of a child's report, and all that it names that can be checked."""
    own = claims(text)
    paths = {claim.handle for claim in own if claim.handle}
    named = [claim for claim in handles(text) if claim.kind != "path" or claim.handle not in paths]
    return [await _bound(claim, calls, look) for claim in (*own, *named)]


async def _bound(claim: Claim, calls: Sequence[Done], look: Look) -> Checked:
    match claim.kind:
        case "wrote" | "removed" | "path":
            verdict, why = await _file(claim, calls, look)
        case "url" | "id":
            verdict, why = _named(claim, calls)
        case "exit":
            verdict, why = _exit(claim, calls)
        case _:
            verdict, why = _ran(claim.kind, calls)
    return Checked(claim=claim.handle or claim.words, kind=claim.kind, verdict=verdict, why=why)


def _ran(kind: str, calls: Sequence[Done]) -> tuple[Verdict, str]:
    """Bound to the last call that did such a thing."""
    pattern = re.compile(CALLS[kind], re.IGNORECASE)
    fitting = [one for one in calls if _does(one, kind, pattern)]
    if not fitting:
        return "unverifiable", f"no call of this run {DOES[kind]}"
    last = fitting[-1]
    if last.ok and last.code <= 0:
        told = _told(last, kind)
        return ("false", f"the last call that {DOES[kind]} says {told!r}") if told else ("verified", "")
    how = f"ended with exit status {last.code}" if last.code > 0 else "failed"
    return "false", f"the last call that {DOES[kind]} {how}"


def _told(call: Done, kind: str) -> str:
    """The failure that an output tells of, where the exit status may be that of another program."""
    if kind not in TELLS or call.tool == "execute_code" or not hides(_command(call)):
        return ""
    found = re.search(TELLS[kind], str(object_of(call.result).get("output", "")))
    return found.group() if found else ""


def _command(call: Done) -> str:
    """What a call ran; of a process in the background what it was begun with."""
    if call.tool == "execute_code":
        return call.asked
    return str(call.arguments.get("command") or object_of(call.result).get("command") or "")


def _does(call: Done, kind: str, pattern: re.Pattern[str]) -> bool:
    """Whether a call is of a kind: a command or code that does it, or, for messages, a tool."""
    if call.tool == "execute_code":
        return bool(pattern.search(call.asked))
    if call.tool in RUNS:
        return (call.tool != "process" or call.code >= 0) and fits(_command(call), kind, pattern)
    return kind == "sent" and call.tool not in WRITES and bool(pattern.search(call.tool))


async def _file(claim: Claim, calls: Sequence[Done], look: Look) -> tuple[Verdict, str]:
    path, gone = claim.handle, claim.kind == "removed"
    if not path:
        wrote = any(one.ok and one.code <= 0 and (one.tool in WRITES or _acts(one)) for one in calls)
        return ("verified", "") if wrote else ("unverifiable", "no call of this run wrote a file")
    there = await look(path)
    if there is None:
        return "unverifiable", "whether it is there cannot be seen from here"
    if there == gone:
        return "false", "it is still there" if gone else "it is not there"
    if claim.kind == "path" or any(_touches(one, path, wrote=not gone) for one in calls):
        return "verified", ""
    return (
        "unverifiable",
        f"it is {'not ' if gone else ''}there, but no call of this run is seen to have {'removed' if gone else 'written'} it",
    )


def _touches(call: Done, path: str, *, wrote: bool) -> bool:
    """Whether a call may have written or removed this file: a file tool that names it, or a command or code that worked."""
    if not call.ok:
        return False
    if call.tool in WRITES:
        name = str(call.arguments.get("path", ""))
        return wrote and bool(name) and (_same(name, path) or path in call.asked)
    if call.code > 0 or call.tool not in RUNS:
        return False
    if call.tool == "execute_code":
        return _last(path) in call.asked
    return names(_command(call), _last(path)) or (wrote and _acts(call) and _made(call, _last(path)))


def _acts(call: Done) -> bool:
    """Whether a call did more than to look."""
    return call.tool == "execute_code" or (call.tool in RUNS and bool(did(_command(call))))


def _made(call: Done, name: str) -> bool:
    """Whether an output says in so many words that a file of this name was made."""
    rows = str(object_of(call.result).get("output", "")).splitlines()
    return any(name in row and (MADE.search(row) or " " not in row.strip()) for row in rows)


def _same(one: str, other: str) -> bool:
    one, other = one.removeprefix("./"), other.removeprefix("./")
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def _last(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]


def _named(claim: Claim, calls: Sequence[Done]) -> tuple[Verdict, str]:
    """An address or id is known where a call that worked was given it or brought it."""
    handle, whole = claim.handle.rstrip("/"), re.compile(rf"(?<!\w){re.escape(claim.handle.rstrip('/'))}(?!\w)")
    if any(one.ok and (whole.search(one.result) or (claim.kind == "url" and handle in one.asked)) for one in calls):
        return "verified", ""
    failed = claim.kind == "url" and any(not one.ok and handle in one.asked for one in calls)
    return (
        ("false", "the call that asked for it failed")
        if failed
        else ("unverifiable", "no result of its calls names it")
    )


def _exit(claim: Claim, calls: Sequence[Done]) -> tuple[Verdict, str]:
    codes = [one.code for one in calls if one.code >= 0]
    if int(claim.handle) in codes:
        return "verified", ""
    return (
        ("false", f"its commands ended with {', '.join(map(str, sorted(set(codes))))}")
        if codes
        else ("false", "it ran no command")
    )
