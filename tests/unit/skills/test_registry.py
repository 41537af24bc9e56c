"""Indexes of skills on a real server: searched, kept, verified, and never trusted with where they lead."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from melete.core.errors import MeleteError
from melete.core.tool import ToolError
from melete.skills.registry import read_index
from tests.unit.skills.elsewhere import BETTER, GOOD, Home, Site, home, run, site
from tests.unit.skills.kept import text

__all__ = ["home", "site"]


def index(*rows: Mapping[str, Any]) -> bytes:
    return json.dumps({"skills": rows}).encode()


def test_a_registry_is_searched_kept_for_an_hour_and_used_when_it_is_away(tmp_path: Path, site: Site) -> None:
    path = "/.well-known/agent-skills/index.json"
    row = {"name": "greet", "description": "Says hello to a visitor.", "url": "greet/SKILL.md", "version": "1.2"}
    digest = f"sha256:{hashlib.sha256(GOOD.encode()).hexdigest()}"
    wrong = [{"name": "Bad Name", "url": "x"}, {"name": "leads-out", "url": "file:///etc/passwd"}, "no entry", {}]
    others = [{"name": f"other-{n}", "description": "Something else.", "url": f"{n}.zip"} for n in range(5)]
    site.pages[path] = json.dumps({"skills": [*others, {**row, "digest": digest}, *wrong]}).encode()
    site.pages["/.well-known/agent-skills/greet/SKILL.md"] = GOOD.encode()
    home = Home(tmp_path / "home", own=site.url, urls=(site.url,))

    found = run(home.hub.search("how to greet a visitor"))
    assert [one.name for one in found] == ["greet"]
    assert found[0].version == "1.2"
    assert len(run(home.hub.search("", limit=3))) == 3
    assert site.asked == [path]

    home.install("greet")
    assert home.main.read_text() == GOOD
    assert home.hub.installed()["greet"].source == f"greet@{site.url}{path}"

    site.pages["/.well-known/agent-skills/greet/SKILL.md"] = BETTER.encode()
    with pytest.raises(ToolError, match="not what the index lists"):
        run(home.hub.update("greet"))
    home.clock.advance(3_601)
    site.pages[path] = index({**row, "sha256": hashlib.sha256(BETTER.encode()).hexdigest()})
    home.update()
    assert home.main.read_text() == BETTER

    del site.pages[path]
    home.clock.advance(3_601)
    assert [one.name for one in run(home.hub.search("greet"))] == ["greet"]
    with pytest.raises(ToolError, match="no skill 'absent'"):
        run(home.hub.offer("absent"))


def test_an_index_of_the_older_kind_lists_files(home: Home, site: Site) -> None:
    site.pages["/.well-known/skills/index.json"] = index(
        {"name": "greet", "description": "Says hello.", "files": ["SKILL.md", "references/more.md"]}
    )
    site.pages["/.well-known/skills/greet/SKILL.md"] = GOOD.encode()
    site.pages["/.well-known/skills/greet/references/more.md"] = b"More.\n"
    home.install(site.url)
    assert (home.main.parent / "references" / "more.md").read_text() == "More.\n"
    for name, files, why in (
        ("a", ["SKILL.md", "../../x"], "leads out"),
        ("b", ["SKILL.md", "scripts/.x.sh"], "hidden or listed twice"),
        ("c", ["SKILL.md", "scripts/__pycache__/x.py"], "hidden or listed twice"),
        ("d", ["SKILL.md", "Skill.md"], "hidden or listed twice"),
    ):
        site.pages[f"/{name}/index.json"] = index({"name": "greet", "files": files})
        site.pages[f"/{name}/greet/SKILL.md"] = GOOD.encode()
        with pytest.raises((MeleteError, ToolError), match=why):
            run(home.hub.offer(f"greet@{site.url}/{name}/index.json"))


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"name": "kinder", "url": "/greet.md"}, "the name there is 'kinder', and the skill's own is 'greet'"),
        (
            {"name": "greet", "url": "/greet.md", "version": "9"},
            "the version there is '9', and the skill's own is '1.2'",
        ),
        ({"name": "greet", "files": ["SKILL.md"], "digest": "0" * 64}, "no single file"),
        ({"name": "greet", "url": "https://example.com/greet.git", "digest": "0" * 64}, "no single file"),
    ],
)
def test_an_entry_is_held_to_what_it_says(home: Home, site: Site, row: Mapping[str, Any], why: str) -> None:
    site.pages["/.well-known/skills/index.json"] = index(row)
    site.pages["/greet.md"] = text("greet", more="version: '1.2'\n").encode()
    with pytest.raises(ToolError, match=why):
        run(home.hub.offer(site.url))


def test_a_site_with_several_skills_asks_which(home: Home, site: Site) -> None:
    rows = [{"name": name, "url": f"{name}.md"} for name in ("one", "two")]
    site.pages["/.well-known/skills/index.json"] = index(*rows)
    with pytest.raises(ToolError, match=r"NAME@.*: one, two"):
        run(home.hub.offer(site.url))


def test_a_registry_that_is_none_is_told(tmp_path: Path, site: Site) -> None:
    home = Home(tmp_path / "home", own=site.url, urls=(site.url,))
    with pytest.raises(ToolError, match="has no index"):
        run(home.hub.search("greet"))
    for wrong in (b"{", b"[" * 100_000, b"7", b'{"skills": 7}', b"\xff"):
        with pytest.raises(ToolError, match="no index of skills"):
            read_index(wrong, "https://example.com/index.json")


def test_entries_of_a_safe_index_lead_to_safe_places_only() -> None:
    rows = [
        {"name": "plain", "url": "http://example.com/a.md"},
        {"name": "local", "url": "/etc/passwd"},
        {"name": "shell", "url": "ssh://example.com/a.git"},
        {"name": "short", "url": "a.md", "digest": "sha256:12"},
        {"name": "named", "url": "a.md", "description": "Two\nlines\x1b[31m\u202e"},
    ]
    found = read_index(json.dumps({"skills": rows}).encode(), "https://example.com/x/index.json")
    assert [(one.name, one.url) for one in found] == [
        ("local", "https://example.com/etc/passwd"),
        ("named", "https://example.com/x/a.md"),
    ]
    assert found[1].description == "Two lines[31m"
