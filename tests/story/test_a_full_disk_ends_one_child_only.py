"""A child whose session cannot be stored is an error in its place: what its siblings bring back is not lost with it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from melete.core.errors import StorageError
from melete.core.event import Opened
from melete.core.session import SessionRef
from melete.testing import ScriptedModel
from tests.delegating import PARENT, Family, delegate
from tests.talking import talk


def test_its_siblings_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    these = Family({PARENT: [delegate("one", "two"), "end"], "two": ["r2"]}, slow={"two": 0.3})

    async def main() -> list[dict[str, Any]]:
        with ScriptedModel(these) as model:
            async with talk(model, tmp_path / "work", settings={"skills.enabled": False}) as here:
                create = here.app.store.create

                async def full(opened: Opened) -> SessionRef:
                    if opened.title == "one":
                        raise StorageError("the disk is full")
                    return await create(opened)

                monkeypatch.setattr(here.app.store, "create", full)
                assert (await here.say(PARENT)).text == "end"
                return (await here.results())[0]["results"]

    one, two = asyncio.run(main())
    assert (one["status"], one["error"]) == ("error", "the disk is full")
    assert (two["status"], two["summary"]) == ("completed", "r2")
