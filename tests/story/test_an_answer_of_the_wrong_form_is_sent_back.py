"""Where a form was asked for, an answer that has another is sent back with the reason, twice at most."""

import pytest

from melete.core.event import Said
from melete.testing import Say, ScriptedModel
from tests.bare import Bare, alone
from tests.wire.adapters import adapter_of, spec


def complaint(text: str) -> str:
    return "" if text.startswith("{") else f"{text!r} is no object"


@pytest.mark.parametrize(
    ("answers", "asked", "text", "stop"),
    [
        (["{}"], 1, "{}", "done"),
        (["no", "{}"], 2, "{}", "done"),
        (["no", "never", "not so", "{}"], 3, "not so", "failed"),
    ],
)
def test_the_model_is_told_what_is_wrong(answers: list[str], asked: int, text: str, stop: str) -> None:
    async def test(here: Bare) -> None:
        client = adapter_of("openai-chat").open(spec(model.base_url))
        ended = await here.say("As an object, please.", client, complaint=complaint)
        await client.aclose()
        assert (ended.stop, ended.text, ended.steps) == (stop, text, asked)
        assert (ended.error is None) == (stop == "done")
        notes = [fact.message.text for fact in (await here.facts(Said))[1:]]
        assert len(notes) == asked - 1
        for note, answer in zip(notes, answers, strict=False):
            assert f"{answer!r} is no object." in note

    with ScriptedModel([Say(answer) for answer in answers]) as model:
        alone(test)
    assert len(model.requests) == asked
