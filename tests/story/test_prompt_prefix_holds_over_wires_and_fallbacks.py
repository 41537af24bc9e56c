"""For each wire and provider, tools, system and messages of a request begin with those of its request before.

Over whole random sessions: two models on any two wires, one standing in for the other and giving way again, chosen in the
other order in mid-session, retries, thoughts, refused and unknown calls, the grace call, every run in a store that is read
anew. Only a compaction begins a new prefix.
"""

import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta, Struct

from melete.core.event import Delta, Reply, Retried
from melete.core.message import Image, Message, Text
from melete.core.model import ModelRequest, ModelWrapper
from melete.core.policy import Limits
from melete.core.tool import Output, ToolContext, ToolError, tool
from melete.models.adapter import WireModel
from melete.models.fallback import Falling, Health
from melete.models.retry import Backoff, Retrying
from melete.models.spec import Quirks
from melete.testing import Call, Calls, Fault, Say, ScriptedModel
from melete.testing.replies import Reply as Scripted
from tests.bare import Bare, alone
from tests.wire.adapters import ADAPTERS, Adapter, spec

MARKER = re.compile(rb',"cache_control":\{[^{}]*\}')
AHEAD = (
    Message(role="user", parts=(Text(text="An example."),)),
    Message(role="assistant", parts=(Text(text="Seen."),)),
)


class Sent(Struct, frozen=True, kw_only=True):
    """One request as it left: what it begins with by the adapter's own word, and its body."""

    wire: str
    provider: str
    segment: str
    prefix: bytes
    body: bytes


class Noting(ModelWrapper):
    """A wire that notes what it is asked."""

    def __init__(self, inner: WireModel, server: ScriptedModel, here: Bare, *, sent: list[Sent]) -> None:
        super().__init__(inner)
        self._wire = inner
        self._server = server
        self._here = here
        self._sent = sent

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        """Ask, and note the request whatever comes of it."""
        number = len(self._server.requests)
        prefix = self._wire.prefix_bytes(request)
        try:
            async with aclosing(self._wire.stream(request)) as answer:
                async for item in answer:
                    yield item
        finally:
            (made,) = self._server.requests[number:]
            segment = self._here.session.transcript.segment
            self._sent.append(
                Sent(wire=self.wire, provider=self.provider, segment=segment, prefix=prefix, body=made.body)
            )


@tool()
async def read_file(ctx: ToolContext, *, path: Annotated[str, Meta(description="A path.")]) -> dict[str, Any]:
    """Read a file."""
    return {"content": path * 200}


@tool()
async def look(ctx: ToolContext) -> Output:
    """Look at a picture."""
    return Output(fields={"seen": True}, images=(Image(data="iVBORw0KGgo="),))


@tool()
async def fails(ctx: ToolContext) -> dict[str, Any]:
    """Fail."""
    raise ToolError("no \ud83d luck")


words = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=20)
calls = st.one_of(
    st.builds(lambda t: Call("read_file", {"path": t}), words),
    st.just(Call("read_file", "{'path': 'a.txt',}")),
    st.just(Call("read_file", '{"path": ')),
    st.sampled_from([Call("look"), Call("fails"), Call("nothing_such", {"x": [1, {"y": None}]})]),
)
turns: st.SearchStrategy[Scripted] = st.one_of(
    st.builds(lambda c, t, h: Calls(c, text=t, thinking=h), st.lists(calls, min_size=1, max_size=3), words, words),
    st.builds(lambda c: Calls(c), st.lists(calls, min_size=1, max_size=2)),
    st.builds(lambda t, h: Say(t, thinking=h), words, words),
    st.builds(lambda c: Calls([c], stop="length"), calls),
    st.sampled_from([
        Fault("reset"), Fault("overloaded"), Fault("unauthorized"), Fault("truncated", reply=Say("Half of it, then")),
        Fault("empty"), Fault("overflow"), Fault("status", status=413), Fault("duplicate_ids"), Fault("error_event"),
    ]),
)  # fmt: skip


class Prompt(Struct, frozen=True, kw_only=True):
    """One run: what is said, which of the two models is wanted, how long ago the last run was, and how far it may go."""

    text: str
    swapped: bool
    later: float
    steps: int


prompts = st.builds(
    Prompt, text=words, swapped=st.booleans(), later=st.sampled_from([0.0, 61.0]), steps=st.integers(1, 8)
)  # fmt: skip


class Session:
    """A session of prompts to two models that stand in for each other."""

    def __init__(self, server: ScriptedModel, pair: tuple[Adapter, Adapter], prompts: list[Prompt]) -> None:
        self._server = server
        self._pair = pair
        self._prompts = prompts
        self._now = 0.0
        self.sent: list[Sent] = []

    async def play(self, here: Bare) -> None:
        """Each run with clients of its own, as after a restart."""
        health = Health(now=lambda: self._now)
        for prompt in self._prompts:
            self._now += prompt.later
            members = [self._open(adapter, name, here) for adapter, name in zip(self._pair, ("a", "b"), strict=True)]
            falling = Falling(members[::-1] if prompt.swapped else members, health=health)
            await here.say(
                prompt.text,
                falling,
                tools=(read_file, look, fails),
                limits=Limits(max_steps=prompt.steps),
                prefill=AHEAD,
                ephemeral="Unseen.",
            )
            await falling.aclose()

    def _open(self, adapter: Adapter, name: str, here: Bare) -> Retrying:
        marked = Quirks(cache_markers=name == "b")
        wire = adapter.open(spec(self._server.base_url, provider=f"provider-{name}", quirks=marked))
        assert isinstance(wire, WireModel)
        return Retrying(Noting(wire, self._server, here, sent=self.sent), backoff=Backoff(tries=1, base=0.001))


def play(script: list[Scripted], pair: tuple[Adapter, Adapter], said: list[Prompt]) -> list[Sent]:
    folder = Path(tempfile.mkdtemp())
    try:
        with ScriptedModel(script) as server:
            session = Session(server, pair, said)
            alone(session.play, folder=folder)
        return session.sent
    finally:
        shutil.rmtree(folder)


def holds(sent: list[Sent]) -> int:
    """Check every request against the one before it; return how many there were to check."""
    groups: dict[tuple[str, str, str], list[bytes]] = defaultdict(list)
    for one in sent:
        assert one.prefix in MARKER.sub(b"", one.body), "what was sent is not what the adapter says"
        groups[one.wire, one.provider, one.segment].append(one.prefix)
    pairs = [pair for group in groups.values() for pair in pairwise(group)]
    for before, after in pairs:
        assert after.startswith(before)
    return len(pairs)


@settings(max_examples=100)
@given(
    script=st.lists(turns, min_size=8, max_size=24),
    pair=st.tuples(st.sampled_from(ADAPTERS), st.sampled_from(ADAPTERS)),
    said=st.lists(prompts, min_size=2, max_size=4),
)
def test_over_random_sessions(script: list[Scripted], pair: tuple[Adapter, Adapter], said: list[Prompt]) -> None:
    holds(play(script, pair, said))


def test_over_a_session_that_has_everything() -> None:
    """The same, where it is known that the stand-in answers, gives way, and that a compaction comes between."""
    script: list[Scripted] = [
        Calls([Call("read_file", {"path": "x"}), Call("look")], thinking="Hm."),
        Fault("unauthorized"), Calls([Call("fails")], thinking="Well."), Say("Done.", thinking="So."),
        *[Call("read_file", {"path": f"{n}"}) for n in range(4)], Fault("overflow"), Say("It fitted."),
        Say("A last word."),
    ]  # fmt: skip
    one = Prompt(text="Go.", swapped=False, later=0.0, steps=9)
    said = [
        one,
        Prompt(text="On.", swapped=False, later=61.0, steps=9),
        Prompt(text="?", swapped=True, later=0.0, steps=1),
    ]
    for first, second in zip(ADAPTERS, (*ADAPTERS[1:], ADAPTERS[0]), strict=True):
        sent = play(script, (first, second), said)
        assert {one.provider for one in sent} == {"provider-a", "provider-b"}
        assert len({one.segment for one in sent}) == 2
        assert holds(sent) >= 6
