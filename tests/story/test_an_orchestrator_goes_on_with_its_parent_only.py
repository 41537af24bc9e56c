"""What an orchestrator left in the background waits for it: no server opens the orchestrator as a conversation of its own."""

import asyncio
from pathlib import Path
from typing import Any

from melete.app.recovery import recover
from melete.app.runs import Runs
from melete.app.warm import Warm
from melete.core.event import RunStarted
from melete.core.session import SessionRef
from melete.testing import ScriptedModel
from tests.delegating import PARENT, Family, delegate
from tests.talking import Talk, talk

SETTINGS: dict[str, Any] = {"skills.enabled": False, "delegation.max_spawn_depth": 2}


def left(here: Talk) -> list[Path]:
    return [*(here.app.loaded.home.state / "children").rglob("*.json")]


def test_it_is_no_conversation_of_a_server(tmp_path: Path) -> None:
    lead = delegate("lead", role="orchestrator")
    these = Family(
        {PARENT: [lead, "end"], "lead": [delegate("leaf", background=True), "begun"], "leaf": ["late"]},
        slow={"leaf": 1.0},
    )

    async def main() -> tuple[list[str], list[str]]:
        with ScriptedModel(these) as model:
            async with talk(model, tmp_path / "work", settings=SETTINGS) as here:
                running = asyncio.create_task(here.say(PARENT))
                while not left(here):  # noqa: ASYNC110 - nobody says it
                    await asyncio.sleep(0.02)
                here.conversation.cancel()
                await running
                (record,) = left(here)
                warm = Warm(here.app, most=4, seconds=60.0)
                try:
                    await recover(Runs(here.app, most=4, warm=warm), resume=True)
                    await asyncio.sleep(1.5)
                finally:
                    await warm.aclose()
                facts = await here.app.store.facts(SessionRef(id=record.parent.name))
                return [str(path) for path in left(here)], [f.surface for f in facts if isinstance(f, RunStarted)]

    records, surfaces = asyncio.run(main())
    assert len(records) == 1
    assert surfaces == ["subagent"]
