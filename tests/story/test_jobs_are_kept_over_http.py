"""`/api/jobs` of a real server: jobs are made, changed, paused, run and removed, and a key sees its own only."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from melete.testing import Fault, ScriptedModel
from tests.served import Served, served
from tests.story.cli import melete
from tests.story.homes import configure

DRAFT = {"name": "Report", "prompt": "Sum it up.", "schedule": "0 9 * * MON-FRI"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all."""
    person = tmp_path_factory.mktemp("person")
    with (
        ScriptedModel(lambda request, number: f"Answer {number}.") as model,
        served(person, model, env={"MELETE_SERVER_KEY": OWN}) as found,
    ):
        yield found


OWN = "own-key-7Q2xVb9LmT4"


def ask(
    server: Served, method: str, path: str, json: Any = None, *, key: str = OWN, status: int = 200, **headers: str
) -> Any:
    """The answer to a request, whose status is as expected."""
    given = {"authorization": f"Bearer {key}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    answer = server.client.request(method, path, json=json, headers=given)
    assert answer.status_code == status, answer.text
    return answer.json()


def made(server: Served, **fields: Any) -> dict[str, Any]:
    return ask(server, "POST", "/api/jobs", {**DRAFT, **fields}, status=201)


def test_a_job_is_made_read_changed_and_removed(server: Served) -> None:
    job = made(server, enabled=False)
    assert (job["state"], job["enabled"], job["next_run_at"]) == ("paused", False, None)
    assert job["display"].startswith("At 09:00 on Monday through Friday")
    one = f"/api/jobs/{job['id']}"
    assert ask(server, "GET", one) == job
    assert job in ask(server, "GET", "/api/jobs")["jobs"]
    changed = ask(server, "PATCH", one, {"name": "Other", "catch_up": 60})
    assert (changed["name"], changed["prompt"], changed["catch_up"]) == ("Other", "Sum it up.", 60.0)
    assert ask(server, "PATCH", one, {"catch_up": None})["catch_up"] is None
    assert ask(server, "POST", f"{one}/resume")["state"] == "scheduled"
    paused = ask(server, "POST", f"{one}/pause", {"reason": "holiday"})
    assert (paused["state"], paused["paused_reason"]) == ("paused", "holiday")
    assert ask(server, "DELETE", one) == {"id": job["id"], "deleted": True}
    assert ask(server, "GET", one, status=404)["error"]["code"] == "job_not_found"


@pytest.mark.parametrize(
    ("fields", "status", "code", "param"),
    [
        ({"schedule": "now and then"}, 422, "invalid_schedule", "schedule"),
        ({"deliver": "telegram"}, 422, "invalid_job", None),
        ({"skills": ["cooking"]}, 422, "invalid_job", None),
        ({"toolsets": ["nails"]}, 422, "invalid_configuration", None),
        ({"timeout": -1}, 400, "invalid_request", "timeout"),
        ({"nmae": "x"}, 400, "invalid_request", None),
        ({"prompt": 7}, 400, "invalid_request", "prompt"),
    ],
)
def test_what_cannot_be_is_refused(
    server: Served, fields: dict[str, Any], status: int, code: str, param: str | None
) -> None:
    before = ask(server, "GET", "/api/jobs")
    error = ask(server, "POST", "/api/jobs", {**DRAFT, **fields}, status=status)["error"]
    assert (error["code"], error["param"]) == (code, param)
    assert ask(server, "GET", "/api/jobs") == before
    job = made(server, enabled=False)
    ask(server, "PATCH", f"/api/jobs/{job['id']}", fields, status=status)
    assert ask(server, "GET", f"/api/jobs/{job['id']}") == job


def test_a_job_runs_when_it_is_told_to_and_its_history_says_so(server: Served) -> None:
    job = made(server, enabled=False)
    one = f"/api/jobs/{job['id']}"
    begun = ask(server, "POST", f"{one}/run", status=202)
    assert (begun["how"], begun["status"]) == ("now", "started")
    assert server.ended(begun["run"], key=OWN)["status"] == "done"
    rows = history(server, one, 1)
    assert (rows[0]["status"], rows[0]["session"], rows[0]["run"]) == ("ran", begun["session"], begun["run"])
    output = (server.melete / "cron" / rows[0]["output"]).read_text()
    assert "Answer" in output
    assert ask(server, "GET", f"{one}/history?before={rows[0]['id']}")["occurrences"] == []
    ask(server, "GET", f"{one}/history?limit=0", status=400)


def history(server: Served, one: str, count: int) -> list[dict[str, Any]]:
    """The history once so many occurrences have ended."""
    while True:
        rows = ask(server, "GET", f"{one}/history")["occurrences"]
        if sum(row["status"] != "started" for row in rows) >= count:
            return rows


def at_rest(server: Served, one: str) -> dict[str, Any]:
    """The job once it does not run any more; the row of its end is stored a moment before."""
    while (found := ask(server, "GET", one))["state"] == "running":
        continue
    return found


def test_a_request_that_is_sent_again_does_nothing_twice(server: Served) -> None:
    jobs = [ask(server, "POST", "/api/jobs", DRAFT, status=201, Idempotency_Key="make-1") for _ in range(2)]
    assert jobs[0] == jobs[1]
    one = f"/api/jobs/{jobs[0]['id']}"
    begun = [ask(server, "POST", f"{one}/run", status=202, Idempotency_Key="run-1") for _ in range(2)]
    assert begun[0]["run"] == begun[1]["run"]
    history(server, one, 1)
    again = ask(server, "POST", f"{one}/run", status=202, Idempotency_Key="run-1")
    assert (again["run"], again["status"]) == (begun[0]["run"], "ran")
    assert len(history(server, one, 1)) == 1


def test_a_job_runs_when_it_is_due(server: Served) -> None:
    job = made(server, schedule="1s")
    (row,) = history(server, f"/api/jobs/{job['id']}", 1)
    assert (row["status"], row["how"]) == ("ran", "schedule")
    one = f"/api/jobs/{job['id']}"
    assert at_rest(server, one)["state"] == "finished"


def test_a_key_sees_its_own_jobs_only(server: Served) -> None:
    keys = [
        melete("serve", "keys", "add", name, "--scope", scope, MELETE_HOME=str(server.melete)).stdout.strip()
        for name, scope in (("a", "jobs"), ("b", "jobs"), ("c", "chat"))
    ]
    job = ask(server, "POST", "/api/jobs", DRAFT, key=keys[0], status=201)
    one = f"/api/jobs/{job['id']}"
    assert job["owner"] == "key:a"
    assert ask(server, "GET", "/api/jobs", key=keys[0])["jobs"] == [job]
    assert job in ask(server, "GET", "/api/jobs")["jobs"]
    assert ask(server, "GET", "/api/jobs", key=keys[1])["jobs"] == []
    for method, path, body in (
        ("GET", one, None),
        ("PATCH", one, {"name": "x"}),
        ("DELETE", one, None),
        ("POST", f"{one}/pause", {}),
        ("POST", f"{one}/resume", None),
        ("POST", f"{one}/run", None),
        ("GET", f"{one}/history", None),
    ):
        ask(server, method, path, body, key=keys[1], status=404)
        ask(server, method, path, body, key=keys[2], status=403)
    assert ask(server, "GET", one, key=keys[0]) == job


def test_jobs_are_there_after_a_restart(tmp_path: Path) -> None:
    with ScriptedModel() as model:
        with served(tmp_path / "person", model) as first:
            job = ask(first, "POST", "/api/jobs", DRAFT, status=201)
        with served(tmp_path / "person", model) as second:
            assert ask(second, "GET", "/api/jobs")["jobs"] == [job]


@pytest.mark.parametrize("way", ["told to stop", "killed"])
def test_a_run_that_the_end_of_the_server_cut_off_is_in_the_history_and_not_done_again(
    tmp_path: Path, way: str
) -> None:
    person = tmp_path / "person"
    person.mkdir()
    configure(person, server={"drain_seconds": 0})
    with ScriptedModel([Fault("stall", seconds=600.0)]) as model:
        with served(person, model) as first:
            job = ask(first, "POST", "/api/jobs", {**DRAFT, "enabled": False}, status=201)
            one = f"/api/jobs/{job['id']}"
            begun = ask(first, "POST", f"{one}/run", status=202)
            if way == "killed":
                first.kill()
        with served(person, model) as second:
            (row,) = history(second, one, 1)
            assert (row["id"], row["status"], row["run"]) == (begun["id"], "interrupted", begun["run"])
            assert at_rest(second, one)["state"] == "paused"
        assert len(model.requests) <= 1
