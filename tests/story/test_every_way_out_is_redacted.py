"""Made-up keys that nobody configured: what a tool brings is stored without them, and nothing that leaves shows what was said."""

import asyncio
import os
from pathlib import Path

from benchmarks.injection import opened

from melete import user
from melete.app.opening import Options
from melete.app.service import open_conversation
from melete.testing import Call, Calls, Say, ScriptedModel
from tests.served import served
from tests.story.cli import melete
from tests.story.homes import configure, holders
from tests.unit.app.collector import TraceCollector

BROUGHT = "ghp_" + "k3Jd8sQ0zXw7Lm2Vb9Nc4Rt6Yp1Hf5Ga8Ue2"
SAID = "xoxb-" + "482910573846-582910473628-Qm7Zt4Kd9Xp2Lw6Vb3Nc8RyJ"
FORMS = ("jsonl", "md", "html")
READS = [
    Call("terminal", {"command": "cat key.txt"}),
    Call("terminal", {"command": "cat key.txt >&2; exit 3"}),
    Call("terminal", {"command": "seq 9000; cat key.txt; seq 9000"}),
    Call("read_file", {"path": "key.txt"}),
    Call("read_file", {"path": f"no/{BROUGHT}"}),
    Call("search_files", {"pattern": "ghp", "path": "."}),
    Call("execute_code", {"code": "print(open('key.txt').read())"}),
    Call("terminal", {"command": "cat key.txt; sleep 0.2; cat key.txt", "background": True}),
    Call("process", {"action": "wait", "session_id": "p1"}),
]


def test_what_a_tool_brings_is_stored_nowhere(tmp_path: Path, own_home: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "key.txt").write_text(f"token: {BROUGHT}\n")
    with ScriptedModel(
        [Calls([call]) for call in READS if BROUGHT not in str(call.arguments)] + [Say("Done.")]
    ) as model:
        done = melete("run", "--json", "--env", "local", "Go.", model=model, cwd=work)
        assert BROUGHT.encode() not in b"".join(request.body for request in model.requests)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("[redacted:github]") >= len(READS) - 2
    assert BROUGHT not in done.stdout + done.stderr
    assert holders(own_home, BROUGHT) == []


def test_no_way_out_shows_a_key(tmp_path: Path, own_home: Path) -> None:
    home = tmp_path / "person"
    home.mkdir()
    (home / "key.txt").write_text(f"token: {BROUGHT}\n")
    script = [Calls(READS), Say(f"It is {SAID}.", thinking=f"So {SAID}?"), Say("title"), Say("more"), Say("more")]
    with TraceCollector() as collector, ScriptedModel(script) as model:
        configure(home, telemetry={"otlp_endpoint": collector.url, "content": True})
        with served(home, model) as server:
            run = server.run(f"Look at {SAID}.")
            events = server.events(f"/v1/runs/{run['id']}/events")
            frames = repr([sent.raw for sent in events])
            pieces = "".join(sent.data.get("text", "") for sent in events if sent.event.endswith(".delta"))
            session = run["session"]
            paths = (
                f"/v1/runs/{run['id']}", "/v1/runs", "/api/sessions", f"/api/sessions/{session}",
                f"/api/sessions/{session}/messages", "/api/sessions/search?q=Look",
            )  # fmt: skip
            answers = [server.client.get(path).text for path in paths]
            exports = [server.command("sessions", "export", session, "--format", form) for form in FORMS]
            shown = [
                server.command("sessions", "show", session), server.command("sessions", "search", "Look"),
                server.command("sessions", "search", "--json", "Look"), server.command("logs"), server.command("sessions", "list"),
            ]  # fmt: skip
    traces = b"".join(collector.bodies).decode("utf-8", "replace")
    logs = "".join(path.read_text() for path in (home / ".melete" / "logs").rglob("*") if path.is_file())
    assert pieces.count("[redacted:slack]") == 2
    ways = {
        "stream": frames,
        "pieces": pieces,
        "api": "".join(answers),
        "exports": "".join(exports),
        "shown": "".join(shown),
    }
    for name, text in {**ways, "traces": traces, "logs": logs}.items():
        assert BROUGHT not in text, name
        assert SAID not in text, name
    for text in (frames, "".join(answers), "".join(exports), traces):
        assert "[redacted:slack]" in text


def test_the_rest_of_a_long_page_is_kept_without_its_keys(tmp_path: Path) -> None:
    async def main() -> list[str]:
        variables = {name: os.environ[name] for name in ("PATH", "HOME")}
        async with opened(tmp_path, model, variables) as (app, world):
            world.begin("The lighthouse keeper. " * 2_000 + f"\ntoken: {BROUGHT}\n" + "And on it goes. " * 2_000)
            async with open_conversation(app, Options(cwd=str(world.folder), env="local")) as conversation:
                await conversation.run(user("Read it."))
        return holders(tmp_path / "home", "And on it goes")

    with ScriptedModel([Call("web_extract", {"urls": ["http://lighthouse.example/page"]}), Say("Done.")]) as model:
        assert asyncio.run(main())
    assert holders(tmp_path / "home", BROUGHT) == []
    assert holders(tmp_path / "home", "[redacted:github]")


def test_logs_are_read_as_the_settings_say(own_home: Path) -> None:
    logs = configure(own_home, security={"redact": "known"}) / "logs"
    logs.mkdir()
    line = f"2026-01-01T00:00:00.000Z WARNING melete.x [-] found {BROUGHT}\n"
    (logs / "agent.log").write_text(line)
    assert BROUGHT in melete("logs").stdout
    configure(own_home)
    assert "[redacted:github]" in melete("logs").stdout
