"""Whose checkpoints lie where: those of a conversation's working folder, and those of a session of the past. Composition root."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from melete.agent.checkpointing import CheckpointGuard, Kept, Turn
from melete.app.wire import Melete
from melete.core.environment import Checkpoint, Checkpoints, Environment
from melete.core.errors import UsageError
from melete.core.event import Opened, RunStarted
from melete.core.plugin import Lazy
from melete.core.session import SessionRef
from melete.core.tool import Guard

_made: Lazy[Callable[..., Checkpoints]] = Lazy("melete.environments.checkpoints:GitCheckpoints")
_store: Lazy[Callable[[Path, str], Path]] = Lazy("melete.environments.checkpoints:store_of")
_keeping: Lazy[Callable[..., Any]] = Lazy("melete.environments.checkpoints:Keeping")
_git: Lazy[Callable[..., str]] = Lazy("melete.environments.checkpoints:program")
HERE = frozenset({"local", "sandbox", "docker"})
"""Environments whose working folder is one of this machine's."""


def checkpoints_at(app: Melete, folder: str) -> Checkpoints:
    """The checkpoints of a working folder of this machine; nothing is made before the first is taken."""
    git = _git.load()(app.loaded.environ.get("PATH", ""), cwd=folder)
    home, given = app.loaded.home, app.loaded.settings.checkpoints
    return _made.load()(
        folder,
        _store.load()(home.state, folder),
        git=git,
        own=str(home.root),
        keeping=_keeping.load()(most=given.keep, megabytes=given.mb, file_megabytes=given.file_mb, days=given.days),
        now=lambda: app.clock.now().timestamp(),
    )


def checkpoint_guards(app: Melete, env: Environment, turn: Turn) -> list[Guard]:
    """The guard that makes a checkpoint before the first change of a turn; none where there can be none, nor in a child's copy."""
    wanted = app.loaded.settings.checkpoints.enabled and not getattr(env, "copied", "")
    if not wanted or not (folder := _folder(app, env)):
        return []
    kept = turn.folders.get(folder) or Kept(checkpoints=checkpoints_at(app, folder))
    turn.folders[folder] = kept
    return [CheckpointGuard(kept, turn=turn, redact=app.redact)]


def checkpoints_of(app: Melete, env: Environment) -> Checkpoints | None:
    """The checkpoints of an environment's working folder; None where its files are not this machine's, or nothing is stored."""
    folder = _folder(app, env)
    return checkpoints_at(app, folder) if folder else None


def _folder(app: Melete, env: Environment) -> str:
    """The environment's working folder on this machine; empty where it is none, or nothing is stored."""
    on_host: Callable[[str], str] | None = getattr(env, "on_host", None)
    return on_host(env.cwd) if on_host and not app.ephemeral else ""


async def checkpoints_for(app: Melete, ref: SessionRef) -> Checkpoints:
    """The checkpoints of the folder in which a stored session worked; raises UsageError where there can be none."""
    facts = await app.store.facts(ref)
    opened = next((fact for fact in facts if isinstance(fact, Opened)), None)
    ran = next((fact for fact in reversed(facts) if isinstance(fact, RunStarted)), None)
    where = (ran.env if ran else "") or "local"
    if where not in HERE:
        raise UsageError(
            f"session {ref.id} worked in {where}: its files are not on this machine",
            kept="nothing was changed",
            next="ask the session itself to take its changes back",
        )
    folder = opened.about.get("folder", opened.cwd) if opened else ""
    if not Path(folder).is_dir():
        raise UsageError(
            f"the folder of session {ref.id} is gone: {folder}", kept="nothing was changed", next="bring it back first"
        )
    return checkpoints_at(app, folder)


async def pick(checkpoints: Checkpoints, session: str, *, number: int = 1) -> Checkpoint:
    """The checkpoint of a session that is `number` turns back; raises UsageError that says how many there are."""
    found = await checkpoints.list(session=session)
    if not found:
        raise UsageError(
            f"session {session} has no checkpoint",
            kept="nothing was changed",
            next="one is made before a turn changes files",
        )
    if not 1 <= number <= len(found):
        raise UsageError(
            f"there is no checkpoint {number}",
            kept="nothing was changed",
            next=f"choose one from 1 (the latest) to {len(found)}",
        )
    return found[number - 1]
