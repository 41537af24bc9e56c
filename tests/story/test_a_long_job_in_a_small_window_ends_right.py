"""A job far longer than the model's window: what was said, decided, found and written stays known, whoever sums up or fails to.

The model is `benchmarks.long_job`'s: it has no memory but the request. `python -m benchmarks compaction` is the whole of it.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from benchmarks.compaction import faults
from benchmarks.long_job import Job, Model, Outcome, run_through, work_through

from melete.agent.summary import DOUBTFUL
from melete.core.event import Notice, Reply, Spent
from melete.testing import ScriptedModel
from tests.story.cli import melete

EIGHT, WIDE = 8_192, 32_000


def worked(top: Path, model: Model, settings: Mapping[str, object] | None = None) -> Outcome:
    """A job with a prompt for each turn, in which nothing went wrong."""
    with ScriptedModel(model) as server:
        made = asyncio.run(work_through(model.job, model, server, top, settings=settings or {}))
    assert not faults(made, model)
    assert len(made.asked) > len(model.job.truths)
    return made


def told(made: Outcome) -> list[Notice]:
    """What the person was told of compactions that went less well than they should."""
    return [fact for fact in made.facts if isinstance(fact, Notice) and fact.about == "compaction"]


@pytest.mark.parametrize(("window", "turns"), [(EIGHT, 80), (WIDE, 100)])
def test_what_was_said_long_ago_is_known_in_the_end(tmp_path: Path, window: int, turns: int) -> None:
    model = Model(job=Job(turns=turns), window=window)
    made = worked(tmp_path, model)
    assert made.compactions
    assert model.overflows == 0
    assert max(model.sizes) <= window
    assert all(fact.tokens_after < fact.tokens_before for fact in made.compactions)
    assert any(fact.summary for fact in made.compactions)


def test_the_prefix_changes_once_a_compaction_and_never_else(tmp_path: Path) -> None:
    model = Model(job=Job(turns=60), window=EIGHT)
    made = worked(tmp_path, model)
    assert sum(share < 1 for share in model.kept) == made.groups == len(made.compactions)


def test_the_model_that_sums_up_has_a_row_of_its_own(tmp_path: Path) -> None:
    model = Model(job=Job(turns=60), window=EIGHT)
    made = worked(tmp_path, model)
    spent = [fact for fact in made.facts if isinstance(fact, Spent)]
    assert {fact.role for fact in spent} == {"main", "compact"}
    assert {fact.model for fact in spent if fact.role == "compact"} == {"summariser"}
    assert len([fact for fact in spent if fact.role == "main"]) == len([f for f in made.facts if isinstance(f, Reply)])
    assert made.tokens_of("compact") > 0


@pytest.mark.parametrize("sums_up", ["500", "hang", "empty", "foreign", "orders", "refuses"])
def test_a_model_that_fails_to_sum_up_is_done_without_and_the_person_is_told(tmp_path: Path, sums_up: str) -> None:
    model = Model(job=Job(turns=40), window=EIGHT, sums_up=sums_up)
    made = worked(tmp_path, model, {"compaction.deadline": 0.5} if sums_up == "hang" else None)
    assert made.compactions
    assert not any(fact.summary for fact in made.compactions)
    assert any(notice.level == "warning" for notice in told(made))
    asked = b"".join(request for request in [str(fact.messages).encode() for fact in made.compactions])
    for bad in ("eve.example", "用户和助手"):
        assert bad.encode() not in asked


@pytest.mark.parametrize("sums_up", ["forgetful", "long"])
def test_a_bad_summary_costs_nothing_that_the_runtime_knows(tmp_path: Path, sums_up: str) -> None:
    model = Model(job=Job(turns=40), window=EIGHT, sums_up=sums_up)
    made = worked(tmp_path, model)
    assert made.compactions


def test_what_a_summary_says_and_nobody_said_is_marked(tmp_path: Path) -> None:
    made = worked(tmp_path, Model(job=Job(turns=40), window=EIGHT, sums_up="wrong"))
    summaries = [fact.summary for fact in made.compactions if fact.summary]
    assert summaries
    for text in summaries:
        assert f"/srv/never/was.txt {DOUBTFUL}" in text
        assert f"31,337 {DOUBTFUL}" in text


def test_a_job_that_was_shortened_replays_byte_for_byte(tmp_path: Path) -> None:
    made = worked(tmp_path, Model(job=Job(turns=40), window=EIGHT))
    home = str(tmp_path / "home")
    done = melete("sessions", "replay", made.facts[0].session, "--quiet", MELETE_HOME=home)
    assert done.returncode == 0, done.stdout
    assert "equal byte for byte" in done.stdout


def test_a_summariser_with_a_window_of_its_own_is_never_asked_for_more(tmp_path: Path) -> None:
    model = Model(job=Job(turns=80), window=WIDE, small=EIGHT)
    made = worked(tmp_path, model)
    assert made.compactions
    assert max(model.asked_to_sum_up) <= EIGHT


@pytest.mark.parametrize(("window", "sums_up"), [(EIGHT, "well"), (WIDE, "well"), (WIDE, "500")])
def test_one_long_run_ends_right(tmp_path: Path, window: int, sums_up: str) -> None:
    model = Model(job=Job(turns=80), window=window, sums_up=sums_up)
    with ScriptedModel(model) as server:
        made = asyncio.run(run_through(model.job, model, server, tmp_path))
    assert made.compactions
    assert not faults(made, model)
