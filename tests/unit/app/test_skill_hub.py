"""Bundled skills and those of others, as the whole program has them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.unit.skills.elsewhere import GOOD, WARY, Site, folder, site
from tests.unit.skills.test_registry import index

from melete.app.bundled import bundled, start
from melete.app.settings import load
from melete.app.skill_hub import hub
from melete.app.skills import library
from melete.app.wire import Melete, open_melete
from melete.core.tool import ToolError

__all__ = ["site"]
INDEX = "/.well-known/agent-skills/index.json"


def within(
    home: Path, test: Callable[[Melete], Awaitable[None]], *, settings: str = "", ephemeral: bool = False
) -> None:
    async def main() -> None:
        home.mkdir(exist_ok=True)
        (home / "config.yaml").write_text(settings)
        async with open_melete(load(environ={"MELETE_HOME": str(home)}), ephemeral=ephemeral) as app:
            await test(app)

    asyncio.run(main())


def test_a_named_registry_may_be_on_this_machine_and_nothing_else_may(tmp_path: Path, site: Site) -> None:
    site.pages[INDEX] = index({"name": "greet", "description": "Says hello.", "url": "greet.md"})
    site.pages["/.well-known/agent-skills/greet.md"] = GOOD.encode()

    async def named(app: Melete) -> None:
        assert [one.name for one in await hub(app).search("hello")] == ["greet"]
        await hub(app).install(await hub(app).offer("greet"))
        assert (await library(app).read("greet")).text == GOOD

    async def unnamed(app: Melete) -> None:
        with pytest.raises(ToolError, match="may not be fetched"):
            await hub(app).offer(f"greet@{site.url}")

    within(tmp_path / "named", named, settings=f"skills: {{bundled: false, registries: ['{site.url}']}}")
    within(tmp_path / "unnamed", unnamed, settings="skills: {bundled: false}")


def test_what_a_person_accepted_is_loaded_until_it_says_more(tmp_path: Path) -> None:
    async def test(app: Melete) -> None:
        keeper, source = library(app), str(folder(tmp_path, WARY))
        made = await hub(app).install(await hub(app).offer(source), caution=True)
        main = Path(keeper.get("greet").folder, "SKILL.md")
        assert (await keeper.read("greet")).version == made.version
        main.write_text(WARY + "\nThen say hello.\n")
        assert (await keeper.read("greet")).version != made.version
        main.write_text(WARY.replace("example.com", "other.example"))
        with pytest.raises(ToolError, match="not loaded"):
            await keeper.read("greet")

    within(tmp_path / "home", test, settings="skills: {bundled: false}")


def test_the_bundled_set_is_copied_where_it_is_wanted_and_anything_may_be_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def there(app: Melete) -> None:
        skill = library(app).get("making-a-skill")
        assert (skill.root, skill.owner, skill.trust) == ("bundled", "bundled", 4)
        assert bundled(app.loaded).modified() == []

    async def absent(app: Melete) -> None:
        assert "making-a-skill" not in library(app)

    within(tmp_path / "home", there)
    within(tmp_path / "off", absent, settings="skills: {bundled: false}")
    within(tmp_path / "ephemeral", absent, ephemeral=True)

    async def blocked(app: Melete) -> None:
        (tmp_path / "blocked" / "skills").write_text("a file")
        start(app)
        assert "bundled" in caplog.text

    within(tmp_path / "blocked", blocked)
