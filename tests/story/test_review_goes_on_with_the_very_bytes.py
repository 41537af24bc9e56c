"""What a review asks begins with the session's own bytes, so that the provider has most of it warm; another model sees windows."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from melete.app.answers import AnswerSchema
from melete.core.event import Opened, Spent
from melete.learn.briefs import OPENING
from melete.testing import Call, Say
from melete.testing.scripted import Recorded
from tests.reviewing import HARD, NAME, create, log_of, names, proposals, reviewed, session
from tests.story.homes import WIRES
from tests.talking import Talk

MARKER = re.compile(rb',"cache_control":\{[^{}]*\}')
MESSAGES = {"openai-responses": "input", "gemini": "contents"}


def fields(request: Recorded) -> dict[str, bytes]:
    """The fields of a body, each as its bytes, without the marks that move on with the end."""
    found = msgspec.json.decode(MARKER.sub(b"", request.body), type=dict[str, msgspec.Raw])
    return {name: bytes(raw) for name, raw in found.items()}


def goes_on(before: Recorded, after: Recorded, wire: str = "openai-chat") -> bytes:
    """The messages that came after all that was sent before; everything else has to be the same."""
    old, new, name = fields(before), fields(after), MESSAGES.get(wire, "messages")
    said, says = old.pop(name), new.pop(name)
    assert old == new
    assert before.target == after.target
    assert says.startswith(said[:-1])
    return says[len(said) - 1 :]


@pytest.mark.parametrize("wire", WIRES)
def test_over_every_wire(tmp_path: Path, wire: str) -> None:
    prefill = tmp_path / "prefill.json"
    prefill.write_text('[{"role": "user", "content": "An example."}, {"role": "assistant", "content": "Seen."}]')
    settings = {
        "model.wire": wire,
        "model.effort": "low",
        "model.max_output": 4_000,
        "agent.ephemeral_prompt": "Be brief.",
        "agent.prefill": str(prefill),
    }

    async def check(here: Talk) -> None:
        ended = await reviewed(here)
        assert ended.status == "ended"
        assert names(here) == {NAME}
        first, *_ = [one for one in await log_of(here, ended) if isinstance(one, Spent)]
        before = [one for one in await here.log() if isinstance(one, Spent)][-1]
        assert first.role == "review"
        assert first.usage.cache_read + 1 >= before.usage.input + before.usage.cache_read, "all of the session was warm"

    thought = [
        Call("terminal", {"command": "./w ship --item k1"}, thinking="Hm."),
        Call("terminal", {"command": "./w ship --item k1 --fast"}, thinking="So."),
        Say("Shipped.", thinking="Good."),
    ]
    script = [*thought, create(), Say("Kept.")]
    model = session(script, tmp_path / "work", check, settings=settings, variables={"MELETE_API_KEY": "k" * 20})
    last, *reviews = model.requests[2:]
    assert OPENING.encode() in goes_on(last, reviews[0], wire)
    goes_on(reviews[0], reviews[1], wire)


def test_what_went_along_with_each_request_goes_along_with_the_review(tmp_path: Path) -> None:
    schema = AnswerSchema({"type": "object", "properties": {"done": {"type": "boolean"}}})

    async def check(here: Talk) -> None:
        assert (await reviewed(here)).status == "ended"

    more = {"effort": "high", "temperature": 0.3, "max_output": 3_000, "answer": schema}
    answer = Say('{"done": true}')
    model = session([*HARD[:2], answer, create(), Say("Kept.")], tmp_path / "work", check, **more)
    assert OPENING.encode() in goes_on(model.requests[2], model.requests[3])
    assert b"high" in model.requests[3].body


def test_the_session_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    async def check(here: Talk) -> None:
        before = [one.seq for one in await here.log()]
        ended = await reviewed(here)
        assert [one.seq for one in await here.log()] == before, "nothing of it is in the session"
        opened, *_ = await log_of(here, ended)
        assert isinstance(opened, Opened)
        assert (opened.source, opened.parent) == ("review", here.conversation.ref.id)
        latest = await here.app.store.latest()
        assert latest is not None
        assert latest.id == here.conversation.ref.id, "it is not what is gone on with"
        await here.say("And now?")

    script = [*HARD, create(), Say("Kept."), Say("Go on.")]
    model = session(script, tmp_path / "work", check)
    said = goes_on(model.requests[2], model.requests[5])
    assert b"Review of this session" not in said


def shown(request: Recorded) -> Any:
    return request.json["messages"]


@pytest.mark.parametrize("settings", [{"auxiliary.review": "small"}, {"model.context_length": 17_000}])
def test_another_model_or_a_small_window_is_shown_the_turns_round_the_signals(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    async def check(here: Talk) -> None:
        ended = await reviewed(here)
        assert ended.status == "ended"
        assert [one.status for one in proposals(here)] == ["trial"]

    model = session([*HARD, create(), Say("Kept.")], tmp_path / "work", check, settings=settings)
    body = model.requests[3].json
    assert {one["function"]["name"] for one in body["tools"]} == {
        "skills_list",
        "skill_search",
        "skill_view",
        "skill_manage",
        "memory",
        "session_search",
    }
    system, asked = shown(model.requests[3])
    assert len(system["content"]) < 300
    words = (
        "\n".join(part["text"] for part in asked["content"]) if isinstance(asked["content"], list) else asked["content"]
    )
    assert words.startswith(OPENING)
    for there in ("PERSON: Ship k1.", "CALL terminal", "--fast", "error 4", "AGENT: Shipped."):
        assert there in words
