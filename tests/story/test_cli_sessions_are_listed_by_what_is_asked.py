"""`melete sessions list` and `stats`: filters, orders, pages, trees of forks, and what everything takes."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from melete.core.event import Fact, Opened, Spent
from melete.core.message import Usage
from melete.store import open_store
from melete.testing import ScriptedModel
from tests.story.cli import Terminal, lines, melete, start
from tests.story.homes import holders
from tests.story.test_cli_a_running_session_is_watched_and_steered_from_another_process import WAIT, begun
from tests.unit.store.given import SetClock, turn

NOW = datetime.now(UTC)


def filled(home: Path) -> None:
    """Five sessions, an hour between two; `leaf` is a fork of `fork`, which is one of `base` after its second step."""
    made: dict[str, tuple[Opened, tuple[Fact, ...]]] = {
        "base": (Opened(title="the base", cwd="/home/a"), (*turn(0), *turn(1))),
        "other": (Opened(title="nightly", cwd="/home/ab", source="cron"), tuple(turn())),
        "fork": (Opened(title="a try", forked_from="base", forked_at=10, copied=10, cwd="/home/a/b"), tuple(turn())),
        "child": (Opened(title="help", parent="base", source="agent"), ()),
        "leaf": (Opened(forked_from="fork", forked_at=10, copied=10), (*turn(), *turn(5))),
    }
    bills = {"other": 3.0, "leaf": 1.0}

    async def main() -> None:
        store = open_store(home / ".melete" / "state", clock=SetClock())
        for place, (name, (opened, facts)) in enumerate(made.items()):
            extra = [Spent(usage=Usage(input=1000 * place), usd=bills[name], model="m-9")] if name in bills else []
            at = NOW - timedelta(hours=9 - place)
            await store.add([msgspec.structs.replace(fact, at=at) for fact in (opened, *facts, *extra)], id=name)
        await store.aclose()

    asyncio.run(main())


def listed(*words: str) -> list[str]:
    done = melete("sessions", "list", "--json", *words)
    assert done.returncode == 0, done.stderr
    return [row["id"] for row in lines(done.stdout)]


def test_filters_orders_and_pages(own_home: Path) -> None:
    filled(own_home)
    assert listed() == ["leaf", "child", "fork", "other", "base"]
    assert listed("--source", "cron,agent") == ["child", "other"]
    assert listed("--cwd", "/home/a") == ["fork", "base"]
    assert listed("--model", "m-9") == ["leaf", "other"]
    assert listed("--since", "390m") == ["leaf", "child"]
    assert listed("--until", "390m") == ["fork", "other", "base"]
    assert listed("--sort", "started") == ["leaf", "child", "fork", "other", "base"]
    assert listed("--sort", "cost", "-n", "2") == ["other", "leaf"]
    assert listed("--sort", "tokens", "-n", "1") == ["leaf"]
    assert listed("-n", "2", "--offset", "1") == ["child", "fork"]
    page = melete("sessions", "list", "-n", "2")
    assert len(page.stdout.splitlines()) == 3
    assert "--offset 2" in page.stderr
    assert melete("sessions", "list", "-n", "2", "--all").stderr == ""
    assert melete("sessions", "list", "--source", "mail").stderr == "There are no sessions like that.\n"
    wrong = melete("sessions", "list", "--since", "yesterday-ish")
    assert (wrong.returncode, "is not a time" in wrong.stderr) == (2, True)


def test_an_order_by_an_amount_shows_the_amount(own_home: Path) -> None:
    filled(own_home)
    rows = melete("sessions", "list", "--sort", "cost").stdout.splitlines()
    assert "COST" in rows[0]
    assert "$3.75" in rows[1]
    assert (
        " MB" in melete("sessions", "list", "--sort", "size").stdout
        or " kB" in melete("sessions", "list", "--sort", "size").stdout
    )


def test_a_tree_tells_where_a_fork_left(own_home: Path) -> None:
    filled(own_home)
    tree = melete("sessions", "list", "--tree").stdout.splitlines()
    heads = [line.rpartition("─ ")[0] + line.rpartition("─ ")[2].split()[0] for line in tree[::2]]
    assert heads == ["base", "├child", "└fork", "   └leaf", "other"]
    assert tree[4] == "└─ fork  a try"
    assert [line.strip().partition(" · ")[0] for line in tree[5:8:2]] == ["fork at step 2"] * 2
    with Terminal(("sessions", "list", "--tree"), columns=30) as terminal:
        assert terminal.end() == 0
        assert all(len(line) <= 30 for line in terminal.rest().splitlines())


def test_only_what_runs(tmp_path: Path, own_home: Path) -> None:
    filled(own_home)
    assert listed("--running") == []
    with ScriptedModel([WAIT]) as model:
        run = start("run", "--json", "wait", model=model, cwd=tmp_path)
        session = begun(run)
        assert listed("--running") == [session]
        run.terminate()
        run.communicate(timeout=30)


def test_the_address_of_the_model_is_kept_without_the_key_in_it(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(["Hello."]) as model:
        melete("run", "hi", model=model, cwd=tmp_path, MELETE_BASE_URL=f"{model.base_url}?key=secret-word")
        assert model.requests[0].target.endswith("?key=secret-word")
        assert holders(own_home / ".melete", "secret-word") == []
        (row,) = lines(melete("sessions", "list", "--json").stdout)
        assert row["base_url"] == model.base_url


def test_everything_is_counted_once(own_home: Path) -> None:
    filled(own_home)
    (stats,) = lines(melete("sessions", "stats", "--json").stdout)
    assert (stats["sessions"], stats["steps"], stats["tool_calls"]) == (5, 8, 4)
    assert stats["tokens"] == 4 * 42 + 1000 + 4000
    assert stats["cost_usd"] == 4 * 0.75 + 4.0
    assert {group["name"]: group["sessions"] for group in stats["sources"]} == {"cli": 3, "cron": 1, "agent": 1}
    logs = sum(path.stat().st_size for path in (own_home / ".melete" / "state" / "sessions").glob("*.log"))
    assert stats["bytes"]["logs"] == logs
    assert stats["bytes_a_message"]["logs"] == round(logs / stats["messages"], 1)
    (cron,) = lines(melete("sessions", "stats", "--json", "--source", "cron").stdout)
    assert (cron["sessions"], cron["bytes"]["logs"]) == (1, logs)
    text = melete("sessions", "stats").stdout
    assert text.startswith("5 sessions with ")
    assert melete("sessions", "stats", "--source", "cron").stdout.startswith("1 session with ")
    assert "a message takes " in text
    assert melete("sessions", "stats", "--source", "mail").stderr == "There are no sessions like that.\n"
