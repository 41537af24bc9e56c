"""`agent.ephemeral_prompt` and `agent.prefill`: in every request of every wire, and nowhere in the home afterwards."""

from pathlib import Path

import msgspec
import pytest

from melete.testing import Call, Fault, Say, ScriptedModel
from tests.story.cli import melete
from tests.story.homes import WIRES, at, configure, holders

UNSEEN = "Speak like a lighthouse keeper, unseen-7731."
ASKED, SAID = "Who keeps the lamp, unseen-7732?", "I keep it, unseen-7733."


@pytest.mark.parametrize("wire", WIRES)
def test_on_every_wire(wire: str, tmp_path: Path, own_home: Path) -> None:
    script = [Call("terminal", {"command": "true"}, thinking="Hm."), Fault("server_error"), Say("Done."), Say("Again.")]
    with ScriptedModel(script) as model:
        home = configure(
            own_home,
            model=at(model, wire=wire, name="m"),
            agent={"ephemeral_prompt": UNSEEN, "prefill": "ahead.json"},
        )
        ahead = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": SAID}]
        (home / "ahead.json").write_bytes(msgspec.json.encode(ahead))
        first = melete("--debug", "run", "-v", "the first word", cwd=tmp_path)
        second = melete("run", "-c", "the second word", cwd=tmp_path)
    assert (first.stdout, second.stdout) == ("Done.\n", "Again.\n"), first.stderr + second.stderr
    assert len(model.requests) == 4
    for request in model.requests:
        text = request.body.decode()
        places = [text.index(words) for words in (ASKED, SAID, "the first word")]
        assert places == sorted(places)
        assert text.count(UNSEEN) == text.count(ASKED) == text.count(SAID) == 1
    (home / "ahead.json").unlink()
    (home / "config.yaml").unlink()
    for words in ("unseen-7731", "unseen-7732", "unseen-7733"):
        assert not holders(home, words)
        assert words not in first.stderr


def test_a_prefill_that_cannot_be_used_is_told_before_anything_is_asked(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel() as model:
        home = configure(own_home, model=at(model, name="m"), agent={"prefill": "ahead.json"})
        gone = melete("run", "go", cwd=tmp_path)
        (home / "ahead.json").write_text('[{"role": "system", "content": "x"}]')
        wrong = melete("run", "go", cwd=tmp_path)
    assert (gone.returncode, wrong.returncode, model.requests) == (2, 2, [])
    assert "the prefill file ahead.json cannot be read" in gone.stderr
    assert "is not a list of messages" in wrong.stderr
    assert melete("sessions", "list", "--json").stdout == ""
