"""Kill -9 at every system call that changes the disk while a conversation is shortened: it goes on, and still knows what was said.

The whole program runs under `strace`; the model that sums up answers, or fails. A part of the points is taken unless
MELETE_CRASH_FULL=1.
"""

import asyncio
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from benchmarks.long_job import SUMMARISER, Job, Model, opened

from melete.core.event import Compacted, Fact, Reply, ToolEnded
from melete.core.message import user
from melete.core.transcript import Transcript
from melete.store.log import is_locked
from melete.testing import ScriptedModel
from tests.crash.test_a_run_killed_anywhere_goes_on import CALLS, FULL, killed_at, melete

pytestmark = pytest.mark.needs("strace")
WINDOW = 8_192
TURNS = 60


@pytest.mark.parametrize("sums_up", ["well", "refuses"])
def test_it_goes_on_and_knows_what_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], sums_up: str
) -> None:
    job = Job(turns=TURNS)
    job.lay_out(tmp_path / "work")
    with ScriptedModel(Model(job=job, window=WINDOW, sums_up=sums_up)) as server:
        due = asyncio.run(up_to_a_compaction(job, server, tmp_path))
        for name, value in (
            ("MELETE_BASE_URL", server.base_url), ("MELETE_MODEL", "scripted"), ("MELETE_CONTEXT_LENGTH", str(WINDOW))
        ):  # fmt: skip
            monkeypatch.setenv(name, value)

        def once(calls: str, number: int) -> bool:
            top = tmp_path / f"{calls.strip('?').partition(',')[0]}-{number}"
            shutil.copytree(tmp_path / "before", top / "home")
            monkeypatch.setenv("MELETE_HOME", str(top / "home"))
            ran = melete("run", "-c", job.prompt(due), cwd=tmp_path / "work", strace=killed_at(calls, number))
            asyncio.run(goes_on(job, server, top, f"{calls} {number}", cwd=tmp_path / "work"))
            shutil.rmtree(top)
            return ran.returncode == 0

        count = 0
        for calls in CALLS:
            number = 1
            while not once(calls, number):
                count, number = count + 1, number + (1 if FULL else 5)
    with capsys.disabled():
        print(f"[compaction killed at {count} points]", end=" ")
    assert count >= 4


async def up_to_a_compaction(job: Job, server: ScriptedModel, top: Path) -> int:
    """Talk until a turn shortens the conversation; the home as it was before that turn is kept, and the turn returned."""
    (top / "home").mkdir()
    config = {"auxiliary": {"compact": SUMMARISER}, "approvals": {"mode": "off"}}
    (top / "home" / "config.yaml").write_bytes(msgspec.json.encode(config))
    for turn in range(1, job.turns):
        shutil.rmtree(top / "before", ignore_errors=True)
        shutil.copytree(top / "home", top / "before")
        async with opened(server, top, window=WINDOW, latest=turn > 1) as conversation:
            assert (await conversation.run(user(job.prompt(turn)))).stop == "done"
            if compactions(await conversation.app.store.facts(conversation.ref)):
                return turn
    raise AssertionError("nothing was shortened")


def compactions(facts: Sequence[Fact]) -> list[Compacted]:
    return [fact for fact in facts if isinstance(fact, Compacted)]


async def goes_on(job: Job, server: ScriptedModel, top: Path, where: str, *, cwd: Path) -> None:
    """The session goes on; what was said before the compaction is known, and the log is sound."""
    (log,) = (top / "home" / "state" / "sessions").glob("*.log")
    assert not is_locked(log), where
    async with opened(server, top, window=WINDOW, latest=True, cwd=str(cwd)) as conversation:
        store, ref = conversation.app.store, conversation.ref
        before = await store.facts(ref)
        assert all(problem.harmless for problem in await store.verify()), where
        for truth in job.truths[:2]:
            ended = await conversation.run(user(f"[turn {TURNS}] Question: {truth.ask}"))
            assert truth.value in ended.text, (where, truth, ended)
        facts = await store.facts(ref)
    assert facts[: len(before)] == before, where
    assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1)), where
    calls = [call.id for fact in facts if isinstance(fact, Reply) for call in fact.message.calls]
    results = [fact.result.call for fact in facts if isinstance(fact, ToolEnded)]
    assert sorted(calls) == sorted(results), where
    assert compactions(facts), where
    for fact in compactions(facts):
        assert sound(fact), (where, fact)
    assert not Transcript(facts).running, where


def sound(fact: Compacted) -> bool:
    """Whether every call in what is left has its result right behind it, and every result its call."""
    messages = fact.messages
    for before, after in pairwise([*messages, None]):
        assert before is not None
        wanted = [call.id for call in before.calls]
        got = [part.call for part in after.parts if hasattr(part, "call")] if after and after.role == "tool" else []  # pyright: ignore
        if wanted != got and not (after is None and wanted):
            return False
    return messages[0].role == "user"
