"""`melete sessions replay`: what was recorded is made again without a model, and a changed byte of it is found and named."""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from benchmarks.replay import WIRES, compare
from benchmarks.shapes import SHAPES, Recorded, Shape, record

from melete import load
from melete.app.clock import SystemClock
from melete.app.replay import Runs
from melete.core.event import Fact, RunStarted
from melete.core.session import SessionRef
from melete.store import open_store
from melete.store.record import line, scan, seed
from melete.testing import Call, Calls, Say
from tests.story.cli import lines, melete

TWO_RUNS = Shape(
    name="two runs",
    script=[
        Call("terminal", {"command": "echo one"}, thinking="Let me look."),
        Calls([Call("read_file", {"path": "0.txt"}), Call("read_file", {"path": "1.txt"})], text="And these."),
        Say("Done with the first."),
        Say("Done with the second."),
    ],
    says=("Go.", "Again."),
)


def environ() -> dict[str, str]:
    """The variables that lead to the test's home."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "MELETE_HOME", "MELETE_ENV")}


def recorded(folder: Path, shape: Shape = TWO_RUNS, wire: str = "openai-chat") -> Recorded:
    return asyncio.run(record(shape, folder / "work", wire=wire, environ=environ()))


def log_of(session: SessionRef) -> Path:
    return load(environ=environ()).home.state / "sessions" / f"{session.id}.log"


def facts_of(session: SessionRef) -> Sequence[Fact]:
    async def read() -> Sequence[Fact]:
        store = open_store(log_of(session).parent.parent, clock=SystemClock())
        try:
            return await store.facts(session)
        finally:
            await store.aclose()

    return asyncio.run(read())


def rewrite(session: SessionRef, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the facts in a log, with checksums that are right again."""
    path = log_of(session)
    start, made = seed(path.stem), b""
    for found in scan(path.read_bytes(), start).records:
        fact = msgspec.json.decode(found.body)
        change(fact)
        made += line(msgspec.json.encode(fact), start)
    path.write_bytes(made)


@pytest.mark.parametrize(("number", "shape"), list(enumerate(SHAPES)), ids=[shape.name for shape in SHAPES])
def test_every_shape_of_run_comes_out_equal_wherever_its_recording_ends(
    number: int, shape: Shape, tmp_path: Path
) -> None:
    one = recorded(tmp_path, shape, list(WIRES)[number % len(WIRES)])
    found = asyncio.run(compare(load(environ=environ()).home.state, [one]))
    assert not found.wrong
    assert found.total.equal
    assert found.lines == found.total.facts > 0
    assert not found.total.unrecorded
    asyncio.run(play_beginnings(facts_of(one.session)[:60]))


async def play_beginnings(facts: Sequence[Fact]) -> None:
    """As after a kill: wherever the recording ends, all that there is comes out equal."""
    for count in range(1, len(facts) + 1):
        async for played in Runs(facts[:count]).play():
            assert played.difference is None
            assert len(played.facts) == sum(fact.run == played.run for fact in facts[:count])


def test_the_command_shows_the_run_again_and_says_that_it_is_equal(tmp_path: Path) -> None:
    session = recorded(tmp_path).session.id  # its model is gone by now
    shown = melete("sessions", "replay", session, "--speed", "1000")
    assert shown.returncode == 0, shown.stderr
    text = shown.stdout
    places = [
        text.index(words) for words in ("Go.", "echo one", "And these.", "Done with the first.", "Again.", "replayed")
    ]
    assert places == sorted(places)
    assert text.splitlines()[-1].startswith("replayed 4 steps, ")
    assert text.splitlines()[-1].endswith(" facts, 4 requests: equal byte for byte")
    quiet = melete("sessions", "replay", session, "-q")
    assert quiet.stdout.splitlines() == text.splitlines()[-1:]


def test_as_json_the_facts_are_the_stored_ones(tmp_path: Path) -> None:
    session = recorded(tmp_path).session
    *facts, ended = lines(melete("sessions", "replay", session.id, "--json").stdout)
    stored = lines(melete("sessions", "show", session.id, "--json").stdout)
    assert facts == [fact for fact in stored if fact["run"]]
    assert (ended["type"], ended["equal"], ended["first_difference"]) == ("replay.ended", True, None)
    assert (ended["runs"], ended["steps"], ended["requests"], ended["facts"]) == (2, 4, 4, len(facts))


def test_one_run_or_some_steps(tmp_path: Path) -> None:
    session = recorded(tmp_path).session
    second = [fact.run for fact in facts_of(session)][-1]
    for words in (("--run", second[:6]), ("--step", "4")):
        *facts, ended = lines(melete("sessions", "replay", session.id, "--json", *words).stdout)
        assert {fact["run"] for fact in facts} == {second}
        assert (ended["runs"], ended["steps"]) == (1, 1)
    shown = melete("sessions", "replay", session.id, "--step", "2").stdout
    assert "[2]" in shown
    assert "1.txt" in shown
    assert "echo one" not in shown
    assert "Again." not in shown


def test_all_sessions_are_checked(tmp_path: Path) -> None:
    one, other = recorded(tmp_path / "1"), recorded(tmp_path / "2")
    assert melete("sessions", "replay", "--all").stdout.startswith("replayed 2 sessions, 8 steps, ")

    def change(fact: dict[str, Any]) -> None:
        if fact["type"] == "reply":
            fact["message"]["parts"][0]["text"] = "Other words."

    rewrite(other.session, change)
    done = melete("sessions", "replay", "--all")
    assert done.returncode == 1
    assert other.session.id in done.stdout
    assert one.session.id not in done.stdout
    *each, total = lines(melete("sessions", "replay", "--all", "--json").stdout)
    assert {row["session"]: row["equal"] for row in each} == {one.session.id: True, other.session.id: False}
    assert (total["equal"], total["sessions"]) == (False, 2)


def reply_text(fact: dict[str, Any]) -> None:
    if fact["type"] == "reply" and fact["message"]["parts"][0]["type"] == "text":
        fact["message"]["parts"][0]["text"] += "!"


def wire_body(fact: dict[str, Any]) -> None:
    if fact["type"] == "reply" and "echo one" in str(fact):
        fact["message"]["wire"]["body"]["tool_calls"][0]["function"]["arguments"] = '{"command": "echo two"}'


def tool_result(fact: dict[str, Any]) -> None:
    if fact["type"] == "tool.ended" and fact["result"]["name"] == "terminal":
        fact["result"]["content"] = fact["result"]["content"].replace("one", "two")


def arguments(fact: dict[str, Any]) -> None:
    if fact["type"] == "tool.started" and fact["call"]["name"] == "terminal":
        fact["call"]["arguments"] = '{"command":"echo two"}'


def system_text(fact: dict[str, Any]) -> None:
    if fact["type"] == "session.framed":
        fact["system"][0] = "x" + fact["system"][0]


def tool_schema(fact: dict[str, Any]) -> None:
    if fact["type"] == "session.framed":
        fact["tools"][0]["about"] += "x"


def prompt(fact: dict[str, Any]) -> None:
    if fact["type"] == "message" and fact["message"]["parts"][0]["text"] == "Again.":
        fact["message"]["parts"][0]["text"] = "Once more."


def last_words(fact: dict[str, Any]) -> None:
    if fact["type"] == "run.ended":
        fact["text"] += " Really."


def bill(fact: dict[str, Any]) -> None:
    if fact["type"] == "spent":
        fact["usage"]["output"] += 1


def order(fact: dict[str, Any]) -> None:
    if fact["type"] == "tool.started" and fact["call"]["name"] == "read_file":
        fact["call"]["id"] = "call_1_0" if fact["call"]["id"] == "call_1_1" else "call_1_1"


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (reply_text, "reply", "request 3 of the run was not made of what the log holds now: messages 4 to 5"),
        (wire_body, "reply", "request 2 of the run was not made of what the log holds now: messages 2 to 3"),
        (tool_result, "reply", "request 2 of the run was not made of what the log holds now: messages 2 to 3"),
        (prompt, "reply", "request 1 of the run was not made of what the log holds now: message"),
        (system_text, "reply", "request 1 of the run was not made of what the log holds now: system text"),
        (tool_schema, "reply", "request 1 of the run was not made of what the log holds now: tools"),
        (
            arguments,
            "tool.started",
            'at call.arguments: the loop makes another one\n  recorded: {"command":"echo two"}',
        ),
        (last_words, "run.ended", "at text: the loop makes another one\n  recorded: Done with the first. Really."),
        (bill, "spent", "at usage.output: the loop makes another one"),
        (order, "tool.started", "at call."),
    ],
)
def test_a_changed_byte_is_found_and_named(
    change: Callable[[dict[str, Any]], None], kind: str, words: str, tmp_path: Path
) -> None:
    session = recorded(tmp_path).session
    rewrite(session, change)
    done = melete("sessions", "replay", session.id, "-q")
    assert done.returncode == 1
    assert f"({kind})" in done.stdout
    assert words in done.stdout
    (ended,) = lines(melete("sessions", "replay", session.id, "-q", "--json").stdout)
    assert (ended["equal"], ended["first_difference"]["type"]) == (False, kind)


def test_a_fact_that_is_missing_is_found(tmp_path: Path) -> None:
    stored = [fact for fact in facts_of(recorded(tmp_path).session) if fact.run]

    async def difference(facts: Sequence[Fact]) -> str:
        return "".join([played.difference.what async for played in Runs(facts).play() if played.difference])

    last = {fact.run: fact.seq for fact in stored}
    for at, fact in enumerate(stored):
        if fact.seq not in last.values() and not isinstance(fact, RunStarted):
            found = asyncio.run(difference([*stored[:at], *stored[at + 1 :]]))
            assert f"fact {fact.seq} is missing" in found, fact


def test_a_log_without_checksums_is_compared_as_far_as_it_goes(tmp_path: Path) -> None:
    session = recorded(tmp_path).session

    def change(fact: dict[str, Any]) -> None:
        fact.pop("asked", None)

    rewrite(session, change)
    done = melete("sessions", "replay", session.id, "-q")
    assert done.returncode == 0
    assert "0 requests: equal byte for byte" in done.stdout
    assert "4 requests were not compared: the log holds no checksum of them" in done.stdout


def test_settings_of_today_do_not_matter(tmp_path: Path) -> None:
    session = recorded(tmp_path).session.id
    done = melete(
        "sessions", "replay", session, "-q", MELETE_MODEL="another", MELETE_WIRE="gemini", MELETE_CONTEXT_LENGTH="9000"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_requests_are_rebuilt_from_the_log(tmp_path: Path) -> None:
    one = recorded(tmp_path)
    file = tmp_path / "requests.jsonl"
    assert melete("sessions", "replay", one.session.id, "-q", "--requests", str(file)).returncode == 0
    made = lines(file.read_text())
    assert [row["type"] for row in made] == ["request"] * 4
    assert [row["body"]["messages"] for row in made] == [sent["messages"] for sent in one.sent.values()]
    assert [len(row["messages"]) for row in made] == [1, 3, 5, 7]
    wrong = melete("sessions", "replay", one.session.id, "--requests", str(tmp_path / "none" / "file"))
    full = melete("sessions", "replay", one.session.id, "-q", "--requests", "/dev/full")
    for done in (wrong, full):
        assert done.returncode == 2
        assert "cannot write" in done.stderr


def test_a_fork_leaves_what_it_copied_to_its_original(tmp_path: Path) -> None:
    shape = next(shape for shape in SHAPES if shape.name == "forked")
    session = recorded(tmp_path, shape).session.id
    done = melete("sessions", "replay", session, "-q")
    assert done.returncode == 0
    assert "a run is a copy that a fork holds: replay the original, while it is there, to make it again" in done.stdout
    original = melete("sessions", "replay", "--all")
    assert original.stdout.startswith("replayed 2 sessions, 4 steps, "), original.stdout


def test_what_cannot_be_made_again_is_said(tmp_path: Path) -> None:
    session = recorded(tmp_path).session.id
    for words, said in (
        ([], "it is not clear which sessions are meant"),
        ([session, "--all"], "it is not clear which sessions are meant"),
        (["--all", "--step", "1"], "go with one session"),
        ([session, "--run", "a", "--step", "1"], "both choose runs"),
        ([session, "--run", "zzz"], "the session has no run 'zzz'; its runs: "),
        ([session, "--step", "9"], "there is no step 9"),
        (["nowhere"], "'nowhere'"),
    ):
        done = melete("sessions", "replay", *words)
        assert done.returncode == 2
        assert said in done.stderr
        assert "Traceback" not in done.stderr
