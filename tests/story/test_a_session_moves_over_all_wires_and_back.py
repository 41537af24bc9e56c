"""One session asked over four wires in turn: nothing is lost, and thoughts go back only to the model that had them."""

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from melete.testing import Call, Say, ScriptedModel
from tests.story.cli import Terminal, lines, melete
from tests.story.homes import WIRES, at, configure, of_type

ORDER = (*WIRES, *WIRES)
Models = Mapping[str, ScriptedModel]


@pytest.fixture
def models(own_home: Path) -> Iterator[Models]:
    """A server for each wire, under the wire's name as a provider; each answers two runs of a call and an answer."""
    with ExitStack() as stack:
        made = {wire: stack.enter_context(ScriptedModel(script(wire))) for wire in WIRES}
        configure(
            own_home,
            model={"name": f"a-{WIRES[0]}/m"},
            providers={f"a-{wire}": at(model, wire=wire) for wire, model in made.items()},
        )
        yield made


def script(wire: str) -> list[Call | Say]:
    made: list[Call | Say] = []
    for turn in (1, 2):
        made += [
            Call("terminal", {"command": f"echo out-$((40+{turn}))-{wire}"}, thinking=f"think-{wire}-{turn}"),
            Say(f"said-{wire}-{turn}", thinking=f"muse-{wire}-{turn}"),
        ]
    return made


def everything_is_there(models: Models) -> None:
    """Every request holds, in order, every text, call and result of the session so far, and only its own thoughts."""
    seen = {wire: 0 for wire in WIRES}
    told: list[str] = []
    thought: list[tuple[str, str]] = []
    for number, wire in enumerate(ORDER):
        turn = seen[wire] // 2 + 1
        told.append(f"asked-{number}.")
        for step in ([f"echo out-$((40+{turn}))-{wire}", f"out-{40 + turn}-{wire}\\\\n"], [f"said-{wire}-{turn}"]):
            request = models[wire].requests[seen[wire]]
            text = request.body.decode()
            assert in_order(text, told), (number, wire)
            own = [words for where, words in thought if where == wire]
            assert in_order(text, own), (number, wire, own)
            assert not [words for where, words in thought if where != wire and words in text]
            paired(text)
            told += step
            thought.append((wire, f"{'muse' if len(step) == 1 else 'think'}-{wire}-{turn}"))
            seen[wire] += 1


def in_order(text: str, wanted: list[str]) -> bool:
    at = 0
    for words in wanted:
        at = text.find(words.replace("\\\\n", ""), at)
        if at < 0:
            return False
    return True


def paired(text: str) -> None:
    """No note of the runtime that a call has no result or a result no call."""
    assert "never carried out" not in text
    assert "result of a call that is not shown" not in text


def test_run_by_run(models: Models, tmp_path: Path) -> None:
    for number, wire in enumerate(ORDER):
        words = ["run", "--json", *(["-c"] if number else []), "-m", f"a-{wire}/m", f"asked-{number}."]
        done = melete(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        events = lines(done.stdout)
        assert of_type(events, "run.ended")[0]["text"] == f"said-{wire}-{1 + number // 4}"
        assert not of_type(events, "retried")
        assert {row["provider"] for row in of_type(events, "spent")} == {f"a-{wire}"}
    assert {wire: len(model.requests) for wire, model in models.items()} == dict.fromkeys(WIRES, 4)
    everything_is_there(models)


def test_in_one_chat(models: Models, tmp_path: Path) -> None:
    with Terminal(["chat"], cwd=tmp_path) as terminal:
        for number, wire in enumerate(ORDER):
            terminal.read_until("> ")
            terminal.type(f"/model a-{wire}/m\r")
            terminal.read_until(f"From now on a-{wire}/m answers.")
            terminal.type(f"asked-{number}.\r")
            terminal.read_until(f"said-{wire}-{1 + number // 4}")
        terminal.read_until("> ")
        terminal.type("/exit\r")
        assert terminal.end() == 0
    everything_is_there(models)


def test_signatures_and_sealed_thoughts_go_back_byte_for_byte(models: Models, tmp_path: Path) -> None:
    """What only the vendor can read is in the second visit as it was given in the first."""
    for number, wire in enumerate(ORDER):
        words = ["run", *(["-c"] if number else []), "-m", f"a-{wire}/m", f"asked-{number}."]
        assert melete(*words, cwd=tmp_path).returncode == 0
    sealed = {
        "openai-responses": r'"encrypted_content":"[^"]+"',
        "anthropic-messages": r'"signature":"[^"]+"',
        "gemini": r'"thoughtSignature":"[^"]+"',
        "openai-chat": r'"reasoning_content":"[^"]+"',
    }
    for wire, model in models.items():
        first, *_, last = (re.findall(sealed[wire], request.body.decode()) for request in model.requests)
        assert first == []
        assert len(last) >= 3
        for other in WIRES:
            if other not in (wire, "openai-chat"):
                assert not re.findall(sealed[other], model.requests[-1].body.decode())


def test_thoughts_of_one_provider_are_not_shown_to_another_of_the_same_wire(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(script("x")) as one, ScriptedModel(script("y")) as two:
        places: dict[str, Any] = {"one": at(one, wire="anthropic-messages"), "two": at(two, wire="anthropic-messages")}
        configure(own_home, model={"name": "one/m"}, providers=places)
        assert melete("run", "asked-0.", cwd=tmp_path).returncode == 0
        assert melete("run", "-c", "-m", "two/m", "asked-1.", cwd=tmp_path).returncode == 0
        assert melete("run", "-c", "-m", "one/m", "asked-2.", cwd=tmp_path).returncode == 0
    there, back = two.requests[0].body.decode(), one.requests[2].body.decode()
    assert "said-x-1" in there
    assert "think-x-1" not in there
    assert "signature" not in there
    assert "think-x-1" in back
    assert "think-y-1" not in back
