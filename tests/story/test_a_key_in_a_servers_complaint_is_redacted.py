"""A server that names another key in its complaint than the one it was sent: the key is taken out of all that is kept."""

from pathlib import Path

from melete.testing import Fault, ScriptedModel
from tests.story.cli import melete
from tests.story.homes import at, configure, holders, keys

OTHER = "other-secret-0123456789"


def test_another_key_is_taken_out_of_errors_and_of_the_log(tmp_path: Path, own_home: Path) -> None:
    refusal = Fault("server_error", message=f"upstream said: {OTHER} is not known here")
    with ScriptedModel([refusal] * 9) as model:
        configure(own_home, model=at(model, wire="openai-chat", name="m"))
        keys(own_home, GROQ_API_KEY=OTHER)
        done = melete("run", "-v", "--json", "go", cwd=tmp_path)
        plain = melete("run", "-v", "go", cwd=tmp_path)
    for text in (done.stdout, done.stderr, plain.stdout, plain.stderr):
        assert OTHER not in text
    assert "[redacted:GROQ_API_KEY]" in plain.stderr
    assert holders(own_home, OTHER) == [".env"]
