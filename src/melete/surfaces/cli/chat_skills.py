"""What /skills and /learn do in a chat."""

from collections.abc import Mapping

from msgspec import structs

from melete.app.skill_draft import draft, keep, material
from melete.app.skill_shelf import escaped
from melete.core.errors import MeleteError, UsageError
from melete.core.tool import ToolError
from melete.surfaces.cli.skills_new import told
from melete.surfaces.cli.table import table
from melete.surfaces.cli.talk import Handler, Talk

FOUND = 10
YES = frozenset({"y", "yes"})


async def _skills(talk: Talk, words: str) -> bool:
    skills = talk.conversation.skills
    if skills.library is None:
        raise UsageError("skills are off (skills.enabled)")
    if words:
        while skills.library.fill():
            pass
        rows = [skill for skill, _ in skills.library.rank(words, here=skills.here, limit=FOUND)]
    else:
        rows = sorted(skills.library.index(skills.here), key=lambda skill: (skill.category, skill.name))
    if not rows:
        talk.say("No skill fits.")
        return False
    cells = [(f"/{skill.name}", skill.category or "-", skill.description) for skill in rows]
    talk.say(table(("SKILL", "CATEGORY", "WHAT IT IS FOR"), cells, talk.paint).rstrip("\n"))
    return False


async def _learn(talk: Talk, about: str) -> bool:
    app, ref = talk.conversation.app, talk.conversation.ref
    if app.ephemeral:
        raise UsageError("nothing is stored in this session, and skills are not either")
    if talk.conversation.skills.library is None:
        raise UsageError("skills are off (skills.enabled)")
    try:
        made = await draft(app, structs.replace(await material(app, ref.id), what="this session"), about=about)
        talk.say(f"{escaped(made.text)}\n{told(made, talk.paint)}".rstrip("\n"))
        if made.complaint:
            raise MeleteError("the draft cannot be kept", kept="nothing was kept", next="/learn tries once more")
        if (await talk.ask(f"Keep it as {made.name}? [y/N] ")).strip().lower() not in YES:
            talk.say("Nothing was kept.")
            return False
        kept = await keep(app, made)
    except ToolError as error:
        raise UsageError(str(error), kept="nothing was kept") from error
    talk.say(
        f"{made.name} is kept, on trial; /{made.name} calls it." if kept.ok else f"Nothing was kept: {kept.reason}"
    )
    return False


SKILLS: Mapping[str, Handler] = {"skills": _skills, "learn": _learn}
