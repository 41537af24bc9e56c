"""What the slash commands of the registry (app/commands.py) do in a terminal."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal

import msgspec

from melete.app.commands import commands
from melete.app.context_report import caching, report
from melete.app.learn_outcomes import judge
from melete.app.service import Conversation
from melete.core.errors import UsageError
from melete.core.plugin import Lazy
from melete.surfaces.cli.cached import cache_text
from melete.surfaces.cli.chat_compress import COMPRESS
from melete.surfaces.cli.chat_files import FILES
from melete.surfaces.cli.chat_inbox import INBOX
from melete.surfaces.cli.chat_memory import MEMORY
from melete.surfaces.cli.chat_past import PAST
from melete.surfaces.cli.chat_skills import SKILLS
from melete.surfaces.cli.output import one_line
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.render import usage_text
from melete.surfaces.cli.table import table
from melete.surfaces.cli.tables import command_table, context_table, model_table, tool_table
from melete.surfaces.cli.talk import Handler, Talk

_team: Lazy[Callable[[Conversation, Paint], Awaitable[Sequence[str]]]] = Lazy("melete.surfaces.cli.children_tree:team")
ON = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}


async def _help(talk: Talk, _: str) -> bool:
    talk.say(command_table(commands("cli"), talk.paint).rstrip("\n"))
    return False


async def _exit(talk: Talk, _: str) -> bool:
    talk.going = False
    return False


async def _retry(talk: Talk, _: str) -> bool:
    state = await talk.conversation.transcript()
    if not state.messages:
        raise UsageError("nothing was asked yet")
    last = state.messages[-1]
    if last.role == "assistant" and not last.calls:
        raise UsageError("the last run was answered", next="say what to do differently")
    return True


async def _model(talk: Talk, name: str) -> bool:
    if name:
        await talk.conversation.use_model(name)
        model = talk.conversation.model
        talk.say(f"From now on {model.provider}/{model.name} answers.")
        return False
    model = talk.conversation.model
    known = "" if model.can.known else " (assumed)"
    talk.say(f"{model.provider}/{model.name} over {model.wire}; a window of {model.can.context:,} tokens{known}")
    talk.say(model_table(talk.conversation.app.loaded, talk.paint).rstrip("\n"))
    return False


async def _status(talk: Talk, _: str) -> bool:
    conversation = talk.conversation
    state = await conversation.transcript()
    cost = f"${state.usd:.4f}" if state.usd is not None else "price unknown"
    window = conversation.model.can.context
    filled = state.last_usage.total
    rows = {
        "session": f"{conversation.ref.id} {one_line(state.title)}".strip(),
        "model": f"{conversation.model.provider}/{conversation.model.name}",
        "folder": one_line(conversation.env.cwd),
        "messages": str(len(state.messages)),
        "tokens": usage_text(state.usage),
        "cost": cost,
        "window": f"{filled:,} of {window:,} tokens ({filled / window:.0%})",
        "approvals": "given without asking (/yolo)" if conversation.options.yolo else "asked for",
    }
    talk.say(table(("", ""), list(rows.items()), talk.paint).rstrip("\n"))
    return False


async def _agents(talk: Talk, _: str) -> bool:
    for line in await _team.load()(talk.conversation, talk.paint):
        talk.say(line)
    return False


async def _context(talk: Talk, _: str) -> bool:
    talk.say(context_table(await report(talk.conversation), talk.paint).rstrip("\n"))
    if shown := cache_text(await caching(talk.conversation), talk.paint).rstrip("\n"):
        talk.say(shown)
    return False


async def _tools(talk: Talk, _: str) -> bool:
    talk.say(tool_table(talk.conversation.tools, talk.paint).rstrip("\n"))
    return False


async def _yolo(talk: Talk, word: str) -> bool:
    options = talk.conversation.options
    if word and word.lower() not in ON:
        raise UsageError(f"{word!r} is neither on nor off", next="write /yolo on or /yolo off")
    yolo = ON[word.lower()] if word else not options.yolo
    talk.conversation.options = msgspec.structs.replace(options, yolo=yolo)
    talk.say("What would be asked is approved now." if yolo else "Risky calls are asked about again.")
    return False


async def _good(talk: Talk, why: str) -> bool:
    return await _judged(talk, "good", why)


async def _bad(talk: Talk, why: str) -> bool:
    return await _judged(talk, "bad", why)


async def _judged(talk: Talk, verdict: Literal["good", "bad"], why: str) -> bool:
    await judge(talk.conversation.app, talk.conversation.ref, verdict, why=why)
    talk.say(f"Noted: the last answer was {verdict}. The model is not told; it counts for lessons.")
    return False


HANDLERS: Mapping[str, Handler] = {
    **PAST,
    **FILES,
    **COMPRESS,
    **SKILLS,
    **MEMORY,
    **INBOX,
    "good": _good,
    "bad": _bad,
    "retry": _retry,
    "status": _status,
    "agents": _agents,
    "model": _model,
    "context": _context,
    "tools": _tools,
    "yolo": _yolo,
    "help": _help,
    "exit": _exit,
}
