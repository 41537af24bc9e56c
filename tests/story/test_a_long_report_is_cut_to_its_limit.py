"""A report that is too long is cut, however low the limit; all of each one is in a file."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from melete.core.delegation import DELEGATE
from melete.testing import Call, ScriptedModel
from tests.delegating import PARENT, Family, delegate, told
from tests.talking import talk

LONG, MORE = "q" * 3_000, "r" * 3_000


def again(body: dict[str, Any]) -> Call:
    session = msgspec.json.decode(told(body))["results"][0]["session"]
    return Call(DELEGATE, {"resume": session, "goal": "more"})


def test_a_limit_below_what_the_cut_says_of_itself(tmp_path: Path) -> None:
    these = Family({PARENT: [delegate("one"), again, "end"], "one": [LONG, MORE]})
    settings: dict[str, Any] = {"skills.enabled": False, "delegation.max_summary_chars": 50}

    async def main() -> list[str]:
        with ScriptedModel(these) as model:
            async with talk(model, tmp_path / "work", settings=settings) as here:
                assert (await here.say(PARENT)).text == "end"
                return [result["results"][0]["summary"] for result in await here.results()]

    said = asyncio.run(main())
    kept = [Path(text.rpartition(" is in ")[2].strip().rstrip("]")).read_text(encoding="utf-8") for text in said]
    assert kept == [LONG, MORE]
    assert max(map(len, said)) < 500
