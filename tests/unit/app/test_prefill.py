"""Messages before every conversation: what their file may hold."""

from pathlib import Path

import pytest

from melete.app.prefill import read_prefill
from melete.core.errors import ConfigError
from melete.core.message import Message


def read(path: str, home: Path) -> tuple[Message, ...]:
    return read_prefill(path, where="config.yaml:3", home=home)


def test_a_list_of_messages_is_read_from_the_home(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]')
    assert [(m.role, m.text) for m in read("p.json", tmp_path)] == [("user", "Hi"), ("assistant", "Yes?")]
    assert read(str(tmp_path / "p.json"), Path("/nowhere")) == read("p.json", tmp_path)
    assert read("", tmp_path) == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}", "not a list of messages"),
        ('[{"role": "system", "content": "x"}]', "not a list of messages"),
        ('[{"role": "user"}]', "not a list of messages"),
        ("[", "not a list of messages"),
        (None, "No such file"),
    ],
)
def test_anything_else_is_told_with_the_line_that_names_it(tmp_path: Path, content: str | None, words: str) -> None:
    if content is not None:
        (tmp_path / "p.json").write_text(content)
    with pytest.raises(ConfigError, match=f"config.yaml:3.*{words}"):
        read("p.json", tmp_path)
