"""What the slash commands that concern the session's files do."""

from collections.abc import Mapping

from melete.app.checkpoints import checkpoints_of, pick
from melete.app.learn_outcomes import taken_back
from melete.core.errors import UsageError
from melete.surfaces.cli.output import out
from melete.surfaces.cli.rollback_shown import checkpoint_table, restored_text
from melete.surfaces.cli.talk import Handler, Talk

FORCE, DIFF = "force", "diff"


async def _rollback(talk: Talk, rest: str) -> bool:
    conversation = talk.conversation
    app, session = conversation.app, conversation.ref.id
    checkpoints = checkpoints_of(app, conversation.env)
    if checkpoints is None:
        raise UsageError(
            f"there are no checkpoints in {conversation.env.name}",
            kept="nothing was changed",
            next="ask to have the changes taken back",
        )
    words = rest.lower().split()
    number = next((int(word) for word in words if word.isascii() and word.isdecimal()), 0)
    if wrong := [word for word in words if word not in (FORCE, DIFF, str(number))]:
        raise UsageError(
            f"{wrong[0]!r} is no number of a checkpoint", kept="nothing was changed", next="/rollback lists them"
        )
    if not number:
        rows = await checkpoints.list(session=session)
        out(checkpoint_table(rows, talk.paint, now=app.clock.now(), redact=app.redact))
        talk.say("Write /rollback N to go back, /rollback diff N to look first.")
        return False
    chosen = await pick(checkpoints, session, number=number)
    if DIFF in words:
        talk.say((await checkpoints.diff(chosen.id)).rstrip("\n") or "Nothing would change.")
        return False
    talk.say(restored_text(await checkpoints.restore(chosen.id, force=FORCE in words)).rstrip("\n"))
    await taken_back(app, conversation.ref, "its changes to files were taken back")
    return False


FILES: Mapping[str, Handler] = {"rollback": _rollback}
