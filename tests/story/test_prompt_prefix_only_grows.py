"""Tools, system and messages of each request begin with the bytes of the request before, over whole random sessions.

Steering, retries, refused and failing calls, the grace call and the continuation after a restart are in them.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from melete.app.reaching import inbox_message
from melete.core.event import Fact, ToolEnded
from melete.core.transcript import Transcript
from melete.testing import Call, Calls, Fault, Say, ScriptedModel
from melete.testing.replies import Reply
from tests.talking import Talk, backoff, sent_prefix, talk

words = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=30)
extras = st.sampled_from(
    [{}, {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x=="}]}, {"annotations": []}]
)
calls = st.one_of(
    st.builds(lambda t: Call("terminal", {"command": f"echo {len(t)}", "timeout": "5"}), words),
    st.builds(lambda t: Call("write_file", {"path": "a.txt", "content": t}), words),
    st.just(Call("read_file", {"path": "a.txt"})),
    st.just(Call("read_file", "{'path': 'a.txt',}")),
    st.just(Call("todo", '{"todos": [')),
    st.just(Call("no_such_tool")),
    st.just(Call("terminal", {"command": "rm -rf /"})),
)
turns: st.SearchStrategy[Reply] = st.one_of(
    st.builds(lambda c, t, e: Calls(c, text=t, extra=e), st.lists(calls, min_size=1, max_size=3), words, extras),
    st.builds(lambda t, h: Say(t, thinking=h), words, words),
    st.builds(lambda c: Calls([c], stop="length"), calls),
    st.just(Fault("reset")),
    st.just(Fault("truncated", reply=Say("Half of it"))),
    st.just(Fault("duplicate_ids")),
)
step = st.sampled_from(["prompt", "prompt", "steer", "queue", "restart", "cancel"])


async def one_step(here: Talk, what: str, number: int) -> None:
    if what in ("steer", "queue"):
        message = inbox_message(here.app, "steer" if what == "steer" else "queue", text=f"{what} {number}")
        await here.app.store.send(here.conversation.ref, message)
    if what == "cancel":
        asyncio.get_running_loop().call_later(0.01, here.conversation.cancel)
    await here.say(f"Prompt {number}.")


async def session(folder: Path, model: ScriptedModel, steps: Sequence[str], rounds: int) -> Sequence[Fact]:
    options: dict[str, Any] = {"max_steps": rounds}
    facts: Sequence[Fact] = ()
    for part in " ".join(steps).split("restart"):
        async with talk(model, folder, **options) as here:
            backoff(here.conversation.model, base=0.001)
            for number, what in enumerate(part.split()):
                await one_step(here, what, number)
            facts = await here.log()
            options["session"] = here.conversation.ref.id
    return facts


@settings(max_examples=60)
@given(script=st.lists(turns, max_size=14), steps=st.lists(step, min_size=1, max_size=5), rounds=st.integers(1, 4))
def test_over_random_sessions(script: list[Reply], steps: list[str], rounds: int) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        os.environ["MELETE_HOME"] = str(root / "home")
        with ScriptedModel(script) as model:
            facts = asyncio.run(session(root / "work", model, steps, rounds))
        prefixes = [sent_prefix(request.body) for request in model.requests]
        for before, after in pairwise(prefixes):
            assert after.startswith(before)
        every_prefix_of_the_log_goes_on(facts)
    finally:
        shutil.rmtree(root)


def every_prefix_of_the_log_goes_on(facts: Sequence[Fact]) -> None:
    """A sound conversation at every point: each call is answered in the next message, or is open and the last."""
    results = [fact.result.call for fact in facts if isinstance(fact, ToolEnded)]
    assert len(results) == len(set(results))
    state = Transcript()
    for fact in facts:
        state.apply(fact)
        messages = state.messages
        for place, message in enumerate(messages):
            if not message.calls:
                continue
            if place == len(messages) - 1:
                assert state.open_calls
            else:
                answered = [part.call for part in messages[place + 1].parts if hasattr(part, "call")]  # pyright: ignore
                assert answered == [call.id for call in message.calls]
        assert [message for message in messages if message.role == "tool"] == [
            after for before, after in pairwise(messages) if before.calls
        ]
        assert Transcript(facts[: fact.seq]).messages == messages
    assert not state.open_calls
    assert not state.running
