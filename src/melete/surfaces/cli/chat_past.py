"""What the slash commands that concern past sessions do: finding one, going on in it, forking, taking back, looking back."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from melete.app.fork import fork
from melete.app.learn_outcomes import taken_back
from melete.core.errors import UsageError
from melete.core.event import Said
from melete.core.plugin import Lazy
from melete.core.session import Query
from melete.core.steps import Step, steps
from melete.surfaces.cli.hits_shown import found_in, hits_text
from melete.surfaces.cli.one_session import title_of
from melete.surfaces.cli.output import one_line, out
from melete.surfaces.cli.paint import cut
from melete.surfaces.cli.session_view import SessionView
from melete.surfaces.cli.step_span import facts_of
from melete.surfaces.cli.tables import session_table
from melete.surfaces.cli.talk import Handler, Talk

if TYPE_CHECKING:
    from melete.app.export import Export, Form, Format
    from melete.app.insights import Insights
    from melete.surfaces.cli.paint import Paint

_export: "Lazy[type[Export]]" = Lazy("melete.app.export:Export")
_form: "Lazy[type[Form]]" = Lazy("melete.app.export:Form")
_report: "Lazy[Callable[..., Awaitable[Insights]]]" = Lazy("melete.app.insights:report")
_insights_text: "Lazy[Callable[[Insights, Paint], str]]" = Lazy("melete.surfaces.cli.insights_shown:insights_text")

FORMATS: "Mapping[str, Format]" = {".jsonl": "jsonl", ".md": "md", ".html": "html"}
DAYS = 30
LISTED = 10
HITS = 8
EACH = 3
LOOKED_BACK = 5
QUOTED = 200


async def _new(talk: Talk, _: str) -> bool:
    talk.move("")
    return False


async def _resume(talk: Talk, name: str) -> bool:
    if name:
        talk.move((await talk.conversation.app.store.find(name)).id)
        return False
    await _list(talk, LISTED)
    talk.say("Write /resume with an id or a title.")
    return False


async def _sessions(talk: Talk, rest: str) -> bool:
    await _list(talk, _number(rest, "/sessions 20") or LISTED)
    return False


async def _list(talk: Talk, most: int) -> None:
    app = talk.conversation.app
    rows = await app.store.list(limit=most)
    out(session_table(rows, talk.paint, now=app.clock.now(), redact=app.redact))


async def _title(talk: Talk, title: str) -> bool:
    conversation = talk.conversation
    if title:
        await conversation.app.store.rename(conversation.ref, title_of(title))
    talk.say(one_line((await conversation.transcript()).title) or "This session has no title yet.")
    return False


async def _search(talk: Talk, text: str) -> bool:
    if not text:
        raise UsageError("search for what?", next="write /search WORDS")
    app = talk.conversation.app
    hits = await app.store.search(Query(text=text, limit=HITS, each=EACH))
    if not hits:
        talk.say("Nothing was found.")
        return False
    out(hits_text(await found_in(app.store, hits), talk.paint, now=app.clock.now(), redact=app.redact))
    talk.say("Go on in one with /resume ID.")
    return False


async def _branch(talk: Talk, rest: str) -> bool:
    step = _number(rest, "/branch 7")
    made = await fork(talk.conversation.app, talk.conversation.ref, step=step)
    talk.say(f"Forked at step {made.step}; what came after it stays in {made.forked_from}.")
    talk.move(made.ref.id)
    return False


async def _undo(talk: Talk, _: str) -> bool:
    conversation = talk.conversation
    facts = await conversation.app.store.facts(conversation.ref)
    prompts = [fact for fact in facts if isinstance(fact, Said) and _is_prompt(fact)]
    if not prompts:
        raise UsageError("nothing was said in this session yet")
    last = prompts[-1]
    kept = sum(step.end < last.seq for step in steps(facts))
    await taken_back(conversation.app, conversation.ref, "its last turn was taken back")
    said = cut(one_line(conversation.app.redact(last.message.text)), QUOTED)
    talk.say(f"Taken back: {said or '(no text)'}; with it and its answer the session stays as {conversation.ref.id}.")
    if len(prompts) == 1 or not kept:
        talk.move("")
    else:
        talk.move((await fork(conversation.app, conversation.ref, step=kept)).ref.id)
    return False


def _is_prompt(fact: Said) -> bool:
    by = fact.message.by
    return by is None or by.kind in ("person", "import")


async def _history(talk: Talk, rest: str) -> bool:
    conversation = talk.conversation
    facts = await conversation.app.store.facts(conversation.ref)
    found: list[Step] = steps(facts)
    many = _number(rest, "/history 20") or LOOKED_BACK
    first, _ = facts_of(found, facts, first=max(1, len(found) - many + 1), last=len(found))
    view = SessionView(talk.paint, conversation.app.redact, write=out)
    view.step = sum(step.reply < first for step in found)
    for fact in facts:
        if fact.seq >= first:
            view.show(fact)
    if not found and not any(isinstance(fact, Said) for fact in facts):
        talk.say("Nothing was said in this session yet.")
    return False


async def _export_here(talk: Talk, rest: str) -> bool:
    conversation = talk.conversation
    path = Path(conversation.env.cwd) / Path(rest or f"{conversation.ref.id}.html").expanduser()
    if path.suffix not in FORMATS:
        raise UsageError(f"{path.name} names no format", next=f"end it in {', '.join(FORMATS)}")
    if path.exists():
        raise UsageError(f"{path} exists already", kept="it was not touched", next="write /export with another name")
    export = _export.load()(conversation.app, _form.load()(format=FORMATS[path.suffix]))
    await export.to_file([conversation.ref], path, force=False)
    talk.say(f"Written to {one_line(str(path))} ({export.result.bytes:,} bytes).")
    return False


async def _insights(talk: Talk, rest: str) -> bool:
    found = await _report.load()(talk.conversation.app, days=_number(rest, "/insights 30") or DAYS)
    talk.say(_insights_text.load()(found, talk.paint).rstrip("\n"))
    return False


def _number(text: str, example: str) -> int | None:
    """The number that follows a command, None where nothing does; raises UsageError."""
    if not text:
        return None
    if not text.isascii() or not text.isdecimal():
        raise UsageError(f"{text!r} is not a number", next=f"write {example}")
    return int(text)


PAST: Mapping[str, Handler] = {
    "new": _new,
    "sessions": _sessions,
    "resume": _resume,
    "title": _title,
    "search": _search,
    "history": _history,
    "branch": _branch,
    "undo": _undo,
    "export": _export_here,
    "insights": _insights,
}
