"""Limits of the settings, sizes as people write them, and that only what was planned goes."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.given import START

from melete.app.retention import Rules, caps, carry_out, plan
from melete.app.settings import load
from melete.app.sizes import size_of, size_text
from melete.app.wire import Melete, open_melete
from melete.core.errors import ConfigError, UsageError
from melete.core.event import Opened, Said
from melete.core.message import user
from melete.core.session import SessionRef


class Still:
    """A clock that stands still."""

    def now(self) -> Any:
        return START


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        (12, 12),
        ("2GB", 2_000_000_000),
        ("1.5 GiB", 1_610_612_736),
        ("3k", 3_000),
        ("4 mb", 4_000_000),
        ("5B", 5),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str | int, size: int) -> None:
    assert size_of(text, where="--max-size") == size


@pytest.mark.parametrize("text", ["", "GB", "-1", "1e9", "2XB", "2 GB free", "٣GB"])
def test_what_is_no_size_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="--max-size"):
        size_of(text, where="--max-size")


@given(st.integers(0, 10**16))
def test_a_size_that_is_shown_can_be_read_back(size: int) -> None:
    shown = size_text(size)
    assert size_of(shown, where="") == pytest.approx(size, rel=0.005)
    assert (size < 10**15 and len(shown) <= 7) or size >= 10**15 - 10**12


def loaded(home: Path, **settings: Any) -> Any:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_bytes(msgspec.json.encode({"sessions": settings}))
    return load(environ={"MELETE_HOME": str(home)})


def test_each_limit_of_the_settings_is_a_rule_of_its_own(tmp_path: Path) -> None:
    assert caps(load(environ={"MELETE_HOME": str(tmp_path)}), Still()) == ()
    both = caps(loaded(tmp_path, keep_days=30, max_bytes="1MB"), Still())
    assert both == (Rules(before=START - timedelta(days=30)), Rules(max_bytes=1_000_000))
    assert caps(loaded(tmp_path, max_bytes=77), Still()) == (Rules(max_bytes=77),)


@pytest.mark.parametrize("settings", [{"keep_days": 0}, {"keep_days": 10**9}, {"max_bytes": "lots"}, {"max_bytes": -1}])
def test_limits_that_make_no_sense_are_refused(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="sessions"):
        loaded(tmp_path, **settings)


async def filled(app: Melete, count: int) -> list[SessionRef]:
    refs: list[SessionRef] = []
    for number in range(count):
        at = START + timedelta(hours=number)
        facts = (Opened(at=at), Said(message=user("hello"), at=at))
        refs.append(await app.store.add(facts, id=f"s-{number}"))
    return refs


def test_what_changed_since_it_was_shown_stays(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_melete(load(environ={"MELETE_HOME": str(tmp_path)})) as app:
            refs = await filled(app, 6)
            planned = await plan(app, (Rules(keep=1),))
            assert [one.session.id for one in planned.choice.gone] == ["s-0", "s-1", "s-2", "s-3", "s-4"]
            await app.store.rename(refs[0], "I am still needed")
            await app.store.delete(refs[1])
            async with app.store.claim(refs[2]):
                removed = await carry_out(app, planned)
            assert {one.session.id: one.why for one in removed.skipped} == {
                "s-0": "it has changed since",
                "s-1": "it has changed since",
                "s-2": "it has changed since",
            }
            assert (removed.sessions, removed.size) == (2, sum(one.size for one in planned.choice.gone[3:]))
            assert {row.id for row in await app.store.list()} == {"s-0", "s-2", "s-5"}
            deleted = [row["session"] for row in app.ledger.read(kind="session.deleted")]
            assert deleted == ["s-1", "s-3", "s-4"]

    asyncio.run(main())


def test_a_plan_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_melete(load(environ={"MELETE_HOME": str(tmp_path)})) as app:
            await filled(app, 3)
            (tmp_path / "state" / "spill" / "gone").mkdir(parents=True)
            planned = await plan(app, (Rules(keep=0),), set_aside=True)
            assert (len(planned.choice.gone), len(planned.set_aside)) == (2, 1)
            assert planned.size == planned.choice.size
            assert len(await app.store.list()) == 3
            removed = await carry_out(app, planned)
            assert (removed.sessions, removed.files) == (2, 1)
            assert (await carry_out(app, planned)).sessions == 0

    asyncio.run(main())
