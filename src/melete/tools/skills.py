"""`skills_list`, `skill_search`, `skill_view` and `skill_manage`: skills found, loaded, and kept in order by the agent."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Literal

from msgspec import structs

from melete.core.message import Taint
from melete.core.policy import OWNED, Verdict, Whereabouts
from melete.core.ports import Applied, Change, Environment, SkillLibrary
from melete.core.skill import MAIN, PLACES, Here, Skill, SkillText
from melete.core.tool import Tool, ToolContext, ToolError, tool
from melete.tools import fuzzy
from melete.tools.known import SKILLS, TAKEN_OUT
from melete.tools.text import readable

HERE = "skills.here"
"""The key of `ToolContext.state`: what skills are judged by in this session, a `Here`."""
HANDED = "skills.variables"
"""The key of `ToolContext.state`: what gives the values of the variables that a skill names, as far as it may have them."""
RIVALS = "skills.rivals"
"""The key of `ToolContext.state`: what knows skills of others that do otherwise than own ones (`among`, `note`)."""
OTHERWISE = "from elsewhere and unproven here, where own skills or memory say otherwise; skill_view tells"
LOADED = "skills.loaded"
"""The key of `ToolContext.state`: what was loaded and is not in the ledger yet, as (name, version, tokens)."""
MOST = 100
MOST_FOUND = 20
FILLS = 20
"""How often, for a tenth of a second each, a search waits for texts that are not indexed yet."""
LONGEST_DIFF = 3_000
PREVIEW = 500
PLATFORMS: Mapping[str, Literal["linux", "macos", "windows"]] = {"darwin": "macos", "win32": "windows"}


@tool(parallel=True, limit=30_000)
async def skills_list(ctx: ToolContext, *, category: str = "") -> dict[str, Any]:
    """List the skills that fit here, or those of one category."""
    library = _library(ctx)
    fitting = library.index(_here(ctx))
    chosen = [skill for skill in fitting if within(skill.category, category)]
    shown = sorted(chosen[:MOST], key=lambda skill: (skill.category, skill.name))
    result: dict[str, Any] = {
        "success": True,
        "skills": _rows(ctx, shown),
        "categories": sorted({row["category"] for row in map(_row, fitting) if row["category"]}),
        "hint": "skill_view loads one",
    }
    if about := {
        name: told for name in result["categories"] if within(name, category) and (told := library.about(name))
    }:
        result["about"] = about
    if len(chosen) > len(shown):
        result |= {"more": len(chosen) - len(shown), "hint": "skill_search finds the others; skill_view loads one"}
    return result


@tool(parallel=True, limit=30_000)
async def skill_search(ctx: ToolContext, *, query: str, limit: int = 5) -> dict[str, Any]:
    """Find skills by what they are about; their texts are searched too."""
    library = _library(ctx)
    for _ in range(FILLS):
        if not await asyncio.to_thread(library.fill):
            break
    found = library.rank(query, here=_here(ctx), limit=min(max(limit, 1), MOST_FOUND))
    scores = {skill.name: {"score": round(score, 2)} for skill, score in found}
    rows = [row | scores[row["name"]] for row in _rows(ctx, [skill for skill, _ in found])]
    return {
        "success": True,
        "skills": rows,
        "hint": "skill_view loads one" if rows else "nothing matches; use other words",
    }


@tool(parallel=True, limit=130_000)
async def skill_view(
    ctx: ToolContext,
    *,
    name: str,
    file_path: str = "",
    args: str = "",
    task_id: str = "",  # noqa: ARG001 - as models know this tool elsewhere
) -> dict[str, Any]:
    """Load a skill by name or path, or another of its files; args fill its placeholders."""
    text = await _library(ctx).read(name, file_path, args=args)
    withheld = await learned(ctx.state, ctx.env, text)
    skill = text.skill
    extra = {
        "files": [path for path in text.files if path != text.part] if text.part == MAIN else (),
        "tags": skill.tags,
        "related": skill.related,
        "missing_hint": f"the person sets them at a terminal: melete skills setup {skill.name}" * bool(text.missing),
        "withheld": withheld,
        "config": text.config,
        "missing_variables": [structs.asdict(one) for one in text.missing],
    }
    note = ctx.state[RIVALS].note(skill, text.text) if RIVALS in ctx.state else ""
    result = {"success": True, "name": skill.name, "base_dir": text.base, **({"note": note} if note else {})}
    result |= {"content": text.text, "version": text.version}
    return result | {key: value for key, value in extra.items() if value}


async def learned(state: dict[str, Any], env: Environment, text: SkillText) -> str:
    """Remember that the model has a file of a skill before it; let commands see the variables that a loaded skill names.

    Returns what of them commands do not see although they are set, in words.
    """
    state.setdefault(SKILLS, {}).setdefault(text.skill.name, {})[text.part] = text.version
    if text.part != MAIN:
        return ""
    state.setdefault(LOADED, []).append((text.skill.name, text.version, len(text.text) // 4))
    give: Callable[[Mapping[str, str]], Awaitable[None]] | None = getattr(env, "give", None)
    values: Mapping[str, str] = state[HANDED](text) if HANDED in state else {}
    if give and values:
        await give(values)
    unset = {one.name for one in text.missing}
    names = [one.name for one in text.skill.variables if one.name not in unset and not (give and one.name in values)]
    return f"commands do not see {', '.join(names)}: a person lets them with env.passthrough" if names else ""


@tool(effect="write", limit=20_000)
async def skill_manage(
    ctx: ToolContext,
    *,
    action: Literal["create", "patch", "edit", "delete", "write_file", "remove_file"],
    name: str,
    content: str = "",
    category: str = "",
    old_string: str = "",
    new_string: str = "",
    replace_all: bool = False,
    file_path: str = "",
    file_content: str = "",
) -> dict[str, Any]:
    """Keep what you learned as a skill, or mend one that you have read.
    create, edit: content is the whole SKILL.md: `---`, name, description (what it does and when to use it), `---`, Markdown.
    patch: new_string for old_string, in SKILL.md or file_path; prefer it to edit. delete archives.
    write_file, remove_file: a file below references/, templates/, scripts/, assets/ or examples/."""
    library, overlooked = _library(ctx), ""
    name = name if action == "create" else library.get(name).name
    if action == "create":
        path, text, base = MAIN, _need(content, "content"), ""
    elif action == "patch":
        path = file_path or MAIN
        _read(ctx, name, path)
        now = await library.read(name, path)
        done = _patched(now, old_string, new_string, every=replace_all)
        text, base, overlooked = done.text, now.version, done.overlooked
    else:
        path = MAIN if action in ("edit", "delete") else _need(file_path, "file_path")
        text = {"edit": content, "write_file": file_content}.get(action)
        base = _read(ctx, name, path, new=action == "write_file" and not await _there(library, name, path))
    if text is not None and action == "edit":
        _need(text, "content")
    if text is not None and TAKEN_OUT.decode() in text and action != "patch":
        raise ToolError(
            f"the text holds {TAKEN_OUT.decode()}…], which stands in place of a secret; change other parts with patch"
        )
    applied = await library.apply(_change(ctx, Change(name=name, files={path: text}, base=base, category=category)))
    if not applied.ok:
        raise ToolError(
            applied.reason, **({"hint": "skill_view shows the text as it is now"} if applied.conflict else {})
        )
    known = ctx.state.setdefault(SKILLS, {}).setdefault(name, {})
    if text is None:
        known.pop(path, None)
    elif applied.version:  # what only waits for a person leaves the text as it was read
        known[path] = applied.version
    return _told(applied, name, overlooked)


def _told(applied: Applied, name: str, overlooked: str) -> dict[str, Any]:
    diff = applied.diff if len(applied.diff) <= LONGEST_DIFF else f"{applied.diff[:LONGEST_DIFF]}\n…"
    result = {"success": True, "name": name, "version": applied.version, "diff": readable(diff)}
    return result | {key: said for key, said in (("note", applied.reason), ("overlooked", overlooked)) if said}


def _library(ctx: ToolContext) -> SkillLibrary:
    if ctx.skills is None:
        raise ToolError("there are no skills here (skills.enabled is off)")
    return ctx.skills


def _here(ctx: ToolContext) -> Here:
    given = ctx.state.get(HERE)
    if isinstance(given, Here):
        return given
    return Here(tools=frozenset(ctx.tools), platform=PLATFORMS.get(sys.platform, "linux"), cwd=ctx.env.cwd)


def _row(skill: Skill) -> dict[str, Any]:
    if skill.root == "project":  # its own words come in when it is loaded, and scanned
        return {"name": skill.name, "description": "skill_view tells", "category": ""}
    return {"name": skill.name, "description": skill.description, "category": skill.category}


def _rows(ctx: ToolContext, skills: Sequence[Skill]) -> list[dict[str, Any]]:
    """What is told of several; last, without their own words, those of others that do otherwise than own ones."""
    last = ctx.state[RIVALS].among([skill.name for skill in skills]) if RIVALS in ctx.state else ()
    rows = [_row(skill) for skill in skills if skill.name not in last]
    return rows + [_row(skill) | {"description": OTHERWISE} for skill in skills if skill.name in last]


def within(category: str, wanted: str) -> bool:
    """Whether a category is the wanted one or lies below it; all do below none."""
    return not wanted or category == wanted or category.startswith(f"{wanted.rstrip('/')}/")


def _need(value: str, name: str) -> str:
    if not value.strip():
        raise ToolError(f"{name} is empty")
    return value


def _read(ctx: ToolContext, name: str, path: str, *, new: bool = False) -> str:
    """The version in which the model has read the file, or for a new one the skill; raises ToolError where it has not."""
    known: Mapping[str, str] = ctx.state.get(SKILLS, {}).get(name, {})
    version = known.get(path) or (known.get(MAIN) if new else None)
    if not version:
        what = name if new or path == MAIN else f"{path} of {name}"
        raise ToolError(
            f"{what} was not read since this session was opened; nothing was changed. Read it with skill_view first"
        )
    return version


async def _there(library: SkillLibrary, name: str, path: str) -> bool:
    return path in (await library.read(name)).files


def _patched(now: SkillText, old: str, new: str, *, every: bool) -> fuzzy.Replaced:
    """The text with the replacement in it; raises ToolError with what comes near."""
    if not old or old == new:
        raise ToolError("old_string is empty; use edit for the whole text" if not old else "both strings are the same")
    if place := next((one for one in PLACES if one in now.text), ""):  # what was shown in its place
        old, new = old.replace(now.base, place), new.replace(now.base, place)
    if TAKEN_OUT.decode() in new and TAKEN_OUT.decode() not in old:
        raise ToolError(f"new_string holds {TAKEN_OUT.decode()}…], which stands in place of a secret")
    try:
        return fuzzy.replace(now.text, old, new, every=every)
    except fuzzy.NotFoundError as error:
        near = {"near": readable(error.near)} if error.near else {"preview": readable(now.text[:PREVIEW])}
        raise ToolError(
            f"old_string is not in {now.part}; nothing was changed. Copy it from the text", **near
        ) from error
    except fuzzy.SeveralError as error:
        raise ToolError(
            f"old_string is {len(error.lines)} times in {now.part}; add lines round it, or set replace_all",
            lines=error.lines[:20],
        ) from error


def _change(ctx: ToolContext, change: Change) -> Change:
    """The change with where it comes from."""
    state, decision = ctx.session.transcript, ctx.decision
    taints: set[Taint] = {getattr(part, "taint", "none") for message in state.messages for part in message.parts}
    order: Sequence[Taint] = ("web", "import", "tool")
    return structs.replace(
        change,
        author="agent",
        session=ctx.session.ref.id,
        turns=(state.seq,),
        model=state.frame.model if state.frame else "",
        taint=next((one for one in order if one in taints), "none"),
        granted=decision is not None and decision.allowed and decision.rule == OWNED,
    )


class SkillTools:
    """Skills; what a person wrote is asked about before it is changed, unless `edit_user`."""

    name = "skills"

    def __init__(self, library: SkillLibrary | None = None, *, edit_user: bool = False) -> None:
        self._library = library
        self._edit_user = edit_user

    def available(self) -> bool:
        """Whether there is a library."""
        return self._library is not None

    def open(self) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """The tools; nothing has to be started or ended for them."""
        managing = structs.replace(skill_manage, judge=self._judge)
        return nullcontext((skills_list, skill_search, skill_view, managing))

    def _judge(self, arguments: Any, _: Whereabouts) -> Verdict:
        library = self._library
        if library is None or self._edit_user or arguments.action == "create":
            return Verdict()
        try:
            owner = library.get(arguments.name).owner
        except ToolError:  # the call will say so itself
            return Verdict()
        if owner != "user":
            return Verdict()
        return Verdict(verdict="ask", rule=OWNED, reason="changes a skill that the person wrote")
