"""What a scrape sees of facts and requests, read with Prometheus' own parsers."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from tests.talking import talk

from melete import __version__
from melete.app.metrics import LONGEST_NAME, MOST_NAMES, Metrics, Names
from melete.core.event import (
    Answered,
    Asked,
    Fact,
    Notice,
    Question,
    Reply,
    Retried,
    RunEnded,
    RunStarted,
    Spent,
    ToolEnded,
    ToolStarted,
)
from melete.core.message import Message, Text, ToolCall, ToolResult, Usage
from melete.core.session import SessionRef
from melete.testing import Call, Say, ScriptedModel

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def told(metrics: Metrics, *facts: Fact, session: str = "s1") -> None:
    for fact in facts:
        metrics.listen(SessionRef(id=session), fact)


def seen(metrics: Metrics) -> dict[str, float]:
    """Every series by its name and labels, as PromQL would write them."""
    _, body = metrics.render()
    return {
        sample.name + "".join(f"{{{k}={v}}}" for k, v in sorted(sample.labels.items())): sample.value
        for family in parse_text(body.decode())
        for sample in family.samples
    }


def call(id: str, name: str, *, after: float = 0.0) -> ToolStarted:
    return ToolStarted(call=ToolCall(id=id, name=name, arguments="{}"), at=NOON + timedelta(seconds=after))


def result(id: str, name: str, outcome: Any = "ok", *, after: float = 0.0, seconds: float = 0.0) -> ToolEnded:
    content = ToolResult(call=id, name=name, content="{}")
    return ToolEnded(result=content, outcome=outcome, seconds=seconds, at=NOON + timedelta(seconds=after))


def reply(model: str = "m", **fields: Any) -> Reply:
    return Reply(message=Message(role="assistant", parts=(Text(text="hm"),)), model=model, **fields)


def test_a_real_conversation_is_counted(tmp_path: Path, own_home: Path) -> None:
    metrics = Metrics()

    async def main() -> str:
        async with talk(model, tmp_path / "here", surface="api", prices=(2.0, 6.0)) as one:
            one.app.listeners.append(metrics.listen)
            await one.say("a very private question")
            return one.conversation.ref.id

    with ScriptedModel([Call("terminal", {"command": "true"}), Say("Done.")]) as model:
        session = asyncio.run(main())
    series = seen(metrics)
    assert series["melete_runs_total{stop=done}{surface=api}"] == 1
    assert series["melete_runs_active"] == 0
    assert series["melete_run_seconds_count{surface=api}"] == 1
    assert series["melete_steps_total"] == 2
    assert series["melete_tool_calls_total{outcome=ok}{tool=terminal}"] == 1
    assert series["melete_tool_seconds_count{tool=terminal}"] == 1
    models = {name for name in series if name.startswith("melete_model_seconds_count")}
    assert len(models) == 1
    assert series[models.pop()] == 2
    assert sum(value for name, value in series.items() if name.startswith("melete_tokens_total{class=input}")) > 0
    assert sum(value for name, value in series.items() if name.startswith("melete_cost_usd_total")) > 0
    _, body = metrics.render()
    assert session not in body.decode()
    assert "private" not in body.decode()


def test_every_kind_of_token_is_counted_and_unknown_prices_are_not_nothing() -> None:
    metrics = Metrics()
    usage = Usage(input=1, output=20, cache_read=300, cache_write=4000, reasoning=5)
    told(metrics, Spent(usage=usage, model="m", usd=0.25), Spent(usage=Usage(input=9), model="n", role="title"))
    series = seen(metrics)
    assert series["melete_tokens_total{class=input}{model=m}"] == 1
    assert series["melete_tokens_total{class=output}{model=m}"] == 20
    assert series["melete_tokens_total{class=cache_read}{model=m}"] == 300
    assert series["melete_tokens_total{class=cache_write}{model=m}"] == 4000
    assert series["melete_tokens_total{class=reasoning}{model=m}"] == 5
    assert series["melete_cost_usd_total{model=m}"] == 0.25
    assert series["melete_unpriced_requests_total{model=n}"] == 1
    assert "melete_cost_usd_total{model=n}" not in series
    assert "melete_unpriced_requests_total{model=m}" not in series


def test_replies_and_tries_have_their_times_and_causes() -> None:
    metrics = Metrics()
    told(
        metrics,
        Retried(attempt=1, cause="RateLimitError", reason="slow down", delay=1.0),
        Retried(attempt=2, cause="RateLimitError", reason="slow down", delay=2.0),
        reply(seconds=3.0, first_token_seconds=0.4),
        reply(seconds=1.0),  # one that did not say when it began
        Notice(text="nothing that is counted"),
    )
    series = seen(metrics)
    assert series["melete_retries_total{cause=RateLimitError}"] == 2
    assert series["melete_model_seconds_sum{model=m}"] == 4.0
    assert series["melete_model_seconds_count{model=m}"] == 2
    assert series["melete_first_token_seconds_count{model=m}"] == 1
    assert series["melete_first_token_seconds_bucket{le=0.5}{model=m}"] == 1
    assert series["melete_first_token_seconds_bucket{le=0.25}{model=m}"] == 0


def test_runs_are_active_from_their_beginning_to_their_end() -> None:
    metrics = Metrics()
    told(metrics, RunStarted(surface="api"), session="a")
    told(metrics, RunStarted(surface="cron"), session="b")
    assert seen(metrics)["melete_runs_active"] == 2
    told(metrics, RunEnded(stop="cancelled", seconds=2.0), session="a")
    series = seen(metrics)
    assert series["melete_runs_active"] == 1
    assert series["melete_runs_total{stop=cancelled}{surface=api}"] == 1
    assert series["melete_run_seconds_sum{surface=api}"] == 2.0


def test_the_first_failure_of_all_is_an_increase() -> None:
    series = seen(Metrics())
    for stop in ("failed", "out_of_budget", "looping", "done"):
        assert series[f"melete_runs_total{{stop={stop}}}{{surface=api}}"] == 0


def test_a_run_whose_end_could_not_be_stored_is_not_active_for_good() -> None:
    metrics = Metrics()
    told(metrics, RunStarted(), RunStarted())
    assert seen(metrics)["melete_runs_active"] == 1
    told(metrics, RunEnded(stop="done"))
    assert seen(metrics)["melete_runs_active"] == 0


def test_an_end_given_to_a_run_of_an_earlier_process_is_counted_without_a_time() -> None:
    metrics = Metrics()
    told(metrics, RunEnded(stop="failed", seconds=7.0))
    series = seen(metrics)
    assert series["melete_runs_total{stop=failed}{surface=unknown}"] == 1
    assert series["melete_runs_active"] == 0
    assert not [name for name in series if name.startswith("melete_run_seconds_count")]


def test_the_time_of_a_call_is_that_of_its_work_and_not_of_the_person_who_was_asked() -> None:
    metrics = Metrics()
    told(
        metrics,
        RunStarted(),
        call("1", "terminal", after=60.0),  # a person thought for a minute
        result("1", "terminal", after=62.0, seconds=62.0),
        result("2", "terminal", "denied", after=90.0, seconds=28.0),
        call("3", "terminal", after=100.0),
        result("3", "terminal", "cancelled", after=400.0, seconds=300.0),
    )
    series = seen(metrics)
    assert series["melete_tool_seconds_sum{tool=terminal}"] == 2.0
    assert series["melete_tool_seconds_count{tool=terminal}"] == 1
    for outcome in ("ok", "denied", "cancelled"):
        assert series[f"melete_tool_calls_total{{outcome={outcome}}}{{tool=terminal}}"] == 1


def test_tools_that_a_model_makes_up_take_no_names_away() -> None:
    metrics = Metrics()
    told(metrics, RunStarted(), *(result(str(n), f"invented_{n}", "error") for n in range(MOST_NAMES * 3)))
    told(metrics, result("refused", "patch", "denied"), call("real", "terminal"), result("real", "terminal"))
    series = seen(metrics)
    assert series["melete_tool_calls_total{outcome=error}{tool=other}"] == MOST_NAMES * 3
    assert series["melete_tool_calls_total{outcome=ok}{tool=terminal}"] == 1
    assert series["melete_tool_calls_total{outcome=denied}{tool=patch}"] == 1
    assert not [name for name in series if "invented" in name]


def test_questions_are_open_until_they_are_answered() -> None:
    metrics = Metrics()
    told(metrics, RunStarted())
    questions = (Question(id="q1", kind="approval", text="?"), Question(id="q2", kind="clarify", text="?"))
    told(metrics, *(Asked(question=question) for question in questions))
    told(metrics, Asked(question=Question(id="q3", kind="approval", text="?")))
    assert seen(metrics)["melete_questions_open"] == 3
    told(metrics, Answered(question="q1"), Answered(question="q1", status="lost"))
    told(metrics, Answered(question="q2", status="timeout"), Answered(question="gone", status="expired"))
    series = seen(metrics)
    assert series["melete_questions_open"] == 1
    assert series["melete_questions_total{kind=approval}{status=accepted}"] == 1
    assert series["melete_questions_total{kind=clarify}{status=timeout}"] == 1
    assert series["melete_questions_total{kind=unknown}{status=lost}"] == 1
    assert series["melete_questions_total{kind=unknown}{status=expired}"] == 1
    told(metrics, RunEnded(stop="done"))
    assert seen(metrics)["melete_questions_open"] == 0


def test_requests_streams_jobs_and_warm_sessions() -> None:
    metrics = Metrics()
    metrics.request("POST", "/v1/runs/{id}/steer", 202, 0.02)
    metrics.request("BREW", "", 418, 0.001)
    metrics.request("GET", "/health", 9999, 0.001)
    metrics.job("ok")
    metrics.job("skipped")
    metrics.watch_warm(lambda: 12)
    with metrics.stream(), metrics.stream():
        assert seen(metrics)["melete_http_streams_active"] == 2
    series = seen(metrics)
    assert series["melete_http_streams_active"] == 0
    assert series["melete_http_requests_total{method=POST}{route=/v1/runs/{id}/steer}{status=202}"] == 1
    assert series["melete_http_requests_total{method=other}{route=unknown}{status=418}"] == 1
    assert series["melete_http_requests_total{method=GET}{route=/health}{status=other}"] == 1
    assert series["melete_http_seconds_bucket{le=0.025}{method=POST}{route=/v1/runs/{id}/steer}"] == 1
    assert series["melete_jobs_total{status=ok}"] == 1
    assert series["melete_jobs_total{status=skipped}"] == 1
    assert series["melete_sessions_warm"] == 12


def test_a_stream_that_breaks_off_is_open_no_more() -> None:
    metrics = Metrics()
    with pytest.raises(ConnectionError), metrics.stream():
        raise ConnectionError
    assert seen(metrics)["melete_http_streams_active"] == 0


def test_the_process_and_the_version_are_told() -> None:
    series = seen(Metrics())
    assert series[f"melete_build_info{{version={__version__}}}"] == 1
    assert series["process_resident_memory_bytes"] > 1_000_000
    assert series["process_open_fds"] >= 3
    assert 0 < series["process_start_time_seconds"] <= datetime.now(UTC).timestamp() + os.sysconf("SC_CLK_TCK")


def test_the_form_is_the_one_that_is_asked_for() -> None:
    metrics = Metrics()
    told(metrics, RunStarted(), reply(seconds=1.0, first_token_seconds=0.1), RunEnded(stop="done"))
    plain, text = metrics.render("text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
    other, openmetrics = metrics.render(f"{OPENMETRICS},text/plain;q=0.5")
    assert plain.startswith("text/plain")
    assert other.startswith("application/openmetrics-text")
    assert openmetrics.endswith(b"# EOF\n")
    assert not text.endswith(b"# EOF\n")
    names = {family.name for family in parse_openmetrics(openmetrics.decode())}
    assert {"melete_runs", "melete_model_seconds", "melete_build"} <= names
    assert b"_created" not in text + openmetrics
    assert metrics.render()[0].startswith("text/plain")


def test_two_servers_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    told(one, RunStarted())
    assert (seen(one)["melete_runs_active"], seen(other)["melete_runs_active"]) == (1, 0)


def test_names_beyond_the_bound_are_other() -> None:
    names = Names(most=2)
    assert [names.of(name) for name in ("a", "b", "c", "a", "")] == ["a", "b", "other", "a", "unknown"]
    assert Names().of("x" * (LONGEST_NAME + 1)) == "other"


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=150), max_size=20))
@example(["\ud800", "a\nb", 'quo"te', "back\\slash", "\0"])
def test_whatever_a_provider_calls_its_model_a_scrape_can_be_read(models: list[str]) -> None:
    metrics = Metrics()
    told(metrics, *(reply(model, seconds=1.0) for model in models))
    series = seen(metrics)
    counted = [value for name, value in series.items() if name.startswith("melete_model_seconds_count")]
    assert sum(counted) == len(models)
    assert b"# EOF" in metrics.render(OPENMETRICS)[1]
