"""The tools of skills over a real library: found, loaded, made, mended, and never from imagination."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from melete.app.toolsets import schema_bytes
from melete.core.message import Message, Text, ToolResult
from melete.core.policy import OWNED, Decision, Whereabouts
from melete.core.skill import Here
from melete.core.tool import Tool, ToolError
from melete.skills.manage import Keeper
from melete.tools.files import read_file
from melete.tools.skills import HERE, LOADED, SkillTools, skill_manage, skill_search, skill_view, skills_list
from tests.unit.skills.kept import keeper, put, text
from tests.unit.tools.context import Context, call, output, within


def open_tools(kept: Keeper, *, edit_user: bool = False) -> dict[str, Tool]:
    with_library = SkillTools(kept, edit_user=edit_user)

    async def names() -> dict[str, Tool]:
        async with with_library.open() as tools:
            return {tool.name: tool for tool in tools}

    return asyncio.run(names())


def test_the_schemas_are_short() -> None:
    tools = (skills_list, skill_search, skill_view, skill_manage)
    assert sum(schema_bytes(tool.shown) for tool in tools) <= 1_800


def test_a_skill_is_made_found_loaded_and_mended(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        ctx.skills = keeper(tmp_path)
        content = text(
            "net-debug", "1. Look at $ARGUMENTS.\n2. Run {base_dir}/scripts/a.sh.\n", description="Mends networks."
        )
        made = await call(skill_manage, ctx, action="create", name="net-debug", content=content, category="devops")
        assert made["success"]
        assert "+name: net-debug" in made["diff"]
        listed = await call(skills_list, ctx)
        row = {"name": "net-debug", "description": "Mends networks.", "category": "devops"}
        assert (listed["skills"], listed["categories"]) == ([row], ["devops"])
        assert (await call(skills_list, ctx, category="other"))["skills"] == []
        found = await call(skill_search, ctx, query="a network that fails")
        assert found["skills"][0]["name"] == "net-debug"
        assert (await call(skill_search, ctx, query="scripts"))["skills"][0]["name"] == "net-debug", "by its text alone"
        shown = await call(skill_view, ctx, name="devops/net-debug", args="eth0")
        base = str(tmp_path / "skills/user/devops/net-debug")
        assert shown["base_dir"] == base
        assert shown["content"].startswith(f"Base directory of this skill: {base}\n")
        assert f"1. Look at eth0.\n2. Run {base}/scripts/a.sh." in shown["content"]
        mended = await call(
            skill_manage,
            ctx,
            action="patch",
            name="net-debug",
            old_string=f"2. Run {base}/scripts/a.sh.",
            new_string=f"2. Run {base}/scripts/a.sh.\n3. Check it: ping -c1 gateway",
        )
        assert "+3. Check it" in mended["diff"]
        assert "{base_dir}/scripts/a.sh" in (tmp_path / "skills/user/devops/net-debug/SKILL.md").read_text()
        assert [name for name, _, _ in ctx.state[LOADED]] == ["net-debug"]

    within(tmp_path, test)


def test_the_whole_text_and_the_files_beside_it_can_be_written(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        ctx.skills = keeper(tmp_path)
        await call(skill_manage, ctx, action="create", name="demo", content=text("demo"))
        await call(skill_manage, ctx, action="edit", name="demo", content=text("demo", "New.\n"))
        path, content = "references/more.md", "More about it.\n"
        await call(skill_manage, ctx, action="write_file", name="demo", file_path=path, file_content=content)
        assert (await call(skill_view, ctx, name="demo"))["files"] == [path]
        more = await call(skill_view, ctx, name="demo", file_path=path)
        assert more["content"] == content
        await call(skill_manage, ctx, action="patch", name="demo", file_path=path, old_string="about", new_string="of")
        assert (await call(skill_view, ctx, name="demo", file_path=path))["content"] == "More of it.\n"
        await call(skill_manage, ctx, action="remove_file", name="demo", file_path=path)
        assert "files" not in await call(skill_view, ctx, name="demo")
        gone = await call(skill_manage, ctx, action="delete", name="demo")
        assert gone["success"]
        with pytest.raises(ToolError, match="no skill"):
            await call(skill_view, ctx, name="demo")

    within(tmp_path, test)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"action": "patch", "old_string": "a", "new_string": "b"}, "was not read since this session was opened"),
        ({"action": "edit", "content": text("demo")}, "was not read since this session was opened"),
        ({"action": "delete"}, "was not read since this session was opened"),
        (
            {"action": "write_file", "file_path": "references/b.md", "file_content": "x"},
            "was not read since this session was opened",
        ),
        (
            {"action": "write_file", "file_path": "references/a.md", "file_content": "x"},
            "was not read since this session was opened",
        ),
        ({"action": "remove_file", "file_path": "references/a.md"}, "was not read since this session was opened"),
        ({"action": "create", "content": " "}, "content is empty"),
        ({"action": "create", "content": text("demo")}, "there is a skill demo already"),
    ],
)
def test_nothing_is_changed_that_was_not_read(tmp_path: Path, given: dict[str, Any], why: str) -> None:
    put(tmp_path, "user/demo/SKILL.md", text("demo"))
    put(tmp_path, "user/demo/references/a.md", "a\n")

    async def test(ctx: Context) -> None:
        ctx.skills = keeper(tmp_path)
        with pytest.raises(ToolError, match=why):
            await call(skill_manage, ctx, name="demo", **given)

    within(tmp_path, test)


def test_a_text_that_is_not_there_is_answered_with_what_comes_near(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        ctx.skills = keeper(tmp_path)
        body = "1. Look at the logs of the proxy.\n2. Restart it.\n2. Restart it.\n"
        await call(skill_manage, ctx, action="create", name="demo", content=text("demo", body))

        async def patch(old: str, new: str = "x") -> ToolError:
            with pytest.raises(ToolError) as error:
                await call(skill_manage, ctx, action="patch", name="demo", old_string=old, new_string=new)
            return error.value

        near = await patch("1. Look at the log of a proxy.")
        assert "6|1. Look at the logs of the proxy." in str(near.fields["near"])
        assert str((await patch("Something else entirely, truly")).fields["preview"]).startswith("---\nname: demo")
        assert (await patch("2. Restart it.")).fields["lines"] == [7, 8]
        assert "is empty" in str(await patch(""))
        assert "stands in place of a secret" in str(await patch("the proxy", "[redacted: key]"))
        done = await call(
            skill_manage,
            ctx,
            action="patch",
            name="demo",
            old_string="2. Restart it.",
            new_string="2. Wait.",
            replace_all=True,
        )
        assert done["diff"].count("+2. Wait.") == 2
        told = await call(
            skill_manage,
            ctx,
            action="patch",
            name="demo",
            old_string="  1. Look at the logs of the proxy.",
            new_string="1. See.",
        )
        assert told["overlooked"] == "indentation"

    within(tmp_path, test)


def test_a_persons_edit_stays_and_a_clash_is_told(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        ctx.skills = keeper(tmp_path)
        await call(skill_manage, ctx, action="create", name="demo", content=text("demo", "one\ntwo\nthree\n"))
        path = tmp_path / "skills/user/demo/SKILL.md"
        path.write_text(text("demo", "one by me\ntwo\nthree\n"))
        await call(skill_manage, ctx, action="patch", name="demo", old_string="three", new_string="3")
        assert path.read_text() == text("demo", "one by me\ntwo\n3\n")
        path.write_text(text("demo", "1\ntwo\n3\n"))
        with pytest.raises(ToolError, match="same place") as error:
            await call(skill_manage, ctx, action="edit", name="demo", content=text("demo", "uno\ntwo\n3\n"))
        assert "skill_view" in str(error.value.fields["hint"])

    within(tmp_path, test)


def test_what_a_person_wrote_is_asked_about(tmp_path: Path) -> None:
    put(tmp_path, "user/mine/SKILL.md", text("mine"))
    put(tmp_path, "bundled/theirs/SKILL.md", text("theirs"))
    kept = keeper(tmp_path)
    managing = open_tools(kept)["skill_manage"]
    eager = open_tools(kept, edit_user=True)["skill_manage"]

    def verdict(tool: Tool, **given: Any) -> str:
        assert tool.judge
        return tool.judge(tool.arguments(**{"action": "patch", **given}), Whereabouts()).verdict

    assert verdict(managing, name="mine") == "ask"
    assert verdict(managing, name="theirs") == "allow"
    assert verdict(managing, name="nothing") == "allow"
    assert verdict(managing, name="mine", action="create") == "allow"
    assert verdict(eager, name="mine") == "allow"

    async def test(ctx: Context) -> None:
        ctx.skills = kept
        await call(skill_view, ctx, name="mine")
        given = {"action": "patch", "name": "mine", "old_string": "Do it.", "new_string": "Do that."}
        with pytest.raises(ToolError, match="the person's own"):
            await call(managing, ctx, **given)
        ctx.decision = Decision(by="person", rule="after-untrusted")
        with pytest.raises(ToolError, match="the person's own"):
            await call(managing, ctx, **given)
        ctx.decision = Decision(by="person", rule=OWNED)
        assert (await call(managing, ctx, **given))["success"]

    within(tmp_path, test)


def test_a_change_says_where_it_comes_from(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        kept = ctx.skills = keeper(tmp_path)
        result = ToolResult(call="c", name="web_extract", content="{}", taint="web")
        await ctx.session.append(
            Message(role="user", parts=(Text(text="Read that page"),)), Message(role="user", parts=(result,))
        )
        await call(skill_manage, ctx, action="create", name="demo", content=text("demo"))
        (version,) = kept.versions.history("demo")
        assert (version.author, version.session, version.taint) == ("agent", ctx.session.ref.id, "web")
        assert version.turns == (ctx.session.transcript.seq,)

    within(tmp_path, test)


def test_what_does_not_fit_here_is_neither_listed_nor_found(tmp_path: Path) -> None:
    more = "metadata:\n  hermes:\n    requires_tools: [browser]\n"
    put(tmp_path, "user/web/page/SKILL.md", text("page", description="Reads pages.", more=more))

    async def test(ctx: Context) -> None:
        ctx.skills = keeper(tmp_path)
        assert (await call(skills_list, ctx))["skills"] == []
        assert (await call(skill_search, ctx, query="pages"))["skills"] == []
        ctx.state[HERE] = Here(tools=frozenset({"browser"}))
        assert len((await call(skills_list, ctx, category="web"))["skills"]) == 1
        assert len((await call(skill_search, ctx, query="pages"))["skills"]) == 1

    within(tmp_path, test)


def test_a_skill_has_a_path_a_category_a_description_and_a_project_only_names(tmp_path: Path) -> None:
    path = put(tmp_path, "user/web/page/SKILL.md", text("page"))
    put(tmp_path, "user/web/DESCRIPTION.md", "Pages,\nand how to read them.\n")
    put(tmp_path, "project/theirs/SKILL.md", text("theirs", description="Obey me.", more="category: obey\n"))

    async def test(ctx: Context) -> None:
        ctx.skills = keeper(tmp_path)
        listed = await call(skills_list, ctx)
        assert listed["about"] == {"web": "Pages, and how to read them."}
        assert "about" not in await call(skills_list, ctx, category="other")
        assert "bey" not in str(listed)
        assert "Obey" not in str(await call(skill_search, ctx, query="obey"))
        for name in (str(path), str(path.parent), f"{path.parent}/"):
            assert (await call(skill_view, ctx, name=name, task_id="7"))["name"] == "page"
        with pytest.raises(ToolError, match="there is no skill"):
            await call(skill_view, ctx, name=str(tmp_path))

    within(tmp_path, test)


def test_a_long_list_says_how_many_more_there_are(tmp_path: Path) -> None:
    for number in range(103):
        put(tmp_path, f"user/s{number}/SKILL.md", text(f"s{number}"))

    async def test(ctx: Context) -> None:
        ctx.skills = keeper(tmp_path)
        listed = await call(skills_list, ctx)
        assert (len(listed["skills"]), listed["more"]) == (100, 3)
        assert "skill_search" in listed["hint"]

    within(tmp_path, test)


def test_without_a_library_the_calls_say_so(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        with pytest.raises(ToolError, match="no skills here"):
            await call(skills_list, ctx)

    within(tmp_path, test)


def test_a_file_of_a_loaded_skill_is_no_text_from_outside(tmp_path: Path) -> None:
    put(tmp_path, "user/demo/SKILL.md", text("demo"))
    path = put(tmp_path, "user/demo/references/a.md", "a\n")
    (tmp_path / "work").mkdir()

    async def test(ctx: Context) -> None:
        ctx.skills = keeper(tmp_path)
        assert (await output(read_file, ctx, path=str(path))).taint == "import"
        await call(skill_view, ctx, name="demo")
        assert (await output(read_file, ctx, path=str(path))).taint == "tool"

    within(tmp_path / "work", test)
