"""`melete skills install` and `update`, from a registry on a real server: shown, agreed to, carried out, or refused."""

import hashlib
import json
from pathlib import Path

from melete.testing.server import LoopbackServer
from tests.story.cli import Terminal, melete
from tests.story.homes import configure
from tests.unit.skills.elsewhere import BETTER, EVIL, GOOD, WARY, Site

NOW, LATER = "2026-11-22T10:00:00Z", "2026-11-22T12:00:00Z"


def publish(site: Site, main: str, *, version: str = "1.0") -> None:
    """Have the registry list a skill that holds this."""
    site.pages["/greet/SKILL.md"] = main.encode()
    entry = {
        "name": "greet",
        "description": "Greets\x1b[31m people.",
        "url": "/greet/SKILL.md",
        "digest": f"sha256:{hashlib.sha256(main.encode()).hexdigest()}",
        "version": version,
    }
    site.pages["/.well-known/agent-skills/index.json"] = json.dumps({"skills": [entry]}).encode()


def test_a_skill_of_a_registry_is_found_installed_updated_and_refused(own_home: Path, tmp_path: Path) -> None:
    site = Site()
    with LoopbackServer(site) as server:
        home = configure(own_home, skills={"registries": [f"http://127.0.0.1:{server.port}"]})
        place = home / "skills/hub/greet/SKILL.md"
        publish(site, GOOD)
        found = melete("skills", "search", "--remote", "greet people", MELETE_CLOCK=NOW)
        assert (found.returncode, "greet" in found.stdout) == (0, True), found.stderr
        assert "\x1b" not in found.stdout

        unasked = melete("skills", "install", "greet", MELETE_CLOCK=NOW)
        assert unasked.returncode == 2
        assert "+1. Look." in unasked.stdout
        assert "nobody can be asked here; nothing was changed" in unasked.stderr
        assert not place.exists()
        with Terminal(["skills", "install", "greet"], more={"MELETE_CLOCK": NOW}) as terminal:
            shown = terminal.read_until("Install greet? [y/N]")
            assert "scan: safe" in shown
            assert "+2. Speak." in shown
            terminal.type("y\r")
            terminal.read_until("Installed greet, version")
            assert terminal.end() == 0
        place.write_text(GOOD.replace("Say hello.", "Say hello, and mean it."))

        publish(site, BETTER, version="1.1")
        shown = melete("skills", "update", "--dry-run", MELETE_CLOCK=LATER).stdout
        assert "would use beyond what it uses now:\n  programs: jq\n" in shown
        assert "edited by you, which is kept: SKILL.md" in shown
        assert "jq" not in place.read_text()
        done = melete("skills", "update", "--yes", MELETE_CLOCK=LATER)
        assert (done.returncode, "Updated greet" in done.stderr) == (0, True), done.stderr
        assert "and mean it" in place.read_text()
        assert "jq . x.json" in place.read_text()
        assert [row.split()[2] for row in melete("skills", "history", "greet").stdout.splitlines()[1:]]

        kept = place.read_text()
        publish(site, EVIL, version="1.2")
        refused = melete(
            "skills", "update", "greet", "--yes", "--theirs", "--accept-caution", MELETE_CLOCK="2026-11-22T14:00:00Z"
        )
        assert refused.returncode == 1
        assert "scan: dangerous" in refused.stdout
        assert "greet is not installed" in refused.stderr
        assert place.read_text() == kept


def test_what_the_scan_is_wary_of_takes_a_second_word(tmp_path: Path, own_home: Path) -> None:
    folder = tmp_path / "given/greet"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(WARY)
    place = own_home / ".melete/skills/hub/greet"
    refused = melete("skills", "install", str(folder), "--yes")
    assert (refused.returncode, place.exists()) == (1, False), refused.stderr
    assert "the scan is wary of it" in refused.stderr
    assert melete("skills", "install", str(folder), "--yes", "--accept-caution").returncode == 0
    assert place.is_dir()
    assert melete("skills", "uninstall", "greet").returncode == 0
    assert not place.exists()
    back = melete("skills", "restore", "greet")
    assert (back.returncode, "install it again" in back.stderr) == (2, True)
