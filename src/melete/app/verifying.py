"""What a run has done, looked up when an answer claims something. Part of the composition root."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import structs

from melete.agent.claim_words import claims
from melete.agent.claims import Done, check_answer, check_report, done
from melete.app.wire import Melete
from melete.core.claim import Checked
from melete.core.delegation import PROGRAM
from melete.core.errors import EnvironmentFailure, StoreError
from melete.core.event import Delegated, Fact, RunStarted
from melete.core.ports import Environment
from melete.core.session import SessionRef

DEEPEST = 4
"""Levels of children that are looked at."""


async def verify(app: Melete, ref: SessionRef, text: str, *, env: Environment, run: str) -> Sequence[Checked]:
    """The claims of an answer of a run, bound to its calls."""
    facts = [fact for fact in await app.store.facts(ref) if fact.run == run]
    return await check_answer(text, await calls_of(app, ref.owner, facts), looking(env))


async def checked(
    app: Melete, ref: SessionRef, text: str, *, facts: Sequence[Fact], env: Environment | None
) -> list[Any]:
    """What a child's report claims and names, as its parent is told of it."""
    if app.loaded.settings.verify.claims == "off":
        return []
    calls = [*await calls_of(app, ref.owner, facts), *await _written(text, facts, env)]
    found = await check_report(text, calls, looking(env))
    rows = [structs.asdict(one) for one in found]
    return [{name: app.redact(value) for name, value in row.items() if value} for row in rows]


async def calls_of(app: Melete, owner: str, facts: Sequence[Fact], *, levels: int = DEEPEST) -> list[Done]:
    """The finished calls of these facts, behind those of the children that they name."""
    found: list[Done] = []
    children = {fact.child: fact for fact in facts if isinstance(fact, Delegated)} if levels else {}
    for child in children:
        try:
            theirs = await app.store.facts(await app.store.find(child, owner=owner))
        except StoreError:
            continue
        found += await calls_of(app, owner, last_run(theirs), levels=levels - 1)
    return [*found, *done(facts)]


async def _written(text: str, facts: Sequence[Fact], env: Environment | None) -> list[Done]:
    """What a program says that it wrote and what has changed since it began, as if it had called a tool: its own are not seen.

    Only where files are this machine's, whose clock tells when they changed.
    """
    begun = next((fact for fact in facts if isinstance(fact, RunStarted)), None)
    if begun is None or begun.provider != PROGRAM or not hasattr(env, "on_host"):
        return []
    found: list[Done] = []
    for path in (claim.handle for claim in claims(text) if claim.kind == "wrote" and claim.handle):
        try:
            stat = await env.stat(path) if env else None
        except (OSError, ValueError, EnvironmentFailure):
            continue
        if stat is not None and stat.mtime >= begun.at.timestamp():
            found.append(Done(tool="write_file", asked=path, arguments={"path": path}, ok=True))
    return found


def looking(env: Environment | None) -> Callable[[str], Awaitable[bool | None]]:
    """Whether a file is there, as the agent's own environment sees it."""

    async def look(path: str) -> bool | None:
        if env is None:
            return None
        try:
            return await env.stat(path) is not None
        except (OSError, ValueError, EnvironmentFailure):
            return None

    return look


def last_run(facts: Sequence[Fact]) -> list[Fact]:
    """The facts of a session's last run."""
    run = next((fact.run for fact in reversed(facts) if isinstance(fact, RunStarted)), None)
    return [] if run is None else [fact for fact in facts if fact.run == run]
