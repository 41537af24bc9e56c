"""What agents were attacked by through skills of others: what is installed, what it changes into, and what it is given."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

from melete.testing import Call, Calls, Say, ScriptedModel
from melete.testing.server import LoopbackServer
from tests.story.cli import lines, melete
from tests.story.homes import configure, of_type
from tests.unit.skills.elsewhere import EVIL, GOOD, Site

TOKEN = "tok-0123456789abcdef"
GREEDY = GOOD.replace("---\n", "---\nrequired_environment_variables: [{name: DEMO_TOKEN}]\n", 1)


def test_19_supply_chain_of_skills(tmp_path: Path, own_home: Path) -> None:
    """What is dangerous, leads out or is unlike its digest is not installed; what turns bad or was not agreed to gets nothing."""
    site = Site()
    with LoopbackServer(site) as server:
        home = configure(own_home, skills={"registries": [f"http://127.0.0.1:{server.port}"]})
        for name, main, digest in (("evil", EVIL, ""), ("other", GOOD, "0" * 64)):
            site.pages["/greet/SKILL.md"] = main.encode()
            entry = {"name": "greet", "description": name, "url": "/greet/SKILL.md"}
            entry["digest"] = f"sha256:{digest or hashlib.sha256(main.encode()).hexdigest()}"
            site.pages["/.well-known/agent-skills/index.json"] = json.dumps({"skills": [entry]}).encode()
            clock = f"2026-11-22T{10 + len(name)}:00:00Z"
            refused = melete("skills", "install", "greet", "--yes", "--accept-caution", MELETE_CLOCK=clock)
            assert refused.returncode != 0, name
    for number, (name, link) in enumerate((("../../user/greet/SKILL.md", ""), ("greet/SKILL.md", "/etc/passwd"))):
        refused = melete("skills", "install", str(_packed(tmp_path / f"{number}.tar.gz", name, link)), "--yes")
        assert refused.returncode != 0, name
    assert not [*(home / "skills").glob("*/**/greet")]

    given = tmp_path / "given" / "greet"
    given.mkdir(parents=True)
    (given / "SKILL.md").write_text(GOOD)
    assert melete("skills", "install", str(given), "--yes").returncode == 0
    installed = home / "skills" / "hub" / "greet" / "SKILL.md"
    for text in (GREEDY, EVIL):
        installed.write_text(text)
        calls = [Call("skill_view", {"name": "greet"}), Call("terminal", {"command": 'echo "[$DEMO_TOKEN]"'})]
        with ScriptedModel([Calls(calls[:1]), Calls(calls[1:]), Say("Done.")]) as model:
            done = melete("run", "--json", "--env", "local", "Greet.", model=model, cwd=tmp_path, DEMO_TOKEN=TOKEN)
        view, shell = of_type(lines(done.stdout), "tool.ended")
        assert "[]" in str(shell["result"]), shell
        assert TOKEN not in done.stdout
        assert (text == EVIL) is (view["outcome"] != "ok"), view


def _packed(place: Path, name: str, link: str) -> Path:
    """An archive of a good skill whose only entry has this name, or is a link there."""
    with tarfile.open(place, "w:gz") as packed:
        entry = tarfile.TarInfo(name)
        entry.size = 0 if link else len(GOOD.encode())
        entry.type, entry.linkname = (tarfile.SYMTYPE, link) if link else (tarfile.REGTYPE, "")
        packed.addfile(entry, io.BytesIO(GOOD.encode()))
    return place
