"""`melete sessions prune`: what would go is shown with its reason, somebody agrees, and exactly that goes."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from melete.core.event import Opened, RunEnded, RunStarted, Said
from melete.core.message import user
from melete.store import open_store
from melete.testing import ScriptedModel
from tests.story.cli import Terminal, lines, melete, start
from tests.story.homes import configure, holders, keys
from tests.story.test_cli_a_running_session_is_watched_and_steered_from_another_process import WAIT, begun
from tests.unit.store.given import SetClock, note

DAY = timedelta(days=1)


def old(home: Path, count: int, *, age: int = 200, each: int = 10, title: str = "talk", source: str = "cli") -> Path:
    """Sessions that changed `age` days ago and every `each` days since; returns the folder of the logs."""

    async def main() -> None:
        store = open_store(home / ".melete" / "state", clock=SetClock())
        for number in range(count):
            at = datetime.now(UTC) - (age - number * each) * DAY
            facts = (
                Opened(source=source, title=f"{title} {number}"),
                RunStarted(model="m-1", provider="acme"),
                Said(message=user(f"question {number}")),
                RunEnded(stop="done"),
            )
            stamped = [msgspec.structs.replace(fact, at=at, run=f"r-{number}") for fact in facts]
            await store.add(stamped, id=f"{source}-{number:03}")
        await store.aclose()

    asyncio.run(main())
    return home / ".melete" / "state" / "sessions"


def there(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.log"))


def test_without_a_rule_it_says_what_could_be_set(own_home: Path) -> None:
    folder = old(own_home, 2)
    done = melete("sessions", "prune", "--yes")
    assert (done.returncode, done.stdout) == (2, "")
    for word in ("--older-than", "--keep", "--max-size", "sessions.keep_days", "sessions.max_bytes"):
        assert word in done.stderr
    assert melete("sessions", "prune", "--source", "cli", "--yes").returncode == 2
    assert len(there(folder)) == 2


def test_without_a_terminal_it_shows_and_removes_nothing_until_told(own_home: Path) -> None:
    folder = old(own_home, 4)
    shown = melete("sessions", "prune", "--older-than", "175d")
    assert shown.returncode == 2
    assert "--yes" in shown.stderr
    table = shown.stdout.splitlines()
    assert table[0].startswith("3 of 4 sessions, ")
    assert [line.split()[0] for line in table[2:]] == ["cli-000", "cli-001", "cli-002"]
    assert "changed 200 days ago" in table[2]
    dry = melete("sessions", "prune", "--older-than", "175d", "--dry-run")
    assert (dry.returncode, dry.stdout, dry.stderr) == (0, shown.stdout, "Nothing was removed.\n")
    assert len(there(folder)) == 4
    done = melete("sessions", "prune", "--older-than", "175d", "--yes")
    assert (done.returncode, done.stdout) == (0, shown.stdout)
    assert done.stderr.startswith("Removed 3 sessions, ")
    assert there(folder) == ["cli-003"]
    assert (folder.parent / "ledger.log").read_text().count("session.deleted") == 3
    assert holders(folder.parent, "question 1") == []
    assert [row["id"] for row in lines(melete("sessions", "list", "--json").stdout)] == ["cli-003"]
    again = melete("sessions", "prune", "--older-than", "175d", "--yes")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "Nothing is to go.\n")


def test_on_a_terminal_a_person_is_asked(own_home: Path) -> None:
    folder = old(own_home, 30, age=300)
    words = ("sessions", "prune", "--older-than", "60d")
    with Terminal(words) as terminal:
        assert "cli-019" in terminal.read_until("and 5 more (--all lists them)")
        terminal.read_until("Remove 25 sessions (")
        terminal.read_until("[y/N]")
        terminal.type("n\r")
        terminal.read_until("Nothing was removed.")
        assert terminal.end() != 0
    assert len(there(folder)) == 30
    with Terminal((*words, "--all")) as terminal:
        assert "cli-024" in terminal.read_until("[y/N]")
        terminal.type("y\r")
        terminal.read_until("Removed 25 sessions")
        assert terminal.end() == 0
    assert there(folder) == [f"cli-{number:03}" for number in range(25, 30)]


def test_what_runs_has_mail_or_is_the_latest_stays(tmp_path: Path, own_home: Path) -> None:
    folder = old(own_home, 3)

    async def send() -> None:
        store = open_store(own_home / ".melete" / "state", clock=SetClock())
        await store.send(await store.find("cli-001"), note("m1"), wait=0)
        await store.aclose()

    asyncio.run(send())
    with ScriptedModel([WAIT]) as model:
        run = start("run", "--json", "wait", model=model, cwd=tmp_path)
        running = begun(run)
        asyncio.run(_later(own_home))
        done = melete("sessions", "prune", "--keep", "0", "--yes")
        run.terminate()
        run.communicate(timeout=30)
    assert done.returncode == 0
    assert f"{running} (wait) stays: it runs.\n" in done.stderr
    assert "cli-001 (talk 1) stays: 1 message(s) wait in its inbox.\n" in done.stderr
    assert "latest (now) stays: it is the latest.\n" in done.stderr
    assert there(folder) == sorted([running, "cli-001", "latest"])


async def _later(home: Path) -> None:
    """A session that changed after all others."""
    store = open_store(home / ".melete" / "state", clock=SetClock())
    await store.add([Opened(title="now", at=datetime.now(UTC) + DAY)], id="latest")
    await store.aclose()


def test_the_limits_of_the_settings_count_and_the_doctor_tells_when_they_are_passed(own_home: Path) -> None:
    folder = old(own_home, 5, each=40)
    for number, log in enumerate(sorted(folder.glob("*.log"))):
        age = (datetime.now(UTC) - (200 - number * 40) * DAY).timestamp()
        os.utime(log, (age, age))
    configure(own_home, sessions={"keep_days": 150})
    told = lines(melete("doctor", "--json").stdout)
    (check,) = [one for one in told if one["name"] == "sessions"]
    assert (check["status"], "2 did not change" in check["text"]) == ("warn", True)
    assert "melete sessions prune" in check["fix"]
    assert melete("sessions", "prune", "--yes").stderr.startswith("Removed 2 sessions")
    size = (folder / "cli-004.log").stat().st_size
    configure(own_home, sessions={"keep_days": 1000, "max_bytes": 2 * size + 10})
    assert "sessions.max_bytes" in melete("doctor").stdout
    assert melete("sessions", "prune", "--yes").stderr.startswith("Removed 1 session,")
    assert there(folder) == ["cli-003", "cli-004"]
    configure(own_home, sessions={"max_bytes": "1kB"})
    assert melete("sessions", "prune", "--yes").stderr == "Nothing is to go.\n"
    configure(own_home, sessions={"max_bytes": "plenty"})
    assert "sessions.max_bytes" in melete("sessions", "list").stderr


def test_what_was_set_aside_goes_only_when_it_is_named(own_home: Path) -> None:
    folder = old(own_home, 2)
    aside = folder.parent / "search.db.damaged-20260101-000000"
    aside.write_text("x" * 100)
    (folder / "gone.inbox").mkdir()
    done = melete("sessions", "prune", "--keep", "1", "--yes")
    assert "There is more: 2 files set aside or of no session (100 B)" in done.stderr
    assert aside.exists()
    done = melete("sessions", "prune", "--set-aside", "--yes")
    assert str(aside) in done.stdout
    assert done.stderr == "Removed 2 files, 100 B.\n"
    assert not aside.exists()
    assert not (folder / "gone.inbox").exists()
    assert there(folder) == ["cli-001"]
    assert "files.discarded" in (folder.parent / "ledger.log").read_text()


def test_json_tells_the_same(own_home: Path) -> None:
    folder = old(own_home, 3)
    (dry,) = lines(melete("sessions", "prune", "--keep", "1", "-n", "--json").stdout)
    assert [row["id"] for row in dry["sessions"]] == ["cli-000", "cli-001"]
    assert {row["why"] for row in dry["sessions"]} == {"not among the last 1"}
    assert dry["bytes"] == sum((folder / f"{row['id']}.log").stat().st_size for row in dry["sessions"])
    assert (dry["dry_run"], dry["removed"]["sessions"]) == (True, 0)
    (done,) = lines(melete("sessions", "prune", "--keep", "1", "-y", "--json").stdout)
    assert done["removed"] == {"sessions": 2, "files": 0, "bytes": dry["bytes"], "skipped": []}
    assert there(folder) == ["cli-002"]


def test_secrets_and_control_characters_of_titles_are_not_shown(own_home: Path) -> None:
    keys(own_home, ACME_API_KEY="sk-a-long-secret-value")
    old(own_home, 2, title="\x1b[2Jsk-a-long-secret-value")
    for words in (("prune", "--keep", "0", "-n"), ("list",), ("list", "--tree"), ("stats",), ("list", "--json")):
        done = melete("sessions", *words)
        assert done.returncode == 0
        assert "sk-a-long" not in done.stdout + done.stderr
        assert "\x1b" not in done.stdout + done.stderr
